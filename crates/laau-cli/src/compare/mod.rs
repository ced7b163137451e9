//! `laau compare`: policies on the same episodes.

mod export;
mod formats;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use laau::baselines::OptOptions;
use laau::core::{Comparison, ComparisonObserver, Error, Report, Run, Sets, four_digits, mean_utility};
use laau::registry::PolicyKind;

use self::formats::Format;
use crate::config::{ConfigFile, Flags, ProblemSection, TrainingSection};
use crate::failure::Failure;
use crate::guard::{GuardArgs, Source};
use crate::output::Named;
use crate::progress::Progress;
use crate::{interrupt, output, sets};

/// The arguments as they are typed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  $ laau compare --train train.parquet --validation validation.parquet --test test.parquet
  $ laau compare --train train.parquet --validation validation.parquet --test test.parquet --policies opt,mw,laau --guard mw
  $ laau compare --train train.parquet --validation validation.parquet --test test.parquet --policies opt,equal,laau --seeds 0,1,2 --format json -o report

Policies are tuned and trained on the training and validation episodes with the settings of [training], and played on the
test episodes. A policy that is not for the problem is left out, unless it was named. With --guard, the policies that learn
(or all that were named) are also played behind a guard, as they were fitted: NAME-guarded.")]
pub(crate) struct CompareArgs {
    /// Episodes to fit and train on
    #[arg(long, value_name = "FILE")]
    train: PathBuf,
    /// Episodes to tune on
    #[arg(long, value_name = "FILE")]
    validation: PathBuf,
    /// Episodes to play
    #[arg(long, value_name = "FILE")]
    test: PathBuf,
    /// Which policies [default: all that are for the problem]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policies: Vec<String>,
    /// Seeds of policies that draw: each is trained once per seed [default: that of --seed]
    #[arg(long, value_name = "SEEDS", value_delimiter = ',', conflicts_with = "seed")]
    seeds: Vec<u64>,
    /// How the figures are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Folder for summary.json, rollouts.parquet and a policy file per policy, for `laau decide --policy-file`
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Also writes every step, as steps.parquet
    #[arg(long, requires = "output")]
    steps: bool,
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
    training: Flags<TrainingSection>,
}

/// Fits, plays, reports.
pub(crate) fn run(arguments: &CompareArgs) -> Result<(), Failure> {
    let paths = [
        ("--train", &*arguments.train),
        ("--validation", &*arguments.validation),
        ("--test", &*arguments.test),
    ];
    let policies = chosen(&arguments.policies)?;
    if let Some(folder) = &arguments.output {
        let named = arguments
            .config
            .named()
            .into_iter()
            .chain(arguments.guard.named());
        let inputs: Vec<Named<'_>> = paths.into_iter().chain(named).collect();
        let places = export::places(folder, &policies, arguments.steps);
        let outputs: Vec<Named<'_>> = places.iter().map(|place| ("-o", &**place)).collect();
        output::keep_apart(&inputs, &outputs)?;
    }
    output::check_distinct(&paths)?;
    let config = arguments.config.read()?;
    let problem = config.problem(&arguments.problem)?;
    let task = problem.task()?;
    let training = config.section(&arguments.training)?.settings();
    training.clone().check()?;
    let mut seeds = arguments.seeds.clone();
    sets::check_seeds(&mut seeds)?;
    if seeds.is_empty() {
        seeds.push(training.seed);
    }
    let paths = paths.map(|(_, path)| path);
    let [train, validation, test] = sets::read(&*task.problem, paths)?.map(|set| set.episodes);
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder).map_err(|error| output::cannot_write(folder, &error))?;
        output::probe(&folder.join("summary.json"))?;
    }
    let sets = Sets {
        train,
        validation,
        test,
    };
    let watch = Watch {
        progress: Progress::new(1, arguments.quiet),
        asked: interrupt::watch()?,
    };
    let named = !arguments.policies.is_empty();
    let mut comparison = Comparison::new(&task, &sets)
        .seeds(seeds)
        .relative_to(OptOptions::default())
        .skip_inapplicable(!named)
        .timed()
        .observed_by(&watch);
    let incumbent = arguments.guard.read(&problem)?;
    for name in &policies {
        comparison = comparison.with(name.name(), name.fit(&training));
    }
    if let Some(source) = incumbent {
        let name = match &source {
            Source::Kind(kind) => kind.name(),
            Source::File(..) => "incumbent",
        };
        if policies.iter().all(|policy| policy.name() != name) {
            comparison = comparison.with(name, source.fit(&training));
        }
        let guarded = policies.iter().filter(|policy| named || policy.learns());
        let guarded = guarded.map(|policy| policy.name().to_owned());
        comparison = comparison.guarded(guarded, name, arguments.guard.level);
    }
    let report = comparison.run()?;
    watch.progress.finish();
    for warning in warnings(&report) {
        output::talk(warning);
    }
    let finished = report.policies.len();
    if report.unfinished.is_empty() || finished > 0 {
        if let Some(folder) = &arguments.output {
            export::write(folder, &report, &sets, &problem, arguments.steps)?;
        }
        output::print(arguments.format.text(&report)?)?;
    }
    if report.unfinished.is_empty() {
        return Ok(());
    }
    Err(Failure::Interrupted {
        sentence: format!(
            "stopped: the comparison is incomplete, without {}",
            report.unfinished.join(", ")
        ),
        hint: match (finished, &arguments.output) {
            (0, _) => "no policy was finished, and nothing was written".to_owned(),
            (_, None) => format!("the {finished} policies that were finished are reported"),
            (_, Some(folder)) => format!(
                "the {finished} policies that were finished are reported, and in {}",
                folder.display()
            ),
        },
    })
}

/// The policies that were named, or all.
fn chosen(named: &[String]) -> Result<Vec<PolicyKind>, Failure> {
    if named.is_empty() {
        return Ok(PolicyKind::ALL.to_vec());
    }
    let mut policies: Vec<PolicyKind> = Vec::with_capacity(named.len());
    for name in named {
        let policy = name.parse()?;
        if policies.contains(&policy) {
            return Err(Failure::new(
                format_args!("policy `{name}` is named twice"),
                "name each policy once",
            ));
        }
        policies.push(policy);
    }
    Ok(policies)
}

/// Progress of the fits.
struct Watch {
    progress: Progress,
    asked: Arc<AtomicBool>,
}

impl ComparisonObserver for Watch {
    fn begin(&self, jobs: usize) {
        self.progress.set_length(jobs);
    }

    fn done(&self, policy: &str, run: &Run, elapsed: Duration) {
        self.progress.advance();
        self.progress.line(format_args!(
            "{policy}, seed {}: utility {}, {:.1} s",
            run.seed,
            four_digits(mean_utility(&run.rollouts)),
            elapsed.as_secs_f64()
        ));
    }

    fn should_stop(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

/// What a reader of the table must know besides.
fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    for (policy, error) in &report.left_out {
        warnings.push(match error {
            Error::NotApplicable { .. } => format!("left out: {error}"),
            _ => format!("warning: `{policy}` failed, fractions of it are left out: {error}"),
        });
    }
    for policy in &report.policies {
        let name = &policy.name;
        if let Some(error) = policy.first_failure() {
            warnings.push(format!(
                "warning: policy `{name}` failed in {} steps; first: {error}",
                policy.failures
            ));
        }
        if policy.unconverged > 0 {
            warnings.push(format!(
                "warning: policy `{name}` played {} actions that are short of the layer's tolerance",
                policy.unconverged
            ));
        }
    }
    warnings
}
