#![doc = include_str!("../README.md")]

#[cfg(all(feature = "data", feature = "net"))]
pub mod registry;
mod task;

pub use laau_baselines as baselines;
pub use laau_core as core;
#[cfg(feature = "data")]
pub use laau_data as data;
pub use laau_kkt as kkt;
#[cfg(feature = "net")]
pub use laau_net as net;

#[doc(inline)]
pub use laau_core::Error;
pub use task::{shared_task, task};

/// The names that most programs need: `use laau::prelude::*;`.
pub mod prelude {
    pub use laau_baselines::{
        AvgLtOptions, CeOptions, CrPursuitOptions, DpOptions, DualDescentOptions, EqualOptions, OptOptions,
        RlOptions,
    };
    pub use laau_core::problems::{
        LlmTokens, LogUtility, PowerProvisioning, Trading, VmAllocation, WeightedFairness, Wireless,
    };
    pub use laau_core::{
        Agent, AutoDiff, Comparison, Dimensions, EpisodeRun, Episodes, Error, Fit, FitSets, Fitted, Ledger,
        Number, Observation, Policy, Problem, ProblemFunctions, Report, Sets, SmoothProblem, Task, Unfitted,
    };
    #[cfg(feature = "data")]
    pub use laau_data::Split;
    #[cfg(feature = "data")]
    pub use laau_data::synthetic::{ContextProcess, GenerateOptions, Workload};
    pub use laau_kkt::{FairnessLayer, InteriorPoint, Options};
    #[cfg(feature = "net")]
    pub use laau_net::{Laau, Phase, Training};
}
