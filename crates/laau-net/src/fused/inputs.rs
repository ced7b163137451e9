//! What the networks of a minibatch see.

use crate::features::{LaneReader, base_constants, budget_features, budget_normalisation, share_left};
use crate::lanes::Real;
use crate::model::Model;
use crate::spec::{Features, ModelSpec, PriceBase};

/// Writes what a minibatch's networks see before any budget is known, for all steps that are priced (all but the last).
///
/// Lanes are the episodes of the batch, then padding; they come in blocks of `width`. The tape is `step × block × row × lane of
/// the block`. Its first rows are the features; those of the budgets, the very first, are left as they are: they are
/// [`crate::features::budget_feature`]s of budgets not yet known. The rows of the bases are those of the residual form.
#[derive(Debug, Clone)]
pub(super) struct BatchInputs {
    horizon: usize,
    width: usize,
    tape_rows: usize,
    first_base: usize,
    /// What each raw feature is multiplied with, and what is added then.
    pub(super) normalisation: Vec<(f64, f64)>,
    /// That of the share of steps left, as it stands on the tape: it is the same in every minibatch.
    written_share: Option<(f64, f64)>,
    readers: Vec<LaneReader<LANES>>,
}

/// Lanes that are read side by side; a block is a multiple of it.
pub(super) const LANES: usize = 4;

impl BatchInputs {
    /// Room for a number of lanes, and the tape's rows: how many, and the first of the bases.
    pub(super) fn new(
        spec: &ModelSpec,
        horizon: usize,
        lanes: usize,
        width: usize,
        (tape_rows, first_base): (usize, usize),
    ) -> Self {
        Self {
            horizon,
            width,
            tape_rows,
            first_base,
            normalisation: vec![(0.0, 0.0); spec.feature_len()],
            written_share: None,
            readers: vec![LaneReader::default(); lanes / LANES],
        }
    }

    /// Fills the tape from the contexts of all lanes, `step × lane × entry`.
    #[inline(always)]
    pub(super) fn fill<T: Real>(&mut self, model: &Model, contexts: &[f64], tape: &mut [T]) {
        let (spec, statistics) = (&model.spec, &model.statistics);
        for (j, out) in self.normalisation.iter_mut().enumerate() {
            *out = budget_normalisation(spec, statistics, j, self.horizon);
        }
        if self.horizon == 1 {
            return;
        }
        let (width, context_len) = (self.width, spec.dimensions.context);
        let first = budget_features(spec);
        let of_contexts = &self.normalisation[first..first + context_len];
        let stride = self.tape_rows * width;
        // From the first row of contexts on, which is a feature: the last chunk is shorter, but has those.
        let mut blocks = tape[first * width..].chunks_mut(stride);
        if let [(slope, offset)] = *of_contexts {
            for (rows, contexts) in blocks.zip(contexts.chunks_exact(width)) {
                for (out, value) in rows.iter_mut().zip(contexts) {
                    *out = T::of(value * slope + offset);
                }
            }
        } else {
            for contexts in contexts.chunks_exact(width * context_len) {
                let Some(rows) = blocks.next() else { break };
                for (entry, (slope, offset)) in of_contexts.iter().enumerate() {
                    let row = &mut rows[entry * width..][..width];
                    for (out, context) in row.iter_mut().zip(contexts.chunks_exact(context_len)) {
                        *out = T::of(context[entry] * slope + offset);
                    }
                }
            }
        }
        let of_share = self.normalisation[first + context_len];
        if self.written_share != Some(of_share) {
            self.written_share = Some(of_share);
            self.fill_shares((first + context_len) * width, of_share, tape);
        }
        if spec.features == Features::History || spec.form == PriceBase::Residual {
            self.fill_from_history(model, contexts, tape);
        }
    }

    /// The share of steps left, in every block of each step at the given place.
    #[cold]
    fn fill_shares<T: Real>(&self, place: usize, (slope, offset): (f64, f64), tape: &mut [T]) {
        let blocks = self.readers.len() * LANES / self.width;
        for (index, rows) in tape.chunks_exact_mut(self.tape_rows * self.width).enumerate() {
            let steps_left = self.horizon - 1 - index / blocks;
            rows[place..][..self.width].fill(T::of(share_left(steps_left, self.horizon) * slope + offset));
        }
    }

    /// The part that looks back at the contexts so far.
    #[inline(always)]
    fn fill_from_history<T: Real>(&mut self, model: &Model, contexts: &[f64], tape: &mut [T]) {
        let (spec, statistics) = (&model.spec, &model.statistics);
        let (budgets, context_len) = (spec.dimensions.budgets, spec.dimensions.context);
        let (horizon, width) = (self.horizon, self.width);
        for reader in &mut self.readers {
            reader.reset(context_len);
        }
        let per_block = width / LANES;
        let blocks = self.readers.len() / per_block;
        let tape_blocks = tape.chunks_exact_mut(self.tape_rows * width);
        let context_blocks = contexts.chunks_exact(context_len * width);
        for (index, (rows, contexts)) in tape_blocks.zip(context_blocks).enumerate() {
            let (step, block) = (index / blocks, index % blocks);
            let (features, bases) = rows.split_at_mut(self.first_base * width);
            for part in 0..per_block {
                let reader = &mut self.readers[block * per_block + part];
                let contexts = &contexts[part * LANES * context_len..][..LANES * context_len];
                reader.push(spec, statistics, |entry: usize| {
                    std::array::from_fn(|i| contexts[i * context_len + entry])
                });
                reader.history(spec, |index, values| {
                    let (slope, offset) = self.normalisation[index];
                    let out = &mut features[index * width + part * LANES..][..LANES];
                    for i in 0..LANES {
                        out[i] = T::of(values[i] * slope + offset);
                    }
                });
                if spec.form == PriceBase::Residual {
                    let level = reader.level_to_come(statistics, horizon - 1 - step);
                    for m in 0..budgets {
                        let (constant, _) = base_constants(statistics, m);
                        let out = &mut bases[m * width + part * LANES..][..LANES];
                        for i in 0..LANES {
                            out[i] = T::of(constant * level[i]);
                        }
                    }
                }
            }
        }
    }
}
