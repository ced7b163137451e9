//! `laau evaluate`: policies that are there already, on the same episodes.

mod external;
mod named;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use laau::baselines::OptOptions;
use laau::core::{
    Comparison, Error, Fit, FitObserver, FitSets, Fitted, Projected, Scaling, Sets, Task, Unfitted,
    guarded_name,
};
use laau::registry::{Deployed, ProblemSpec};

use self::external::External;
use self::named::Titled;
use crate::config::{ConfigFile, Flags, ProblemSection};
use crate::failure::Failure;
use crate::guard::GuardArgs;
use crate::output::{self, Named};
use crate::report::{ReportArgs, Watch};
use crate::saved::{deploy_model, read_policy};
use crate::{interrupt, sets};

/// The arguments as they are typed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  $ laau evaluate --test test.parquet --model model.safetensors --policy-file report/dgd.policy
  $ laau evaluate --test test.parquet --policy-file old=monday/mw.policy --policy-file new=today/mw.policy --format json -o report
  $ laau evaluate --test test.parquet --policy-file report/dgd.policy --external 'mine=python3 mine.py'
  $ laau evaluate --test test.parquet --model model.safetensors --guard report/mw.policy

The problem is that of the files. A program of your own is started once, by the shell, and plays one episode after the
other. It reads one JSON object per line on its standard input, one per step:
{\"episode\":0,\"horizon\":20,\"budgets\":[250.0],\"step\":0,\"context\":[0.31],\"remaining\":[250.0],\"available\":[231.0]}
(\"episode\", \"horizon\" and \"budgets\" at step 0 alone), and answers each at once by one line on its standard output:
{\"action\":[12.1]}. An action that cannot be paid is projected, and counted. An object without such an action is a failure
of that step. Any other line, no line in time, and the program's end are failures of the rest of the episode: the program is
ended, and started again for the next one, 10 times at most. A step that failed takes the least action.")]
pub(crate) struct EvaluateArgs {
    /// Episodes to play
    #[arg(long, value_name = "FILE")]
    test: PathBuf,
    /// A trained model; may be repeated. Its name in the report is that of the file, unless one is given
    #[arg(long, value_name = "[NAME=]FILE", value_parser = named::parse)]
    model: Vec<Titled>,
    /// A policy that `laau compare -o DIR` fitted and wrote; may be repeated. Its name is its own, unless one is given
    #[arg(long, value_name = "[NAME=]FILE", value_parser = named::parse)]
    policy_file: Vec<Titled>,
    /// A program of your own; may be repeated. Its name is `external`, unless one is given
    #[arg(long, value_name = "[NAME=]COMMAND", value_parser = named::parse)]
    external: Vec<Titled>,
    /// How long a program may take for an answer, in seconds; for its first one, its start included
    #[arg(long, value_name = "S", default_value = "10", value_parser = named::seconds)]
    external_timeout: Duration,
    /// Leaves out the offline optimum, and with it the fractions of it
    #[arg(long)]
    no_opt: bool,
    #[command(flatten)]
    report: ReportArgs,
    #[command(flatten)]
    guard: GuardArgs,
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    problem: Flags<ProblemSection>,
}

/// Plays and reports.
pub(crate) fn run(arguments: &EvaluateArgs) -> Result<(), Failure> {
    let saved = arguments.saved()?;
    if saved.is_empty() && arguments.external.is_empty() {
        return Err(Failure::usage(
            "there is no policy to evaluate",
            "name one with --model, --policy-file or --external",
        ));
    }
    let names: Vec<String> = arguments.names(&saved)?.into_iter().map(str::to_owned).collect();
    let files = saved.iter().map(|saved| (saved.flag, saved.path.as_path()));
    let inputs: Vec<Named<'_>> = std::iter::once(("--test", &*arguments.test))
        .chain(files)
        .chain(arguments.config.named())
        .chain(arguments.guard.named())
        .collect();
    // Policies are not written again.
    arguments.report.keep_apart(&inputs, std::iter::empty())?;
    let problem = arguments.problem(&saved)?;
    let task = problem.task()?;
    let [test] = sets::read(&*task.problem, !saved.is_empty(), [&arguments.test])?;
    // Episodes that do not say how their contexts were made are as the first file that says it expects them.
    let known = (&*arguments.test, test.episodes.scaling());
    let of_saved = saved.iter().map(|saved| (saved.path.as_path(), saved.scaling()));
    let known = std::iter::once(known)
        .chain(of_saved)
        .find(|(_, scaling)| scaling.is_some());
    for saved in &saved {
        saved.check_horizon(&test)?;
        if let Some((path, scaling)) = known {
            sets::check_scaling(
                (&saved.path.display().to_string(), saved.scaling()),
                (&path.display().to_string(), scaling),
            )?;
        }
    }
    let scaling = known.and_then(|(_, scaling)| scaling);
    let incumbent = arguments
        .guard
        .unfitted(&problem, &task, &test.episodes, scaling)?;
    let _folder = arguments.report.prepare()?;
    let watch = Watch::new(&arguments.report)?;
    let sets = Sets {
        // Nothing is fitted.
        train: test.episodes.select(&[]),
        validation: test.episodes.select(&[]),
        test: test.episodes,
    };
    let mut comparison = Comparison::new(&task, &sets)
        .timed()
        .keep_sequential(arguments.report.steps)
        .observed_by(&watch);
    if !arguments.no_opt {
        comparison = comparison.with("opt", OptOptions::default());
    }
    for saved in saved {
        let policy = saved.deployed.policy;
        comparison = comparison.with(saved.name, Unfitted(move |_: &Task| Ok(Arc::clone(&policy))));
    }
    for external in &arguments.external {
        let name = external.name.as_deref().unwrap_or(EXTERNAL);
        let program = Program {
            name: name.to_owned(),
            command: external.what.clone(),
            timeout: arguments.external_timeout,
            asked: Arc::clone(&watch.asked),
        };
        comparison = comparison.with(name, program);
    }
    if let Some((guard, incumbent)) = incumbent {
        // The guard is what --guard names, whatever else is called like it.
        let mut title = guard.to_owned();
        while names.contains(&title) {
            title.push_str("-incumbent");
        }
        comparison = comparison.with(title.clone(), incumbent);
        comparison = comparison.guarded(names, title, arguments.guard.level);
    }
    let report = comparison.run()?;
    watch.finish();
    interrupt::check(&watch.asked, "stopped: nothing was reported")?;
    arguments.report.tell(&report, &task, &sets, &problem)
}

/// The name of a program that has none.
const EXTERNAL: &str = "external";

/// A policy from a file.
struct Saved {
    name: String,
    flag: &'static str,
    path: PathBuf,
    deployed: Deployed,
}

impl Saved {
    /// Refuses episodes of another length than the policy is for.
    fn check_horizon(&self, test: &sets::Set) -> Result<(), Failure> {
        let Deployed {
            horizon, horizons, ..
        } = &self.deployed;
        let path = self.path.display();
        match horizons {
            Some(horizons) => test.check_horizon(horizons, &path.to_string()),
            None if test.episodes.horizon() != *horizon => {
                output::talk(format_args!(
                    "warning: {path}: fitted on episodes of {horizon} steps, played on {}",
                    test.episodes.horizon()
                ));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// How the contexts were made that the policy was fitted on.
    fn scaling(&self) -> Option<&Scaling> {
        self.deployed.trained_on.as_ref()?.scaling.as_ref()
    }
}

impl EvaluateArgs {
    /// Reads every file.
    fn saved(&self) -> Result<Vec<Saved>, Failure> {
        let mut all = Vec::new();
        for Titled { name, what } in &self.model {
            let path = PathBuf::from(what);
            let deployed = deploy_model(&path, "name it with --policy-file")?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            all.push(Saved {
                name: name.clone().unwrap_or_else(|| stem.into_owned()),
                flag: "--model",
                path,
                deployed,
            });
        }
        for Titled { name, what } in &self.policy_file {
            let path = PathBuf::from(what);
            let (deployed, _) = read_policy(&path, "name it with --model")?;
            all.push(Saved {
                name: name.clone().unwrap_or_else(|| deployed.name.clone()),
                flag: "--policy-file",
                path,
                deployed,
            });
        }
        Ok(all)
    }

    /// The names in the report; no two are the same.
    fn names<'a>(&'a self, saved: &'a [Saved]) -> Result<Vec<&'a str>, Failure> {
        let optimum = (!self.no_opt).then_some("opt");
        let externals = self.external.iter();
        let names: Vec<&str> = optimum
            .into_iter()
            .chain(saved.iter().map(|saved| saved.name.as_str()))
            .chain(externals.map(|external| external.name.as_deref().unwrap_or(EXTERNAL)))
            .collect();
        if self.guard.is_asked()
            && let Some(name) = names
                .iter()
                .find(|name| names.contains(&guarded_name(name, "", 0).as_str()))
        {
            return Err(Failure::new(
                format_args!("behind the guard, `{name}` would be called like another policy"),
                "give that one another name: --policy-file NAME=FILE",
            ));
        }
        match names
            .iter()
            .enumerate()
            .find(|(at, name)| names[..*at].contains(name))
        {
            None => Ok(names),
            Some((_, name)) => Err(Failure::new(
                format_args!("two policies are called `{name}`"),
                "give each a name of its own: --model NAME=FILE, --policy-file NAME=FILE, --external NAME=COMMAND",
            )),
        }
    }

    /// The problem of the files, on which all agree; without files, that of the flags and the configuration.
    fn problem(&self, saved: &[Saved]) -> Result<ProblemSpec, Failure> {
        let section = self.config.read()?.section(&self.problem)?;
        let is_given = section != ProblemSection::default();
        let Some(first) = saved.first() else {
            return section.spec();
        };
        for other in &saved[1..] {
            if other.deployed.problem != first.deployed.problem {
                return Err(Failure::new(
                    format_args!(
                        "{} and {} are for different problems: {}",
                        first.path.display(),
                        other.path.display(),
                        difference(&first.deployed.problem, &other.deployed.problem)
                    ),
                    "evaluate policies of one problem; `laau inspect FILE` shows that of a model",
                ));
            }
        }
        if is_given {
            let given = section.completed_by(&first.deployed.problem)?;
            if given != first.deployed.problem {
                return Err(Failure::new(
                    format_args!(
                        "{} is for another problem than the flags say: {}",
                        first.path.display(),
                        difference(&first.deployed.problem, &given)
                    ),
                    "leave the flags of the problem, or --config, out: the file has the problem and its parameters",
                ));
            }
        }
        Ok(first.deployed.problem.clone())
    }
}

/// In what two problems differ, in a few words.
fn difference(one: &ProblemSpec, other: &ProblemSpec) -> String {
    if one.name() != other.name() {
        return format!("`{}` and `{}`", one.name(), other.name());
    }
    let keys = |spec: &ProblemSpec| match serde_json::to_value(spec) {
        Ok(serde_json::Value::Object(keys)) => keys,
        _ => serde_json::Map::new(),
    };
    let (one, other) = (keys(one), keys(other));
    let mut differing = one.iter().filter(|(key, value)| other.get(*key) != Some(value));
    differing.next().map_or_else(String::new, |(key, value)| {
        let theirs = other.get(key).map_or("nothing".to_owned(), ToString::to_string);
        format!("{key} is {value} and {theirs}")
    })
}

/// Makes a policy of a program; an action that cannot be paid is projected.
struct Program {
    name: String,
    command: String,
    timeout: Duration,
    asked: Arc<std::sync::atomic::AtomicBool>,
}

impl Fit for Program {
    fn fit(&self, task: &Task, _: FitSets<'_>, _: u64, _: &mut dyn FitObserver) -> Result<Fitted, Error> {
        let external = External::new(&self.name, &self.command, self.timeout, Arc::clone(&self.asked));
        let policy = Projected::new(external, task.problem.clone());
        Ok(Fitted::new(policy).with("command", self.command.as_str()))
    }
}
