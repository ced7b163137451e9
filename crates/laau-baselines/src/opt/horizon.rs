//! The offline optimum of any smooth problem: an interior point over the horizon, at a cost linear in its length.

use std::sync::Arc;

use laau_core::{Episode, Error, Hindsight, SmoothProblem, expect_option};
use serde::{Deserialize, Serialize};

use super::interior::{Found, Iteration};
use super::payable::{make_payable, reserve_limits};
use super::region::Region;

pub(super) const NAME: &str = "opt";

/// When the interior point stops, and how far it dares to step.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `tolerance` | `1e-10` | certified suboptimality, relative to the terms of the cost, or, if that is less, to the cost or one | `(0, 1)` |
/// | `acceptable` | `1e-8` | the same, where rounding leaves no step to take (or what `rounding` is worth) | at least `tolerance`, below 1 |
/// | `max_iterations` | 200 | an error beyond | at least 1 |
/// | `fraction_to_boundary` | 0.995 | share of the way to the nearest bound that a step may take | `(0, 1)` |
/// | `sufficient_decrease` | 0.01 | share of the residual that a unit step must remove | `(0, 0.5)` |
/// | `rounding` | `1e-14` | share of a budget that its sums do not resolve: less room is none | `(0, 1e-3)` |
/// | `reserve_slip` | `1e-11` | share of a budget by which a plan may miss the reserve before it is planned anew | `(0, 1e-3)` |
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HorizonOptions {
    /// Certified suboptimality, relative to the terms of the cost.
    pub tolerance: f64,
    /// Certified suboptimality that is enough where rounding leaves no step to take.
    pub acceptable: f64,
    /// The most iterations.
    pub max_iterations: usize,
    /// Share of the way to the nearest bound that a step may take.
    pub fraction_to_boundary: f64,
    /// Share of the residual that a unit step must remove.
    pub sufficient_decrease: f64,
    /// Share of a budget that its sums do not resolve.
    pub rounding: f64,
    /// Share of a budget by which a plan may miss the reserve before it is planned anew.
    pub reserve_slip: f64,
}

impl Default for HorizonOptions {
    fn default() -> Self {
        Self {
            tolerance: 1e-10,
            acceptable: 1e-8,
            max_iterations: 200,
            fraction_to_boundary: 0.995,
            sufficient_decrease: 0.01,
            rounding: 1e-14,
            reserve_slip: 1e-11,
        }
    }
}

impl HorizonOptions {
    fn check(&self) -> Result<(), Error> {
        let within = |option, value: f64, most: f64, expected| {
            expect_option(value > 0.0 && value < most, NAME, option, expected, value)
        };
        within("tolerance", self.tolerance, 1.0, "a value in (0, 1)")?;
        within(
            "fraction_to_boundary",
            self.fraction_to_boundary,
            1.0,
            "a value in (0, 1)",
        )?;
        within(
            "sufficient_decrease",
            self.sufficient_decrease,
            0.5,
            "a value in (0, 0.5)",
        )?;
        within("rounding", self.rounding, 1e-3, "a value in (0, 1e-3)")?;
        within("reserve_slip", self.reserve_slip, 1e-3, "a value in (0, 1e-3)")?;
        expect_option(
            self.acceptable >= self.tolerance && self.acceptable < 1.0,
            NAME,
            "acceptable",
            "at least the tolerance, and below 1",
            self.acceptable,
        )?;
        expect_option(
            self.max_iterations > 0,
            NAME,
            "max_iterations",
            "at least 1",
            self.max_iterations as f64,
        )
    }
}

/// The optimum of a horizon, and the proof that it is one.
#[derive(Debug, Clone, PartialEq)]
pub struct HorizonSolution {
    /// The actions of all steps, `N × d`.
    pub actions: Vec<f64>,
    /// The price of each budget.
    pub multipliers: Vec<f64>,
    /// The cost of the actions.
    pub cost: f64,
    /// An upper bound on how far the cost is above the optimum.
    pub gap: f64,
    /// Iterations taken.
    pub iterations: usize,
}

