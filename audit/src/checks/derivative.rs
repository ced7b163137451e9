//! `derivative`: a pullback is right, or says that it is none.

use laau_core::{Differentiate, Dimensions, Exactness, Gradients, Query, SolutionRef, Solutions};
use rand_chacha::ChaCha8Rng;

use super::differences::{Sides, sides};
use super::kinks::{Kinks, NEAR};
use super::layer::by_every_solver;
use super::{Audit, Failure, Tally};
use crate::certificate::Lagrangian;
use crate::draw::Size;
use crate::query::{LayerCase, Resolved, typical_prices};

/// A kink at this relative distance or nearer is at the query itself: less than the last bit of a float.
const AT: f64 = 2e-17;
/// Inputs that are moved in one case.
const PROBES: usize = 6;

pub(crate) struct Derivative;

impl Audit for Derivative {
    type Case = LayerCase;

    fn draw(rng: &mut ChaCha8Rng) -> LayerCase {
        let size = Size {
            actions: 8,
            budgets: 5,
            wild: 0.08,
        };
        LayerCase::draw(rng, size)
    }

    fn check(case: &LayerCase) -> Result<Tally, Failure> {
        by_every_solver(case, |resolved, solver| judge(case, resolved, solver))
    }
}

/// Which number of a query is moved.
#[derive(Debug, Clone, Copy)]
enum Probe {
    Multiplier(usize),
    Remaining(usize),
    Context(usize),
}

fn judge(case: &LayerCase, resolved: &Resolved, solver: &mut dyn Differentiate) -> Result<Tally, Failure> {
    let dimensions = resolved.problem.dimensions();
    let query = resolved.query();
    let mut solutions = Solutions::new(dimensions, 1);
    let broken = |error: laau_core::Error| Failure::new("error", error.to_string());
    solver.solve(query, solutions.row_mut(0)).map_err(broken)?;
    let solution = solutions.row(0);
    if !solution.status.is_solved() {
        // The layer check has its say about that.
        return Ok(Tally::default());
    }
    // Actions of all sizes count alike.
    let upstream: Vec<f64> = solution
        .action
        .iter()
        .enumerate()
        .map(|(i, x)| {
            let sign = if i % 2 == 0 { 1.0 } else { -0.7 };
            let size = x.abs().max(1e-3 * resolved.problem.upper()[i].abs());
            if size > 0.0 { sign / size } else { sign }
        })
        .collect();
    let mut gradients = Gradients::with_contexts(dimensions, 1);
    let exactness = solver
        .pullback(query, solution, &upstream, gradients.row_mut(0))
        .map_err(broken)?;
    let entries = [&gradients.multipliers, &gradients.available, &gradients.contexts];
    if let Some(value) = entries.into_iter().flatten().find(|value| !value.is_finite()) {
        return Err(Failure::new(
            "not-finite",
            format!("the gradient has {value}, {exactness:?}"),
        ));
    }
    let kinks = Kinks::new(resolved, solution);
    let mut all_smooth = true;
    for probe in probes(dimensions) {
        let found = differences((case, resolved), solution, solver, &upstream, probe);
        let gradient = match probe {
            Probe::Multiplier(m) => gradients.multipliers[m],
            Probe::Remaining(m) => gradients.available[m],
            Probe::Context(k) => gradients.contexts[k],
        };
        all_smooth &= found.smooth();
        if exactness == Exactness::Exact {
            let cancelled = || cancelled(resolved, solution, &upstream, probe);
            exact(probe, gradient, &found, (&kinks, cancelled))?;
        }
    }
    let approximate = exactness != Exactness::Exact;
    if let Exactness::Approximate { reason } = exactness
        && all_smooth
        && kinks.nearest() > NEAR
        && !kinks.excuses(reason)
    {
        return Err(Failure::new(
            "needless-flag",
            format!(
                "{reason:?}, but all differences are smooth and the nearest kink is {:.1e} away",
                kinks.nearest()
            ),
        ));
    }
    Ok(Tally {
        gradients: 1,
        approximate: u64::from(approximate),
        ..Tally::default()
    })
}

