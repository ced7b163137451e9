//! Derivatives for problems that give only their two functions, by forward-mode dual numbers.

use std::collections::BTreeMap;

use num_dual::HyperDual64;

use crate::error::Error;
use crate::fit::Parameter;
use crate::problem::{Dimensions, Problem, SmoothProblem, Structure, validate_problem};

pub use num_dual::DualNum;

/// A number that a cost and a usage can be written in: a plain `f64`, or one that carries derivatives.
pub trait Number: DualNum<Primitive = f64> + Copy {}
impl<T: DualNum<Primitive = f64> + Copy> Number for T {}

/// A problem given by its two functions alone; [`AutoDiff`] makes a [`SmoothProblem`] of it.
///
/// ```
/// use laau_core::{Dimensions, AutoDiff, ProblemFunctions, Number, SmoothProblem};
///
/// /// Sell `x` units at price `p`, with a market impact: revenue `p x − x²/2`.
/// struct Sale;
///
/// impl ProblemFunctions for Sale {
///     fn name(&self) -> &str { "sale" }
///     fn dimensions(&self) -> Dimensions { Dimensions { actions: 1, budgets: 1, context: 1 } }
///     fn lower(&self) -> &[f64] { &[0.0] }
///     fn upper(&self) -> &[f64] { &[5.0] }
///     fn cost<T: Number>(&self, x: &[T], p: &[T]) -> T { x[0] * x[0] * 0.5 - p[0] * x[0] }
///     fn usage<T: Number>(&self, x: &[T], _: &[T], out: &mut [T]) { out[0] = x[0]; }
///     fn least_usage(&self, out: &mut [f64]) { out[0] = 0.0; }
/// }
///
/// let problem = AutoDiff::new(Sale)?;
/// let mut gradient = [0.0];
/// problem.cost_gradient(&[2.0], &[3.0], &mut gradient);
/// assert_eq!(gradient, [2.0 - 3.0]);
/// # Ok::<(), laau_core::Error>(())
/// ```
pub trait ProblemFunctions: Send + Sync {
    /// See [`Problem::name`].
    fn name(&self) -> &str;
    /// See [`Problem::dimensions`].
    fn dimensions(&self) -> Dimensions;
    /// See [`Problem::lower`].
    fn lower(&self) -> &[f64];
    /// See [`Problem::upper`].
    fn upper(&self) -> &[f64];
    /// The cost `l(x, c)`, in any number.
    fn cost<T: Number>(&self, action: &[T], context: &[T]) -> T;
    /// The usage `g(x, c)`, in any number.
    fn usage<T: Number>(&self, action: &[T], context: &[T], out: &mut [T]);
    /// See [`Problem::least_usage`].
    fn least_usage(&self, out: &mut [f64]);
    /// See [`Problem::check_context`].
    ///
    /// # Errors
    /// Says what is wrong with the context.
    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        let _ = context;
        Ok(())
    }
    /// See [`Problem::parameters`]; the box is added to them.
    fn parameters(&self) -> BTreeMap<String, Parameter> {
        BTreeMap::new()
    }
    /// See [`SmoothProblem::structure`].
    fn structure(&self) -> Structure {
        Structure::default()
    }
}

/// Adds derivatives to [`ProblemFunctions`]: a gradient costs one evaluation per variable, a Hessian one per pair. It allocates;
/// write [`SmoothProblem`] by hand where that matters.
#[derive(Debug, Clone)]
pub struct AutoDiff<F>(F);

impl<F: ProblemFunctions> AutoDiff<F> {
    /// Checks the sizes and the box.
    ///
    /// # Errors
    /// [`Error::InvalidProblem`].
    pub fn new(functions: F) -> Result<Self, Error> {
        let dual = Self(functions);
        validate_problem(&dual)?;
        Ok(dual)
    }

