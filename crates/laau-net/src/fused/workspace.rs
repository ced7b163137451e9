//! The memory of a minibatch.

use std::ops::Range;

use laau_core::{Differentiate, Dimensions, Error as CoreError, Status};

use super::aligned::Aligned;
use super::closed::ClosedSteps;
use super::general::GeneralSteps;
use super::inputs::{BatchInputs, LANES};
use crate::error::Error;
use crate::features::budget_features;
use crate::spec::ModelSpec;

/// Everything that a minibatch of one size needs, allocated once.
///
/// Tables of the network are `step × block × row × lane` over the priced steps, all rows of a step side by side; tables between
/// network and layer are `block × budget × lane`. Contexts are `step × lane × entry` over all steps. The lanes after the batch,
/// the padding, repeat its last episode.
pub(super) struct Workspace {
    pub(super) horizon: usize,
    pub(super) batch: usize,
    /// Lanes per block.
    pub(super) width: usize,
    pub(super) blocks: usize,
    pub(super) layers: Vec<Layer>,
    /// What the way back needs of each step. Its rows: the features, the outputs of all hidden layers after their rectifiers,
    /// and a row per budget of `dλ/dz`, of `dλ/db`, and of the bases of a residual price before their division by the budget.
    pub(super) tape: Aligned,
    pub(super) tape_rows: usize,
    /// The gradients in the outputs of all layers before their rectifiers, those of the last layer first.
    pub(super) deltas: Aligned,
    pub(super) delta_rows: usize,
    pub(super) inputs: BatchInputs,
    pub(super) contexts: Aligned,
    pub(super) limits: Limits,
    pub(super) exchange: Exchange,
    /// If the layer is a formula.
    pub(super) closed: Option<ClosedSteps>,
    pub(super) general: GeneralSteps,
}

/// What the steps must leave: the reserve after each, and what even the least action uses.
pub(super) struct Limits {
    reserves: Vec<f64>,
    least: Vec<f64>,
}

/// A step as a layer sees it.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) index: usize,
    /// Of all lanes.
    pub(super) contexts: &'a [f64],
    pub(super) reserve: &'a [f64],
    pub(super) least: &'a [f64],
}

impl<'a> Step<'a> {
    #[inline(always)]
    pub(super) fn new(
        index: usize,
        dimensions: Dimensions,
        lanes: usize,
        contexts: &'a [f64],
        limits: &'a Limits,
    ) -> Self {
        let Dimensions {
            budgets: m, context, ..
        } = dimensions;
        Self {
            index,
            contexts: &contexts[index * lanes * context..][..lanes * context],
            reserve: &limits.reserves[index * m..][..m],
            least: &limits.least,
        }
    }

    pub(super) fn unsolved(&self, status: Status) -> Error {
        Error::Core(CoreError::Unsolved {
            step: self.index,
            status,
        })
    }
}

/// What network and layer give each other at a step.
pub(super) struct Exchange {
    /// `b`.
    pub(super) remaining: Aligned,
    /// The prices `λ`; on the way back `dL/dλ`.
    pub(super) multipliers: Aligned,
    /// `p = dL/db`.
    pub(super) prices: Aligned,
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
    /// The first of its inputs on the tape.
    pub(super) first_input: usize,
    /// The first of its deltas.
    pub(super) first_delta: usize,
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
        let sizes = spec.layers();
        let delta_rows = sizes.iter().map(|(_, outputs)| outputs).sum();
        let (mut start, mut tape_rows, mut first_delta) = (0, 0, delta_rows);
        let mut layers = Vec::new();
        for (index, (inputs, outputs)) in sizes.into_iter().enumerate() {
            let weights = inputs * outputs;
            first_delta -= outputs;
            layers.push(Layer {
                inputs,
                outputs,
                matrix: start..start + weights,
                bias: start + weights..start + weights + outputs,
                forward: Aligned::zeros(weights),
                backward: Aligned::zeros(match index {
                    0 => budget_features(spec) * outputs,
                    _ => weights,
                }),
                first_input: tape_rows,
                first_delta,
            });
            start += weights + outputs;
            tape_rows += inputs;
        }
        let first_base = tape_rows + 2 * m;
        tape_rows += 3 * m;
        let problem = solver.problem();
        let mut reserves = vec![0.0; horizon * m];
        for (step, reserve) in reserves.chunks_exact_mut(m).enumerate() {
            problem.reserve(horizon - 1 - step, reserve);
        }
        let mut least = vec![0.0; m];
        problem.least_usage(&mut least);
        let closed = solver.closed_form().is_some() && d == 1 && m == 1;
        Self {
            horizon,
            batch,
            width,
            blocks,
            layers,
            inputs: BatchInputs::new(spec, horizon, lanes, width, (tape_rows, first_base)),
            tape: table(tape_rows),
            tape_rows,
            deltas: table(delta_rows),
            delta_rows,
            contexts: Aligned::zeros(horizon * lanes * context),
            exchange: Exchange {
                remaining: Aligned::zeros(m * lanes),
                multipliers: Aligned::zeros(m * lanes),
                prices: Aligned::zeros(m * lanes),
            },
            limits: Limits { reserves, least },
            closed: closed.then(|| ClosedSteps::new(context, horizon, batch, lanes)),
            general: GeneralSteps::new(dimensions, horizon, batch, width),
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

#[cfg(test)]
mod tests {
    use super::*;

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