/// The offline optimum by a primal-dual interior point:
/// `min Σ_t l(x_t, c_t)` subject to `Σ_t g(x_t, c_t) ≤ B` and the box.
///
/// The steps meet in their usage only. A Newton step therefore factors one `d × d` matrix per step and a chain of
/// `M × M` matrices: the cost is `O(N (d³ + M d² + M² d + M³))`, linear in the horizon.
///
/// All iterates are strictly feasible. It stops when what the limits leave at their prices, and what the slopes at these prices
/// can gain within reach, are within the tolerance; by convexity that is an upper bound on the suboptimality, whatever the path
/// was. Where no step is left before that, the best point stands if it is acceptable. The reach of an action is what its
/// bounds, its budgets and its own cost leave it: a box that is wider does not matter.
///
/// **The reserve.** No plan may touch what the steps to come need for their lower corners, and that is reserved for the
/// worst context. Where a problem's lower corner uses less in the contexts that come, the reserve forbids plans that
/// the budgets alone allow. [`Hindsight::plan`] is the optimum among the plans that can be played: it adds a limit at
/// every step when the budgets alone do not imply them. [`HorizonOptimum::solve`] looks at the budgets alone.
///
/// A limit that the lower corners use up, but for [`HorizonOptions::rounding`], holds the actions that use it at their
/// lower bounds, and leaves all others alone. The price of such a budget is the least that holds them there.
#[derive(Clone)]
pub struct HorizonOptimum {
    problem: Arc<dyn SmoothProblem>,
    options: HorizonOptions,
}

impl HorizonOptimum {
    /// The optimum of a problem.
    ///
    /// # Errors
    /// When an option is outside its range.
    pub fn new(problem: Arc<dyn SmoothProblem>, options: HorizonOptions) -> Result<Self, Error> {
        options.check()?;
        Ok(Self { problem, options })
    }

    /// Solves a horizon; `contexts` is step × context, of any number of steps.
    ///
    /// # Errors
    /// [`Error::WrongLength`] or [`Error::BudgetTooSmall`] for inputs that do not fit, and the crate's `NotConverged` at
    /// the seam.
    pub fn solve(&self, contexts: &[f64], budgets: &[f64]) -> Result<HorizonSolution, Error> {
        let episode = Episode::new(contexts, self.problem.dimensions().context, budgets)?;
        let expected = self.problem.dimensions().budgets;
        if budgets.len() != expected {
            return Err(Error::WrongLength {
                what: "the budgets",
                expected,
                found: budgets.len(),
            });
        }
        let mut found = self.find(&episode, &end_limits(&episode))?;
        found.point.price.truncate(expected);
        Ok(HorizonSolution {
            actions: found.point.x,
            multipliers: found.point.price,
            cost: found.cost,
            gap: found.gap,
            iterations: found.iterations,
        })
    }

    /// Finds the optimum under limits on what is used up to and including each step, `N × M`.
    fn find(&self, episode: &Episode<'_>, limits: &[f64]) -> Result<Found, Error> {
        let (problem, options) = (&*self.problem, &self.options);
        let mut region = Region::new(problem, episode, limits, options.rounding)?;
        let found = Iteration::start(problem, options, *episode, limits, &region).run()?;
        let sizes = (problem.dimensions().actions, problem.dimensions().budgets);
        let reduced = |at| found.point.reduced_gradient(at / sizes.0, at % sizes.0, sizes);
        if region.contains(&found.point.rise, reduced) {
            return Ok(found);
        }
        region.widen();
        Iteration::start(problem, options, *episode, limits, &region).run()
    }

    /// Whether actions stay within the limits, but for the slip that is allowed.
    fn within(&self, episode: &Episode<'_>, actions: &[f64], limits: &[f64]) -> bool {
        let d = self.problem.dimensions().actions;
        let m = episode.budgets().len();
        let (mut used, mut usage) = (vec![0.0; m], vec![0.0; m]);
        actions.chunks_exact(d).enumerate().all(|(step, action)| {
            self.problem.usage(action, episode.context(step), &mut usage);
            (0..m).all(|k| {
                used[k] += usage[k];
                used[k] <= limits[step * m + k] + self.options.reserve_slip * episode.budgets()[k]
            })
        })
    }
}

/// The budgets as limits at the last step alone, `N × M`.
fn end_limits(episode: &Episode<'_>) -> Vec<f64> {
    let mut limits = vec![f64::INFINITY; episode.horizon() * episode.budgets().len()];
    let last = limits.len() - episode.budgets().len();
    limits[last..].copy_from_slice(episode.budgets());
    limits
}

