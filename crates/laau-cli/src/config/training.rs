//! The sections `[training]` and `[learning]`.

use clap::Args;
use laau::net::{EngineKind, OnlineTraining, Optimiser, Phase, Precision, Training};
use serde::{Deserialize, Serialize};

use super::Section;
use super::values::{rows, word};
use crate::failure::Failure;
use crate::sets::Set;

/// Offline training.
#[derive(Debug, Clone, PartialEq, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "training")]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TrainingSection {
    /// epochs and learning rate of each phase, one after the other
    #[arg(long, value_name = "ROWS", value_parser = rows::<Phases>)]
    phases: Option<Phases>,
    /// episodes per gradient step
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// the seed of initial weights and shuffles
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// adam or sgd
    #[arg(long, value_name = "NAME", value_parser = word::<Rule>)]
    optimiser: Option<Rule>,
    /// Adam's decay of the mean of gradients
    #[arg(long, value_name = "X")]
    first_decay: Option<f64>,
    /// Adam's decay of the mean of squared gradients
    #[arg(long, value_name = "X")]
    second_decay: Option<f64>,
    /// what Adam adds to the root of that mean
    #[arg(long, value_name = "X")]
    epsilon: Option<f64>,
    /// what computes gradients: fused or candle
    #[arg(long, value_name = "NAME", value_parser = word::<EngineKind>)]
    engine: Option<EngineKind>,
    /// what the fused engine computes the network in: f64, or f32, which is faster for wide networks
    #[arg(long, value_name = "NAME", value_parser = word::<Precision>)]
    precision: Option<Precision>,
    /// epochs from one rollout of the validation episodes to the next
    #[arg(long, value_name = "N")]
    validate_every: Option<usize>,
    /// stop after so many validations without a better utility
    #[arg(long, value_name = "N")]
    patience: Option<usize>,
    /// the largest norm of a gradient
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    gradient_clip: Option<f64>,
    /// how far a loss may rise above the first one, relative to it, before the run has diverged
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    divergence_factor: Option<f64>,
    /// epochs from one checkpoint to the next
    #[arg(long, value_name = "N")]
    checkpoint_every: Option<usize>,
    /// the fewest and the most steps that a model is for; the training episodes have the most
    #[arg(long, value_name = "N..M", value_parser = word::<Horizons>)]
    pub(crate) horizons: Option<Horizons>,
}

type Phases = Vec<(usize, f64)>;

/// Numbers of steps, `10..40`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Horizons {
    fewest: usize,
    most: usize,
}

impl TryFrom<String> for Horizons {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let read = || {
            let (fewest, most) = text.split_once("..")?;
            let horizons = Self {
                fewest: fewest.trim().parse().ok()?,
                most: most.trim().parse().ok()?,
            };
            (1..=horizons.most).contains(&horizons.fewest).then_some(horizons)
        };
        read().ok_or_else(|| {
            format!("expected the fewest and the most steps, for example 10..40, found {text}")
        })
    }
}

impl From<Horizons> for String {
    fn from(Horizons { fewest, most }: Horizons) -> Self {
        format!("{fewest}..{most}")
    }
}

/// The step rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Rule {
    Adam,
    Sgd,
}

impl Rule {
    fn of(optimiser: Optimiser) -> Self {
        match optimiser {
            Optimiser::Sgd => Self::Sgd,
            Optimiser::Adam { .. } => Self::Adam,
        }
    }
}

impl Section for TrainingSection {
    const NAME: &'static str = "training";
    const HELP: &'static str = "Offline training, for `laau train` and `laau compare`.";

    fn defaults() -> Self {
        let stock = Training::default();
        let Optimiser::Adam {
            first_decay,
            second_decay,
            epsilon,
        } = Optimiser::adam()
        else {
            return Self::default();
        };
        Self {
            phases: Some(stock.phases.iter().map(|p| (p.epochs, p.learning_rate)).collect()),
            batch: Some(stock.batch),
            seed: Some(stock.seed),
            optimiser: Some(Rule::of(stock.optimiser)),
            first_decay: Some(first_decay),
            second_decay: Some(second_decay),
            epsilon: Some(epsilon),
            engine: Some(stock.engine),
            precision: Some(stock.precision),
            validate_every: Some(stock.validate_every),
            patience: stock.patience,
            gradient_clip: stock.gradient_clip,
            divergence_factor: Some(stock.divergence_factor),
            checkpoint_every: Some(stock.checkpoint_every),
            horizons: None,
        }
    }

    fn examples() -> Self {
        Self {
            patience: Some(20),
            gradient_clip: Some(10.0),
            horizons: Some(Horizons { fewest: 10, most: 40 }),
            ..Self::default()
        }
    }
}

impl TrainingSection {
    /// Checks that the episodes are of the most steps that the models are for.
    pub(crate) fn check_horizons(&self, train: &Set) -> Result<(), Failure> {
        match self.horizons {
            Some(Horizons { most, .. }) => train.check_horizon(&(most..=most), "--horizons"),
            None => Ok(()),
        }
    }

