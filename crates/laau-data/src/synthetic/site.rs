//! Loads and grid of a data centre, for `laau_core::problems::PowerProvisioning`.

use std::f64::consts::TAU;

use super::ContextProcess;
use super::vm::Autoregression;
use crate::error::{Error, at_least_one, positive, within};
use crate::random::{Purpose, normal, stream, uniform};

/// A data centre: daily loads, and a grid whose carbon intensity falls when the sun is up.
///
/// With `σ` the logistic function, `day_t = cos(2π (t + phase) / day)` (1 at noon) and every noise an AR(1),
///
/// ```text
///     c_t,i = most_load · σ(swing_i · day_t + noise_t,i)                   i = 0 swings with the day, others less and against it
///     k_t   = most_intensity · (cleanest + (1 − cleanest) · σ(−sun · day_t + wind_t))
/// ```
///
/// Loads and intensities stay in their ranges without any clipping. The phase is uniform, so episodes begin at any hour.
///
/// | parameter | default | purpose | range |
/// |---|---|---|---|
/// | `loads` | 2 | workloads: interactive, then batch | ≥ 1 |
/// | `day` | 24 | steps in a day: a step is an hour | > 0 |
/// | `swing` | 1.5 | of the interactive load, in the exponent; the others swing by −0.3 of it | 0 to 10 |
/// | `noise` | 0.5 | deviation of the loads, in the exponent | 0 to 10 |
/// | `sun` | 1.5 | swing of the intensity, in the exponent | 0 to 10 |
/// | `wind` | 0.7 | deviation of the intensity, in the exponent | 0 to 10 |
/// | `memory` | 0.8 | autocorrelation of loads' noise and wind from step to step | 0 to 1 |
/// | `cleanest` | 0.3 | the least intensity, as a share of the greatest | 0 to 1 |
/// | `most_load`, `most_intensity` | 1, 1 | those of the problem | > 0 |
/// | `energy` | (4, 6) | budget per step | 0 ≤ lo ≤ hi |
/// | `carbon` | (2.6, 3.8) | budget per step | 0 ≤ lo ≤ hi |
///
/// **Budgets.** Delay falls with every server, so without budgets every step would take all, an energy of 10.8; the least
/// is 1.98. An energy of 4 to 6 is between, and about half of what all servers take. The intensity is 0.65 of the greatest in
/// the middle, so 5 of energy go with 3.25 of carbon: the range of carbon goes a fifth to either side, and either
/// budget may be the scarcer one. Carbon must also cover the reserve, 1.98 a step.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Site {
    /// Number of workloads.
    pub loads: usize,
    /// Steps in a day.
    pub day: f64,
    /// Swing of the interactive load, in the exponent.
    pub swing: f64,
    /// Deviation of the loads, in the exponent.
    pub noise: f64,
    /// Swing of the intensity, in the exponent.
    pub sun: f64,
    /// Deviation of the intensity, in the exponent.
    pub wind: f64,
    /// Autocorrelation of the noises from step to step.
    pub memory: f64,
    /// The least intensity, as a share of the greatest.
    pub cleanest: f64,
    /// The greatest load.
    pub most_load: f64,
    /// The greatest intensity.
    pub most_intensity: f64,
    /// Least and greatest budget of energy, per step.
    pub energy: (f64, f64),
    /// Least and greatest budget of carbon, per step.
    pub carbon: (f64, f64),
}

impl Default for Site {
    fn default() -> Self {
        Self {
            loads: 2,
            day: 24.0,
            swing: 1.5,
            noise: 0.5,
            sun: 1.5,
            wind: 0.7,
            memory: 0.8,
            cleanest: 0.3,
            most_load: 1.0,
            most_intensity: 1.0,
            energy: (4.0, 6.0),
            carbon: (2.6, 3.8),
        }
    }
}

/// How the loads but the first swing, as a share of the first one's.
const BATCH_SWING: f64 = -0.3;

impl ContextProcess for Site {
    fn context_len(&self) -> usize {
        self.loads + 1
    }

    fn budgets(&self) -> Vec<(f64, f64)> {
        vec![self.energy, self.carbon]
    }

