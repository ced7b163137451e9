//! LAAU as a [`Fit`]: statistics, initial weights, training, policy.

use laau_core::{
    Document, Episodes, Fit, FitObserver, FitSets, Fitted, Form, Incumbent, Problem, Task, Unrolled,
};

use crate::error::Error;
use crate::file::model_to_bytes;
use crate::model::Model;
use crate::spec::{Features, ModelSpec, Network, Output, PriceBase};
use crate::statistics::Statistics;
use crate::train::{BatchProgress, EngineKind, TrainObserver, Trained, Training};

/// A learned policy before it is trained: what its model is made of, and how it is trained.
///
/// ```no_run
/// # fn example(task: &laau_core::Task, sets: &laau_core::Sets) -> Result<(), laau_core::Error> {
/// use laau_core::Fit;
/// use laau_net::Laau;
///
/// let fitted = Laau::residual().fit(task, sets.to_fit(), 0, &mut ())?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Laau {
    /// The name in tables.
    pub name: String,
    /// The network.
    pub network: Network,
    /// What the network sees.
    pub features: Features,
    /// How its output becomes a positive price.
    pub output: Output,
    /// What the price is relative to.
    pub base: PriceBase,
    /// How it is trained; its seed is that of the fit.
    pub training: Training,
    /// What it is trained behind, and stays behind.
    pub guard: Option<TrainedGuard>,
}

/// A guard that a model is trained behind: an incumbent, and the share of its gain that is promised.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainedGuard {
    /// The incumbent.
    pub incumbent: Incumbent,
    /// The level, in `[0, 1]`.
    pub level: f64,
}

impl Laau {
    /// The kind of documents that hold a model: the bytes of a model file.
    pub const DOCUMENT: &'static str = "model";

    /// The paper's model and training.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            name: "laau".to_owned(),
            network: Network::Mlp {
                hidden: vec![10, 10],
                spectral_bound: None,
            },
            features: Features::Paper,
            output: Output::Softplus,
            base: PriceBase::Plain,
            training: Training::paper(),
            guard: None,
        }
    }

    /// The paper's network on history features.
    #[must_use]
    pub fn history() -> Self {
        Self {
            name: "laau-history".to_owned(),
            features: Features::History,
            ..Self::paper()
        }
    }

    /// The paper's network on history features, times the certainty-equivalent price.
    #[must_use]
    pub fn residual() -> Self {
        Self {
            name: "laau-residual".to_owned(),
            output: Output::Exp,
            base: PriceBase::Residual,
            ..Self::history()
        }
    }

    /// The paper's linear model, its weights in a ball of radius 10.
    #[must_use]
    pub fn linear() -> Self {
        Self {
            name: "linear".to_owned(),
            network: Network::Linear {
                norm_bound: Some(10.0),
            },
            ..Self::paper()
        }
    }

    /// The same with other training settings.
    #[must_use]
    pub fn trained_by(self, training: Training) -> Self {
        Self { training, ..self }
    }

    /// The same behind a guard, in training and after it: the policy of a fit is a [`laau_core::Guarded`] one in layer form.
    ///
    /// A guard that is put before a finished policy changes what the policy was trained for; behind one from the start, the
    /// model learns to use what the guard leaves it.
    #[must_use]
    pub fn guarded_by(self, incumbent: Incumbent, level: f64) -> Self {
        Self {
            guard: Some(TrainedGuard { incumbent, level }),
            ..self
        }
    }

    /// The specification of the model for a problem and a horizon.
    #[must_use]
    pub fn spec(&self, problem: &dyn Problem, horizon: usize) -> ModelSpec {
        ModelSpec {
            problem: problem.name().to_owned(),
            parameters: problem.parameters(),
            dimensions: problem.dimensions(),
            horizon,
            shortest_horizon: self.training.shortest_horizon.unwrap_or(horizon),
            network: self.network.clone(),
            features: self.features,
            output: self.output,
            form: self.base,
        }
    }

    /// A model with the statistics of the training episodes and initial weights.
    ///
    /// # Errors
    /// When a setting is outside its range, or the episodes do not fit the problem.
    pub fn initial(&self, task: &Task, train: &Episodes, seed: u64) -> Result<Model, Error> {
        let spec = self.spec(&*task.problem, train.horizon());
        let statistics = Statistics::fit(&spec, &mut task.solver.clone(), train)?;
        Model::new(spec, statistics, seed)
    }

    /// Trains a model, behind the guard if there is one; without validation episodes the last weights are kept.
    ///
    /// # Errors
    /// As [`Laau::initial`] and [`crate::Trainer::run`].
    pub fn train(
        &self,
        task: &Task,
        train: &Episodes,
        validation: Option<&Episodes>,
        seed: u64,
        observer: &mut dyn TrainObserver,
    ) -> Result<(Model, Trained), Error> {
        let sets = FitSets {
            train,
            validation: validation.unwrap_or(train),
        };
        let guard = self.fitted_guard(task, sets, seed, &mut ())?;
        self.train_behind(guard.as_ref(), task, train, validation, seed, observer)
    }

    /// The incumbent of the guard, fitted if it is not ready, and the level.
    fn fitted_guard(
        &self,
        task: &Task,
        sets: FitSets<'_>,
        seed: u64,
        observer: &mut dyn FitObserver,
    ) -> Result<Option<(Fitted, f64)>, laau_core::Error> {
        let Some(TrainedGuard { incumbent, level }) = &self.guard else {
            return Ok(None);
        };
        Ok(Some((incumbent.fit(task, sets, seed, observer)?, *level)))
    }

    fn train_behind(
        &self,
        guard: Option<&(Fitted, f64)>,
        task: &Task,
        train: &Episodes,
        validation: Option<&Episodes>,
        seed: u64,
        observer: &mut dyn TrainObserver,
    ) -> Result<(Model, Trained), Error> {
        let training = Training {
            seed,
            engine: match self.network {
                Network::Custom(_) => EngineKind::Candle,
                Network::Mlp { .. } | Network::Linear { .. } => self.training.engine,
            },
            ..self.training.clone()
        };
        let mut model = self.initial(task, train, seed)?;
        let mut trainer = training.check()?;
        if let Some((incumbent, level)) = guard {
            trainer = trainer.with_guard(task, incumbent.player.online()?, *level);
        }
        let trained = trainer.run(&mut model, &*task.solver, train, validation, observer)?;
        Ok((model, trained))
    }
}

