//! Offline training: the empirical loss over a set of unlabelled episodes.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use laau_core::{
    Differentiate, Episodes, GradientCounts, Policy, Shadow, Task, TrainedOn, Unrolled, utilities,
};
use rand::seq::SliceRandom;
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::checkpoint::{Best, Checkpoint, DataMark};
use super::observer::{BatchProgress, EpochRecord, TrainObserver};
use super::reset_dead_bias::{Dead, reset_dead_bias};
use super::settings::Training;
use super::{NoStep, Stepper, expect_alive};
use crate::engine::{Engine, Precision};
use crate::error::Error;
use crate::file::Summary;
use crate::guarded::ReadyGuard;
use crate::model::Model;
use crate::optimiser::OptimiserState;
use crate::spec::ModelSpec;

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All epochs are done.
    Completed,
    /// The validation utility has not risen for as long as the patience says.
    EarlyStop,
    /// The observer asked for it. A checkpoint, if one was wanted, goes on from here.
    Stopped,
}

/// What a run gave, beside the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Trained {
    /// Why it ended.
    pub ending: Ending,
    /// One record per whole epoch, those before a resumption included.
    pub history: Vec<EpochRecord>,
    /// What goes into the model's file.
    pub summary: Summary,
}

/// Runs checked settings; made by [`Training::check`].
#[derive(Clone)]
pub struct Trainer {
    settings: Training,
    checkpoint: Option<PathBuf>,
    engine: Option<Arc<BuildEngine>>,
    guard: Option<ReadyGuard>,
}

type BuildEngine =
    dyn Fn(&dyn Differentiate, &ModelSpec, usize) -> Result<Box<dyn Engine>, Error> + Send + Sync;

impl fmt::Debug for Trainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trainer")
            .field("settings", &self.settings)
            .field("checkpoint", &self.checkpoint)
            .finish_non_exhaustive()
    }
}

impl Trainer {
    pub(super) fn from_checked(settings: Training) -> Self {
        Self {
            settings,
            checkpoint: None,
            engine: None,
            guard: None,
        }
    }

    /// Trains with another engine than those of [`crate::EngineKind`]: a function of the layer, the model's specification
    /// and the batch size.
    #[must_use]
    pub fn with_engine<F>(mut self, build: F) -> Self
    where
        F: Fn(&dyn Differentiate, &ModelSpec, usize) -> Result<Box<dyn Engine>, Error>
            + Send
            + Sync
            + 'static,
    {
        self.engine = Some(Arc::new(build));
        self
    }

    /// Trains behind a guard: every episode is played, and differentiated, with the limits that a guard of this incumbent and
    /// level puts on it, and what is validated is the guarded policy. The task is that of the layer.
    #[must_use]
    pub fn with_guard(mut self, task: &Task, incumbent: Arc<dyn Policy>, level: f64) -> Self {
        self.guard = Some(ReadyGuard {
            task: task.clone(),
            incumbent,
            level,
        });
        self
    }

    /// Leaves checkpoints in a file.
    #[must_use]
    pub fn with_checkpoint(mut self, path: impl Into<PathBuf>) -> Self {
        self.checkpoint = Some(path.into());
        self
    }

    /// The settings.
    #[must_use]
    pub fn settings(&self) -> &Training {
        &self.settings
    }

    /// Trains a model in place.
    ///
    /// A start whose prices decide nothing on any of the first episodes has no gradient to follow: the biases of its outputs
    /// are set to others, with which it has one, and the observer is told.
    ///
    /// A model of several horizons ([`ModelSpec::horizons`]) sees every minibatch cut to a number of steps of its own, drawn
    /// evenly, with budgets in proportion ([`Episodes::cut`]), and is judged by its mean utility at the fewest, the middle
    /// and the most.
    ///
    /// Whatever happens, the model then holds the best weights seen: those of the epoch with the highest utility on the
    /// validation set; without one, or before the first validation, those of the last whole epoch.
    ///
    /// # Errors
    /// [`Error::Diverged`] when loss, gradient or weights leave the range of numbers, or the loss explodes; otherwise
    /// when model, layer and episodes do not fit each other, or a checkpoint cannot be written.
    pub fn run(
        &self,
        model: &mut Model,
        layer: &dyn Differentiate,
        training: &Episodes,
        validation: Option<&Episodes>,
        observer: &mut dyn TrainObserver,
    ) -> Result<Trained, Error> {
        let shadow = self.shadow(training)?;
        let mut state = Checkpoint {
            settings: self.settings.clone(),
            data: DataMark::new(training, validation, shadow.as_deref()),
            optimiser: OptimiserState::new(self.settings.optimiser, model.parameters.len()),
            model: model.clone(),
            best: None,
            stale: 0,
            history: Vec::new(),
        };
        let trained = self.run_from(&mut state, layer, training, validation, shadow, observer);
        *model = state.best_model();
        trained
    }

