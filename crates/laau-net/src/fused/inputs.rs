//! What the networks of a minibatch see.

use crate::features::{LaneReader, base_constants, budget_features, normalisation, share_left};
use crate::model::Model;
use crate::spec::{Features, Form, ModelSpec};

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
            readers: vec![LaneReader::default(); lanes / LANES],
        }
    }

    /// Fills the tape from the contexts of all lanes, `step × lane × entry`.
    #[inline(always)]
    pub(super) fn fill(&mut self, model: &Model, contexts: &[f64], tape: &mut [f64]) {
        let (spec, statistics) = (&model.spec, &model.statistics);
        for (j, out) in self.normalisation.iter_mut().enumerate() {
            *out = normalisation(statistics, j);
        }
        let (horizon, width, context_len) = (self.horizon, self.width, spec.dimensions.context);
        let blocks = self.readers.len() * LANES / width;
        let first = budget_features(spec);
        let of_contexts = &self.normalisation[first..first + context_len];
        let of_share = self.normalisation[first + context_len];
        let mut at = 0;
        for step in 0..horizon - 1 {
            let share = share_left(horizon - 1 - step, horizon) * of_share.0 + of_share.1;
            for _ in 0..blocks {
                let rows = &mut tape[(at * self.tape_rows + first) * width..][..(context_len + 1) * width];
                let contexts = &contexts[at * width * context_len..][..width * context_len];
                let (entries, of_share) = rows.split_at_mut(context_len * width);
                if let [(slope, offset)] = *of_contexts {
                    for (out, value) in entries.iter_mut().zip(contexts) {
                        *out = value * slope + offset;
                    }
                } else {
                    for (entry, (slope, offset)) in of_contexts.iter().enumerate() {
                        let row = &mut entries[entry * width..][..width];
                        for (out, context) in row.iter_mut().zip(contexts.chunks_exact(context_len)) {
                            *out = context[entry] * slope + offset;
                        }
                    }
                }
                of_share.fill(share);
                at += 1;
            }
        }
        if spec.features == Features::History || spec.form == Form::Residual {
            self.fill_from_history(model, contexts, tape);
        }
    }

    /// The part that looks back at the contexts so far.
    #[inline(always)]
    fn fill_from_history(&mut self, model: &Model, contexts: &[f64], tape: &mut [f64]) {
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
                        out[i] = values[i] * slope + offset;
                    }
                });
                if spec.form == Form::Residual {
                    let level = reader.level_to_come(statistics, horizon - 1 - step);
                    for m in 0..budgets {
                        let (constant, _) = base_constants(statistics, m);
                        let out = &mut bases[m * width + part * LANES..][..LANES];
                        for i in 0..LANES {
                            out[i] = constant * level[i];
                        }
                    }
                }
            }
        }
    }
}
