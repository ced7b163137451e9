//! Policies by name, fitted on data.

use std::collections::BTreeMap;

use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuitOptions, DpOptions, DualDescentOptions, EqualOptions, Fitted,
    HorizonOptions, Mirror, Optimum, RlOptions, Setting, optimum,
};
use laau_core::problems::WeightedFairness;
use laau_core::{
    Episodes, GradientCounts, Hindsight, Policy, Rollout, Unrolled, rollout_all, rollout_hindsight,
};
use laau_net::{Features, Form, Model, ModelSpec, Network, Output, Statistics, Training};

use crate::failure::Failure;
use crate::suggest;

/// Every policy that can be fitted, in the order of reports.
pub(crate) const POLICIES: &[&str] = &[
    "opt",
    "equal",
    "avg-lt",
    "dgd",
    "mw",
    "cr-pursuit",
    "rl",
    "ce",
    "dp",
    "laau",
    "laau-history",
    "laau-residual",
];

/// Refuses a name that no policy has.
pub(crate) fn check_policy(name: &str) -> Result<(), Failure> {
    if POLICIES.contains(&name) {
        return Ok(());
    }
    Err(Failure::new(
        format_args!("unknown policy `{name}`"),
        suggest::hint(name, POLICIES.iter().copied()),
    ))
}

/// Whether a policy's fit depends on the seed; the others are the same for every seed.
pub(crate) fn is_seeded(name: &str) -> bool {
    name == "rl" || name.starts_with("laau")
}

/// A policy that is ready to play, and what was found for it.
pub(crate) struct Player {
    kind: Kind,
    /// What was fitted or tuned, by name.
    pub(crate) parameters: BTreeMap<String, f64>,
    /// Exact and approximate gradients in training, for a policy that was trained.
    pub(crate) gradients: Option<GradientCounts>,
}

enum Kind {
    Online(Box<dyn Policy>),
    Hindsight(Box<dyn Hindsight>),
}

impl Player {
    fn fitted(fitted: Fitted) -> Self {
        Self {
            kind: Kind::Online(fitted.policy),
            parameters: fitted.parameters,
            gradients: None,
        }
    }

    /// Plays all episodes.
    pub(crate) fn play(&self, setting: &Setting, episodes: &Episodes) -> Result<Vec<Rollout>, Failure> {
        Ok(match &self.kind {
            Kind::Online(policy) => rollout_all(&*setting.problem, &**policy, episodes)?,
            Kind::Hindsight(hindsight) => rollout_hindsight(&setting.plain(), &**hindsight, episodes)?,
        })
    }
}

/// Fits a policy by name; `training` is for those that are trained, its seed for all that draw.
pub(crate) fn fit(
    name: &str,
    setting: &Setting,
    train: &Episodes,
    validation: &Episodes,
    training: &Training,
) -> Result<Player, Failure> {
    let dual = |mirror| DualDescentOptions::new(mirror).fit(setting, train, validation);
    Ok(Player::fitted(match name {
        "opt" => {
            let kind = Kind::Hindsight(offline_optimum(setting)?);
            return Ok(Player {
                kind,
                parameters: BTreeMap::new(),
                gradients: None,
            });
        }
        "equal" => EqualOptions::default().fit(setting, train, validation)?,
        "avg-lt" => AvgLtOptions::default().fit(setting, train, validation)?,
        "dgd" => dual(Mirror::Euclidean)?,
        "mw" => dual(Mirror::Entropic)?,
        "cr-pursuit" => CrPursuitOptions::default().fit(setting, train, validation)?,
        "rl" => rl(training).fit(setting, train, validation)?,
        "ce" => CeOptions::default().fit(setting, train, validation)?,
        "dp" => DpOptions::default().fit(setting, train, validation)?,
        _ => {
            let Some(spec) = learned_spec(name, setting, train.horizon()) else {
                return Err(Failure::new(
                    format_args!("unknown policy `{name}`"),
                    suggest::hint(name, POLICIES.iter().copied()),
                ));
            };
            return train_model(name, spec, setting, train, Some(validation), training)
                .map(|(_, player)| player);
        }
    }))
}

/// Trains a model; without validation episodes the last weights are kept.
pub(crate) fn train_model(
    name: &str,
    spec: ModelSpec,
    setting: &Setting,
    train: &Episodes,
    validation: Option<&Episodes>,
    training: &Training,
) -> Result<(Model, Player), Failure> {
    let statistics = Statistics::fit(&spec, &mut setting.solver.clone(), train)?;
    let mut model = Model::new(spec, statistics, training.seed)?;
    let trained = training
        .clone()
        .check()?
        .run(&mut model, &*setting.solver, train, validation, &mut ())?;
    let policy = Unrolled::new(name, model.clone(), setting.solver.clone())?;
    let mut parameters = BTreeMap::from([("epochs".to_owned(), trained.history.len() as f64)]);
    if let Some(epoch) = trained.summary.best_epoch {
        parameters.insert("best_epoch".to_owned(), epoch as f64);
    }
    let gradients = Some(trained.summary.gradients);
    Ok((
        model,
        Player {
            kind: Kind::Online(Box::new(policy)),
            parameters,
            gradients,
        },
    ))
}

/// The model behind a policy's name: the paper's, and the two that see the history.
pub(crate) fn learned_spec(name: &str, setting: &Setting, horizon: usize) -> Option<ModelSpec> {
    let (network, features, output, form) = match name {
        "laau" => (paper_network(), Features::Paper, Output::Softplus, Form::Plain),
        "laau-history" => (paper_network(), Features::History, Output::Softplus, Form::Plain),
        "laau-residual" => (paper_network(), Features::History, Output::Exp, Form::Residual),
        "linear" => (
            Network::Linear {
                norm_bound: Some(10.0),
            },
            Features::Paper,
            Output::Softplus,
            Form::Plain,
        ),
        _ => return None,
    };
    Some(ModelSpec {
        problem: setting.problem.name().to_owned(),
        dimensions: setting.problem.dimensions(),
        horizon,
        network,
        features,
        output,
        form,
    })
}

fn paper_network() -> Network {
    Network::Mlp {
        hidden: vec![10, 10],
        spectral_bound: None,
    }
}

fn rl(training: &Training) -> RlOptions {
    let schedule = training
        .phases
        .iter()
        .map(|phase| laau_baselines::Phase {
            epochs: phase.epochs,
            learning_rate: phase.learning_rate,
        })
        .collect();
    RlOptions {
        schedule,
        batch: training.batch,
        seed: training.seed,
        ..RlOptions::default()
    }
}

/// Water-filling where it is exact, an interior point over the horizon elsewhere.
fn offline_optimum(setting: &Setting) -> Result<Box<dyn Hindsight>, Failure> {
    let problem = &setting.problem;
    Ok(optimum(if problem.name() == WeightedFairness::NAME {
        Optimum::WaterFilling(WeightedFairness::new(problem.lower()[0], problem.upper()[0])?)
    } else {
        Optimum::Horizon(problem.clone(), HorizonOptions::default())
    })?)
}