    /// Continues from a checkpoint, as if the run had not been interrupted: the result has the same bytes.
    ///
    /// After an error, the best weights are in the checkpoint that was left, if one was wanted.
    ///
    /// # Errors
    /// As [`Trainer::run`], and when the checkpoint is that of other settings or episodes.
    pub fn resume(
        &self,
        mut checkpoint: Checkpoint,
        layer: &dyn Differentiate,
        training: &Episodes,
        validation: Option<&Episodes>,
        observer: &mut dyn TrainObserver,
    ) -> Result<(Model, Trained), Error> {
        let shadow = self.shadow(training)?;
        let data = DataMark::new(training, validation, shadow.as_deref());
        checkpoint.expect(&self.settings, &data)?;
        observer.resumed(&checkpoint.history);
        let trained = self.run_from(&mut checkpoint, layer, training, validation, shadow, observer)?;
        Ok((checkpoint.best_model(), trained))
    }

    /// What the guard's incumbent does on the training set.
    fn shadow(&self, training: &Episodes) -> Result<Option<Arc<Shadow>>, Error> {
        let shadow = self.guard.as_ref().map(|guard| {
            let problem = &*guard.task.problem;
            Shadow::new(problem, &*guard.incumbent, guard.level, training)
        });
        Ok(shadow.transpose()?.map(Arc::new))
    }

    /// Trains on; `good` is the state between two epochs, which is what stays, whatever ends the run.
    fn run_from(
        &self,
        good: &mut Checkpoint,
        layer: &dyn Differentiate,
        training: &Episodes,
        validation: Option<&Episodes>,
        shadow: Option<Arc<Shadow>>,
        observer: &mut dyn TrainObserver,
    ) -> Result<Trained, Error> {
        self.check(&good.model, layer, training, validation)?;
        let spec = &good.model.spec;
        // Engines make room for a minibatch, which is never larger than the set.
        let batch = self.settings.batch.min(training.len());
        let settings = &self.settings;
        let mut engine = match &self.engine {
            Some(build) => build(layer, spec, batch)?,
            None => settings.engine.build_in(settings.precision, layer, spec, batch)?,
        };
        if let Some(shadow) = shadow {
            engine.guard(shadow)?;
        }
        if good.epochs_done() == 0
            && let Some(bias) = reset_dead_bias(&mut good.model, &mut *engine, training, Dead::AtStart)
        {
            observer.bias_reset(bias);
        }
        let mut run = Run {
            settings: &self.settings,
            stepper: Stepper::new(engine, &good.model, self.settings.gradient_clip),
            layer,
            guard: self.guard.as_ref(),
            training,
            validation: validation.map_or_else(Vec::new, |set| judged(&good.model.spec, layer, set)),
            began: Instant::now(),
            order: Vec::with_capacity(training.len()),
            batch,
            start: good.model.clone(),
            is_settled: false,
        };
        let ending = loop {
            if run.is_stale(good) {
                break Ok(Ending::EarlyStop);
            }
            if good.epochs_done() >= self.settings.epochs() {
                break Ok(Ending::Completed);
            }
            let mut next = good.clone();
            match run.epoch(&mut next, observer) {
                Ok(true) => *good = next,
                Ok(false) => break Ok(Ending::Stopped),
                Err(error) => break Err(error),
            }
            if good.epochs_done().is_multiple_of(self.settings.checkpoint_every)
                && let Err(error) = self.save(good)
            {
                break Err(error);
            }
        };
        let saved = self.save(good);
        let ending = ending?;
        saved?;
        Ok(Trained {
            ending,
            summary: self.summary(good, training),
            history: good.history.clone(),
        })
    }

    fn save(&self, state: &Checkpoint) -> Result<(), Error> {
        match &self.checkpoint {
            Some(path) => state.save(path),
            None => Ok(()),
        }
    }

