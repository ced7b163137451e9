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

use std::ops::Range;

use laau_core::{Differentiate, Dimensions, Episodes, GradientCounts};
use pulp::{Simd, WithSimd};

use super::general::LayerMut;
use super::kernel::{Row, Rows, column, contraction, pack, product, rows, rows_mut};
use super::panel::{Blocks, panel, transpose, untile};
use super::workspace::{Layer, Step, Workspace};
use crate::engine::BatchResult;
use crate::error::Error;
use crate::features::{base_constants, budget_feature, budget_features};
use crate::guarded::GuardedLayer;
use crate::lanes::{Lanes, Real};
use crate::model::Model;
use crate::spec::{Output, PriceBase};

/// A minibatch to be played and differentiated.
pub(super) struct Pass<'a, T> {
    pub(super) solver: &'a mut dyn Differentiate,
    /// If there is one.
    pub(super) guard: Option<&'a mut GuardedLayer>,
    pub(super) model: &'a Model,
    pub(super) episodes: &'a Episodes,
    pub(super) batch: &'a [usize],
    pub(super) workspace: &'a mut Workspace<T>,
    pub(super) gradient: &'a mut [f64],
}

impl<T: Real> WithSimd for Pass<'_, T> {
    type Output = Result<BatchResult, Error>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> Self::Output {
        let lanes = T::lanes(simd);
        match self.workspace.width / T::Lanes::<S>::COUNT {
            1 => self.run::<T::Lanes<S>, 1>(lanes),
            2 => self.run::<T::Lanes<S>, 2>(lanes),
            3 => self.run::<T::Lanes<S>, 3>(lanes),
            _ => self.run::<T::Lanes<S>, 4>(lanes),
        }
    }
}

