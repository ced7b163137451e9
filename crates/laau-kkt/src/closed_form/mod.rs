//! The closed form of the weighted-fairness layer, behind the same traits as the general solver.
//!
//! The layer `min −c ln x + λ x` over `lower ≤ x ≤ min(upper, b)` has the solution and derivatives
//!
//! ```text
//!     z = c / λ            (+∞ when λ = 0; for c = λ = 0 every action is worth the same, and x = lower uses least)
//!     x = clip(z, lower, min(upper, b))
//!     lower ≤ z ≤ min(upper, b):   ∂x/∂λ = −z/λ,  ∂x/∂c = 1/λ,  ∂x/∂b = 0
//!     z > min(upper, b), b ≤ upper:    0,             0,            1
//!     otherwise:                       0,             0,            0
//! ```
//!
//! **At a kink** (`z` equal to a bound) a constraint is active with a zero dual. The derivative is then the one-sided
//! one of the side on which that constraint does not bind, as the table says, and its exactness is
//! [`Inexact::WeaklyActive`]. The same is said where two bounds meet: `b = upper` with `z` above, and `b = lower`.

mod formulas;
mod linear;

use std::sync::Arc;

use laau_core::problems::WeightedFairness;
use laau_core::{
    ClosedForm, Differentiate, Error, Exactness, GradientMut, Gradients, Inexact, Input, Problem, Queries,
    Query, SmoothProblem, SolutionMut, SolutionRef, Solutions, Status, StepSolver, check_queries,
    check_query,
};
use pulp::Arch;

use self::formulas::{backward, forward, target};
use crate::lengths::expect_length;

/// The weighted-fairness layer in closed form: a few nanoseconds a sample when batched, and no workspace at all.
#[derive(Debug, Clone)]
pub struct FairnessLayer {
    problem: Arc<WeightedFairness>,
    lower: f64,
    upper: f64,
    arch: Arch,
}

impl FairnessLayer {
    /// The layer of a weighted-fairness problem, owned or shared.
    #[must_use]
    pub fn new(problem: impl Into<Arc<WeightedFairness>>) -> Self {
        let problem = problem.into();
        Self {
            lower: problem.lower()[0],
            upper: problem.upper()[0],
            arch: Arch::new(),
            problem,
        }
    }

    /// The outcome of a row that the fast loop found irregular, or of any other.
    fn status(&self, c: f64, multiplier: f64, remaining: f64) -> Status {
        let invalid = |input, value| Status::Invalid {
            input,
            index: 0,
            value,
        };
        if !(c.is_finite() && c >= 0.0) {
            invalid(Input::Context, c)
        } else if !(multiplier.is_finite() && multiplier >= 0.0) {
            invalid(Input::Multiplier, multiplier)
        } else if !remaining.is_finite() {
            invalid(Input::Available, remaining)
        } else if remaining < self.lower {
            Status::Infeasible {
                budget: 0,
                shortfall: self.lower - remaining,
            }
        } else {
            SOLVED
        }
    }

    /// Whether the solution has no derivative here, and why.
    fn smoothness(&self, c: f64, multiplier: f64, remaining: f64) -> Exactness {
        let limit = self.upper.min(remaining);
        let z = target(c, multiplier);
        let two_bounds_meet = remaining == self.lower || (remaining == self.upper && z > limit);
        if c == 0.0 && multiplier == 0.0 {
            Exactness::Approximate {
                reason: Inexact::SingularHessian,
            }
        } else if z == self.lower || z == limit || two_bounds_meet {
            Exactness::Approximate {
                reason: Inexact::WeaklyActive,
            }
        } else {
            Exactness::Exact
        }
    }
}

/// The one division is right to half a unit in the last place; every dual is chosen so that stationarity holds.
const SOLVED: Status = Status::Solved {
    iterations: 0,
    residual: f64::EPSILON,
};

impl StepSolver for FairnessLayer {
    fn problem(&self) -> &dyn SmoothProblem {
        &*self.problem
    }

