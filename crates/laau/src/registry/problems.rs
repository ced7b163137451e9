//! Problems by name, each with its solver.

use laau_core::problems::{
    LlmTokens, LogUtility, PowerProvisioning, Trading, VmAllocation, WeightedFairness, Wireless,
};
use laau_core::{Error, Task};
use serde::{Deserialize, Serialize};

use crate::task::task;

/// A built-in problem with all its parameters; in files, `name` says which. Parameters that are not given have the
/// problem's defaults.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum ProblemSpec {
    /// [`WeightedFairness`].
    WeightedFairness(WeightedFairnessSpec),
    /// [`LogUtility`].
    LogUtility(LogUtilitySpec),
    /// [`VmAllocation`].
    VmAllocation(VmAllocationSpec),
    /// [`Wireless`].
    Wireless(WirelessSpec),
    /// [`Trading`].
    Trading(TradingSpec),
    /// [`PowerProvisioning`].
    Power(PowerSpec),
    /// [`LlmTokens`].
    LlmTokens(LlmTokensSpec),
}

/// Declares the parameters of a problem with their defaults.
macro_rules! spec {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

spec! {
    /// Parameters of [`WeightedFairness`].
    WeightedFairnessSpec {
        /// The least action.
        lower: f64 = 1.0,
        /// The greatest action.
        upper: f64 = 40.0,
    }
}

spec! {
    /// Parameters of [`LogUtility`].
    LogUtilitySpec {
        /// The least action.
        lower: f64 = 1.0,
        /// The greatest action.
        upper: f64 = 40.0,
        /// Number of actions; as many as `usage` has columns, or 2.
        actions: Option<usize> = None,
        /// Usage of each budget (row) by each action (column); one budget that all actions share if not given.
        usage: Option<Vec<Vec<f64>>> = None,
    }
}

spec! {
    /// Parameters of [`VmAllocation`].
    VmAllocationSpec {
        /// The least amount of a resource.
        lower: f64 = 1.0,
        /// The greatest amount of a resource.
        upper: f64 = 40.0,
        /// Number of resources.
        actions: usize = 4,
        /// Fairness.
        alpha: f64 = 2.0,
    }
}

spec! {
    /// Parameters of [`Wireless`].
    WirelessSpec {
        /// The greatest power of a channel.
        upper: f64 = 4.0,
        /// Number of channels.
        actions: usize = 3,
        /// Bandwidth of a channel.
        bandwidth: f64 = 1.0,
    }
}

spec! {
    /// Parameters of [`Trading`].
    TradingSpec {
        /// The greatest sale of a step.
        upper: f64 = 10.0,
        /// Market impact.
        impact: f64 = 0.05,
    }
}

spec! {
    /// Parameters of [`PowerProvisioning`].
    PowerSpec {
        /// The least action.
        lower: f64 = 1.1,
        /// The greatest action.
        upper: f64 = 6.0,
        /// Energy per unit of each load.
        energy: Vec<f64> = vec![1.0, 0.8],
        /// The greatest load.
        most_load: f64 = 1.0,
        /// The greatest carbon intensity.
        most_intensity: f64 = 1.0,
    }
}

spec! {
    /// Parameters of [`LlmTokens`].
    LlmTokensSpec {
        /// The greatest grant of a step, in thousands of tokens.
        upper: f64 = 20.0,
        /// Number of classes of requests.
        actions: usize = 2,
        /// Curvature of the utility.
        kappa: f64 = 9.0,
        /// Price of a thousand prompt tokens.
        input_price: f64 = 1.0,
        /// Price of a thousand output tokens.
        output_price: f64 = 3.0,
    }
}

impl Default for ProblemSpec {
    fn default() -> Self {
        Self::WeightedFairness(WeightedFairnessSpec::default())
    }
}

impl ProblemSpec {
    /// The names there are.
    pub const NAMES: [&'static str; 7] = [
        "weighted-fairness",
        "log-utility",
        "vm-allocation",
        "wireless",
        "trading",
        "power",
        "llm-tokens",
    ];

    /// The problem's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        let index = match self {
            Self::WeightedFairness(_) => 0,
            Self::LogUtility(_) => 1,
            Self::VmAllocation(_) => 2,
            Self::Wireless(_) => 3,
            Self::Trading(_) => 4,
            Self::Power(_) => 5,
            Self::LlmTokens(_) => 6,
        };
        Self::NAMES[index]
    }

    /// The numbers of actions and budgets, by the parameters alone: nothing of that size is made.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        match self {
            Self::WeightedFairness(_) | Self::Trading(_) => (1, 1),
            Self::LogUtility(spec) => (spec.actions(), spec.usage.as_ref().map_or(1, Vec::len)),
            Self::VmAllocation(spec) => (spec.actions, spec.actions),
            Self::Wireless(spec) => (spec.actions, 2),
            Self::Power(spec) => (spec.energy.len(), 2),
            Self::LlmTokens(spec) => (spec.actions, 2),
        }
    }

    /// The problem with the best solver for it, and a projector if it has several actions.
    ///
    /// # Errors
    /// [`Error::InvalidProblem`] and others for parameters outside their ranges.
    pub fn task(&self) -> Result<Task, Error> {
        match self {
            Self::WeightedFairness(WeightedFairnessSpec { lower, upper }) => {
                task(WeightedFairness::new(*lower, *upper)?)
            }
            Self::LogUtility(spec) => task(spec.problem()?),
            Self::VmAllocation(VmAllocationSpec {
                lower,
                upper,
                actions,
                alpha,
            }) => task(VmAllocation::new(
                *alpha,
                vec![*lower; check_pairs("vm-allocation", *actions)?],
                vec![*upper; *actions],
            )?),
            Self::Wireless(WirelessSpec {
                upper,
                actions,
                bandwidth,
            }) => task(Wireless::new(
                check_actions("wireless", *actions)?,
                *bandwidth,
                *upper,
            )?),
            Self::Trading(TradingSpec { upper, impact }) => task(Trading::new(*impact, *upper)?),
            Self::Power(PowerSpec {
                lower,
                upper,
                energy,
                most_load,
                most_intensity,
            }) => task(PowerProvisioning::new(
                energy.clone(),
                *most_load,
                *most_intensity,
                *lower,
                *upper,
            )?),
            Self::LlmTokens(LlmTokensSpec {
                upper,
                actions,
                kappa,
                input_price,
                output_price,
            }) => task(LlmTokens::new(
                check_actions("llm-tokens", *actions)?,
                *kappa,
                *input_price,
                *output_price,
                *upper,
            )?),
        }
    }
}