impl<T: Real> Pass<'_, T> {
    #[inline(always)]
    fn run<S: Lanes<Real = T>, const B: usize>(mut self, simd: S) -> Result<BatchResult, Error> {
        let mut result = BatchResult {
            loss: 0.0,
            counts: GradientCounts::default(),
        };
        self.prepare::<S, B>();
        if let (Some(guard), Some(steps)) = (&self.guard, &mut self.workspace.closed) {
            steps.guard(guard.shadow(), self.batch);
        }
        self.forward::<S, B>(simd, &mut result)?;
        if self.workspace.panel.is_wide {
            self.gradient.fill(0.0);
            for layer in &mut self.workspace.layers {
                layer.sums.fill(T::default());
            }
        }
        self.backward::<S, B>(simd, &mut result)?;
        if self.workspace.panel.is_wide {
            self.collect::<S>();
        } else {
            self.contract::<S, B>(simd);
        }
        Ok(result)
    }

    /// Everything that does not depend on the actions. The padding repeats the last episode.
    #[inline(always)]
    fn prepare<S: Lanes<Real = T>, const B: usize>(&mut self) {
        let work = &mut *self.workspace;
        let Dimensions {
            budgets: m, context, ..
        } = self.model.spec.dimensions;
        let lanes = work.blocks * work.width;
        for lane in 0..lanes {
            let episode = self.episodes.get(self.batch[lane.min(work.batch - 1)]);
            let contexts = &mut work.contexts[lane * context..];
            if context == 1 {
                for (out, value) in contexts.iter_mut().step_by(lanes).zip(episode.contexts()) {
                    *out = *value;
                }
            } else {
                let steps = contexts.chunks_mut(lanes * context);
                for (out, values) in steps.zip(episode.contexts().chunks_exact(context)) {
                    out[..context].copy_from_slice(values);
                }
            }
            let (block, lane) = (lane / work.width, lane % work.width);
            for (i, budget) in episode.budgets().iter().enumerate() {
                work.exchange.remaining[(block * m + i) * work.width + lane] = *budget;
            }
        }
        work.inputs.fill(self.model, &work.contexts, &mut work.tape);
        let last = work.layers.len() - 1;
        for (index, layer) in work.layers.iter_mut().enumerate() {
            let matrix = layer.matrix(&self.model.parameters);
            let (inputs, outputs) = (layer.inputs, layer.outputs);
            layer.convert(&self.model.parameters);
            if index == last {
                columns_of(matrix, outputs, &mut layer.forward);
            } else {
                pack::<S, B>((inputs, outputs), (outputs, 1), matrix, &mut layer.forward);
            }
            if index == 0 {
                // Of the first layer's inputs, only the budget features want a gradient: its first rows.
                let wanted = layer.backward.len();
                T::narrow(&matrix[..wanted], &mut layer.backward);
            } else {
                pack::<S, B>((outputs, inputs), (1, outputs), matrix, &mut layer.backward);
            }
        }
    }

    /// Plays all steps.
    #[inline(always)]
    fn forward<S: Lanes<Real = T>, const B: usize>(
        &mut self,
        simd: S,
        result: &mut BatchResult,
    ) -> Result<(), Error> {
        let dimensions = self.model.spec.dimensions;
        let m = dimensions.budgets;
        let work = &mut *self.workspace;
        let network = Network::new(self.model, &work.layers, &work.inputs.normalisation);
        let lanes = work.blocks * work.width;
        let mut tape = rows_mut::<S, B>(&mut work.tape);
        let contexts: &[f64] = &work.contexts;
        for index in 0..work.horizon {
            let exchange = &mut work.exchange;
            if index + 1 < work.horizon {
                let converted = &mut work.converted;
                let mut budgets = rows::<S, B>(T::read(&exchange.remaining, &mut converted.remaining));
                let prices = T::place(&mut exchange.multipliers, &mut converted.multipliers);
                let mut prices = rows_mut::<S, B>(prices);
                for _ in 0..work.blocks {
                    let (of_block, rest) = tape.split_at_mut(work.tape_rows);
                    let (budgets_of_block, budgets_after) = budgets.split_at(m);
                    let (prices_of_block, prices_after) = prices.split_at_mut(m);
                    (tape, budgets, prices) = (rest, budgets_after, prices_after);
                    let steps_left = work.horizon - 1 - index;
                    network.price::<S, B>(simd, steps_left, of_block, budgets_of_block, prices_of_block);
                }
                T::write(&converted.multipliers, &mut exchange.multipliers);
            } else {
                exchange.multipliers.fill(0.0);
            }
            let step = Step::new(index, dimensions, lanes, contexts, &work.limits);
            match (&mut work.closed, self.solver.closed_form()) {
                (Some(steps), Some(layer)) if self.guard.is_none() => {
                    steps.play(simd.doubles(), layer, step, exchange, result)?;
                }
                (Some(steps), Some(layer)) => {
                    steps.play_guarded(layer, self.solver.problem(), step, exchange, result)?;
                }
                _ => {
                    let layer = layer_of(self.solver, &mut self.guard);
                    work.general.play(layer, step, exchange, result)?;
                }
            }
        }
        if let (Some(steps), Some(layer)) = (&mut work.closed, self.solver.closed_form()) {
            if self.guard.is_none() {
                steps.price(layer, contexts);
            }
            result.loss = steps.loss(simd.doubles());
        }
        Ok(())
    }

    /// Carries the gradient back to the first step, and leaves every layer's deltas behind.
    #[inline(always)]
    fn backward<S: Lanes<Real = T>, const B: usize>(
        &mut self,
        simd: S,
        result: &mut BatchResult,
    ) -> Result<(), Error> {
        let dimensions = self.model.spec.dimensions;
        let m = dimensions.budgets;
        let work = &mut *self.workspace;
        let lanes = work.blocks * work.width;
        let exchange = &mut work.exchange;
        // What the forward pass left in the padding must not reach the weights.
        exchange.multipliers.fill(0.0);
        exchange.prices.fill(0.0);
        for index in (0..work.horizon).rev() {
            match &mut work.closed {
                Some(steps) if self.guard.is_none() => steps.pull(simd.doubles(), index, exchange),
                Some(steps) => steps.pull_guarded(index, exchange),
                None => {
                    let step = Step::new(index, dimensions, lanes, &work.contexts, &work.limits);
                    let layer = layer_of(self.solver, &mut self.guard);
                    work.general.pull(layer, step, exchange, result)?;
                }
            }
            if index + 1 == work.horizon {
                continue;
            }
            let network = Network::new(self.model, &work.layers, &work.inputs.normalisation);
            let tape = rows::<S, B>(&work.tape);
            let deltas = rows_mut::<S, B>(&mut work.deltas);
            let slot = index % work.panel.steps;
            let converted = &mut work.converted;
            let gradients = T::read(&exchange.multipliers, &mut converted.multipliers);
            let mut gradients = rows::<S, B>(gradients);
            let prices = T::place_to_add(&mut exchange.prices, &mut converted.prices);
            let mut prices = rows_mut::<S, B>(prices);
            for block in 0..work.blocks {
                let at = index * work.blocks + block;
                let (gradients_of_block, gradients_after) = gradients.split_at(m);
                let (prices_of_block, prices_after) = prices.split_at_mut(m);
                (gradients, prices) = (gradients_after, prices_after);
                network.unprice::<S, B>(
                    simd,
                    work.horizon - 1 - index,
                    &tape[at * work.tape_rows..][..work.tape_rows],
                    &mut deltas[(slot * work.blocks + block) * work.delta_rows..][..work.delta_rows],
                    gradients_of_block,
                    prices_of_block,
                );
            }
            T::add(&converted.prices, &mut exchange.prices);
            if work.panel.is_wide && slot == 0 {
                let steps = work.panel.steps.min(work.horizon - 1 - index);
                let chunks = index * work.blocks..(index + steps) * work.blocks;
                add_panel::<S, B>(
                    simd,
                    (&work.tape, work.tape_rows),
                    (&work.deltas, work.delta_rows),
                    chunks,
                    &mut work.layers,
                    &mut work.panel.transposed,
                    self.gradient,
                );
            }
        }
        Ok(())
    }

    /// The gradients of all weights.
    #[inline(always)]
    fn contract<S: Lanes<Real = T>, const B: usize>(&mut self, simd: S) {
        let work = &*self.workspace;
        let (tape, deltas) = (rows::<S, B>(&work.tape), rows::<S, B>(&work.deltas));
        let mut rest = &mut *self.gradient;
        for layer in &work.layers {
            let (matrix, after) = rest.split_at_mut(layer.inputs * layer.outputs);
            let (bias, after) = after.split_at_mut(layer.outputs);
            let x = Rows {
                table: tape,
                stride: work.tape_rows,
                first: layer.first_input,
            };
            let y = Rows {
                table: deltas,
                stride: work.delta_rows,
                first: layer.first_delta,
            };
            contraction::<S, B, false>(simd, &x, &y, matrix, bias);
            rest = after;
        }
    }

    /// Puts the sums of a wide network's hidden layers where they belong.
    #[inline(always)]
    fn collect<S: Lanes<Real = T>>(&mut self) {
        let mut rest = &mut *self.gradient;
        for layer in &self.workspace.layers {
            let (matrix, after) = rest.split_at_mut(layer.inputs * layer.outputs);
            if !layer.sums.is_empty() {
                untile::<S>(&layer.sums, layer.outputs, matrix);
            }
            rest = &mut after[layer.outputs..];
        }
    }
}

