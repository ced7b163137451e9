//! Algorithm 2: learning while serving, from a cold start; and the rates of Proposition 6.3.

use laau::core::tables::{RateRow, RoundRow};
use laau::core::{Episodes, Fit as _, Rollout, Sets, Task};
use laau::net::{Laau, OnlineTraining, Optimiser};

use super::settings::Experiment;
use super::tables::Tables;
use super::{Cell, Study};
use crate::failure::Failure;

/// Episodes that normalise a cold model: all that is known before its first step. It is not scored on them.
const FIRST_LOOK: usize = 10;

/// Runs every method over the same stream of episodes; writes `online_learning.csv` and `online_rates.csv`.
pub(super) fn run(study: &Study, cell: Cell, tables: &mut Tables) -> Result<(), Failure> {
    let Study { experiment, task, .. } = study;
    let seed = cell.seed;
    let data = study.source.name(cell.construction);
    let sets = study.sets(cell)?;
    let lines = methods(experiment, task, &sets, seed)?;
    for line in &lines {
        let mut sum = 0.0;
        for (index, utility) in line.utilities.iter().enumerate() {
            sum += utility;
            let round = index + 1;
            if is_reported(round, line.utilities.len()) {
                tables.add(&RoundRow {
                    data: data.clone(),
                    method: line.method.clone(),
                    learning_rate: line.learning_rate,
                    seed,
                    round,
                    utility: sum / round as f64,
                })?;
            }
        }
    }
    // The loss of a round against the model that was trained before, on the same episode: what the proposition bounds.
    let best = lines.iter().find(|line| line.method == "laau");
    let best = best.map_or(&[][..], |line| &line.utilities);
    let first = first_look(&sets.validation);
    for &learning_rate in &experiment.learning_rates {
        let utilities = learn(
            task,
            &Laau::paper(),
            Optimiser::Sgd,
            learning_rate,
            &first,
            &sets.test,
            seed,
        )?;
        let losses: Vec<f64> = best
            .iter()
            .zip(&utilities)
            .map(|(best, own)| best - own)
            .collect();
        let mut begin = 0;
        for round in 1..=losses.len() {
            if is_reported(round, losses.len()) {
                let block = &losses[begin..round];
                tables.add(&RateRow {
                    data: data.clone(),
                    learning_rate,
                    seed,
                    first_round: begin + 1,
                    last_round: round,
                    loss: block.iter().sum::<f64>() / block.len() as f64,
                })?;
                begin = round;
            }
        }
    }
    Ok(())
}

/// About eight rounds per factor of ten, and the last.
fn is_reported(round: usize, last: usize) -> bool {
    let slot = |round: usize| ((round as f64).log10() * 8.0).floor();
    round == 1 || round == last || slot(round) != slot(round - 1)
}

/// What one method earned in every round.
struct Line {
    method: String,
    /// The rate that was chosen on the validation episodes; 0 for a policy that does not learn on the way.
    learning_rate: f64,
    utilities: Vec<f64>,
}

/// Utility of every round, by method.
fn methods(experiment: &Experiment, task: &Task, sets: &Sets, seed: u64) -> Result<Vec<Line>, Failure> {
    let stream = &sets.test;
    let mut lines = Vec::new();
    for (name, laau, optimiser) in [
        ("LAAU online (SGD)", Laau::paper(), Optimiser::Sgd),
        ("LAAU online (Adam)", Laau::paper(), Optimiser::adam()),
        (
            "LAAU+ residual online (Adam)",
            Laau::residual(),
            Optimiser::adam(),
        ),
    ] {
        // The step size is chosen on the validation episodes, as a stream of its own.
        let mut best: Option<(f64, f64)> = None;
        for &rate in &experiment.learning_rates {
            let first = first_look(&sets.train);
            let utilities = learn(task, &laau, optimiser, rate, &first, &sets.validation, seed)?;
            let mean = utilities.iter().sum::<f64>() / utilities.len().max(1) as f64;
            if best.is_none_or(|(most, _)| mean > most) {
                best = Some((mean, rate));
            }
        }
        let rate = best.map_or(1e-2, |(_, rate)| rate);
        lines.push(Line {
            method: name.to_owned(),
            learning_rate: rate,
            utilities: learn(
                task,
                &laau,
                optimiser,
                rate,
                &first_look(&sets.validation),
                stream,
                seed,
            )?,
        });
    }
    for name in &experiment.policies {
        let fitted = name
            .fit(&experiment.training(seed))
            .fit(task, sets.to_fit(), seed, &mut ())?;
        let utilities = fitted
            .player
            .play(task, stream)?
            .iter()
            .map(Rollout::utility)
            .collect();
        lines.push(Line {
            method: name.to_string(),
            learning_rate: 0.0,
            utilities,
        });
    }
    Ok(lines)
}

fn first_look(episodes: &Episodes) -> Episodes {
    episodes.select(&(0..episodes.len().min(FIRST_LOOK)).collect::<Vec<_>>())
}

/// The utility of every round of a cold model.
fn learn(
    task: &Task,
    laau: &Laau,
    optimiser: Optimiser,
    learning_rate: f64,
    first: &Episodes,
    stream: &Episodes,
    seed: u64,
) -> Result<Vec<f64>, Failure> {
    let model = laau.initial(task, first, seed)?;
    let training = OnlineTraining {
        optimiser,
        learning_rate,
        ..OnlineTraining::default()
    };
    let run = training.check(model, task.solver.clone())?.run(stream, &mut ())?;
    Ok(run.rollouts.iter().map(Rollout::utility).collect())
}
