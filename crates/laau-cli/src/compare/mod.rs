//! `laau compare`: policies on the same episodes.

mod export;
mod formats;
mod summary;

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use laau_baselines::Setting;
use laau_core::{Episodes, Rollout};
use laau_net::Training;
use rayon::prelude::*;

use self::formats::Format;
use self::summary::{PolicySummary, Summary, mean_utility};
use crate::config::{ConfigFlags, scope};
use crate::data::number;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::registry::{self, Player};
use crate::{output, sets};

/// The episodes on which the time per decision is measured, in one thread.
const TIMED_EPISODES: usize = 64;

/// So often it is measured; the fastest counts, since other programs only make it slower.
const TIMED_PASSES: usize = 3;

scope!(CompareScope, "problem", "training");

/// The arguments as they are typed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  $ laau compare --train train.parquet --validation validation.parquet --test test.parquet
  $ laau compare --train train.parquet --validation validation.parquet --test test.parquet --policies opt,equal,laau --seeds 0,1,2 --format json -o report

Policies are tuned and trained on the training and validation episodes with the settings of [training], and played on the
test episodes. A policy that is not for the problem is left out, unless it was named.")]
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
    /// Folder for summary.json and rollouts.parquet
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Also writes every step, as steps.parquet
    #[arg(long, requires = "output")]
    steps: bool,
    /// No progress on standard error
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    config: ConfigFlags<CompareScope>,
}

/// Fits, plays, reports.
pub(crate) fn run(arguments: &CompareArgs) -> Result<(), Failure> {
    let config = arguments.config.load()?;
    let setting = registry::setting(&config.problem)?;
    let training = config.training.settings();
    training.clone().check()?;
    let policies = chosen(&arguments.policies)?;
    let mut seeds = arguments.seeds.clone();
    seeds.sort_unstable();
    seeds.dedup();
    if seeds.is_empty() {
        seeds.push(training.seed);
    }
    let paths = [&*arguments.train, &*arguments.validation, &*arguments.test];
    let [train, validation, test] = sets::read(&*setting.problem, paths)?.map(|set| set.episodes);
    if let Some(folder) = &arguments.output {
        std::fs::create_dir_all(folder).map_err(|error| output::cannot_write(folder, &error))?;
        output::probe(&folder.join("summary.json"))?;
    }
    let contest = Contest {
        setting,
        train,
        validation,
        test,
        training,
        seeds,
    };
    let entries = contest.enter(&policies, !arguments.policies.is_empty(), arguments.quiet)?;
    let summary = contest.summary(&entries)?;
    if let Some(folder) = &arguments.output {
        export::write(folder, &summary, &contest, &entries, arguments.steps)?;
    }
    output::print(arguments.format.text(&summary)?)
}

/// The policies that were named, or all.
fn chosen(named: &[String]) -> Result<Vec<&str>, Failure> {
    if named.is_empty() {
        return Ok(registry::POLICIES.to_vec());
    }
    let mut policies: Vec<&str> = Vec::with_capacity(named.len());
    for name in named {
        registry::check_policy(name)?;
        if policies.contains(&name.as_str()) {
            return Err(Failure::new(
                format_args!("policy `{name}` is named twice"),
                "name each policy once",
            ));
        }
        policies.push(name);
    }
    Ok(policies)
}

/// What policies are compared on.
struct Contest {
    setting: Setting,
    train: Episodes,
    validation: Episodes,
    test: Episodes,
    training: Training,
    seeds: Vec<u64>,
}

/// The name of the offline optimum, which every policy is compared with.
const OPTIMUM: &str = "opt";

/// The offline optimum is a yardstick: without it the policies are still compared with each other.
fn without_optimum(failure: &Failure) -> String {
    format!("warning: the offline optimum failed, fractions of it are left out: {failure}")
}

/// A policy that took part.
struct Entry {
    name: String,
    /// One run per seed, or one for all seeds where a policy draws nothing.
    runs: Vec<Run>,
}

/// A policy that was fitted and played.
struct Run {
    player: Player,
    rollouts: Vec<Rollout>,
}

impl Entry {
    /// The run of a seed, by its position.
    fn run(&self, seed: usize) -> &Run {
        &self.runs[seed.min(self.runs.len() - 1)]
    }
}

/// The entries, and how the offline optimum did, if it could be found.
struct Entries {
    policies: Vec<Entry>,
    optimum: Option<Vec<Rollout>>,
}

