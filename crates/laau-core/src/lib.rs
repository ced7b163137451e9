#![doc = include_str!("../README.md")]

mod backward;
mod closed_form;
#[cfg(feature = "conformance")]
pub mod conformance;
mod dual;
mod episode;
mod error;
mod exact;
mod hindsight;
mod ledger;
mod nearest;
mod policy;
mod problem;
pub mod problems;
mod projected;
mod projection;
mod report;
mod rollout;
mod solver;
mod unrolled;

pub use backward::{EpisodeGradient, episode_gradient};
pub use closed_form::{ClosedForm, LinearSteps, Regularity};
pub use dual::{Dual, DualNum, Functions, Number};
pub use episode::{Episode, Episodes};
pub use error::Error;
pub use hindsight::{Hindsight, Replay, replay};
pub use ledger::Ledger;
pub use nearest::Nearest;
pub use policy::{Agent, GradientCounts, Observation, Policy};
pub use problem::{Dimensions, Problem, SmoothProblem, Structure, validate_problem};
pub use projected::Projected;
pub use projection::Projection;
pub use report::{PolicyReport, Report, quantile};
pub use rollout::{Progress, Rollout, rollout, rollout_all, rollout_hindsight};
pub use solver::{
    Differentiate, Exactness, GradientMut, Gradients, Inexact, Input, Queries, Query, SolutionColumns,
    SolutionMut, SolutionRef, Solutions, Status, StepSolver, check_queries, check_query, infeasible,
    invalid_input,
};
pub use unrolled::{Constant, Multiplier, Pricer, Unrolled};
