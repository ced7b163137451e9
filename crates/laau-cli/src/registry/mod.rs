//! The only place that names concrete types: problems, layers and policies by their names.

mod fit;
mod policies;
mod problems;
mod workloads;

pub(crate) use self::fit::{POLICIES, Player, check_policy, fit, is_seeded, learned_spec, train_model};
pub(crate) use self::policies::{check_model, learned, untuned};
pub(crate) use self::problems::setting;
pub(crate) use self::workloads::{ProblemWorkload, workload};
