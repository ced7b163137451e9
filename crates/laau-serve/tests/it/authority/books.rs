//! The books of an account, kept once more in exact rationals from nothing but its log.
//!
//! Every finite `f64` is a whole number of 2^-1074, so that integers of that unit are exact rationals.

use std::collections::BTreeMap;

use laau::core::HoldId;
use laau_serve::{AccountSpec, AccountView, Change, Decision, Entry, Event, KeyedRequest, Settled};
use num_bigint::BigInt;

/// The exact value of a float that is not negative.
pub(super) fn exact(value: f64) -> BigInt {
    assert!(value >= 0.0 && value.is_finite());
    let bits = value.abs().to_bits();
    let (exponent, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
    match exponent {
        0 => BigInt::from(fraction),
        exponent => BigInt::from(fraction | (1 << 52)) << (exponent - 1),
    }
}

/// Whether a float is an exact number rounded down.
fn is_floor(float: f64, number: &BigInt) -> bool {
    exact(float) <= *number && exact(float.next_up()) > *number
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Hold {
    Open(Vec<f64>),
    Closed(Vec<f64>),
}

/// One period, by its log.
#[derive(Debug, Clone)]
pub(super) struct Period {
    pub(super) at: u64,
    pub(super) until: Option<u64>,
    pub(super) budgets: Vec<f64>,
    planned: usize,
    pub(super) holds: Vec<Hold>,
    pub(super) decided: usize,
    pub(super) skipped: usize,
    pub(super) granted: usize,
    /// What remained of each budget after each line.
    remained: Vec<Vec<BigInt>>,
}

impl Period {
    /// What is spent for good, and what is spent or held.
    pub(super) fn spent(&self, budget: usize) -> (BigInt, BigInt) {
        let mut sums = (BigInt::ZERO, BigInt::ZERO);
        for hold in &self.holds {
            match hold {
                Hold::Open(usage) => sums.1 += exact(usage[budget]),
                Hold::Closed(usage) => {
                    sums.0 += exact(usage[budget]);
                    sums.1 += exact(usage[budget]);
                }
            }
        }
        sums
    }

    fn remaining(&self, budget: usize) -> BigInt {
        exact(self.budgets[budget]) - self.spent(budget).1
    }

    fn check_remaining(&self, told: &[f64]) {
        assert_eq!(told.len(), self.budgets.len());
        for (budget, &told) in told.iter().enumerate() {
            let remaining = self.remaining(budget);
            assert!(remaining >= BigInt::ZERO, "budget {budget} is exceeded");
            assert!(is_floor(told, &remaining), "{told:e} remains of budget {budget}");
        }
    }

    pub(super) fn steps_left(&self) -> usize {
        self.planned - self.decided - self.skipped
    }

    /// The slot of a time, in a period by the clock.
    fn slot(&self, now: u64) -> usize {
        let until = self.until.unwrap();
        let elapsed = u128::from(now.saturating_sub(self.at));
        let slot = elapsed * self.planned as u128 / u128::from(until - self.at);
        usize::try_from(slot).unwrap()
    }
}

/// An account by its log: the open period, the one before, and every key in them.
#[derive(Debug, Clone)]
pub(super) struct Books {
    pub(super) number: u64,
    pub(super) open: Period,
    pub(super) previous: Option<Period>,
    pub(super) keys: BTreeMap<String, Carried>,
}

/// What a request did: the event, in the log of which period, and what was answered.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Carried {
    period: u64,
    event: Event,
    pub(super) request: KeyedRequest,
}

impl Books {
    /// Reads the logs of the open period and of the one before, and checks every line of them.
    pub(super) fn read(spec: &AccountSpec, number: u64, logs: &[Vec<Entry>]) -> Self {
        let mut keys = BTreeMap::new();
        let first = number + 1 - logs.len() as u64;
        let mut periods: Vec<Period> = logs
            .iter()
            .zip(first..)
            .map(|(log, number)| read_period(spec, number, log, &mut keys))
            .collect();
        let open = periods.pop().unwrap();
        let previous = periods.pop();
        if let Some(previous) = &previous {
            check_budgets(spec, previous, &open);
        }
        Self {
            number,
            open,
            previous,
            keys,
        }
    }

    /// Checks that what is shown is what the log says.
    pub(super) fn check_view(&self, view: &AccountView) {
        let period = view.period.as_ref().unwrap();
        let open = &self.open;
        assert_eq!(
            (period.number, period.began, period.until),
            (self.number, open.at, open.until)
        );
        assert_eq!(period.budgets, open.budgets);
        open.check_remaining(&period.remaining);
        let is_open = |hold: &&Hold| matches!(hold, Hold::Open(_));
        assert_eq!(period.holds, open.holds.iter().filter(is_open).count());
        for (budget, &held) in period.held.iter().enumerate() {
            let (closed, all) = open.spent(budget);
            assert!(is_floor(held, &(all - closed)));
        }
        assert_eq!(
            (period.step, period.horizon, period.granted),
            (open.decided, open.planned - open.skipped, open.granted)
        );
    }

    /// The period and the hold of a decision, if it is still known.
    pub(super) fn hold(&self, period: u64, hold: usize) -> Option<&Hold> {
        let periods = [
            Some((self.number, &self.open)),
            self.previous.as_ref().map(|previous| (self.number - 1, previous)),
        ];
        let mut periods = periods.into_iter().flatten();
        let (_, found) = periods.find(|(number, _)| *number == period)?;
        found.holds.get(hold)
    }
}

/// Whether the budgets of a period are those of the settings, and with rollover what was left by then, exactly.
fn check_budgets(spec: &AccountSpec, previous: &Period, open: &Period) {
    let times = match (previous.until, spec.period) {
        (Some(until), Some(period)) => {
            assert!(open.at >= until);
            1 + (open.at - until) / (1000 * period.seconds)
        }
        _ => 1,
    };
    for (budget, &given) in open.budgets.iter().enumerate() {
        if !spec.rollover {
            assert_eq!(given, spec.budgets[budget]);
            continue;
        }
        let fresh = exact(spec.budgets[budget]) * BigInt::from(times);
        // Settlements that came later are in the same log: at some line of it the sum must be right.
        let sums = previous
            .remained
            .iter()
            .map(|remained| &remained[budget] + &fresh);
        assert!(
            sums.into_iter().any(|sum| is_floor(given, &sum)),
            "{given:e} of budget {budget}"
        );
    }
}

fn read_period(
    spec: &AccountSpec,
    number: u64,
    log: &[Entry],
    keys: &mut BTreeMap<String, Carried>,
) -> Period {
    let mut period: Option<Period> = None;
    for (place, entry) in log.iter().enumerate() {
        assert_eq!(entry.number, place as u64);
        if let Some(request) = &entry.request {
            let carried = Carried {
                period: entry.period,
                event: entry.event.clone(),
                request: request.clone(),
            };
            let first = keys.insert(request.key.clone(), carried);
            assert!(first.is_none(), "key {} was carried out twice", request.key);
        }
        let answer = entry.request.as_ref().map(|request| request.answer.as_str());
        match (&mut period, &entry.event) {
            (
                None,
                Event::Opened {
                    at,
                    until,
                    budgets,
                    horizon,
                },
            ) => {
                assert_eq!(spec.horizon, Some(*horizon));
                if let Some(length) = spec.period.map(|period| 1000 * period.seconds) {
                    assert_eq!((*at % length, *until), (0, Some(*at + length)));
                }
                period = Some(Period {
                    at: *at,
                    until: *until,
                    budgets: budgets.clone(),
                    planned: *horizon,
                    holds: Vec::new(),
                    decided: 0,
                    skipped: 0,
                    granted: 0,
                    remained: Vec::new(),
                });
            }
            (None, event) => panic!("the log of a period begins with {event:?}"),
            (Some(period), event) => {
                read_event(spec, number, period, event, answer, log.get(place + 1));
            }
        }
        if let Some(period) = &mut period {
            let remaining = (0..period.budgets.len()).map(|budget| period.remaining(budget));
            let remaining = remaining.collect();
            period.remained.push(remaining);
        }
    }
    period.expect("a period has a log")
}

fn read_event(
    spec: &AccountSpec,
    number: u64,
    period: &mut Period,
    event: &Event,
    answer: Option<&str>,
    next: Option<&Entry>,
) {
    let decision = || -> Decision { serde_json::from_str(answer.unwrap()).unwrap() };
    let settled = || -> Settled { serde_json::from_str(answer.unwrap()).unwrap() };
    match event {
        Event::Opened { .. } => panic!("a period begins twice"),
        Event::Decided { at, action, .. } => {
            let told = decision();
            assert_eq!((told.step, &told.action), (period.decided, action));
            assert!(!told.beyond_horizon && period.steps_left() > 0);
            if let Some(until) = period.until {
                assert!(*at < until, "decided after the end of the period");
                assert!(period.slot(*at) <= period.decided + period.skipped || *at < period.at);
            }
            period.decided += 1;
            take(spec, number, period, &told);
        }
        Event::Granted { at, .. } => {
            let told = decision();
            assert!(period.until.is_none_or(|until| *at < until));
            assert!(told.beyond_horizon && period.steps_left() == 0);
            period.granted += 1;
            take(spec, number, period, &told);
        }
        Event::Settled { hold, usage } => {
            let told = settled();
            assert_eq!(&told.settled, usage);
            close(period, hold.number(), usage);
            period.check_remaining(&told.remaining);
        }
        Event::Released { hold } => {
            let told = settled();
            close(period, hold.number(), &vec![0.0; period.budgets.len()]);
            period.check_remaining(&told.remaining);
        }
        Event::Skipped { steps } => {
            assert!(*steps > 0 && *steps <= period.steps_left());
            period.skipped += steps;
            if answer.is_none() {
                // The clock skips before a decision, and no more than has passed.
                let Some(Event::Decided { at, .. }) = next.map(|next| &next.event) else {
                    panic!("slots were skipped without a decision");
                };
                assert_eq!(period.slot(*at), period.decided + period.skipped);
            }
        }
    }
}

/// Takes what a decision holds.
fn take(spec: &AccountSpec, number: u64, period: &mut Period, told: &Decision) {
    assert_eq!(told.held.len(), spec.budgets.len());
    let name = format!("{number}-{}", period.holds.len());
    assert_eq!(told.decision.to_string(), name);
    period.holds.push(Hold::Open(told.held.clone()));
    period.check_remaining(&told.remaining);
}

fn close(period: &mut Period, hold: u64, usage: &[f64]) {
    let hold = &mut period.holds[usize::try_from(hold).unwrap()];
    let Hold::Open(held) = hold else {
        panic!("a hold is closed twice");
    };
    assert!(usage.iter().zip(&*held).all(|(used, held)| used <= held));
    *hold = Hold::Closed(usage.to_vec());
}

impl Carried {
    /// Whether it is of a change, to the last bit.
    pub(super) fn is_of(&self, change: &Change) -> bool {
        let same = |one: &[f64], other: &[f64]| {
            one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.to_bits() == b.to_bits())
        };
        // A settlement is in the log of its decision's period.
        let named = |hold: &HoldId, decision: &str| decision == format!("{}-{hold}", self.period);
        match (&self.event, change) {
            (Event::Decided { context, .. } | Event::Granted { context, .. }, Change::Decide(asked)) => {
                same(context, &asked.context)
            }
            (Event::Opened { .. }, Change::Open) => true,
            (Event::Skipped { steps }, Change::Skip { steps: asked }) => steps == asked,
            (
                Event::Settled { hold, usage },
                Change::Settle {
                    decision,
                    usage: asked,
                },
            ) => named(hold, decision) && same(usage, asked),
            (Event::Released { hold }, Change::Release { decision }) => named(hold, decision),
            _ => false,
        }
    }
}
