//! Instances at and around every degeneracy: exhausted budgets, budgets at the optimum, duplicate and zero rows, wide boxes.
//!
//! Every solution is certified by a duality gap that shares no code with the solver: for log-utility the dual function
//! has a closed form.

use std::collections::BTreeMap;

use laau_core::problems::{LogUtility, VmAllocation};
use laau_core::{
    AutoDiff, Differentiate, Dimensions, Exactness, Gradients, Number, ProblemFunctions, Query, SolutionRef,
    Solutions, Status, StepSolver, Structure,
};
use laau_kkt::InteriorPoint;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::problems::solver;

const INSTANCES: u64 = 5_000;
const LARGEST_GAP: f64 = 1e-7;

/// One query of a log-utility problem.
#[derive(Debug, Clone)]
struct Instance {
    actions: usize,
    budgets: usize,
    matrix: Vec<f64>,
    lower: f64,
    upper: f64,
    context: Vec<f64>,
    multiplier: Vec<f64>,
    available: Vec<f64>,
}

impl Instance {
    fn solver(&self) -> InteriorPoint {
        let problem = LogUtility::new(
            self.actions,
            self.budgets,
            self.matrix.clone(),
            self.lower,
            self.upper,
        );
        solver(problem.unwrap())
    }

    fn query(&self) -> Query<'_> {
        Query {
            context: &self.context,
            multiplier: &self.multiplier,
            available: &self.available,
        }
    }

    fn solve(&self, solver: &mut InteriorPoint) -> Solutions {
        let mut solutions = Solutions::new(solver.problem().dimensions(), 1);
        solver.solve(self.query(), solutions.row_mut(0)).unwrap();
        solutions
    }

    fn usage(&self, action: &[f64]) -> Vec<f64> {
        self.matrix
            .chunks_exact(self.actions)
            .map(|row| row.iter().zip(action).map(|(a, x)| a * x).sum())
            .collect()
    }

    /// An upper bound on how far a solution is from the optimum, relative to the terms of the priced cost.
    ///
    /// For any `μ ≥ 0` the optimum is at least `Σ_i min_x [−c_i ln x + p_i x] − μᵀb` with `p = Aᵀ(λ + μ)`, and each
    /// minimum is at `clamp(c_i / p_i)`. Differences are formed term by term, so that nothing cancels.
    fn gap(&self, solution: SolutionRef<'_>) -> f64 {
        let (mut gap, mut scale) = (0.0, f64::MIN_POSITIVE);
        for i in 0..self.actions {
            let (x, c) = (solution.action[i], self.context[i]);
            let price: f64 = (0..self.budgets)
                .map(|m| (self.multiplier[m] + solution.duals[m]) * self.matrix[m * self.actions + i])
                .sum();
            let best = if price > 0.0 { c / price } else { f64::INFINITY };
            let best = if c == 0.0 && price == 0.0 {
                x
            } else {
                best.clamp(self.lower, self.upper)
            };
            let off = (x - best) / best;
            gap += price * best * off - c * off.ln_1p();
            scale += c + price * x.min(best);
        }
        for (m, used) in self.usage(solution.action).iter().enumerate() {
            gap += solution.duals[m] * (self.available[m] - used);
        }
        gap / scale
    }
}

fn ordinary(rng: &mut ChaCha8Rng) -> Instance {
    let actions = rng.random_range(1..=6);
    let budgets = rng.random_range(1..=4);
    let (lower, upper) = (0.1, 10.0);
    let matrix = (0..actions * budgets)
        .map(|_| {
            if rng.random_bool(0.2) {
                0.0
            } else {
                rng.random_range(0.05..1.5)
            }
        })
        .collect();
    let mut instance = Instance {
        actions,
        budgets,
        matrix,
        lower,
        upper,
        context: (0..actions).map(|_| rng.random_range(0.05..1.0)).collect(),
        multiplier: (0..budgets)
            .map(|_| {
                if rng.random_bool(0.5) {
                    0.0
                } else {
                    rng.random_range(0.0..1.0)
                }
            })
            .collect(),
        available: Vec::new(),
    };
    let (least, most) = (
        instance.usage(&vec![lower; actions]),
        instance.usage(&vec![upper; actions]),
    );
    instance.available = least
        .iter()
        .zip(&most)
        .map(|(least, most)| least + rng.random_range(0.0..1.2_f64).powi(2) * (most - least))
        .collect();
    instance
}

