//! The convex layer: forward and backward on a batch, and one solve at a time.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;

use laau_benches::Batch;
use laau_core::problems::WeightedFairness;
use laau_core::{Differentiate, Dimensions, Gradients, Solutions, Status, StepSolver};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};
use laau_net::Precision;

use crate::Case;
use crate::instances::{Instances, LayerInstances};

pub(crate) fn cases(instances: &Instances) -> Result<Vec<Case>, Box<dyn Error>> {
    let closed_form = FairnessLayer::new(WeightedFairness::paper());
    let interior_point = |of: &LayerInstances| -> Result<InteriorPoint, Box<dyn Error>> {
        Ok(InteriorPoint::new(Arc::new(of.problem()?), Options::default())?)
    };
    let mut cases = vec![
        both("layer-scalar", "closed form", closed_form, &instances.scalar)?,
        both(
            "layer-scalar",
            "interior point",
            interior_point(&instances.scalar)?,
            &instances.scalar,
        )?,
        both(
            "layer-8x3",
            "interior point",
            interior_point(&instances.several)?,
            &instances.several,
        )?,
        one_at_a_time(interior_point(&instances.several)?, &instances.several)?,
    ];
    for (work, of) in &instances.wide {
        cases.push(both(work, "interior point", interior_point(of)?, of)?);
    }
    Ok(cases)
}

fn batch(of: &LayerInstances) -> Batch {
    Batch {
        contexts: of.contexts.concat(),
        multipliers: of.multipliers.concat(),
        remaining: of.remaining.concat(),
        upstream: of.upstream.concat(),
        rows: of.contexts.len(),
    }
}

fn both(
    work: &str,
    variant: &'static str,
    mut layer: impl Differentiate + 'static,
    of: &LayerInstances,
) -> Result<Case, Box<dyn Error>> {
    let batch = batch(of);
    let dimensions = layer.problem().dimensions();
    let mut solutions = Solutions::new(dimensions, batch.rows);
    let mut gradients = Gradients::with_contexts(dimensions, batch.rows);
    layer.solve_batch(batch.queries(), &mut solutions)?;
    layer.pullback_batch(batch.queries(), &solutions, &batch.upstream, &mut gradients)?;
    let mut facts = facts_of_solutions(&layer, &solutions, of);
    let worst = error(&gradients.multipliers, &of.by_multiplier)
        .max(error(&gradients.available, &of.by_remaining))
        .max(error(&gradients.contexts, &of.by_context));
    facts.insert("error_gradient".to_owned(), worst.into());
    if layer.problem().dimensions().actions > 1 {
        facts.insert("operations".to_owned(), operations(&solutions, dimensions).into());
    }
    Ok(Case {
        work: work.to_owned(),
        variant,
        precision: Precision::F64,
        units: batch.rows,
        facts,
        run: Box::new(move || {
            layer
                .solve_batch(black_box(batch.queries()), &mut solutions)
                .expect("sizes fit");
            layer
                .pullback_batch(batch.queries(), &solutions, &batch.upstream, &mut gradients)
                .expect("sizes fit");
        }),
    })
}

fn one_at_a_time(mut layer: InteriorPoint, of: &LayerInstances) -> Result<Case, Box<dyn Error>> {
    let batch = batch(of);
    let mut solutions = Solutions::new(layer.problem().dimensions(), batch.rows);
    layer.solve_batch(batch.queries(), &mut solutions)?;
    let facts = facts_of_solutions(&layer, &solutions, of);
    let dimensions = layer.problem().dimensions();
    Ok(Case {
        work: "solve-8x3".to_owned(),
        variant: "interior point",
        precision: Precision::F64,
        units: batch.rows,
        facts,
        run: Box::new(move || {
            for row in 0..batch.rows {
                let query = batch.queries().row(row, dimensions);
                layer
                    .solve(black_box(query), solutions.row_mut(row))
                    .expect("sizes fit");
            }
        }),
    })
}