    fn solve(&mut self, query: Query<'_>, solution: SolutionMut<'_>) -> Result<(), Error> {
        check_query(query, &solution, self.problem.dimensions())?;
        let (c, multiplier, remaining) = (query.context[0], query.multiplier[0], query.available[0]);
        let sample = forward(self.lower, self.upper, c, multiplier, remaining);
        if sample.regular {
            solution.action[0] = sample.action;
            solution.duals[0] = sample.dual;
            solution.lower_duals[0] = sample.lower_dual;
            solution.upper_duals[0] = sample.upper_dual;
            *solution.status = SOLVED;
        } else {
            solution.action[0] = self.lower;
            solution.duals[0] = 0.0;
            solution.lower_duals[0] = 0.0;
            solution.upper_duals[0] = 0.0;
            *solution.status = self.status(c, multiplier, remaining);
        }
        Ok(())
    }

    fn solve_batch(&mut self, queries: Queries<'_>, solutions: &mut Solutions) -> Result<(), Error> {
        let rows = solutions.rows();
        check_queries(queries, self.problem.dimensions(), rows)?;
        let (lower, upper) = (self.lower, self.upper);
        let out = solutions.columns_mut();
        let (contexts, multipliers, remaining) = (
            &queries.contexts[..rows],
            &queries.multipliers[..rows],
            &queries.available[..rows],
        );
        let (actions, duals) = (&mut out.actions[..rows], &mut out.duals[..rows]);
        let (lower_duals, upper_duals) = (&mut out.lower_duals[..rows], &mut out.upper_duals[..rows]);
        let mut irregular = 0_u64;
        for i in 0..rows {
            let sample = forward(lower, upper, contexts[i], multipliers[i], remaining[i]);
            actions[i] = sample.action;
            duals[i] = sample.dual;
            lower_duals[i] = sample.lower_dual;
            upper_duals[i] = sample.upper_dual;
            irregular |= u64::from(!sample.regular);
        }
        out.statuses.fill(SOLVED);
        if irregular != 0 {
            for i in 0..rows {
                let status = self.status(contexts[i], multipliers[i], remaining[i]);
                if !status.is_solved() {
                    actions[i] = lower;
                    duals[i] = 0.0;
                    lower_duals[i] = 0.0;
                    upper_duals[i] = 0.0;
                    out.statuses[i] = status;
                }
            }
        }
        Ok(())
    }
}

impl Differentiate for FairnessLayer {
    fn pullback(
        &mut self,
        query: Query<'_>,
        solution: SolutionRef<'_>,
        upstream: &[f64],
        gradient: GradientMut<'_>,
    ) -> Result<Exactness, Error> {
        check_queries(
            Queries {
                contexts: query.context,
                multipliers: query.multiplier,
                available: query.available,
            },
            self.problem.dimensions(),
            1,
        )?;
        expect_length("upstream", upstream, 1)?;
        expect_length("the multiplier gradient", gradient.multiplier, 1)?;
        expect_length("the remaining gradient", gradient.available, 1)?;
        let (c, multiplier, remaining) = (query.context[0], query.multiplier[0], query.available[0]);
        let derivative = backward(self.lower, self.upper, c, multiplier, remaining);
        let (weight, exactness) = if !solution.status.is_solved() {
            (0.0, NOT_SOLVED)
        } else if derivative.regular {
            (upstream[0], Exactness::Exact)
        } else {
            (upstream[0], self.smoothness(c, multiplier, remaining))
        };
        gradient.multiplier[0] = weighted(weight, derivative.multiplier);
        gradient.available[0] = weighted(weight, derivative.remaining);
        if let Some(context) = gradient.context {
            expect_length("the context gradient", context, 1)?;
            context[0] = weighted(weight, derivative.context);
        }
        Ok(exactness)
    }