/// `0`, or a magnitude between `1e-14` and `1e-6`, of either sign.
fn nudge(rng: &mut ChaCha8Rng) -> f64 {
    let size = 10_f64.powf(rng.random_range(-14.0..-6.0));
    match rng.random_range(0..5) {
        0 => 0.0,
        1 | 2 => size,
        _ => -size,
    }
}

/// Budgets at what the optimum without them uses, or by a hair beside it.
fn at_the_optimum(rng: &mut ChaCha8Rng) -> Instance {
    let mut instance = ordinary(rng);
    let tight = instance.clone();
    instance.available = vec![1e6; instance.budgets];
    let free = rng.random_bool(0.5);
    let base = if free { instance.clone() } else { tight };
    let action = base.solve(&mut base.solver()).row(0).action.to_vec();
    let used = instance.usage(&action);
    let least = instance.usage(&vec![instance.lower; instance.actions]);
    for m in 0..instance.budgets {
        instance.available[m] = (used[m] * (1.0 + nudge(rng))).max(least[m]);
    }
    instance
}

/// Budgets that the lower corner uses up, but for a hair.
fn exhausted(rng: &mut ChaCha8Rng) -> Instance {
    let mut instance = ordinary(rng);
    let least = instance.usage(&vec![instance.lower; instance.actions]);
    for m in 0..instance.budgets {
        if m == 0 || rng.random_bool(0.6) {
            instance.available[m] = least[m] * (1.0 + nudge(rng).abs());
        }
    }
    instance
}

/// Rows that repeat another, are a multiple of it, or are zero.
fn duplicate_and_zero_rows(rng: &mut ChaCha8Rng) -> Instance {
    let mut instance = if rng.random_bool(0.5) {
        ordinary(rng)
    } else {
        at_the_optimum(rng)
    };
    let d = instance.actions;
    for m in 0..instance.budgets {
        let from = rng.random_range(0..instance.budgets);
        match rng.random_range(0..4) {
            0 => instance.matrix[m * d..][..d].fill(0.0),
            1 => {
                instance.matrix.copy_within(from * d..(from + 1) * d, m * d);
                instance.available[m] = instance.available[from] * (1.0 + nudge(rng).max(0.0));
            }
            2 => {
                let factor = rng.random_range(0.5..2.0);
                for i in 0..d {
                    instance.matrix[m * d + i] = factor * instance.matrix[from * d + i];
                }
                instance.available[m] = factor * instance.available[from];
            }
            _ => {}
        }
    }
    let least = instance.usage(&vec![instance.lower; d]);
    for m in 0..instance.budgets {
        instance.available[m] = instance.available[m].max(least[m]);
    }
    instance
}

/// Boxes of up to twenty-one orders of magnitude, and contexts, prices and budgets of every size.
fn wide_boxes(rng: &mut ChaCha8Rng) -> Instance {
    let mut instance = ordinary(rng);
    instance.lower = 10_f64.powf(rng.random_range(-9.0..2.0));
    instance.upper = instance.lower + 10_f64.powf(rng.random_range(-3.0..12.0));
    let size = 10_f64.powf(rng.random_range(-9.0..9.0));
    instance.context.iter_mut().for_each(|c| *c *= size);
    let price = 10_f64.powf(rng.random_range(-9.0..9.0));
    instance.multiplier.iter_mut().for_each(|p| *p *= price);
    let least = instance.usage(&vec![instance.lower; instance.actions]);
    for m in 0..instance.budgets {
        instance.available[m] = least[m] + 10_f64.powf(rng.random_range(-9.0..12.0));
    }
    instance
}

fn every_instance_is_solved(class: &str, make: fn(&mut ChaCha8Rng) -> Instance) {
    let mut failures: BTreeMap<&str, (u64, u64, f64)> = BTreeMap::new();
    for seed in 0..INSTANCES {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let instance = make(&mut rng);
        let solutions = instance.solve(&mut instance.solver());
        let solution = solutions.row(0);
        let inside = |x: &f64| *x >= instance.lower && *x <= instance.upper;
        assert!(solution.action.iter().all(inside), "{class} {seed}: {instance:?}");
        let used = instance.usage(solution.action);
        assert!(
            used.iter().zip(&instance.available).all(|(u, b)| u <= b),
            "{class} {seed}: overspent"
        );
        let gap = instance.gap(solution);
        let failure = match solution.status {
            Status::Solved { .. } if gap <= LARGEST_GAP => continue,
            Status::Solved { .. } => "solved with a large gap",
            Status::NotConverged { .. } => "not converged",
            _ => "refused",
        };
        let entry = failures.entry(failure).or_insert((0, seed, 0.0));
        entry.0 += 1;
        entry.2 = entry.2.max(gap);
    }
    assert!(
        failures.is_empty(),
        "{class}: of {INSTANCES} instances (count, first seed, largest gap) {failures:?}"
    );
}

