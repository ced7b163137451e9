//! Sets of episodes from files, checked before anything is computed.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use laau::core::{Constants, Dimensions, Episodes, Error, Problem, Scaling, Task, TrainedOn};
use laau::net::{LARGEST_FILE, ModelSpec};

use crate::failure::Failure;
use crate::{interrupt, output};

/// A set of episodes and the file it came from.
pub(crate) struct Set {
    path: PathBuf,
    /// The episodes; there is at least one.
    pub(crate) episodes: Episodes,
}

/// Reads sets that belong together: they fit the problem, which the flags or a file said, their budgets pay every step, their
/// horizons and the ways in which contexts were made agree.
pub(crate) fn read<const COUNT: usize>(
    problem: &dyn Problem,
    is_from_file: bool,
    paths: [&Path; COUNT],
) -> Result<[Set; COUNT], Failure> {
    // A missing file shows before a large one is read.
    for path in paths {
        expect_file(path)?;
    }
    let asked = interrupt::watch()?;
    let mut sets = Vec::with_capacity(COUNT);
    for path in paths {
        let set = Set::read(path)?;
        interrupt::check(&asked, "stopped; nothing was written")?;
        set.check(problem, is_from_file)?;
        sets.push(set);
    }
    let first = sets[0].episodes.horizon();
    let name = sets[0].path.display().to_string();
    // A set that does not say how its contexts were made says nothing of the others.
    let known = sets.iter().find(|set| set.episodes.scaling().is_some());
    for set in &sets {
        set.check_horizon(&(first..=first), &name)?;
        let told = set.path.display().to_string();
        if let Some(known) = known {
            check_scaling(
                (&known.path.display().to_string(), known.episodes.scaling()),
                (&told, set.episodes.scaling()),
            )?;
        }
        if let Some(scaling) = set.episodes.scaling().filter(|scaling| scaling.kind != "none")
            && HAS_UNITS.contains(&problem.name())
        {
            output::talk(format_args!(
                "warning: {told}: contexts were made with --normalisation {}, and `{}` takes readings as they are; import with \
                 --normalisation none",
                scaling.kind,
                problem.name()
            ));
        }
        if !set.episodes.any_budget_binds(problem) {
            output::talk(format_args!(
                "warning: {told}: no budget binds: every step can take the greatest action, so that all policies may look the \
                 same; are budgets and --upper in the same unit?"
            ));
        }
    }
    sets.try_into().map_err(|_| {
        Failure::new(
            "the sets of episodes were not read",
            "this is a mistake in laau itself: please report it",
        )
    })
}

/// The problems whose contexts have units, such as prices, gains and shares.
const HAS_UNITS: [&str; 4] = ["llm-tokens", "trading", "vm-allocation", "wireless"];

/// Refuses what is not there, and a folder.
pub(crate) fn expect_file(path: &Path) -> Result<(), Failure> {
    let found = std::fs::metadata(path)
        .map_err(|error| Failure::file(path, &error, "check the path and its permissions"))?;
    if found.is_dir() {
        return Err(Failure::new(
            format_args!("{}: this is a folder", path.display()),
            format_args!(
                "name a file in it, for example {}",
                path.join("train.parquet").display()
            ),
        ));
    }
    if !found.is_file() {
        return Err(Failure::new(
            format_args!("{}: this is a pipe or a device", path.display()),
            "write it to a file first: tables are read more than once",
        ));
    }
    Ok(())
}

impl Set {
    fn read(path: &Path) -> Result<Self, Failure> {
        let none = || {
            Failure::new(
                format_args!("{}: the table holds no episodes", path.display()),
                "make some with `laau generate` or `laau import`",
            )
        };
        let episodes = match laau::data::read_episodes(path) {
            Ok(episodes) => episodes,
            Err(
                laau::data::Error::Empty { .. }
                | laau::data::Error::Core(Error::WrongLength { found: 0, .. }),
            ) => return Err(none()),
            Err(error @ laau::data::Error::MissingColumn { .. }) => {
                return Err(Failure::new(
                    error,
                    "this is a table, but not of episodes: make some of it with `laau import table`",
                ));
            }
            Err(error) => return Err(error.into()),
        };
        if episodes.is_empty() {
            return Err(none());
        }
        Ok(Self {
            path: path.to_owned(),
            episodes,
        })
    }

    /// Checks that the episodes have as many steps as something else.
    pub(crate) fn check_horizon(&self, expected: &RangeInclusive<usize>, of: &str) -> Result<(), Failure> {
        match self.episodes.horizon() {
            horizon if expected.contains(&horizon) => Ok(()),
            horizon => Err(Failure::new(
                format_args!(
                    "{}: episodes of {horizon} steps, {of} has {}",
                    self.path.display(),
                    range(expected)
                ),
                "make all episodes with the same --horizon",
            )),
        }
    }

