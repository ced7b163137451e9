//! The Newton step of the interior point: factored step by step, coupled by the chain.

use laau_core::numerics::cholesky;
use laau_core::{Dimensions, Episode, SmoothProblem};

use super::SMALLEST_PIVOT;
use super::chain::Chain;
use super::point::{Point, dot};
use super::region::Region;

/// The per-step terms of the factored Newton system. A direction is affine in the barrier parameter `τ`.
pub(super) struct Newton {
    /// `H⁻¹(−∇l − ∇gᵀp)`, `H⁻¹(1/(x−lower) − 1/(upper−x))`, both `N × d`.
    pull: Vec<f64>,
    push: Vec<f64>,
    /// `H⁻¹∇gᵀ`, `N × M × d`.
    lever: Vec<f64>,
    /// `∇g pull` and `∇g push`, `N × M` each.
    usage_pull: Vec<f64>,
    usage_push: Vec<f64>,
    chain: Chain,
    pub(super) direction: Direction,
}

/// A Newton direction; slack to first order.
pub(super) struct Direction {
    pub(super) rise: Vec<f64>,
    pub(super) dual: Vec<f64>,
    pub(super) slack: Vec<f64>,
    pub(super) at_lower: Vec<f64>,
    pub(super) at_upper: Vec<f64>,
    /// Of the prices and of all usage so far, `N × M`.
    price: Vec<f64>,
    usage: Vec<f64>,
}

impl Newton {
    pub(super) fn new(
        n: usize,
        Dimensions {
            actions: d,
            budgets: m,
            ..
        }: Dimensions,
    ) -> Self {
        Self {
            pull: vec![0.0; n * d],
            push: vec![0.0; n * d],
            lever: vec![0.0; n * m * d],
            usage_pull: vec![0.0; n * m],
            usage_push: vec![0.0; n * m],
            chain: Chain::new(n, m),
            direction: Direction {
                rise: vec![0.0; n * d],
                dual: vec![0.0; n * m],
                slack: vec![0.0; n * m],
                at_lower: vec![0.0; n * d],
                at_upper: vec![0.0; n * d],
                price: vec![0.0; n * m],
                usage: vec![0.0; n * m],
            },
        }
    }

    /// Factors the Newton system: `H_t = ∇²l + Σ p ∇²g + diag(z/(x−lower) + z/(upper−x))` per step, then the chain.
    pub(super) fn factor(
        &mut self,
        problem: &dyn SmoothProblem,
        episode: Episode<'_>,
        region: &Region,
        point: &Point,
    ) {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = problem.dimensions();
        let last = episode.horizon() - 1;
        let mut hessian = vec![0.0; d * d];
        for step in 0..=last {
            let x = &point.x[step * d..][..d];
            let price = &point.price[step * m..][..m];
            let jacobian = &point.jacobian[step * m * d..][..m * d];
            let context = episode.context(step);
            problem.lagrangian_hessian(x, context, price, &mut hessian);
            let pull = &mut self.pull[step * d..][..d];
            let push = &mut self.push[step * d..][..d];
            let lever = &mut self.lever[step * m * d..][..m * d];
            lever.copy_from_slice(jacobian);
            for i in 0..d {
                let at = step * d + i;
                if region.width[at] == 0.0 {
                    // A held action does not move.
                    for j in 0..d {
                        hessian[i * d + j] = 0.0;
                        hessian[j * d + i] = 0.0;
                    }
                    hessian[i * d + i] = 1.0;
                    (push[i], pull[i]) = (0.0, 0.0);
                    for k in 0..m {
                        lever[k * d + i] = 0.0;
                    }
                    continue;
                }
                let (below, above) = (point.rise[at], region.width[at] - point.rise[at]);
                hessian[i * d + i] += point.at_lower[at] / below + point.at_upper[at] / above;
                push[i] = below.recip() - above.recip();
                pull[i] = -point.gradient[at];
                for k in 0..m {
                    pull[i] -= jacobian[k * d + i] * price[k];
                }
            }
            cholesky::factor(&mut hessian, d, SMALLEST_PIVOT);
            cholesky::solve(&hessian, d, pull);
            cholesky::solve(&hessian, d, push);
            for row in lever.chunks_exact_mut(d) {
                cholesky::solve(&hessian, d, row);
            }
            for (k, row) in jacobian.chunks_exact(d).enumerate() {
                let at = step * m + k;
                self.usage_pull[at] = dot(row, pull);
                self.usage_push[at] = dot(row, push);
                for (j, column) in lever.chunks_exact(d).enumerate() {
                    self.chain.response[at * m + j] = dot(row, column);
                }
                if point.slack[at].is_finite() {
                    self.chain.softness[at] = point.slack[at] / point.dual[at];
                } else if step == last {
                    // A dropped limit is not used, and its price does not change.
                    self.chain.softness[at] = 1.0;
                }
            }
        }
        self.chain.factor();
    }

    /// Assembles the direction for a barrier parameter; `target` is that of the limits.
    pub(super) fn direct(&mut self, region: &Region, point: &Point, barrier: f64, target: f64) {
        // From this share of the price on, a dual is taken from differences of prices; below, from its slack.
        const ACTIVE: f64 = 0.01;
        let m = region.dropped.len();
        let d = point.jacobian.len() / point.price.len();
        let direction = &mut self.direction;
        let count = point.dual.len();
        let mut usage = vec![0.0; count];
        let mut room = vec![0.0; count];
        for at in 0..count {
            usage[at] = self.usage_pull[at] + barrier * self.usage_push[at];
            if point.slack[at].is_finite() {
                room[at] = point.slack[at] - target / point.dual[at];
            }
        }
        self.chain
            .solve(&usage, &room, &mut direction.price, &mut direction.usage);
        for at in 0..count {
            let (dual, slack) = (point.dual[at], point.slack[at]);
            if slack.is_infinite() {
                continue;
            }
            // `s Δμ + μ Δs = τ − μ s` and `Δs = −u`: each is solved for what it determines well.
            if dual >= ACTIVE * point.price[at] {
                let later = if at + m < count {
                    direction.price[at + m]
                } else {
                    0.0
                };
                direction.dual[at] = direction.price[at] - later;
                direction.slack[at] = (target - slack * direction.dual[at]) / dual - slack;
            } else {
                direction.dual[at] = dual / slack * (direction.usage[at] - room[at]);
                direction.slack[at] = -direction.usage[at];
            }
        }
        for at in 0..point.x.len() {
            if region.width[at] == 0.0 {
                continue;
            }
            let (step, i) = (at / d, at % d);
            let mut dx = self.pull[at] + barrier * self.push[at];
            for k in 0..m {
                dx -= self.lever[(step * m + k) * d + i] * direction.price[step * m + k];
            }
            direction.rise[at] = dx;
            let (below, above) = (point.rise[at], region.width[at] - point.rise[at]);
            direction.at_lower[at] = (barrier - point.at_lower[at] * dx) / below - point.at_lower[at];
            direction.at_upper[at] = (barrier + point.at_upper[at] * dx) / above - point.at_upper[at];
        }
    }
}