/// Judges one entry of a gradient that claims to be exact.
fn exact(
    probe: Probe,
    gradient: f64,
    found: &Sides,
    (kinks, cancelled): (&Kinks, impl Fn() -> f64),
) -> Result<(), Failure> {
    if kinks.within(1e-4) > 1 {
        // Between several kinks the differences see them all, and the derivative none.
        return Ok(());
    }
    let describe = || {
        format!(
            "{probe:?}: gradient {gradient:e}, {found:?}, nearest kink {:.1e}",
            kinks.nearest()
        )
    };
    let (forward, backward) = (found.forward, found.backward);
    if found.kink() {
        if kinks.nearest() <= AT {
            return Err(Failure::new("exact-at-kink", describe()));
        }
        let matches =
            [forward, backward].map(|side| side.map_or(Some(false), |side| found.agrees(gradient, side)));
        if matches == [Some(false), Some(false)] {
            return Err(Failure::new("wrong-gradient", describe()));
        }
        return Ok(());
    }
    let known = found.smooth() || forward.is_none() || backward.is_none();
    if let (true, Some(best)) = (known, found.best())
        && kinks.within(1e-2) == 0
        && found.agrees(gradient, best) == Some(false)
        && (gradient - best.value).abs() > kinks.grain * found.unit + cancelled()
    {
        return Err(Failure::new("wrong-gradient", describe()));
    }
    Ok(())
}

/// What eight roundings of the problem's own derivatives are worth in an entry of a gradient: it is a sum over actions, which may cancel.
fn cancelled(resolved: &Resolved, solution: SolutionRef<'_>, upstream: &[f64], probe: Probe) -> f64 {
    let (problem, query) = (&*resolved.problem, resolved.query());
    let Dimensions {
        actions: d,
        budgets: m,
        context: q,
    } = problem.dimensions();
    let weights = resolved.weights(solution.duals);
    // How each action's part of stationarity changes with the input.
    let mut slopes = vec![0.0; d * m.max(q)];
    let slope: Box<dyn Fn(usize) -> f64> = match probe {
        Probe::Multiplier(row) => {
            problem.usage_jacobian(solution.action, query.context, &mut slopes[..m * d]);
            Box::new(move |i| slopes[row * d + i])
        }
        Probe::Context(entry) => {
            problem.lagrangian_mixed(solution.action, query.context, &weights, &mut slopes[..d * q]);
            Box::new(move |i| slopes[i * q + entry])
        }
        Probe::Remaining(_) => return 0.0,
    };
    let mut hessian = vec![0.0; d * d];
    problem.lagrangian_hessian(solution.action, query.context, &weights, &mut hessian);
    let terms = (0..d).map(|i| (upstream[i] * slope(i) / hessian[i * d + i]).abs());
    8.0 * f64::EPSILON * terms.filter(|term| term.is_finite()).sum::<f64>()
}

/// Some inputs of each kind.
fn probes(dimensions: Dimensions) -> Vec<Probe> {
    let Dimensions { budgets, context, .. } = dimensions;
    let all: Vec<Probe> = (0..budgets)
        .flat_map(|m| [Probe::Multiplier(m), Probe::Remaining(m)])
        .chain((0..context).map(Probe::Context))
        .collect();
    let stride = all.len().div_ceil(PROBES);
    all.into_iter().step_by(stride.max(1)).collect()
}

