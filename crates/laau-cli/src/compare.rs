//! `laau compare`: policies on the same episodes.

use std::path::PathBuf;

use clap::Args;
use laau::baselines::OptOptions;
use laau::core::{Comparison, Episodes, Sets};
use laau::registry::PolicyKind;

use crate::config::{ConfigFile, Flags, ProblemSection, TrainingSection};
use crate::failure::Failure;
use crate::guard::GuardArgs;
use crate::output::Named;
use crate::report::{ReportArgs, Watch};
use crate::{output, sets};

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
    /// Which policies: opt, equal, avg-lt, dgd, mw, cr-pursuit, rl, ce, dp, laau, laau-history, laau-residual and more
    /// [default: all that are for the problem]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    policies: Vec<String>,
    /// Seeds of policies that draw: each is trained once per seed [default: that of --seed]
    #[arg(long, value_name = "SEEDS", value_delimiter = ',', conflicts_with = "seed")]
    seeds: Vec<u64>,
    #[command(flatten)]
    report: ReportArgs,
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
    let files = arguments
        .config
        .named()
        .into_iter()
        .chain(arguments.guard.named());
    let inputs: Vec<Named<'_>> = paths.into_iter().chain(files).collect();
    let incumbent = arguments.guard.kind();
    let incumbent = incumbent.filter(|kind| policies.iter().all(|policy| policy.name() != *kind));
    let written = policies.iter().map(|policy| policy.name());
    arguments.report.keep_apart(&inputs, written.chain(incumbent))?;
    output::check_distinct(&paths)?;
    let config = arguments.config.read()?;
    let problem = config.problem(&arguments.problem)?;
    let task = problem.task()?;
    let section = config.section(&arguments.training)?;
    let training = section.settings();
    training.clone().check()?;
    let mut seeds = arguments.seeds.clone();
    sets::check_seeds(&mut seeds)?;
    if seeds.is_empty() {
        seeds.push(training.seed);
    }
    let paths = paths.map(|(_, path)| path);
    let sets = sets::read(&*task.problem, false, paths)?;
    section.check_horizons(&sets[0])?;
    sets[0].check_constants()?;
    let [train, validation, test] = sets.map(|set| set.episodes);
    // The sets agree; some may not say how their contexts were made.
    let scaling = [&train, &validation, &test]
        .into_iter()
        .find_map(Episodes::scaling);
    let incumbent = arguments.guard.read(&problem, test.horizon(), scaling)?;
    let _folder = arguments.report.prepare()?;
    let sets = Sets {
        train,
        validation,
        test,
    };
    let watch = Watch::new(&arguments.report)?;
    let named = !arguments.policies.is_empty();
    let mut comparison = Comparison::new(&task, &sets)
        .seeds(seeds)
        .relative_to(OptOptions::default())
        .skip_inapplicable(!named)
        .timed()
        .observed_by(&watch);
    for name in &policies {
        comparison = comparison.with(name.name(), name.fit(&training));
    }
    if let Some(source) = incumbent {
        let guard = source.name();
        if policies.iter().all(|policy| policy.name() != guard) {
            comparison = comparison.with(guard, source.fit(&training));
        }
        let guarded = policies.iter().filter(|policy| named || policy.learns());
        let guarded = guarded.map(|policy| policy.name().to_owned());
        comparison = comparison.guarded(guarded, guard, arguments.guard.level);
    }
    let report = comparison.run()?;
    watch.finish();
    arguments.report.tell(&report, &task, &sets, &problem)
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