    /// Evaluates the weighted sum `l + Σ weights_m g_m` with one derivative direction in each of two slots.
    /// A direction is a position in `(action, context)`.
    fn lagrangian(
        &self,
        weights: &[f64],
        point: (&[f64], &[f64]),
        directions: (usize, usize),
    ) -> HyperDual64 {
        let (x, c) = lift(point, directions);
        let mut sum = self.0.cost(&x, &c);
        if weights.iter().any(|w| *w != 0.0) {
            let mut usage = vec![HyperDual64::from_re(0.0); weights.len()];
            self.0.usage(&x, &c, &mut usage);
            for (g, w) in usage.iter().zip(weights) {
                sum += *g * *w;
            }
        }
        sum
    }

    fn usage_derivative(
        &self,
        point: (&[f64], &[f64]),
        direction: usize,
        column: usize,
        width: usize,
        out: &mut [f64],
    ) {
        let (x, c) = lift(point, (direction, direction));
        let mut usage = vec![HyperDual64::from_re(0.0); self.0.dimensions().budgets];
        self.0.usage(&x, &c, &mut usage);
        for (m, g) in usage.iter().enumerate() {
            out[m * width + column] = g.eps1;
        }
    }
}

/// Lifts a point to hyper-dual numbers with a unit in each direction.
fn lift(point: (&[f64], &[f64]), directions: (usize, usize)) -> (Vec<HyperDual64>, Vec<HyperDual64>) {
    let unit = |hit: bool| f64::from(u8::from(hit));
    let lift = |values: &[f64], offset: usize| {
        values
            .iter()
            .enumerate()
            .map(|(i, &v)| {
                HyperDual64::new(
                    v,
                    unit(i + offset == directions.0),
                    unit(i + offset == directions.1),
                    0.0,
                )
            })
            .collect()
    };
    (lift(point.0, 0), lift(point.1, point.0.len()))
}

impl<F: ProblemFunctions> Problem for AutoDiff<F> {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn dimensions(&self) -> Dimensions {
        self.0.dimensions()
    }
    fn lower(&self) -> &[f64] {
        self.0.lower()
    }
    fn upper(&self) -> &[f64] {
        self.0.upper()
    }
    fn cost(&self, action: &[f64], context: &[f64]) -> f64 {
        self.0.cost(action, context)
    }
    fn usage(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        self.0.usage(action, context, out);
    }
    fn least_usage(&self, out: &mut [f64]) {
        self.0.least_usage(out);
    }
    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        self.0.check_context(context)
    }
    fn parameters(&self) -> BTreeMap<String, Parameter> {
        let mut parameters = self.0.parameters();
        parameters.insert("lower".to_owned(), self.lower().into());
        parameters.insert("upper".to_owned(), self.upper().into());
        parameters
    }
}

impl<F: ProblemFunctions> SmoothProblem for AutoDiff<F> {
    fn cost_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        for (i, value) in out.iter_mut().enumerate() {
            *value = self.lagrangian(&[], (action, context), (i, i)).eps1;
        }
    }

    fn usage_jacobian(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        let d = action.len();
        for i in 0..d {
            self.usage_derivative((action, context), i, i, d, out);
        }
    }

    fn lagrangian_hessian(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        let d = action.len();
        for i in 0..d {
            for j in 0..=i {
                let value = self.lagrangian(weights, (action, context), (i, j)).eps1eps2;
                out[i * d + j] = value;
                out[j * d + i] = value;
            }
        }
    }

    fn cost_context_gradient(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        for (j, value) in out.iter_mut().enumerate() {
            let direction = action.len() + j;
            *value = self
                .lagrangian(&[], (action, context), (direction, direction))
                .eps1;
        }
    }

    fn usage_context_jacobian(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        for j in 0..context.len() {
            self.usage_derivative((action, context), action.len() + j, j, context.len(), out);
        }
    }

    fn lagrangian_mixed(&self, action: &[f64], context: &[f64], weights: &[f64], out: &mut [f64]) {
        let d = action.len();
        for i in 0..d {
            for j in 0..context.len() {
                out[i * context.len() + j] = self.lagrangian(weights, (action, context), (i, d + j)).eps1eps2;
            }
        }
    }

    fn structure(&self) -> Structure {
        self.0.structure()
    }
}
