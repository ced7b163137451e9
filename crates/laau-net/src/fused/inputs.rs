//! What the networks of a minibatch see.

use super::aligned::Aligned;
use crate::features::{LaneReader, base_constants, budget_features, normalisation, share_left};
use crate::model::Model;
use crate::spec::{Features, Form, ModelSpec};

/// What a minibatch's networks see before any budget is known, for all steps that are priced (all but the last).
///
/// Lanes are the episodes of the batch, then padding; they come in blocks of `width`, and a table is `step × block × row ×
/// lane of the block`.
#[derive(Debug, Clone)]
pub(super) struct BatchInputs {
    /// A row per feature. The rows of the budget features, the first ones, are left as they are: they are
    /// [`crate::features::budget_feature`]s of budgets not yet known.
    pub(super) features: Aligned,
    /// Of the residual form, a row per budget: the base of the price before its division by `max(b, least)`.
    pub(super) bases: Aligned,
    horizon: usize,
    width: usize,
    /// Of each feature.
    normalisation: Vec<(f64, f64)>,
    readers: Vec<LaneReader<LANES>>,
}

/// Lanes that are read side by side; a block is a multiple of it.
pub(super) const LANES: usize = 4;

impl BatchInputs {
    /// Room for a number of lanes.
    pub(super) fn new(spec: &ModelSpec, horizon: usize, lanes: usize, width: usize) -> Self {
        let size = (horizon - 1) * lanes;
        Self {
            features: Aligned::zeros(spec.feature_len() * size),
            bases: Aligned::zeros(spec.dimensions.budgets * size),
            horizon,
            width,
            normalisation: vec![(0.0, 0.0); spec.feature_len()],
            readers: vec![LaneReader::default(); lanes / LANES],
        }
    }

    /// Fills both tables from the contexts of all lanes, `step × lane × entry`.
    #[inline(always)]
    pub(super) fn fill(&mut self, model: &Model, contexts: &[f64]) {
        let (spec, statistics) = (&model.spec, &model.statistics);
        let context_len = spec.dimensions.context;
        let (horizon, width) = (self.horizon, self.width);
        for (j, out) in self.normalisation.iter_mut().enumerate() {
            *out = normalisation(statistics, j);
        }
        let blocks = self.readers.len() * LANES / width;
        let first = budget_features(spec);
        let feature_blocks = self.features.chunks_exact_mut(spec.feature_len() * width);
        let context_blocks = contexts.chunks_exact(context_len * width);
        for (index, (features, contexts)) in feature_blocks.zip(context_blocks).enumerate() {
            let step = index / blocks;
            let mut rows = features
                .chunks_exact_mut(width)
                .zip(&self.normalisation)
                .skip(first);
            for (entry, (row, (slope, offset))) in rows.by_ref().take(context_len).enumerate() {
                if context_len == 1 {
                    for (out, value) in row.iter_mut().zip(contexts) {
                        *out = value * slope + offset;
                    }
                } else {
                    for (out, context) in row.iter_mut().zip(contexts.chunks_exact(context_len)) {
                        *out = context[entry] * slope + offset;
                    }
                }
            }
            if let Some((row, (slope, offset))) = rows.next() {
                row.fill(share_left(horizon - 1 - step, horizon) * slope + offset);
            }
        }
        if spec.features == Features::History || spec.form == Form::Residual {
            self.fill_from_history(model, contexts);
        }
    }

    /// The part that looks back at the contexts so far.
    #[inline(always)]
    fn fill_from_history(&mut self, model: &Model, contexts: &[f64]) {
        let (spec, statistics) = (&model.spec, &model.statistics);
        let (budgets, context_len) = (spec.dimensions.budgets, spec.dimensions.context);
        let (horizon, width) = (self.horizon, self.width);
        for reader in &mut self.readers {
            reader.reset(context_len);
        }
        let per_block = width / LANES;
        let blocks = self.readers.len() / per_block;
        let feature_blocks = self.features.chunks_exact_mut(spec.feature_len() * width);
        let base_blocks = self.bases.chunks_exact_mut(budgets * width);
        let context_blocks = contexts.chunks_exact(context_len * width);
        for (index, ((features, bases), contexts)) in
            feature_blocks.zip(base_blocks).zip(context_blocks).enumerate()
        {
            let (step, block) = (index / blocks, index % blocks);
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
