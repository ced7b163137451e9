//! The Euclidean projection onto the payable actions, as a problem.

use std::sync::Arc;

use crate::error::{Error, expect_finite};
use crate::problem::{Dimensions, Problem, SmoothProblem, Structure};

/// The payable action nearest to a target: `min ½‖x − a‖²` with the box and the usage of another problem.
///
/// Its context is the target `a` (`d` values) followed by the other problem's context. Any step solver for it projects
/// with a multiplier of zero, and its pullback in the context is the derivative of the projection in the target.
///
/// Distances are not scaled: a unit of one action counts as much as a unit of another. Scaled by the box, the result would
/// depend on bounds that no action reaches.
#[derive(Clone)]
pub struct Nearest {
    inner: Arc<dyn SmoothProblem>,
    dimensions: Dimensions,
    name: String,
}

impl Nearest {
    /// The projection onto what can be paid in a problem.
    #[must_use]
    pub fn new(inner: Arc<dyn SmoothProblem>) -> Self {
        let dimensions = inner.dimensions();
        Self {
            name: format!("nearest-{}", inner.name()),
            dimensions: Dimensions {
                context: dimensions.actions + dimensions.context,
                ..dimensions
            },
            inner,
        }
    }

    /// The target and the inner context.
    fn split<'a>(&self, context: &'a [f64]) -> (&'a [f64], &'a [f64]) {
        context.split_at(self.dimensions.actions)
    }

    /// `Σ_m weights_m ∇_xx g_m`: what the weights add to the inner Lagrangian's Hessian.
    fn usage_hessian(&self, action: &[f64], inner: &[f64], weights: &[f64], out: &mut [f64]) {
        if self.inner.structure().affine_usage {
            out.fill(0.0);
            return;
        }
        self.inner.lagrangian_hessian(action, inner, weights, out);
        let mut of_cost = vec![0.0; out.len()];
        let none = vec![0.0; weights.len()];
        self.inner.lagrangian_hessian(action, inner, &none, &mut of_cost);
        for (out, of_cost) in out.iter_mut().zip(&of_cost) {
            *out -= of_cost;
        }
    }
}

impl Problem for Nearest {
    fn name(&self) -> &str {
        &self.name
    }

    fn dimensions(&self) -> Dimensions {
        self.dimensions
    }

    fn lower(&self) -> &[f64] {
        self.inner.lower()
    }

    fn upper(&self) -> &[f64] {
        self.inner.upper()
    }

    fn cost(&self, action: &[f64], context: &[f64]) -> f64 {
        let (target, _) = self.split(context);
        let squares = action.iter().zip(target).map(|(x, a)| (x - a) * (x - a));
        0.5 * squares.sum::<f64>()
    }

    fn usage(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        self.inner.usage(action, self.split(context).1, out);
    }

    fn least_usage(&self, out: &mut [f64]) {
        self.inner.least_usage(out);
    }

    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        let (target, inner) = self.split(context);
        expect_finite("the target", target)?;
        self.inner.check_context(inner)
    }
}

impl SmoothProblem for Nearest {
    fn cost_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        let (target, _) = self.split(context);
        for ((out, x), a) in out.iter_mut().zip(action).zip(target) {
            *out = x - a;
        }
    }

    fn usage_jacobian(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        self.inner.usage_jacobian(action, self.split(context).1, out);
    }

    fn lagrangian_hessian(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        self.usage_hessian(action, self.split(context).1, weights, out);
        let d = self.dimensions.actions;
        for i in 0..d {
            out[i * d + i] += 1.0;
        }
    }

    fn cost_context_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        let (target, _) = self.split(context);
        out.fill(0.0);
        for ((out, x), a) in out.iter_mut().zip(action).zip(target) {
            *out = a - x;
        }
    }

    fn usage_context_jacobian(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        let (target, inner) = self.split(context);
        let mut of_inner = vec![0.0; self.dimensions.budgets * inner.len()];
        self.inner.usage_context_jacobian(action, inner, &mut of_inner);
        let rows = out.chunks_exact_mut(context.len());
        for (row, of_inner) in rows.zip(of_inner.chunks_exact(inner.len())) {
            let (in_target, in_inner) = row.split_at_mut(target.len());
            in_target.fill(0.0);
            in_inner.copy_from_slice(of_inner);
        }
    }

    fn lagrangian_mixed(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        let (target, inner) = self.split(context);
        let none = vec![0.0; weights.len()];
        let (mut with, mut of_cost) = (
            vec![0.0; target.len() * inner.len()],
            vec![0.0; target.len() * inner.len()],
        );
        self.inner.lagrangian_mixed(action, inner, weights, &mut with);
        self.inner.lagrangian_mixed(action, inner, &none, &mut of_cost);
        for (i, row) in out.chunks_exact_mut(context.len()).enumerate() {
            let (in_target, in_inner) = row.split_at_mut(target.len());
            in_target.fill(0.0);
            in_target[i] = -1.0;
            let at = i * inner.len();
            for (k, out) in in_inner.iter_mut().enumerate() {
                *out = with[at + k] - of_cost[at + k];
            }
        }
    }

    fn structure(&self) -> Structure {
        let inner = self.inner.structure();
        Structure {
            diagonal_hessian: inner.diagonal_hessian || inner.affine_usage,
            affine_usage: inner.affine_usage,
        }
    }

    fn lagrangian_hessian_diagonal(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        let inner = self.inner.structure();
        if inner.affine_usage {
            out.fill(1.0);
            return;
        }
        let context = self.split(context).1;
        let none = vec![0.0; weights.len()];
        let mut of_cost = vec![0.0; out.len()];
        self.inner
            .lagrangian_hessian_diagonal(action, context, weights, out);
        self.inner
            .lagrangian_hessian_diagonal(action, context, &none, &mut of_cost);
        for (out, of_cost) in out.iter_mut().zip(&of_cost) {
            *out = *out - of_cost + 1.0;
        }
    }
}
