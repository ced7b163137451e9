//! Small problems that exercise every path of the solver, and random queries for them.

use std::sync::Arc;

use laau_core::problems::{LogUtility, WeightedFairness};
use laau_core::{AutoDiff, Dimensions, Error, Number, Problem, ProblemFunctions, SmoothProblem, Structure};
use laau_kkt::{InteriorPoint, Options};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;

/// `½ xᵀQx − cᵀx` with a dense, positive definite `Q`, under `A x`.
pub(crate) struct Quadratic {
    pub(crate) d: usize,
    pub(crate) m: usize,
    pub(crate) hessian: Vec<f64>,
    pub(crate) matrix: Vec<f64>,
    pub(crate) lower: Vec<f64>,
    pub(crate) upper: Vec<f64>,
}

impl Problem for Quadratic {
    fn name(&self) -> &'static str {
        "quadratic"
    }
    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: self.d,
            budgets: self.m,
            context: self.d,
        }
    }
    fn lower(&self) -> &[f64] {
        &self.lower
    }
    fn upper(&self) -> &[f64] {
        &self.upper
    }
    fn cost(&self, x: &[f64], c: &[f64]) -> f64 {
        let mut cost = 0.0;
        for i in 0..self.d {
            let row: f64 = (0..self.d).map(|j| self.hessian[i * self.d + j] * x[j]).sum();
            cost += 0.5 * x[i] * row - c[i] * x[i];
        }
        cost
    }
    fn usage(&self, x: &[f64], _: &[f64], out: &mut [f64]) {
        for (row, out) in self.matrix.chunks_exact(self.d).zip(out) {
            *out = row.iter().zip(x).map(|(a, x)| a * x).sum();
        }
    }
    fn least_usage(&self, out: &mut [f64]) {
        self.usage(&self.lower, &[], out);
    }
}

impl SmoothProblem for Quadratic {
    fn cost_gradient(&self, x: &[f64], c: &[f64], out: &mut [f64]) {
        for i in 0..self.d {
            let row: f64 = (0..self.d).map(|j| self.hessian[i * self.d + j] * x[j]).sum();
            out[i] = row - c[i];
        }
    }
    fn usage_jacobian(&self, _: &[f64], _: &[f64], out: &mut [f64]) {
        out.copy_from_slice(&self.matrix);
    }
    fn lagrangian_hessian(&self, _: &[f64], _: &[f64], _: &[f64], out: &mut [f64]) {
        out.copy_from_slice(&self.hessian);
    }
    fn cost_context_gradient(&self, x: &[f64], _: &[f64], out: &mut [f64]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = -x;
        }
    }
    fn usage_context_jacobian(&self, _: &[f64], _: &[f64], out: &mut [f64]) {
        out.fill(0.0);
    }
    fn lagrangian_mixed(&self, _: &[f64], _: &[f64], _: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for i in 0..self.d {
            out[i * self.d + i] = -1.0;
        }
    }
    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: false,
            affine_usage: true,
        }
    }
}

/// `−Σ c_i ln x_i` under curved usage `Σ a_mi (e^{k x_i} − 1) + a_mi x_i²`, by hand: diagonal Hessian, not affine.
pub(crate) struct Curved {
    pub(crate) d: usize,
    pub(crate) m: usize,
    pub(crate) matrix: Vec<f64>,
    pub(crate) rate: f64,
    pub(crate) lower: Vec<f64>,
    pub(crate) upper: Vec<f64>,
}

impl Problem for Curved {
    fn name(&self) -> &'static str {
        "curved"
    }
    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: self.d,
            budgets: self.m,
            context: self.d,
        }
    }
    fn lower(&self) -> &[f64] {
        &self.lower
    }
    fn upper(&self) -> &[f64] {
        &self.upper
    }
    fn cost(&self, x: &[f64], c: &[f64]) -> f64 {
        -x.iter().zip(c).map(|(x, c)| c * x.ln()).sum::<f64>()
    }
    fn usage(&self, x: &[f64], _: &[f64], out: &mut [f64]) {
        for (row, out) in self.matrix.chunks_exact(self.d).zip(out) {
            *out = row
                .iter()
                .zip(x)
                .map(|(a, x)| a * ((self.rate * x).exp_m1() + x * x))
                .sum();
        }
    }
    fn least_usage(&self, out: &mut [f64]) {
        self.usage(&self.lower, &[], out);
    }
}