fn facts_of_solutions(
    layer: &dyn StepSolver,
    solutions: &Solutions,
    of: &LayerInstances,
) -> serde_json::Map<String, serde_json::Value> {
    let problem = layer.problem();
    let mut usage = vec![0.0; problem.dimensions().budgets];
    let mut violation: f64 = 0.0;
    let mut actions = Vec::new();
    for (row, (context, remaining)) in of.contexts.iter().zip(&of.remaining).enumerate() {
        let action = solutions.row(row).action;
        problem.usage(action, context, &mut usage);
        actions.extend_from_slice(action);
        for (used, left) in usage.iter().zip(remaining) {
            violation = violation.max(used - left);
        }
    }
    let mut facts = serde_json::Map::new();
    facts.insert("error_action".to_owned(), error(&actions, &of.x).into());
    facts.insert("violation".to_owned(), violation.into());
    facts
}

/// The floating-point operations of a solve and a pullback, mean of the rows, as the short way of the interior point needs them where the
/// Hessian is diagonal; a division or a logarithm counts as one. With `d` actions, `M` budgets and `a` active ones:
///
/// * an evaluation has usage and prices, `4dM`, and gradient and curvature, `3d`;
/// * a system has `H⁻¹`, `H⁻¹Jᵀ` and its products with `J`, `d + da + da(a + 1)`, and the factors of `a` rows, `a³/3`;
/// * its solution has two products with `J` and one by `H⁻¹`, `4da + d`.
///
/// A solve is the model's guess and one evaluation, system and solution for each Newton step that it tells, and an evaluation of what it
/// gives; a pullback is one of each, with the gradients in prices and contexts, `2dM + d`. What searches and tests cost beside is
/// not counted, so that the share of the peak is not made larger than it is.
fn operations(solutions: &Solutions, dimensions: Dimensions) -> f64 {
    let (d, m) = (dimensions.actions as f64, dimensions.budgets as f64);
    let rows = solutions.statuses().len();
    let total: f64 = (0..rows)
        .map(|row| {
            let solution = solutions.row(row);
            let a = solution.duals.iter().filter(|dual| **dual > 0.0).count() as f64;
            let steps = match solution.status {
                Status::Solved { iterations, .. } => f64::from(iterations),
                _ => 0.0,
            };
            let evaluation = 4.0 * d * m + 3.0 * d;
            let system = d + d * a + d * a * (a + 1.0) + a * a * a / 3.0;
            let solving = 4.0 * d * a + d;
            let step = evaluation + system + solving;
            (1.0 + steps) * step + evaluation + step + 2.0 * d * m + d
        })
        .sum();
    total / rows as f64
}

/// The worst of `|found − true| / max(1, |true|)`.
fn error(found: &[f64], truth: &[Vec<f64>]) -> f64 {
    found
        .iter()
        .zip(truth.iter().flatten())
        .map(|(found, truth)| (found - truth).abs() / truth.abs().max(1.0))
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_the_steps_that_were_taken() {
        let dimensions = Dimensions {
            actions: 10,
            budgets: 2,
            context: 10,
        };
        let mut solutions = Solutions::new(dimensions, 1);
        let row = solutions.row_mut(0);
        row.duals.copy_from_slice(&[0.0, 0.5]);
        *row.status = Status::Solved {
            iterations: 3,
            residual: 0.0,
        };
        // An evaluation has 110, a system of one active budget 40 and a third, its solution 50.
        let step = 200.0 + 1.0 / 3.0;
        let expected = 5.0 * step + 110.0 + 50.0;
        assert!((operations(&solutions, dimensions) - expected).abs() < 1e-9);
    }

    #[test]
    fn errors_are_relative_above_one_and_absolute_below() {
        assert_eq!(error(&[1.5, 300.0], &[vec![1.0, 200.0]]), 0.5);
        assert_eq!(error(&[0.25, 3.0], &[vec![0.0], vec![3.0]]), 0.25);
    }
}
