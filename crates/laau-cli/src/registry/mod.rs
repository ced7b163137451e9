//! The only place that names concrete types: problems, layers and policies by their names.

mod fit;
mod policies;
mod problems;
mod workloads;

pub(crate) use self::fit::{POLICIES, check_policy, fit, fitter, learned};
pub(crate) use self::policies::{check_model, learned_policy, untuned};
pub(crate) use self::problems::task;
pub(crate) use self::workloads::{ProblemWorkload, workload};
