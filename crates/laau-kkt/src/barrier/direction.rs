//! The directions of a step: predictor, centring, corrector.

use super::{Barrier, larger};
use crate::dense::{Kind, dot};
use crate::evaluations::Evaluations;

impl Barrier {
    /// Factorises `D` and `s/μ + J D⁻¹ Jᵀ`.
    #[inline]
    pub(crate) fn factorise(&mut self, evaluations: &Evaluations) -> bool {
        let d = evaluations.d;
        let (u, v, z, y) = (&self.u[..d], &self.v[..d], &self.z[..d], &self.y[..d]);
        let (inverse_u, inverse_v) = (&mut self.inverse_u[..d], &mut self.inverse_v[..d]);
        let (inverse, free) = (&mut self.inverse[..d], &self.free[..d]);
        for i in 0..d {
            inverse_u[i] = 1.0 / u[i];
            inverse_v[i] = 1.0 / v[i];
        }
        if evaluations.structure.diagonal_hessian {
            let hessian = &evaluations.hessian[..d];
            for i in 0..d {
                inverse[i] =
                    free[i] / (hessian[i] + z[i] * inverse_u[i] + y[i] * inverse_v[i] + (1.0 - free[i]));
            }
            for (solved, jacobian) in self
                .solved
                .chunks_exact_mut(d)
                .zip(evaluations.jacobian.chunks_exact(d))
            {
                for i in 0..d {
                    solved[i] = inverse[i] * jacobian[i];
                }
            }
        } else {
            let matrix = self.hessian.matrix(d);
            matrix.copy_from_slice(&evaluations.hessian);
            for i in 0..d {
                matrix[i * d + i] += z[i] * inverse_u[i] + y[i] * inverse_v[i];
                if free[i] == 0.0 {
                    for j in 0..d {
                        matrix[i * d + j] = 0.0;
                        matrix[j * d + i] = 0.0;
                    }
                    matrix[i * d + i] = 1.0;
                }
            }
            if self.hessian.factorise(Kind::PositiveDefinite, 0.0).is_err() {
                return false;
            }
            for (solved, jacobian) in self
                .solved
                .chunks_exact_mut(d)
                .zip(evaluations.jacobian.chunks_exact(d))
            {
                for i in 0..d {
                    solved[i] = free[i] * jacobian[i];
                }
                self.hessian.solve(solved);
            }
        }
        // Rows that depend on each other leave a pivot to rounding once their slacks vanish; a little of the diagonal
        // then decides between them.
        [0.0, self.options.schur_ridge, self.options.last_schur_ridge]
            .into_iter()
            .any(|ridge| {
                self.fill_schur(evaluations, ridge);
                self.schur.factorise(Kind::PositiveDefinite, 0.0).is_ok()
            })
    }

    /// `s/μ + J D⁻¹ Jᵀ`, its diagonal raised by a share of itself.
    #[inline]
    fn fill_schur(&mut self, evaluations: &Evaluations, ridge: f64) {
        let (d, m) = (evaluations.d, evaluations.m);
        let schur = self.schur.matrix(m);
        for row in 0..m {
            if !self.live[row] {
                for column in 0..m {
                    schur[row * m + column] = 0.0;
                    schur[column * m + row] = 0.0;
                }
                schur[row * m + row] = 1.0;
                continue;
            }
            let jacobian = &evaluations.jacobian[row * d..][..d];
            for column in 0..=row {
                let value = if self.live[column] {
                    dot(jacobian, &self.solved[column * d..][..d])
                } else {
                    0.0
                };
                schur[row * m + column] = value;
                schur[column * m + row] = value;
            }
            let pivot = &mut schur[row * m + row];
            *pivot += self.s[row] / self.dual[row] + ridge * *pivot;
        }
    }

    /// The step towards `τ = 0`; returns the largest relative decrease of a slack or dual.
    #[inline]
    pub(super) fn predict(&mut self, evaluations: &Evaluations) -> f64 {
        let d = evaluations.d;
        let (stationarity, z, y) = (&self.stationarity[..d], &self.z[..d], &self.y[..d]);
        let right = &mut self.right[..d];
        for i in 0..d {
            right[i] = y[i] - stationarity[i] - z[i];
        }
        for row in 0..evaluations.m {
            self.slack_right[row] = self.excess[row] - self.s[row];
        }
        self.solve(evaluations);
        let (dx, dz, dy) = (&self.dx[..d], &mut self.dz[..d], &mut self.dy[..d]);
        let (z, y) = (&self.z[..d], &self.y[..d]);
        let (inverse_u, inverse_v) = (&self.inverse_u[..d], &self.inverse_v[..d]);
        let mut reach = 0.0_f64;
        for i in 0..d {
            let (to_lower, to_upper) = (dx[i] * inverse_u[i], dx[i] * inverse_v[i]);
            dz[i] = -z[i] - z[i] * to_lower;
            dy[i] = y[i] * to_upper - y[i];
            // −du/u and −dz/z, −dv/v and −dy/y.
            reach = larger(reach, larger(-to_lower, 1.0 + to_lower));
            reach = larger(reach, larger(to_upper, 1.0 - to_upper));
        }
        reach.max(self.budget_reach())
    }