impl Contest {
    /// Fits and plays all policies; those that were not named may turn out not to be for the problem.
    fn enter(&self, policies: &[&str], named: bool, quiet: bool) -> Result<Entries, Failure> {
        let jobs: Vec<(&str, u64)> = policies
            .iter()
            .flat_map(|&name| {
                let seeds = if registry::is_seeded(name) {
                    &self.seeds[..]
                } else {
                    &self.seeds[..1]
                };
                seeds.iter().map(move |&seed| (name, seed))
            })
            .collect();
        let progress = Progress::new(jobs.len(), quiet);
        let results: Vec<Result<Run, Failure>> = jobs
            .par_iter()
            .map(|&(name, seed)| {
                let began = Instant::now();
                let run = self.play(name, seed)?;
                progress.advance();
                progress.line(format_args!(
                    "{name}, seed {seed}: utility {}, {:.1} s",
                    number(mean_utility(&run.rollouts)),
                    began.elapsed().as_secs_f64()
                ));
                Ok(run)
            })
            .collect();
        progress.finish();
        let mut entries: Vec<Entry> = Vec::new();
        let mut left_out = None;
        let mut optimum_failed = false;
        for ((name, _), result) in jobs.into_iter().zip(results) {
            let run = match result {
                Ok(run) => run,
                Err(Failure::NotApplicable { sentence, .. }) if !named => {
                    if left_out != Some(name) {
                        progress.say(format_args!("left out: {sentence}"));
                        left_out = Some(name);
                    }
                    continue;
                }
                Err(failure) if name == OPTIMUM => {
                    progress.say(format_args!("{}", without_optimum(&failure)));
                    optimum_failed = true;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            let failures: usize = run.rollouts.iter().map(|rollout| rollout.failures).sum();
            if let Some(error) = run
                .rollouts
                .iter()
                .find_map(|rollout| rollout.first_failure.as_ref())
            {
                progress.say(format_args!(
                    "warning: policy `{name}` failed in {failures} steps; first: {error}"
                ));
            }
            let unconverged: usize = run.rollouts.iter().map(|rollout| rollout.unconverged).sum();
            if unconverged > 0 {
                progress.say(format_args!(
                    "warning: policy `{name}` played {unconverged} actions that are short of the layer's tolerance"
                ));
            }
            match entries.last_mut() {
                Some(last) if last.name == name => last.runs.push(run),
                _ => entries.push(Entry {
                    name: name.to_owned(),
                    runs: vec![run],
                }),
            }
        }
        let optimum = match entries.iter().find(|entry| entry.name == OPTIMUM) {
            Some(entry) => Some(entry.runs[0].rollouts.clone()),
            None if optimum_failed => None,
            None => match self.play(OPTIMUM, self.seeds[0]) {
                Ok(run) => Some(run.rollouts),
                Err(failure) => {
                    progress.say(format_args!("{}", without_optimum(&failure)));
                    None
                }
            },
        };
        Ok(Entries {
            policies: entries,
            optimum,
        })
    }

    fn play(&self, name: &str, seed: u64) -> Result<Run, Failure> {
        let training = Training {
            seed,
            ..self.training.clone()
        };
        let player = registry::fit(name, &self.setting, &self.train, &self.validation, &training)?;
        let rollouts = player.play(&self.setting, &self.test)?;
        Ok(Run { player, rollouts })
    }

    /// Sums up all policies.
    fn summary(&self, entries: &Entries) -> Result<Summary, Failure> {
        let policies = entries
            .policies
            .iter()
            .map(|entry| {
                let microseconds = self.microseconds_per_decision(&entry.runs[0].player)?;
                let optimum = entries.optimum.as_deref();
                Ok(PolicySummary::new(entry, self, optimum, microseconds))
            })
            .collect::<Result<_, Failure>>()?;
        Ok(Summary {
            problem: self.setting.problem.name().to_owned(),
            horizon: self.test.horizon(),
            policies,
        })
    }

    /// The time of one decision in one thread, ledger included; for the optimum its share of the planning.
    fn microseconds_per_decision(&self, player: &Player) -> Result<f64, Failure> {
        let first: Vec<usize> = (0..self.test.len().min(TIMED_EPISODES)).collect();
        let episodes = self.test.select(&first);
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .map_err(|error| {
                Failure::new(
                    format_args!("no thread can be started: {error}"),
                    "close other programs",
                )
            })?;
        let mut fastest = f64::INFINITY;
        for _ in 0..TIMED_PASSES {
            let began = Instant::now();
            pool.install(|| player.play(&self.setting, &episodes))?;
            fastest = fastest.min(began.elapsed().as_secs_f64());
        }
        let decisions = episodes.len() * episodes.horizon();
        Ok(fastest * 1e6 / decisions as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use laau_core::{Dimensions, Dual, Functions, Number};
    use laau_kkt::{InteriorPoint, Options};

    use super::*;

    /// Log-utility of what an action is above 5: there is none on half of the box, and no optimum to be found.
    struct Broken;

    impl Functions for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn dimensions(&self) -> Dimensions {
            Dimensions {
                actions: 1,
                budgets: 1,
                context: 1,
            }
        }

        fn lower(&self) -> &[f64] {
            &[1.0]
        }

        fn upper(&self) -> &[f64] {
            &[10.0]
        }

        fn cost<T: Number>(&self, action: &[T], context: &[T]) -> T {
            -(action[0] - 5.0).ln() * context[0]
        }

        fn usage<T: Number>(&self, action: &[T], _: &[T], out: &mut [T]) {
            out[0] = action[0];
        }

        fn least_usage(&self, out: &mut [f64]) {
            out[0] = 1.0;
        }
    }

    #[test]
    fn an_optimum_that_fails_leaves_the_others_compared() {
        let problem = Arc::new(Dual::new(Broken).unwrap());
        let solver = InteriorPoint::new(problem.clone(), Options::default()).unwrap();
        let episodes = || Episodes::new(3, 1, 1, vec![0.5; 12], vec![9.0; 4]).unwrap();
        let contest = Contest {
            setting: Setting::new(problem, Box::new(solver)),
            train: episodes(),
            validation: episodes(),
            test: episodes(),
            training: Training::paper(),
            seeds: vec![0],
        };
        assert!(contest.play(OPTIMUM, 0).is_err());
        for named in [&["equal"][..], &["opt", "equal"]] {
            let entries = contest.enter(named, true, true).unwrap();
            assert!(entries.optimum.is_none());
            assert_eq!(entries.policies.len(), 1);
            let summary = contest.summary(&entries).unwrap();
            assert!(summary.policies[0].fraction_of_opt.is_none());
        }
    }
}
