//! Budgets a few roundings above what the lower corner uses: beside a large usage, small ones move on a staircase.
//!
//! Every answer is certified by weak duality, action by action, with bounds of its own on what the budgets allow.

use laau_core::{
    AutoDiff, Differentiate, Dimensions, Exactness, Gradients, Inexact, Number, ProblemFunctions, Query,
    SmoothProblem, SolutionRef, Solutions, StepSolver, Structure,
};

use crate::problems::solver;

const LARGEST_GAP: f64 = 1e-7;

/// Cost `Σ w s ln(1 + exp((c − x)/s)) + ½ 10⁻⁴ (w/s) x²`, `s` a tenth of the box, with usage `A x`; or `Σ w exp(−c x / upper)` with
/// usage `½ (1 + k) A x²`, where the last entry of the context is `k`.
struct Steps {
    soft: bool,
    lower: Vec<f64>,
    upper: Vec<f64>,
    matrix: Vec<f64>,
    weights: Vec<f64>,
}

impl ProblemFunctions for Steps {
    fn name(&self) -> &'static str {
        "steps"
    }
    fn dimensions(&self) -> Dimensions {
        let d = self.lower.len();
        Dimensions {
            actions: d,
            budgets: self.matrix.len() / d,
            context: d + usize::from(!self.soft),
        }
    }
    fn lower(&self) -> &[f64] {
        &self.lower
    }
    fn upper(&self) -> &[f64] {
        &self.upper
    }
    fn cost<T: Number>(&self, action: &[T], context: &[T]) -> T {
        let mut sum = T::from(0.0);
        for (i, (&x, &c)) in action.iter().zip(context).enumerate() {
            let (w, s) = (self.weights[i], 0.1 * self.upper[i]);
            sum += if self.soft {
                let t = (c - x) / s;
                t.exp().ln_1p() * (w * s) + x * x * (0.5e-4 * w / s)
            } else {
                (-(c * x) / self.upper[i]).exp() * w
            };
        }
        sum
    }
    fn usage<T: Number>(&self, action: &[T], context: &[T], out: &mut [T]) {
        let d = action.len();
        for (row, out) in self.matrix.chunks_exact(d).zip(out) {
            let mut sum = T::from(0.0);
            for (&x, &a) in action.iter().zip(row) {
                sum += if self.soft { x * a } else { x * x * (0.5 * a) };
            }
            if !self.soft {
                sum *= context[d] + 1.0;
            }
            *out = sum;
        }
    }
    fn least_usage(&self, out: &mut [f64]) {
        self.usage(&self.lower, &[1.0; 9], out);
    }
    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: true,
            affine_usage: self.soft,
        }
    }
}

/// An upper bound on how far a solution is from the optimum, relative to the terms of the priced cost.
fn gap(problem: &dyn SmoothProblem, query: Query<'_>, solution: SolutionRef<'_>) -> f64 {
    let d = problem.lower().len();
    let prices: Vec<f64> = query
        .multiplier
        .iter()
        .zip(solution.duals)
        .map(|(l, m)| l + m)
        .collect();
    let (mut usage, mut corner) = (vec![0.0; prices.len()], vec![0.0; prices.len()]);
    problem.usage(solution.action, query.context, &mut usage);
    problem.usage(problem.lower(), query.context, &mut corner);
    let (mut gap, mut scale) = (0.0, f64::MIN_POSITIVE);
    for (m, used) in usage.iter().enumerate() {
        assert!(*used <= query.available[m]);
        gap += solution.duals[m] * (query.available[m] - used);
        scale += prices[m] * used.abs();
    }
    let slope_at = |i: usize, at: f64| {
        let mut x = solution.action.to_vec();
        x[i] = at;
        let (mut slope, mut jacobian) = (vec![0.0; d], vec![0.0; d * prices.len()]);
        problem.cost_gradient(&x, query.context, &mut slope);
        problem.usage_jacobian(&x, query.context, &mut jacobian);
        let column: Vec<f64> = (0..prices.len()).map(|m| jacobian[m * d + i]).collect();
        (slope[i], column)
    };
    for i in 0..d {
        let (x, lower) = (solution.action[i], problem.lower()[i]);
        let (own, column) = slope_at(i, x);
        scale += (own * x).abs();
        let slope = own + column.iter().zip(&prices).map(|(j, p)| j * p).sum::<f64>();
        // What an action adds to a usage is at least its derivative half-way up, over that half.
        let allows = |at: f64| {
            let (_, half) = slope_at(i, 0.5 * (lower + at));
            (0..prices.len()).all(|m| half[m] * 0.5 * (at - lower) <= query.available[m] - corner[m])
        };
        let (mut low, mut most) = (lower, problem.upper()[i]);
        for _ in 0..200 {
            let middle = 0.5 * (low + most);
            if allows(most) {
                break;
            }
            if allows(middle) {
                low = middle;
            } else {
                most = middle;
            }
        }
        gap += (slope * (x - lower)).max(-slope * (most.max(x) - x));
    }
    gap / scale
}

fn check(problem: Steps, context: &[f64], multiplier: &[f64], available: &[f64]) {
    let mut solver = solver(AutoDiff::new(problem).unwrap());
    let dimensions = solver.problem().dimensions();
    let (mut solutions, mut gradients) = (Solutions::new(dimensions, 1), Gradients::new(dimensions, 1));
    let query = Query {
        context,
        multiplier,
        available,
    };
    solver.solve(query, solutions.row_mut(0)).unwrap();
    let row = solutions.row(0);
    assert!(row.status.is_solved(), "{} {row:?}", row.status);
    let gap = gap(solver.problem(), query, row);
    assert!(gap <= LARGEST_GAP, "gap {gap:e}, {row:?}");
    let upstream = vec![1.0; dimensions.actions];
    let exactness = solver
        .pullback(query, row, &upstream, gradients.row_mut(0))
        .unwrap();
    // Where usage is a staircase, the derivative of the answer is that of a point nearby.
    assert_ne!(exactness, Exactness::Exact);
}

