//! Episodes with strict budgets, played under a constant price.

use std::error::Error;
use std::sync::Arc;

use laau_core::{Constant, Episodes, Problem, Unrolled, rollout};
use laau_kkt::{InteriorPoint, Options};
use serde::Serialize;

use crate::instances::StrictInstances;

/// What was paid, step by step, and why it ended early, if it did.
#[derive(Serialize)]
pub(crate) struct Played {
    budgets: Vec<f64>,
    usages: Vec<Vec<f64>>,
    aborted: Option<String>,
}

pub(crate) fn play(of: &StrictInstances) -> Result<Vec<Played>, Box<dyn Error>> {
    let problem = of.problem()?;
    let sizes = problem.dimensions();
    let layer = InteriorPoint::new(Arc::new(problem.clone()), Options::default())?;
    let policy = Unrolled::new("constant price", Constant(of.multiplier.clone()), layer)?.priced_to_the_end();
    let set = Episodes::new(
        of.steps,
        sizes.context,
        sizes.budgets,
        of.contexts.concat().concat(),
        of.budgets.concat(),
    )?;
    let mut played = Vec::new();
    for (index, budgets) in of.budgets.iter().enumerate() {
        let result = rollout(&problem, &policy, &set.get(index))?;
        let refused = result.violations + result.failures;
        played.push(Played {
            budgets: budgets.clone(),
            usages: result.usages.chunks(sizes.budgets).map(<[f64]>::to_vec).collect(),
            aborted: (refused > 0).then(|| format!("{refused} steps were refused")),
        });
    }
    Ok(played)
}
