//! One minibatch, forward and backward through time.
//!
//! With `b_{t+1} = b_t − g(x_t)`, `λ_t = base(b_t) · out(z_t)`, `z_t` the network on features that are affine in `b_t`,
//! and `x_t` the layer's solution for `λ_t` and `b_t` less the reserve, the backward pass carries `p_t = dL/db_t`:
//!
//! ```text
//!     q_t = ∂l/∂x_t − (∂g/∂x_t)ᵀ p_{t+1}
//!     (∂L/∂λ_t, ∂L/∂b_t) = pullback of the layer for q_t        (of a formula: q_t ∂x_t/∂λ_t, q_t ∂x_t/∂b_t)
//!     dL/dz_t = ∂L/∂λ_t · base · out'(z_t), and on through the network to its inputs
//!     p_t = p_{t+1} + ∂L/∂b_t + ∂L/∂λ_t · out(z_t) · base'(b_t) + Σ_j slope_j · dL/dinput_j
//! ```
//!
//! The weights' gradients are contracted after the recursion, over all steps and lanes at once.

use laau_core::{Differentiate, Dimensions, Episodes, GradientCounts};
use pulp::{Simd, WithSimd};

use super::kernel::{Row, column, contraction, pack, product, rows, rows_mut};
use super::workspace::{Step, Workspace};
use crate::engine::BatchResult;
use crate::error::Error;
use crate::features::{base_constants, budget_feature, budget_features};
use crate::model::Model;
use crate::spec::{Form, Output};

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
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        match self.workspace.width / S::F64_LANES {
            1 => self.run::<S, 1>(simd),
            2 => self.run::<S, 2>(simd),
            3 => self.run::<S, 3>(simd),
            _ => self.run::<S, 4>(simd),
        }
    }
}