/// Adds the steps of a panel, which are some blocks of the tape and the first of the deltas, to the gradients of all weights.
#[inline(always)]
fn add_panel<S: Lanes, const B: usize>(
    simd: S,
    (tape, tape_rows): (&[S::Real], usize),
    (deltas, delta_rows): (&[S::Real], usize),
    blocks: Range<usize>,
    layers: &mut [Layer<S::Real>],
    transposed: &mut [S::Real],
    gradient: &mut [f64],
) {
    let of_block = B * S::COUNT;
    let count = blocks.len();
    let tape = &tape[blocks.start * tape_rows * of_block..blocks.end * tape_rows * of_block];
    let deltas = &deltas[..count * delta_rows * of_block];
    let mut rest = gradient;
    for layer in layers {
        let (matrix, after) = rest.split_at_mut(layer.inputs * layer.outputs);
        let (bias, after) = after.split_at_mut(layer.outputs);
        rest = after;
        if layer.sums.is_empty() {
            let x = Rows {
                table: rows::<S, B>(tape),
                stride: tape_rows,
                first: layer.first_input,
            };
            let y = Rows {
                table: rows::<S, B>(deltas),
                stride: delta_rows,
                first: layer.first_delta,
            };
            contraction::<S, B, true>(simd, &x, &y, matrix, bias);
            continue;
        }
        let y = deltas.chunks_exact(delta_rows * of_block).map(|block| {
            let first = layer.first_delta * of_block;
            &block[first..first + layer.outputs * of_block]
        });
        transpose::<S, B>(y, layer.outputs, count, transposed, bias);
        let x = Blocks {
            table: tape,
            stride: tape_rows * of_block,
            first: layer.first_input * of_block,
        };
        panel::<S, B>(
            simd,
            &x,
            transposed,
            (layer.inputs, layer.outputs, count),
            &mut layer.sums,
        );
    }
}

