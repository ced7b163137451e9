//! Requests to a language model, for `laau_core::problems::LlmTokens`.

use super::ContextProcess;
use super::vm::Autoregression;
use crate::error::{Error, expect, positive, within};
use crate::random::{Purpose, normal, stream, uniform};

/// Requests of two classes, short and long outputs, second by second: a Poisson number of them at a rate that wanders, each with
/// log-normal numbers of prompt and output tokens.
///
/// ```text
///     rate_t,i = rate_i · exp(g_t,i − d_i² / 2),   g an AR(1) of deviation d_i
///     a_t,i    = Σ (prompt + output) / 1000 over the requests of the second,   s_t,i = the prompts' share of it
/// ```
///
/// The defaults are the statistics of the first three fifths of an hour of a production service (Azure Public Dataset, LLM
/// inference trace 2023, conversation; Patel et al., ISCA 2024); what comes after is for tests on the trace. A request is long
/// from 201 output tokens on: outputs have two modes, with few between 200 and 300.
///
/// | parameter | default | purpose | range |
/// |---|---|---|---|
/// | `rates` | (3.79, 2.09) | requests a second of each class | > 0 |
/// | `deviations` | (0.45, 0.30) | of the rates' logarithms: what the counts of a minute spread beyond a Poisson law | 0 to 3 |
/// | `memory` | 0.98 | autocorrelation of the rates from second to second: counts are as alike 24 seconds apart as one | 0 to 1 |
/// | `prompts` | (6.60, 1.15), (6.88, 0.47) | mean and deviation of the logarithm of prompt tokens | |
/// | `outputs` | (4.39, 0.53), (5.99, 0.22) | the same of output tokens | |
/// | `longest` | 14 | the longest prompt, in thousands: the service's limit | > 0 |
/// | `tokens` | (3.4, 5.1) | budget per step, in thousands | 0 ≤ lo ≤ hi |
/// | `spend` | (4.6, 6.8) | budget per step, at 1 for a thousand tokens in and 3 for a thousand out | 0 ≤ lo ≤ hi |
///
/// **Budgets.** The trace asks for 8.5 thousand tokens a second. Half of it is granted on average, 4.26, and a fifth to either side; at
/// the mean price of 1.34 that is a spend of 5.7, and a fifth to either side. Either budget may be the scarcer one.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Requests {
    /// Requests a second of each class.
    pub rates: [f64; 2],
    /// Deviations of the rates' logarithms.
    pub deviations: [f64; 2],
    /// Autocorrelation of the rates from second to second.
    pub memory: f64,
    /// Mean and deviation of the logarithm of prompt tokens.
    pub prompts: [(f64, f64); 2],
    /// Mean and deviation of the logarithm of output tokens.
    pub outputs: [(f64, f64); 2],
    /// The longest prompt, in thousands of tokens.
    pub longest: f64,
    /// Least and greatest budget of tokens, per step.
    pub tokens: (f64, f64),
    /// Least and greatest budget of spend, per step.
    pub spend: (f64, f64),
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            rates: [3.79, 2.09],
            deviations: [0.45, 0.30],
            memory: 0.98,
            prompts: [(6.60, 1.15), (6.88, 0.47)],
            outputs: [(4.39, 0.53), (5.99, 0.22)],
            longest: 14.0,
            tokens: (3.4, 5.1),
            spend: (4.6, 6.8),
        }
    }
}

impl Requests {
    /// The share of prompt tokens that stands for a class without requests, where it has no meaning.
    pub const NO_REQUESTS: f64 = 0.8;

    /// From how many output tokens on a request is long.
    pub const LONG: f64 = 200.5;
}

impl ContextProcess for Requests {
    fn context_len(&self) -> usize {
        4
    }

    fn budgets(&self) -> Vec<(f64, f64)> {
        vec![self.tokens, self.spend]
    }

