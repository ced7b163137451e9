//! The KKT conditions of a step once it is known which constraints hold with equality.

use laau_core::{Dimensions, Query, SmoothProblem};

/// Which constraints hold with equality.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Active {
    pub(crate) budgets: Vec<bool>,
    pub(crate) at_lower: Vec<bool>,
    pub(crate) at_upper: Vec<bool>,
}

impl Active {
    /// An action that its box holds fast does not move.
    pub(crate) fn is_fixed(&self, action: usize) -> bool {
        self.at_lower[action] || self.at_upper[action]
    }

    pub(crate) fn count(&self) -> usize {
        let all = [&self.budgets, &self.at_lower, &self.at_upper];
        all.iter().map(|set| set.iter().filter(|on| **on).count()).sum()
    }
}

/// Solves, in place,
///
/// ```text
///     | H  Jᵀ | | p |   | r |        H = ∇²l + Σ weights ∇²g,  J = ∇g
///     | J  0  | | q | = | s |
/// ```
///
/// on the free actions and the active budgets; `p` is `r` on the fixed actions, `q` is 0 on the others. Says whether the
/// system was regular; if not, what it leaves open is zero.
pub(crate) fn solve(
    problem: &dyn SmoothProblem,
    query: Query<'_>,
    action: &[f64],
    weights: &[f64],
    active: &Active,
    right: &mut [f64],
) -> bool {
    let Dimensions {
        actions: d,
        budgets: m,
        ..
    } = problem.dimensions();
    let (mut hessian, mut jacobian) = (vec![0.0; d * d], vec![0.0; m * d]);
    problem.lagrangian_hessian(action, query.context, weights, &mut hessian);
    problem.usage_jacobian(action, query.context, &mut jacobian);
    let n = d + m;
    let mut matrix = vec![0.0; n * n];
    for row in 0..n {
        let skipped = if row < d {
            active.is_fixed(row)
        } else {
            !active.budgets[row - d]
        };
        if skipped {
            matrix[row * n + row] = 1.0;
            continue;
        }
        for i in 0..d {
            matrix[row * n + i] = if row < d {
                hessian[row * d + i]
            } else {
                jacobian[(row - d) * d + i]
            };
        }
        for k in (0..m).filter(|k| row < d && active.budgets[*k]) {
            matrix[row * n + d + k] = jacobian[k * d + row];
        }
    }
    eliminate(&mut matrix, right)
}

/// Gaussian elimination with row pivoting; says whether the matrix was regular.
fn eliminate(matrix: &mut [f64], right: &mut [f64]) -> bool {
    const SINGULAR: f64 = 1e-12;
    let n = right.len();
    let largest = matrix.iter().fold(0.0_f64, |most, a| most.max(a.abs()));
    let mut pivots = vec![None; n];
    let mut row = 0;
    for column in 0..n {
        let size = |r: &usize| matrix[r * n + column].abs();
        let Some(pivot) = (row..n).max_by(|a, b| size(a).total_cmp(&size(b))) else {
            continue;
        };
        if size(&pivot) <= SINGULAR * largest {
            continue;
        }
        for k in 0..n {
            matrix.swap(row * n + k, pivot * n + k);
        }
        right.swap(row, pivot);
        for below in row + 1..n {
            let factor = matrix[below * n + column] / matrix[row * n + column];
            for k in column..n {
                matrix[below * n + k] -= factor * matrix[row * n + k];
            }
            right[below] -= factor * right[row];
        }
        pivots[column] = Some(row);
        row += 1;
    }
    let mut solution = vec![0.0; n];
    for column in (0..n).rev() {
        if let Some(row) = pivots[column] {
            let known: f64 = (column + 1..n).map(|k| matrix[row * n + k] * solution[k]).sum();
            solution[column] = (right[row] - known) / matrix[row * n + column];
        }
    }
    right.copy_from_slice(&solution);
    row == n
}
