//! Fading channels, for `laau_core::problems::Wireless`.

use super::ContextProcess;
use super::vm::Autoregression;
use crate::error::{Error, at_least_one, expect, within};
use crate::random::{Purpose, normal, stream, uniform};

/// Users on fading sub-channels: Gauss–Markov Rayleigh fading, correlated in time and between sub-channels.
///
/// ```text
///     a_t,i = √κ common_t + √(1 − κ) own_t,i             complex, each part an AR(1) of memory ρ and variance 1
///     h_t,i = max(floor, g |a_t,i|²)                     g = e^{shadowing z}: the user's distance and shadowing
///     q_t   = 1, or `urgent` while the user is pressed   a two-state chain
/// ```
///
/// `|a|²` is exponential with mean 1, as under Rayleigh fading. By Jakes' model a memory of 0.9 between steps is a Doppler
/// shift of a tenth of the step rate (`J₀(2π · 0.1) = 0.904`).
///
/// | parameter | default | purpose | range |
/// |---|---|---|---|
/// | `channels` | 3 | sub-channels | ≥ 1 |
/// | `memory` | 0.9 | autocorrelation `ρ` of the complex gain from step to step | 0 to 1 |
/// | `coherence` | 0.5 | correlation `κ` of the complex gains of two sub-channels | 0 to 1 |
/// | `shadowing` | 0.5 | how users differ, in the exponent | 0 to 10 |
/// | `floor` | 0.01 | the least gain (−20 dB): what a receiver still measures | > 0 |
/// | `urgent` | 3 | priority of a pressed user | ≥ 1 |
/// | `begins`, `ends` | 0.1, 0.3 | probability that a user becomes, or ceases to be, pressed | 0 to 1 |
/// | `energy` | (3, 7) | budget per step | 0 ≤ lo ≤ hi |
/// | `spectrum` | (3, 5) | budget per step | 0 ≤ lo ≤ hi |
///
/// **Budgets.** Utility grows with every rate, so without budgets every step would take 4 on each of three sub-channels: a
/// spectrum of 12 and an energy of 45 at gains of 1. The ranges are about a third of that spectrum and the energy that goes
/// with it: 4 spread evenly takes 3 (2^{4/3} − 1) = 4.6 at gains of 1. Each of the two is the scarcer one in a part of the
/// episodes.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Fading {
    /// Number of sub-channels.
    pub channels: usize,
    /// Autocorrelation of the complex gain from step to step.
    pub memory: f64,
    /// Correlation of the complex gains of two sub-channels.
    pub coherence: f64,
    /// How users differ, in the exponent.
    pub shadowing: f64,
    /// The least gain.
    pub floor: f64,
    /// Priority of a pressed user.
    pub urgent: f64,
    /// Probability that a user becomes pressed.
    pub begins: f64,
    /// Probability that a user ceases to be pressed.
    pub ends: f64,
    /// Least and greatest budget of energy, per step.
    pub energy: (f64, f64),
    /// Least and greatest budget of spectrum, per step.
    pub spectrum: (f64, f64),
}

impl Default for Fading {
    fn default() -> Self {
        Self {
            channels: 3,
            memory: 0.9,
            coherence: 0.5,
            shadowing: 0.5,
            floor: 0.01,
            urgent: 3.0,
            begins: 0.1,
            ends: 0.3,
            energy: (3.0, 7.0),
            spectrum: (3.0, 5.0),
        }
    }
}

impl ContextProcess for Fading {
    fn context_len(&self) -> usize {
        self.channels + 1
    }

    fn budgets(&self) -> Vec<(f64, f64)> {
        vec![self.energy, self.spectrum]
    }

    fn validate(&self) -> Result<(), Error> {
        at_least_one("number of channels", self.channels)?;
        for (what, value) in [
            ("memory", self.memory),
            ("coherence", self.coherence),
            ("chance to begin", self.begins),
            ("chance to end", self.ends),
        ] {
            within(what, value, 0.0, 1.0)?;
        }
        within("shadowing", self.shadowing, 0.0, 10.0)?;
        expect(
            "least gain",
            self.floor,
            self.floor >= 1e-9 && self.floor.is_finite(),
            "at least 1e-9",
        )?;
        expect(
            "priority of a pressed user",
            self.urgent,
            self.urgent >= 1.0 && self.urgent.is_finite(),
            "at least 1",
        )
    }