    fn validate(&self) -> Result<(), Error> {
        at_least_one("number of loads", self.loads)?;
        for (what, value) in [
            ("day", self.day),
            ("greatest load", self.most_load),
            ("greatest intensity", self.most_intensity),
        ] {
            positive(what, value)?;
        }
        for (what, value) in [
            ("swing", self.swing),
            ("noise", self.noise),
            ("sun", self.sun),
            ("wind", self.wind),
        ] {
            within(what, value, 0.0, 10.0)?;
        }
        for (what, value) in [("memory", self.memory), ("least intensity", self.cleanest)] {
            within(what, value, 0.0, 1.0)?;
        }
        Ok(())
    }

    fn series(&self, seed: u64, series: u64, len: usize) -> Vec<f64> {
        let mut generator = stream(seed, Purpose::Site, series);
        let g = &mut generator;
        let mut hour = self.day * uniform(g);
        let mut noises: Vec<Autoregression> = (0..self.loads)
            .map(|_| Autoregression::stationary(self.noise, self.memory, g))
            .collect();
        let mut wind = Autoregression::stationary(self.wind, self.memory, g);
        let mut contexts = Vec::with_capacity(len * (self.loads + 1));
        for _ in 0..len {
            let daylight = libm::cos(TAU * hour / self.day);
            contexts.extend(noises.iter().enumerate().map(|(i, noise)| {
                let swing = if i == 0 {
                    self.swing
                } else {
                    BATCH_SWING * self.swing
                };
                self.most_load * logistic(swing * daylight + noise.value)
            }));
            let dirt = logistic(wind.value - self.sun * daylight);
            contexts.push(self.most_intensity * (self.cleanest + (1.0 - self.cleanest) * dirt));
            hour = (hour + 1.0) % self.day;
            for noise in noises.iter_mut().chain([&mut wind]) {
                noise.advance(normal(g));
            }
        }
        contexts
    }
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

#[cfg(test)]
mod tests {
    use super::super::process::tests::{
        autocorrelation, check_law, check_refused, column, correlation, mean,
    };
    use super::*;
    use laau_core::problems::PowerProvisioning;

    #[test]
    fn the_law_never_changes_and_fits_its_problem() {
        check_law(
            &Site::default(),
            &PowerProvisioning::two_loads(),
            0x3143_e9fb_8f1c_b88e,
        );
    }

    #[test]
    fn days_come_back_and_the_grid_is_clean_when_people_work() {
        let law = Site::default();
        let [interactive, batch, intensity] = [0, 1, 2].map(|entry| column(&law, entry, 1000, 72));
        for loads in [&interactive, &batch] {
            assert!(loads.iter().flatten().all(|c| *c > 0.0 && *c < 1.0));
            assert!((mean(loads) - 0.5).abs() < 0.02, "{}", mean(loads));
        }
        assert!(intensity.iter().flatten().all(|k| (0.3..1.0).contains(k)));
        assert!((mean(&intensity) - 0.65).abs() < 0.02, "{}", mean(&intensity));
        // Half a day later the opposite, a day later the same.
        for rows in [&interactive, &intensity] {
            let (half, whole) = (autocorrelation(rows, 12), autocorrelation(rows, 24));
            assert!(half < -0.5 && whole > 0.5, "{half}, {whole}");
        }
        let flat = |rows: &[Vec<f64>]| rows.concat();
        let pairs = |a: &[Vec<f64>], b: &[Vec<f64>]| correlation(flat(a).into_iter().zip(flat(b)));
        let with_load = pairs(&interactive, &intensity);
        assert!(with_load < -0.5, "{with_load}");
        let of_loads = pairs(&interactive, &batch);
        assert!((-0.6..-0.2).contains(&of_loads), "{of_loads}");
    }

    #[test]
    fn bad_parameters_are_refused_with_a_word() {
        let law = Site::default();
        check_refused(
            &Site {
                loads: 0,
                ..law.clone()
            },
            "invalid number of loads: expected at least 1, found 0",
        );
        check_refused(
            &Site {
                cleanest: 1.5,
                ..law.clone()
            },
            "invalid least intensity: expected a value from 0 to 1, found 1.5",
        );
        check_refused(
            &Site { day: 0.0, ..law },
            "invalid day: expected a positive value, found 0",
        );
    }
}