/// The layer that decides.
fn layer_of<'a>(solver: &'a mut dyn Differentiate, guard: &'a mut Option<&mut GuardedLayer>) -> LayerMut<'a> {
    match guard {
        Some(guard) => LayerMut::Guarded(guard),
        None => LayerMut::Plain(solver),
    }
}

/// The network of a minibatch, for one block at one step.
#[derive(Clone, Copy)]
struct Network<'a, T> {
    model: &'a Model,
    /// All layers but the last, and the last.
    hidden: &'a [Layer<T>],
    output: &'a Layer<T>,
    normalisation: &'a [(f64, f64)],
}

impl<'a, T: Real> Network<'a, T> {
    #[inline(always)]
    fn new(model: &'a Model, layers: &'a [Layer<T>], normalisation: &'a [(f64, f64)]) -> Self {
        let last = layers.len() - 1;
        Self {
            model,
            hidden: &layers[..last],
            output: &layers[last],
            normalisation,
        }
    }

    /// From the budgets to the prices.
    #[inline(always)]
    fn price<S: Lanes<Real = T>, const B: usize>(
        &self,
        simd: S,
        steps_left: usize,
        tape: &mut [Row<S, B>],
        budgets: &[Row<S, B>],
        prices: &mut [Row<S, B>],
    ) {
        let Self {
            model,
            hidden,
            output,
            normalisation,
        } = *self;
        let (spec, statistics) = (&model.spec, &model.statistics);
        let m = budgets.len();
        let zero = simd.constant(0.0);
        for j in 0..budget_features(spec) {
            let (slope, offset) = budget_feature(normalisation[j], m, j, steps_left);
            let (slope, offset) = (simd.constant(slope), simd.constant(offset));
            let budget = &budgets[if j < m { j } else { j - m }];
            for v in 0..B {
                tape[j][v] = simd.mul_add(slope, budget[v], offset);
            }
        }
        let features = hidden.first().unwrap_or(output).inputs;
        let (mut input, mut rest) = tape.split_at_mut(features);
        for layer in hidden {
            let (out, after) = rest.split_at_mut(layer.outputs);
            product::<S, B, 3, _>(
                simd,
                &layer.forward,
                input,
                layer.bias(&model.parameters),
                out,
                |bias| simd.splat(*bias),
                |sum, _, _| simd.max(sum, zero),
            );
            (input, rest) = (out, after);
        }
        let (slopes, rest) = rest.split_at_mut(m);
        let (budget_slopes, bases) = rest.split_at_mut(m);
        for i in 0..m {
            let weights = &output.forward[i * output.inputs..][..output.inputs];
            let bias = output.bias(&model.parameters)[i];
            let z = column::<S, B>(simd, weights, bias, input);
            let (value, slope) = outputs::<S, B>(simd, spec.output, &z);
            match spec.form {
                PriceBase::Plain => {
                    let base = simd.constant(statistics.multiplier_scale[i]);
                    for v in 0..B {
                        prices[i][v] = simd.mul(base, value[v]);
                        slopes[i][v] = simd.mul(base, slope[v]);
                    }
                }
                PriceBase::Residual => {
                    let (_, least) = base_constants(statistics, i);
                    let (least, one) = (simd.constant(least), simd.constant(1.0));
                    for v in 0..B {
                        let b = budgets[i][v];
                        let inverse = simd.div(one, simd.max(b, least));
                        let base = simd.mul(bases[i][v], inverse);
                        let price = simd.mul(base, value[v]);
                        let falling = simd.neg(simd.mul(price, inverse));
                        prices[i][v] = price;
                        slopes[i][v] = simd.mul(base, slope[v]);
                        budget_slopes[i][v] = simd.select(simd.greater_than(b, least), falling, zero);
                    }
                }
            }
        }
    }

