//! `laau train`: a model from episodes.

mod files;
mod watch;

use std::path::PathBuf;

use clap::Args;
use laau::core::{Episodes, Fit as _, FitSets, GradientCounts, TrainedOn};
use laau::net::{Checkpoint, Ending, Error, ModelSpec, Network, Summary, Trained, Training};
use serde::Serialize;

use self::files::Files;
pub(crate) use self::files::save_model;
use self::watch::Watch;
use crate::config::{ConfigFile, Flags, ModelSection, ProblemSection, TrainingSection};
use crate::failure::Failure;
use crate::guard::GuardArgs;
use crate::output::Named;
use crate::{interrupt, memory, output, sets};

/// The arguments as they are typed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  $ laau train --train train.parquet --validation validation.parquet -o model.safetensors
  $ laau train --train train.parquet --validation validation.parquet --form residual --phases 20:0.005 -o plus.safetensors
  $ laau train --train train.parquet --validation validation.parquet --horizons 10..40 -o any.safetensors
  $ laau train --train train.parquet --validation validation.parquet -o model.safetensors --resume

Ctrl-C leaves a checkpoint beside the output; the same command with --resume goes on from it, to the same model as if it
had not been interrupted; the problem may be left out, the checkpoint has it. Standard output is one JSON object about the model. With --guard, episodes are played behind a guard
in training, too; the model is then meant to be deployed with the same --guard.")]
pub(crate) struct TrainArgs {
    /// Episodes to train on
    #[arg(long, value_name = "FILE")]
    train: PathBuf,
    /// Episodes that choose among the epochs
    #[arg(long, value_name = "FILE")]
    validation: PathBuf,
    /// The model
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// One row of CSV per epoch
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Where an interrupted run is kept [default: beside the output, ending in .checkpoint]
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Goes on from the checkpoint
    #[arg(long)]
    resume: bool,
    /// No progress on standard error
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    guard: GuardArgs,
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    problem: Flags<ProblemSection>,
    #[command(flatten)]
    model: Flags<ModelSection>,
    #[command(flatten)]
    training: Flags<TrainingSection>,
}

/// Trains a model and writes it.
pub(crate) fn run(arguments: &TrainArgs) -> Result<(), Failure> {
    let files = Files::new(
        &arguments.output,
        arguments.checkpoint.as_deref(),
        arguments.log.as_deref(),
    );
    let sets = [
        ("--train", &*arguments.train),
        ("--validation", &*arguments.validation),
    ];
    let inputs: Vec<Named<'_>> = sets
        .into_iter()
        .chain(arguments.config.named())
        .chain(arguments.guard.named())
        .collect();
    output::keep_apart(&inputs, &files.named())?;
    output::check_distinct(&sets)?;
    let config = arguments.config.read()?;
    let checkpoint = files.checkpoint_to_resume(arguments.resume)?;
    let problem = match &checkpoint {
        Some(checkpoint) => config.problem_of(&arguments.problem, &checkpoint.best_model().spec)?,
        None => config.problem(&arguments.problem)?,
    };
    let task = problem.task()?;
    let laau = config.section(&arguments.model)?.laau()?;
    let training = config.section(&arguments.training)?;
    let settings = training.settings();
    let laau = laau.trained_by(settings.clone());
    let trainer = settings.clone().check()?;
    let [train, validation] = sets::read(
        &*task.problem,
        checkpoint.is_some(),
        [&arguments.train, &arguments.validation],
    )?;
    training.check_horizons(&train)?;
    train.check_constants()?;
    let (train, validation) = (&train.episodes, &validation.episodes);
    let spec = laau.spec(&*task.problem, train.horizon());
    spec.validate()?;
    check_memory(&spec, settings.batch, train)?;
    if let Some(checkpoint) = &checkpoint {
        files.check_spec(checkpoint, &spec)?;
    }
    let incumbent = arguments.guard.read(&problem, train.horizon(), train.scaling())?;
    let mut model = laau.initial(&task, train, settings.seed)?;
    let mut log = files.open()?;

    let mut trainer = trainer.with_checkpoint(&files.checkpoint);
    if let Some(source) = incumbent {
        let sets = FitSets { train, validation };
        let fitted = source.fit(&settings).fit(&task, sets, settings.seed, &mut ())?;
        trainer = trainer.with_guard(&task, fitted.player.online()?, arguments.guard.level);
    }
    let asked = interrupt::watch()?;
    let mut watch = Watch::new(&settings, train.len(), arguments.quiet);
    let mut observer = (&*asked, (&mut watch, &mut log));
    let layer = &*task.solver;
    let resumed = checkpoint.is_some();
    let result = match checkpoint {
        None => trainer.run(&mut model, layer, train, Some(validation), &mut observer),
        Some(checkpoint) => trainer
            .resume(checkpoint, layer, train, Some(validation), &mut observer)
            .map(|(resumed, trained)| {
                model = resumed;
                trained
            }),
    };
    watch.finish();
    if let Some(error) = log.error() {
        output::talk(format_args!("warning: the log is incomplete: {error}"));
    }
    match result {
        Ok(trained) if trained.ending == Ending::Stopped => Err(Failure::Interrupted {
            sentence: format!(
                "stopped after {} of {} epochs, which are kept in {}",
                trained.history.len(),
                settings.epochs(),
                files.checkpoint.display()
            ),
            hint: "go on with the same command and --resume".to_owned(),
        }),
        Ok(trained) => {
            files.save(&model, &trained.summary)?;
            print(&files, &model.spec, &trained)
        }
        Err(Error::Diverged {
            epoch,
            batch,
            reason,
            hint,
        }) => {
            let kept = keep_what_was_good(&files, &settings, train)?;
            Err(Failure::new(
                format_args!(
                    "training diverged in epoch {}, batch {}: {reason}",
                    epoch + 1,
                    batch + 1
                ),
                format_args!("{hint}; {kept}"),
            ))
        }
        Err(error) if resumed => Err(files.other_run(error)),
        Err(error) => Err(error.into()),
    }
}

