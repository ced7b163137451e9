//! `laau gradcheck`: every gradient against finite differences.

mod draw;
mod network;
mod tally;

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use laau::core::Episode;
use laau::kkt::gradcheck::{GradcheckOptions, check_episode, check_layer, check_problem};
use laau::net::EngineKind;

use self::draw::Draw;
use self::tally::Tally;
use crate::config::{ConfigFile, Flags, ProblemSection};
use crate::failure::Failure;
use crate::output;
use crate::sets::check_model;
use laau::core::align;

/// Steps of the episodes that are drawn; those for a model have its own horizon.
const HORIZON: usize = 6;

/// Episodes that a model is checked on.
const MODEL_EPISODES: usize = 3;

/// The arguments as they are typed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  $ laau gradcheck
  $ laau gradcheck --problem vm-allocation --points 50
  $ laau gradcheck --model model.safetensors

Derivatives of the problem, pullbacks of its layer and gradients of whole episodes are compared with finite differences at
points that are drawn; with --model also the weights' gradients of both engines. A derivative at a kink is counted and
not compared. The status is 1 when one is off by more than the tolerance.")]
pub(crate) struct GradcheckArgs {
    /// Also checks the gradients of a model's weights
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Points, queries and episodes to draw
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    points: u32,
    /// The seed of the draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The largest relative error that is accepted
    #[arg(long, default_value_t = 1e-5)]
    tolerance: f64,
    /// How the findings are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    problem: Flags<ProblemSection>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Columns that line up
    Table,
    /// One JSON object
    Json,
}

/// Checks and prints; a gradient that is off is a failure.
pub(crate) fn run(arguments: &GradcheckArgs) -> Result<(), Failure> {
    if !(arguments.tolerance.is_finite() && arguments.tolerance > 0.0) {
        return Err(Failure::new(
            format_args!(
                "expected a positive number for --tolerance, found {}",
                arguments.tolerance
            ),
            "for example --tolerance 1e-5",
        ));
    }
    let task = arguments.config.read()?.problem(&arguments.problem)?.task()?;
    let model = match &arguments.model {
        Some(path) => {
            let (model, _) = laau::net::load_model(path)?;
            check_model(&task, &model.spec)?;
            Some(model)
        }
        None => None,
    };
    let problem = &*task.problem;
    let options = GradcheckOptions::default();
    let mut layer = task.solver.clone();
    let mut draw = Draw::new(problem, arguments.seed)?;
    let [mut derivatives, mut pullbacks, mut episodes] =
        ["problem derivatives", "layer pullback", "whole episode"].map(Tally::new);
    for _ in 0..arguments.points {
        let point = draw.point()?;
        derivatives.add(&check_problem(
            problem,
            &point.action,
            &point.context,
            &point.multiplier,
            &options,
        )?);
        pullbacks.add(&check_layer(
            &mut *layer,
            point.query(),
            &point.upstream,
            &options,
        )?);
        let (contexts, budgets) = draw.episode(HORIZON)?;
        let prices = draw.prices(&contexts);
        let episode = Episode::new(&contexts, problem.dimensions().context, &budgets)?;
        episodes.add(&check_episode(&mut *layer, &episode, &prices, &options)?);
    }
    let mut tallies = vec![derivatives, pullbacks, episodes];
    if let Some(model) = &model {
        let set = draw.set(MODEL_EPISODES, model.spec.horizon)?;
        for (name, kind) in [
            ("weights, fused engine", EngineKind::Fused),
            ("weights, candle engine", EngineKind::Candle),
        ] {
            tallies.push(network::check(name, kind, model, &task, &set)?);
        }
    }
    output::print(match arguments.format {
        Format::Table => align(
            &tally::HEADING,
            &tallies.iter().map(Tally::row).collect::<Vec<_>>(),
        ),
        Format::Json => tally::json(problem.name(), arguments.tolerance, &tallies)?,
    })?;
    for tally in &tallies {
        if let Some(fault) = tally.fault(arguments.tolerance) {
            return Err(fault);
        }
    }
    Ok(())
}
