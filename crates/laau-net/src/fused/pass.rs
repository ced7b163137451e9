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
    Differentiate, Dimensions, Episodes, Error as CoreError, Exactness, GradientCounts, Queries,
};
use pulp::{Simd, WithSimd};

use super::kernel::{Row, column, contraction, masked_product, pack, partial_row, product, rows, rows_mut};
use super::workspace::{Workspace, from_lanes, to_lanes};
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
        self.prepare::<S, B>();
        let cost = self.forward::<S, B>(simd)?;
        let counts = self.backward::<S, B>(simd)?;
        self.contract::<S, B>(simd);
        let steps = (self.workspace.batch * self.workspace.horizon) as f64;
        Ok(BatchResult {
            loss: cost / steps,
            counts,
        })
    }

    /// Everything that does not depend on the actions.
    #[inline(always)]
    fn prepare<S: Simd, const B: usize>(&mut self) {
        let work = &mut *self.workspace;
        let Dimensions {
            budgets: m, context, ..
        } = self.model.spec.dimensions;
        let stride = work.batch * context;
        for (row, &index) in self.batch.iter().enumerate() {
            let episode = self.episodes.get(index);
            let contexts = work.contexts.chunks_exact_mut(stride);
            if context == 1 {
                for (value, out) in episode.contexts().iter().zip(contexts) {
                    out[row] = *value;
                }
            } else {
                for (values, out) in episode.contexts().chunks_exact(context).zip(contexts) {
                    out[row * context..][..context].copy_from_slice(values);
                }
            }
            work.rows[row * m..][..m].copy_from_slice(episode.budgets());
        }
        to_lanes(
            &work.rows[..self.batch.len() * m],
            m,
            work.width,
            &mut work.remaining,
        );
        // From here on the padding uses nothing.
        work.rows.fill(0.0);
        work.inputs.fill(self.model, &work.contexts, work.batch);
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

    /// Plays all steps; returns the total cost.
    #[inline(always)]
    fn forward<S: Simd, const B: usize>(&mut self, simd: S) -> Result<f64, Error> {
        let Dimensions {
            budgets: m, context, ..
        } = self.model.spec.dimensions;
        let mut total = 0.0;
        for step in 0..self.workspace.horizon {
            if step + 1 < self.workspace.horizon {
                self.price::<S, B>(simd, step);
            }
            let work = &mut *self.workspace;
            let rows = work.batch * m;
            let lanes = work.remaining.len();
            let multipliers = &mut work.multipliers[step * lanes..][..rows];
            let reserve = &work.reserves[step * m..][..m];
            // Plain floats may fall short of the least usage by a last bit; only a ledger is exact.
            if m == 1 {
                let reserve = simd.splat_f64s(reserve[0]);
                let least = simd.splat_f64s(work.least[0]);
                let available = S::as_mut_simd_f64s(&mut work.available[step * lanes..][..lanes]).0;
                for (out, b) in available.iter_mut().zip(S::as_simd_f64s(&work.remaining).0) {
                    *out = simd.max_f64s(simd.sub_f64s(*b, reserve), least);
                }
            } else {
                if step + 1 < work.horizon {
                    from_lanes(&work.passed, m, work.width, multipliers);
                    // The padding uses nothing.
                    work.passed.fill(0.0);
                }
                let available = &mut work.available[step * lanes..][..rows];
                from_lanes(&work.remaining, m, work.width, available);
                for available in available.chunks_exact_mut(m) {
                    for i in 0..m {
                        available[i] = (available[i] - reserve[i]).max(work.least[i]);
                    }
                }
            }
            let contexts = &work.contexts[step * work.batch * context..][..work.batch * context];
            let solutions = &mut work.solutions[step];
            self.solver.solve_batch(
                Queries {
                    contexts,
                    multipliers,
                    remaining: &work.available[step * lanes..][..rows],
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
            problem.usage_batch(solutions.actions(), contexts, &mut work.rows[..rows]);
            let usage = if m == 1 {
                &work.rows
            } else {
                to_lanes(&work.rows[..rows], m, work.width, &mut work.passed);
                &work.passed
            };
            let usage = S::as_simd_f64s(usage).0;
            for (b, used) in S::as_mut_simd_f64s(&mut work.remaining).0.iter_mut().zip(usage) {
                *b = simd.sub_f64s(*b, *used);
            }
        }
        Ok(total)
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
            let remaining = &work.remaining[block * m * width..][..m * width];
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
                product::<S, B>(
                    simd,
                    &layer.forward,
                    &model.parameters[layer.bias.clone()],
                    rows::<S, B>(input),
                    rows_mut::<S, B>(out),
                    |sum| simd.max_f64s(sum, zero),
                );
                input = out;
            }
            let output = &output[0];
            let input = rows::<S, B>(input);
            let size = m * width;
            // With one budget, straight to where the layer reads them.
            let prices = if m == 1 {
                &mut work.multipliers[at * width..][..width]
            } else {
                &mut work.passed[block * size..][..size]
            };
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
    fn backward<S: Simd, const B: usize>(&mut self, simd: S) -> Result<GradientCounts, Error> {
        let Dimensions {
            budgets: m, context, ..
        } = self.model.spec.dimensions;
        let mut counts = GradientCounts::default();
        let scale = 1.0 / (self.workspace.batch * self.workspace.horizon) as f64;
        self.workspace.prices.fill(0.0);
        // What the forward pass left in the padding must not reach the weights.
        self.workspace.passed.fill(0.0);
        for step in (0..self.workspace.horizon).rev() {
            let work = &mut *self.workspace;
            let rows = work.batch * m;
            let lanes = work.remaining.len();
            let solutions = &work.solutions[step];
            let contexts = &work.contexts[step * work.batch * context..][..work.batch * context];
            let prices = if m == 1 {
                &work.prices[..rows]
            } else {
                from_lanes(&work.prices, m, work.width, &mut work.rows[..rows]);
                &work.rows[..rows]
            };
            self.solver.problem().step_pullback_batch(
                solutions.actions(),
                contexts,
                prices,
                scale,
                &mut work.jacobian,
                &mut work.upstream,
            );
            let queries = Queries {
                contexts,
                multipliers: &work.multipliers[step * lanes..][..rows],
                remaining: &work.available[step * lanes..][..rows],
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
            counts.approximate += (work.batch - exact) as u64;
            if m == 1 {
                let (width, gradient) = (work.width, &work.gradients.remaining);
                for (block, price) in rows_mut::<S, B>(&mut work.prices).iter_mut().enumerate() {
                    let gradient = partial_row::<S, B>(simd, &gradient[block * width..]);
                    for v in 0..B {
                        price[v] = simd.add_f64s(price[v], gradient[v]);
                    }
                }
            } else {
                to_lanes(&work.gradients.remaining, m, work.width, &mut work.passed);
                for (price, gradient) in work.prices.iter_mut().zip(&*work.passed) {
                    *price += gradient;
                }
            }
            if step + 1 < work.horizon {
                if m > 1 {
                    to_lanes(&work.gradients.multipliers, m, work.width, &mut work.passed);
                }
                self.unprice::<S, B>(simd, step);
            }
        }
        Ok(counts)
    }

    /// From the gradient in the prices of one step to the gradient in its budgets.
    #[inline(always)]
    fn unprice<S: Simd, const B: usize>(&mut self, simd: S, step: usize) {
        let work = &mut *self.workspace;
        let (spec, statistics) = (&self.model.spec, &self.model.statistics);
        let (m, width, blocks) = (spec.dimensions.budgets, work.width, work.blocks);
        let steps_left = work.horizon - 1 - step;
        let last = work.layers.len() - 1;
        for block in 0..blocks {
            let at = step * blocks + block;
            let size = m * width;
            let slopes = rows::<S, B>(&work.slopes[at * size..][..size]);
            let budget_slopes = rows::<S, B>(&work.budget_slopes[at * size..][..size]);
            let prices = rows_mut::<S, B>(&mut work.prices[block * size..][..size]);
            let deltas = rows_mut::<S, B>(&mut work.layers[last].deltas[at * size..][..size]);
            for i in 0..m {
                // With one budget, straight from where the layer wrote it.
                let gradient = if m == 1 {
                    partial_row::<S, B>(simd, &work.gradients.multipliers[block * width..])
                } else {
                    rows::<S, B>(&work.passed)[block * m + i]
                };
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
                masked_product::<S, B>(
                    simd,
                    &upper.backward,
                    rows::<S, B>(&upper.deltas[at * upper_size..][..upper_size]),
                    rows::<S, B>(&lower.outcome[at * size..][..size]),
                    rows_mut::<S, B>(&mut lower.deltas[at * size..][..size]),
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
