//! Recognises weighted fairness, for which several policies have a closed form.

use laau_core::{Dimensions, SmoothProblem};

/// The box of a weighted-fairness problem: one action `x` in `[lower, upper]`, utility `c ln x`, usage `x`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct FairnessBounds {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

impl FairnessBounds {
    /// The box, if the problem is weighted fairness. Not by its name alone: cost and usage are evaluated as well.
    pub(crate) fn of(problem: &dyn SmoothProblem) -> Option<Self> {
        const ONE_OF_EACH: Dimensions = Dimensions {
            actions: 1,
            budgets: 1,
            context: 1,
        };
        if problem.name() != "weighted-fairness" || problem.dimensions() != ONE_OF_EACH {
            return None;
        }
        let (lower, upper) = (problem.lower()[0], problem.upper()[0]);
        let agrees = [lower, 0.5 * (lower + upper), upper].into_iter().all(|x| {
            let mut usage = [0.0];
            problem.usage(&[x], &[0.7], &mut usage);
            let cost = problem.cost(&[x], &[0.7]);
            usage[0] == x && (cost + 0.7 * x.ln()).abs() <= 1e-12 * cost.abs().max(1.0)
        });
        (lower > 0.0 && agrees).then_some(Self { lower, upper })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laau_core::problems::{LogUtility, WeightedFairness};

    #[test]
    fn weighted_fairness_is_recognised_and_nothing_else() {
        let fair = FairnessBounds::of(&WeightedFairness::new(2.0, 9.0).unwrap());
        assert_eq!(
            fair,
            Some(FairnessBounds {
                lower: 2.0,
                upper: 9.0
            })
        );
        let other = LogUtility::new(1, 1, vec![1.0], 2.0, 9.0).unwrap();
        assert_eq!(FairnessBounds::of(&other), None);
    }
}
