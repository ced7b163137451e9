//! The keys of the configuration for other programs: the same words, the same defaults, the same refusals.

use std::fmt;

use laau::core::{Episodes, Problem};
use laau::data::Split;
use laau::data::synthetic::GenerateOptions;
use laau::net::{Laau, ModelSpec, OnlineTraining, Training};
use laau::registry::{ProblemSpec, ProblemWorkload, suggest};
use serde_json::{Map, Value};
use toml::Table;

use crate::config::{
    Config, Flags, LearningSection, ModelSection, ProblemSection, Section, TrainingSection, WorkloadSection,
    keys_of,
};
use crate::failure::{Failure, Hint as _};
use crate::memory;
use crate::train::check_memory;

/// Keys and values, as in a file of the configuration but without its sections.
pub type Keys = Map<String, Value>;

/// Why something cannot be done, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// One sentence without a full stop.
    pub sentence: String,
    /// What to do.
    pub hint: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Refused {}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Told { sentence, hint, .. }
            | Failure::NotApplicable { sentence, hint }
            | Failure::Interrupted { sentence, hint } => Self { sentence, hint },
            Failure::ClosedPipe => Self {
                sentence: "standard output is closed".to_owned(),
                hint: String::new(),
            },
        }
    }
}

/// Errors of the libraries get the hints of the command line.
macro_rules! refused {
    ($($error:ty),+) => {
        $(impl From<$error> for Refused {
            fn from(error: $error) -> Self {
                Failure::from(error).into()
            }
        })+
    };
}

refused!(
    laau::core::Error,
    laau::data::Error,
    laau::kkt::Error,
    laau::net::Error,
    laau::registry::Error
);

/// What `laau train` is told by flags.
#[derive(Debug, Clone)]
pub struct TrainOptions {
    /// The learned policy before it is trained; its training is `training`.
    pub laau: Laau,
    /// How it is trained.
    pub training: Training,
    /// The most steps of an episode, which the training episodes have, if `horizons` names them.
    pub most_steps: Option<usize>,
}

/// What `laau learn` is told by flags.
#[derive(Debug, Clone)]
pub struct LearnOptions {
    /// A cold model.
    pub laau: Laau,
    /// How it learns.
    pub learning: OnlineTraining,
    /// The seed of a cold model's weights.
    pub seed: u64,
    /// Episodes that normalise a cold model; at least one.
    pub first_look: usize,
}

/// What `laau generate` is told by flags.
pub struct WorkloadOptions {
    /// Where episodes come from.
    pub workload: ProblemWorkload,
    /// How many, how long, which.
    pub options: GenerateOptions,
    /// Three sets instead of one.
    pub split: Option<Split>,
}

impl TrainOptions {
    /// Checks settings and episodes before anything is computed, and that there is memory for the network.
    ///
    /// # Errors
    /// As `laau train`.
    pub fn check(&self, problem: &dyn Problem, train: &Episodes) -> Result<(), Refused> {
        self.training.clone().check()?;
        if let Some(most) = self.most_steps.filter(|most| *most != train.horizon()) {
            return Err(Refused {
                sentence: format!("episodes of {} steps, horizons has {most}", train.horizon()),
                hint: "train on episodes of the most steps".to_owned(),
            });
        }
        let spec = self.laau.spec(problem, train.horizon());
        spec.validate()?;
        Ok(check_memory(&spec, self.training.batch, train)?)
    }
}

impl WorkloadOptions {
    /// Checks that budgets pay every step and that there is memory for the episodes.
    ///
    /// # Errors
    /// As `laau generate`.
    pub fn check(&self, problem: &dyn Problem) -> Result<(), Refused> {
        self.workload.check_budgets(problem, &self.options)?;
        let sizes = self
            .split
            .map_or(vec![self.options.episodes], |split| split.sizes().to_vec());
        Ok(memory::check(
            "these episodes take",
            self.workload.memory(problem, &sizes, &self.options),
            "ask for fewer episodes, a shorter horizon, or one set at a time",
        )?)
    }
}

/// The problem of the keys of `[problem]`.
///
/// # Errors
/// For a key or a value that is none.
pub fn problem(keys: &Keys) -> Result<ProblemSpec, Refused> {
    let [config] = sort(keys, &[of::<ProblemSection>()])?;
    Ok(config.problem(&Flags::default())?)
}