impl Pass<'_> {
    #[inline(always)]
    fn run<S: Simd, const B: usize>(mut self, simd: S) -> Result<BatchResult, Error> {
        let mut result = BatchResult {
            loss: 0.0,
            counts: GradientCounts::default(),
        };
        self.prepare::<S, B>();
        self.forward::<S, B>(simd, &mut result)?;
        self.backward::<S, B>(simd, &mut result)?;
        self.contract::<S, B>(simd);
        Ok(result)
    }

    /// Everything that does not depend on the actions. The padding repeats the last episode.
    #[inline(always)]
    fn prepare<S: Simd, const B: usize>(&mut self) {
        let work = &mut *self.workspace;
        let Dimensions {
            budgets: m, context, ..
        } = self.model.spec.dimensions;
        let lanes = work.blocks * work.width;
        for lane in 0..lanes {
            let episode = self.episodes.get(self.batch[lane.min(work.batch - 1)]);
            let contexts = work.contexts.chunks_exact_mut(lanes * context);
            if context == 1 {
                for (value, out) in episode.contexts().iter().zip(contexts) {
                    out[lane] = *value;
                }
            } else {
                for (values, out) in episode.contexts().chunks_exact(context).zip(contexts) {
                    out[lane * context..][..context].copy_from_slice(values);
                }
            }
            let (block, lane) = (lane / work.width, lane % work.width);
            for (i, budget) in episode.budgets().iter().enumerate() {
                work.exchange.remaining[(block * m + i) * work.width + lane] = *budget;
            }
        }
        work.inputs.fill(self.model, &work.contexts);
        let last = work.layers.len() - 1;
        for (index, layer) in work.layers.iter_mut().enumerate() {
            let matrix = layer.matrix(&self.model.parameters);
            let (inputs, outputs) = (layer.inputs, layer.outputs);
            if index == last {
                columns_of(matrix, outputs, &mut layer.forward);
            } else {
                pack::<S, B>((inputs, outputs), (outputs, 1), matrix, &mut layer.forward);
            }
            if index == 0 {
                // Of the first layer's inputs, only the budget features want a gradient: its first rows.
                let wanted = layer.backward.len();
                layer.backward.copy_from_slice(&matrix[..wanted]);
            } else {
                pack::<S, B>((outputs, inputs), (1, outputs), matrix, &mut layer.backward);
            }
        }
    }

    /// Plays all steps.
    #[inline(always)]
    fn forward<S: Simd, const B: usize>(&mut self, simd: S, result: &mut BatchResult) -> Result<(), Error> {
        let dimensions = self.model.spec.dimensions;
        for index in 0..self.workspace.horizon {
            if index + 1 < self.workspace.horizon {
                self.price::<S, B>(simd, index);
            } else {
                self.workspace.exchange.multipliers.fill(0.0);
            }
            let work = &mut *self.workspace;
            let lanes = work.blocks * work.width;
            let step = Step::new(index, dimensions, lanes, &work.contexts, &work.limits);
            match (&mut work.closed, self.solver.closed_form()) {
                (Some(steps), Some(layer)) => steps.play(simd, layer, step, &mut work.exchange, result)?,
                _ => work.general.play(self.solver, step, &mut work.exchange, result)?,
            }
        }
        let work = &mut *self.workspace;
        if let (Some(steps), Some(layer)) = (&mut work.closed, self.solver.closed_form()) {
            result.loss = steps.loss(simd, layer, &work.contexts);
        }
        Ok(())
    }

    /// The prices of one step.
    #[inline(always)]
    fn price<S: Simd, const B: usize>(&mut self, simd: S, step: usize) {
        let model = self.model;
        let work = &mut *self.workspace;
        let (spec, statistics) = (&model.spec, &model.statistics);
        let (m, width, blocks) = (spec.dimensions.budgets, work.width, work.blocks);
        let steps_left = work.horizon - 1 - step;
        let last = work.layers.len() - 1;
        let zero = simd.splat_f64s(0.0);

        for block in 0..blocks {
            let at = step * blocks + block;
            let remaining = &work.exchange.remaining[block * m * width..][..m * width];
            let features = work.layers[0].inputs * width;
            let features = &mut work.inputs.features[at * features..][..features];
            let budgets = rows::<S, B>(remaining);
            for (j, out) in rows_mut::<S, B>(features)[..budget_features(spec)]
                .iter_mut()
                .enumerate()
            {
                let (slope, offset) = budget_feature(statistics, m, j, steps_left);
                let (slope, offset) = (simd.splat_f64s(slope), simd.splat_f64s(offset));
                for v in 0..B {
                    out[v] = simd.mul_add_e_f64s(slope, budgets[j % m][v], offset);
                }
            }
            let mut input: &[f64] = features;
            let (hidden, output) = work.layers.split_at_mut(last);
            for layer in hidden {
                let size = layer.outputs * width;
                let out = &mut layer.outcome[at * size..][..size];
                product(
                    simd,
                    &layer.forward,
                    rows::<S, B>(input),
                    &model.parameters[layer.bias.clone()],
                    rows_mut::<S, B>(out),
                    |bias| simd.splat_f64s(*bias),
                    |sum, _, _| simd.max_f64s(sum, zero),
                );
                input = out;
            }
            let output = &output[0];
            let input = rows::<S, B>(input);
            let size = m * width;
            let prices = &mut work.exchange.multipliers[block * size..][..size];
            let bases = rows::<S, B>(&work.inputs.bases[at * size..][..size]);
            let slopes = rows_mut::<S, B>(&mut work.slopes[at * size..][..size]);
            let budget_slopes = rows_mut::<S, B>(&mut work.budget_slopes[at * size..][..size]);
            let prices = rows_mut::<S, B>(prices);
            for i in 0..m {
                let weights = &output.forward[i * output.inputs..][..output.inputs];
                let bias = model.parameters[output.bias.start + i];
                let z = column::<S, B>(simd, weights, bias, input);
                let (value, slope) = outputs::<S, B>(simd, spec.output, &z);
                match spec.form {
                    Form::Plain => {
                        let base = simd.splat_f64s(statistics.multiplier_scale[i]);
                        for v in 0..B {
                            prices[i][v] = simd.mul_f64s(base, value[v]);
                            slopes[i][v] = simd.mul_f64s(base, slope[v]);
                        }
                    }
                    Form::Residual => {
                        let (_, least) = base_constants(statistics, i);
                        let (least, one) = (simd.splat_f64s(least), simd.splat_f64s(1.0));
                        for v in 0..B {
                            let b = budgets[i][v];
                            let inverse = simd.div_f64s(one, simd.max_f64s(b, least));
                            let base = simd.mul_f64s(bases[i][v], inverse);
                            let price = simd.mul_f64s(base, value[v]);
                            let falling = simd.neg_f64s(simd.mul_f64s(price, inverse));
                            prices[i][v] = price;
                            slopes[i][v] = simd.mul_f64s(base, slope[v]);
                            budget_slopes[i][v] =
                                simd.select_f64s(simd.greater_than_f64s(b, least), falling, zero);
                        }
                    }
                }
            }
        }
    }

    /// Carries the gradient back to the first step, and leaves every layer's deltas behind.
    #[inline(always)]
    fn backward<S: Simd, const B: usize>(&mut self, simd: S, result: &mut BatchResult) -> Result<(), Error> {
        let dimensions = self.model.spec.dimensions;
        // What the forward pass left in the padding must not reach the weights.
        self.workspace.exchange.multipliers.fill(0.0);
        self.workspace.exchange.prices.fill(0.0);
        for index in (0..self.workspace.horizon).rev() {
            let work = &mut *self.workspace;
            if let Some(steps) = &work.closed {
                steps.pull(simd, index, &mut work.exchange);
            } else {
                let lanes = work.blocks * work.width;
                let step = Step::new(index, dimensions, lanes, &work.contexts, &work.limits);
                work.general.pull(self.solver, step, &mut work.exchange, result)?;
            }
            if index + 1 < work.horizon {
                self.unprice::<S, B>(simd, index);
            }
        }
        Ok(())
    }

    /// From the gradient in the prices of one step to the gradient in its budgets.
    #[inline(always)]
    fn unprice<S: Simd, const B: usize>(&mut self, simd: S, step: usize) {
        let work = &mut *self.workspace;
        let (spec, statistics) = (&self.model.spec, &self.model.statistics);
        let (m, width, blocks) = (spec.dimensions.budgets, work.width, work.blocks);
        let steps_left = work.horizon - 1 - step;
        let last = work.layers.len() - 1;
        let zero = simd.splat_f64s(0.0);
        for block in 0..blocks {
            let at = step * blocks + block;
            let size = m * width;
            let slopes = rows::<S, B>(&work.slopes[at * size..][..size]);
            let budget_slopes = rows::<S, B>(&work.budget_slopes[at * size..][..size]);
            let prices = rows_mut::<S, B>(&mut work.exchange.prices[block * size..][..size]);
            let deltas = rows_mut::<S, B>(&mut work.layers[last].deltas[at * size..][..size]);
            let gradients = rows::<S, B>(&work.exchange.multipliers[block * size..][..size]);
            for i in 0..m {
                let gradient = gradients[i];
                for v in 0..B {
                    deltas[i][v] = simd.mul_f64s(gradient[v], slopes[i][v]);
                }
                if spec.form == Form::Residual {
                    for v in 0..B {
                        prices[i][v] = simd.mul_add_e_f64s(gradient[v], budget_slopes[i][v], prices[i][v]);
                    }
                }
            }
            for index in (1..=last).rev() {
                let (before, after) = work.layers.split_at_mut(index);
                let (lower, upper) = (&mut before[index - 1], &after[0]);
                let (size, upper_size) = (lower.outputs * width, upper.outputs * width);
                product(
                    simd,
                    &upper.backward,
                    rows::<S, B>(&upper.deltas[at * upper_size..][..upper_size]),
                    rows::<S, B>(&lower.outcome[at * size..][..size]),
                    rows_mut::<S, B>(&mut lower.deltas[at * size..][..size]),
                    |_| zero,
                    |sum, outcome, v| {
                        let active = simd.greater_than_f64s(outcome[v], zero);
                        simd.select_f64s(active, sum, zero)
                    },
                );
            }
            let first = &work.layers[0];
            let size = first.outputs * width;
            let deltas = rows::<S, B>(&first.deltas[at * size..][..size]);
            let columns = first.backward.chunks_exact(first.outputs);
            for (j, weights) in columns.enumerate() {
                let delta = column::<S, B>(simd, weights, 0.0, deltas);
                let (slope, _) = budget_feature(statistics, m, j, steps_left);
                let slope = simd.splat_f64s(slope);
                for v in 0..B {
                    prices[j % m][v] = simd.mul_add_e_f64s(slope, delta[v], prices[j % m][v]);
                }
            }
        }
    }

    /// The gradients of all weights.
    #[inline(always)]
    fn contract<S: Simd, const B: usize>(&mut self, simd: S) {
        let work = &*self.workspace;
        let mut input = &work.inputs.features;
        let mut rest = &mut *self.gradient;
        for layer in &work.layers {
            let (matrix, after) = rest.split_at_mut(layer.inputs * layer.outputs);
            let (bias, after) = after.split_at_mut(layer.outputs);
            contraction::<S, B>(
                simd,
                rows::<S, B>(input),
                rows::<S, B>(&layer.deltas),
                matrix,
                bias,
            );
            input = &layer.outcome;
            rest = after;
        }
    }
}

/// Writes the columns of a matrix one after the other.
#[inline(always)]
fn columns_of(matrix: &[f64], columns: usize, out: &mut [f64]) {
    let rows = matrix.len() / columns;
    for (j, out) in out.chunks_exact_mut(rows).enumerate() {
        for (out, row) in out.iter_mut().zip(matrix.chunks_exact(columns)) {
            *out = row[j];
        }
    }
}

/// The output function of one row, and its derivative.
#[inline(always)]
fn outputs<S: Simd, const B: usize>(simd: S, output: Output, z: &Row<S, B>) -> (Row<S, B>, Row<S, B>) {
    let (mut values, mut slopes) = (*z, *z);
    match output {
        Output::Softplus => {
            for v in 0..B {
                (values[v], slopes[v]) = Output::Softplus.apply(simd, z[v]);
            }
        }
        Output::Exp => {
            for v in 0..B {
                (values[v], slopes[v]) = Output::Exp.apply(simd, z[v]);
            }
        }
    }
    (values, slopes)
}
