//! The checker: exact arithmetic on the log, and every promise held against it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use num_bigint::BigInt;

use crate::exact::{about, is_rounded_down, units};
use crate::history::{Asked, Decision, Event, History, Keyed, Line, Settlement};

/// What must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// The exact sum of what is held and settled is above a budget.
    Overspent,
    /// An answer was given for which the log has no line.
    Lost,
    /// The log, or another answer to the same key, has other bytes.
    Changed,
    /// One key has two lines.
    KeyTwice,
    /// One step, or one decision's name, was given twice.
    StepTwice,
    /// Lines are missing, out of order or were rewritten.
    Broken,
    /// A settlement of what was not held, more than was held, or for the second time.
    WronglySettled,
    /// A request that was only ever refused has a line.
    Refused,
    /// An answer that the API does not have.
    Unexpected,
    /// `remaining` is not the exact remainder, rounded down.
    Remaining,
}

/// One finding.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    pub(crate) what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.what)
    }
}

/// What was looked at, so that an empty list of faults is not the result of an empty history.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) accounts: usize,
    pub(crate) periods: usize,
    pub(crate) decisions: usize,
    pub(crate) granted: usize,
    pub(crate) settlements: usize,
    pub(crate) answers: usize,
    pub(crate) repeated: usize,
    pub(crate) refused: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} accounts, {} periods, {} decisions in the log ({} past the horizon), {} settlements; {} answers, {} of them \
             to repeated keys; {} refusals",
            self.accounts,
            self.periods,
            self.decisions,
            self.granted,
            self.settlements,
            self.answers,
            self.repeated,
            self.refused
        )
    }
}

/// Checks a history; finds nothing if the service kept every promise.
pub(crate) fn check(history: &History) -> (Counts, Vec<Fault>) {
    let mut checker = Checker::default();
    for place in &history.rewritten {
        checker.fault(Kind::Broken, place.clone());
    }
    for what in &history.unexpected {
        checker.fault(Kind::Unexpected, what.clone());
    }
    for ((account, period), log) in &history.logs {
        checker.period(history, account, *period, log);
    }
    checker.answers(history);
    let accounts: HashSet<&String> = history.logs.keys().map(|(account, _)| account).collect();
    checker.counts.accounts = accounts.len();
    checker.counts.periods = history.logs.len();
    (checker.counts, checker.faults)
}

