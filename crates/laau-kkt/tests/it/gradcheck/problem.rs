//! The derivatives of a problem against differences of its two functions.

use laau_core::{Dimensions, SmoothProblem};

use super::numeric::Point;
use super::{Gradcheck, GradcheckOptions};
use laau_core::expect_length;
use laau_kkt::Error;

/// A method of [`SmoothProblem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Derivative {
    /// `cost_gradient`.
    CostGradient,
    /// `usage_jacobian`.
    UsageJacobian,
    /// `lagrangian_hessian`.
    LagrangianHessian,
    /// `lagrangian_hessian_diagonal`, where the problem claims a diagonal Hessian.
    LagrangianHessianDiagonal,
    /// `cost_context_gradient`.
    CostContextGradient,
    /// `usage_context_jacobian`.
    UsageContextJacobian,
    /// `lagrangian_mixed`.
    LagrangianMixed,
}

/// An entry of a derivative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProblemPlace {
    /// The method.
    pub(crate) derivative: Derivative,
    /// The row; 0 for a vector.
    pub(crate) row: usize,
    /// The column.
    pub(crate) column: usize,
}

/// Compares every derivative of a problem at one point with differences: first derivatives with those of cost and usage,
/// second ones with those of the first. The claims of [`laau_core::Structure`] are checked by the same comparison.
///
/// The point should be inside the box by more than the step.
///
/// # Errors
/// [`Error::Core`] for wrong sizes.
pub(crate) fn check_problem(
    problem: &dyn SmoothProblem,
    action: &[f64],
    context: &[f64],
    weights: &[f64],
    options: &GradcheckOptions,
) -> Result<Gradcheck<ProblemPlace>, Error> {
    let Dimensions {
        actions: d,
        budgets: m,
        context: k,
    } = problem.dimensions();
    expect_length("action", action, d)?;
    expect_length("context", context, k)?;
    expect_length("weights", weights, m)?;
    let mut check = Check {
        problem,
        action,
        context,
        options,
        report: Gradcheck::new(),
    };
    let (d_by_d, m_by_d, m_by_k, d_by_k) = (d * d, m * d, m * k, d * k);
    let mut table = vec![0.0; d_by_d.max(m_by_d).max(m_by_k).max(d_by_k)];

    problem.cost_gradient(action, context, &mut table[..d]);
    check.table(
        Derivative::CostGradient,
        By::Action,
        &table[..d],
        1,
        &|x, c, out| out[0] = problem.cost(x, c),
    );
    problem.usage_jacobian(action, context, &mut table[..m_by_d]);
    check.table(
        Derivative::UsageJacobian,
        By::Action,
        &table[..m_by_d],
        m,
        &|x, c, out| problem.usage(x, c, out),
    );
    problem.cost_context_gradient(action, context, &mut table[..k]);
    check.table(
        Derivative::CostContextGradient,
        By::Context,
        &table[..k],
        1,
        &|x, c, out| out[0] = problem.cost(x, c),
    );
    problem.usage_context_jacobian(action, context, &mut table[..m_by_k]);
    check.table(
        Derivative::UsageContextJacobian,
        By::Context,
        &table[..m_by_k],
        m,
        &|x, c, out| problem.usage(x, c, out),
    );

    let lagrangian_gradient = |x: &[f64], c: &[f64], out: &mut [f64]| {
        let mut jacobian = vec![0.0; m_by_d];
        problem.cost_gradient(x, c, out);
        problem.usage_jacobian(x, c, &mut jacobian);
        for (row, weight) in jacobian.chunks_exact(d).zip(weights) {
            for (out, j) in out.iter_mut().zip(row) {
                *out += weight * j;
            }
        }
    };
    problem.lagrangian_hessian(action, context, weights, &mut table[..d_by_d]);
    check.table(
        Derivative::LagrangianHessian,
        By::Action,
        &table[..d_by_d],
        d,
        &lagrangian_gradient,
    );
    if problem.structure().diagonal_hessian {
        let mut diagonal = vec![0.0; d];
        problem.lagrangian_hessian_diagonal(action, context, weights, &mut diagonal);
        table[..d_by_d].fill(0.0);
        for i in 0..d {
            table[i * d + i] = diagonal[i];
        }
        check.table(
            Derivative::LagrangianHessianDiagonal,
            By::Action,
            &table[..d_by_d],
            d,
            &lagrangian_gradient,
        );
    }
    problem.lagrangian_mixed(action, context, weights, &mut table[..d_by_k]);
    check.table(
        Derivative::LagrangianMixed,
        By::Context,
        &table[..d_by_k],
        d,
        &lagrangian_gradient,
    );
    Ok(check.report)
}

/// Which argument moves.
#[derive(Clone, Copy)]
enum By {
    Action,
    Context,
}

type Function<'f> = &'f dyn Fn(&[f64], &[f64], &mut [f64]);

struct Check<'a> {
    problem: &'a dyn SmoothProblem,
    action: &'a [f64],
    context: &'a [f64],
    options: &'a GradcheckOptions,
    report: Gradcheck<ProblemPlace>,
}

impl Check<'_> {
    /// Compares a table of derivatives, `rows × arguments`, with differences of a function with `rows` values.
    fn table(
        &mut self,
        derivative: Derivative,
        by: By,
        derivatives: &[f64],
        rows: usize,
        function: Function<'_>,
    ) {
        let (mut x, mut c) = (self.action.to_vec(), self.context.to_vec());
        let width = derivatives.len() / rows;
        let mut values = vec![0.0; rows];
        for column in 0..width {
            for row in 0..rows {
                let point = match by {
                    By::Action => Point::of(self.action, column),
                    By::Context => Point::of(self.context, column),
                };
                let mut entry = |value: f64| {
                    match by {
                        By::Action => x[column] = value,
                        By::Context => c[column] = value,
                    }
                    if matches!(by, By::Context) && self.problem.check_context(&c).is_err() {
                        return None;
                    }
                    function(&x, &c, &mut values);
                    values[row].is_finite().then_some(values[row])
                };
                let place = ProblemPlace {
                    derivative,
                    row,
                    column,
                };
                self.report.compare(
                    place,
                    derivatives[row * width + column],
                    point,
                    self.options,
                    &mut entry,
                );
                match by {
                    By::Action => x[column] = point.at,
                    By::Context => c[column] = point.at,
                }
            }
        }
    }
}
