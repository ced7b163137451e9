//! One minibatch, forward and backward through time.
//!
//! With `b_{t+1} = b_t − g(x_t)`, `λ_t = base(b_t) · out(z_t)`, `z_t` the network on features that are affine in `b_t`,
//! and `x_t` the layer's solution for `λ_t` and `b_t` less the reserve, the backward pass carries `p_t = dL/db_t`:
//!
//! ```text
//!     q_t = ∂l/∂x_t − (∂g/∂x_t)ᵀ p_{t+1}
//!     (∂L/∂λ_t, ∂L/∂b_t) = pullback of the layer for q_t
//!     dL/dz_t = ∂L/∂λ_t · base · out'(z_t), and on through the network to its inputs
//!     p_t = p_{t+1} + ∂L/∂b_t + ∂L/∂λ_t · out(z_t) · base'(b_t) + Σ_j slope_j · dL/dinput_j
//! ```
//!
//! The weights' gradients are contracted after the recursion, over all steps and lanes at once.

use laau_core::{
    Differentiate, Dimensions, Episodes, Error as CoreError, Exactness, GradientCounts, Gradients, Queries,
    Solutions,
};
use pulp::{Simd, WithSimd};

use super::aligned::Aligned;
use super::kernel::{Matrix, Slot, contraction, product, transpose};
use crate::engine::BatchResult;
use crate::error::Error;
use crate::features::{BatchInputs, base_constants, budget_feature, budget_features};
use crate::model::Model;
use crate::spec::{Form, ModelSpec};

/// The memory of a minibatch of one size.
///
/// Tables of the network are `row × step × lane` over the priced steps; tables of the layer are `step × episode × value`
/// over all steps, as its traits want them.
pub(super) struct Workspace {
    horizon: usize,
    batch: usize,
    lanes: usize,
    layers: Vec<Layer>,
    inputs: BatchInputs,
    /// The output of each layer but the last, after its rectifiers.
    hidden: Vec<Aligned>,
    /// The gradient in the output of each layer, before its rectifiers.
    deltas: Vec<Aligned>,
    /// The gradient in the budget features of the current step.
    input_deltas: Aligned,
    /// The transposes of all weight matrices; of the first, the part of the budget features.
    transposes: Vec<Aligned>,
    /// `z`, a row per budget.
    outputs: Aligned,
    /// `dλ/dz` and `dλ/db`, a row per budget.
    slopes: Aligned,
    budget_slopes: Aligned,
    /// `b` of the current step, forward `λ` and backward `p`, and `dL/dλ`: `budget × lane`.
    remaining: Aligned,
    prices: Aligned,
    multiplier_gradient: Aligned,
    /// The layer's side.
    contexts: Vec<f64>,
    multipliers: Vec<f64>,
    available: Vec<f64>,
    reserves: Vec<f64>,
    least: Vec<f64>,
    solutions: Vec<Solutions>,
    gradients: Gradients,
    upstream: Vec<f64>,
    rows: Vec<f64>,
    costs: Vec<f64>,
    scratch: Vec<f64>,
}

/// A dense layer and the place of its parameters.
#[derive(Clone, Copy)]
struct Layer {
    inputs: usize,
    outputs: usize,
    start: usize,
}

impl Layer {
    fn matrix(self, parameters: &[f64]) -> Matrix<'_> {
        Matrix {
            values: &parameters[self.start..][..self.inputs * self.outputs],
            rows: self.inputs,
            columns: self.outputs,
        }
    }

    fn bias(self, parameters: &[f64]) -> &[f64] {
        &parameters[self.start + self.inputs * self.outputs..][..self.outputs]
    }
}