    fn series(&self, seed: u64, series: u64, len: usize) -> Vec<f64> {
        let mut generator = stream(seed, Purpose::Fading, series);
        let g = &mut generator;
        let gain = libm::exp(self.shadowing * normal(g));
        let often = self.begins + self.ends;
        let mut pressed = often > 0.0 && uniform(g) < self.begins / often;
        // Real and imaginary parts have a variance of one half each; the first pair is common to all channels.
        let half = 0.5_f64.sqrt();
        let mut parts: Vec<[Autoregression; 2]> = (0..=self.channels)
            .map(|_| [(); 2].map(|()| Autoregression::stationary(half, self.memory, g)))
            .collect();
        let (shared, own) = (self.coherence.sqrt(), (1.0 - self.coherence).sqrt());
        let mut contexts = Vec::with_capacity(len * (self.channels + 1));
        for _ in 0..len {
            contexts.push(if pressed { self.urgent } else { 1.0 });
            let (common, channels) = (&parts[0], &parts[1..]);
            contexts.extend(channels.iter().map(|channel| {
                let power: f64 = channel
                    .iter()
                    .zip(common)
                    .map(|(part, common)| shared * common.value + own * part.value)
                    .map(|amplitude| amplitude * amplitude)
                    .sum();
                (gain * power).max(self.floor)
            }));
            for part in parts.iter_mut().flatten() {
                part.advance(normal(g));
            }
            let u = uniform(g);
            pressed = if pressed { u >= self.ends } else { u < self.begins };
        }
        contexts
    }
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::{
        autocorrelation, check_law, check_refused, column, correlation, mean,
    };
    use super::*;
    use laau_core::problems::Wireless;

    #[test]
    fn the_law_never_changes_and_fits_its_problem() {
        check_law(
            &Fading::default(),
            &Wireless::three_channels(),
            0xf1c1_dafd_2d73_b8b2,
        );
    }

    #[test]
    fn gains_are_exponential_and_correlated_in_time_and_frequency() {
        let alike = Fading {
            shadowing: 0.0,
            floor: 1e-9,
            ..Fading::default()
        };
        let [first, second] = [1, 2].map(|entry| column(&alike, entry, 4000, 20));
        assert!((mean(&first) - 1.0).abs() < 0.05, "{}", mean(&first));
        // P(h > 1) = 1/e, P(h > 3) = e⁻³.
        for level in [1.0, 3.0] {
            let above: Vec<Vec<f64>> = first
                .iter()
                .map(|row| row.iter().map(|h| f64::from(*h > level)).collect())
                .collect();
            assert!(
                (mean(&above) - libm::exp(-level)).abs() < 0.012,
                "{}",
                mean(&above)
            );
        }
        // The correlation of powers is the square of that of complex gains.
        for lag in [1, 5] {
            let expected = libm::pow(0.9, 2.0 * f64::from(u8::try_from(lag).unwrap()));
            let found = autocorrelation(&first, lag);
            assert!(
                (found - expected).abs() < 0.04,
                "lag {lag}: {found} for {expected}"
            );
        }
        let pairs = first
            .iter()
            .flatten()
            .copied()
            .zip(second.iter().flatten().copied());
        let across = correlation(pairs);
        assert!((across - 0.25).abs() < 0.04, "{across}");
    }

    #[test]
    fn priorities_are_one_or_urgent_and_a_quarter_of_the_time_urgent() {
        let priorities = column(&Fading::default(), 0, 1000, 40);
        assert!(priorities.iter().flatten().all(|q| *q == 1.0 || *q == 3.0));
        let share = (mean(&priorities) - 1.0) / 2.0;
        assert!((share - 0.25).abs() < 0.02, "{share}");
        // 1 − begins − ends.
        let lasting = autocorrelation(&priorities, 1);
        assert!((lasting - 0.6).abs() < 0.03, "{lasting}");
        let gains = column(&Fading::default(), 3, 1000, 40);
        assert!(gains.iter().flatten().all(|h| *h >= 0.01));
    }

    #[test]
    fn bad_parameters_are_refused_with_a_word() {
        let law = Fading::default();
        check_refused(
            &Fading {
                channels: 0,
                ..law.clone()
            },
            "invalid number of channels: expected at least 1, found 0",
        );
        check_refused(
            &Fading {
                floor: 0.0,
                ..law.clone()
            },
            "invalid least gain: expected at least 1e-9, found 0",
        );
        check_refused(
            &Fading {
                energy: (7.0, 3.0),
                ..law
            },
            "invalid greatest budget per step: expected a finite value, at least the least budget, found 3",
        );
    }
}