#[derive(Default)]
struct Checker<'a> {
    counts: Counts,
    faults: Vec<Fault>,
    /// The line of each account's key.
    keys: HashMap<(&'a str, &'a str), (u64, &'a Line)>,
    /// What was left at the end of each period, of each budget.
    left: BTreeMap<(&'a str, u64), Vec<BigInt>>,
}

/// A period that is summed up.
#[derive(Default)]
struct Sums {
    budgets: Vec<BigInt>,
    /// What is held and settled.
    used: Vec<BigInt>,
    /// Open holds by their number.
    open: HashMap<u64, Vec<f64>>,
    closed: HashSet<u64>,
    steps: HashSet<u64>,
}

impl<'a> Checker<'a> {
    fn fault(&mut self, kind: Kind, what: String) {
        self.faults.push(Fault { kind, what });
    }

    fn period(&mut self, history: &'a History, account: &'a str, period: u64, log: &'a [Line]) {
        let mut sums = Sums::default();
        for (place, line) in log.iter().enumerate() {
            let here = || format!("{account}, period {period}, line {place}");
            if line.number != place as u64 || line.period != period {
                let (number, of) = (line.number, line.period);
                self.fault(
                    Kind::Broken,
                    format!("{}: is line {number} of period {of}", here()),
                );
            }
            if matches!(line.event, Event::Opened { .. }) != (place == 0) {
                self.fault(
                    Kind::Broken,
                    format!("{}: a period begins once, at its first line", here()),
                );
            }
            if let Some(request) = &line.request
                && let Some((of, other)) = self.keys.insert((account, &request.key), (period, line))
            {
                let number = other.number;
                self.fault(
                    Kind::KeyTwice,
                    format!("{}: key {} has line {number} of period {of}", here(), request.key),
                );
            }
            if let Err((kind, what)) = self.line(history, account, period, line, &mut sums) {
                self.fault(kind, format!("{}: {what}", here()));
            }
            for (budget, (used, most)) in sums.used.iter().zip(&sums.budgets).enumerate() {
                if used > most {
                    let over = about(&(used - most));
                    self.faults.push(Fault {
                        kind: Kind::Overspent,
                        what: format!("{}: budget {budget} by {over:e}", here()),
                    });
                }
            }
        }
        let left = sums
            .budgets
            .iter()
            .zip(&sums.used)
            .map(|(budget, used)| budget - used);
        self.left.insert((account, period), left.collect());
    }

    /// Adds one line to the sums.
    fn line(
        &mut self,
        history: &History,
        account: &str,
        period: u64,
        line: &Line,
        sums: &mut Sums,
    ) -> Result<(), (Kind, String)> {
        match &line.event {
            Event::Opened { budgets } => {
                sums.budgets = all_units(budgets)?;
                sums.used = vec![BigInt::ZERO; budgets.len()];
                self.budgets(history, account, period, &sums.budgets)
            }
            Event::Decided { context, action } => {
                self.counts.decisions += 1;
                let decision = decision(line)?;
                if decision.action != *action || decision.beyond_horizon || context.is_empty() {
                    return Err((Kind::Changed, "the answer is not that of the event".to_owned()));
                }
                if !sums.steps.insert(decision.step) {
                    return Err((
                        Kind::StepTwice,
                        format!("step {} was decided before", decision.step),
                    ));
                }
                hold(&decision, period, sums)
            }
            Event::Granted { .. } => {
                self.counts.decisions += 1;
                self.counts.granted += 1;
                hold(&decision(line)?, period, sums)
            }
            Event::Settled { hold, usage } => {
                self.counts.settlements += 1;
                settle(line, *hold, usage, sums)
            }
            Event::Released { hold } => {
                let nothing = vec![0.0; sums.budgets.len()];
                settle(line, *hold, &nothing, sums)
            }
            Event::Skipped { .. } => Ok(()),
        }
    }

    /// The budgets of a period are those of the account, with at most what the period before left.
    fn budgets(
        &self,
        history: &History,
        account: &str,
        period: u64,
        budgets: &[BigInt],
    ) -> Result<(), (Kind, String)> {
        let Some(terms) = history.terms.get(account) else {
            return Ok(());
        };
        let mut most = all_units(&terms.budgets)?;
        if terms.rollover && period > 0 {
            // A period before that nobody read could have left anything.
            let Some(left) = self.left.get(&(account, period - 1)) else {
                return Ok(());
            };
            most.iter_mut().zip(left).for_each(|(most, left)| *most += left);
        }
        if budgets.len() != most.len() || budgets.iter().zip(&most).any(|(found, most)| found > most) {
            return Err((
                Kind::Overspent,
                "the period began with more than its budgets".to_owned(),
            ));
        }
        Ok(())
    }

    /// Holds every answer against the log.
    fn answers(&mut self, history: &'a History) {
        let mut seen: HashSet<(&str, &str)> = HashSet::new();
        for answer in &history.answers {
            self.counts.answers += 1;
            let place = (answer.account.as_str(), answer.key.as_str());
            if !seen.insert(place) {
                self.counts.repeated += 1;
            }
            let name = format!("{}, key {}", answer.account, answer.key);
            let Some((_, line)) = self.keys.get(&place) else {
                self.fault(Kind::Lost, name);
                continue;
            };
            let Some(Keyed {
                status, answer: kept, ..
            }) = &line.request
            else {
                continue;
            };
            if (*status, kept) != (answer.status, &answer.body) {
                let found = format!(
                    "{name}: the log has {status} {kept}, a client {} {}",
                    answer.status, answer.body
                );
                self.fault(Kind::Changed, found);
            } else if !is_what_was_asked(&answer.asked, &line.event, line.period) {
                let found = format!("{name}: asked {:?}, the log has {:?}", answer.asked, line.event);
                self.fault(Kind::Changed, found);
            }
        }
        for refused in &history.refused {
            self.counts.refused += 1;
            let place = (refused.account.as_str(), refused.key.as_str());
            if self.keys.contains_key(&place) {
                let what = format!("{}, key {}: {}", refused.account, refused.key, refused.status);
                self.fault(Kind::Refused, what);
            }
        }
    }
}

fn decision(line: &Line) -> Result<Decision, (Kind, String)> {
    let request = line.request.as_ref();
    let request = request.ok_or_else(|| (Kind::Broken, "a decision without a request".to_owned()))?;
    serde_json::from_str(&request.answer).map_err(|error| (Kind::Broken, format!("not an answer: {error}")))
}

/// Takes what a decision holds off the budgets.
fn hold(decision: &Decision, period: u64, sums: &mut Sums) -> Result<(), (Kind, String)> {
    let number = decision
        .name
        .strip_prefix(&format!("{period}-"))
        .and_then(|number| number.parse().ok())
        .filter(|_| decision.period == period)
        .ok_or_else(|| {
            (
                Kind::Broken,
                format!("{} is no decision of the period", decision.name),
            )
        })?;
    if sums.closed.contains(&number) || sums.open.insert(number, decision.held.clone()).is_some() {
        return Err((
            Kind::StepTwice,
            format!("decision {} was made before", decision.name),
        ));
    }
    let held = all_units(&decision.held)?;
    if held.len() != sums.used.len() || held.iter().any(|held| *held < BigInt::ZERO) {
        return Err((
            Kind::Broken,
            "expected one usage of each budget, not below zero".to_owned(),
        ));
    }
    sums.used
        .iter_mut()
        .zip(&held)
        .for_each(|(used, held)| *used += held);
    remainder(&decision.remaining, sums)
}

/// Gives back what a settlement did not use.
fn settle(line: &Line, number: u64, usage: &[f64], sums: &mut Sums) -> Result<(), (Kind, String)> {
    let wrong = |what: &str| (Kind::WronglySettled, format!("hold {number} {what}"));
    let held = sums.open.remove(&number);
    let held = held.ok_or_else(|| wrong("is not open"))?;
    sums.closed.insert(number);
    let (held, usage) = (all_units(&held)?, all_units(usage)?);
    if held.len() != usage.len() {
        return Err(wrong("has another number of budgets"));
    }
    if usage
        .iter()
        .zip(&held)
        .any(|(usage, held)| usage > held || *usage < BigInt::ZERO)
    {
        return Err(wrong("was settled with what it does not cover"));
    }
    for ((used, usage), held) in sums.used.iter_mut().zip(&usage).zip(&held) {
        *used += usage - held;
    }
    match &line.request {
        None => Ok(()),
        Some(request) => {
            let answer: Settlement = serde_json::from_str(&request.answer)
                .map_err(|error| (Kind::Broken, format!("not an answer: {error}")))?;
            remainder(&answer.remaining, sums)
        }
    }
}

/// What an answer calls remaining is what exactly remains, rounded down.
fn remainder(remaining: &[f64], sums: &Sums) -> Result<(), (Kind, String)> {
    for ((remaining, used), budget) in remaining.iter().zip(&sums.used).zip(&sums.budgets) {
        let exact = budget - used;
        // An overspent budget is a finding of its own.
        if exact >= BigInt::ZERO && !is_rounded_down(*remaining, &exact) {
            return Err((
                Kind::Remaining,
                format!("{remaining:?} is not the exact remainder, rounded down"),
            ));
        }
    }
    Ok(())
}

fn all_units(values: &[f64]) -> Result<Vec<BigInt>, (Kind, String)> {
    let number = |value: &f64| units(*value).ok_or_else(|| (Kind::Broken, format!("{value} is not finite")));
    values.iter().map(number).collect()
}

fn is_what_was_asked(asked: &Asked, event: &Event, period: u64) -> bool {
    let same = |one: &[f64], other: &[f64]| {
        one.len() == other.len()
            && one
                .iter()
                .zip(other)
                .all(|(one, other)| one.to_bits() == other.to_bits())
    };
    match (asked, event) {
        (Asked::Open, Event::Opened { .. }) => true,
        (Asked::Decide { context: asked }, Event::Decided { context, .. } | Event::Granted { context }) => {
            same(asked, context)
        }
        (
            Asked::Settle {
                decision,
                usage: asked,
            },
            Event::Settled { hold, usage },
        ) => *decision == format!("{period}-{hold}") && same(asked, usage),
        (Asked::Release { decision }, Event::Released { hold }) => *decision == format!("{period}-{hold}"),
        (Asked::Skip { steps: asked }, Event::Skipped { steps }) => asked == steps,
        _ => false,
    }
}