/// Refuses a network that does not fit into memory: its weights, those of the best and of the last epoch, their gradients and the
/// optimiser's averages, and what a minibatch of these episodes keeps of every step.
pub(crate) fn check_memory(spec: &ModelSpec, batch: usize, episodes: &Episodes) -> Result<(), Failure> {
    const COPIES: u128 = 8;
    let bytes = size_of::<f64>() as u128;
    let weights = spec.parameter_len() as u128;
    let units: u128 = match &spec.network {
        Network::Mlp { hidden, .. } => hidden.iter().map(|width| *width as u128).sum(),
        _ => 0,
    };
    let steps = spec.horizon as u128 * batch.min(episodes.len()) as u128;
    memory::check(
        "training this network takes",
        (2 * units)
            .saturating_mul(steps)
            .saturating_add(COPIES * weights)
            .saturating_mul(bytes),
        "ask for fewer units with --hidden, or for a smaller --batch",
    )
}

/// Writes the best model before a run diverged; says where.
fn keep_what_was_good(files: &Files, settings: &Training, train: &Episodes) -> Result<String, Failure> {
    let last = Checkpoint::load(&files.checkpoint)?;
    if last.epochs_done() == 0 {
        files.remove_checkpoint()?;
        return Ok("nothing was learned, and nothing was written".to_owned());
    }
    let mut summary = Summary {
        epochs: last.epochs_done(),
        engine: Some(settings.engine),
        precision: settings.precision,
        optimiser: Some(settings.optimiser.name().to_owned()),
        episodes: train.len(),
        trained_on: Some(TrainedOn::of(train)),
        ..Summary::untrained(settings.seed)
    };
    for record in last.history() {
        summary.gradients.exact += record.gradients.exact;
        summary.gradients.approximate += record.gradients.approximate;
        let utility = record.validation_utility;
        if utility > summary.best_validation_utility {
            summary.best_validation_utility = utility;
            summary.best_epoch = Some(record.epoch);
        }
    }
    files.save(&last.best_model(), &summary)?;
    Ok(format!(
        "the best weights of the {} epochs before are in {}",
        last.epochs_done(),
        files.output.display()
    ))
}

/// What is told of a model that was trained.
#[derive(Serialize)]
struct Told<'a> {
    model: String,
    #[serde(flatten)]
    spec: &'a ModelSpec,
    /// How many; `parameters` are those of the problem.
    weights: usize,
    seed: u64,
    ending: &'static str,
    epochs: usize,
    best_epoch: Option<usize>,
    validation_utility: Option<f64>,
    loss: Option<f64>,
    gradients: GradientCounts,
}

/// The epoch whose weights a model has, from 1, as epochs are counted wherever they are shown; files count from 0.
pub(crate) fn best_epoch(summary: &Summary) -> Option<usize> {
    summary.best_epoch.map(|epoch| epoch + 1)
}

fn print(files: &Files, spec: &ModelSpec, trained: &Trained) -> Result<(), Failure> {
    let summary = &trained.summary;
    let told = Told {
        model: files.output.display().to_string(),
        spec,
        weights: spec.parameter_len(),
        seed: summary.seed,
        ending: match trained.ending {
            Ending::Completed => "completed",
            Ending::EarlyStop => "early-stop",
            Ending::Stopped => "stopped",
        },
        epochs: summary.epochs,
        best_epoch: best_epoch(summary),
        validation_utility: summary.best_validation_utility,
        loss: trained.history.last().map(|record| record.loss),
        gradients: summary.gradients,
    };
    let text = serde_json::to_string(&told).map_err(|error| Failure::output(&error.into()))?;
    output::print(text + "\n")
}
