//! Online training (Algorithm 2 of the paper): play an episode, then learn from it.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use laau_core::{Differentiate, Episodes, GradientCounts, Rollout, Unrolled, rollout};
use serde::{Deserialize, Serialize};

use super::settings::is_positive;
use super::{CsvLog, EngineKind, NoStep, Stepper, expect_alive};
use crate::error::Error;
use crate::file::Summary;
use crate::model::Model;
use crate::optimiser::{Optimiser, OptimiserState};

/// The settings of online training; [`OnlineTraining::check`] makes them an [`OnlineLearner`].
///
/// | setting | default | purpose | range |
/// |---|---|---|---|
/// | `optimiser` | SGD | the step rule (the paper's) | see [`Optimiser`] |
/// | `learning_rate` | 0.05 | the step size `ᾱ` | `> 0` |
/// | `engine` | fused | who computes gradients | |
/// | `gradient_clip` | 10 | the largest norm of a gradient: one odd episode must not ruin the weights | `> 0`, or none |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OnlineTraining {
    /// The step rule.
    pub optimiser: Optimiser,
    /// The step size.
    pub learning_rate: f64,
    /// Who computes gradients.
    pub engine: EngineKind,
    /// The largest norm of a gradient.
    pub gradient_clip: Option<f64>,
}

impl Default for OnlineTraining {
    fn default() -> Self {
        Self {
            optimiser: Optimiser::Sgd,
            learning_rate: 0.05,
            engine: EngineKind::Fused,
            gradient_clip: Some(10.0),
        }
    }
}

impl OnlineTraining {
    /// Checks the settings, and that model and layer fit each other.
    ///
    /// The model is a fresh one for a cold start, or one that was trained offline.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] that names the setting.
    pub fn check(self, model: Model, layer: Box<dyn Differentiate>) -> Result<OnlineLearner, Error> {
        for (field, value) in [
            ("learning_rate", self.learning_rate),
            ("gradient_clip", self.gradient_clip.unwrap_or(1.0)),
        ] {
            if !is_positive(value) {
                return Err(Error::InvalidSetting {
                    field,
                    reason: format!("expected a positive number, found {value}"),
                });
            }
        }
        self.optimiser.check()?;
        model.spec.check_problem(layer.problem())?;
        model.validate()?;
        let engine = self.engine.build(&*layer, &model.spec, 1)?;
        let stepper = Stepper::new(engine, &model, self.gradient_clip);
        Ok(OnlineLearner {
            optimiser: OptimiserState::new(self.optimiser, model.parameters.len()),
            settings: self,
            stepper,
            model,
            layer,
            rounds: 0,
            utility_sum: 0.0,
            gradients: GradientCounts::default(),
        })
    }
}

/// What one round of online training gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// The round, from 0.
    pub round: usize,
    /// The utility per step of this round's episode, played before its step.
    pub utility: f64,
    /// The mean of all rounds so far.
    pub running_utility: f64,
    /// Steps of this episode that asked for what cannot be paid; always 0.
    pub violations: usize,
    /// Steps of this episode that were taken at the box's lower corner because the network gave no price.
    pub failures: usize,
    /// Why the weights were left as they were, if they were.
    pub skipped: Option<String>,
}

/// Watches online training, and may stop it; observers combine as those of [`crate::TrainObserver`] do.
pub trait OnlineObserver {
    /// A round is done.
    fn round(&mut self, round: &Round) {
        let _ = round;
    }

    /// Asked after every round: whether to stop.
    fn should_stop(&mut self) -> bool {
        false
    }
}

impl OnlineObserver for () {}

impl OnlineObserver for &AtomicBool {
    fn should_stop(&mut self) -> bool {
        self.load(Ordering::Relaxed)
    }
}

impl<T: OnlineObserver + ?Sized> OnlineObserver for &mut T {
    fn round(&mut self, round: &Round) {
        (**self).round(round);
    }

    fn should_stop(&mut self) -> bool {
        (**self).should_stop()
    }
}

impl<A: OnlineObserver, B: OnlineObserver> OnlineObserver for (A, B) {
    fn round(&mut self, round: &Round) {
        self.0.round(round);
        self.1.round(round);
    }