impl Hindsight for HorizonOptimum {
    fn name(&self) -> &'static str {
        NAME
    }

    fn plan(&self, episode: &Episode<'_>, actions: &mut [f64]) -> Result<(), Error> {
        let mut found = self.find(episode, &end_limits(episode))?;
        let limits = reserve_limits(&*self.problem, episode);
        if !self.within(episode, &found.point.x, &limits) {
            found = self.find(episode, &limits)?;
        }
        actions.copy_from_slice(&found.point.x);
        make_payable(&self.problem, episode, &limits, actions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opt::WaterFilling;
    use laau_core::problems::{LogUtility, WeightedFairness};
    use laau_core::{AutoDiff, Dimensions, Number, ProblemFunctions};

    fn horizon(problem: impl SmoothProblem + 'static) -> HorizonOptimum {
        HorizonOptimum::new(Arc::new(problem), HorizonOptions::default()).unwrap()
    }

    fn weights(count: usize) -> Vec<f64> {
        (0..count).map(|t| (t as f64 * 0.7).sin().abs().powi(3)).collect()
    }

    #[test]
    fn it_agrees_with_water_filling_at_every_level() {
        let exact = WaterFilling::new(WeightedFairness::paper());
        let weights = weights(40);
        let mut actions = [0.0; 40];
        for budget in [40.5, 47.0, 120.0, 500.0, 1300.0, 1559.0, 1600.0, 9000.0] {
            let price = exact.fill(&weights, budget, &mut actions);
            let best: f64 = weights.iter().zip(&actions).map(|(c, x)| -c * x.ln()).sum();
            let found = horizon(WeightedFairness::paper())
                .solve(&weights, &[budget])
                .unwrap();
            assert!(
                (found.cost - best).abs() <= 1e-9 * best.abs().max(1e-3),
                "budget {budget}: {} against {best}",
                found.cost
            );
            assert!(
                found.cost - best <= found.gap + 1e-9 * best.abs(),
                "the gap is a bound"
            );
            if budget > 41.0 && budget < 1500.0 {
                assert!(
                    (found.multipliers[0] - price).abs() < 1e-6 * price,
                    "{} against {price}",
                    found.multipliers[0]
                );
            }
        }
    }

    #[test]
    fn a_plan_for_the_least_budget_is_the_lower_corner() {
        let weights = weights(40);
        let episode = Episode::new(&weights, 1, &[40.0]).unwrap();
        let mut actions = [0.0; 40];
        horizon(WeightedFairness::paper())
            .plan(&episode, &mut actions)
            .unwrap();
        assert_eq!(actions, [1.0; 40]);
    }

    #[test]
    fn a_cost_that_nothing_can_change_is_solved_at_once() {
        let found = horizon(WeightedFairness::paper())
            .solve(&[0.0; 5], &[50.0])
            .unwrap();
        assert_eq!((found.cost, found.gap, found.iterations), (0.0, 0.0, 0));
    }

    /// Both actions are best on their upper bounds, where their costs are zero and the terms of these are not.
    #[test]
    fn a_cost_that_is_small_beside_its_terms_is_known_as_well_as_a_policy_knows_it() {
        let problem = LogUtility::new(1, 1, vec![0.0], 0.05, 1.0).unwrap();
        let found = horizon(problem).solve(&[0.5, 20.0], &[0.0]).unwrap();
        assert!(found.cost.abs() <= 1e-9, "{}", found.cost);
    }

    #[test]
    fn the_number_of_iterations_does_not_grow_with_the_horizon() {
        let problem = LogUtility::new(3, 2, vec![1.0, 0.5, 0.2, 0.1, 0.6, 1.0], 0.1, 10.0).unwrap();
        let solver = horizon(problem);
        let iterations: Vec<usize> = [10, 100, 1000, 10000]
            .iter()
            .map(|&n| {
                let budgets = [3.0 * n as f64, 2.0 * n as f64];
                let found = solver.solve(&weights(3 * n), &budgets).unwrap();
                assert!(found.gap < 1e-8 * found.cost.abs());
                found.iterations
            })
            .collect();
        assert!(iterations.iter().all(|i| *i < 25), "{iterations:?}");
    }

    /// Cost `½ x² − c x`, usage `a (x − 0.3 upper)²`: it falls before it rises.
    struct Valley {
        lower: f64,
        upper: f64,
        steepness: f64,
    }

    impl ProblemFunctions for Valley {
        fn name(&self) -> &'static str {
            "valley"
        }
        fn dimensions(&self) -> Dimensions {
            Dimensions {
                actions: 1,
                budgets: 1,
                context: 1,
            }
        }
        fn lower(&self) -> &[f64] {
            std::slice::from_ref(&self.lower)
        }
        fn upper(&self) -> &[f64] {
            std::slice::from_ref(&self.upper)
        }
        fn cost<T: Number>(&self, x: &[T], c: &[T]) -> T {
            (x[0] * 0.5 - c[0]) * x[0]
        }
        fn usage<T: Number>(&self, x: &[T], _: &[T], out: &mut [T]) {
            out[0] = (x[0] - 0.3 * self.upper) * (x[0] - 0.3 * self.upper) * self.steepness;
        }
        fn least_usage(&self, out: &mut [f64]) {
            out[0] = (self.lower - 0.3 * self.upper) * (self.lower - 0.3 * self.upper) * self.steepness;
        }
    }

    #[test]
    fn where_usage_falls_first_the_budget_of_the_lower_corners_pays_more() {
        let valley = |lower, upper, steepness| {
            let valley = Valley {
                lower,
                upper,
                steepness,
            };
            horizon(AutoDiff::new(valley).unwrap())
        };
        // Up to the other side of the valley.
        let found = valley(0.0, 1.0, 1.0)
            .solve(&[1.0; 3], &[3.0 * 0.3 * 0.3])
            .unwrap();
        assert!(found.actions.iter().all(|x| (x - 0.6).abs() < 1e-6), "{found:?}");
        // Nothing to gain, with room and without a budget that matters.
        let cases = [
            (0.0, 1.0, 1.0, 0.49),
            (-20.0, 1.0, 0.0, 0.0),
            (-20.0, 1.0, 1.0, 500.0),
            (0.0, 9e9, 1.0, 7.29e18),
        ];
        for (lower, upper, steepness, budget) in cases {
            let found = valley(lower, upper, steepness).solve(&[0.0], &[budget]).unwrap();
            assert!(found.cost.abs() < 1e-10, "{lower} {upper} {steepness}: {found:?}");
        }
    }

    /// Cost `−c x`, usage `0.45 + x²`: nothing is cheaper than the first bit above the lower corner.
    struct Flat;

    impl ProblemFunctions for Flat {
        fn name(&self) -> &'static str {
            "flat"
        }
        fn dimensions(&self) -> Dimensions {
            Dimensions {
                actions: 1,
                budgets: 1,
                context: 1,
            }
        }
        fn lower(&self) -> &[f64] {
            &[0.0]
        }
        fn upper(&self) -> &[f64] {
            &[1.0]
        }
        fn cost<T: Number>(&self, x: &[T], c: &[T]) -> T {
            -(c[0] * x[0])
        }
        fn usage<T: Number>(&self, x: &[T], _: &[T], out: &mut [T]) {
            out[0] = x[0] * x[0] + 0.45;
        }
        fn least_usage(&self, out: &mut [f64]) {
            out[0] = 0.45;
        }
    }

    #[test]
    fn a_rounding_of_the_budget_is_spent_where_usage_has_no_slope() {
        let budget = 2.250_000_000_000_000_4;
        let episode = Episode::new(&[1.0; 5], 1, std::slice::from_ref(&budget)).unwrap();
        let mut actions = [0.0; 5];
        horizon(AutoDiff::new(Flat).unwrap())
            .plan(&episode, &mut actions)
            .unwrap();
        // The root of the rounding, which is worth more than the tolerance of the plan.
        assert!(actions.iter().sum::<f64>() > 1e-8, "{actions:?}");
    }

    #[test]
    fn a_budget_below_the_lower_corners_and_bad_options_are_refused() {
        let error = horizon(WeightedFairness::paper())
            .solve(&[0.5; 4], &[3.0])
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "budget 0 is 3, below 4, the least that 4 steps use"
        );
        let options = HorizonOptions {
            tolerance: 0.0,
            ..HorizonOptions::default()
        };
        assert_eq!(
            HorizonOptimum::new(Arc::new(WeightedFairness::paper()), options)
                .err()
                .unwrap()
                .to_string(),
            "policy `opt`: expected a value in (0, 1) for option `tolerance`, found 0"
        );
    }
}