    fn validate(&self) -> Result<(), Error> {
        for rate in self.rates {
            // A Poisson number is drawn in as many steps as it is large.
            expect(
                "rate",
                rate,
                rate > 0.0 && rate <= 1000.0,
                "a positive value, at most 1000",
            )?;
        }
        for deviation in self.deviations {
            within("deviation of the rates", deviation, 0.0, 3.0)?;
        }
        within("memory", self.memory, 0.0, 1.0)?;
        for (mean, deviation) in self.prompts.into_iter().chain(self.outputs) {
            within("mean logarithm of tokens", mean, 0.0, 20.0)?;
            within("deviation of tokens", deviation, 0.0, 5.0)?;
        }
        positive("longest prompt", self.longest)
    }

    fn series(&self, seed: u64, series: u64, len: usize) -> Vec<f64> {
        let mut generator = stream(seed, Purpose::Requests, series);
        let g = &mut generator;
        let mut noises = self
            .deviations
            .map(|deviation| Autoregression::stationary(deviation, self.memory, g));
        let mut contexts = Vec::with_capacity(4 * len);
        for _ in 0..len {
            let mut shares = [Self::NO_REQUESTS; 2];
            for class in 0..2 {
                let deviation = self.deviations[class];
                noises[class].advance(normal(g));
                let wander = noises[class].value - 0.5 * deviation * deviation;
                let count = poisson(self.rates[class] * libm::exp(wander), uniform(g));
                let (mut prompts, mut outputs) = (0.0, 0.0);
                for _ in 0..count {
                    let mut tokens =
                        |(mean, spread): (f64, f64)| libm::exp(mean + spread * normal(g)) / 1000.0;
                    prompts += tokens(self.prompts[class]).min(self.longest);
                    outputs += tokens(self.outputs[class]);
                }
                contexts.push(prompts + outputs);
                if count > 0 {
                    shares[class] = prompts / (prompts + outputs);
                }
            }
            contexts.extend(shares);
        }
        contexts
    }
}

/// A Poisson number from a uniform one, by inversion.
fn poisson(rate: f64, uniform: f64) -> usize {
    let mut probability = libm::exp(-rate);
    let mut sum = probability;
    let mut count = 0;
    // Beyond ten times the rate the probabilities are lost in rounding.
    let most = 10.0 * rate + 50.0;
    while uniform >= sum && (count as f64) < most {
        count += 1;
        probability *= rate / count as f64;
        sum += probability;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::{autocorrelation, check_law, check_refused, column};
    use super::*;
    use laau_core::problems::LlmTokens;

    #[test]
    fn the_law_never_changes_and_fits_its_problem() {
        check_law(
            &Requests::default(),
            &LlmTokens::two_classes(),
            0xad19_ff91_ea31_9dd9,
        );
    }

    #[test]
    fn demand_has_the_statistics_of_the_trace() {
        let law = Requests::default();
        // Means, deviations and the share of seconds without a request, as measured on the first three fifths of the trace.
        for (class, mean, deviation, empty) in [(0, 5.47, 4.92, 0.063), (1, 3.04, 2.42, 0.178)] {
            let rows = column(&law, class, 2000, 24);
            let all: Vec<f64> = rows.concat();
            let average = all.iter().sum::<f64>() / all.len() as f64;
            let square = all.iter().map(|a| (a - average) * (a - average)).sum::<f64>() / all.len() as f64;
            let zeros = all.iter().filter(|a| **a == 0.0).count() as f64 / all.len() as f64;
            assert!(
                (average / mean - 1.0).abs() < 0.1,
                "class {class}: mean {average}"
            );
            assert!(
                (square.sqrt() / deviation - 1.0).abs() < 0.15,
                "class {class}: {}",
                square.sqrt()
            );
            assert!((zeros - empty).abs() < 0.04, "class {class}: {zeros} empty");
            let alike = autocorrelation(&rows, 1);
            assert!((0.02..0.4).contains(&alike), "class {class}: {alike}");
        }
        for (class, share) in [(2, 0.894), (3, 0.714)] {
            let all: Vec<f64> = column(&law, class, 500, 24).concat();
            let average = all.iter().sum::<f64>() / all.len() as f64;
            assert!((average - share).abs() < 0.03, "share {class}: {average}");
        }
    }

    #[test]
    fn bad_parameters_are_refused_with_a_word() {
        check_refused(
            &Requests {
                rates: [0.0, 1.0],
                ..Requests::default()
            },
            "invalid rate: expected a positive value, at most 1000, found 0",
        );
    }
}