    fn should_stop(&mut self) -> bool {
        let stop = self.0.should_stop();
        self.1.should_stop() || stop
    }
}

impl<W: Write> OnlineObserver for CsvLog<W> {
    fn round(&mut self, round: &Round) {
        self.row(
            "round,utility,running_utility,violations,failures,stepped",
            format_args!(
                "{},{},{},{},{},{}",
                round.round,
                round.utility,
                round.running_utility,
                round.violations,
                round.failures,
                u8::from(round.skipped.is_none()),
            ),
        );
    }
}

/// What a sequence of rounds gave.
#[derive(Debug, Clone, PartialEq)]
pub struct OnlineRun {
    /// The rollout of each round, as it was played.
    pub rollouts: Vec<Rollout>,
    /// Rounds whose gradient or step was not usable; the weights were left as they were.
    pub skipped: usize,
}

/// Learns while it serves: each episode is played with the weights learned from the episodes before.
///
/// Playing is exact and safe at any weights, since the ledger pays. A step that would leave the range of numbers is
/// not taken.
pub struct OnlineLearner {
    settings: OnlineTraining,
    optimiser: OptimiserState,
    stepper: Stepper,
    model: Model,
    layer: Box<dyn Differentiate>,
    rounds: usize,
    utility_sum: f64,
    gradients: GradientCounts,
}

impl OnlineLearner {
    /// The model as learned so far.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// What goes into the model's file; `seed` is that of its initial weights.
    #[must_use]
    pub fn summary(&self, seed: u64) -> Summary {
        Summary {
            epochs: self.rounds,
            gradients: self.gradients,
            engine: Some(self.settings.engine),
            optimiser: Some(self.settings.optimiser.name().to_owned()),
            episodes: self.rounds,
            ..Summary::untrained(seed)
        }
    }

    /// Plays one episode of a set, then takes one gradient step on it.
    ///
    /// # Errors
    /// When the problem cannot be played on the episode, or a layer fails for another reason than the network's price.
    pub fn round(&mut self, episodes: &Episodes, index: usize) -> Result<(Rollout, Round), Error> {
        let policy = Unrolled::new("laau-online", self.model.clone(), self.layer.clone())?;
        let result = rollout(self.layer.problem(), &policy, &episodes.get(index))?;
        let skipped = self.learn(episodes, index)?.err().map(|NoStep(reason)| reason);
        self.utility_sum += result.utility();
        self.rounds += 1;
        let round = Round {
            round: self.rounds - 1,
            utility: result.utility(),
            running_utility: self.utility_sum / self.rounds as f64,
            violations: result.violations,
            failures: result.failures,
            skipped,
        };
        Ok((result, round))
    }

    /// Plays and learns from all episodes of a set, in their order, until the observer stops it.
    ///
    /// # Errors
    /// As [`OnlineLearner::round`]; the model keeps what it has learned before.
    pub fn run(
        &mut self,
        episodes: &Episodes,
        observer: &mut dyn OnlineObserver,
    ) -> Result<OnlineRun, Error> {
        episodes.check(self.layer.problem())?;
        let mut run = OnlineRun {
            rollouts: Vec::with_capacity(episodes.len()),
            skipped: 0,
        };
        for index in 0..episodes.len() {
            let (rollout, round) = self.round(episodes, index)?;
            run.rollouts.push(rollout);
            run.skipped += usize::from(round.skipped.is_some());
            observer.round(&round);
            if observer.should_stop() {
                break;
            }
        }
        Ok(run)
    }

    fn learn(&mut self, episodes: &Episodes, index: usize) -> Result<Result<(), NoStep>, Error> {
        let result = match self.stepper.differentiate(&self.model, episodes, &[index])? {
            Ok(result) => result,
            Err(reason) => return Ok(Err(reason)),
        };
        self.gradients.exact += result.counts.exact;
        self.gradients.approximate += result.counts.approximate;
        let before = (self.model.parameters.clone(), self.optimiser.clone());
        let stepped = self
            .stepper
            .step(&mut self.model, &mut self.optimiser, self.settings.learning_rate)
            .and_then(|()| expect_alive(&self.model));
        if stepped.is_err() {
            (self.model.parameters, self.optimiser) = before;
        }
        Ok(stepped)
    }
}
