//! The memory of a minibatch.

use std::ops::Range;

use laau_core::{Differentiate, Dimensions, Error as CoreError, Status};

use super::aligned::Aligned;
use super::closed::ClosedSteps;
use super::general::GeneralSteps;
use super::inputs::{BatchInputs, LANES};
use crate::error::Error;
use crate::features::budget_features;
use crate::lanes::Real;
use crate::spec::ModelSpec;

/// Everything that a minibatch of one size needs, allocated once.
///
/// Tables of the network are `step × block × row × lane` over the priced steps, all rows of a step side by side; tables between
/// network and layer are `block × budget × lane`. Contexts are `step × lane × entry` over all steps. The lanes after the batch,
/// the padding, repeat its last episode.
pub(super) struct Workspace<T> {
    pub(super) horizon: usize,
    pub(super) batch: usize,
    /// Episodes of the whole minibatch, of which this may be a part.
    whole: usize,
    /// Lanes per block.
    pub(super) width: usize,
    pub(super) blocks: usize,
    pub(super) layers: Vec<Layer<T>>,
    /// What the way back needs of each step. Its rows: the features, the outputs of all hidden layers after their rectifiers,
    /// and a row per budget of `dλ/dz`, of `dλ/db`, and of the bases of a residual price before their division by the budget.
    pub(super) tape: Aligned<T>,
    pub(super) tape_rows: usize,
    /// The gradients in the outputs of all layers before their rectifiers, those of the last layer first, of as many steps as a
    /// panel has.
    pub(super) deltas: Aligned<T>,
    pub(super) delta_rows: usize,
    pub(super) panel: Panel<T>,
    pub(super) inputs: BatchInputs,
    pub(super) contexts: Aligned,
    pub(super) limits: Limits,
    pub(super) exchange: Exchange,
    pub(super) converted: Converted<T>,
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

/// The same as the network has it, where that is not in doubles.
pub(super) struct Converted<T> {
    pub(super) remaining: Aligned<T>,
    pub(super) multipliers: Aligned<T>,
    /// What the network adds to `p`.
    pub(super) prices: Aligned<T>,
}

/// The steps whose weight gradients are contracted together, and room for their deltas the other way round.
pub(super) struct Panel<T> {
    /// All priced steps of a narrow network; of a wide one so few that they stay in the first-level cache.
    pub(super) steps: usize,
    pub(super) is_wide: bool,
    pub(super) transposed: Aligned<T>,
}

/// From this width on, weight gradients are contracted panel by panel: those of a narrow layer fit into a few tiles of
/// registers, which go over all steps at once.
const WIDE: usize = 32;

/// What tables of all steps may take to be contracted at once even so: most of a second-level cache, from which they come fast enough.
const CACHE: usize = 700 << 10;

/// The lanes of a panel, about: enough that sums are seldom fetched and put back.
const PANEL_LANES: usize = 40;

impl<T: Real> Panel<T> {
    fn new(spec: &ModelSpec, horizon: usize, lanes: usize, vector: usize) -> Self {
        let (layers, priced) = (spec.layers(), horizon - 1);
        let is_wide = is_wide(&layers) && lanes * bytes_per_lane::<T>(spec, horizon) > CACHE;
        let steps = if is_wide {
            PANEL_LANES.div_ceil(lanes).min(priced)
        } else {
            priced
        };
        let widest = layers.iter().map(|(_, outputs)| *outputs).max().unwrap_or(0);
        let columns = if is_wide { padded(widest, vector) } else { 0 };
        Self {
            steps: steps.max(1),
            is_wide,
            transposed: Aligned::zeros(steps * lanes * columns),
        }
    }
}

/// Whether weight gradients of large tables are contracted panel by panel.
pub(super) fn is_wide(layers: &[(usize, usize)]) -> bool {
    layers
        .iter()
        .any(|(inputs, outputs)| *inputs.min(outputs) >= WIDE)
}

/// Columns of a transposed table, in whole tiles of two vectors.
fn padded(columns: usize, vector: usize) -> usize {
    columns.next_multiple_of(2 * vector)
}

/// A dense layer of the network.
pub(super) struct Layer<T> {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    /// The place of its parameters.
    matrix: Range<usize>,
    bias: Range<usize>,
    /// The bias, where it is not in doubles.
    converted: Aligned<T>,
    /// The weights, packed for the product with inputs and with deltas: of the last layer the former by columns, of the
    /// first layer the latter by rows and of the budget features alone.
    pub(super) forward: Aligned<T>,
    pub(super) backward: Aligned<T>,
    /// The gradient of a hidden layer of a wide network as its panels add to it, tile after tile of columns.
    pub(super) sums: Aligned<T>,
    /// The first of its inputs on the tape.
    pub(super) first_input: usize,
    /// The first of its deltas.
    pub(super) first_delta: usize,
}

impl<T: Real> Layer<T> {
    #[inline(always)]
    pub(super) fn matrix<'p>(&self, parameters: &'p [f64]) -> &'p [f64] {
        &parameters[self.matrix.clone()]
    }

    /// Takes in a bias for [`Layer::bias`].
    #[inline(always)]
    pub(super) fn convert(&mut self, parameters: &[f64]) {
        T::read(&parameters[self.bias.clone()], &mut self.converted);
    }

    #[inline(always)]
    pub(super) fn bias<'p>(&'p self, parameters: &'p [f64]) -> &'p [T] {
        T::reread(&parameters[self.bias.clone()], &self.converted)
    }
}

