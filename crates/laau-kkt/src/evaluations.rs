//! The problem's functions and derivatives at one point, in memory that is allocated once.

use laau_core::{Dimensions, Query, SmoothProblem, Structure};

use crate::rows::add_rows;

/// Values and derivatives at the action that was evaluated last.
#[derive(Debug, Clone)]
pub(crate) struct Evaluations {
    pub(crate) d: usize,
    pub(crate) m: usize,
    pub(crate) structure: Structure,
    /// `g(x)`.
    pub(crate) usage: Vec<f64>,
    /// `∇l(x)`.
    pub(crate) gradient: Vec<f64>,
    /// `∇g(x)`, `M × d`.
    pub(crate) jacobian: Vec<f64>,
    /// `∇l + ∇gᵀ λ`: the gradient of the priced cost.
    pub(crate) priced: Vec<f64>,
    /// The Hessian of the Lagrangian: its diagonal (`d`) or all of it (`d × d`).
    pub(crate) hessian: Vec<f64>,
    /// Its diagonal, if `hessian` has more.
    diagonal: Vec<f64>,
    /// `λ + μ`.
    weights: Vec<f64>,
    /// `∇gᵀ λ`, constant for affine usage.
    price_gradient: Vec<f64>,
}

impl Evaluations {
    pub(crate) fn new(problem: &dyn SmoothProblem) -> Self {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = problem.dimensions();
        let structure = problem.structure();
        Self {
            d,
            m,
            structure,
            usage: vec![0.0; m],
            gradient: vec![0.0; d],
            jacobian: vec![0.0; m * d],
            priced: vec![0.0; d],
            hessian: vec![0.0; if structure.diagonal_hessian { d } else { d * d }],
            diagonal: vec![0.0; if structure.diagonal_hessian { 0 } else { d }],
            weights: vec![0.0; m],
            price_gradient: vec![0.0; d],
        }
    }

    /// `∇g`, which for affine usage holds for the whole query.
    pub(crate) fn begin(&mut self, problem: &dyn SmoothProblem, query: Query<'_>, x: &[f64]) {
        self.evaluate_jacobian(problem, query, x);
    }

    /// `∇l` and `∇g` and their priced sum.
    #[inline]
    pub(crate) fn evaluate(&mut self, problem: &dyn SmoothProblem, query: Query<'_>, x: &[f64]) {
        let d = self.d;
        problem.cost_gradient(x, query.context, &mut self.gradient);
        if !self.structure.affine_usage {
            self.evaluate_jacobian(problem, query, x);
        }
        let (priced, gradient, price) = (
            &mut self.priced[..d],
            &self.gradient[..d],
            &self.price_gradient[..d],
        );
        for i in 0..d {
            priced[i] = gradient[i] + price[i];
        }
    }

    /// `g`.
    #[inline]
    pub(crate) fn evaluate_usage(&mut self, problem: &dyn SmoothProblem, query: Query<'_>, x: &[f64]) {
        problem.usage(x, query.context, &mut self.usage);
    }

    /// `∇²l + Σ (λ + μ)_m ∇²g_m`.
    #[inline]
    pub(crate) fn evaluate_hessian(
        &mut self,
        problem: &dyn SmoothProblem,
        query: Query<'_>,
        x: &[f64],
        duals: &[f64],
    ) {
        for ((weight, price), dual) in self.weights.iter_mut().zip(query.multiplier).zip(duals) {
            *weight = price + dual;
        }
        if self.structure.diagonal_hessian {
            problem.lagrangian_hessian_diagonal(x, query.context, &self.weights, &mut self.hessian);
        } else {
            problem.lagrangian_hessian(x, query.context, &self.weights, &mut self.hessian);
            for (out, h) in self
                .diagonal
                .iter_mut()
                .zip(self.hessian.iter().step_by(self.d + 1))
            {
                *out = *h;
            }
        }
    }

    /// The diagonal of the Hessian that was evaluated last.
    #[inline]
    pub(crate) fn curvatures(&self) -> &[f64] {
        let diagonal = if self.structure.diagonal_hessian {
            &self.hessian
        } else {
            &self.diagonal
        };
        &diagonal[..self.d]
    }

    /// The sizes of the terms of the stationarity condition `i`, added up, without the duals of the box.
    #[inline]
    pub(crate) fn gradient_scale(&self, i: usize, multiplier: &[f64], duals: &[f64]) -> f64 {
        let mut scale = self.gradient[i].abs();
        for m in 0..self.m {
            scale += (multiplier[m] + duals[m]) * self.jacobian[m * self.d + i].abs();
        }
        scale
    }

    fn evaluate_jacobian(&mut self, problem: &dyn SmoothProblem, query: Query<'_>, x: &[f64]) {
        problem.usage_jacobian(x, query.context, &mut self.jacobian);
        self.price_gradient.fill(0.0);
        add_rows(&mut self.price_gradient, &self.jacobian, query.multiplier);
    }
}
