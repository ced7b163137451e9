use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{assert_dimensions, central_difference, draw_action, generator, usage_of};
use crate::closed_form::{LinearSteps, Regularity};
use crate::guard::{Cap, CappedLayer};
use crate::problem::{Dimensions, SmoothProblem};
use crate::solver::{Differentiate, Exactness, Gradients, Input, Queries, Query, Solutions, Status};

const SAMPLES: usize = 60;

/// Checks a layer: actions are feasible to the last bit and optimal, the pullback equals differences away from kinks,
/// batches equal single calls, bad queries are answered and spoil nothing; and a closed form, if there is one, says the
/// same.
///
/// `draw_context` writes a valid context; multipliers and remaining budgets are drawn to leave budgets slack, to
/// press them, and both.
pub fn step_solver(
    solver: &mut dyn Differentiate,
    mut draw_context: impl FnMut(&mut ChaCha8Rng, &mut [f64]),
) {
    let dimensions = assert_dimensions(solver.problem());
    let mut rng = generator();
    let samples: Vec<Sample> = (0..SAMPLES)
        .map(|_| Sample::draw(solver.problem(), &mut rng, &mut draw_context))
        .collect();
    let mut exact = 0;
    for sample in &samples {
        let solution = sample.solve(solver);
        answer_is_feasible_and_optimal(solver.problem(), sample, &solution, &mut rng);
        near_answers_are_feasible_and_optimal(solver, sample, &solution, &mut rng);
        exact += usize::from(pullback_equals_differences(solver, sample, &solution, &mut rng));
    }
    // Bounds that meet are a kink of their own, at which a layer may call every gradient approximate.
    let fixed = (solver.problem().lower().iter())
        .zip(solver.problem().upper())
        .any(|(lower, upper)| lower == upper);
    assert!(
        fixed || 2 * exact > SAMPLES,
        "only {exact} of {SAMPLES} gradients could be compared with differences"
    );
    batches_equal_single_calls(solver, &samples, dimensions);
    closed_form_equals_the_solver(solver, &samples);
    bad_queries_are_answered(solver, &samples[0], dimensions);
}

/// One query with owned inputs.
struct Sample {
    context: Vec<f64>,
    multiplier: Vec<f64>,
    remaining: Vec<f64>,
}

impl Sample {
    fn draw(
        problem: &dyn SmoothProblem,
        rng: &mut ChaCha8Rng,
        draw_context: &mut impl FnMut(&mut ChaCha8Rng, &mut [f64]),
    ) -> Self {
        let Dimensions {
            actions: d,
            budgets: m,
            context: q,
        } = problem.dimensions();
        let mut context = vec![0.0; q];
        draw_context(rng, &mut context);
        let mut target = vec![0.0; d];
        draw_action(problem, rng, &mut target);
        // Prices near the marginal utility of the target over its marginal usage make interior optima likely.
        let (mut gradient, mut jacobian) = (vec![0.0; d], vec![0.0; m * d]);
        problem.cost_gradient(&target, &context, &mut gradient);
        problem.usage_jacobian(&target, &context, &mut jacobian);
        let norm = |values: &[f64]| values.iter().map(|v| v.abs()).sum::<f64>();
        let price = norm(&gradient) / norm(&jacobian).max(1e-9);
        let multiplier = (0..m).map(|_| price * rng.random_range(0.1..2.0)).collect();
        let least = usage_of(problem, problem.lower(), &context);
        let most = usage_of(problem, problem.upper(), &context);
        let wanted = usage_of(problem, &target, &context);
        let remaining = (0..m)
            .map(|i| {
                let base = if rng.random_bool(0.5) { wanted[i] } else { most[i] };
                least[i] + (base - least[i]) * rng.random_range(0.2..1.2) + 1e-3
            })
            .collect();
        Self {
            context,
            multiplier,
            remaining,
        }
    }

