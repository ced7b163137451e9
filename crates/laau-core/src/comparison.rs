//! Comparisons of policies on the same episodes.

use std::time::{Duration, Instant};

use rayon::prelude::*;

use crate::episode::Episodes;
use crate::error::Error;
use crate::fit::{Fit, FitObserver, FitSets, Fitted, Player, Sets};
use crate::guard::Form;
use crate::report::{PolicyReport, Report, Run};
use crate::results::Results;
use crate::task::Task;

/// Fits policies, plays them on the same test episodes and reports.
///
/// Jobs run in parallel. Apart from times, the report does not depend on the number of threads.
pub struct Comparison<'a> {
    task: &'a Task,
    sets: &'a Sets,
    entries: Vec<Entry<'a>>,
    seeds: Vec<u64>,
    optimum: Option<Box<dyn Fit>>,
    skip_inapplicable: bool,
    timed: bool,
    guards: Vec<GuardedRows>,
    keep_sequential: bool,
    observer: &'a dyn ComparisonObserver,
}

/// Which policies are also played behind a guard.
struct GuardedRows {
    policies: Vec<String>,
    incumbent: String,
    level: f64,
}

struct Entry<'a> {
    name: String,
    fit: Box<dyn Fit>,
    sets: FitSets<'a>,
}

/// The row of a policy behind the guard of an incumbent, the first or a later one of a comparison.
#[must_use]
pub fn guarded_name(policy: &str, incumbent: &str, guard: usize) -> String {
    match guard {
        0 => format!("{policy}-guarded"),
        _ => format!("{policy}-guarded-by-{incumbent}"),
    }
}

/// Watches a comparison; called from several threads. `()` watches nothing.
pub trait ComparisonObserver: Sync {
    /// `jobs` fits will be run.
    fn begin(&self, jobs: usize) {
        let _ = jobs;
    }

    /// A policy was fitted and played.
    fn done(&self, policy: &str, run: &Run, elapsed: Duration) {
        let _ = (policy, run, elapsed);
    }

    /// Polled before and during every fit; `true` ends the comparison. The report then has the policies that are
    /// finished, and the names of the others.
    fn should_stop(&self) -> bool {
        false
    }
}

/// Passes the wish to stop on to a fit, and knows whether the fit has heard it.
struct Stopper<'a> {
    observer: &'a dyn ComparisonObserver,
    stopped: bool,
}

impl FitObserver for Stopper<'_> {
    fn should_stop(&mut self) -> bool {
        self.stopped |= self.observer.should_stop();
        self.stopped
    }
}

impl ComparisonObserver for () {}

impl<'a> Comparison<'a> {
    /// Compares on a task and sets of episodes; add policies with [`Comparison::with`].
    #[must_use]
    pub fn new(task: &'a Task, sets: &'a Sets) -> Self {
        Self {
            task,
            sets,
            entries: Vec::new(),
            seeds: vec![0],
            optimum: None,
            skip_inapplicable: false,
            timed: false,
            guards: Vec::new(),
            keep_sequential: false,
            observer: &(),
        }
    }

    /// Adds a policy.
    #[must_use]
    pub fn with(self, name: impl Into<String>, fit: impl Fit + 'static) -> Self {
        let sets = self.sets.to_fit();
        self.with_fitted_on(name, fit, sets)
    }

    /// Adds a policy that is fitted on other episodes than those of the comparison, for example on shifted ones.
    #[must_use]
    pub fn with_fitted_on(
        mut self,
        name: impl Into<String>,
        fit: impl Fit + 'static,
        sets: FitSets<'a>,
    ) -> Self {
        self.entries.push(Entry {
            name: name.into(),
            fit: Box::new(fit),
            sets,
        });
        self
    }

    /// Fits every policy that depends on a seed once per seed [default: 0].
    #[must_use]
    pub fn seeds(mut self, seeds: impl IntoIterator<Item = u64>) -> Self {
        self.seeds = seeds.into_iter().collect();
        self
    }

    /// Reports utilities as fractions of this offline optimum without listing it. An optimum that was added by
    /// [`Comparison::with`] takes precedence.
    #[must_use]
    pub fn relative_to(mut self, optimum: impl Fit + 'static) -> Self {
        self.optimum = Some(Box::new(optimum));
        self
    }

    /// Leaves out policies that are not applicable to the task; by default they end the comparison.
    #[must_use]
    pub fn skip_inapplicable(mut self, skip: bool) -> Self {
        self.skip_inapplicable = skip;
        self
    }

