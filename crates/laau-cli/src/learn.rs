//! `laau learn`: online training, Algorithm 2 of the paper.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ValueEnum};
use laau::core::{Task, TrainedOn};
use laau::net::{CsvLog, Laau, Model, OnlineObserver, Round, Summary};
use serde::Serialize;

use crate::config::{ConfigFile, Flags, LearningSection, ModelSection, ProblemSection};
use crate::failure::Failure;
use crate::output::Named;
use crate::saved::read_model;
use crate::sets::Set;
use crate::train::{check_memory, save_model};
use crate::{interrupt, output, sets};

/// The arguments as they are typed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  $ laau learn --episodes test.parquet > rounds.csv
  $ laau learn --episodes test.parquet --model model.safetensors --learning-rate 0.01 -o better.safetensors

Each episode is played with the weights learned from those before, then one gradient step is taken on it. Standard output
has one row per round, with the utility of the round and the running average.")]
pub(crate) struct LearnArgs {
    /// The episodes, in the order in which they come
    #[arg(long, value_name = "FILE")]
    episodes: PathBuf,
    /// A model to begin with, as it is; without one, a cold start with the keys of `[model]`, --seed and --first-look
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Writes the model as it is after the last round
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// How rounds are written
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    format: Format,
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    problem: Flags<ProblemSection>,
    #[command(flatten)]
    cold: Flags<ModelSection>,
    #[command(flatten)]
    learning: Flags<LearningSection>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One row per round, after a heading
    Csv,
    /// One JSON object per line and round
    Json,
}

impl LearnArgs {
    /// Refuses flags that say how a cold model begins, beside a model that was given.
    fn refuse_cold_flags(&self, model: &Path) -> Result<(), Failure> {
        let Some(flag) = self.cold.first_given()?.or(self.learning.0.cold_flag()) else {
            return Ok(());
        };
        Err(Failure::new(
            format_args!(
                "{}: the model is what it is; --{flag} has no effect",
                model.display()
            ),
            format_args!("leave --{flag} out, or leave --model out to begin with a model of your own making"),
        ))
    }
}

/// Learns from every episode in turn.
pub(crate) fn run(arguments: &LearnArgs) -> Result<(), Failure> {
    if let Some(path) = &arguments.output {
        let inputs: Vec<Named<'_>> = [("--episodes", &*arguments.episodes)]
            .into_iter()
            .chain(arguments.model.as_deref().map(|model| ("--model", model)))
            .chain(arguments.config.named())
            .collect();
        output::keep_apart(&inputs, &[("-o", path)])?;
    }
    if let Some(path) = &arguments.model {
        arguments.refuse_cold_flags(path)?;
    }
    let config = arguments.config.read()?;
    let warm = match &arguments.model {
        Some(path) => {
            let (model, summary, _) = read_model(path, "models are written by `laau train -o FILE`")?;
            Some((model, summary))
        }
        None => None,
    };
    let problem = match &warm {
        Some((model, _)) => config.problem_of(&arguments.problem, &model.spec)?,
        None => config.problem(&arguments.problem)?,
    };
    let task = problem.task()?;
    if let Some((model, _)) = &warm {
        sets::check_model(&task, &model.spec)?;
    }
    let learning = config.section(&arguments.learning)?;
    let [set] = sets::read(&*task.problem, warm.is_some(), [&arguments.episodes])?;
    let (model, seed, trained_on) = if let (Some((model, summary)), Some(path)) = (warm, &arguments.model) {
        let told = path.display().to_string();
        set.check_horizon(&model.spec.horizons(), &told)?;
        set.check_scaling(summary.trained_on.as_ref(), &told)?;
        (model, summary.seed, summary.trained_on)
    } else {
        let laau = config.section(&arguments.cold)?.laau()?;
        (cold(&laau, &learning, &task, &set)?, learning.seed(), None)
    };
    // A model that was trained before keeps the range of that training. Readings become contexts as those did that it learned from last.
    let mut trained_on = trained_on.unwrap_or_else(|| TrainedOn::of(&set.episodes));
    if let Some(scaling) = set.episodes.scaling() {
        trained_on.scaling = Some(scaling.clone());
    }
    if let Some(path) = &arguments.output {
        set.check_constants()?;
        output::probe(path)?;
    }
    let mut learner = learning.settings().check(model, task.solver.clone())?;
    let asked = interrupt::watch()?;
    let mut rounds = Rounds {
        out: match arguments.format {
            Format::Csv => Out::Csv(CsvLog::new(std::io::stdout())),
            Format::Json => Out::Json(None),
        },
        asked: &asked,
        first_skipped: None,
    };
    let run = learner.run(&set.episodes, &mut rounds)?;
    if let Some(reason) = rounds.first_skipped.take()
        && run.skipped == run.rollouts.len()
    {
        return Err(Failure::new(
            format_args!(
                "nothing was learned in {} rounds, and nothing was written: {reason}",
                run.skipped
            ),
            "lower --learning-rate, or begin with another --model",
        ));
    }
    if let Some(path) = &arguments.output {
        let summary = Summary {
            trained_on: Some(trained_on),
            ..learner.summary(seed)
        };
        save_model(path, learner.model(), &summary)?;
    }
    if let Some(error) = rounds.error() {
        return Err(Failure::output(error));
    }
    if asked.load(Ordering::Relaxed) && run.rollouts.len() < set.episodes.len() {
        return Err(Failure::Interrupted {
            sentence: format!(
                "stopped after {} of {} rounds",
                run.rollouts.len(),
                set.episodes.len()
            ),
            hint: match &arguments.output {
                Some(path) => format!("what was learned is in {}", path.display()),
                None => "with -o FILE, what was learned would have been written".to_owned(),
            },
        });
    }
    Ok(())
}