    fn query(&self) -> Query<'_> {
        Query {
            context: &self.context,
            multiplier: &self.multiplier,
            available: &self.remaining,
        }
    }

    fn solve(&self, solver: &mut dyn Differentiate) -> Solutions {
        let mut solution = Solutions::new(solver.problem().dimensions(), 1);
        solver
            .solve(self.query(), solution.row_mut(0))
            .expect("the sizes fit");
        assert!(solution.row(0).status.is_solved(), "{}", solution.row(0).status);
        solution
    }
}

fn objective(problem: &dyn SmoothProblem, sample: &Sample, action: &[f64]) -> f64 {
    let usage = usage_of(problem, action, &sample.context);
    problem.cost(action, &sample.context)
        + usage
            .iter()
            .zip(&sample.multiplier)
            .map(|(g, l)| g * l)
            .sum::<f64>()
}

/// From the answer itself, from anywhere, and from what is no action at all.
fn near_answers_are_feasible_and_optimal(
    solver: &mut dyn Differentiate,
    sample: &Sample,
    solution: &Solutions,
    rng: &mut ChaCha8Rng,
) {
    let dimensions = solver.problem().dimensions();
    let mut anywhere = vec![0.0; dimensions.actions];
    draw_action(solver.problem(), rng, &mut anywhere);
    let answer = solution.row(0).action.to_vec();
    for near in [answer, anywhere, vec![f64::NAN; dimensions.actions]] {
        let mut found = Solutions::new(dimensions, 1);
        solver
            .solve_near(sample.query(), &near, found.row_mut(0))
            .expect("the sizes fit");
        assert!(
            found.row(0).status.is_solved(),
            "near {near:?}: {}",
            found.row(0).status
        );
        answer_is_feasible_and_optimal(solver.problem(), sample, &found, rng);
    }
}

fn answer_is_feasible_and_optimal(
    problem: &dyn SmoothProblem,
    sample: &Sample,
    solution: &Solutions,
    rng: &mut ChaCha8Rng,
) {
    let solution = solution.row(0);
    for (i, x) in solution.action.iter().enumerate() {
        assert!(
            (problem.lower()[i]..=problem.upper()[i]).contains(x),
            "action[{i}] = {x} lies outside the box"
        );
    }
    let usage = usage_of(problem, solution.action, &sample.context);
    for (i, (used, remaining)) in usage.iter().zip(&sample.remaining).enumerate() {
        assert!(
            used <= remaining,
            "usage {used} of budget {i} is above the remaining {remaining}"
        );
    }
    for duals in [solution.duals, solution.lower_duals, solution.upper_duals] {
        assert!(
            duals.iter().all(|d| d.is_finite() && *d >= 0.0),
            "duals {duals:?} are not all non-negative"
        );
    }
    let best = objective(problem, sample, solution.action);
    let mut other = vec![0.0; solution.action.len()];
    for _ in 0..40 {
        draw_action(problem, rng, &mut other);
        let share = 10f64.powf(rng.random_range(-6.0..0.0));
        for (x, at) in other.iter_mut().zip(solution.action) {
            *x = at + share * (*x - at);
        }
        let usage = usage_of(problem, &other, &sample.context);
        if usage
            .iter()
            .zip(&sample.remaining)
            .all(|(used, remaining)| used <= remaining)
        {
            let value = objective(problem, sample, &other);
            assert!(
                value >= best - 1e-8 * (1.0 + best.abs()),
                "{other:?} is better than the answer {:?}: {value} < {best}",
                solution.action
            );
        }
    }
}