    /// Measures the time of a decision, too; not that of a sequential policy, which would have to play more episodes for it.
    #[must_use]
    pub fn timed(mut self) -> Self {
        self.timed = true;
        self
    }

    /// Also plays the named policies, as they were fitted, behind a guard in the layer form with another policy of the
    /// comparison as the incumbent; each has a row of its own, named by [`guarded_name`]. Policies that are not there or see the
    /// future are passed over. May be called for several incumbents.
    #[must_use]
    pub fn guarded(
        mut self,
        policies: impl IntoIterator<Item = String>,
        incumbent: impl Into<String>,
        level: f64,
    ) -> Self {
        self.guards.push(GuardedRows {
            policies: policies.into_iter().collect(),
            incumbent: incumbent.into(),
            level,
        });
        self
    }

    /// Keeps the rollouts of sequential policies, which cannot be asked to play the same episodes again.
    #[must_use]
    pub fn keep_sequential(mut self, keep: bool) -> Self {
        self.keep_sequential = keep;
        self
    }

    /// Reports progress.
    #[must_use]
    pub fn observed_by(mut self, observer: &'a dyn ComparisonObserver) -> Self {
        self.observer = observer;
        self
    }

    /// Fits, plays and reports.
    ///
    /// An offline optimum that fails is left out, and with it the fractions: the policies are still compared.
    ///
    /// # Errors
    /// [`Error::Empty`] without seeds or test episodes, [`Error::NotApplicable`] unless such policies are skipped, and
    /// whatever keeps a policy from being fitted.
    pub fn run(self) -> Result<Report, Error> {
        if self.seeds.is_empty() {
            return Err(Error::Empty { what: "seed" });
        }
        self.task.check_episodes("test episode", &self.sets.test)?;
        let jobs: Vec<(usize, u64)> = self
            .entries
            .iter()
            .enumerate()
            .flat_map(|(index, entry)| {
                let count = if entry.fit.is_seeded() {
                    self.seeds.len()
                } else {
                    1
                };
                self.seeds[..count].iter().map(move |&seed| (index, seed))
            })
            .collect();
        self.observer.begin(jobs.len());
        let results: Vec<Result<Option<Run>, Error>> = jobs
            .par_iter()
            .map(|&(index, seed)| {
                let Entry { name, fit, sets } = &self.entries[index];
                let began = Instant::now();
                let run = self.play(&**fit, *sets, seed)?;
                if let Some(run) = &run {
                    self.observer.done(name, run, began.elapsed());
                }
                Ok(run)
            })
            .collect();
        let mut played: Vec<(String, Vec<Run>)> = Vec::new();
        let mut left_out: Vec<(String, Error)> = Vec::new();
        let mut unfinished: Vec<String> = Vec::new();
        for (&(index, _), result) in jobs.iter().zip(results) {
            let name = &self.entries[index].name;
            match result {
                Ok(None) => {
                    if unfinished.last() != Some(name) {
                        unfinished.push(name.clone());
                    }
                }
                Ok(Some(run)) => match played.last_mut() {
                    Some((last, runs)) if last == name => runs.push(run),
                    _ => played.push((name.clone(), vec![run])),
                },
                Err(error) if self.may_leave_out(index, &error) => {
                    if left_out.last().is_none_or(|(last, _)| last != name) {
                        left_out.push((name.clone(), error));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        // The figures of a policy are over all its seeds, or there are none.
        played.retain(|(name, _)| !unfinished.contains(name));
        let optimum = self.optimum_of(&played, &mut left_out);
        let alone = played.len();
        for index in 0..self.guards.len() {
            let rows = self.guarded_rows(index, &played[..alone])?;
            played.extend(rows);
        }
        let policies = played
            .into_iter()
            .map(|(name, runs)| {
                let mut report =
                    PolicyReport::new(name, runs, &self.seeds, &self.sets.test, optimum.as_ref());
                let player = &report.runs[0].fitted.player;
                if self.timed && unfinished.is_empty() && !player.is_sequential() {
                    report.microseconds_per_decision =
                        Some(microseconds(self.task, player, &self.sets.test)?);
                }
                Ok(report)
            })
            .collect::<Result<_, Error>>()?;
        Ok(Report {
            problem: self.task.problem.name().to_owned(),
            horizon: self.sets.test.horizon(),
            episodes: self.sets.test.len(),
            seeds: self.seeds,
            policies,
            left_out,
            unfinished,
        })
    }

    /// Fits and plays; nothing if the observer asked for the end before.
    fn play(&self, fit: &dyn Fit, sets: FitSets<'_>, seed: u64) -> Result<Option<Run>, Error> {
        let mut stopper = Stopper {
            observer: self.observer,
            stopped: false,
        };
        if stopper.should_stop() {
            return Ok(None);
        }
        let fitted = fit.fit(self.task, sets, seed, &mut stopper);
        if stopper.stopped {
            return Ok(None);
        }
        self.play_fitted(fitted?, seed).map(Some)
    }

    fn play_fitted(&self, fitted: Fitted, seed: u64) -> Result<Run, Error> {
        let mut results = Results::default();
        let mut rollouts = Vec::new();
        let keep = self.keep_sequential && fitted.player.is_sequential();
        fitted
            .player
            .play_in_blocks(self.task, &self.sets.test, |block| {
                for rollout in &block {
                    results.push(rollout);
                }
                if keep {
                    rollouts.extend(block);
                }
                Ok::<(), Error>(())
            })?;
        Ok(Run {
            seed,
            fitted,
            results,
            rollouts,
        })
    }

    /// The rows of guarded policies; nothing is fitted again.
    fn guarded_rows(
        &self,
        index: usize,
        played: &[(String, Vec<Run>)],
    ) -> Result<Vec<(String, Vec<Run>)>, Error> {
        let guard = &self.guards[index];
        let beside = played.iter().find(|(name, _)| *name == guard.incumbent);
        let Some((_, beside)) = beside else {
            return Err(Error::UnknownPolicy {
                policy: guard.incumbent.clone(),
            });
        };
        let is_online = |runs: &[Run]| matches!(runs[0].fitted.player, Player::Online(_));
        let chosen = played.iter().filter(|(name, runs)| {
            guard.policies.contains(name) && *name != guard.incumbent && is_online(runs)
        });
        chosen
            .map(|(name, runs)| {
                // As many as the one of the two that draws has seeds.
                let count = runs.len().max(beside.len());
                let runs = (0..count).map(|seed| {
                    let [advice, incumbent] = [runs, beside].map(|runs| &runs[seed.min(runs.len() - 1)]);
                    let fitted = Fitted::guarded(
                        self.task,
                        &advice.fitted,
                        &incumbent.fitted,
                        guard.level,
                        Form::Layer,
                    )?;
                    self.play_fitted(fitted, self.seeds[seed])
                });
                let name = guarded_name(name, &guard.incumbent, index);
                Ok((name, runs.collect::<Result<_, Error>>()?))
            })
            .collect()
    }

    /// Inapplicable policies on request; the optimum always, since it is only the reference.
    fn may_leave_out(&self, index: usize, error: &Error) -> bool {
        match error {
            Error::NotApplicable { .. } => self.skip_inapplicable,
            _ => self.entries[index].fit.is_hindsight(),
        }
    }

    fn optimum_of(
        &self,
        played: &[(String, Vec<Run>)],
        left_out: &mut Vec<(String, Error)>,
    ) -> Option<Results> {
        let listed = played.iter().find_map(|(_, runs)| match runs[0].fitted.player {
            Player::Hindsight(_) => Some(runs[0].results.clone()),
            Player::Online(_) => None,
        });
        if listed.is_some() || self.entries.iter().any(|entry| entry.fit.is_hindsight()) {
            return listed;
        }
        match self.play(&**self.optimum.as_ref()?, self.sets.to_fit(), self.seeds[0]) {
            Ok(run) => run.map(|run| run.results),
            Err(error) => {
                left_out.push(("opt".to_owned(), error));
                None
            }
        }
    }
}

/// The time of one decision in one thread, ledger included; for the optimum its share of the planning.
fn microseconds(task: &Task, player: &Player, episodes: &Episodes) -> Result<f64, Error> {
    /// The fastest counts: other load on the machine only adds time.
    const PASSES: usize = 3;
    const EPISODES: usize = 64;
    let first: Vec<usize> = (0..episodes.len().min(EPISODES)).collect();
    let episodes = episodes.select(&first);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .map_err(|error| Error::Thread {
            reason: error.to_string(),
        })?;
    let mut fastest = f64::INFINITY;
    for _ in 0..PASSES {
        let began = Instant::now();
        pool.install(|| player.play(task, &episodes))?;
        fastest = fastest.min(began.elapsed().as_secs_f64());
    }
    Ok(fastest * 1e6 / (episodes.len() * episodes.horizon()) as f64)
}
