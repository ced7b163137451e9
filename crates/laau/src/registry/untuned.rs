//! Policies that decide without data, with parameters that were given or are sensible.

use std::collections::BTreeMap;

use laau_baselines::{
    AvgLt, CrPursuit, DualDescent, DualDescentParameters, Equal, Mirror, Predictor, PriceScale, Resolve,
    Rule, Start,
};
use laau_core::{Policy, Query, Solutions, StepSolver as _, Task};

use super::{Error, PolicyKind, suggest};

/// The parameters of a policy that decides without data; none if it needs data.
fn parameters_of(kind: PolicyKind) -> Option<&'static [&'static str]> {
    match kind {
        PolicyKind::Equal => Some(&[]),
        PolicyKind::AvgLt => Some(&["multiplier", "mean-context"]),
        PolicyKind::Dgd | PolicyKind::Mw => Some(&["step-size", "start", "price-scale"]),
        PolicyKind::CrPursuit => Some(&["ratio"]),
        PolicyKind::Ce => Some(&["mean-context", "strength"]),
        _ => None,
    }
}

/// What the values of a parameter must be, in words, and whether one is.
fn range_of(kind: PolicyKind, parameter: &str) -> (&'static str, fn(f64) -> bool) {
    const POSITIVE: (&str, fn(f64) -> bool) = ("a positive number", |value| value > 0.0);
    const NOT_NEGATIVE: (&str, fn(f64) -> bool) = ("a number of at least 0", |value| value >= 0.0);
    match (kind, parameter) {
        // Prices that are multiplied never leave 0.
        (_, "step-size" | "price-scale") | (PolicyKind::Mw, "start") => POSITIVE,
        (_, "start" | "strength" | "multiplier") => NOT_NEGATIVE,
        (_, "ratio") => ("a number of at least 1", |value| value >= 1.0),
        // A mean context is checked by the problem.
        _ => ("a finite number", f64::is_finite),
    }
}

/// Why a policy cannot decide without data, and what to do.
fn needs_data(kind: PolicyKind) -> Error {
    let hint = match kind {
        PolicyKind::Opt => {
            return Error::parameter(
                "policy `opt` sees the whole episode, and cannot decide step by step",
                "`laau compare` reports it; choose an online policy here",
            );
        }
        PolicyKind::Laau => "train a model with `laau train`, and give it with --model",
        PolicyKind::LaauHistory => {
            "train a model with `laau train --features history`, and give it with --model"
        }
        PolicyKind::LaauResidual => {
            "train a model with `laau train --form residual`, and give it with --model"
        }
        _ => "`laau compare -o DIR` fits it and writes its file: give that with --policy-file",
    };
    Error::parameter(format_args!("policy `{kind}` needs data to learn from"), hint)
}

/// What a step's context is taken to be on average when nobody says: the middle of [0, 1].
const MEAN_CONTEXT: f64 = 0.5;

/// A policy with parameters that were given or are sensible without a fit.
pub struct Untuned {
    /// The policy.
    pub policy: Box<dyn Policy>,
    /// All its parameters, by name.
    pub parameters: BTreeMap<String, Vec<f64>>,
}

/// A policy for an episode of known horizon and budgets, without data.
///
/// # Errors
/// [`Error::Parameter`] when the policy needs data, does not have a parameter that was given, or not with such a value.
pub fn untuned(
    kind: PolicyKind,
    given: &[(String, Vec<f64>)],
    task: &Task,
    horizon: usize,
    budgets: &[f64],
) -> Result<Untuned, Error> {
    let mut parameters = Parameters::read(kind, given)?;
    let dimensions = task.problem.dimensions();
    let policy: Box<dyn Policy> = match kind {
        PolicyKind::Equal => Box::new(Equal::new(task)),
        PolicyKind::AvgLt => {
            let multiplier = if let Some(multiplier) = parameters.get("multiplier") {
                multiplier.to_vec()
            } else {
                let mean = parameters.context(task)?;
                parameters.found("multiplier", share_price(task, &mean, horizon, budgets)?)
            };
            Box::new(AvgLt::new(task, multiplier)?)
        }
        PolicyKind::Dgd | PolicyKind::Mw => {
            let mirror = if kind == PolicyKind::Dgd {
                Mirror::Euclidean
            } else {
                Mirror::Entropic
            };
            let stock = DualDescentParameters {
                step_size: parameters.number("step-size", 1.0)?,
                start: Start::Scaled(parameters.number("start", 1.0)?),
                scale: match parameters.get("price-scale") {
                    Some(scale) => PriceScale::Given(scale.to_vec()),
                    None => PriceScale::FirstStep,
                },
            };
            Box::new(DualDescent::new(task, mirror, stock)?)
        }
        // On cloud workloads the smallest ratio that no episode runs out of budget with is 1.3 to 1.35.
        PolicyKind::CrPursuit => Box::new(CrPursuit::new(task, parameters.number("ratio", 1.35)?)?),
        PolicyKind::Ce => {
            let predictor = Predictor {
                mean: parameters.context(task)?,
                smallest: vec![0.0; dimensions.context],
                largest: vec![f64::MAX; dimensions.context],
                rule: Rule::ShrunkMean {
                    strength: parameters.number("strength", 2.0)?,
                },
            };
            Box::new(Resolve::new(task, predictor)?)
        }
        other => return Err(needs_data(other)),
    };
    Ok(Untuned {
        policy,
        parameters: parameters.0,
    })
}