    /// The most steps of an episode, if they are named.
    pub(crate) fn most_steps(&self) -> Option<usize> {
        self.horizons.map(|horizons| horizons.most)
    }

    /// The settings, not checked yet.
    pub(crate) fn settings(&self) -> Training {
        let stock = Training::default();
        let mut optimiser = match self.optimiser.unwrap_or(Rule::of(stock.optimiser)) {
            Rule::Sgd => Optimiser::Sgd,
            Rule::Adam => Optimiser::adam(),
        };
        if let Optimiser::Adam {
            first_decay,
            second_decay,
            epsilon,
        } = &mut optimiser
        {
            *first_decay = self.first_decay.unwrap_or(*first_decay);
            *second_decay = self.second_decay.unwrap_or(*second_decay);
            *epsilon = self.epsilon.unwrap_or(*epsilon);
        }
        let phase = |&(epochs, learning_rate): &(usize, f64)| Phase {
            epochs,
            learning_rate,
        };
        Training {
            phases: match &self.phases {
                Some(phases) => phases.iter().map(phase).collect(),
                None => stock.phases,
            },
            batch: self.batch.unwrap_or(stock.batch),
            seed: self.seed.unwrap_or(stock.seed),
            optimiser,
            engine: self.engine.unwrap_or(stock.engine),
            precision: self.precision.unwrap_or(stock.precision),
            validate_every: self.validate_every.unwrap_or(stock.validate_every),
            patience: self.patience.or(stock.patience),
            gradient_clip: self.gradient_clip.or(stock.gradient_clip),
            divergence_factor: self.divergence_factor.unwrap_or(stock.divergence_factor),
            checkpoint_every: self.checkpoint_every.unwrap_or(stock.checkpoint_every),
            shortest_horizon: self.horizons.map(|horizons| horizons.fewest),
        }
    }
}

/// Online training.
#[derive(Debug, Clone, PartialEq, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "learning")]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct LearningSection {
    /// sgd or adam
    #[arg(long, value_name = "NAME", value_parser = word::<Rule>)]
    optimiser: Option<Rule>,
    /// the step size
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    learning_rate: Option<f64>,
    /// what computes gradients: fused or candle
    #[arg(long, value_name = "NAME", value_parser = word::<EngineKind>)]
    engine: Option<EngineKind>,
    /// the largest norm of a gradient
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    gradient_clip: Option<f64>,
    /// the seed of a cold model's weights
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// episodes that normalise a cold model: all that is known before its first step
    #[arg(long, value_name = "N")]
    first_look: Option<usize>,
}

/// Episodes that normalise a cold model.
const FIRST_LOOK: usize = 10;

impl Section for LearningSection {
    const NAME: &'static str = "learning";
    const HELP: &'static str = "Online training, for `laau learn`.";

    fn defaults() -> Self {
        let stock = OnlineTraining::default();
        Self {
            optimiser: Some(Rule::of(stock.optimiser)),
            learning_rate: Some(stock.learning_rate),
            engine: Some(stock.engine),
            gradient_clip: stock.gradient_clip,
            seed: Some(0),
            first_look: Some(FIRST_LOOK),
        }
    }

    fn examples() -> Self {
        Self::default()
    }
}

impl LearningSection {
    /// The settings, not checked yet.
    pub(crate) fn settings(&self) -> OnlineTraining {
        let stock = OnlineTraining::default();
        OnlineTraining {
            optimiser: match self.optimiser {
                None => stock.optimiser,
                Some(Rule::Sgd) => Optimiser::Sgd,
                Some(Rule::Adam) => Optimiser::adam(),
            },
            learning_rate: self.learning_rate.unwrap_or(stock.learning_rate),
            engine: self.engine.unwrap_or(stock.engine),
            gradient_clip: self.gradient_clip.or(stock.gradient_clip),
        }
    }

    /// The seed of a cold model's weights.
    pub(crate) fn seed(&self) -> u64 {
        self.seed.unwrap_or_default()
    }

    /// The first flag that only a cold model has a use for.
    pub(crate) fn cold_flag(&self) -> Option<String> {
        let seed = self.seed.map(|_| "seed");
        let flag = seed.or(self.first_look.map(|_| "first-look"));
        flag.map(str::to_owned)
    }

    /// Episodes of the stream that normalise a cold model; at least one.
    pub(crate) fn check_first_look(&self) -> Result<usize, Failure> {
        match self.first_look.unwrap_or(FIRST_LOOK) {
            0 => Err(Failure::new(
                "invalid `first-look`: expected at least 1, found 0",
                "a cold model is normalised by the first episodes; one is enough",
            )),
            look => Ok(look),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        for section in [TrainingSection::default(), TrainingSection::defaults()] {
            assert_eq!(section.settings(), Training::default());
        }
        for section in [LearningSection::default(), LearningSection::defaults()] {
            assert_eq!(section.settings(), OnlineTraining::default());
        }
    }
}