    fn check(
        &self,
        model: &Model,
        layer: &dyn Differentiate,
        training: &Episodes,
        validation: Option<&Episodes>,
    ) -> Result<(), Error> {
        let invalid = |field, reason: String| Err(Error::InvalidSetting { field, reason });
        // A model's fields are public: what is trained must be sound.
        model.validate()?;
        model.spec.check_problem(layer.problem())?;
        for (field, episodes) in [("training", Some(training)), ("validation", validation)] {
            let Some(episodes) = episodes else { continue };
            episodes.check(layer.problem())?;
            if episodes.is_empty() {
                return invalid(field, "expected at least one episode, found none".to_owned());
            }
        }
        let horizons = model.spec.horizons();
        if self.guard.is_some() && horizons.start() < horizons.end() {
            return invalid(
                "guard",
                "expected a model of one horizon, found several: the incumbent is played on whole episodes"
                    .to_owned(),
            );
        }
        for episodes in [Some(training), validation].into_iter().flatten() {
            if horizons.start() < horizons.end() && episodes.horizon() != *horizons.end() {
                return invalid(
                    "horizon",
                    format!(
                        "expected episodes of {} steps, the most that the model is for, found {}",
                        horizons.end(),
                        episodes.horizon()
                    ),
                );
            }
        }
        if validation.is_none() && self.settings.patience.is_some() {
            return invalid("patience", "expected a validation set to judge by".to_owned());
        }
        Ok(())
    }

    fn summary(&self, end: &Checkpoint, training: &Episodes) -> Summary {
        let mut gradients = GradientCounts::default();
        for record in &end.history {
            gradients.exact += record.gradients.exact;
            gradients.approximate += record.gradients.approximate;
        }
        Summary {
            epochs: end.epochs_done(),
            best_epoch: end.best.as_ref().map(|best| best.epoch),
            best_validation_utility: end.best.as_ref().map(|best| best.utility),
            gradients,
            engine: self.engine.is_none().then_some(self.settings.engine),
            precision: match self.engine {
                None => self.settings.precision,
                Some(_) => Precision::default(),
            },
            optimiser: Some(self.settings.optimiser.name().to_owned()),
            episodes: training.len(),
            trained_on: Some(TrainedOn::of(training)),
            ..Summary::untrained(self.settings.seed)
        }
    }
}

/// A run at work.
struct Run<'a> {
    settings: &'a Training,
    stepper: Stepper,
    layer: &'a dyn Differentiate,
    guard: Option<&'a ReadyGuard>,
    training: &'a Episodes,
    /// The validation set, once per horizon that is judged.
    validation: Vec<Cow<'a, Episodes>>,
    began: Instant,
    order: Vec<usize>,
    /// Episodes of a minibatch; the last of an epoch may have fewer.
    batch: usize,
    /// The model that the run began with.
    start: Model,
    /// Whether the weights have no gradient and no other bias is better.
    is_settled: bool,
}

