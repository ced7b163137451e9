//! The last bits: an action whose usage, as the problem computes it, is at most what remains.

use laau_core::{Query, SmoothProblem};

use crate::model::Model;

/// Moves an action in until its usage fits, exactly, and changes it as little as it can.
///
/// A budget that is exceeded by `e` is met by a step of `e` along its gradient, taken over the actions above their lower
/// bound that use it. Rounding may eat such a step, so it doubles until it bites. If that leads nowhere the action is drawn
/// towards the lower corner, which fits. Returns whether anything moved; the model then holds the usage of the result.
pub(crate) fn pull_in(
    problem: &dyn SmoothProblem,
    model: &mut Model,
    query: Query<'_>,
    x: &mut [f64],
) -> bool {
    let (d, lower) = (model.d, problem.lower());
    let mut moved = false;
    let mut factor = 1.0;
    for round in 0..DIRECT + TOWARDS_CORNER {
        let Some(m) = exceeded(model, query) else {
            return moved;
        };
        moved = true;
        let excess = model.usage[m] - query.remaining[m];
        if round < DIRECT {
            let jacobian = &model.jacobian[m * d..][..d];
            let mut norm = 0.0;
            for i in 0..d {
                if jacobian[i] > 0.0 && x[i] > lower[i] {
                    norm += jacobian[i] * jacobian[i];
                }
            }
            for i in 0..d {
                if jacobian[i] > 0.0 && x[i] > lower[i] && norm > 0.0 {
                    x[i] = (x[i] - factor * excess * jacobian[i] / norm).max(lower[i]);
                }
            }
            factor *= 2.0;
        } else {
            // 2⁻⁵² first, then larger and larger shares of the way, at last all of it.
            let share = 0.5_f64.powi(i32::from(52 - (round - DIRECT).min(52)));
            for i in 0..d {
                x[i] = (x[i] - share * (x[i] - lower[i])).max(lower[i]);
            }
        }
        model.evaluate_usage(problem, query, x);
    }
    if exceeded(model, query).is_some() {
        x.copy_from_slice(lower);
        model.evaluate_usage(problem, query, x);
    }
    moved
}

const DIRECT: u8 = 24;
const TOWARDS_CORNER: u8 = 54;

fn exceeded(model: &Model, query: Query<'_>) -> Option<usize> {
    // A NaN does not fit.
    let fits = |m: &usize| model.usage[*m] <= query.remaining[*m];
    (0..model.m).find(|m| !fits(m))
}
