//! `layer`: the status is honest, a solved action is payable and optimal by certificate.

use laau_core::{Differentiate, Query, Solutions, Status, StepSolver};
use rand_chacha::ChaCha8Rng;

use super::{Audit, Failure, Tally};
use crate::certificate::certify;
use crate::draw::Size;
use crate::query::{LayerCase, Resolved};

/// The largest relative duality gap of a solved query.
const GAP: f64 = 1e-7;

pub(crate) struct Layer;

impl Audit for Layer {
    type Case = LayerCase;

    fn draw(rng: &mut ChaCha8Rng) -> LayerCase {
        let size = Size {
            actions: 30,
            budgets: 10,
            wild: 0.15,
        };
        LayerCase::draw(rng, size)
    }

    fn check(case: &LayerCase) -> Result<Tally, Failure> {
        by_every_solver(case, |resolved, solver| {
            judge(case, resolved, solver).map(|()| Tally::default())
        })
    }
}

/// Judges every solver that a query has: the general one, and the closed form where there is one.
pub(super) fn by_every_solver(
    case: &LayerCase,
    mut judge: impl FnMut(&Resolved, &mut dyn Differentiate) -> Result<Tally, Failure>,
) -> Result<Tally, Failure> {
    let Ok(resolved) = case.resolve() else {
        return Ok(Tally::REFUSED);
    };
    let mut solver = case
        .recipe
        .solver()
        .map_err(|error| Failure::new("refused", error))?;
    let mut tally = judge(&resolved, &mut solver).map_err(|failure| failure.of(&*resolved.problem))?;
    if let Some(mut closed) = case.recipe.closed_form() {
        tally
            .add(judge(&resolved, &mut closed).map_err(|failure| {
                Failure::new(format!("{}, closed form", failure.kind), failure.message)
            })?);
    }
    Ok(tally)
}

/// Solves a query and judges the answer.
fn judge(case: &LayerCase, resolved: &Resolved, solver: &mut dyn StepSolver) -> Result<(), Failure> {
    let problem = &*resolved.problem;
    let mut solutions = Solutions::new(problem.dimensions(), 1);
    let query = resolved.query();
    let mut solve = |query: Query<'_>, solutions: &mut Solutions| {
        solver
            .solve(query, solutions.row_mut(0))
            .map_err(|error| Failure::new("error", error.to_string()))
    };
    spoiled(resolved, &mut solutions, &mut solve)?;
    solve(query, &mut solutions)?;
    let solution = solutions.row(0);
    for (i, x) in solution.action.iter().enumerate() {
        let (lower, upper) = (problem.lower()[i], problem.upper()[i]);
        if !(*x >= lower && *x <= upper) {
            return Err(Failure::new(
                "outside-box",
                format!(
                    "action[{i}] = {x:?} is outside [{lower:?}, {upper:?}], {}",
                    solution.status
                ),
            ));
        }
    }
    let corner = resolved.usage(problem.lower());
    let short = corner.iter().zip(query.available).position(|(used, b)| used > b);
    match (solution.status, short) {
        (Status::Solved { .. }, None) => {}
        (Status::Infeasible { budget, .. }, Some(_)) if corner[budget] > query.available[budget] => {
            return Ok(());
        }
        (Status::NotConverged { .. }, None) => {
            return Err(Failure::new("not-converged", solution.status.to_string()));
        }
        (status, short) => {
            return Err(Failure::new(
                "status",
                format!("{status}; the lower corner overuses {short:?}: uses {corner:?}"),
            ));
        }
    }
    let usage = resolved.usage(solution.action);
    if let Some(m) = usage.iter().zip(query.available).position(|(used, b)| used > b) {
        return Err(Failure::new(
            "not-payable",
            format!("uses {:?} of {:?} of budget {m}", usage[m], query.available[m]),
        ));
    }
    let duals = [solution.duals, solution.lower_duals, solution.upper_duals].concat();
    if let Some(dual) = duals.iter().find(|dual| !(dual.is_finite() && **dual >= 0.0)) {
        return Err(Failure::new("dual", format!("a dual is {dual:?}")));
    }
    let shape = (&case.recipe.shape(), case.recipe.monotone());
    let certificate = certify(problem, shape, query, solution.action, solution.duals);
    let relative = certificate.relative();
    if relative <= GAP {
        return Ok(());
    }
    Err(Failure::new(
        "gap",
        format!(
            "relative gap {relative:.1e} ({certificate:?}), {}; action {:?}, duals {:?}, usage {usage:?}",
            solution.status, solution.action, solution.duals
        ),
    ))
}

/// What no layer can work with is refused as such.
fn spoiled(
    resolved: &Resolved,
    solutions: &mut Solutions,
    solve: &mut impl FnMut(Query<'_>, &mut Solutions) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let query = resolved.query();
    let spoil = |values: &[f64], value: f64| {
        let mut spoiled = values.to_vec();
        spoiled[values.len() - 1] = value;
        spoiled
    };
    let (context, multiplier, remaining) = (
        spoil(query.context, f64::NAN),
        spoil(query.multiplier, -1.0),
        spoil(query.available, f64::INFINITY),
    );
    for (what, query) in [
        (
            "a context of NaN",
            Query {
                context: &context,
                ..query
            },
        ),
        (
            "a price of −1",
            Query {
                multiplier: &multiplier,
                ..query
            },
        ),
        (
            "an infinite budget",
            Query {
                available: &remaining,
                ..query
            },
        ),
    ] {
        solve(query, solutions)?;
        let status = solutions.row(0).status;
        if !matches!(status, Status::Invalid { .. }) {
            return Err(Failure::new("invalid-accepted", format!("{what}: {status}")));
        }
    }
    Ok(())
}