impl Workspace {
    pub(super) fn new(
        solver: &dyn Differentiate,
        spec: &ModelSpec,
        horizon: usize,
        batch: usize,
        vector: usize,
    ) -> Self {
        let dimensions = spec.dimensions;
        let Dimensions {
            actions: d,
            budgets: m,
            context,
        } = dimensions;
        let lanes = batch.next_multiple_of(vector);
        let width = (horizon - 1) * lanes;
        let mut start = 0;
        let layers: Vec<Layer> = spec
            .layers()
            .into_iter()
            .map(|(inputs, outputs)| {
                let layer = Layer {
                    inputs,
                    outputs,
                    start,
                };
                start += (inputs + 1) * outputs;
                layer
            })
            .collect();
        // No budget runs out in the padding.
        let mut remaining = Aligned::zeros(m * lanes);
        remaining.fill(1.0);
        let table = |layer: &Layer| Aligned::zeros(layer.outputs * width);
        let problem = solver.problem();
        let mut reserves = vec![0.0; horizon * m];
        for (step, reserve) in reserves.chunks_exact_mut(m).enumerate() {
            problem.reserve(horizon - 1 - step, reserve);
        }
        let mut least = vec![0.0; m];
        problem.least_usage(&mut least);
        Self {
            horizon,
            batch,
            lanes,
            inputs: BatchInputs::default(),
            hidden: layers[..layers.len() - 1].iter().map(table).collect(),
            deltas: layers.iter().map(table).collect(),
            input_deltas: Aligned::zeros(budget_features(spec) * lanes),
            transposes: layers
                .iter()
                .map(|layer| Aligned::zeros(layer.inputs * layer.outputs))
                .collect(),
            outputs: Aligned::zeros(m * width),
            slopes: Aligned::zeros(m * width),
            budget_slopes: Aligned::zeros(m * width),
            remaining,
            prices: Aligned::zeros(m * lanes),
            multiplier_gradient: Aligned::zeros(m * lanes),
            contexts: vec![0.0; horizon * batch * context],
            multipliers: vec![0.0; horizon * batch * m],
            available: vec![0.0; horizon * batch * m],
            reserves,
            least,
            solutions: (0..horizon).map(|_| Solutions::new(dimensions, batch)).collect(),
            gradients: Gradients::new(dimensions, batch),
            upstream: vec![0.0; batch * d],
            rows: vec![0.0; batch * m],
            costs: vec![0.0; batch],
            scratch: Vec::new(),
            layers,
        }
    }

    pub(super) fn fits(&self, horizon: usize, batch: usize) -> bool {
        self.horizon == horizon && self.batch == batch
    }
}

/// A minibatch to be played and differentiated.
pub(super) struct Pass<'a> {
    pub(super) solver: &'a mut dyn Differentiate,
    pub(super) model: &'a Model,
    pub(super) episodes: &'a Episodes,
    pub(super) batch: &'a [usize],
    pub(super) workspace: &'a mut Workspace,
    pub(super) gradient: &'a mut [f64],
}

impl WithSimd for Pass<'_> {
    type Output = Result<BatchResult, Error>;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) -> Self::Output {
        self.prepare();
        let cost = self.forward(simd)?;
        let counts = self.backward(simd)?;
        self.contract(simd);
        let steps = (self.batch.len() * self.workspace.horizon) as f64;
        Ok(BatchResult {
            loss: cost / steps,
            counts,
        })
    }
}