/// A fresh model, normalised by the first episodes.
fn cold(laau: &Laau, learning: &LearningSection, task: &Task, set: &Set) -> Result<Model, Failure> {
    let look = learning.check_first_look()?;
    check_memory(
        &laau.spec(&*task.problem, set.episodes.horizon()),
        1,
        &set.episodes,
    )?;
    let first: Vec<usize> = (0..set.episodes.len().min(look)).collect();
    Ok(laau.initial(task, &set.episodes.select(&first), learning.seed())?)
}

/// Writes rounds to standard output; ends the run when nobody reads, or the user asks.
struct Rounds<'a> {
    out: Out,
    asked: &'a AtomicBool,
    /// Why the first round without a step had none.
    first_skipped: Option<String>,
}

enum Out {
    Csv(CsvLog<std::io::Stdout>),
    Json(Option<std::io::Error>),
}

impl Rounds<'_> {
    fn error(&self) -> Option<&std::io::Error> {
        match &self.out {
            Out::Csv(log) => log.error(),
            Out::Json(error) => error.as_ref(),
        }
    }
}

impl OnlineObserver for Rounds<'_> {
    fn round(&mut self, round: &Round) {
        if self.first_skipped.is_none() {
            self.first_skipped.clone_from(&round.skipped);
        }
        match &mut self.out {
            Out::Csv(log) => log.round(round),
            Out::Json(Some(_)) => {}
            Out::Json(error) => *error = write_line(round).err(),
        }
    }

    fn should_stop(&mut self) -> bool {
        self.asked.load(Ordering::Relaxed) || self.error().is_some()
    }
}

/// A round as JSON.
#[derive(Serialize)]
struct Line<'a> {
    round: usize,
    utility: f64,
    running_utility: f64,
    violations: usize,
    failures: usize,
    skipped: Option<&'a str>,
}

fn write_line(round: &Round) -> std::io::Result<()> {
    let line = Line {
        round: round.round,
        utility: round.utility,
        running_utility: round.running_utility,
        violations: round.violations,
        failures: round.failures,
        skipped: round.skipped.as_deref(),
    };
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &line)?;
    out.write_all(b"\n")?;
    out.flush()
}
