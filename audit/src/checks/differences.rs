//! One-sided and central differences of a function that is itself computed with a little noise.

/// Steps, relative to the size of the input.
const STEPS: [f64; 5] = [1e-2, 1e-3, 1e-4, 1e-5, 1e-6];
/// Roundings of the input that a step has at least.
const FINEST: f64 = 100.0;
/// Assumed noise of a solved layer, relative to the size of the function.
const NOISE: f64 = 1e-11;

/// An extrapolated difference and how well it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) value: f64,
    pub(crate) error: f64,
}

/// The derivative from both sides, where there is a side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sides {
    pub(crate) forward: Option<Estimate>,
    pub(crate) backward: Option<Estimate>,
    pub(crate) central: Option<Estimate>,
    /// What a derivative of ordinary size would be.
    pub(crate) unit: f64,
}

impl Sides {
    /// Nothing is known.
    pub(crate) fn unknown(unit: f64) -> Self {
        Self {
            forward: None,
            backward: None,
            central: None,
            unit,
        }
    }

    /// Whether both sides are known well and differ.
    pub(crate) fn kink(&self) -> bool {
        let (Some(f), Some(b)) = (self.forward, self.backward) else {
            return false;
        };
        let size = f.value.abs().max(b.value.abs());
        (f.value - b.value).abs() > 1e-2 * size + 10.0 * (f.error + b.error) + 1e-4 * self.unit
    }

    /// Whether both sides are known well and agree.
    pub(crate) fn smooth(&self) -> bool {
        let (Some(f), Some(b)) = (self.forward, self.backward) else {
            return false;
        };
        let size = f.value.abs().max(b.value.abs());
        let close = 1e-4 * size + 1e-6 * self.unit;
        (f.value - b.value).abs() <= close && f.error + b.error <= close
    }

    /// The best estimate of a two-sided derivative, or of the only side there is.
    pub(crate) fn best(&self) -> Option<Estimate> {
        self.central.or(self.forward).or(self.backward)
    }

    /// Whether a gradient is this estimate, as far as that is known; `None` when too little is.
    pub(crate) fn agrees(&self, gradient: f64, estimate: Estimate) -> Option<bool> {
        let size = gradient.abs().max(estimate.value.abs());
        if estimate.error > 1e-3 * estimate.value.abs() + 1e-6 * self.unit {
            return None;
        }
        Some((gradient - estimate.value).abs() <= 2e-3 * size + 5.0 * estimate.error + 1e-5 * self.unit)
    }
}

/// Differences of a function around a value, for an input of the given size and function values of the given size.
///
/// A step is the one that was taken: beside a large value, floats are too coarse for the one that was meant.
pub(crate) fn sides(
    mut function: impl FnMut(f64) -> Option<f64>,
    value: f64,
    input: f64,
    size: f64,
    both: bool,
) -> Sides {
    let unit = size / input;
    let mut found = Sides::unknown(unit);
    let Some(middle) = function(value) else {
        return found;
    };
    let can_be_taken = |step: &&f64| *step * input > FINEST * f64::EPSILON * value.abs();
    let mut ladder = |sign: f64| -> Option<Vec<f64>> {
        let rungs = STEPS.iter().take_while(can_be_taken).map(|step| {
            let moved = value + sign * step * input;
            Some((function(moved)? - middle) / (moved - value))
        });
        rungs
            .collect::<Option<Vec<f64>>>()
            .filter(|rungs| rungs.len() > 2)
    };
    let forward = ladder(1.0);
    let backward = if both { ladder(-1.0) } else { None };
    if let (Some(f), Some(b)) = (&forward, &backward) {
        let central: Vec<f64> = f.iter().zip(b).map(|(f, b)| 0.5 * (f + b)).collect();
        found.central = Some(extrapolate(&central, 100.0, unit));
    }
    found.forward = forward.map(|ladder| extrapolate(&ladder, 10.0, unit));
    found.backward = backward.map(|ladder| extrapolate(&ladder, 10.0, unit));
    found
}

/// Richardson's extrapolation along the ladder; the pair of neighbours that agree best wins.
fn extrapolate(ladder: &[f64], ratio: f64, unit: f64) -> Estimate {
    let refined: Vec<f64> = ladder
        .windows(2)
        .map(|pair| (ratio * pair[1] - pair[0]) / (ratio - 1.0))
        .collect();
    let mut best = Estimate {
        value: f64::NAN,
        error: f64::INFINITY,
    };
    for k in 1..refined.len() {
        let error = (refined[k] - refined[k - 1]).abs() + 2.0 * NOISE / STEPS[k + 1] * unit;
        if error < best.error {
            best = Estimate {
                value: refined[k],
                error,
            };
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smooth_function_has_one_derivative_and_a_kink_two() {
        let smooth = sides(|x| Some(x.exp()), 1.0, 1.0, 1.0, true);
        assert!(smooth.smooth() && !smooth.kink());
        let estimate = smooth.best().unwrap();
        assert_eq!(smooth.agrees(1.0_f64.exp(), estimate), Some(true));
        assert_eq!(smooth.agrees(2.6, estimate), Some(false));
        let bent = sides(|h| Some(if h > 0.0 { 3.0 * h } else { h }), 0.0, 1.0, 1.0, true);
        assert!(bent.kink() && !bent.smooth());
        assert_eq!(bent.agrees(3.0, bent.forward.unwrap()), Some(true));
        assert_eq!(bent.agrees(2.0, bent.forward.unwrap()), Some(false));
    }

    #[test]
    fn a_side_that_is_not_there_is_not_judged() {
        let one = sides(|h| (h >= 0.0).then_some(2.0 * h), 0.0, 1.0, 1.0, false);
        assert!(one.backward.is_none() && !one.kink() && !one.smooth());
        assert_eq!(one.agrees(2.0, one.best().unwrap()), Some(true));
    }

    /// Floats beside 1 are 1e-16 apart: of five rungs three can be taken, none of them as it was meant.
    #[test]
    fn steps_are_those_that_floats_can_take() {
        let steep = sides(|x| Some((1e10 * (x - 1.0)).exp()), 1.0, 1e-9, 1.0, true);
        let estimate = steep.best().unwrap();
        assert!((estimate.value / 1e10 - 1.0).abs() < 1e-4, "{estimate:?}");
        // Two steps that floats can take are none that can be compared.
        let steeper = sides(|x| Some(1e15 * (x - 1.0)), 1.0, 1e-15, 1.0, true);
        assert_eq!(steeper.best(), None);
    }
}