    fn pullback_batch(
        &mut self,
        queries: Queries<'_>,
        solutions: &Solutions,
        upstream: &[f64],
        gradients: &mut Gradients,
    ) -> Result<(), Error> {
        let rows = solutions.rows();
        check_queries(queries, self.problem.dimensions(), rows)?;
        expect_length("upstream", upstream, rows)?;
        expect_length("the multiplier gradients", &gradients.multipliers, rows)?;
        expect_length("the remaining gradients", &gradients.available, rows)?;
        let (lower, upper) = (self.lower, self.upper);
        let (contexts, multipliers, remaining) = (
            &queries.contexts[..rows],
            &queries.multipliers[..rows],
            &queries.available[..rows],
        );
        let upstream = &upstream[..rows];
        let in_multiplier = &mut gradients.multipliers[..rows];
        let in_remaining = &mut gradients.available[..rows];
        let mut irregular = 0_u64;
        if gradients.contexts.is_empty() {
            for i in 0..rows {
                let derivative = backward(lower, upper, contexts[i], multipliers[i], remaining[i]);
                in_multiplier[i] = upstream[i] * derivative.multiplier;
                in_remaining[i] = upstream[i] * derivative.remaining;
                irregular |= u64::from(!derivative.regular);
            }
        } else {
            expect_length("the context gradients", &gradients.contexts, rows)?;
            let in_context = &mut gradients.contexts[..rows];
            for i in 0..rows {
                let derivative = backward(lower, upper, contexts[i], multipliers[i], remaining[i]);
                in_multiplier[i] = upstream[i] * derivative.multiplier;
                in_remaining[i] = upstream[i] * derivative.remaining;
                in_context[i] = upstream[i] * derivative.context;
                irregular |= u64::from(!derivative.regular);
            }
        }
        gradients.exactness.fill(Exactness::Exact);
        if irregular != 0 {
            for i in 0..rows {
                let solved = solutions.statuses()[i].is_solved();
                gradients.exactness[i] = if solved {
                    self.smoothness(contexts[i], multipliers[i], remaining[i])
                } else {
                    in_multiplier[i] = 0.0;
                    in_remaining[i] = 0.0;
                    if let Some(context) = gradients.contexts.get_mut(i) {
                        *context = 0.0;
                    }
                    NOT_SOLVED
                };
            }
        }
        Ok(())
    }

    /// `None` for a box whose lower bound is too small for the logarithm that vectorises.
    fn closed_form(&self) -> Option<&dyn ClosedForm> {
        (self.lower >= f64::MIN_POSITIVE).then_some(self)
    }

    fn fork(&self) -> Box<dyn Differentiate> {
        Box::new(self.clone())
    }
}

const NOT_SOLVED: Exactness = Exactness::Approximate {
    reason: Inexact::NotSolved,
};

/// A product that treats 0 · ∞ and 0 · NaN as 0.
fn weighted(weight: f64, derivative: f64) -> f64 {
    if weight == 0.0 { 0.0 } else { weight * derivative }
}

#[cfg(test)]
mod tests {
    use laau_core::{LinearSteps, Regularity};

    use super::*;

    /// The tables of a batch: actions, derivatives in the multiplier, derivatives in the remaining budget.
    fn linearise(layer: &FairnessLayer, queries: Queries<'_>) -> ([Vec<f64>; 3], Regularity) {
        let mut tables = [(); 6].map(|()| vec![f64::NAN; queries.contexts.len()]);
        let [
            actions,
            usages,
            cost_slopes,
            usage_slopes,
            multiplier_slopes,
            remaining_slopes,
        ] = &mut tables;
        let steps = LinearSteps {
            actions,
            usages,
            cost_slopes,
            usage_slopes,
            multiplier_slopes,
            remaining_slopes,
        };
        let regularity = layer.linearise_batch(queries, steps).unwrap();
        let [actions, _, _, _, multiplier_slopes, remaining_slopes] = tables;
        ([actions, multiplier_slopes, remaining_slopes], regularity)
    }

