use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{assert_dimensions, central_difference, draw_action, generator, usage_of};
use crate::problem::{Dimensions, SmoothProblem, least_budgets};

const SAMPLES: usize = 50;

/// Checks a problem: sizes, convexity (also in contexts other than those drawn, where it accepts them), the reserve, every derivative against differences, every claim of structure.
///
/// `draw_context` writes a valid context.
pub fn problem(problem: &dyn SmoothProblem, mut draw_context: impl FnMut(&mut ChaCha8Rng, &mut [f64])) {
    let Dimensions {
        actions: d,
        context: q,
        ..
    } = assert_dimensions(problem);
    let mut rng = generator();
    reserve_pays_for_the_lower_corner(problem);
    let (mut x, mut y, mut c) = (vec![0.0; d], vec![0.0; d], vec![0.0; q]);
    for _ in 0..SAMPLES {
        draw_context(&mut rng, &mut c);
        assert!(
            problem.check_context(&c).is_ok(),
            "the drawn context {c:?} is refused by the problem"
        );
        draw_action(problem, &mut rng, &mut x);
        draw_action(problem, &mut rng, &mut y);
        let weights: Vec<f64> = (0..problem.dimensions().budgets)
            .map(|_| rng.random_range(0.1..2.0))
            .collect();
        usage_is_sane(problem, &x, &c);
        functions_are_convex(problem, &x, &y, &c);
        stretched_contexts_are_refused_or_convex(problem, &x, &y, &c);
        batches_equal_single_calls(problem, &x, &y, &c);
        action_derivatives_are_right(problem, &x, &c, &weights);
        context_derivatives_are_right(problem, &x, &c, &weights);
        context_pullback_is_that_of_the_tables(problem, &x, &c, &weights, &mut rng);
        structure_is_true(problem, &x, &y, &c, &weights);
    }
}

fn reserve_pays_for_the_lower_corner(problem: &dyn SmoothProblem) {
    let mut reserve = vec![0.0; problem.dimensions().budgets];
    for steps in (0..200).chain([1 << 21, 1 << 40]) {
        problem.reserve(steps, &mut reserve);
        let expected = least_budgets(problem, steps);
        assert!(
            reserve == expected,
            "reserve({steps}) is {reserve:?}, expected {steps} times the least usage, {expected:?}"
        );
    }
}

fn usage_is_sane(problem: &dyn SmoothProblem, x: &[f64], c: &[f64]) {
    for corner in [problem.lower(), problem.upper(), x] {
        let usage = usage_of(problem, corner, c);
        assert!(
            usage.iter().all(|u| u.is_finite() && *u >= 0.0),
            "usage of {corner:?} in context {c:?} is {usage:?}"
        );
        assert!(
            problem.cost(corner, c).is_finite(),
            "cost of {corner:?} in context {c:?} is not finite"
        );
    }
    let mut least = vec![0.0; problem.dimensions().budgets];
    problem.least_usage(&mut least);
    for (i, (used, least)) in usage_of(problem, problem.lower(), c)
        .iter()
        .zip(&least)
        .enumerate()
    {
        assert!(
            used <= least,
            "the lower corner uses {used} of budget {i} in context {c:?}, above the least usage {least}"
        );
    }
}

fn functions_are_convex(problem: &dyn SmoothProblem, x: &[f64], y: &[f64], c: &[f64]) {
    let middle: Vec<f64> = x.iter().zip(y).map(|(x, y)| 0.5 * (x + y)).collect();
    let check = |name: &str, at_x: f64, at_y: f64, at_middle: f64| {
        let scale = 1e-9 * (1.0 + at_x.abs() + at_y.abs());
        assert!(
            at_middle <= 0.5 * (at_x + at_y) + scale,
            "{name} is not convex between {x:?} and {y:?} in {c:?}"
        );
    };
    check(
        "cost",
        problem.cost(x, c),
        problem.cost(y, c),
        problem.cost(&middle, c),
    );
    let (at_x, at_y, at_middle) = (
        usage_of(problem, x, c),
        usage_of(problem, y, c),
        usage_of(problem, &middle, c),
    );
    for i in 0..at_x.len() {
        check(&format!("usage {i}"), at_x[i], at_y[i], at_middle[i]);
    }
}

/// What a user draws is typical; what comes may not be. A context that the problem accepts must keep it convex: the layer and
/// the guard stand on that.
fn stretched_contexts_are_refused_or_convex(problem: &dyn SmoothProblem, x: &[f64], y: &[f64], c: &[f64]) {
    for factor in [0.0, 0.1, 3.0, 30.0] {
        for entry in 0..=c.len() {
            let mut stretched = c.to_vec();
            match stretched.get_mut(entry) {
                Some(value) => *value *= factor,
                None => stretched.iter_mut().for_each(|value| *value *= factor),
            }
            if problem.check_context(&stretched).is_ok() {
                functions_are_convex(problem, x, y, &stretched);
            }
        }
    }
}