/// Refuses sizes that no machine has the memory for.
fn check_actions(problem: &str, actions: usize) -> Result<usize, Error> {
    check_most(problem, actions, 1_000_000)
}

/// The same where a solver keeps a number for each pair of actions: a few gigabytes at most.
fn check_pairs(problem: &str, actions: usize) -> Result<usize, Error> {
    check_most(problem, actions, 10_000)
}

fn check_most(problem: &str, actions: usize, most: usize) -> Result<usize, Error> {
    if actions <= most {
        return Ok(actions);
    }
    Err(Error::InvalidProblem {
        problem: problem.to_owned(),
        reason: format!("expected at most {most} actions, found {actions}"),
    })
}

impl LogUtilitySpec {
    fn actions(&self) -> usize {
        let columns = self.usage.as_ref().and_then(|usage| usage.first()).map(Vec::len);
        self.actions.or(columns).unwrap_or(2)
    }

    pub(super) fn problem(&self) -> Result<LogUtility, Error> {
        let actions = self.actions();
        let usage = match &self.usage {
            Some(usage) => usage.clone(),
            None => vec![vec![1.0; check_actions("log-utility", actions)?]],
        };
        if let Some((row, found)) = usage.iter().enumerate().find(|(_, row)| row.len() != actions) {
            return Err(Error::InvalidProblem {
                problem: "log-utility".to_owned(),
                reason: format!(
                    "expected {actions} columns in row {row} of the usage, one per action, found {}",
                    found.len()
                ),
            });
        }
        LogUtility::new(actions, usage.len(), usage.concat(), self.lower, self.upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laau_core::{Problem, StepSolver as _};

    fn named(name: &str) -> ProblemSpec {
        serde_json::from_value(serde_json::json!({ "name": name })).unwrap()
    }

    #[test]
    fn every_name_makes_the_problem_of_that_name_with_a_solver_for_it() {
        for name in ProblemSpec::NAMES {
            let spec = named(name);
            let task = spec.task().unwrap();
            assert_eq!((spec.name(), task.problem.name()), (name, name));
            assert_eq!(task.solver.problem().name(), name);
            let text = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<ProblemSpec>(&text).unwrap(), spec);
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let stock: [&dyn Problem; 6] = [
            &WeightedFairness::paper(),
            &VmAllocation::server(),
            &Wireless::three_channels(),
            &Trading::inventory(),
            &PowerProvisioning::two_loads(),
            &LlmTokens::two_classes(),
        ];
        for problem in stock {
            let task = named(problem.name()).task().unwrap();
            assert_eq!(
                task.problem.dimensions(),
                problem.dimensions(),
                "{}",
                problem.name()
            );
            assert_eq!(task.problem.lower(), problem.lower(), "{}", problem.name());
            assert_eq!(task.problem.upper(), problem.upper(), "{}", problem.name());
        }
    }

    #[test]
    fn the_size_by_the_parameters_is_that_of_the_problem() {
        let more = [
            r#"{"name": "log-utility", "actions": 5}"#,
            r#"{"name": "log-utility", "usage": [[1, 2, 3], [3, 2, 1]]}"#,
            r#"{"name": "vm-allocation", "actions": 7}"#,
            r#"{"name": "wireless", "actions": 5}"#,
            r#"{"name": "power", "energy": [1, 2, 3]}"#,
            r#"{"name": "llm-tokens", "actions": 6}"#,
        ];
        let more = more.map(|text| serde_json::from_str(text).unwrap());
        for spec in ProblemSpec::NAMES.map(named).into_iter().chain(more) {
            let dimensions = spec.task().unwrap().problem.dimensions();
            assert_eq!(spec.size(), (dimensions.actions, dimensions.budgets), "{spec:?}");
        }
    }

    #[test]
    fn a_parameter_of_another_problem_is_refused() {
        let text = r#"{"name": "trading", "alpha": 2.0}"#;
        let error = serde_json::from_str::<ProblemSpec>(text).unwrap_err();
        assert!(error.to_string().contains("unknown field `alpha`"), "{error}");
    }
}
