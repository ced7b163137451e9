//! Problems: a cost, a usage, a box.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::exact::Product;
use crate::fit::Parameter;

/// The sizes of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Dimensions {
    /// Number of actions `d` chosen at each step.
    pub actions: usize,
    /// Number of budgets `M`.
    pub budgets: usize,
    /// Length of the context revealed at each step.
    pub context: usize,
}

/// An online problem with strict budgets: at each step an action `x` in a box costs `l(x, c)` and uses `g(x, c)`.
///
/// Every implementation must have three properties, which are checked by [`crate::conformance`]:
///
/// 1. `l(·, c)` and every `g_m(·, c)` are convex and twice differentiable on the box, and `g ≥ 0`.
/// 2. The lower corner of the box uses, in every context, at most [`Problem::least_usage`]. The reserve is built on
///    this: a policy that keeps the reserve, [`Problem::least_usage`] times the steps to come, always has an action.
/// 3. `l + λᵀg` is strictly convex for every `λ > 0`, so that the action is unique.
pub trait Problem: Send + Sync {
    /// The name by which files and reports know the problem, for example `weighted-fairness`.
    fn name(&self) -> &str;

    /// The sizes of actions, budgets and contexts.
    fn dimensions(&self) -> Dimensions;

    /// Lower bounds of the actions, `d` of them.
    fn lower(&self) -> &[f64];

    /// Upper bounds of the actions, `d` of them.
    fn upper(&self) -> &[f64];

    /// The cost `l(x, c)`; reports show the utility, which is its negative.
    fn cost(&self, action: &[f64], context: &[f64]) -> f64;

    /// The usage `g(x, c)` of each budget.
    fn usage(&self, action: &[f64], context: &[f64], out: &mut [f64]);

    /// An upper bound, over all contexts, of the usage of the box's lower corner.
    fn least_usage(&self, out: &mut [f64]);

    /// Whether the problem is defined in a context, for example a weight that must not be negative.
    ///
    /// # Errors
    /// Says what is wrong with the context. Lengths and NaN are checked before.
    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        let _ = context;
        Ok(())
    }

    /// What tells this problem from others of the same name: everything that its constructor was given.
    ///
    /// Models and policy files keep them, and are refused for a problem with others. By default the box.
    fn parameters(&self) -> BTreeMap<String, Parameter> {
        BTreeMap::from([
            ("lower".to_owned(), self.lower().into()),
            ("upper".to_owned(), self.upper().into()),
        ])
    }

    /// The usage that must stay for `steps_left` further steps, so that each can still take the lower corner,
    /// in floats: `steps_left × least_usage`, rounded up.
    ///
    /// A budget covers the exact product if and only if it is not below this. The ledger and the driver keep the exact
    /// product and compute it from [`Problem::least_usage`] alone: an override changes nothing that is paid.
    fn reserve(&self, steps_left: usize, out: &mut [f64]) {
        self.least_usage(out);
        for value in out {
            *value = Product::new(*value, steps_left).ceiling();
        }
    }

    /// The cost of each of several actions; `costs.len()` rows.
    fn cost_batch(&self, actions: &[f64], contexts: &[f64], costs: &mut [f64]) {
        let Dimensions {
            actions: d, context, ..
        } = self.dimensions();
        for (row, cost) in costs.iter_mut().enumerate() {
            *cost = self.cost(&actions[row * d..][..d], &contexts[row * context..][..context]);
        }
    }

    /// The usage of each of several actions; `rows × M` values.
    fn usage_batch(&self, actions: &[f64], contexts: &[f64], usages: &mut [f64]) {
        let Dimensions {
            actions: d,
            budgets,
            context,
        } = self.dimensions();
        for (row, usage) in usages.chunks_exact_mut(budgets).enumerate() {
            self.usage(
                &actions[row * d..][..d],
                &contexts[row * context..][..context],
                usage,
            );
        }
    }
}

/// What a solver may rely on to save work. A wrong claim gives wrong answers; `conformance` checks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Structure {
    /// `∇²l` and every `∇²g_m` are diagonal.
    pub diagonal_hessian: bool,
    /// Every `g_m` is affine in the action: its Jacobian depends on the context alone.
    pub affine_usage: bool,
}