    /// Solves and differentiates one query of the paper's problem: action, (λ, b, c) derivatives, exactness.
    fn check(c: f64, multiplier: f64, remaining: f64) -> (f64, [f64; 3], Exactness) {
        let mut layer = FairnessLayer::new(WeightedFairness::paper());
        let dimensions = layer.problem().dimensions();
        let query = Query {
            context: &[c],
            multiplier: &[multiplier],
            available: &[remaining],
        };
        let mut solutions = Solutions::new(dimensions, 1);
        layer.solve(query, solutions.row_mut(0)).unwrap();
        let mut single = Gradients::with_contexts(dimensions, 1);
        let exactness = layer
            .pullback(query, solutions.row(0), &[1.0], single.row_mut(0))
            .unwrap();

        let queries = Queries {
            contexts: &[c],
            multipliers: &[multiplier],
            available: &[remaining],
        };
        let mut batch = Solutions::new(dimensions, 1);
        layer.solve_batch(queries, &mut batch).unwrap();
        assert_eq!(batch.actions(), solutions.actions());
        assert_eq!(
            format!("{:?}", batch.statuses()),
            format!("{:?}", solutions.statuses())
        );
        let mut gradients = Gradients::with_contexts(dimensions, 1);
        layer
            .pullback_batch(queries, &batch, &[1.0], &mut gradients)
            .unwrap();
        assert_eq!(gradients.multipliers, single.multipliers);
        assert_eq!(gradients.available, single.available);
        assert_eq!(gradients.contexts, single.contexts);
        assert_eq!(gradients.exactness[0], exactness);
        // As a formula, alone and as one of several rows side by side.
        let expected = [solutions.actions()[0], single.multipliers[0], single.available[0]];
        let many = ([c; 33], [multiplier; 33], [remaining; 33]);
        let rows = Queries {
            contexts: &many.0,
            multipliers: &many.1,
            available: &many.2,
        };
        for queries in [queries, rows] {
            let (found, regularity) = linearise(&layer, queries);
            for row in 0..queries.contexts.len() {
                assert_eq!(found.each_ref().map(|table| table[row]), expected);
            }
            assert_eq!(regularity == Regularity::Regular, exactness == Exactness::Exact);
        }
        assert_eq!(layer.exactness(query), Ok(exactness));
        (
            solutions.actions()[0],
            [single.multipliers[0], single.available[0], single.contexts[0]],
            exactness,
        )
    }

    const KINK: Exactness = Exactness::Approximate {
        reason: Inexact::WeaklyActive,
    };

    #[test]
    fn each_regime_has_its_action_and_derivatives() {
        use Exactness::Exact;
        assert_eq!(check(2.0, 0.25, 30.0), (8.0, [-32.0, 0.0, 4.0], Exact));
        assert_eq!(check(2.0, 0.25, 7.999), (7.999, [0.0, 1.0, 0.0], Exact));
        assert_eq!(check(2.0, 0.01, 60.0), (40.0, [0.0, 0.0, 0.0], Exact));
        assert_eq!(check(2.0, 4.0, 60.0), (1.0, [0.0, 0.0, 0.0], Exact));
        assert_eq!(check(0.0, 4.0, 60.0), (1.0, [0.0, 0.0, 0.0], Exact));
        assert_eq!(check(2.0, 0.0, 60.0), (40.0, [0.0, 0.0, 0.0], Exact));
        assert_eq!(check(2.0, 0.0, 5.0), (5.0, [0.0, 1.0, 0.0], Exact));
    }

    #[test]
    fn without_weight_and_price_the_least_is_taken() {
        let singular = Exactness::Approximate {
            reason: Inexact::SingularHessian,
        };
        assert_eq!(check(0.0, 0.0, 5.0), (1.0, [0.0, 0.0, 0.0], singular));
        assert_eq!(check(0.0, -0.0, 50.0), (1.0, [0.0, 0.0, 0.0], singular));
        assert_eq!(check(2.0, -0.0, 5.0), (5.0, [0.0, 1.0, 0.0], Exactness::Exact));
    }

