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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn episodes_are_played_to_their_end_within_their_budgets() {
        let instances: StrictInstances = serde_json::from_value(json!({
            "usage": [[0.3, 0.7], [0.9, 0.1]],
            "lower": 0.1,
            "upper": 10.0,
            "steps": 3,
            "multiplier": [0.15, 0.15],
            "budgets": [[3.0, 2.0], [0.31, 0.31]],
            "contexts": [[[1.0, 0.5], [2.0, 1.0], [0.7, 0.9]], [[1.0, 0.5], [2.0, 1.0], [0.7, 0.9]]],
        }))
        .unwrap();
        let played = play(&instances).unwrap();
        assert_eq!(played.len(), 2);
        for episode in &played {
            assert_eq!((episode.usages.len(), &episode.aborted), (3, &None));
            for (resource, budget) in episode.budgets.iter().enumerate() {
                let spent: f64 = episode.usages.iter().map(|usage| usage[resource]).sum();
                assert!(spent <= budget * (1.0 + 1e-15), "{spent} of {budget}");
            }
        }
        let used = |resource: usize| -> f64 {
            let spent: f64 = played[0].usages.iter().map(|usage| usage[resource]).sum();
            spent / played[0].budgets[resource]
        };
        let most = used(0).max(used(1));
        assert!(most > 0.9, "most of what there is is used, not {most}");
    }
}