/// Compares the pullback with differences of the action; says whether the point was smooth enough to compare.
fn pullback_equals_differences(
    solver: &mut dyn Differentiate,
    sample: &Sample,
    solution: &Solutions,
    rng: &mut ChaCha8Rng,
) -> bool {
    let dimensions = solver.problem().dimensions();
    let upstream: Vec<f64> = (0..dimensions.actions)
        .map(|_| rng.random_range(-1.0..1.0))
        .collect();
    let mut gradient = Gradients::with_contexts(dimensions, 1);
    let mut pull = |solver: &mut dyn Differentiate, upstream: &[f64]| {
        let exactness = solver
            .pullback(sample.query(), solution.row(0), upstream, gradient.row_mut(0))
            .expect("the sizes fit");
        (
            exactness,
            [
                gradient.multipliers.clone(),
                gradient.available.clone(),
                gradient.contexts.clone(),
            ],
        )
    };
    let (exactness, parts) = pull(solver, &upstream);
    assert!(
        parts.iter().flatten().all(|g| g.is_finite()),
        "the pullback is not finite: {parts:?}"
    );
    let (_, of_zero) = pull(solver, &vec![0.0; dimensions.actions]);
    assert!(
        of_zero.iter().flatten().all(|g| *g == 0.0),
        "the pullback of zero is {of_zero:?}"
    );
    if exactness != Exactness::Exact {
        return false;
    }
    let mut smooth = true;
    for (part, analytic) in parts.iter().enumerate() {
        for index in 0..analytic.len() {
            let mut input = [
                sample.multiplier.clone(),
                sample.remaining.clone(),
                sample.context.clone(),
            ];
            let mut point = input[part].clone();
            let step = 1e-5 * point[index].abs().max(1e-3);
            let difference = central_difference(&mut point, index, step, &mut |values| {
                input[part].copy_from_slice(values);
                let moved = Sample {
                    multiplier: input[0].clone(),
                    remaining: input[1].clone(),
                    context: input[2].clone(),
                };
                let solution = moved.solve(solver);
                vec![
                    solution
                        .row(0)
                        .action
                        .iter()
                        .zip(&upstream)
                        .map(|(x, u)| x * u)
                        .sum(),
                ]
            })[0];
            let scale = 1.0 + difference.0.abs();
            if difference.1 > 1e-5 * scale {
                smooth = false; // a kink lies within the step
                continue;
            }
            let error = (analytic[index] - difference.0).abs();
            assert!(
                error <= 1e-5 * scale + 4.0 * difference.1,
                "gradient in {}[{index}] is {}, differences give {}",
                ["multiplier", "remaining", "context"][part],
                analytic[index],
                difference.0
            );
        }
    }
    smooth
}

fn batches_equal_single_calls(solver: &mut dyn Differentiate, samples: &[Sample], dimensions: Dimensions) {
    let gather = |part: fn(&Sample) -> &[f64]| {
        samples
            .iter()
            .flat_map(|s| part(s).iter().copied())
            .collect::<Vec<_>>()
    };
    let contexts = gather(|s| &s.context);
    let multipliers = gather(|s| &s.multiplier);
    let remaining = gather(|s| &s.remaining);
    let queries = Queries {
        contexts: &contexts,
        multipliers: &multipliers,
        available: &remaining,
    };
    let mut together = Solutions::new(dimensions, samples.len());
    solver.solve_batch(queries, &mut together).expect("the sizes fit");
    let upstream: Vec<f64> = (0..samples.len() * dimensions.actions)
        .map(|i| (i as f64 * 0.7).sin())
        .collect();
    let mut gradients = Gradients::new(dimensions, samples.len());
    solver
        .pullback_batch(queries, &together, &upstream, &mut gradients)
        .expect("the sizes fit");
    let mut fork = solver.fork();
    let m = dimensions.budgets;
    for (row, sample) in samples.iter().enumerate() {
        let single = sample.solve(&mut *fork);
        assert_close("solve_batch", together.row(row).action, single.row(0).action);
        let mut gradient = Gradients::new(dimensions, 1);
        let upstream = &upstream[row * dimensions.actions..][..dimensions.actions];
        fork.pullback(sample.query(), single.row(0), upstream, gradient.row_mut(0))
            .expect("the sizes fit");
        assert_close(
            "pullback_batch",
            &gradients.multipliers[row * m..][..m],
            &gradient.multipliers,
        );
        assert_close(
            "pullback_batch",
            &gradients.available[row * m..][..m],
            &gradient.available,
        );
    }
}

