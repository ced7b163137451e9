//! The rows of the tables that experiments export and figures are drawn from. A field is a column: headings are declared
//! here, once.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The table of single test episodes: its columns are [`EPISODE_KEYS`], then every policy's utility per step under the policy's
/// name, then, as `NAME left`, what it leaves of the first budget in percent. It is wide, since it would else be most of what is
/// written.
pub const EPISODES_FILE: &str = "episodes.csv";

/// The first columns of [`EPISODES_FILE`]: source and construction, the distance of the training data, steps of an episode, the
/// seed, the series that the episode is of, and its position.
pub const EPISODE_KEYS: [&str; 6] = ["data", "target", "horizon", "seed", "series", "episode"];

/// A row of a table.
pub trait Row: Serialize + DeserializeOwned {
    /// The table's file name.
    const FILE: &'static str;
}

macro_rules! rows {
    ($($(#[$doc:meta])* $file:literal => $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })*) => {
        /// The file names of all tables.
        pub const FILES: &[&str] = &[$($file),*];

        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl Row for $name {
                const FILE: &'static str = $file;
            }
        )*
    };
}

rows! {
    /// One policy on one data set, horizon and seed.
    "policies.csv" => PolicyRow {
        /// Source and construction of the episodes.
        data: String,
        /// Steps of an episode.
        horizon: usize,
        /// The policy's name.
        policy: String,
        /// The seed.
        seed: u64,
        /// Mean utility per step.
        utility: f64,
        /// Utility over that of the offline optimum.
        fraction_of_opt: f64,
        /// Lower quartile of the utility over episodes.
        lower_quartile: f64,
        /// Median of the utility over episodes.
        median: f64,
        /// Mean remaining budget in percent.
        remaining_percent: f64,
        /// Steps that could not be paid.
        violations: usize,
        /// Steps in which the named projection acted.
        projections: usize,
    }

    /// One parameter that was fitted or tuned.
    "parameters.csv" => ParameterRow {
        /// Source and construction of the episodes.
        data: String,
        /// Steps of an episode.
        horizon: usize,
        /// The policy's name.
        policy: String,
        /// The seed.
        seed: u64,
        /// The parameter's name.
        parameter: String,
        /// Its value.
        value: String,
    }

    /// The utility of one episode.
    "distribution.csv" => EpisodeRow {
        /// Source and construction of the episodes.
        data: String,
        /// The policy's name.
        policy: String,
        /// The episode's position.
        episode: usize,
        /// Utility per step.
        utility: f64,
    }

    /// A policy trained on shifted data and tested on the default.
    "ood.csv" => ShiftRow {
        /// Source and construction of the episodes.
        data: String,
        /// The distance that was asked for.
        target: f64,
        /// The distance between the pooled contexts.
        achieved: f64,
        /// The sliced distance between episodes.
        sliced: f64,
        /// The policy's name.
        policy: String,
        /// The seed.
        seed: u64,
        /// Mean utility per step.
        utility: f64,
        /// Utility over that of the offline optimum.
        fraction_of_opt: f64,
    }

    /// A policy behind a guard, trained on shifted data and tested on the default; its incumbent was fitted on the default.
    "guard.csv" => GuardRow {
        /// Source and construction of the episodes.
        data: String,
        /// The distance of the training data that was asked for.
        target: f64,
        /// The seed.
        seed: u64,
        /// The policy that advises.
        policy: String,
        /// The policy whose gain is promised a share of.
        incumbent: String,
        /// That share.
        level: f64,
        /// Mean utility per step.
        utility: f64,
        /// Utility over that of the offline optimum.
        fraction_of_opt: f64,
        /// That of the advice alone.
        advice_alone: f64,
        /// That of the incumbent alone.
        incumbent_alone: f64,
        /// Test episodes.
        episodes: usize,
        /// The least share of the incumbent's gain in any episode.
        least_share: Option<f64>,
        /// The least margin over the promise in any step of any episode.
        least_margin: f64,
        /// How far roundings may bring it below zero.
        allowance: f64,
        /// The share of steps in which the guard changed the advice.
        acted: f64,
    }

    /// A policy with or without a guard, trained on default or on shifted data and tested on the default.
    "guard_training.csv" => GuardTrainingRow {
        /// Source and construction of the episodes.
        data: String,
        /// The distance of the training data from the default that was asked for.
        target: f64,
        /// The policy's name.
        policy: String,
        /// `none`, `after` the training, or `during` it and after.
        guard: String,
        /// The share of the incumbent's gain that is promised; none without a guard.
        level: Option<f64>,
        /// The seed.
        seed: u64,
        /// Mean utility per step.
        utility: f64,
        /// Utility over that of the offline optimum.
        fraction_of_opt: f64,
        /// The least gain of an episode over that of the incumbent.
        least_share: f64,
        /// The share of steps in which the guard acted; none without one.
        acted: Option<f64>,
    }

    /// One embedded episode.
    "tsne.csv" => PointRow {
        /// Source and construction of the episodes.
        data: String,
        /// The distance that was asked for.
        target: f64,
        /// `train` or `test`.
        set: String,
        /// First coordinate.
        x: f64,
        /// Second coordinate.
        y: f64,
    }

    /// The average utility up to a round of online learning.
    "online_learning.csv" => RoundRow {
        /// Source and construction of the episodes.
        data: String,
        /// What learns.
        method: String,
        /// The learning rate that was chosen; 0 if nothing is learned on the way.
        learning_rate: f64,
        /// The seed.
        seed: u64,
        /// The round, from 1.
        round: usize,
        /// Average utility per step so far.
        utility: f64,
    }

    /// What a cold model that learns by SGD loses against one that was trained before, over a block of rounds.
    "online_rates.csv" => RateRow {
        /// Source and construction of the episodes.
        data: String,
        /// The step size.
        learning_rate: f64,
        /// The seed.
        seed: u64,
        /// The first round of the block, from 1.
        first_round: usize,
        /// Its last round.
        last_round: usize,
        /// Mean loss per step.
        loss: f64,
    }

    /// Utility on the training and on the test episodes.
    "generalisation.csv" => GapRow {
        /// Source and construction of the episodes.
        data: String,
        /// The model.
        model: String,
        /// Steps of an episode.
        horizon: usize,
        /// Training episodes.
        episodes: usize,
        /// The seed.
        seed: u64,
        /// Utility on the training episodes.
        train: f64,
        /// Utility on the test episodes.
        test: f64,
    }

    /// One term of the generalisation bound.
    "bound.csv" => TermRow {
        /// Source and construction of the episodes.
        data: String,
        /// The model.
        model: String,
        /// Steps of an episode.
        horizon: usize,
        /// Training episodes.
        episodes: usize,
        /// The seed.
        seed: u64,
        /// The term's name.
        term: String,
        /// Its value.
        value: f64,
    }

    /// Error and cost of one way to differentiate an episode.
    "gradients.csv" => GradientRow {
        /// The method.
        method: String,
        /// Solves of the layer.
        solves: usize,
        /// Relative to the reference.
        relative_error: f64,
    }

    /// One policy on another problem than the paper's.
    "problems.csv" => ProblemRow {
        /// The problem's name.
        problem: String,
        /// `workload`, or the name of the real data.
        data: String,
        /// How episodes are made of series.
        construction: String,
        /// Steps of an episode.
        horizon: usize,
        /// The policy's name.
        policy: String,
        /// The seed.
        seed: u64,
        /// Mean utility per step.
        utility: f64,
        /// Utility over that of the offline optimum.
        fraction_of_opt: f64,
        /// Steps that could not be paid.
        violations: usize,
        /// Steps in which the policy gave an error.
        failures: usize,
        /// Steps in which the named projection acted.
        projections: usize,
        /// Exact gradients in training.
        exact_gradients: Option<u64>,
        /// Approximate gradients in training.
        approximate_gradients: Option<u64>,
    }

    /// What a policy leaves of one budget of a problem.
    "problem_budgets.csv" => BudgetRow {
        /// The problem's name.
        problem: String,
        /// `workload`, or the name of the real data.
        data: String,
        /// How episodes are made of series.
        construction: String,
        /// Steps of an episode.
        horizon: usize,
        /// The policy's name.
        policy: String,
        /// The seed.
        seed: u64,
        /// Which budget.
        budget: usize,
        /// Mean remaining budget in percent.
        remaining_percent: f64,
    }

    /// A policy that is not applicable to a problem.
    "problem_left_out.csv" => LeftOutRow {
        /// The problem's name.
        problem: String,
        /// `workload`, or the name of the real data.
        data: String,
        /// The policy's name.
        policy: String,
        /// Why.
        reason: String,
    }

    /// One value of one step of an exported episode.
    "problem_episodes.csv" => StepRow {
        /// The problem's name.
        problem: String,
        /// `workload`, or the name of the real data.
        data: String,
        /// The policy's name.
        policy: String,
        /// The step, from 0.
        step: usize,
        /// `context`, `action`, `multiplier` or `remaining_percent`.
        quantity: String,
        /// Position in the quantity.
        index: usize,
        /// The value.
        value: f64,
    }
}