impl Fit for Laau {
    fn fit(
        &self,
        task: &Task,
        sets: FitSets<'_>,
        seed: u64,
        observer: &mut dyn FitObserver,
    ) -> Result<Fitted, laau_core::Error> {
        let guard = self.fitted_guard(task, sets, seed, observer)?;
        let mut watched = Watched(observer);
        let validation = Some(sets.validation);
        let (model, trained) = self
            .train_behind(guard.as_ref(), task, sets.train, validation, seed, &mut watched)
            .map_err(|error| error.of_policy(&self.name))?;
        // The constructor of a custom network cannot be stored.
        let document = match self.network {
            Network::Custom(_) => None,
            Network::Mlp { .. } | Network::Linear { .. } => {
                let bytes = model_to_bytes(&model, &trained.summary);
                Some(Document {
                    kind: Self::DOCUMENT,
                    bytes: bytes.map_err(|error| error.of_policy(&self.name))?,
                })
            }
        };
        let policy = Unrolled::new(&self.name, model, task.solver.clone())?;
        let mut fitted = Fitted::new(policy)
            .with("epochs", trained.history.len())
            .with_document(document);
        if let Some(epoch) = trained.summary.best_epoch {
            // From 1, as epochs are counted wherever they are shown.
            fitted = fitted.with("best_epoch", epoch + 1);
        }
        fitted.gradients = Some(trained.summary.gradients);
        match guard {
            Some((incumbent, level)) => Fitted::guarded(task, &fitted, &incumbent, level, Form::Layer),
            None => Ok(fitted),
        }
    }

    fn is_seeded(&self) -> bool {
        true
    }
}

/// A fit's observer at a training run.
struct Watched<'a>(&'a mut dyn FitObserver);

impl TrainObserver for Watched<'_> {
    fn batch(&mut self, progress: &BatchProgress) {
        let BatchProgress {
            epoch,
            epochs,
            batches_done,
            batches,
            ..
        } = *progress;
        self.0.progress(epoch * batches + batches_done, epochs * batches);
    }

    fn should_stop(&mut self) -> bool {
        self.0.should_stop()
    }
}