/// A problem with the derivatives that KKT differentiation needs (all matrices row-major).
pub trait SmoothProblem: Problem {
    /// `∇_x l`, `d` values.
    fn cost_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]);

    /// `∇_x g`, `M × d`.
    fn usage_jacobian(&self, action: &[f64], context: &[f64], out: &mut [f64]);

    /// `∇_xx l + Σ_m weights_m ∇_xx g_m`, `d × d`.
    fn lagrangian_hessian(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]);

    /// `∇_c l`, as many values as the context has.
    fn cost_context_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]);

    /// `∇_c g`, `M × context`.
    fn usage_context_jacobian(&self, action: &[f64], context: &[f64], out: &mut [f64]);

    /// `∇_c (∇_x l + Σ_m weights_m ∇_x g_m)`, `d × context`.
    fn lagrangian_mixed(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]);

    /// What a solver may rely on.
    fn structure(&self) -> Structure {
        Structure::default()
    }

    /// The diagonal of [`SmoothProblem::lagrangian_hessian`]; used only under [`Structure::diagonal_hessian`].
    fn lagrangian_hessian_diagonal(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        let d = self.dimensions().actions;
        let mut hessian = vec![0.0; d * d];
        self.lagrangian_hessian(action, context, weights, &mut hessian);
        for (i, value) in out.iter_mut().enumerate() {
            *value = hessian[i * d + i];
        }
    }

    /// What a pullback through the layer has in the context: `out = −∇_c (∇_x l + Σ_m weights_m ∇_x g_m)ᵀ by_action − ∇_c gᵀ by_usage`.
    ///
    /// By default from [`SmoothProblem::lagrangian_mixed`] and [`SmoothProblem::usage_context_jacobian`], tables in `scratch` that have
    /// an entry for every action and context entry. A problem of many actions whose tables are mostly zero writes the sum at once.
    fn context_pullback(
        &self,
        action: &[f64],
        context: &[f64],
        weights: &[f64],
        (by_action, by_usage): (&[f64], &[f64]),
        scratch: &mut Vec<f64>,
        out: &mut [f64],
    ) {
        let width = context.len();
        let largest = width * by_action.len().max(by_usage.len());
        if scratch.len() < largest {
            scratch.resize(largest, 0.0);
        }
        out.fill(0.0);
        let mut subtract = |matrix: &[f64], factors: &[f64]| {
            for (row, factor) in matrix.chunks_exact(width).zip(factors) {
                for (out, value) in out.iter_mut().zip(row) {
                    *out -= factor * value;
                }
            }
        };
        let mixed = &mut scratch[..width * by_action.len()];
        self.lagrangian_mixed(action, context, weights, mixed);
        subtract(mixed, by_action);
        let usage = &mut scratch[..width * by_usage.len()];
        self.usage_context_jacobian(action, context, usage);
        subtract(usage, by_usage);
    }

    /// The pullback of one step of an episode, for several rows at once: `out = ∇_x l − ∇_x gᵀ price`.
    ///
    /// `prices` (`rows × M`) is the gradient of the rest of the episode in the remaining budgets; spending lowers
    /// them, hence the sign. `scale` multiplies the cost gradient. This is the `∂L/∂x_t` of the unrolled episode.
    fn step_pullback_batch(
        &self,
        actions: &[f64],
        contexts: &[f64],
        prices: &[f64],
        scale: f64,
        scratch: &mut Vec<f64>,
        out: &mut [f64],
    ) {
        let Dimensions {
            actions: d,
            budgets,
            context,
        } = self.dimensions();
        scratch.resize(budgets * d, 0.0);
        for (row, out) in out.chunks_exact_mut(d).enumerate() {
            let x = &actions[row * d..][..d];
            let c = &contexts[row * context..][..context];
            self.cost_gradient(x, c, out);
            self.usage_jacobian(x, c, scratch);
            for value in out.iter_mut() {
                *value *= scale;
            }
            for (jacobian_row, price) in scratch.chunks_exact(d).zip(&prices[row * budgets..][..budgets]) {
                for (value, jacobian) in out.iter_mut().zip(jacobian_row) {
                    *value -= price * jacobian;
                }
            }
        }
    }
}