fn batches_equal_single_calls(problem: &dyn SmoothProblem, x: &[f64], y: &[f64], c: &[f64]) {
    let Dimensions {
        actions: d,
        budgets: m,
        ..
    } = problem.dimensions();
    let actions = [x, y].concat();
    let contexts = [c, c].concat();
    let mut costs = [0.0; 2];
    problem.cost_batch(&actions, &contexts, &mut costs);
    let mut usages = vec![0.0; 2 * m];
    problem.usage_batch(&actions, &contexts, &mut usages);
    let prices: Vec<f64> = (0..2 * m).map(|i| 0.3 + 0.1 * i as f64).collect();
    let mut pulled = vec![0.0; 2 * d];
    problem.step_pullback_batch(&actions, &contexts, &prices, 0.7, &mut Vec::new(), &mut pulled);
    for (row, action) in [x, y].into_iter().enumerate() {
        close("cost_batch", costs[row], problem.cost(action, c), 1e-13);
        let usage = usage_of(problem, action, c);
        let (mut gradient, mut jacobian) = (vec![0.0; d], vec![0.0; m * d]);
        problem.cost_gradient(action, c, &mut gradient);
        problem.usage_jacobian(action, c, &mut jacobian);
        for i in 0..m {
            close("usage_batch", usages[row * m + i], usage[i], 0.0);
        }
        for j in 0..d {
            let expected = 0.7 * gradient[j]
                - (0..m)
                    .map(|i| prices[row * m + i] * jacobian[i * d + j])
                    .sum::<f64>();
            close("step_pullback_batch", pulled[row * d + j], expected, 1e-12);
        }
    }
}

fn close(what: &str, found: f64, expected: f64, tolerance: f64) {
    let error = (found - expected).abs();
    assert!(
        error <= tolerance * (1.0 + expected.abs()),
        "{what}: found {found}, expected {expected}, {error:e} apart"
    );
}

/// Compares an analytic derivative with a difference that knows its own error.
fn agrees(what: &str, found: f64, (expected, doubt): (f64, f64)) {
    let error = (found - expected).abs();
    let allowed = 1e-6 * (1.0 + expected.abs()) + 4.0 * doubt;
    assert!(
        error <= allowed,
        "{what}: found {found}, differences give {expected}, {error:e} apart"
    );
}

fn action_derivatives_are_right(problem: &dyn SmoothProblem, x: &[f64], c: &[f64], weights: &[f64]) {
    let Dimensions {
        actions: d,
        budgets: m,
        ..
    } = problem.dimensions();
    let (mut gradient, mut jacobian, mut hessian) = (vec![0.0; d], vec![0.0; m * d], vec![0.0; d * d]);
    problem.cost_gradient(x, c, &mut gradient);
    problem.usage_jacobian(x, c, &mut jacobian);
    problem.lagrangian_hessian(x, c, weights, &mut hessian);
    let mut point = x.to_vec();
    // Around a fixed action there may be nothing to differ: its neighbours are outside the box.
    for j in (0..d).filter(|j| problem.lower()[*j] < problem.upper()[*j]) {
        let step = 1e-4 * (problem.upper()[j] - problem.lower()[j]).min(1.0);
        let cost = central_difference(&mut point, j, step, &mut |x| vec![problem.cost(x, c)]);
        agrees(&format!("cost_gradient[{j}]"), gradient[j], cost[0]);
        let usage = central_difference(&mut point, j, step, &mut |x| usage_of(problem, x, c));
        for i in 0..m {
            agrees(
                &format!("usage_jacobian[{i}][{j}]"),
                jacobian[i * d + j],
                usage[i],
            );
        }
        let lagrangian = central_difference(&mut point, j, step, &mut |x| {
            lagrangian_gradient(problem, x, c, weights)
        });
        for i in 0..d {
            agrees(
                &format!("lagrangian_hessian[{i}][{j}]"),
                hessian[i * d + j],
                lagrangian[i],
            );
        }
    }
}

