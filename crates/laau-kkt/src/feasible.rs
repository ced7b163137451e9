//! The last bits: an action whose usage, as the problem computes it, is at most what remains.

use laau_core::{Query, SmoothProblem};

use crate::evaluations::Evaluations;

/// Moves an action in until its usage fits, exactly, and changes it as little as it can.
///
/// A budget that is exceeded by `e` is met by the smallest step, relative to how far each action is above its lower bound:
/// an action that is a million times smaller than another gives nothing of the rounding of the larger one. The step may
/// round to zero; it doubles until usage changes. If that fails, the action moves towards the lower corner, which fits.
/// Returns whether anything moved; the evaluations then hold the usage of the result.
pub(crate) fn pull_in(
    problem: &dyn SmoothProblem,
    evaluations: &mut Evaluations,
    query: Query<'_>,
    x: &mut [f64],
) -> bool {
    let (d, lower) = (evaluations.d, problem.lower());
    let mut moved = false;
    // What the step is multiplied with, and the budget and excess before it.
    let (mut factor, mut last) = (1.0, (usize::MAX, f64::INFINITY));
    for round in 0..DIRECT + TOWARDS_CORNER {
        let Some(m) = exceeded(evaluations, query) else {
            return moved;
        };
        moved = true;
        let excess = evaluations.usage[m] - query.available[m];
        let jacobian = &evaluations.jacobian[m * d..][..d];
        // What each action could give; the largest stands for 1.
        let most = (0..d).fold(0.0_f64, |most, i| most.max(jacobian[i] * (x[i] - lower[i])));
        if round < DIRECT && most > 0.0 {
            factor = if (m, excess) == last { 2.0 * factor } else { 1.0 };
            last = (m, excess);
            let share = |i: usize, x: &[f64]| jacobian[i].max(0.0) * (x[i] - lower[i]) / most;
            let norm: f64 = (0..d).map(|i| share(i, x) * share(i, x)).sum();
            for i in 0..d {
                let step = factor * (excess / most) * (share(i, x) / norm) * (x[i] - lower[i]);
                x[i] = (x[i] - step).max(lower[i]);
            }
        } else {
            // 2⁻⁵² first, then larger and larger shares of the way, at last all of it; for the actions that use the budget.
            let share = 0.5_f64.powi(i32::from(52 - round.saturating_sub(DIRECT).min(52)));
            for i in 0..d {
                if jacobian[i] > 0.0 || most == 0.0 {
                    x[i] = (x[i] - share * (x[i] - lower[i])).max(lower[i]);
                }
            }
        }
        evaluations.evaluate_usage(problem, query, x);
    }
    if exceeded(evaluations, query).is_some() {
        x.copy_from_slice(lower);
        evaluations.evaluate_usage(problem, query, x);
    }
    moved
}

const DIRECT: u8 = 64;
const TOWARDS_CORNER: u8 = 54;

fn exceeded(evaluations: &Evaluations, query: Query<'_>) -> Option<usize> {
    // A NaN does not fit.
    let fits = |m: &usize| evaluations.usage[*m] <= query.available[*m];
    (0..evaluations.m).find(|m| !fits(m))
}
