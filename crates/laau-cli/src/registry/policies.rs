//! Policies by name.

use std::collections::BTreeMap;

use laau_baselines::{
    CertaintyEquivalent, CrPursuit, DualDescent, DualDescentParameters, Equal, Mirror, Predictor, Rule,
    Start, avg_lt,
};
use laau_core::{Policy, Query, Solutions, StepSolver as _, Task, Unrolled};
use laau_net::{Model, ModelSpec};

use crate::failure::Failure;
use crate::suggest;

/// Policies that decide without data, and the parameters that each has.
const UNTUNED: &[(&str, &[&str])] = &[
    ("equal", &[]),
    ("avg-lt", &["multiplier", "mean-context"]),
    ("dgd", &["step-size", "start"]),
    ("mw", &["step-size", "start"]),
    ("cr-pursuit", &["ratio"]),
    ("ce", &["mean-context", "strength"]),
];

/// Policies that need data first, and where they come from.
const FITTED: &[(&str, &str)] = &[
    ("opt", "`laau compare` reports it; choose an online policy here"),
    (
        "laau",
        "train a model with `laau train`, and give it with --model",
    ),
    (
        "laau-history",
        "train a model with `laau train --features history`, and give it with --model",
    ),
    (
        "laau-residual",
        "train a model with `laau train --form residual`, and give it with --model",
    ),
    (
        "rl",
        "`laau compare` trains and reports it; choose another policy here",
    ),
    (
        "dp",
        "`laau compare` fits and reports it; choose another policy here",
    ),
];

/// What a step's context is taken to be on average when nobody says: the middle of [0, 1].
const MEAN_CONTEXT: f64 = 0.5;

/// A policy with parameters that were given or are sensible without a fit.
pub(crate) struct UntunedPolicy {
    /// The policy.
    pub(crate) policy: Box<dyn Policy>,
    /// All its parameters, by name.
    pub(crate) parameters: BTreeMap<String, Vec<f64>>,
}

/// The policy of a trained model.
pub(crate) fn learned_policy(task: &Task, model: Model) -> Result<Box<dyn Policy>, Failure> {
    check_model(task, &model.spec)?;
    Ok(Box::new(Unrolled::new("laau", model, task.solver.clone())?))
}

/// Refuses a model of another problem.
pub(crate) fn check_model(task: &Task, spec: &ModelSpec) -> Result<(), Failure> {
    spec.check_problem(&*task.problem).map_err(|_| {
        let (theirs, ours) = (spec.dimensions, task.problem.dimensions());
        let sizes = |d: laau_core::Dimensions| {
            format!(
                "{} actions, {} budgets, context of {}",
                d.actions, d.budgets, d.context
            )
        };
        Failure::new(
            format_args!(
                "the model is for problem `{}` ({}), not for `{}` ({})",
                spec.problem,
                sizes(theirs),
                task.problem.name(),
                sizes(ours)
            ),
            format_args!("name the model's problem: --problem {}", spec.problem),
        )
    })
}

/// A policy by name for an episode of known horizon and budgets, without data.
pub(crate) fn untuned(
    name: &str,
    given: &[(String, Vec<f64>)],
    task: &Task,
    horizon: usize,
    budgets: &[f64],
) -> Result<UntunedPolicy, Failure> {
    let mut parameters = Parameters::read(name, given)?;
    let dimensions = task.problem.dimensions();
    let policy: Box<dyn Policy> = match name {
        "equal" => Box::new(Equal::new(task)),
        "avg-lt" => {
            let multiplier = if let Some(multiplier) = parameters.get("multiplier") {
                multiplier.to_vec()
            } else {
                let mean = parameters.context(task)?;
                parameters.found("multiplier", share_price(task, &mean, horizon, budgets)?)
            };
            Box::new(avg_lt(task, multiplier)?)
        }
        "dgd" | "mw" => {
            let mirror = if name == "dgd" {
                Mirror::Euclidean
            } else {
                Mirror::Entropic
            };
            let stock = DualDescentParameters {
                step_size: parameters.number("step-size", 1.0)?,
                start: Start::Scaled(parameters.number("start", 1.0)?),
                ..DualDescentParameters::default()
            };
            Box::new(DualDescent::new(task, mirror, stock)?)
        }
        // On cloud workloads the smallest ratio that no episode runs out of budget with is 1.3 to 1.35.
        "cr-pursuit" => Box::new(CrPursuit::new(task, parameters.number("ratio", 1.35)?)?),
        "ce" => {
            let predictor = Predictor {
                mean: parameters.context(task)?,
                smallest: vec![0.0; dimensions.context],
                largest: vec![f64::MAX; dimensions.context],
                rule: Rule::ShrunkMean {
                    strength: parameters.number("strength", 2.0)?,
                },
            };
            Box::new(CertaintyEquivalent::new(task, predictor)?.into_policy(task)?)
        }
        unknown => return Err(unknown_policy(unknown)),
    };
    Ok(UntunedPolicy {
        policy,
        parameters: parameters.0,
    })
}