impl<T: Real> Workspace<T> {
    pub(super) fn new(
        solver: &dyn Differentiate,
        spec: &ModelSpec,
        horizon: usize,
        (batch, whole): (usize, usize),
        vector: usize,
    ) -> Self {
        let dimensions = spec.dimensions;
        let Dimensions {
            actions: d,
            budgets: m,
            context,
        } = dimensions;
        let width = block_width(batch, vector, is_wide(&spec.layers()));
        let blocks = batch.div_ceil(width);
        let lanes = blocks * width;
        let sizes = spec.layers();
        let panel = Panel::new(spec, horizon, lanes, vector);
        let last = sizes.len() - 1;
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
                converted: Aligned::zeros(T::room(outputs)),
                forward: Aligned::zeros(weights),
                backward: Aligned::zeros(match index {
                    0 => budget_features(spec) * outputs,
                    _ => weights,
                }),
                sums: Aligned::zeros(if panel.is_wide && index < last {
                    inputs * padded(outputs, vector)
                } else {
                    0
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
            whole,
            width,
            blocks,
            layers,
            inputs: BatchInputs::new(spec, horizon, lanes, width, (tape_rows, first_base)),
            tape: Aligned::zeros((horizon - 1) * tape_rows * lanes),
            tape_rows,
            deltas: Aligned::zeros(panel.steps.min(horizon - 1) * delta_rows * lanes),
            delta_rows,
            panel,
            contexts: Aligned::zeros(horizon * lanes * context),
            exchange: Exchange {
                remaining: Aligned::zeros(m * lanes),
                multipliers: Aligned::zeros(m * lanes),
                prices: Aligned::zeros(m * lanes),
            },
            converted: Converted {
                remaining: Aligned::zeros(T::room(m * lanes)),
                multipliers: Aligned::zeros(T::room(m * lanes)),
                prices: Aligned::zeros(T::room(m * lanes)),
            },
            limits: Limits { reserves, least },
            closed: closed.then(|| ClosedSteps::new(context, horizon, (batch, whole), lanes)),
            general: GeneralSteps::new(dimensions, horizon, (batch, whole), width),
        }
    }

    pub(super) fn fits(&self, horizon: usize, batch: usize, whole: usize) -> bool {
        self.horizon == horizon && self.batch == batch && self.whole == whole
    }
}

/// What a lane takes of the tables of all steps.
pub(super) fn bytes_per_lane<T>(spec: &ModelSpec, horizon: usize) -> usize {
    let layers = spec.layers();
    let of_network: usize = layers.iter().map(|(inputs, outputs)| inputs + outputs).sum();
    let of_layer = spec.dimensions.context + 6 * spec.dimensions.actions + 3 * spec.dimensions.budgets;
    horizon * (of_network * size_of::<T>() + of_layer * size_of::<f64>())
}

/// Lanes per block, a multiple of [`LANES`]: one to three vectors for a small batch, two for a large one; for a large one of a wide
/// network three, if that does not take more padding, since its weights come from the second-level cache for every block. With short
/// vectors just `LANES`. A block is at most four vectors.
fn block_width(batch: usize, vector: usize, is_wide: bool) -> usize {
    if vector < LANES {
        return LANES;
    }
    match batch.div_ceil(vector) {
        vectors @ 1..=3 => vectors * vector,
        _ if is_wide && batch.next_multiple_of(3 * vector) <= batch.next_multiple_of(2 * vector) => {
            3 * vector
        }
        _ => 2 * vector,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_batches_are_one_block_and_large_ones_many() {
        let check = |batch: usize, vector, width: usize, blocks: usize| {
            assert_eq!(block_width(batch, vector, false), width);
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