#[test]
fn flat_usages_share_what_rounding_leaves_beside_a_large_one() {
    check(
        Steps {
            soft: false,
            lower: vec![0.4, 1.0, 0.0, 0.0],
            upper: vec![1.0, 1.0, 1.0, 1.0],
            matrix: vec![3.7e9, 4e9, 1.0, 1.0],
            weights: vec![1.0; 4],
        },
        &[0.0, 0.0, 1.0, 10.0, 0.773_976_668_605_969_9],
        &[0.0],
        &[4_073_050_431.119_309],
    );
    check(
        Steps {
            soft: false,
            lower: vec![0.0, 6.5, 0.0],
            upper: vec![1.0, 30.0, 1.0],
            matrix: vec![3e7, 1.1e8, 7e7],
            weights: vec![1.0; 3],
        },
        &[10.0, 0.0, 4.865, 0.4294],
        &[0.0],
        &[3_321_568_250.000_004],
    );
    check(
        Steps {
            soft: false,
            lower: vec![7e6, 0.0, 1.0],
            upper: vec![9e7, 1e7, 2e7],
            matrix: vec![8.0, 1.0, 1.0],
            weights: vec![1.0; 3],
        },
        &[0.0, 1.0, 0.0, 0.3],
        &[0.0],
        &[254_800_000_000_000.7],
    );
}

#[test]
fn a_budget_just_above_the_lower_corner_does_not_hinder_others_that_meet() {
    check(
        Steps {
            soft: true,
            lower: vec![1.0, 0.0, 0.0, 0.0],
            upper: vec![1.0, 1.0, 9e11, 1.0],
            matrix: vec![1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0008],
            weights: vec![1.0; 4],
        },
        &[0.0; 4],
        &[0.0; 3],
        &[1.000_000_000_000_1, 0.199_453_824_323_752_53, 0.2],
    );
    check(
        Steps {
            soft: true,
            lower: vec![0.0, 0.0, 5e-9],
            upper: vec![1e14, 1.0, 1.0],
            matrix: vec![0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.2, 0.0, 0.0],
            weights: vec![3.0, 1.0, 1.0],
        },
        &[0.0; 3],
        &[0.0, 0.0, 4.0],
        &[5.000_000_000_000_5e-9, 999_999_999.999_999_8, 2e8],
    );
}

/// One action is on its upper bound and uses nearly all; a rounding of that moves the other by a thousandth of a part.
#[test]
fn a_budget_that_all_but_does_not_bind_is_a_kink_from_either_side() {
    check(
        Steps {
            soft: false,
            lower: vec![0.0, 0.0],
            upper: vec![6e7, 800.0],
            matrix: vec![1.0, 1.0, 0.0, 1.0],
            weights: vec![1.0; 2],
        },
        &[2.0, 10.0, 0.3],
        &[0.0, 2e-7],
        &[2_340_000_000_096_838.0, 249_600.0],
    );
}

/// A rounding of the budget moves the action by some 1e-5 of itself, and so does a share of its price.
#[test]
fn a_rounding_that_shows_in_the_action_is_flagged() {
    check(
        Steps {
            soft: false,
            lower: vec![1.0, 0.0],
            upper: vec![1.0, 4e-5],
            matrix: vec![1.0, 1.0],
            weights: vec![1.0; 2],
        },
        &[0.0, 0.02, 0.0],
        &[2e6],
        &[0.500_000_000_000_5],
    );
}

/// Beside what the third action pays on its lower bound, the others gain nothing that counts: they are left where they are, and that moves
/// with the price for no reason of theirs.
#[test]
fn an_action_that_gains_next_to_nothing_is_flagged_where_it_is_left() {
    let problem = Steps {
        soft: false,
        lower: vec![0.0, 0.0, 1.0],
        upper: vec![1.0, 1.0, 8e5],
        matrix: vec![0.0, 8e10, 9e10],
        weights: vec![7e-9, 4e-9, 1.0],
    };
    check(problem, &[5.0, 1.0, 0.0, 1.0], &[8e6], &[5.76e22]);
}

/// Beside what the first action gains, the second gains 1e-53: it is left on its lower bound, off which its gradient points. That is no
/// kink, but an action that is not where it should be.
#[test]
fn an_action_left_on_a_bound_that_does_not_hold_it_is_not_solved() {
    let problem = Steps {
        soft: false,
        lower: vec![5e10, 0.0],
        upper: vec![1e12, 6e17],
        matrix: vec![1.0, 1.0],
        weights: vec![1.0; 2],
    };
    let mut layer = solver(AutoDiff::new(problem).unwrap());
    let dimensions = layer.problem().dimensions();
    let (mut solutions, mut gradients) = (Solutions::new(dimensions, 1), Gradients::new(dimensions, 1));
    let query = Query {
        context: &[1.0, 1.0, 0.3],
        multiplier: &[1.0],
        available: &[2.34e35],
    };
    layer.solve(query, solutions.row_mut(0)).unwrap();
    let row = solutions.row(0);
    assert_eq!((row.action, row.lower_duals[1]), (&[5e10, 0.0][..], 0.0));
    let exactness = layer
        .pullback(query, row, &[1.0, 1.0], gradients.row_mut(0))
        .unwrap();
    let not_solved = Exactness::Approximate {
        reason: Inexact::NotSolved,
    };
    assert_eq!(exactness, not_solved);
}