    /// Mehrotra's `σ = (τ after the predictor / τ)³`.
    #[inline]
    pub(super) fn centring(&self, reach: f64) -> f64 {
        let d = self.x.len();
        let length = (1.0 / reach).min(1.0);
        let (u, v, z, y) = (&self.u[..d], &self.v[..d], &self.z[..d], &self.y[..d]);
        let (dx, dz, dy) = (&self.dx[..d], &self.dz[..d], &self.dy[..d]);
        let mut after = 0.0;
        for i in 0..d {
            after += (u[i] + length * dx[i]) * (z[i] + length * dz[i])
                + (v[i] - length * dx[i]) * (y[i] + length * dy[i]);
        }
        for row in 0..self.s.len() {
            after += (self.s[row] + length * self.ds[row]) * (self.dual[row] + length * self.d_dual[row]);
        }
        let ratio = after / (self.products * self.product);
        (ratio * ratio * ratio).clamp(self.options.min_centring, 1.0)
    }

    /// The step towards `τ = target`, with the second-order terms of the predictor, as far as it reached.
    #[inline]
    pub(super) fn correct(&mut self, evaluations: &Evaluations, target: f64, reached: f64) -> f64 {
        let d = evaluations.d;
        let limits = (self.options.max_decay, self.options.max_growth);
        let (u, v, z, y) = (&self.u[..d], &self.v[..d], &self.z[..d], &self.y[..d]);
        let (dx, dz, dy) = (&self.dx[..d], &mut self.dz[..d], &mut self.dy[..d]);
        let (inverse_u, inverse_v) = (&self.inverse_u[..d], &self.inverse_v[..d]);
        let (stationarity, right) = (&self.stationarity[..d], &mut self.right[..d]);
        let share = reached * reached;
        for i in 0..d {
            // e/u and e/v; kept where dz and dy will stand.
            let (below, above) = (u[i] * z[i], v[i] * y[i]);
            dz[i] = (aim(limits, target, share * dx[i] * dz[i], below) - below) * inverse_u[i];
            dy[i] = (aim(limits, target, -share * dx[i] * dy[i], above) - above) * inverse_v[i];
            right[i] = dz[i] - dy[i] - stationarity[i];
        }
        for row in 0..evaluations.m {
            self.slack_right[row] = if self.live[row] {
                let product = self.s[row] * self.dual[row];
                let aim = aim(limits, target, share * self.ds[row] * self.d_dual[row], product);
                aim / self.dual[row] + self.excess[row] - self.s[row]
            } else {
                0.0
            };
        }
        self.solve(evaluations);
        let (z, y, free) = (&self.z[..d], &self.y[..d], &self.free[..d]);
        let (inverse_u, inverse_v) = (&self.inverse_u[..d], &self.inverse_v[..d]);
        let (dx, dz, dy) = (&self.dx[..d], &mut self.dz[..d], &mut self.dy[..d]);
        let mut reach = 0.0_f64;
        for i in 0..d {
            let (to_lower, to_upper) = (dx[i] * inverse_u[i], dx[i] * inverse_v[i]);
            dz[i] -= z[i] * to_lower;
            dy[i] += y[i] * to_upper;
            reach = larger(reach, larger(-to_lower, to_upper));
            let pinned = 1.0 - free[i];
            reach = larger(reach, larger(-dz[i] / (z[i] + pinned), -dy[i] / (y[i] + pinned)));
        }
        reach.max(self.budget_reach())
    }

    /// `dμ`, `dx` and `ds` for the right-hand sides that are set.
    #[inline]
    fn solve(&mut self, evaluations: &Evaluations) {
        let (d, m) = (evaluations.d, evaluations.m);
        let (right, d_dual) = (&self.right[..d], &mut self.d_dual[..m]);
        for row in 0..m {
            d_dual[row] = if self.live[row] {
                self.slack_right[row] + dot(&self.solved[row * d..][..d], right)
            } else {
                0.0
            };
        }
        self.schur.solve(d_dual);
        let dx = &mut self.dx[..d];
        if evaluations.structure.diagonal_hessian {
            let inverse = &self.inverse[..d];
            for i in 0..d {
                dx[i] = inverse[i] * right[i];
            }
        } else {
            for i in 0..d {
                dx[i] = self.free[i] * right[i];
            }
            self.hessian.solve(dx);
        }
        for (solved, step) in self.solved.chunks_exact(d).zip(d_dual.iter()) {
            for i in 0..d {
                dx[i] -= solved[i] * step;
            }
        }
        for row in 0..m {
            self.ds[row] = if self.live[row] {
                -self.excess[row] - dot(&evaluations.jacobian[row * d..][..d], dx)
            } else {
                0.0
            };
        }
    }

    #[inline]
    fn budget_reach(&self) -> f64 {
        let mut reach = 0.0_f64;
        for row in 0..self.s.len() {
            if self.live[row] {
                reach = larger(reach, -self.ds[row] / self.s[row]);
                reach = larger(reach, -self.d_dual[row] / self.dual[row]);
            }
        }
        reach
    }
}

/// What a product of slack and dual is to become: the target, less the predictor's second-order term, within reason.
#[inline]
fn aim((decay, growth): (f64, f64), target: f64, second_order: f64, product: f64) -> f64 {
    let least = decay * if target < product { target } else { product };
    let most = growth * product;
    let aim = larger(target - second_order, least);
    if aim < most { aim } else { most }
}