impl SmoothProblem for Curved {
    fn cost_gradient(&self, x: &[f64], c: &[f64], out: &mut [f64]) {
        for i in 0..self.d {
            out[i] = -c[i] / x[i];
        }
    }
    fn usage_jacobian(&self, x: &[f64], _: &[f64], out: &mut [f64]) {
        for m in 0..self.m {
            for i in 0..self.d {
                let a = self.matrix[m * self.d + i];
                out[m * self.d + i] = a * (self.rate * (self.rate * x[i]).exp() + 2.0 * x[i]);
            }
        }
    }
    fn lagrangian_hessian(&self, x: &[f64], c: &[f64], weights: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        let mut diagonal = vec![0.0; self.d];
        self.lagrangian_hessian_diagonal(x, c, weights, &mut diagonal);
        for i in 0..self.d {
            out[i * self.d + i] = diagonal[i];
        }
    }
    fn lagrangian_hessian_diagonal(&self, x: &[f64], c: &[f64], weights: &[f64], out: &mut [f64]) {
        for i in 0..self.d {
            let weight: f64 = (0..self.m)
                .map(|m| weights[m] * self.matrix[m * self.d + i])
                .sum();
            out[i] = c[i] / (x[i] * x[i]) + weight * (self.rate * self.rate * (self.rate * x[i]).exp() + 2.0);
        }
    }
    fn cost_context_gradient(&self, x: &[f64], _: &[f64], out: &mut [f64]) {
        for (out, x) in out.iter_mut().zip(x) {
            *out = -x.ln();
        }
    }
    fn usage_context_jacobian(&self, _: &[f64], _: &[f64], out: &mut [f64]) {
        out.fill(0.0);
    }
    fn lagrangian_mixed(&self, x: &[f64], _: &[f64], _: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for i in 0..self.d {
            out[i * self.d + i] = -1.0 / x[i];
        }
    }
    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: true,
            affine_usage: false,
        }
    }
}

/// A problem from its two functions alone, with a usage that couples actions and depends on the context:
/// cost `Σ ½ (x_i − c_i)² + 0.1 (Σ x_i)²`, usage `Σ a_mi x_i (1 + w_m c_i²) + 0.05 (Σ a_mi x_i)²`.
pub(crate) struct Coupled {
    pub(crate) d: usize,
    pub(crate) m: usize,
    pub(crate) matrix: Vec<f64>,
    pub(crate) lower: Vec<f64>,
    pub(crate) upper: Vec<f64>,
}

impl ProblemFunctions for Coupled {
    fn name(&self) -> &'static str {
        "coupled"
    }
    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: self.d,
            budgets: self.m,
            context: self.d,
        }
    }
    fn lower(&self) -> &[f64] {
        &self.lower
    }
    fn upper(&self) -> &[f64] {
        &self.upper
    }
    fn cost<T: Number>(&self, x: &[T], c: &[T]) -> T {
        let mut sum = T::from(0.0);
        let mut cost = T::from(0.0);
        for (x, c) in x.iter().zip(c) {
            sum += *x;
            cost += (*x - *c) * (*x - *c) * 0.5;
        }
        cost + sum * sum * 0.1
    }
    fn usage<T: Number>(&self, x: &[T], c: &[T], out: &mut [T]) {
        for (m, (row, out)) in self.matrix.chunks_exact(self.d).zip(out).enumerate() {
            let mut linear = T::from(0.0);
            let mut weighted = T::from(0.0);
            for i in 0..x.len() {
                linear += x[i] * row[i];
                weighted += x[i] * (c[i] * c[i] * (0.1 * m as f64) + 1.0) * row[i];
            }
            *out = weighted + linear * linear * 0.05;
        }
    }
    fn least_usage(&self, out: &mut [f64]) {
        out.fill(0.0);
    }
}

/// The general solver of a problem's layer.
pub(crate) fn solver(problem: impl SmoothProblem + 'static) -> InteriorPoint {
    InteriorPoint::new(Arc::new(problem), Options::default()).unwrap()
}

/// Draws every entry of a context between two numbers.
pub(crate) fn draw(low: f64, high: f64) -> impl FnMut(&mut ChaCha8Rng, &mut [f64]) {
    move |rng, context| {
        for value in context {
            *value = rng.random_range(low..high);
        }
    }
}

