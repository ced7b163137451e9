//! The ratio that is safe against every order of the contexts of a training set.

use laau_core::{Dimensions, Episodes, Error, Task};

use super::NAME;
use super::division::{Division, Links};

/// `ln θ + 1`, the largest over the inventories.
///
/// `θ` is the largest marginal utility of an inventory over its smallest; marginal utilities per usage are largest at the lower
/// corner of the box and smallest at the upper one. The proof is that of one inventory whose size does not change, so that
/// every action may use one budget only, and the lower corner must use the same in every context.
pub(super) fn worst_case(task: &Task, train: &Episodes) -> Result<f64, Error> {
    let problem = &*task.problem;
    let Dimensions {
        actions: d,
        budgets: m,
        context,
    } = problem.dimensions();
    let not_applicable = |reason: &str| Error::NotApplicable {
        policy: NAME.to_owned(),
        reason: reason.to_owned(),
    };
    let structure = problem.structure();
    if !(structure.diagonal_hessian && structure.affine_usage) {
        return Err(not_applicable(
            "a worst-case ratio needs a separable cost and an affine usage",
        ));
    }
    let contexts = || train.contexts().chunks_exact(context);
    let mut links = Links::new(problem);
    if let Some(links) = &mut links {
        contexts().for_each(|context| links.see(problem, context));
    }
    let division = links.map_or_else(|| Division::joint(problem.dimensions()), |links| links.division());
    if division.parts < m {
        return Err(not_applicable(
            "a worst-case ratio is known for actions that use one budget each only",
        ));
    }
    let (mut smallest, mut largest) = (vec![f64::INFINITY; m], vec![0.0_f64; m]);
    let (mut slope, mut end_slope, mut jacobian) = (vec![0.0; d], vec![0.0; d], vec![0.0; m * d]);
    let (mut least, mut usage) = (vec![0.0; m], vec![0.0; m]);
    problem.least_usage(&mut least);
    for context in contexts() {
        problem.usage(problem.lower(), context, &mut usage);
        if usage.iter().zip(&least).any(|(u, l)| (l - u).abs() > 1e-9 * l) {
            return Err(not_applicable(
                "a worst-case ratio needs a lower corner that uses the same in every context",
            ));
        }
        problem.cost_gradient(problem.lower(), context, &mut slope);
        problem.cost_gradient(problem.upper(), context, &mut end_slope);
        problem.usage_jacobian(problem.lower(), context, &mut jacobian);
        for (budget, row) in jacobian.chunks_exact(d).enumerate() {
            for ((slope, end_slope), usage) in slope.iter().zip(&end_slope).zip(row) {
                // An action that uses nothing, or gains nothing in this context, is not pursued.
                if *usage > 0.0 && *slope < 0.0 {
                    if *end_slope >= 0.0 {
                        return Err(not_applicable(
                            "a worst-case ratio needs a cost that falls up to the upper bound",
                        ));
                    }
                    smallest[budget] = smallest[budget].min(-end_slope / usage);
                    largest[budget] = largest[budget].max(-slope / usage);
                }
            }
        }
    }
    let spreads = largest.iter().zip(&smallest);
    let used = spreads.filter(|(largest, _)| **largest > 0.0);
    Ok(used
        .map(|(largest, smallest)| (largest / smallest).ln() + 1.0)
        .fold(1.0, f64::max))
}