    /// From the gradient in the prices to the gradient in the budgets, by way of all deltas.
    #[inline(always)]
    fn unprice<S: Lanes<Real = T>, const B: usize>(
        &self,
        simd: S,
        steps_left: usize,
        tape: &[Row<S, B>],
        deltas: &mut [Row<S, B>],
        gradients: &[Row<S, B>],
        prices: &mut [Row<S, B>],
    ) {
        let Self {
            model,
            hidden,
            output,
            normalisation,
        } = *self;
        let m = prices.len();
        let zero = simd.constant(0.0);
        let (inputs, slopes) = tape.split_at(tape.len() - 3 * m);
        let (mut upper_deltas, mut rest) = deltas.split_at_mut(m);
        for i in 0..m {
            for v in 0..B {
                upper_deltas[i][v] = simd.mul(gradients[i][v], slopes[i][v]);
            }
            if model.spec.form == PriceBase::Residual {
                let budget_slopes = &slopes[m + i];
                for v in 0..B {
                    prices[i][v] = simd.mul_add(gradients[i][v], budget_slopes[v], prices[i][v]);
                }
            }
        }
        let mut upper = output;
        for lower in hidden.iter().rev() {
            let (lower_deltas, after) = rest.split_at_mut(lower.outputs);
            product::<S, B, 1, _>(
                simd,
                &upper.backward,
                upper_deltas,
                &inputs[upper.first_input..][..upper.inputs],
                lower_deltas,
                |_| zero,
                |sum, outcome, v| {
                    let active = simd.greater_than(outcome[v], zero);
                    simd.select(active, sum, zero)
                },
            );
            (upper, upper_deltas, rest) = (lower, lower_deltas, after);
        }
        for j in 0..budget_features(&model.spec) {
            let weights = &upper.backward[j * upper.outputs..][..upper.outputs];
            let delta = column::<S, B>(simd, weights, T::default(), upper_deltas);
            let (slope, _) = budget_feature(normalisation[j], m, j, steps_left);
            let slope = simd.constant(slope);
            let price = &mut prices[if j < m { j } else { j - m }];
            for v in 0..B {
                price[v] = simd.mul_add(slope, delta[v], price[v]);
            }
        }
    }
}

/// Writes the columns of a matrix one after the other.
#[inline(always)]
fn columns_of<T: Real>(matrix: &[f64], columns: usize, out: &mut [T]) {
    let rows = matrix.len() / columns;
    for (j, out) in out.chunks_exact_mut(rows).enumerate() {
        for (out, row) in out.iter_mut().zip(matrix.chunks_exact(columns)) {
            *out = T::of(row[j]);
        }
    }
}

/// The output function of one row, and its derivative.
#[inline(always)]
fn outputs<S: Lanes, const B: usize>(simd: S, output: Output, z: &Row<S, B>) -> (Row<S, B>, Row<S, B>) {
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
        Output::Rectified => {
            for v in 0..B {
                (values[v], slopes[v]) = Output::Rectified.apply(simd, z[v]);
            }
        }
    }
    (values, slopes)
}
