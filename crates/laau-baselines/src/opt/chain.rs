//! The coupling of the steps in a Newton system: a chain that is solved by one sweep back and one forth.

use laau_core::numerics::cholesky;

use super::SMALLEST_PIVOT;

/// The Newton system left when every step's own variables are eliminated.
///
/// Step `t` changes its usage by `q_t − Q_t Δp_t`, where `p_t = Σ_{s ≥ t} μ_s` is its price; `u_t` is the change of all
/// usage up to `t`. Each limit on that usage requires `D_t Δμ_t = u_t − r_t`, with `D_t` diagonal. From the end of the
/// horizon to its start (a Riccati recursion in information form),
///
/// ```text
///     F_t Δp_t = u_{t−1} + y_t        F_t = (F_{t+1}⁻¹ + D_t⁻¹)⁻¹ + Q_t        F_N⁻¹ = 0
/// ```
///
/// where the inner inverse is taken one budget at a time, as a Schur complement, which loses no digits whether a limit is
/// tight (`D = 0`) or out of reach (`D = ∞`). Without limits but the last, `F` is the plain Schur complement
/// `D + Σ Q`, and all steps have one price. The cost is `O(N M³)`.
pub(super) struct Chain {
    m: usize,
    /// `Q_t`, `N × M × M`.
    pub(super) response: Vec<f64>,
    /// `D_t`, `N × M`; infinite where there is no limit. The last step has one for every budget.
    pub(super) softness: Vec<f64>,
    /// `F_t`, factored, `N × M × M`.
    system: Vec<f64>,
    /// The rank-one update by the limit of each budget at each step: the column of `F` at that moment over `D + F_kk`.
    columns: Vec<f64>,
    /// `y_t`, `N × M`.
    offset: Vec<f64>,
}

impl Chain {
    pub(super) fn new(n: usize, m: usize) -> Self {
        Self {
            m,
            response: vec![0.0; n * m * m],
            softness: vec![f64::INFINITY; n * m],
            system: vec![0.0; n * m * m],
            columns: vec![0.0; n * m * m],
            offset: vec![0.0; n * m],
        }
    }

    /// Sweeps back over `response` and `softness`.
    pub(super) fn factor(&mut self) {
        let m = self.m;
        let n = self.softness.len() / m;
        let mut f = vec![0.0; m * m];
        for t in (0..n).rev() {
            for k in 0..m {
                let d = self.softness[t * m + k];
                if t + 1 == n {
                    f[k * m + k] = d;
                } else if d.is_finite() {
                    let column = &mut self.columns[(t * m + k) * m..][..m];
                    soften(&mut f, m, k, d, column);
                }
            }
            for (f, q) in f.iter_mut().zip(&self.response[t * m * m..]) {
                *f += q;
            }
            let system = &mut self.system[t * m * m..][..m * m];
            system.copy_from_slice(&f);
            cholesky::factor(system, m, SMALLEST_PIVOT);
        }
    }

    /// Solves for given `q` and `r` (`N × M` each): writes `Δp` and `u`.
    pub(super) fn solve(&mut self, q: &[f64], r: &[f64], price: &mut [f64], usage: &mut [f64]) {
        let m = self.m;
        let n = self.softness.len() / m;
        let mut y = vec![0.0; m];
        for t in (0..n).rev() {
            for k in 0..m {
                let at = t * m + k;
                if t + 1 == n {
                    y[k] = -r[at];
                } else if self.softness[at].is_finite() {
                    let push = y[k] + r[at];
                    let column = &self.columns[at * m..][..m];
                    for i in 0..m {
                        y[i] -= column[i] * push;
                    }
                }
            }
            for k in 0..m {
                y[k] += q[t * m + k];
            }
            self.offset[t * m..][..m].copy_from_slice(&y);
        }
        let mut u = vec![0.0; m];
        for t in 0..n {
            let at = t * m;
            let limited_before = t == 0 || self.softness[at - m..at].iter().any(|d| d.is_finite());
            if limited_before {
                for k in 0..m {
                    price[at + k] = u[k] + self.offset[at + k];
                }
                cholesky::solve(&self.system[at * m..][..m * m], m, &mut price[at..at + m]);
            } else {
                price.copy_within(at - m..at, at);
            }
            for k in 0..m {
                let response = &self.response[(at + k) * m..][..m];
                let answer: f64 = response.iter().zip(&price[at..]).map(|(q, p)| q * p).sum();
                u[k] += q[at + k] - answer;
            }
            usage[at..at + m].copy_from_slice(&u);
        }
    }
}

/// `F ← (F⁻¹ + e_k e_kᵀ / d)⁻¹`, and the column `F e_k / (d + F_kk)` of before.
fn soften(f: &mut [f64], m: usize, k: usize, d: f64, column: &mut [f64]) {
    let sum = d + f[k * m + k];
    if sum <= 0.0 {
        column.fill(0.0);
        return;
    }
    for i in 0..m {
        column[i] = f[i * m + k] / sum;
    }
    for i in 0..m {
        for j in 0..m {
            if i != k && j != k {
                f[i * m + j] -= column[i] * column[j] * sum;
            }
        }
    }
    // Row and column `k` shrink by the same factor, without a difference.
    for i in 0..m {
        if i != k {
            f[i * m + k] *= d / sum;
            f[k * m + i] *= d / sum;
        }
    }
    f[k * m + k] *= d / sum;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_solves_its_equations() {
        // Two budgets, three steps, limits at the second and the last.
        let (n, m) = (3, 2);
        let mut chain = Chain::new(n, m);
        chain
            .response
            .copy_from_slice(&[2.0, 0.5, 0.5, 1.0, 1.0, -0.2, -0.2, 3.0, 0.7, 0.1, 0.1, 0.4]);
        let none = f64::INFINITY;
        chain
            .softness
            .copy_from_slice(&[none, none, 0.25, 1e3, 1e-6, 0.5]);
        let q = [0.3, -0.2, 0.5, 0.1, -0.4, 0.9];
        let r = [0.0, 0.0, 0.2, 0.4, 0.1, -0.3];
        let (mut price, mut usage) = (vec![0.0; 6], vec![0.0; 6]);
        chain.factor();
        chain.solve(&q, &r, &mut price, &mut usage);
        for t in 0..n {
            for i in 0..m {
                let at = t * m + i;
                let before = if t > 0 { usage[at - m] } else { 0.0 };
                let answer: f64 = (0..m)
                    .map(|k| chain.response[at * m + k] * price[t * m + k])
                    .sum();
                assert!((usage[at] - (before + q[at] - answer)).abs() < 1e-12);
                let later = if t + 1 < n { price[at + m] } else { 0.0 };
                let wanted = (usage[at] - r[at]) / chain.softness[at];
                assert!(
                    (price[at] - later - wanted).abs() < 1e-9,
                    "step {t}, budget {i}: {} and {wanted}",
                    price[at] - later
                );
            }
        }
    }
}