fn context_derivatives_are_right(problem: &dyn SmoothProblem, x: &[f64], c: &[f64], weights: &[f64]) {
    let Dimensions {
        actions: d,
        budgets: m,
        context: q,
    } = problem.dimensions();
    let (mut gradient, mut jacobian, mut mixed) = (vec![0.0; q], vec![0.0; m * q], vec![0.0; d * q]);
    problem.cost_context_gradient(x, c, &mut gradient);
    problem.usage_context_jacobian(x, c, &mut jacobian);
    problem.lagrangian_mixed(x, c, weights, &mut mixed);
    let mut point = c.to_vec();
    for j in 0..q {
        let step = 1e-4 * c[j].abs().max(1e-2);
        let cost = central_difference(&mut point, j, step, &mut |c| vec![problem.cost(x, c)]);
        agrees(&format!("cost_context_gradient[{j}]"), gradient[j], cost[0]);
        let usage = central_difference(&mut point, j, step, &mut |c| usage_of(problem, x, c));
        for i in 0..m {
            agrees(
                &format!("usage_context_jacobian[{i}][{j}]"),
                jacobian[i * q + j],
                usage[i],
            );
        }
        let lagrangian = central_difference(&mut point, j, step, &mut |c| {
            lagrangian_gradient(problem, x, c, weights)
        });
        for i in 0..d {
            agrees(
                &format!("lagrangian_mixed[{i}][{j}]"),
                mixed[i * q + j],
                lagrangian[i],
            );
        }
    }
}

fn context_pullback_is_that_of_the_tables(
    problem: &dyn SmoothProblem,
    x: &[f64],
    c: &[f64],
    weights: &[f64],
    rng: &mut ChaCha8Rng,
) {
    let Dimensions {
        actions: d,
        budgets: m,
        context: q,
    } = problem.dimensions();
    let mut draw = |count: usize| -> Vec<f64> { (0..count).map(|_| rng.random_range(-1.0..1.0)).collect() };
    let (by_action, by_usage) = (draw(d), draw(m));
    let (mut jacobian, mut mixed) = (vec![0.0; m * q], vec![0.0; d * q]);
    problem.usage_context_jacobian(x, c, &mut jacobian);
    problem.lagrangian_mixed(x, c, weights, &mut mixed);
    // What the memory held before must not matter.
    let (mut scratch, mut pulled) = (vec![f64::NAN; 1], vec![f64::NAN; q]);
    problem.context_pullback(x, c, weights, (&by_action, &by_usage), &mut scratch, &mut pulled);
    for k in 0..q {
        let of_actions = (0..d).map(|i| by_action[i] * mixed[i * q + k]);
        let terms: Vec<f64> = of_actions
            .chain((0..m).map(|row| by_usage[row] * jacobian[row * q + k]))
            .collect();
        let (sum, size): (f64, f64) = (terms.iter().sum(), terms.iter().map(|term| term.abs()).sum());
        close(
            "context_pullback",
            pulled[k] / (1.0 + size),
            -sum / (1.0 + size),
            1e-13,
        );
    }
}

/// `∇_x l + Σ_m weights_m ∇_x g_m`.
fn lagrangian_gradient(problem: &dyn SmoothProblem, x: &[f64], c: &[f64], weights: &[f64]) -> Vec<f64> {
    let d = x.len();
    let (mut gradient, mut jacobian) = (vec![0.0; d], vec![0.0; weights.len() * d]);
    problem.cost_gradient(x, c, &mut gradient);
    problem.usage_jacobian(x, c, &mut jacobian);
    for (row, weight) in jacobian.chunks_exact(d).zip(weights) {
        for (gradient, value) in gradient.iter_mut().zip(row) {
            *gradient += weight * value;
        }
    }
    gradient
}

fn structure_is_true(problem: &dyn SmoothProblem, x: &[f64], y: &[f64], c: &[f64], weights: &[f64]) {
    let Dimensions {
        actions: d,
        budgets: m,
        ..
    } = problem.dimensions();
    let structure = problem.structure();
    if structure.diagonal_hessian {
        let (mut hessian, mut diagonal) = (vec![0.0; d * d], vec![0.0; d]);
        problem.lagrangian_hessian(x, c, weights, &mut hessian);
        problem.lagrangian_hessian_diagonal(x, c, weights, &mut diagonal);
        for i in 0..d {
            close(
                "lagrangian_hessian_diagonal",
                diagonal[i],
                hessian[i * d + i],
                1e-13,
            );
            for j in 0..d {
                assert!(
                    i == j || hessian[i * d + j] == 0.0,
                    "the Hessian is claimed to be diagonal and is not"
                );
            }
        }
    }
    if structure.affine_usage {
        let (mut at_x, mut at_y) = (vec![0.0; m * d], vec![0.0; m * d]);
        problem.usage_jacobian(x, c, &mut at_x);
        problem.usage_jacobian(y, c, &mut at_y);
        for (a, b) in at_x.iter().zip(&at_y) {
            close("usage_jacobian of an affine usage at two actions", *a, *b, 1e-12);
        }
    }
}