#[test]
fn ordinary_instances_are_solved() {
    every_instance_is_solved("ordinary", ordinary);
}

#[test]
fn budgets_at_the_optimum_are_solved() {
    every_instance_is_solved("at the optimum", at_the_optimum);
}

#[test]
fn exhausted_budgets_are_solved() {
    every_instance_is_solved("exhausted", exhausted);
}

#[test]
fn duplicate_and_zero_rows_are_solved() {
    every_instance_is_solved("duplicate and zero rows", duplicate_and_zero_rows);
}

#[test]
fn wide_boxes_and_all_scales_are_solved() {
    every_instance_is_solved("wide boxes", wide_boxes);
}

/// Cost `Σ ½ w x² − c x` and usage `Σ a (x − t)²` with `t` at 0.3 of the box: one action of tens of millions beside ordinary ones, say.
struct Valley {
    lower: Vec<f64>,
    upper: Vec<f64>,
    matrix: Vec<f64>,
    weights: Vec<f64>,
}

impl ProblemFunctions for Valley {
    fn name(&self) -> &'static str {
        "valley"
    }
    fn dimensions(&self) -> Dimensions {
        let d = self.lower.len();
        Dimensions {
            actions: d,
            budgets: 1,
            context: d,
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
            sum += (x * (0.5 * self.weights[i]) - c) * x;
        }
        sum
    }
    fn usage<T: Number>(&self, action: &[T], _: &[T], out: &mut [T]) {
        out[0] = T::from(0.0);
        for (i, &x) in action.iter().enumerate() {
            let off = x - (self.lower[i] + 0.3 * (self.upper[i] - self.lower[i]));
            out[0] += off * off * self.matrix[i];
        }
    }
    fn least_usage(&self, out: &mut [f64]) {
        self.usage(&self.lower, &self.lower, out);
    }
    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: true,
            affine_usage: false,
        }
    }
}

#[test]
fn the_dual_of_a_budget_keeps_its_digits_when_its_slack_runs_ahead() {
    let problem = Valley {
        lower: vec![
            -0.3338, 0.0, 0.0, 1.0, 0.0, 0.0, 0.3, 0.0, 0.2, 0.2538, -0.3338, 0.0, 0.0, 0.0,
        ],
        upper: vec![
            -0.3338,
            13.0,
            8.189,
            11.1,
            51_590_000.0,
            9.716,
            0.81,
            30.0,
            5.363,
            1.517,
            7.212,
            10.73,
            1.842,
            0.000_130_5,
        ],
        matrix: vec![
            0.0, 0.0, 0.082_66, 0.065_03, 0.2286, 0.1184, 0.236, 0.193, 0.082_91, 0.1709, 0.2008, 0.072_93,
            0.0, 0.0957,
        ],
        weights: vec![
            1.0, 0.4186, 0.497, 0.4663, 0.463, 0.2917, 0.1203, 0.1826, 0.2203, 0.1308, 0.2673, 0.2814,
            0.1938, 0.1732,
        ],
    };
    let mut solver = solver(AutoDiff::new(problem).unwrap());
    let mut solutions = Solutions::new(solver.problem().dimensions(), 1);
    let query = Query {
        context: &[
            0.0,
            1.295,
            1.96,
            6.153,
            27_010_000.0,
            0.2791,
            0.1038,
            0.0,
            1.169,
            0.0,
            0.0,
            0.0,
            0.1402,
            1.248e-5,
        ],
        multiplier: &[0.039_33],
        available: &[162_522_572_456_117.8],
    };
    solver.solve(query, solutions.row_mut(0)).unwrap();
    let row = solutions.row(0);
    assert!(row.status.is_solved(), "{}", row.status);
    // An action that uses nothing is where its own cost is least.
    assert!((row.action[1] - 1.295 / 0.4186).abs() < 1e-8, "{:?}", row.action);
}