/// Checks what every problem must satisfy before it is used: sizes and an ordered, finite box. A bound may be
/// met from both sides: `lower = upper` fixes an action.
///
/// # Errors
/// [`Error::InvalidProblem`] that names what is wrong.
pub fn validate_problem(problem: &dyn Problem) -> Result<(), Error> {
    let Dimensions {
        actions,
        budgets,
        context,
    } = problem.dimensions();
    let invalid = |reason: String| Error::InvalidProblem {
        problem: problem.name().to_owned(),
        reason,
    };
    if actions == 0 || budgets == 0 || context == 0 {
        return Err(invalid(format!(
            "expected at least one action, budget and context entry, found {actions}, {budgets} and {context}"
        )));
    }
    if problem.lower().len() != actions || problem.upper().len() != actions {
        return Err(invalid(format!("expected {actions} lower and upper bounds")));
    }
    for (i, (lower, upper)) in problem.lower().iter().zip(problem.upper()).enumerate() {
        if !(lower.is_finite() && upper.is_finite() && lower <= upper) {
            return Err(invalid(format!(
                "expected finite bounds with lower <= upper, found [{lower}, {upper}] for action {i}"
            )));
        }
        if (upper - lower).is_infinite() {
            return Err(invalid(format!(
                "expected a box of finite width, found [{lower}, {upper}] for action {i}"
            )));
        }
    }
    let mut least = vec![0.0; budgets];
    problem.least_usage(&mut least);
    if let Some(m) = least.iter().position(|u| !(u.is_finite() && *u >= 0.0)) {
        return Err(invalid(format!(
            "expected a finite, non-negative least usage, found {} for budget {m}",
            least[m]
        )));
    }
    Ok(())
}

/// The smallest budgets with which an episode of `horizon` steps can be played.
pub(crate) fn least_budgets(problem: &dyn Problem, horizon: usize) -> Vec<f64> {
    let mut least = vec![0.0; problem.dimensions().budgets];
    problem.least_usage(&mut least);
    for value in &mut least {
        *value = Product::new(*value, horizon).ceiling();
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::{Trading, WeightedFairness};

    #[test]
    fn the_reserve_is_the_product_rounded_up() {
        let reserve = |lower: f64, steps: usize| {
            let mut out = [0.0];
            WeightedFairness::new(lower, 40.0)
                .unwrap()
                .reserve(steps, &mut out);
            out[0]
        };
        assert_eq!(reserve(1.0, 3), 3.0);
        assert_eq!(reserve(0.1, 3), 0.300_000_000_000_000_04);
        assert_eq!(reserve(0.1, 0), 0.0);
        // Beyond two million steps, where a product of 32 bits would not be exact.
        assert_eq!(reserve(1.0, 1 << 53), 2f64.powi(53));
        for steps in [7, 1 << 21, (1 << 40) + 1] {
            let product = 0.1 * steps as f64;
            let error = 0.1_f64.mul_add(steps as f64, -product);
            let expected = if error > 0.0 { product.next_up() } else { product };
            assert_eq!(reserve(0.1, steps), expected, "{steps} steps");
        }
    }

    #[test]
    fn a_box_may_be_a_point_but_not_wider_than_a_float() {
        struct Boxed([f64; 2]);
        impl Problem for Boxed {
            fn name(&self) -> &'static str {
                "boxed"
            }
            fn dimensions(&self) -> Dimensions {
                Trading::inventory().dimensions()
            }
            fn lower(&self) -> &[f64] {
                &self.0[..1]
            }
            fn upper(&self) -> &[f64] {
                &self.0[1..]
            }
            fn cost(&self, _: &[f64], _: &[f64]) -> f64 {
                0.0
            }
            fn usage(&self, _: &[f64], _: &[f64], out: &mut [f64]) {
                out.fill(0.0);
            }
            fn least_usage(&self, out: &mut [f64]) {
                out.fill(0.0);
            }
        }
        assert_eq!(validate_problem(&Boxed([3.0, 3.0])), Ok(()));
        for bounds in [[3.0, 2.0], [f64::NAN, 1.0], [0.0, f64::INFINITY], [-1e308, 1e308]] {
            assert!(validate_problem(&Boxed(bounds)).is_err(), "{bounds:?}");
        }
    }
}