/// The parameters of one policy.
struct Parameters(BTreeMap<String, Vec<f64>>);

impl Parameters {
    /// Takes what was given; refuses what the policy does not have.
    fn read(policy: &str, given: &[(String, Vec<f64>)]) -> Result<Self, Failure> {
        let Some((_, known)) = UNTUNED.iter().find(|(name, _)| *name == policy) else {
            return Err(unknown_policy(policy));
        };
        let mut parameters = BTreeMap::new();
        for (name, values) in given {
            if !known.contains(&name.as_str()) {
                let hint = match known {
                    [] => "leave --parameter out".to_owned(),
                    _ => suggest::hint(name, known.iter().copied()),
                };
                return Err(Failure::new(
                    format_args!("policy `{policy}` has no parameter `{name}`"),
                    hint,
                ));
            }
            if parameters.insert(name.clone(), values.clone()).is_some() {
                return Err(Failure::new(
                    format_args!("parameter `{name}` is given twice"),
                    "give each parameter once",
                ));
            }
        }
        Ok(Self(parameters))
    }

    fn get(&self, name: &str) -> Option<&[f64]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// Keeps what was found for a parameter that was not given.
    fn found(&mut self, name: &str, values: Vec<f64>) -> Vec<f64> {
        self.0.insert(name.to_owned(), values.clone());
        values
    }

    fn number(&mut self, name: &str, default: f64) -> Result<f64, Failure> {
        match self.get(name) {
            None => Ok(self.found(name, vec![default])[0]),
            Some([value]) => Ok(*value),
            Some(values) => Err(Failure::new(
                format_args!("parameter `{name}` is one number, found {}", values.len()),
                format_args!("for example --parameter {name}={default}"),
            )),
        }
    }

    /// The mean context: one number per entry, or one for all.
    fn context(&mut self, task: &Task) -> Result<Vec<f64>, Failure> {
        const NAME: &str = "mean-context";
        let len = task.problem.dimensions().context;
        let mean = match self.get(NAME) {
            None => self.found(NAME, vec![MEAN_CONTEXT; len]),
            Some([value]) => vec![*value; len],
            Some(values) if values.len() == len => values.to_vec(),
            Some(values) => {
                return Err(Failure::new(
                    format_args!("parameter `{NAME}` has {} entries, a context {len}", values.len()),
                    "give one number per entry of the context, or one for all",
                ));
            }
        };
        task.problem.check_context(&mean).map_err(|error| {
            Failure::new(
                format_args!("{mean:?} is no context of `{}`: {error}", task.problem.name()),
                format_args!("give a typical context with --parameter {NAME}=…, one number per entry"),
            )
        })?;
        Ok(mean)
    }
}

/// The price of each budget when a step of this context has its equal share to spend.
fn share_price(task: &Task, context: &[f64], horizon: usize, budgets: &[f64]) -> Result<Vec<f64>, Failure> {
    let dimensions = task.problem.dimensions();
    let share: Vec<f64> = budgets.iter().map(|budget| budget / horizon as f64).collect();
    let mut solution = Solutions::new(dimensions, 1);
    let query = Query {
        context,
        multiplier: &vec![0.0; dimensions.budgets],
        available: &share,
    };
    task.solver.clone().solve(query, solution.row_mut(0))?;
    Ok(solution.row(0).duals.to_vec())
}

fn unknown_policy(unknown: &str) -> Failure {
    match FITTED.iter().find(|(name, _)| *name == unknown) {
        Some(("opt", hint)) => Failure::new(
            "policy `opt` sees the whole episode, and cannot decide step by step",
            hint,
        ),
        Some((name, hint)) => Failure::new(format_args!("policy `{name}` needs data to learn from"), hint),
        None => Failure::new(
            format_args!("unknown policy `{unknown}`"),
            suggest::hint(
                unknown,
                UNTUNED
                    .iter()
                    .map(|(name, _)| *name)
                    .chain(FITTED.iter().map(|(name, _)| *name)),
            ),
        ),
    }
}
