//! What little an action uses above the lower corner, to full relative accuracy.

use laau_core::{Dimensions, SmoothProblem};

/// A room below this share of its budget is measured from the lower corners: as a difference of usages it has too few digits.
pub(super) const NARROW: f64 = 1e-6;

/// Nodes and weights of the Gauss rule on `[0, 1]`, exact for usages up to the eighth power.
const NODES: [(f64, f64); 4] = [
    (0.069_431_844_202_973_71, 0.173_927_422_568_726_93),
    (0.330_009_478_207_571_87, 0.326_072_577_431_273_07),
    (0.669_990_521_792_428_1, 0.326_072_577_431_273_07),
    (0.930_568_155_797_026_3, 0.173_927_422_568_726_93),
];

/// Memory for the rises of usage.
pub(super) struct Rises {
    x: Vec<f64>,
    jacobian: Vec<f64>,
    least: Vec<f64>,
    pub(super) usage: Vec<f64>,
}

impl Rises {
    pub(super) fn new(problem: &dyn SmoothProblem) -> Self {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = problem.dimensions();
        Self {
            x: vec![0.0; d],
            jacobian: vec![0.0; m * d],
            least: vec![0.0; m],
            usage: vec![0.0; m],
        }
    }

    /// What actions that have risen so far above their lower bounds use more than the lower corner: the integral of
    /// `∇g` along the way, where nothing cancels. Where it does not agree with the difference to rounding, because a usage
    /// bends too sharply for the rule, the difference stands.
    pub(super) fn measure(&mut self, problem: &dyn SmoothProblem, context: &[f64], rise: &[f64]) {
        const ROUNDINGS: f64 = 64.0;
        let (lower, upper) = (problem.lower(), problem.upper());
        let d = lower.len();
        let place = |x: &mut [f64], share: f64| {
            for i in 0..d {
                x[i] = (lower[i] + share * rise[i]).min(upper[i]);
            }
        };
        problem.usage(lower, context, &mut self.least);
        place(&mut self.x, 1.0);
        problem.usage(&self.x, context, &mut self.usage);
        let mut rises = vec![0.0; self.usage.len()];
        for (node, weight) in NODES {
            place(&mut self.x, node);
            problem.usage_jacobian(&self.x, context, &mut self.jacobian);
            for (sum, row) in rises.iter_mut().zip(self.jacobian.chunks_exact(d)) {
                *sum += weight * row.iter().zip(rise).map(|(j, u)| j * u).sum::<f64>();
            }
        }
        for ((used, least), sum) in self.usage.iter_mut().zip(&self.least).zip(rises) {
            let difference = *used - least;
            let rounding = ROUNDINGS * f64::EPSILON * (used.abs() + least.abs());
            *used = if (difference - sum).abs() <= rounding {
                sum
            } else {
                difference
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laau_core::{AutoDiff, Number, ProblemFunctions};

    /// Usage `10⁹ x₀² + x₁²`, or `exp(50 x₁)`.
    struct Curved(bool);

    impl ProblemFunctions for Curved {
        fn name(&self) -> &'static str {
            "curved"
        }
        fn dimensions(&self) -> Dimensions {
            Dimensions {
                actions: 2,
                budgets: 1,
                context: 1,
            }
        }
        fn lower(&self) -> &[f64] {
            &[1.0, 0.0]
        }
        fn upper(&self) -> &[f64] {
            &[2.0, 1.0]
        }
        fn cost<T: Number>(&self, x: &[T], c: &[T]) -> T {
            -(x[0] + x[1]) * c[0]
        }
        fn usage<T: Number>(&self, x: &[T], _: &[T], out: &mut [T]) {
            out[0] = if self.0 {
                (x[1] * 50.0).exp()
            } else {
                x[0] * x[0] * 1e9 + x[1] * x[1]
            };
        }
        fn least_usage(&self, out: &mut [f64]) {
            out[0] = if self.0 { 1.0 } else { 1e9 };
        }
    }

    #[test]
    fn a_rise_beneath_the_rounding_of_the_usage_has_all_its_digits() {
        let problem = AutoDiff::new(Curved(false)).unwrap();
        let mut rises = Rises::new(&problem);
        let (u, v) = (3e-18, 2e-5);
        rises.measure(&problem, &[1.0], &[u, v]);
        let exact = 2e9 * u + v * v;
        assert!(
            (rises.usage[0] - exact).abs() < 1e-14 * exact,
            "{:e}",
            rises.usage[0]
        );
    }

    #[test]
    fn a_usage_that_bends_too_sharply_is_the_difference() {
        let problem = AutoDiff::new(Curved(true)).unwrap();
        let mut rises = Rises::new(&problem);
        rises.measure(&problem, &[1.0], &[0.0, 1.0]);
        assert_eq!(rises.usage[0], 50.0_f64.exp() - 1.0);
    }
}