impl Pass<'_> {
    /// Everything that does not depend on the actions.
    #[inline(always)]
    fn prepare(&mut self) {
        let work = &mut *self.workspace;
        let context = self.model.spec.dimensions.context;
        work.inputs
            .fill(self.model, self.episodes, self.batch, work.lanes);
        for (row, &index) in self.batch.iter().enumerate() {
            let episode = self.episodes.get(index);
            for (step, values) in episode.contexts().chunks_exact(context).enumerate() {
                work.contexts[(step * work.batch + row) * context..][..context].copy_from_slice(values);
            }
            for (i, budget) in episode.budgets().iter().enumerate() {
                work.remaining[i * work.lanes + row] = *budget;
            }
        }
        for (index, (layer, out)) in work.layers.iter().zip(&mut work.transposes).enumerate() {
            let mut matrix = layer.matrix(&self.model.parameters);
            if index == 0 {
                matrix.rows = budget_features(&self.model.spec);
            }
            transpose(matrix, out);
        }
    }

    /// Plays all steps; returns the total cost.
    #[inline(always)]
    fn forward<S: Simd>(&mut self, simd: S) -> Result<f64, Error> {
        let dimensions = self.model.spec.dimensions;
        let Dimensions {
            budgets: m, context, ..
        } = dimensions;
        let mut total = 0.0;
        for step in 0..self.workspace.horizon {
            let last = step + 1 == self.workspace.horizon;
            if !last {
                self.price(simd, step);
            }
            let work = &mut *self.workspace;
            let (batch, lanes) = (work.batch, work.lanes);
            let multipliers = &mut work.multipliers[step * batch * m..][..batch * m];
            if last {
                multipliers.fill(0.0);
            }
            let available = &mut work.available[step * batch * m..][..batch * m];
            let reserve = &work.reserves[step * m..][..m];
            for i in 0..m {
                let (reserve, least) = (reserve[i], work.least[i]);
                let remaining = &work.remaining[i * lanes..][..batch];
                for (out, b) in available[i..].iter_mut().step_by(m).zip(remaining) {
                    let left = b - reserve;
                    // Plain floats may fall short of the least usage by a last bit; only a ledger is exact.
                    *out = if left > least { left } else { least };
                }
            }
            let contexts = &work.contexts[step * batch * context..][..batch * context];
            let solutions = &mut work.solutions[step];
            self.solver.solve_batch(
                Queries {
                    contexts,
                    multipliers,
                    remaining: available,
                },
                solutions,
            )?;
            if let Some(status) = solutions.statuses().iter().find(|status| !status.is_solved()) {
                return Err(Error::Core(CoreError::Unsolved {
                    step,
                    status: *status,
                }));
            }
            let problem = self.solver.problem();
            problem.cost_batch(solutions.actions(), contexts, &mut work.costs);
            total += work.costs.iter().sum::<f64>();
            problem.usage_batch(solutions.actions(), contexts, &mut work.rows);
            for i in 0..m {
                let remaining = &mut work.remaining[i * lanes..][..batch];
                for (b, used) in remaining.iter_mut().zip(work.rows[i..].iter().step_by(m)) {
                    *b -= used;
                }
            }
        }
        Ok(total)
    }

    /// The prices of one step.
    #[inline(always)]
    fn price<S: Simd>(&mut self, simd: S, step: usize) {
        let model = self.model;
        let work = &mut *self.workspace;
        let (spec, statistics) = (&model.spec, &model.statistics);
        let (m, lanes, batch) = (spec.dimensions.budgets, work.lanes, work.batch);
        let steps = work.horizon - 1;
        let vectors = lanes / S::F64_LANES;
        let slot = step_slot(steps, vectors, step);

        for j in 0..budget_features(spec) {
            let (slope, offset) = budget_feature(statistics, m, j, steps - step);
            let feature = &mut work.inputs.features[(j * steps + step) * lanes..][..lanes];
            let remaining = &work.remaining[(j % m) * lanes..][..lanes];
            for (out, b) in feature.iter_mut().zip(remaining) {
                *out = slope * b + offset;
            }
        }
        let count = work.layers.len();
        for (index, layer) in work.layers.iter().enumerate() {
            let (before, after) = work.hidden.split_at_mut(index);
            let input: &[f64] = match before.last() {
                Some(hidden) => hidden,
                None => &work.inputs.features,
            };
            let input = S::as_simd_f64s(input).0;
            let (matrix, bias) = (layer.matrix(&model.parameters), layer.bias(&model.parameters));
            if index + 1 < count {
                let zero = simd.splat_f64s(0.0);
                let out = S::as_mut_simd_f64s(&mut after[0]).0;
                product(
                    simd,
                    matrix,
                    Some(bias),
                    vectors,
                    (input, slot),
                    (out, slot),
                    |_, sum| simd.max_f64s(sum, zero),
                );
            } else {
                let out = S::as_mut_simd_f64s(&mut work.outputs).0;
                product(
                    simd,
                    matrix,
                    Some(bias),
                    vectors,
                    (input, slot),
                    (out, slot),
                    |_, sum| sum,
                );
            }
        }

        let multipliers = &mut work.multipliers[step * batch * m..][..batch * m];
        for i in 0..m {
            let at = (i * steps + step) * lanes;
            let z = &work.outputs[at..][..lanes];
            let base = &work.inputs.bases[at..][..lanes];
            let slopes = &mut work.slopes[at..][..lanes];
            let budget_slopes = &mut work.budget_slopes[at..][..lanes];
            let remaining = &work.remaining[i * lanes..][..lanes];
            let prices = &mut work.prices[i * lanes..][..lanes];
            match spec.form {
                Form::Plain => {
                    for k in 0..lanes {
                        let (value, slope) = spec.output.apply(z[k]);
                        prices[k] = base[k] * value;
                        slopes[k] = base[k] * slope;
                    }
                }
                Form::Residual => {
                    let (_, least) = base_constants(statistics, i);
                    for k in 0..lanes {
                        let b = if remaining[k] > least { remaining[k] } else { least };
                        let base = base[k] / b;
                        let (value, slope) = spec.output.apply(z[k]);
                        prices[k] = base * value;
                        slopes[k] = base * slope;
                        budget_slopes[k] = if remaining[k] > least { -prices[k] / b } else { 0.0 };
                    }
                }
            }
            for (out, price) in multipliers[i..].iter_mut().step_by(m).zip(prices.iter()) {
                *out = *price;
            }
        }
    }

    /// Carries the gradient back to the first step, and leaves every layer's deltas behind.
    #[inline(always)]
    fn backward<S: Simd>(&mut self, simd: S) -> Result<GradientCounts, Error> {
        let dimensions = self.model.spec.dimensions;
        let Dimensions {
            budgets: m, context, ..
        } = dimensions;
        let mut counts = GradientCounts::default();
        let scale = 1.0 / (self.workspace.batch * self.workspace.horizon) as f64;
        self.workspace.prices.fill(0.0);
        for step in (0..self.workspace.horizon).rev() {
            let work = &mut *self.workspace;
            let (batch, lanes) = (work.batch, work.lanes);
            let solutions = &work.solutions[step];
            let contexts = &work.contexts[step * batch * context..][..batch * context];
            for i in 0..m {
                let prices = &work.prices[i * lanes..][..batch];
                for (out, price) in work.rows[i..].iter_mut().step_by(m).zip(prices) {
                    *out = *price;
                }
            }
            self.solver.problem().step_pullback_batch(
                solutions.actions(),
                contexts,
                &work.rows,
                scale,
                &mut work.scratch,
                &mut work.upstream,
            );
            let queries = Queries {
                contexts,
                multipliers: &work.multipliers[step * batch * m..][..batch * m],
                remaining: &work.available[step * batch * m..][..batch * m],
            };
            self.solver
                .pullback_batch(queries, solutions, &work.upstream, &mut work.gradients)?;
            let exact = work
                .gradients
                .exactness
                .iter()
                .filter(|exactness| **exactness == Exactness::Exact)
                .count();
            counts.exact += exact as u64;
            counts.approximate += (batch - exact) as u64;
            for i in 0..m {
                let prices = &mut work.prices[i * lanes..][..batch];
                for (price, gradient) in prices
                    .iter_mut()
                    .zip(work.gradients.remaining[i..].iter().step_by(m))
                {
                    *price += gradient;
                }
                let out = &mut work.multiplier_gradient[i * lanes..][..batch];
                for (out, gradient) in out
                    .iter_mut()
                    .zip(work.gradients.multipliers[i..].iter().step_by(m))
                {
                    *out = *gradient;
                }
            }
            if step + 1 < self.workspace.horizon {
                self.unprice(simd, step);
            }
        }
        Ok(counts)
    }

    /// From the gradient in the prices of one step to the gradient in its budgets.
    #[inline(always)]
    fn unprice<S: Simd>(&mut self, simd: S, step: usize) {
        let model = self.model;
        let work = &mut *self.workspace;
        let (spec, statistics) = (&model.spec, &model.statistics);
        let (m, lanes) = (spec.dimensions.budgets, work.lanes);
        let steps = work.horizon - 1;
        let vectors = lanes / S::F64_LANES;
        let slot = step_slot(steps, vectors, step);
        let last = work.layers.len() - 1;

        for i in 0..m {
            let at = (i * steps + step) * lanes;
            let gradient = &work.multiplier_gradient[i * lanes..][..lanes];
            let slopes = &work.slopes[at..][..lanes];
            let deltas = &mut work.deltas[last][at..][..lanes];
            for k in 0..lanes {
                deltas[k] = gradient[k] * slopes[k];
            }
            if spec.form == Form::Residual {
                let budget_slopes = &work.budget_slopes[at..][..lanes];
                let prices = &mut work.prices[i * lanes..][..lanes];
                for k in 0..lanes {
                    prices[k] += gradient[k] * budget_slopes[k];
                }
            }
        }
        let zero = simd.splat_f64s(0.0);
        for index in (1..=last).rev() {
            let layer = work.layers[index];
            let transposed = Matrix {
                values: &work.transposes[index],
                rows: layer.outputs,
                columns: layer.inputs,
            };
            let (before, after) = work.deltas.split_at_mut(index);
            let hidden = S::as_simd_f64s(&work.hidden[index - 1]).0;
            let out = S::as_mut_simd_f64s(&mut before[index - 1]).0;
            let delta = S::as_simd_f64s(&after[0]).0;
            product(
                simd,
                transposed,
                None,
                vectors,
                (delta, slot),
                (out, slot),
                |at, sum| simd.select_f64s(simd.greater_than_f64s(hidden[at], zero), sum, zero),
            );
        }
        let of_budgets = Matrix {
            values: &work.transposes[0],
            rows: work.layers[0].outputs,
            columns: budget_features(spec),
        };
        let one_step = Slot {
            stride: vectors,
            start: 0,
        };
        let delta = S::as_simd_f64s(&work.deltas[0]).0;
        let out = S::as_mut_simd_f64s(&mut work.input_deltas).0;
        product(
            simd,
            of_budgets,
            None,
            vectors,
            (delta, slot),
            (out, one_step),
            |_, sum| sum,
        );
        for j in 0..budget_features(spec) {
            let (slope, _) = budget_feature(statistics, m, j, steps - step);
            let prices = &mut work.prices[(j % m) * lanes..][..lanes];
            for (price, delta) in prices.iter_mut().zip(&work.input_deltas[j * lanes..][..lanes]) {
                *price += slope * delta;
            }
        }
    }

    /// The gradients of all weights.
    #[inline(always)]
    fn contract<S: Simd>(&mut self, simd: S) {
        let work = &*self.workspace;
        let length = (work.horizon - 1) * work.lanes / S::F64_LANES;
        for (index, layer) in work.layers.iter().enumerate() {
            let input: &[f64] = match index {
                0 => &work.inputs.features,
                _ => &work.hidden[index - 1],
            };
            let gradient = &mut self.gradient[layer.start..][..(layer.inputs + 1) * layer.outputs];
            let (matrix, bias) = gradient.split_at_mut(layer.inputs * layer.outputs);
            let (x, y) = (S::as_simd_f64s(input).0, S::as_simd_f64s(&work.deltas[index]).0);
            contraction(simd, x, y, length, matrix, bias);
        }
    }
}

/// The place of one step in the tables of the network.
fn step_slot(steps: usize, vectors: usize, step: usize) -> Slot {
    Slot {
        stride: steps * vectors,
        start: step * vectors,
    }
}