/// A problem, its name, and how to draw contexts for it.
pub(crate) struct Instance {
    pub(crate) problem: Arc<dyn SmoothProblem>,
    pub(crate) context: Vec<f64>,
    pub(crate) multiplier: Vec<f64>,
    pub(crate) remaining: Vec<f64>,
}

impl Instance {
    pub(crate) fn query(&self) -> laau_core::Query<'_> {
        laau_core::Query {
            context: &self.context,
            multiplier: &self.multiplier,
            available: &self.remaining,
        }
    }
}

pub(crate) fn uniform(rng: &mut impl Rng, n: usize, low: f64, high: f64) -> Vec<f64> {
    (0..n).map(|_| rng.random_range(low..high)).collect()
}

/// Non-negative entries, some of them zero, at least one positive in every row.
fn usage_matrix(rng: &mut impl Rng, d: usize, m: usize) -> Vec<f64> {
    let mut matrix = uniform(rng, d * m, 0.05, 1.0);
    for row in 0..m {
        let kept = rng.random_range(0..d);
        for i in 0..d {
            if i != kept && rng.random_bool(0.2) {
                matrix[row * d + i] = 0.0;
            }
        }
    }
    matrix
}

pub(crate) fn log_utility(rng: &mut impl Rng, d: usize, m: usize) -> Result<LogUtility, Error> {
    let matrix = usage_matrix(rng, d, m);
    LogUtility::new(d, m, matrix, 0.1, 10.0)
}

pub(crate) fn quadratic(rng: &mut impl Rng, d: usize, m: usize) -> Quadratic {
    let factor = uniform(rng, d * d, -1.0, 1.0);
    let mut hessian = vec![0.0; d * d];
    for i in 0..d {
        for j in 0..d {
            let product: f64 = (0..d).map(|k| factor[i * d + k] * factor[j * d + k]).sum();
            hessian[i * d + j] = product / d as f64 + if i == j { 0.1 } else { 0.0 };
        }
    }
    Quadratic {
        d,
        m,
        hessian,
        matrix: usage_matrix(rng, d, m),
        lower: vec![0.0; d],
        upper: uniform(rng, d, 1.0, 5.0),
    }
}

/// One random instance: kind 0 to 4, sizes up to `(12, 5)`, budgets from tight to loose.
pub(crate) fn instance(rng: &mut impl Rng, kind: usize) -> Instance {
    let d = rng.random_range(1..=12);
    let m = rng.random_range(1..=5);
    let (problem, context): (Arc<dyn SmoothProblem>, Vec<f64>) = match kind {
        0 => (
            Arc::new(log_utility(rng, d, m).unwrap()),
            uniform(rng, d, 0.05, 2.0),
        ),
        1 => (Arc::new(quadratic(rng, d, m)), uniform(rng, d, -1.0, 3.0)),
        2 => {
            let problem = Curved {
                d,
                m,
                matrix: usage_matrix(rng, d, m),
                rate: rng.random_range(0.1..1.0),
                lower: uniform(rng, d, 0.01, 0.2),
                upper: uniform(rng, d, 2.0, 8.0),
            };
            (Arc::new(problem), uniform(rng, d, 0.05, 2.0))
        }
        3 => {
            let (d, m) = (d.min(6), m.min(3));
            let problem = Coupled {
                d,
                m,
                matrix: usage_matrix(rng, d, m),
                lower: vec![0.0; d],
                upper: uniform(rng, d, 1.0, 4.0),
            };
            (
                Arc::new(AutoDiff::new(problem).unwrap()),
                uniform(rng, d, -0.5, 3.0),
            )
        }
        _ => (Arc::new(WeightedFairness::paper()), uniform(rng, 1, 0.01, 3.0)),
    };
    let m = problem.dimensions().budgets;
    let scale = if kind == 4 { 0.2 } else { 1.0 };
    let multiplier = (0..m)
        .map(|_| {
            if rng.random_bool(0.2) {
                0.0
            } else {
                scale * rng.random_range(0.01..1.0)
            }
        })
        .collect();
    let mut least = vec![0.0; m];
    let mut most = vec![0.0; m];
    problem.usage(problem.lower(), &context, &mut least);
    problem.usage(problem.upper(), &context, &mut most);
    let remaining = (0..m)
        .map(|i| {
            let share = 10f64.powf(rng.random_range(-3.0..0.3));
            least[i] + share * (most[i] - least[i])
        })
        .collect();
    Instance {
        problem,
        context,
        multiplier,
        remaining,
    }
}