fn closed_form_equals_the_solver(solver: &mut dyn Differentiate, samples: &[Sample]) {
    let gather = |part: fn(&Sample) -> &[f64]| samples.iter().flat_map(part).copied().collect::<Vec<_>>();
    let (contexts, multipliers, remaining) = (
        gather(|s| &s.context),
        gather(|s| &s.multiplier),
        gather(|s| &s.remaining),
    );
    let rows = samples.len();
    let (mut tables, mut costs) = (vec![vec![0.0; rows]; 6], vec![0.0; rows]);
    let regularity = {
        let Some(layer) = solver.closed_form() else {
            return;
        };
        let [
            actions,
            usages,
            cost_slopes,
            usage_slopes,
            multiplier_slopes,
            remaining_slopes,
        ] = &mut tables[..]
        else {
            unreachable!("six tables");
        };
        let queries = Queries {
            contexts: &contexts,
            multipliers: &multipliers,
            available: &remaining,
        };
        let steps = LinearSteps {
            actions,
            usages,
            cost_slopes,
            usage_slopes,
            multiplier_slopes,
            remaining_slopes,
        };
        let regularity = layer.linearise_batch(queries, steps).expect("the sizes fit");
        layer.cost_batch(&tables[0], &contexts, &mut costs);
        regularity
    };
    let dimensions = solver.problem().dimensions();
    let mut all_exact = true;
    for (row, sample) in samples.iter().enumerate() {
        let solution = sample.solve(solver);
        let mut gradient = Gradients::new(dimensions, 1);
        let exactness = solver
            .pullback(sample.query(), solution.row(0), &[1.0], gradient.row_mut(0))
            .expect("the sizes fit");
        all_exact &= exactness == Exactness::Exact;
        let layer = solver.closed_form().expect("a closed form, as before");
        assert_eq!(layer.exactness(sample.query()), Ok(exactness), "of a closed form");
        let (problem, action) = (solver.problem(), solution.row(0).action);
        let (mut usage, mut slopes) = ([0.0], [[0.0]; 2]);
        problem.usage(action, &sample.context, &mut usage);
        problem.cost_gradient(action, &sample.context, &mut slopes[0]);
        problem.usage_jacobian(action, &sample.context, &mut slopes[1]);
        let expected = [
            action[0],
            usage[0],
            slopes[0][0],
            slopes[1][0],
            gradient.multipliers[0],
            gradient.available[0],
        ];
        let found: Vec<f64> = tables.iter().map(|table| table[row]).collect();
        assert_close("linearise_batch", &found, &expected);
        let cost = problem.cost(action, &sample.context);
        assert_close("cost_batch", &costs[row..=row], &[cost]);
        let mut limited = CappedLayer::new(solver.fork());
        for limit in [cost - 1e-3 * cost.abs(), cost - 0.3 * cost.abs(), cost - 1e3] {
            step_at_a_cost_equals_the_layer(&mut limited, solver, sample, limit);
        }
    }
    assert!(
        all_exact || regularity == Regularity::Irregular,
        "a batch with a kink was called regular"
    );
}

fn step_at_a_cost_equals_the_layer(
    limited: &mut CappedLayer,
    solver: &dyn Differentiate,
    sample: &Sample,
    limit: f64,
) {
    let (problem, query) = (solver.problem(), sample.query());
    let dimensions = problem.dimensions();
    let (mut solutions, mut gradients) = (Solutions::new(dimensions, 1), Gradients::new(dimensions, 1));
    let cap = (limited.solve(query, limit, solutions.row_mut(0))).expect("the sizes fit");
    let layer = solver.closed_form().expect("a closed form, as before");
    let Cap::Binding { .. } = cap else {
        assert!(
            cap != Cap::Empty || layer.at_cost(query, limit).is_none(),
            "{cap:?}"
        );
        return;
    };
    let step = (layer.at_cost(query, limit)).expect("an action that costs so little");
    let solution = solutions.row(0);
    let (exactness, in_limit) = limited
        .pullback(query, cap, solution, &[1.0], gradients.row_mut(0))
        .expect("the sizes fit");
    assert_eq!(step.exactness, exactness, "of a step at a cost");
    let (mut usage, mut slopes) = ([0.0], [[0.0]; 2]);
    problem.usage(solution.action, &sample.context, &mut usage);
    problem.cost_gradient(solution.action, &sample.context, &mut slopes[0]);
    problem.usage_jacobian(solution.action, &sample.context, &mut slopes[1]);
    assert_close(
        "at_cost",
        &[
            step.action,
            step.usage,
            step.cost_slope,
            step.usage_slope,
            1.0 / step.cost_slope,
        ],
        &[solution.action[0], usage[0], slopes[0][0], slopes[1][0], in_limit],
    );
}

