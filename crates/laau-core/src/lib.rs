#![doc = include_str!("../README.md")]

mod advised;
mod autodiff;
mod backward;
mod closed_form;
mod comparison;
#[cfg(feature = "conformance")]
pub mod conformance;
mod differences;
mod episode;
mod episode_run;
mod error;
mod exact;
mod fit;
mod guard;
mod hindsight;
mod hold;
mod ledger;
mod nearest;
pub mod numerics;
mod policy;
mod problem;
pub mod problems;
mod projected;
mod projection;
mod report;
mod results;
mod rollout;
mod scaling;
mod solver;
pub mod statistics;
mod sum;
pub mod tables;
mod task;
mod unrolled;

pub use advised::Fallback;
pub use autodiff::{AutoDiff, DualNum, Number, ProblemFunctions};
pub use backward::{EpisodeGradient, episode_gradient, guarded_episode_gradient};
pub use closed_form::{ClosedForm, LimitedStep, LinearSteps, Regularity};
pub use comparison::{Comparison, ComparisonObserver, guarded_name};
pub use differences::{Slope, central_differences};
pub use episode::{Episode, Episodes};
pub use episode_run::{EpisodeRun, Refused, Step};
pub use error::{Error, expect_finite, expect_length, expect_option};
pub use fit::{Document, Fit, FitObserver, FitSets, Fitted, Parameter, Phase, Player, Sets, Unfitted};
pub use guard::{
    Cap, CappedLayer, Certificate, Form, Guard, Guarded, GuardedDocument, Incumbent, Shadow, ShadowEpisode,
    ShadowStep,
};
pub use hindsight::{Hindsight, Replay};
pub use hold::HoldId;
pub use ledger::Ledger;
pub use nearest::Nearest;
pub use policy::{Agent, GradientCounts, Observation, Policy};
pub use problem::{Dimensions, Problem, SmoothProblem, Structure, validate_problem};
pub use projected::Projected;
pub use projection::Projection;
pub use report::{
    GuardReport, PolicyReport, Report, Run, SeedReport, align, column_names, four_digits, quantile,
};
pub use results::Results;
pub use rollout::{Rollout, mean_utility, rollout, rollout_all, rollout_hindsight, utilities, utilities_of};
pub use scaling::{Affine, Constants, ScaledColumn, Scaling, TrainedOn, ValueRange};
pub use solver::{
    Differentiate, Exactness, GradientMut, Gradients, Inexact, Input, Queries, Query, SolutionColumns,
    SolutionMut, SolutionRef, Solutions, Status, StepSolver, check_queries, check_query, infeasible,
    invalid_input,
};
pub use task::Task;
pub use unrolled::{Constant, Multiplier, Pricer, Unrolled};