/// Moves one input and solves again.
fn differences(
    (case, resolved): (&LayerCase, &Resolved),
    solution: SolutionRef<'_>,
    solver: &mut dyn Differentiate,
    upstream: &[f64],
    probe: Probe,
) -> Sides {
    let dimensions = resolved.problem.dimensions();
    let (mut context, mut multiplier, mut remaining) = (
        resolved.context.clone(),
        resolved.multiplier.clone(),
        resolved.available.clone(),
    );
    let corner = resolved.usage(resolved.problem.lower());
    // Near the lower corner the room above it is the natural unit of a budget.
    let room = |m: usize| (resolved.available[m] - corner[m]).max(1e-6 * resolved.available[m].abs());
    let typical = typical_prices(&case.recipe, &context);
    let largest = context.iter().fold(0.0_f64, |most, c| most.max(c.abs()));
    let (value, size) = match probe {
        Probe::Multiplier(m) => (multiplier[m], multiplier[m].max(1e-3 * typical[m])),
        Probe::Remaining(m) => (remaining[m], room(m).min(remaining[m].abs()).max(1e-300)),
        // Nothing says how large a step from zero is, but that it must not free an action from its bound.
        Probe::Context(k) if context[k] == 0.0 => {
            (0.0, (1e-3 * largest).max(1e-12).min(reach(resolved, solution, k)))
        }
        // Where usage depends on the context, a step must not use up that room, either.
        Probe::Context(k) => {
            let mut slopes = vec![0.0; dimensions.budgets * dimensions.context];
            (resolved.problem).usage_context_jacobian(solution.action, &context, &mut slopes);
            let slope = |m: usize| slopes[m * dimensions.context + k].abs();
            let within = (0..dimensions.budgets).map(|m| room(m) / slope(m));
            (
                context[k],
                within.filter(|size| *size > 0.0).fold(context[k], f64::min),
            )
        }
    };
    let both = value - 1e-2 * size > 0.0;
    let mut solutions = Solutions::new(dimensions, 1);
    let mut function = |moved: f64| {
        match probe {
            Probe::Multiplier(m) => multiplier[m] = moved,
            Probe::Remaining(m) => remaining[m] = moved,
            Probe::Context(k) => context[k] = moved,
        }
        let query = Query {
            context: &context,
            multiplier: &multiplier,
            available: &remaining,
        };
        solver.solve(query, solutions.row_mut(0)).ok()?;
        let solution = solutions.row(0);
        let sum = upstream.iter().zip(solution.action).map(|(u, x)| u * x).sum();
        solution.status.is_solved().then_some(sum)
    };
    let count = upstream.len() as f64;
    let found = sides(&mut function, value, size, count, both);
    if value > 0.0 {
        return found;
    }
    // At zero nothing says how large a step is: two ladders must see the same.
    let finer = sides(&mut function, value, 1e-4 * size, count, both);
    match (found.best(), finer.best()) {
        (Some(a), Some(b)) if found.agrees(a.value, b) == Some(true) => found,
        _ => Sides::unknown(found.unit),
    }
}