/// The parameters of one policy.
struct Parameters(BTreeMap<String, Vec<f64>>);

impl Parameters {
    /// Takes what was given; refuses what the policy does not have.
    fn read(policy: PolicyKind, given: &[(String, Vec<f64>)]) -> Result<Self, Error> {
        let known = parameters_of(policy).ok_or_else(|| needs_data(policy))?;
        let mut parameters = BTreeMap::new();
        for (name, values) in given {
            if !known.contains(&name.as_str()) {
                let hint = match known {
                    [] => "leave --parameter out".to_owned(),
                    _ => suggest::hint(name, known.iter().copied()),
                };
                return Err(Error::parameter(
                    format_args!("policy `{policy}` has no parameter `{name}`"),
                    hint,
                ));
            }
            let (expected, holds) = range_of(policy, name);
            if let Some(found) = values.iter().find(|value| !value.is_finite() || !holds(**value)) {
                return Err(Error::parameter(
                    format_args!(
                        "policy `{policy}`: expected {expected} for parameter `{name}`, found {found}"
                    ),
                    format_args!("correct it, or leave --parameter {name} out for the default"),
                ));
            }
            if parameters.insert(name.clone(), values.clone()).is_some() {
                return Err(Error::parameter(
                    format_args!("parameter `{name}` is given twice"),
                    "give each parameter once",
                ));
            }
        }
        if parameters.contains_key("multiplier") && parameters.contains_key("mean-context") {
            return Err(Error::parameter(
                "parameter `mean-context` has no effect beside `multiplier`",
                "leave one of them out: the multiplier follows from the mean context",
            ));
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

    fn number(&mut self, name: &str, default: f64) -> Result<f64, Error> {
        match self.get(name) {
            None => Ok(self.found(name, vec![default])[0]),
            Some([value]) => Ok(*value),
            Some(values) => Err(Error::parameter(
                format_args!("parameter `{name}` is one number, found {}", values.len()),
                format_args!("for example --parameter {name}={default}"),
            )),
        }
    }

    /// The mean context: one number per entry, or one for all.
    fn context(&mut self, task: &Task) -> Result<Vec<f64>, Error> {
        const NAME: &str = "mean-context";
        let len = task.problem.dimensions().context;
        let mean = match self.get(NAME) {
            None => self.found(NAME, vec![MEAN_CONTEXT; len]),
            Some([value]) => vec![*value; len],
            Some(values) if values.len() == len => values.to_vec(),
            Some(values) => {
                return Err(Error::parameter(
                    format_args!("parameter `{NAME}` has {} entries, a context {len}", values.len()),
                    "give one number per entry of the context, or one for all",
                ));
            }
        };
        task.problem.check_context(&mean).map_err(|error| {
            Error::parameter(
                format_args!("{mean:?} is no context of `{}`: {error}", task.problem.name()),
                format_args!("give a typical context with --parameter {NAME}=…, one number per entry"),
            )
        })?;
        Ok(mean)
    }
}

/// The price of each budget when a step of this context has its equal share to spend.
fn share_price(task: &Task, context: &[f64], horizon: usize, budgets: &[f64]) -> Result<Vec<f64>, Error> {
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