    #[test]
    fn at_a_kink_the_constraint_that_does_not_bind_is_left_out() {
        assert_eq!(check(2.0, 0.25, 8.0), (8.0, [-32.0, 0.0, 4.0], KINK));
        assert_eq!(check(2.0, 2.0, 8.0), (1.0, [-0.5, 0.0, 0.5], KINK));
        assert_eq!(check(2.0, 0.05, 60.0), (40.0, [-800.0, 0.0, 20.0], KINK));
        assert_eq!(check(2.0, 0.01, 40.0), (40.0, [0.0, 1.0, 0.0], KINK));
        assert_eq!(check(2.0, 0.01, 1.0), (1.0, [0.0, 1.0, 0.0], KINK));
    }

    #[test]
    fn one_bad_row_leaves_the_others_alone() {
        let bad = [
            (f64::NAN, 0.1, 9.0),
            (-1.0, 0.1, 9.0),
            (1.0, f64::NAN, 9.0),
            (1.0, -0.1, 9.0),
            (1.0, f64::INFINITY, 9.0),
            (1.0, 0.1, f64::INFINITY),
            (1.0, 0.1, f64::NAN),
            (1.0, 0.1, 0.5),
        ];
        let mut layer = FairnessLayer::new(Arc::new(WeightedFairness::paper()));
        let dimensions = layer.problem().dimensions();
        for (c, multiplier, remaining) in bad {
            let queries = Queries {
                contexts: &[1.0, c, 2.0],
                multipliers: &[0.1, multiplier, 0.3],
                available: &[9.0, remaining, 50.0],
            };
            let mut solutions = Solutions::new(dimensions, 3);
            layer.solve_batch(queries, &mut solutions).unwrap();
            assert_eq!(solutions.actions(), [9.0, 1.0, 2.0 / 0.3]);
            assert!(!solutions.statuses()[1].is_solved());
            let mut gradients = Gradients::with_contexts(dimensions, 3);
            layer
                .pullback_batch(queries, &solutions, &[1.0, 1.0, 1.0], &mut gradients)
                .unwrap();
            assert_eq!(gradients.available, [1.0, 0.0, 0.0]);
            assert_eq!(gradients.multipliers[1], 0.0);
            assert_eq!(gradients.contexts[1], 0.0);
            assert_eq!(
                gradients.exactness,
                [Exactness::Exact, NOT_SOLVED, Exactness::Exact]
            );
        }
        let queries = Queries {
            contexts: &[1.0],
            multipliers: &[0.1],
            available: &[0.25],
        };
        let mut solutions = Solutions::new(dimensions, 1);
        layer.solve_batch(queries, &mut solutions).unwrap();
        assert_eq!(
            solutions.statuses(),
            [Status::Infeasible {
                budget: 0,
                shortfall: 0.75
            }]
        );
    }

    #[test]
    fn duals_make_the_lagrangian_stationary() {
        let mut layer = FairnessLayer::new(WeightedFairness::paper());
        for (c, multiplier, remaining) in [
            (2.0, 0.3, 5.0),
            (2.0, 0.01, 90.0),
            (0.2, 0.9, 7.0),
            (3.0, 0.4, 20.0),
        ] {
            let mut solutions = Solutions::new(layer.problem().dimensions(), 1);
            let query = Query {
                context: &[c],
                multiplier: &[multiplier],
                available: &[remaining],
            };
            layer.solve(query, solutions.row_mut(0)).unwrap();
            let row = solutions.row(0);
            let stationarity =
                -c / row.action[0] + multiplier + row.duals[0] - row.lower_duals[0] + row.upper_duals[0];
            assert!(stationarity.abs() < 1e-15, "{stationarity}");
            assert!(row.duals[0] >= 0.0 && row.lower_duals[0] >= 0.0 && row.upper_duals[0] >= 0.0);
        }
    }

    #[test]
    fn wrong_sizes_are_refused() {
        let mut layer = FairnessLayer::new(WeightedFairness::paper());
        let mut solutions = Solutions::new(layer.problem().dimensions(), 2);
        let queries = Queries {
            contexts: &[1.0, 1.0],
            multipliers: &[0.1],
            available: &[0.25, 1.0],
        };
        assert_eq!(
            layer
                .solve_batch(queries, &mut solutions)
                .unwrap_err()
                .to_string(),
            "expected 2 values for multiplier, found 1"
        );
    }
}
