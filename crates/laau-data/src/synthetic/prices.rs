//! Prices of a market, for `laau_core::problems::Trading`.

use super::ContextProcess;
use crate::error::{Error, expect, positive};
use crate::random::{Purpose, normal, stream, uniform};

/// A geometric random walk between two prices: a step that would leave the range is reflected at its end.
///
/// ```text
///     ln p_{t+1} = reflect(ln p_t + volatility · z),   p in [least, most],   ln p_1 uniform
/// ```
///
/// The uniform law of the logarithm is the stationary one. Reflection keeps the steps as large at the ends of the range as in
/// its middle; a clip would pile prices up at the ends.
///
/// | parameter | default | purpose | range |
/// |---|---|---|---|
/// | `least`, `most` | 1, 4 | the range of prices, known to every policy | 0 < least < most |
/// | `volatility` | 0.15 | standard deviation of the logarithm from step to step | > 0 |
/// | `inventory` | (2, 4) | what there is to sell, per step | 0 ≤ lo ≤ hi |
///
/// **Budgets.** A sale of up to 10 a step raises revenue at every price of the range (`p − 0.05 x > 0`), so without a
/// budget every step would sell 10. With 2 to 4 a step, the inventory is gone after a fifth to two fifths of the steps
/// at full speed: it binds, and when to sell is the question.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Prices {
    /// The least price.
    pub least: f64,
    /// The greatest price.
    pub most: f64,
    /// Standard deviation of the logarithm from step to step.
    pub volatility: f64,
    /// Least and greatest inventory, per step.
    pub inventory: (f64, f64),
}

impl Default for Prices {
    fn default() -> Self {
        Self {
            least: 1.0,
            most: 4.0,
            volatility: 0.15,
            inventory: (2.0, 4.0),
        }
    }
}

impl ContextProcess for Prices {
    fn context_len(&self) -> usize {
        1
    }

    fn budgets(&self) -> Vec<(f64, f64)> {
        vec![self.inventory]
    }

    fn validate(&self) -> Result<(), Error> {
        positive("least price", self.least)?;
        expect(
            "greatest price",
            self.most,
            self.most > self.least && self.most.is_finite(),
            "a finite value above the least price",
        )?;
        expect(
            "volatility",
            self.volatility,
            self.volatility > 0.0 && self.volatility <= 10.0,
            "a positive value, at most 10",
        )
    }

    fn series(&self, seed: u64, series: u64, len: usize) -> Vec<f64> {
        let mut generator = stream(seed, Purpose::Prices, series);
        let g = &mut generator;
        let width = libm::log(self.most / self.least);
        let mut height = width * uniform(g);
        (0..len)
            .map(|_| {
                let price = (self.least * libm::exp(height)).clamp(self.least, self.most);
                height = reflect(height + self.volatility * normal(g), width);
                price
            })
            .collect()
    }
}

/// Reflects a number into `[0, width]`.
fn reflect(height: f64, width: f64) -> f64 {
    let folded = height.rem_euclid(2.0 * width);
    folded.min(2.0 * width - folded)
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::{autocorrelation, check_law, check_refused, column};
    use super::*;
    use laau_core::problems::Trading;

    #[test]
    fn the_law_never_changes_and_fits_its_problem() {
        check_law(&Prices::default(), &Trading::inventory(), 0x9042_abc0_5900_03f4);
    }

    #[test]
    fn logarithms_are_uniform_at_every_step_and_steps_have_the_volatility() {
        let law = Prices::default();
        let rows = column(&law, 0, 4000, 20);
        let width = libm::log(4.0);
        for step in [0, 1, 19] {
            let mut heights: Vec<f64> = rows.iter().map(|row| libm::log(row[step]) / width).collect();
            heights.sort_by(f64::total_cmp);
            assert!(heights[0] >= 0.0 && heights[3999] <= 1.0);
            // Kolmogorov: 1.95/√n is exceeded once in a thousand.
            let worst = heights.iter().enumerate().fold(0.0, |worst: f64, (rank, value)| {
                worst.max((value - rank as f64 / 4000.0).abs())
            });
            assert!(worst < 1.95 / 4000f64.sqrt(), "step {step}: {worst}");
        }
        let logarithms: Vec<Vec<f64>> = rows
            .iter()
            .map(|row| row.iter().map(|p| libm::log(*p)).collect())
            .collect();
        let squares: Vec<f64> = logarithms
            .iter()
            .flat_map(|row| row.windows(2).filter(|w| (0.45..0.95).contains(&w[0])))
            .map(|w| (w[1] - w[0]) * (w[1] - w[0]))
            .collect();
        // Far from the ends nothing is reflected.
        let deviation = (squares.iter().sum::<f64>() / squares.len() as f64).sqrt();
        assert!((deviation - 0.15).abs() < 0.003, "{deviation}");
        // The slowest mode decays by e^{−(π σ / width)² / 2} a step.
        let expected = libm::exp(-0.5 * libm::pow(std::f64::consts::PI * 0.15 / width, 2.0));
        let lasting = autocorrelation(&logarithms, 1);
        assert!((lasting - expected).abs() < 0.01, "{lasting} for {expected}");
    }

    #[test]
    fn reflection_folds_into_the_range() {
        for (height, expected) in [
            (0.25, 0.25),
            (-0.25, 0.25),
            (1.25, 0.75),
            (2.25, 0.25),
            (-1.25, 0.75),
        ] {
            assert!((reflect(height, 1.0) - expected).abs() < 1e-15, "{height}");
        }
    }

    #[test]
    fn bad_parameters_are_refused_with_a_word() {
        let law = Prices::default();
        check_refused(
            &Prices {
                least: 0.0,
                ..law.clone()
            },
            "invalid least price: expected a positive value, found 0",
        );
        check_refused(
            &Prices {
                most: 1.0,
                ..law.clone()
            },
            "invalid greatest price: expected a finite value above the least price, found 1",
        );
        check_refused(
            &Prices {
                volatility: f64::NAN,
                ..law
            },
            "invalid volatility: expected a positive value, at most 10, found NaN",
        );
    }
}