    /// Refuses constants of more series than the file of a policy can hold, before one is fitted.
    pub(crate) fn check_constants(&self) -> Result<(), Failure> {
        /// A policy file has them up to four times, in hexadecimal digits, and the header of a model is limited, too.
        const MOST: u64 = LARGEST_FILE / 16;
        /// Bytes of the two constants of a column, about.
        const PAIR: usize = 64;
        let Some(Constants::PerSeries(constants)) = self.episodes.scaling().map(|scaling| &scaling.constants)
        else {
            return Ok(());
        };
        let sizes = constants
            .iter()
            .map(|(name, columns)| (name.len() + PAIR * columns.len()) as u64);
        let size: u64 = sizes.sum();
        if size <= MOST {
            return Ok(());
        }
        Err(Failure::new(
            format_args!(
                "{}: the constants of {} series take {} MB, more than the {} MB that a model or policy file has for them",
                self.path.display(),
                constants.len(),
                size >> 20,
                MOST >> 20
            ),
            "import with --normalisation percent or none, or fewer series",
        ))
    }

    /// Checks that the contexts are made as those that something was trained on.
    pub(crate) fn check_scaling(&self, trained_on: Option<&TrainedOn>, of: &str) -> Result<(), Failure> {
        let known = trained_on.and_then(|trained_on| trained_on.scaling.as_ref());
        check_scaling(
            (of, known),
            (&self.path.display().to_string(), self.episodes.scaling()),
        )
    }

    fn check(&self, problem: &dyn Problem, is_from_file: bool) -> Result<(), Failure> {
        let path = self.path.display();
        let Dimensions { budgets, context, .. } = problem.dimensions();
        for (what, expected, found) in [
            ("context entries", context, self.episodes.context_len()),
            ("budgets", budgets, self.episodes.budget_len()),
        ] {
            // The name of another problem, if it is known, says more than its sizes.
            if expected != found && self.episodes.problem().is_none_or(|name| name == problem.name()) {
                return Err(Failure::new(
                    format_args!(
                        "{path}: {found} {what}, problem `{}` has {expected}",
                        problem.name()
                    ),
                    "name the problem of these episodes with --problem, and its sizes with its keys",
                ));
            }
        }
        self.episodes.check(problem).map_err(|error| {
            let hint = match error.root() {
                Error::BudgetTooSmall { least, .. } => {
                    format!("a budget of at least {least} pays every step; raise it, or lower --lower")
                }
                Error::OtherProblem { made_for, problem } if is_from_file => {
                    format!("give episodes of `{problem}`, or a model or a policy file for `{made_for}`")
                }
                Error::OtherProblem { made_for, .. } => format!("name their problem: --problem {made_for}"),
                _ => "correct the value, or choose a problem that is defined there".to_owned(),
            };
            Failure::new(format_args!("{path}: {error}"), hint)
        })
    }
}

/// Refuses contexts that were made of readings in another way than others, where both are known to be made of readings.
pub(crate) fn check_scaling(
    (name, scaling): (&str, Option<&Scaling>),
    (other_name, other): (&str, Option<&Scaling>),
) -> Result<(), Failure> {
    let difference = scaling
        .zip(other)
        .and_then(|(scaling, other)| scaling.difference(other));
    difference.map_or(Ok(()), |difference| {
        Err(Failure::new(
            format_args!("{name} and {other_name} have contexts that were made of readings in different ways: {difference}"),
            "import both with the same --normalisation, and the same --values in the same order",
        ))
    })
}

/// `20`, or `10 to 40`.
pub(crate) fn range(steps: &RangeInclusive<usize>) -> String {
    match (steps.start(), steps.end()) {
        (fewest, most) if fewest == most => most.to_string(),
        (fewest, most) => format!("{fewest} to {most}"),
    }
}

/// Sorts seeds, and refuses one that is given twice.
pub(crate) fn check_seeds(seeds: &mut [u64]) -> Result<(), Failure> {
    seeds.sort_unstable();
    match seeds.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(Failure::new(
            format_args!("seed {} is given twice", pair[0]),
            "give each seed once: the same seed gives the same policy",
        )),
    }
}

/// Refuses a model of another problem.
pub(crate) fn check_model(task: &Task, spec: &ModelSpec) -> Result<(), Failure> {
    spec.check_problem(&*task.problem).map_err(|error| {
        let (theirs, ours) = (spec.dimensions, task.problem.dimensions());
        if spec.problem == task.problem.name() && theirs == ours {
            return Failure::new(
                format_args!("the model is for another problem: {error}"),
                "leave the flags of the problem out: the model's file has its parameters",
            );
        }
        let sizes = |d: Dimensions| {
            format!(
                "{} actions, {} budgets, context of {}",
                d.actions, d.budgets, d.context
            )
        };
        Failure::new(
            format_args!(
                "the model is for problem `{}` ({}), not for `{}` ({})",
                spec.problem,
                sizes(theirs),
                task.problem.name(),
                sizes(ours)
            ),
            format_args!("name the model's problem: --problem {}", spec.problem),
        )
    })
}
