//! What the clients saw and what the service's log says: all that the checker looks at.

use std::collections::BTreeMap;

use serde::Deserialize;

/// What a client asked of an account, under a key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Asked {
    Open,
    Decide { context: Vec<f64> },
    Settle { decision: String, usage: Vec<f64> },
    Release { decision: String },
    Skip { steps: u64 },
}

/// An answer with status 2xx: a promise.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) account: String,
    pub(crate) key: String,
    pub(crate) asked: Asked,
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// A key whose only answers were refusals: nothing of it may be in the log.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) account: String,
    pub(crate) key: String,
    pub(crate) status: u16,
}

/// What an account was made with.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) budgets: Vec<f64>,
    pub(crate) rollover: bool,
}

/// A line of the service's log.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Line {
    pub(crate) period: u64,
    pub(crate) number: u64,
    pub(crate) event: Event,
    pub(crate) request: Option<Keyed>,
}

/// What the line says that happened; only what is checked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Event {
    Opened { budgets: Vec<f64> },
    Decided { context: Vec<f64>, action: Vec<f64> },
    Granted { context: Vec<f64> },
    Settled { hold: u64, usage: Vec<f64> },
    Released { hold: u64 },
    Skipped { steps: u64 },
}

/// The request of a line, with the answer that is kept for it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Keyed {
    pub(crate) key: String,
    pub(crate) status: u16,
    pub(crate) answer: String,
}

/// The body of an answer to a decision.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Decision {
    #[serde(rename = "decision")]
    pub(crate) name: String,
    pub(crate) period: u64,
    pub(crate) step: u64,
    pub(crate) action: Vec<f64>,
    pub(crate) held: Vec<f64>,
    pub(crate) remaining: Vec<f64>,
    #[serde(default)]
    pub(crate) beyond_horizon: bool,
}

/// The body of an answer to a settlement or a release.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Settlement {
    pub(crate) remaining: Vec<f64>,
}

/// Everything that was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) terms: BTreeMap<String, Terms>,
    pub(crate) answers: Vec<Answered>,
    pub(crate) refused: Vec<Refused>,
    /// The lines of each period of each account, in order.
    pub(crate) logs: BTreeMap<(String, u64), Vec<Line>>,
    /// Lines that were read twice and differed.
    pub(crate) rewritten: Vec<String>,
    /// Answers that the API does not have.
    pub(crate) unexpected: Vec<String>,
}

impl History {
    /// Adds lines of a log from a number on; lines that were read before must not have changed.
    pub(crate) fn read(&mut self, account: &str, period: u64, from: u64, lines: Vec<Line>) {
        let log = self.logs.entry((account.to_owned(), period)).or_default();
        for (place, line) in (usize::try_from(from).unwrap_or(usize::MAX)..).zip(lines) {
            match log.get(place) {
                Some(known) if *known != line => {
                    self.rewritten
                        .push(format!("{account}, period {period}, line {place}"));
                }
                Some(_) => {}
                None => log.push(line),
            }
        }
    }

    /// How many lines of a period are known.
    pub(crate) fn known(&self, account: &str, period: u64) -> u64 {
        let log = self.logs.get(&(account.to_owned(), period));
        log.map_or(0, |log| log.len() as u64)
    }

    /// What concerns one period of one account alone.
    pub(crate) fn only(&self, account: &str, period: u64) -> Self {
        let log = self
            .logs
            .get(&(account.to_owned(), period))
            .cloned()
            .unwrap_or_default();
        let keys: std::collections::HashSet<&str> = log
            .iter()
            .filter_map(|line| Some(line.request.as_ref()?.key.as_str()))
            .collect();
        let answers = self.answers.iter();
        let answers =
            answers.filter(|answer| answer.account == account && keys.contains(answer.key.as_str()));
        Self {
            terms: self.terms.clone(),
            answers: answers.cloned().collect(),
            logs: [((account.to_owned(), period), log.clone())].into(),
            ..Self::default()
        }
    }
}