#[test]
fn an_action_that_its_budget_holds_has_no_derivative_of_its_own() {
    let problem = Valley {
        lower: vec![0.0, 0.0],
        upper: vec![1.0, 6e-10],
        matrix: vec![1.0, 0.0],
        weights: vec![1.0, 1.0],
    };
    let mut solver = solver(AutoDiff::new(problem).unwrap());
    let dimensions = solver.problem().dimensions();
    let (mut solutions, mut gradients) = (
        Solutions::new(dimensions, 1),
        Gradients::with_contexts(dimensions, 1),
    );
    // All that the lower corner uses; the first action can go to where it uses as much again.
    let query = Query {
        context: &[1e8, 4e-10],
        multiplier: &[0.0],
        available: &[0.09],
    };
    solver.solve(query, solutions.row_mut(0)).unwrap();
    let row = solutions.row(0);
    assert!(row.status.is_solved(), "{}", row.status);
    assert!((row.action[0] - 0.6).abs() < 1e-12, "{:?}", row.action);
    let exactness = solver
        .pullback(query, row, &[1.0, 1.0], gradients.row_mut(0))
        .unwrap();
    if exactness == Exactness::Exact {
        // The second action is its context; the first does not depend on it.
        assert!(
            (gradients.contexts[1] - 1.0).abs() < 1e-6,
            "{:?}",
            gradients.contexts
        );
        assert!(gradients.contexts[0].abs() < 1e-6, "{:?}", gradients.contexts);
    }
}

#[test]
fn an_action_that_weighs_1e_60_of_another_is_solved_all_the_same() {
    // The first resource has no share, so that it stays at its lower bound; the second is worth next to nothing there.
    let problem = VmAllocation::new(8.0, vec![5.0, 6.0], vec![45.0, 1e9]).unwrap();
    let mut solver = solver(problem);
    let dimensions = solver.problem().dimensions();
    let (mut solutions, mut gradients) = (
        Solutions::new(dimensions, 1),
        Gradients::with_contexts(dimensions, 1),
    );
    for (price, available, expected) in [
        (1.25e-67, 6.5e8, (85.0_f64 / 1.25e-67).powf(0.125)),
        (0.0, 6.5e8, 6.5e8),
    ] {
        let query = Query {
            context: &[85.0, 0.0, 1.0],
            multiplier: &[0.35, price],
            available: &[44.0, available],
        };
        solver.solve(query, solutions.row_mut(0)).unwrap();
        let row = solutions.row(0);
        assert!(row.status.is_solved() && row.action[0] == 5.0, "{row:?}");
        assert!((row.action[1] / expected - 1.0).abs() < 1e-9, "{row:?}");
        let exactness = solver
            .pullback(query, row, &[1.0, 1.0], gradients.row_mut(0))
            .unwrap();
        assert_eq!(exactness, Exactness::Exact);
        // x = (w/λ)^(1/8), or the budget.
        let (in_weight, in_budget) = if price > 0.0 {
            (expected / (8.0 * 85.0), 0.0)
        } else {
            (0.0, 1.0)
        };
        assert!(
            (gradients.contexts[0] - in_weight).abs() <= 1e-6 * in_weight,
            "{gradients:?}"
        );
        assert!((gradients.available[1] - in_budget).abs() < 1e-9, "{gradients:?}");
    }
}

#[test]
fn a_budget_that_ends_just_above_the_lower_corner_is_settled_on() {
    let matrix = vec![0.1, 1.0, 0.0, 0.0, 0.0, 1.0];
    let problem = LogUtility::new(3, 2, matrix, 0.1, 1.0).unwrap();
    let mut solver = solver(problem);
    let dimensions = solver.problem().dimensions();
    let (mut solutions, mut gradients) = (Solutions::new(dimensions, 1), Gradients::new(dimensions, 1));
    let query = Query {
        context: &[0.01, 1.0, 1.0],
        multiplier: &[0.25, 0.1],
        available: &[1.408, 0.1 + 4.4e-13],
    };
    solver.solve(query, solutions.row_mut(0)).unwrap();
    let row = solutions.row(0);
    // The first budget is not active, and not the least dual is left of it.
    assert_eq!(row.duals[0], 0.0, "{row:?}");
    assert!(
        matches!(row.status, Status::Solved { iterations, .. } if iterations < 20),
        "{row:?}"
    );
    let exactness = solver
        .pullback(query, row, &[1.0, 1.0, 1.0], gradients.row_mut(0))
        .unwrap();
    assert_eq!(exactness, Exactness::Exact);
    // x_1 = c_1 / (0.1 λ_1), while the second is at its upper bound and the budget holds the third.
    let expected = -0.01 / (0.1 * 0.25 * 0.25);
    assert!(
        (gradients.multipliers[0] / expected - 1.0).abs() < 1e-9,
        "{gradients:?}"
    );
    assert_eq!(gradients.available[0], 0.0);
}
