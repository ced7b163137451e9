//! One derivative by differences.

use laau_core::central_differences;

use super::GradcheckOptions;

/// What differences say.
pub(super) enum Difference {
    /// The function could not be evaluated nearby.
    Unsolved,
    /// The slope changes within the step.
    Kink,
    /// A slope, and the size below which slopes do not matter.
    Smooth { slope: f64, floor: f64 },
}

/// Where a function of one input is differentiated.
#[derive(Clone, Copy)]
pub(super) struct Point {
    /// The input.
    pub(super) at: f64,
    /// The largest size of an input of its kind; all may be 0.
    pub(super) largest: f64,
    /// The function is defined from here on.
    pub(super) from: f64,
    /// The size of the function's terms, which may cancel.
    pub(super) scale: f64,
}

impl Point {
    /// One of several inputs of a kind, all of which may be any number.
    pub(super) fn of(inputs: &[f64], index: usize) -> Self {
        Self {
            at: inputs[index],
            largest: inputs.iter().fold(0.0, |largest, input| input.abs().max(largest)),
            from: f64::NEG_INFINITY,
            scale: 0.0,
        }
    }

    /// The size that the step is relative to.
    fn size(self, options: &GradcheckOptions) -> f64 {
        let unit = if self.largest > 0.0 { self.largest } else { 1.0 };
        self.at.abs().max(options.smallest * unit)
    }
}

/// Differentiates a function at a point.
pub(super) fn difference(
    point: Point,
    options: &GradcheckOptions,
    function: &mut dyn FnMut(f64) -> Option<f64>,
) -> Difference {
    let Point { at, from, scale, .. } = point;
    let size = point.size(options);
    let h = options.step * size;
    let result = if at - h < from {
        one_sided(at, h, function)
    } else {
        central(at, h, function)
    };
    let Some((slope, change, value)) = result else {
        return Difference::Unsolved;
    };
    let floor = options.floor * value.abs().max(scale) / size;
    if change.abs() > options.kink * slope.abs().max(floor) {
        Difference::Kink
    } else {
        Difference::Smooth { slope, floor }
    }
}

/// The slope, how much it changes within the step beyond curvature, and the value.
type Estimate = Option<(f64, f64, f64)>;

fn central(at: f64, h: f64, function: &mut dyn FnMut(f64) -> Option<f64>) -> Estimate {
    let slopes = central_differences(at, h, &mut |x| function(x).map(|value| vec![value]).ok_or(())).ok()?;
    Some((slopes[0].slope, slopes[0].change, slopes[0].value))
}

/// The same from the right-hand side alone.
fn one_sided(at: f64, h: f64, function: &mut dyn FnMut(f64) -> Option<f64>) -> Estimate {
    let value = function(at)?;
    let mut slope = |h: f64| {
        let (one, two, three) = (
            function(at + h)?,
            function(at + 2.0 * h)?,
            function(at + 3.0 * h)?,
        );
        Some((-11.0 * value + 18.0 * one - 9.0 * two + 2.0 * three) / (6.0 * h))
    };
    let (wide, narrow) = (slope(h)?, slope(0.5 * h)?);
    Some((narrow, wide - narrow, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(at: f64, from: f64, function: impl Fn(f64) -> f64) -> Option<f64> {
        let point = Point {
            from,
            ..Point::of(&[at], 0)
        };
        match difference(point, &GradcheckOptions::default(), &mut |x| Some(function(x))) {
            Difference::Smooth { slope, .. } => Some(slope),
            Difference::Kink | Difference::Unsolved => None,
        }
    }

    #[test]
    fn smooth_functions_have_their_slopes() {
        assert!((check(2.0, f64::NEG_INFINITY, f64::sin).unwrap() - 2f64.cos()).abs() < 1e-10);
        assert!((check(0.0, 0.0, f64::exp).unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn kinks_are_seen_at_the_point_and_beside_it() {
        for off in [0.0, 1e-5, -3e-5, 6e-5, -9e-5] {
            assert_eq!(
                check(1.0, 0.0, |x| (x - 1.0 - off).abs() + 3.0 * x),
                None,
                "kink {off} away"
            );
        }
        assert!(check(1.0, 0.0, |x| (x - 1.1).abs() + 3.0 * x).is_some());
    }

    #[test]
    fn steps_are_relative_to_the_inputs_of_their_kind() {
        let smooth = |inputs: &[f64], index: usize| {
            let point = Point::of(inputs, index);
            let slope = difference(point, &GradcheckOptions::default(), &mut |x| Some(x.ln()));
            matches!(slope, Difference::Smooth { slope, .. } if (slope * inputs[index] - 1.0).abs() < 1e-8)
        };
        // A logarithm at 2e-5: a step of 1e-6 is a twentieth of the way to its pole, and looks like a kink.
        assert!(smooth(&[2e-5, 3e-5], 0));
        assert!(!smooth(&[2e-5, 1.0], 0));
    }
}