/// The problem that a model was trained for.
///
/// # Errors
/// For a problem of another program.
pub fn problem_of_model(spec: &ModelSpec) -> Result<ProblemSpec, Refused> {
    Ok(ProblemSpec::of_model(spec).map_err(Failure::from)?)
}

/// The keys of `[model]` and `[training]`.
///
/// # Errors
/// As [`problem`].
pub fn train(keys: &Keys) -> Result<TrainOptions, Refused> {
    let [model, training] = sort(keys, &[of::<ModelSection>(), of::<TrainingSection>()])?;
    let section: TrainingSection = training.section(&Flags::default())?;
    let training = section.settings();
    let model: ModelSection = model.section(&Flags::default())?;
    Ok(TrainOptions {
        laau: model.laau()?.trained_by(training.clone()),
        training,
        most_steps: section.most_steps(),
    })
}

/// The keys of `[model]` and `[learning]`.
///
/// # Errors
/// As [`problem`].
pub fn learn(keys: &Keys) -> Result<LearnOptions, Refused> {
    let [model, learning] = sort(keys, &[of::<ModelSection>(), of::<LearningSection>()])?;
    let model: ModelSection = model.section(&Flags::default())?;
    let learning: LearningSection = learning.section(&Flags::default())?;
    Ok(LearnOptions {
        laau: model.laau()?,
        learning: learning.settings(),
        seed: learning.seed(),
        first_look: learning.check_first_look()?,
    })
}

/// The keys of `[workload]`.
///
/// # Errors
/// As [`problem`].
pub fn workload(problem: &ProblemSpec, keys: &Keys) -> Result<WorkloadOptions, Refused> {
    let [config] = sort(keys, &[of::<WorkloadSection>()])?;
    let section: WorkloadSection = config.section(&Flags::default())?;
    Ok(WorkloadOptions {
        workload: section.workload(problem)?,
        options: section.options(),
        split: section.split.map(Split::from),
    })
}

/// A section's name and keys.
type Known = (&'static str, Vec<String>);

fn of<S: Section>() -> Known {
    (S::NAME, keys_of(&S::augment_args(clap::Command::new(S::NAME))))
}

/// Sorts keys into configurations of one section each; refuses a key of none, and names the nearest.
fn sort<const COUNT: usize>(keys: &Keys, known: &[Known; COUNT]) -> Result<[Config; COUNT], Failure> {
    let mut tables = [(); COUNT].map(|()| Table::new());
    for (key, value) in keys {
        let place = known.iter().position(|(_, known)| known.contains(key));
        let Some(place) = place else {
            let all = known.iter().flat_map(|(_, keys)| keys);
            return Err(Failure::new(
                format_args!("unknown option `{key}`"),
                suggest::hint(key, all.map(String::as_str)),
            ));
        };
        let value = toml::Value::try_from(value)
            .map_err(|error| format!("`{key}`: {error}"))
            .hint("`laau config --default` shows every key with a value that fits")?;
        tables[place].insert(key.clone(), value);
    }
    let mut names = known.iter().map(|(name, _)| *name);
    Ok(tables.map(|table| {
        let section = (names.next().unwrap_or_default().to_owned(), table.into());
        Config::from(Table::from_iter([section]))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn keys(value: Value) -> Keys {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn keys_are_those_of_the_configuration() {
        let spec = problem(&keys(json!({"name": "wireless", "actions": 4}))).unwrap();
        assert_eq!(spec.name(), "wireless");
        let options = train(&keys(
            json!({"form": "residual", "phases": [[3, 0.01]], "seed": 7}),
        ))
        .unwrap();
        assert_eq!((options.training.epochs(), options.training.seed), (3, 7));
        assert_eq!(options.laau.name, Laau::residual().name);
        assert_eq!(options.laau.training, options.training);
        let options = workload(&spec, &keys(json!({"horizon": 5, "split": [3, 2, 1]}))).unwrap();
        assert_eq!((options.options.horizon, options.split.unwrap().train), (5, 3));
    }

    #[test]
    fn a_wrong_key_is_refused_with_the_nearest() {
        let error = train(&keys(json!({"hiden": [10]}))).unwrap_err();
        assert_eq!(error.sentence, "unknown option `hiden`");
        assert_eq!(error.hint, "did you mean `hidden`?");
        assert!(learn(&keys(json!({"first-look": 0}))).is_err());
        assert!(problem(&keys(json!({"name": "wirless"}))).is_err());
    }
}
