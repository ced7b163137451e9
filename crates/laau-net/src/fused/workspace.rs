//! The memory of a minibatch.

use std::ops::Range;

use laau_core::{Differentiate, Dimensions, Gradients, Solutions};

use super::aligned::Aligned;
use super::inputs::{BatchInputs, LANES};
use crate::features::budget_features;
use crate::spec::ModelSpec;

/// Everything that a minibatch of one size needs, allocated once.
///
/// Tables of the network are `step × block × row × lane` over the priced steps, tables between network and layer are `block ×
/// budget × lane`; the layer's own are `step × episode × value` over all steps, as its traits want them. With one budget
/// these two agree, and nothing is moved from one to the other.
pub(super) struct Workspace {
    pub(super) horizon: usize,
    pub(super) batch: usize,
    /// Lanes per block.
    pub(super) width: usize,
    pub(super) blocks: usize,
    pub(super) layers: Vec<Layer>,
    pub(super) inputs: BatchInputs,
    /// `dλ/dz` and `dλ/db`, a row per budget and step.
    pub(super) slopes: Aligned,
    pub(super) budget_slopes: Aligned,
    /// `b` of the current step; `p` of the step after it; what passes between network and layer.
    pub(super) remaining: Aligned,
    pub(super) prices: Aligned,
    pub(super) passed: Aligned,
    pub(super) contexts: Vec<f64>,
    /// Each step with room for padding, and so the rows of the current one.
    pub(super) multipliers: Aligned,
    pub(super) available: Aligned,
    pub(super) rows: Aligned,
    pub(super) reserves: Vec<f64>,
    pub(super) least: Vec<f64>,
    pub(super) solutions: Vec<Solutions>,
    pub(super) gradients: Gradients,
    pub(super) upstream: Vec<f64>,
    pub(super) costs: Vec<f64>,
    pub(super) jacobian: Vec<f64>,
}

/// A dense layer of the network.
pub(super) struct Layer {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// The place of its parameters.
    matrix: Range<usize>,
    pub(super) bias: Range<usize>,
    /// The weights, packed for the product with inputs and with deltas: of the last layer the former by columns, of the
    /// first layer the latter by rows and of the budget features alone.
    pub(super) forward: Aligned,
    pub(super) backward: Aligned,
    /// The outputs at all steps, after their rectifiers.
    pub(super) outcome: Aligned,
    /// The gradient in the outputs, before their rectifiers.
    pub(super) deltas: Aligned,
}

impl Layer {
    #[inline(always)]
    pub(super) fn matrix<'p>(&self, parameters: &'p [f64]) -> &'p [f64] {
        &parameters[self.matrix.clone()]
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
        let width = block_width(batch, vector);
        let blocks = batch.div_ceil(width);
        let lanes = blocks * width;
        let table = |rows: usize| Aligned::zeros((horizon - 1) * rows * lanes);
        let mut start = 0;
        let mut layers = Vec::new();
        for (inputs, outputs) in spec.layers() {
            let weights = inputs * outputs;
            let wanted = if layers.is_empty() {
                budget_features(spec)
            } else {
                inputs
            };
            layers.push(Layer {
                inputs,
                outputs,
                matrix: start..start + weights,
                bias: start + weights..start + weights + outputs,
                forward: Aligned::zeros(weights),
                backward: Aligned::zeros(wanted * outputs),
                outcome: table(outputs),
                deltas: table(outputs),
            });
            start += weights + outputs;
        }
        let problem = solver.problem();
        let mut reserves = vec![0.0; horizon * m];
        for (step, reserve) in reserves.chunks_exact_mut(m).enumerate() {
            problem.reserve(horizon - 1 - step, reserve);
        }
        let mut least = vec![0.0; m];
        problem.least_usage(&mut least);
        // No budget runs out in the padding.
        let mut remaining = Aligned::zeros(m * lanes);
        remaining.fill(1.0);
        Self {
            horizon,
            batch,
            width,
            blocks,
            layers,
            inputs: BatchInputs::new(spec, horizon, lanes, width),
            slopes: table(m),
            budget_slopes: table(m),
            remaining,
            prices: Aligned::zeros(m * lanes),
            passed: Aligned::zeros(m * lanes),
            contexts: vec![0.0; horizon * batch * context],
            multipliers: Aligned::zeros(horizon * lanes * m),
            available: Aligned::zeros(horizon * lanes * m),
            reserves,
            least,
            solutions: (0..horizon).map(|_| Solutions::new(dimensions, batch)).collect(),
            gradients: Gradients::new(dimensions, batch),
            upstream: vec![0.0; batch * d],
            rows: Aligned::zeros(lanes * m),
            costs: vec![0.0; batch],
            jacobian: Vec::new(),
        }
    }

    pub(super) fn fits(&self, horizon: usize, batch: usize) -> bool {
        self.horizon == horizon && self.batch == batch
    }
}

/// Lanes per block, a multiple of [`LANES`]: one to three vectors for a small batch, two for a large one; with short
/// vectors just `LANES`. A block is at most four vectors.
fn block_width(batch: usize, vector: usize) -> usize {
    if vector < LANES {
        return LANES;
    }
    match batch.div_ceil(vector) {
        vectors @ 1..=3 => vectors * vector,
        _ => 2 * vector,
    }
}

/// From `episode × budget` to `block × budget × lane`; the padding is left as it is.
#[inline(always)]
pub(super) fn to_lanes(rows: &[f64], m: usize, width: usize, lanes: &mut [f64]) {
    for (rows, block) in rows.chunks(width * m).zip(lanes.chunks_exact_mut(width * m)) {
        for (k, row) in rows.chunks_exact(m).enumerate() {
            for (i, value) in row.iter().enumerate() {
                block[i * width + k] = *value;
            }
        }
    }
}

/// From `block × budget × lane` to `episode × budget`.
#[inline(always)]
pub(super) fn from_lanes(lanes: &[f64], m: usize, width: usize, rows: &mut [f64]) {
    for (rows, block) in rows.chunks_mut(width * m).zip(lanes.chunks_exact(width * m)) {
        for (k, row) in rows.chunks_exact_mut(m).enumerate() {
            for (i, value) in row.iter_mut().enumerate() {
                *value = block[i * width + k];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_and_rows_are_each_others_inverse() {
        for m in [1, 2, 3] {
            for (batch, width) in [(10_usize, 16), (10, 4), (3, 8)] {
                let rows: Vec<f64> = (0..batch * m).map(|i| i as f64).collect();
                let mut lanes = vec![-1.0; batch.div_ceil(width) * width * m];
                to_lanes(&rows, m, width, &mut lanes);
                assert_eq!(lanes.iter().filter(|v| **v >= 0.0).count(), rows.len());
                let mut back = vec![0.0; rows.len()];
                from_lanes(&lanes, m, width, &mut back);
                assert_eq!(back, rows);
            }
        }
    }

    #[test]
    fn small_batches_are_one_block_and_large_ones_many() {
        let check = |batch: usize, vector, width: usize, blocks: usize| {
            assert_eq!(block_width(batch, vector), width);
            assert_eq!(batch.div_ceil(width), blocks);
        };
        check(10, 8, 16, 1);
        check(10, 4, 12, 1);
        check(1, 8, 8, 1);
        check(24, 8, 24, 1);
        check(25, 8, 16, 2);
        check(100, 4, 8, 13);
        check(10, 2, 4, 3);
        check(10, 1, 4, 3);
    }
}