fn assert_close(what: &str, found: &[f64], expected: &[f64]) {
    for (a, b) in found.iter().zip(expected) {
        assert!(
            (a - b).abs() <= 1e-10 * (1.0 + b.abs()),
            "{what}: {a} in a batch, {b} alone"
        );
    }
}

fn bad_queries_are_answered(solver: &mut dyn Differentiate, good: &Sample, dimensions: Dimensions) {
    let Dimensions {
        budgets: m,
        context: q,
        ..
    } = dimensions;
    let short = Query {
        context: &good.context,
        multiplier: &good.multiplier,
        available: &[],
    };
    let mut solution = Solutions::new(dimensions, 1);
    assert!(
        solver.solve(short, solution.row_mut(0)).is_err(),
        "a query of the wrong length was accepted"
    );

    // Rows: good, NaN multiplier, infinite remaining, negative multiplier, infeasible, good.
    let rows = 6;
    let mut contexts = good.context.repeat(rows);
    let mut multipliers = good.multiplier.repeat(rows);
    let mut remaining = good.remaining.repeat(rows);
    multipliers[m] = f64::NAN;
    remaining[2 * m] = f64::INFINITY;
    multipliers[3 * m] = -1.0;
    remaining[4 * m] = -1.0;
    let queries = Queries {
        contexts: &contexts,
        multipliers: &multipliers,
        available: &remaining,
    };
    let mut together = Solutions::new(dimensions, rows);
    solver.solve_batch(queries, &mut together).expect("the sizes fit");
    let alone = good.solve(solver);
    for row in [0, rows - 1] {
        assert_close(
            "a good row beside bad ones",
            together.row(row).action,
            alone.row(0).action,
        );
    }
    let is_invalid = |row: usize, expected: Input| {
        let status = together.row(row).status;
        assert!(
            matches!(status, Status::Invalid { input, index: 0, .. } if input == expected),
            "a bad {expected} gave: {status}"
        );
    };
    is_invalid(1, Input::Multiplier);
    is_invalid(2, Input::Available);
    is_invalid(3, Input::Multiplier);
    let status = together.row(4).status;
    assert!(
        matches!(status, Status::Infeasible { budget: 0, shortfall } if shortfall > 0.0),
        "a budget that cannot pay gave: {status}"
    );
    assert!(
        together.actions().iter().all(|x| x.is_finite()),
        "an action is not finite"
    );

    contexts[q] = f64::NAN;
    let queries = Queries {
        contexts: &contexts,
        multipliers: &multipliers,
        available: &remaining,
    };
    solver.solve_batch(queries, &mut together).expect("the sizes fit");
    let status = together.row(1).status;
    assert!(
        matches!(status, Status::Invalid { .. }),
        "a NaN in the context gave: {status}"
    );
    let mut gradients = Gradients::new(dimensions, rows);
    let upstream = vec![1.0; rows * dimensions.actions];
    solver
        .pullback_batch(queries, &together, &upstream, &mut gradients)
        .expect("the sizes fit");
    let finite = gradients
        .multipliers
        .iter()
        .chain(&gradients.available)
        .all(|g| g.is_finite());
    assert!(finite, "the pullback of a bad query is not finite");
    assert!(
        gradients.exactness[1] != Exactness::Exact,
        "the gradient of an unsolved query claims to be exact"
    );
}