/// How far an entry of the context may move, to first order, before an action leaves the bound that holds it.
fn reach(resolved: &Resolved, solution: SolutionRef<'_>, entry: usize) -> f64 {
    let (problem, query, x) = (&*resolved.problem, resolved.query(), solution.action);
    let Dimensions {
        actions: d,
        context: q,
        ..
    } = problem.dimensions();
    let (mut slope, mut terms, mut mixed) = (vec![0.0; d], vec![0.0; d], vec![0.0; d * q]);
    Lagrangian::new(problem, query, solution.duals).gradient_and_terms(x, &mut slope, &mut terms);
    let weights = resolved.weights(solution.duals);
    problem.lagrangian_mixed(x, query.context, &weights, &mut mixed);
    (0..d)
        .filter(|&i| {
            let (lower, upper) = (problem.lower()[i], problem.upper()[i]);
            (x[i] - lower).min(upper - x[i]) <= 1e-9 * upper.abs() && slope[i].abs() > NEAR * terms[i]
        })
        .map(|i| slope[i].abs() / mixed[i * q + entry].abs())
        .filter(|reach| *reach > 0.0)
        .fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use laau_core::{Error, GradientMut, Inexact, SmoothProblem, SolutionMut, StepSolver};
    use laau_kkt::{InteriorPoint, Options};

    use super::*;
    use crate::custom::Form;
    use crate::query::{Corner, Level};
    use crate::recipe::{Kind, Recipe};

    /// A solver whose gradients are a little off, or never exact.
    #[derive(Clone)]
    struct Wrong {
        inner: InteriorPoint,
        factor: f64,
        flagged: bool,
    }

    impl StepSolver for Wrong {
        fn problem(&self) -> &dyn SmoothProblem {
            self.inner.problem()
        }

        fn solve(&mut self, query: Query<'_>, solution: SolutionMut<'_>) -> Result<(), Error> {
            self.inner.solve(query, solution)
        }
    }

    impl Differentiate for Wrong {
        fn pullback(
            &mut self,
            query: Query<'_>,
            solution: SolutionRef<'_>,
            upstream: &[f64],
            gradient: GradientMut<'_>,
        ) -> Result<Exactness, Error> {
            let scaled: Vec<f64> = upstream.iter().map(|u| self.factor * u).collect();
            let exactness = self.inner.pullback(query, solution, &scaled, gradient)?;
            Ok(if self.flagged {
                Exactness::Approximate {
                    reason: Inexact::WeaklyActive,
                }
            } else {
                exactness
            })
        }

        fn fork(&self) -> Box<dyn Differentiate> {
            Box::new(self.clone())
        }
    }

    fn check(case: &LayerCase, factor: f64, flagged: bool, expected: Option<&str>) {
        let resolved = case.resolve().unwrap();
        let mut solver = Wrong {
            inner: InteriorPoint::new(resolved.problem.clone(), Options::default()).unwrap(),
            factor,
            flagged,
        };
        let found = judge(case, &resolved, &mut solver).err();
        assert_eq!(found.map(|failure| failure.kind).as_deref(), expected);
    }

    #[test]
    fn a_right_gradient_passes_and_a_wrong_or_needlessly_flagged_one_does_not() {
        let case = LayerCase {
            recipe: Recipe {
                kind: Kind::LogUtility,
                budgets: 1,
                lower: vec![0.1; 2],
                upper: vec![10.0; 2],
                matrix: vec![1.0, 2.0],
                weights: Vec::new(),
                parameter: 0.0,
                most: 0.0,
            },
            context: vec![1.0, 0.7],
            multiplier: vec![0.1],
            levels: vec![Level::Share(0.2)],
        };
        check(&case, 1.0, false, None);
        check(&case, 1.01, false, Some("wrong-gradient"));
        check(&case, 1.0, true, Some("needless-flag"));
    }

    /// A budget that leaves 4e-9 of itself above the lower corner, and a context that usage is proportional to.
    #[test]
    fn a_step_of_a_context_does_not_use_up_what_a_budget_leaves() {
        let case = LayerCase {
            recipe: Recipe {
                kind: Kind::Custom(Form::Exponential),
                budgets: 1,
                lower: vec![4.0, 0.0],
                upper: vec![30.0, 5.0],
                matrix: vec![1.0; 2],
                weights: vec![6.0, 20.0],
                parameter: 0.0,
                most: 0.0,
            },
            context: vec![6.0, 10.0, 0.9],
            multiplier: vec![0.0],
            levels: vec![Level::Kink {
                corner: Corner::Lower,
                offset: 4e-9,
            }],
        };
        check(&case, 1.0, false, None);
        check(&case, 1.1, false, Some("wrong-gradient"));
    }

    /// Rates of 1e-12 that share a budget: in the weight of both, two derivatives of 1e13 cancel.
    #[test]
    fn a_sum_that_cancels_is_as_fine_as_its_terms_are_rounded() {
        let case = LayerCase {
            recipe: Recipe {
                kind: Kind::Wireless,
                budgets: 2,
                lower: vec![0.0; 2],
                upper: vec![2e-12; 2],
                matrix: Vec::new(),
                weights: Vec::new(),
                parameter: 1.0,
                most: 0.0,
            },
            context: vec![0.14, 1.0, 1.0],
            multiplier: vec![0.0; 2],
            levels: vec![Level::Share(1.0), Level::Share(0.5)],
        };
        check(&case, 1.0, false, None);
    }

    /// Both budgets begin to bind within 4e-12 of themselves: the derivative between these kinks is one that no difference sees.
    #[test]
    fn a_derivative_between_two_kinks_is_not_judged_by_differences_across_them() {
        let case = LayerCase {
            recipe: Recipe {
                kind: Kind::Custom(Form::Quadratic),
                budgets: 2,
                lower: vec![0.0; 3],
                upper: vec![500.0, 0.0, 80.0],
                matrix: vec![0.0, 0.0, 1.0, 1.0, 1.0, 1.0],
                weights: vec![1.0; 3],
                parameter: 0.0,
                most: 0.0,
            },
            context: vec![1.0, 0.0, 6.0],
            multiplier: vec![0.0; 2],
            levels: [(Corner::Free, 0.0), (Corner::Others, -5e-12)]
                .map(|(corner, offset)| Level::Kink { corner, offset })
                .to_vec(),
        };
        check(&case, 1.0, false, None);
    }

    /// A class of requests that asks for nothing is granted nothing until it asks for 3e-14, where a grant is worth its price.
    #[test]
    fn a_step_from_zero_does_not_free_an_action_from_its_bound() {
        let case = LayerCase {
            recipe: Recipe {
                kind: Kind::LlmTokens,
                budgets: 2,
                lower: vec![0.0; 2],
                upper: vec![1.0; 2],
                matrix: Vec::new(),
                weights: vec![1.0; 2],
                parameter: 4e10,
                most: 0.0,
            },
            context: vec![0.0, 1000.0, 0.0, 0.0],
            multiplier: vec![0.0, 0.0005],
            levels: vec![Level::Share(1.0), Level::Share(1.0)],
        };
        let tally = Derivative::check(&case).unwrap();
        assert_eq!((tally.gradients, tally.approximate), (1, 0));
    }
}