impl Run<'_> {
    fn is_stale(&self, state: &Checkpoint) -> bool {
        self.settings
            .patience
            .is_some_and(|patience| state.stale >= patience)
    }

    /// One pass over the training set; `false` when the observer stopped it half-way.
    fn epoch(&mut self, state: &mut Checkpoint, observer: &mut dyn TrainObserver) -> Result<bool, Error> {
        let epoch = state.epochs_done();
        let epochs = self.settings.epochs();
        let learning_rate = self.settings.learning_rate(epoch);
        let mut generator = shuffle(&mut self.order, self.training.len(), self.settings.seed, epoch);
        let horizons = state.model.spec.horizons();
        let whole: Vec<usize> = (0..self.batch).collect();
        let mut reference = state.history.first().map(|first| first.loss);
        let mut gradients = GradientCounts::default();
        let mut loss = 0.0;
        let mut flat = 0;
        let batches = self.order.len().div_ceil(self.batch);
        for (index, batch) in self.order.chunks(self.batch).enumerate() {
            let diverged = |NoStep(reason): NoStep| Error::Diverged {
                epoch,
                batch: index,
                reason,
                hint: HINT,
            };
            let cut;
            let (episodes, batch) = if horizons.start() == horizons.end() {
                (self.training, batch)
            } else {
                let steps = generator.random_range(horizons.clone());
                cut = self.training.cut(steps, batch, self.layer.problem());
                (&cut, &whole[..batch.len()])
            };
            let mut differentiate = |model: &Model| match self.stepper.differentiate(model, episodes, batch) {
                Ok(result) => result.map_err(diverged),
                Err(error) => Err(error),
            };
            let mut result = differentiate(&state.model)?;
            let limit = |first: f64| first + self.settings.divergence_factor * (1.0 + first.abs());
            if result.loss > limit(*reference.get_or_insert(result.loss)) {
                // Episodes may differ by more than that: the same batch says whether it was the steps.
                let limit = limit(differentiate(&self.start)?.loss);
                if result.loss > limit {
                    let reason = format!("the loss is {}, above the limit of {limit}", result.loss);
                    return Err(diverged(NoStep(reason)));
                }
                result = differentiate(&state.model)?;
            }
            self.stepper
                .step(&mut state.model, &mut state.optimiser, learning_rate)
                .map_err(diverged)?;
            loss += result.loss * batch.len() as f64;
            flat += usize::from(self.stepper.flat);
            gradients.exact += result.counts.exact;
            gradients.approximate += result.counts.approximate;
            observer.batch(&BatchProgress {
                epoch,
                epochs,
                batches_done: index + 1,
                batches,
                loss: result.loss,
            });
            if observer.should_stop() {
                return Ok(false);
            }
        }
        expect_alive(&state.model).map_err(|NoStep(reason)| Error::Diverged {
            epoch,
            batch: batches - 1,
            reason,
            hint: HINT,
        })?;
        // Steps may lead to prices that decide nothing, too: then the weights stay as they are, and one look at them is enough.
        if flat < batches {
            self.is_settled = false;
        } else if !self.is_settled {
            let engine = &mut *self.stepper.engine;
            match reset_dead_bias(&mut state.model, engine, self.training, Dead::Since) {
                Some(bias) => observer.bias_reset(bias),
                None => self.is_settled = true,
            }
        }
        let due = (epoch + 1).is_multiple_of(self.settings.validate_every) || epoch + 1 == epochs;
        let validation_utility = if due && !self.validation.is_empty() {
            Some(self.validate(state, epoch)?)
        } else {
            None
        };
        let record = EpochRecord {
            epoch,
            learning_rate,
            loss: loss / self.order.len() as f64,
            validation_utility,
            gradients,
        };
        state.history.push(record);
        observer.epoch(&record, self.began.elapsed());
        Ok(true)
    }

    /// Plays the validation set, exactly, and keeps the weights if they are the best so far.
    fn validate(&self, state: &mut Checkpoint, epoch: usize) -> Result<f64, Error> {
        let policy = Unrolled::new("validation", state.model.clone(), self.layer.fork())?;
        let policy: Box<dyn Policy> = match self.guard {
            Some(guard) => Box::new(guard.put_before("validation", policy)?),
            None => Box::new(policy),
        };
        let mut utility = 0.0;
        for set in &self.validation {
            let utilities = utilities(self.layer.problem(), &*policy, set)?;
            let mean = utilities.iter().sum::<f64>() / utilities.len().max(1) as f64;
            utility += mean / self.validation.len() as f64;
        }
        if state.best.as_ref().is_none_or(|best| utility > best.utility) {
            state.stale = 0;
            state.best = Some(Best {
                epoch,
                utility,
                parameters: state.model.parameters.clone(),
            });
        } else {
            state.stale += 1;
        }
        Ok(utility)
    }
}

const HINT: &str =
    "try a smaller learning rate or a gradient clip, and check the scale of contexts and budgets";

/// The validation set as it is for a model of one horizon, else at the fewest, the middle and the most steps.
fn judged<'a>(
    spec: &ModelSpec,
    layer: &dyn Differentiate,
    validation: &'a Episodes,
) -> Vec<Cow<'a, Episodes>> {
    let (fewest, most) = spec.horizons().into_inner();
    if fewest == most {
        return vec![Cow::Borrowed(validation)];
    }
    let all: Vec<usize> = (0..validation.len()).collect();
    [fewest, usize::midpoint(fewest, most), most]
        .map(|steps| Cow::Owned(validation.cut(steps, &all, layer.problem())))
        .into()
}

/// The order of an epoch, from a stream of its own: it depends on nothing but seed and epoch. The stream goes on.
fn shuffle(order: &mut Vec<usize>, count: usize, seed: u64, epoch: usize) -> ChaCha8Rng {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    // Stream 0 is that of the initial weights.
    generator.set_stream(epoch as u64 + 1);
    order.clear();
    order.extend(0..count);
    order.shuffle(&mut generator);
    generator
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_has_an_order_of_its_own_and_the_same_one_again() {
        let order = |seed, epoch| {
            let mut order = Vec::new();
            shuffle(&mut order, 50, seed, epoch);
            order
        };
        assert_eq!(order(1, 3), order(1, 3));
        assert_ne!(order(1, 3), order(1, 4));
        assert_ne!(order(1, 3), order(2, 3));
        let mut sorted = order(1, 3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }
}
