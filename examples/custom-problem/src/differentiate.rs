//! The derivative of the layer: the KKT conditions of its solution, differentiated.

use laau_core::{Differentiate, Dimensions, Error, Exactness, GradientMut, Inexact, Query, SolutionRef};

use crate::kkt::{self, Active};
use crate::solver::{ClarabelLayer, total};

/// A dual or a slack below this is zero; both zero: a kink.
const ZERO: f64 = 1e-9;

impl Differentiate for ClarabelLayer {
    fn pullback(
        &mut self,
        query: Query<'_>,
        solution: SolutionRef<'_>,
        upstream: &[f64],
        gradient: GradientMut<'_>,
    ) -> Result<Exactness, Error> {
        let problem = &*self.problem;
        let Dimensions {
            actions: d,
            budgets: m,
            context: q,
        } = problem.dimensions();
        for (what, expected, found) in [
            ("upstream", d, upstream.len()),
            ("gradient in the multiplier", m, gradient.multiplier.len()),
            ("gradient in what remains", m, gradient.available.len()),
        ] {
            if expected != found {
                return Err(Error::WrongLength {
                    what,
                    expected,
                    found,
                });
            }
        }
        gradient.multiplier.fill(0.0);
        gradient.available.fill(0.0);
        if !solution.status.is_feasible() {
            if let Some(context) = gradient.context {
                context.fill(0.0);
            }
            return Ok(approximate(Inexact::NotSolved));
        }
        let (active, kink) = self.active_set(query, solution);

        // With K the matrix of the KKT conditions and K (p, q) = (upstream, 0):
        //     ∂/∂λ = −J p,     ∂/∂b = q,     ∂/∂c = −L_xcᵀ p − g_cᵀ q
        let weights = total(query.multiplier, solution.duals);
        let mut both = vec![0.0; d + m];
        for i in (0..d).filter(|i| !active.is_fixed(*i)) {
            both[i] = upstream[i];
        }
        let regular = kkt::solve(problem, query, solution.action, &weights, &active, &mut both);
        let (p, dual) = both.split_at(d);
        let mut jacobian = vec![0.0; m * d];
        problem.usage_jacobian(solution.action, query.context, &mut jacobian);
        for (out, row) in gradient.multiplier.iter_mut().zip(jacobian.chunks_exact(d)) {
            *out = row.iter().zip(p).map(|(a, p)| -a * p).sum();
        }
        gradient.available.copy_from_slice(dual);
        if let Some(context) = gradient.context {
            let (mut mixed, mut usage) = (vec![0.0; d * q], vec![0.0; m * q]);
            problem.lagrangian_mixed(solution.action, query.context, &weights, &mut mixed);
            problem.usage_context_jacobian(solution.action, query.context, &mut usage);
            for (j, out) in context.iter_mut().enumerate() {
                let of_actions: f64 = (0..d).map(|i| mixed[i * q + j] * p[i]).sum();
                let of_budgets: f64 = (0..m).map(|k| usage[k * q + j] * dual[k]).sum();
                *out = -of_actions - of_budgets;
            }
        }
        Ok(if !solution.status.is_solved() {
            approximate(Inexact::NotSolved)
        } else if kink {
            approximate(Inexact::WeaklyActive)
        } else if active.count() > d {
            approximate(Inexact::TooManyActive)
        } else if !regular {
            approximate(Inexact::DependentConstraints)
        } else {
            Exactness::Exact
        })
    }

    fn fork(&self) -> Box<dyn Differentiate> {
        Box::new(self.clone())
    }
}

fn approximate(reason: Inexact) -> Exactness {
    Exactness::Approximate { reason }
}

impl ClarabelLayer {
    /// The active constraints of a solution, and whether one of them is active with a dual of zero.
    fn active_set(&self, query: Query<'_>, solution: SolutionRef<'_>) -> (Active, bool) {
        let problem = &*self.problem;
        let mut usage = vec![0.0; query.available.len()];
        problem.usage(solution.action, query.context, &mut usage);
        let mut kink = false;
        let mut read = |dual: f64, slack: f64| {
            kink |= dual <= ZERO && slack <= ZERO;
            dual > ZERO
        };
        let active = Active {
            budgets: (0..usage.len())
                .map(|k| read(solution.duals[k], query.available[k] - usage[k]))
                .collect(),
            at_lower: (0..solution.action.len())
                .map(|i| read(solution.lower_duals[i], solution.action[i] - problem.lower()[i]))
                .collect(),
            at_upper: (0..solution.action.len())
                .map(|i| read(solution.upper_duals[i], problem.upper()[i] - solution.action[i]))
                .collect(),
        };
        (active, kink)
    }
}
