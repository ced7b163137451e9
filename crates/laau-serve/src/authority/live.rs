//! An account in memory: what a request changes, as entries of its log.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde::Serialize;

use super::batch::Staged;
use super::{Answer, Change};
use crate::account::{AccountView, PeriodSpec, PeriodView};
use crate::deployment::Deployment;
use crate::entry::{DecisionId, Entry, Event, KeyedRequest};
use crate::error::Error;
use crate::period::{Opening, Period};
use crate::store::{AccountRecord, Write};

/// A request with its key, and the digest that tells it from others.
pub(super) struct Request {
    pub(super) key: String,
    pub(super) digest: String,
    pub(super) change: Change,
}

/// An account in memory. It is ahead of the store by the batch under way.
pub(super) struct Live {
    pub(super) record: AccountRecord,
    /// The epoch under which this node owns it.
    pub(super) epoch: u64,
    pub(super) deployment: Deployment,
    pub(super) open: Option<Period>,
    /// The period before, for late settlements.
    pub(super) previous: Option<Period>,
    /// Set when memory is not what the log says any more, by a fault in a problem or policy: it is rebuilt after the batch.
    pub(super) faulty: bool,
}

impl Live {
    /// Makes an account and begins its first period.
    pub(super) fn create(
        record: AccountRecord,
        epoch: u64,
        deployment: Deployment,
        now: u64,
        staged: &mut Staged,
    ) -> Result<Self, Error> {
        let mut live = Self {
            record,
            epoch,
            deployment,
            open: None,
            previous: None,
            faulty: false,
        };
        live.begin(now, None, staged)?;
        Ok(live)
    }

    fn name(&self) -> &str {
        &self.record.spec.name
    }

    /// Whether an idempotency key may be in the logs of the open period and the one before; if not, it surely is not.
    pub(super) fn may_have_key(&self, key: &str) -> bool {
        let mut periods = self.open.iter().chain(&self.previous);
        periods.any(|period| period.may_have_key(key))
    }

    /// The account as it is shown.
    pub(super) fn view(&self) -> AccountView {
        AccountView {
            spec: self.record.spec.clone(),
            closed: self.record.closed,
            context: Some(self.deployment.task.problem.dimensions().context),
            period: self.open.as_ref().map(Period::view),
        }
    }

    /// Closes it for good. What it holds can still be settled or released.
    pub(super) fn close(&mut self, staged: &mut Staged) {
        if !self.record.closed {
            self.record.closed = true;
            staged.write(self.name(), self.epoch, Write::Account(self.record.clone()));
        }
    }

    /// Changes the account as it is asked. After an error nothing has changed but what the clock did.
    pub(super) fn change(
        &mut self,
        request: Request,
        now: u64,
        staged: &mut Staged,
    ) -> Result<Answer, Error> {
        if self.faulty {
            return Err(self.rebuilding("it is being rebuilt"));
        }
        self.guarded(|live| live.carry_out(request, now, staged))
    }

    /// What happens while nobody asks: begins the next period if it is time.
    pub(super) fn tick(&mut self, now: u64, staged: &mut Staged) -> Result<(), Error> {
        self.guarded(|live| live.follow_clock(now, staged))
    }

    /// A policy that panics must not take the other accounts with it. Whatever is staged by then is whole.
    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        catch_unwind(AssertUnwindSafe(|| work(self))).unwrap_or_else(|_| {
            self.faulty = true;
            Err(self.rebuilding("its policy panicked, and it is being rebuilt"))
        })
    }

    fn rebuilding(&self, reason: &str) -> Error {
        Error::Unplayable {
            account: self.name().to_owned(),
            reason: reason.to_owned(),
            // After the batch, by the next request.
            rest: Duration::from_secs(1),
        }
    }

    fn carry_out(&mut self, request: Request, now: u64, staged: &mut Staged) -> Result<Answer, Error> {
        let Request { key, digest, change } = request;
        let keyed = Keyed { key, digest };
        match change {
            Change::Open => self.open_next(keyed, now, staged),
            Change::Decide(request) => self.decide(keyed, request.context, now, staged),
            Change::Settle { decision, usage } => {
                let (period, hold) = self.period_of(&decision)?;
                let settled = period.settle(hold, &usage)?;
                let event = Event::Settled { hold, usage };
                self.append_to(settled.decision.period, event, keyed, &settled, staged)
            }
            Change::Release { decision } => {
                let (period, hold) = self.period_of(&decision)?;
                let released = period.release(hold)?;
                let event = Event::Released { hold };
                self.append_to(released.decision.period, event, keyed, &released, staged)
            }
            Change::Skip { steps } => self.skip(keyed, steps, now, staged),
        }
    }

    fn open_next(&mut self, keyed: Keyed, now: u64, staged: &mut Staged) -> Result<Answer, Error> {
        self.expect_open()?;
        if self.record.spec.period.is_some() {
            return Err(Error::Conflict {
                reason: "the periods of this account begin by the clock".to_owned(),
            });
        }
        self.begin(now, Some(keyed), staged)?.ok_or(Error::NoPeriod)
    }

    fn decide(
        &mut self,
        keyed: Keyed,
        context: Vec<f64>,
        now: u64,
        staged: &mut Staged,
    ) -> Result<Answer, Error> {
        self.expect_open()?;
        self.period()?.check(&context)?;
        self.follow_clock(now, staged)?;
        self.skip_unused(now, staged)?;
        let warning = self.deployment.warning(&context);
        let period = self.open.as_mut().ok_or(Error::NoPeriod)?;
        let (mut decision, event) = if period.is_over() {
            (period.grant(&context)?, Event::Granted { at: now, context })
        } else {
            let decided = period.decide(&context);
            self.faulty = decided.is_err();
            let decision = decided.map_err(|error| self.rebuilding(&error.to_string()))?;
            let action = decision.action.clone();
            (
                decision,
                Event::Decided {
                    at: now,
                    context,
                    action,
                },
            )
        };
        decision.warning = warning;
        self.append_to(decision.period, event, keyed, &decision, staged)
    }

    fn skip(&mut self, keyed: Keyed, steps: usize, now: u64, staged: &mut Staged) -> Result<Answer, Error> {
        self.expect_open()?;
        if steps == 0 {
            return Err(Error::Invalid {
                reason: "expected at least 1 step to skip".to_owned(),
            });
        }
        self.follow_clock(now, staged)?;
        let period = self.open.as_mut().ok_or(Error::NoPeriod)?;
        let left = period.steps_left();
        if steps > left {
            return Err(Error::Conflict {
                reason: format!("expected at most {left} steps to skip, so many are left, found {steps}"),
            });
        }
        period.skip(steps)?;
        let (number, view) = (period.number, period.view());
        self.append_to(number, Event::Skipped { steps }, keyed, &view, staged)
    }

    /// Begins the next period if the clock has passed the end of the open one.
    fn follow_clock(&mut self, now: u64, staged: &mut Staged) -> Result<(), Error> {
        let ended = |period: &Period| period.until().is_some_and(|until| now >= until);
        if !self.record.closed && !self.faulty && self.open.as_ref().is_some_and(ended) {
            self.begin(now, None, staged)?;
        }
        Ok(())
    }

    /// Skips the slots of a period by the clock that nobody used.
    fn skip_unused(&mut self, now: u64, staged: &mut Staged) -> Result<(), Error> {
        let Some(period) = &mut self.open else {
            return Ok(());
        };
        let steps = period.unused_slots(now);
        if steps > 0 {
            period.skip(steps)?;
            append(
                &self.record,
                self.epoch,
                period,
                Event::Skipped { steps },
                None,
                staged,
            );
        }
        Ok(())
    }

    /// Begins the next period; gives the answer if somebody asked for it.
    fn begin(
        &mut self,
        now: u64,
        keyed: Option<Keyed>,
        staged: &mut Staged,
    ) -> Result<Option<Answer>, Error> {
        let number = self.record.period.map_or(0, |number| number + 1);
        let opening = self.opening(now)?;
        let event = opening.event();
        let mut period = Period::open(&self.deployment, number, opening)?;
        let request = keyed.map(|keyed| keyed.answered(&period.view())).transpose()?;
        let answer = request.as_ref().map(Answer::of);
        self.record.period = Some(number);
        append(&self.record, self.epoch, &mut period, event, request, staged);
        let name = self.name();
        staged.write(name, self.epoch, Write::Account(self.record.clone()));
        if let Some(before) = number.checked_sub(1).filter(|before| *before > 0) {
            let account = name.to_owned();
            staged.write(name, self.epoch, Write::Forget { account, before });
        }
        self.previous = self.open.replace(period);
        Ok(answer)
    }

    /// How the next period begins.
    fn opening(&self, now: u64) -> Result<Opening, Error> {
        let spec = &self.record.spec;
        let horizon = spec.horizon.ok_or(Error::NoPeriod)?;
        let (at, until) = match spec.period {
            None => (now, None),
            Some(PeriodSpec { seconds }) => {
                let length = seconds.saturating_mul(1000);
                let at = now - now % length.max(1);
                (at, Some(at.saturating_add(length)))
            }
        };
        let budgets = match &self.open {
            Some(open) if spec.rollover => {
                // What a period leaves that nobody opened, because nobody was there, is all of its budgets.
                let missed = match (open.until(), until) {
                    (Some(ended), Some(until)) => at.saturating_sub(ended) / (until - at).max(1),
                    _ => 0,
                };
                let times = usize::try_from(missed).unwrap_or(usize::MAX).saturating_add(1);
                open.carried_over(&spec.budgets, times)
            }
            _ => spec.budgets.clone(),
        };
        Ok(Opening {
            at,
            until,
            budgets,
            horizon,
        })
    }

    fn expect_open(&self) -> Result<(), Error> {
        if self.record.closed {
            return Err(Error::AccountClosed {
                account: self.name().to_owned(),
            });
        }
        Ok(())
    }

    fn period(&self) -> Result<&Period, Error> {
        self.open.as_ref().ok_or(Error::NoPeriod)
    }

    /// The period of a decision, and its hold.
    fn period_of(&mut self, decision: &str) -> Result<(&mut Period, laau::core::HoldId), Error> {
        let decision: DecisionId = decision.parse().map_err(|reason: &str| Error::Invalid {
            reason: reason.to_owned(),
        })?;
        let mut periods = self.open.iter_mut().chain(&mut self.previous);
        let period = periods.find(|period| period.number == decision.period);
        Ok((period.ok_or(Error::UnknownDecision { decision })?, decision.hold))
    }

    /// Appends what a request did to the log of its period.
    fn append_to(
        &mut self,
        number: u64,
        event: Event,
        keyed: Keyed,
        body: &impl Serialize,
        staged: &mut Staged,
    ) -> Result<Answer, Error> {
        let request = keyed.answered(body)?;
        let answer = Answer::of(&request);
        let mut periods = self.open.iter_mut().chain(&mut self.previous);
        let period = periods
            .find(|period| period.number == number)
            .ok_or(Error::NoPeriod)?;
        append(&self.record, self.epoch, period, event, Some(request), staged);
        Ok(answer)
    }
}

/// Appends an entry to the log of a period, of which it is part already.
fn append(
    record: &AccountRecord,
    epoch: u64,
    period: &mut Period,
    event: Event,
    request: Option<KeyedRequest>,
    staged: &mut Staged,
) {
    let entry = Entry {
        period: period.number,
        number: period.entries,
        event,
        request,
    };
    period.entries += 1;
    if let Some(request) = &entry.request {
        period.note_key(&request.key);
    }
    staged.append(&record.spec.name, epoch, entry, || -> PeriodView {
        period.view()
    });
}

/// A key, before it has an answer.
struct Keyed {
    key: String,
    digest: String,
}

impl Keyed {
    fn answered(self, body: &impl Serialize) -> Result<KeyedRequest, Error> {
        let answer = serde_json::to_string(body).map_err(|error| Error::Conflict {
            reason: error.to_string(),
        })?;
        Ok(KeyedRequest {
            key: self.key,
            digest: self.digest,
            status: 200,
            answer,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use laau::core::{Agent, Observation, Policy};

    use super::*;
    use crate::authority::DecisionRequest;

    /// Decides one step, then panics.
    struct Panicking;

    impl Policy for Panicking {
        fn name(&self) -> &'static str {
            "panicking"
        }

        fn begin(&self) -> Box<dyn Agent + '_> {
            Box::new(Self)
        }
    }

    impl Agent for Panicking {
        fn decide(&mut self, seen: &Observation<'_>, action: &mut [f64]) -> Result<(), laau::core::Error> {
            assert!(seen.step == 0, "planted");
            action.fill(2.0);
            Ok(())
        }
    }

    /// Begins one period, then panics.
    struct OnePeriod(std::sync::atomic::AtomicBool);

    impl Policy for OnePeriod {
        fn name(&self) -> &'static str {
            "one-period"
        }

        fn begin(&self) -> Box<dyn Agent + '_> {
            let begun = self.0.swap(true, std::sync::atomic::Ordering::Relaxed);
            assert!(!begun, "planted");
            Box::new(Panicking)
        }
    }

    /// An account with a policy, whose periods last ten seconds, and what making it wrote.
    fn with_policy(policy: impl Policy + 'static) -> (Live, Staged) {
        let json =
            r#"{"name":"shop","policy":{"name":"equal"},"budgets":[10],"horizon":3,"period":{"seconds":10}}"#;
        let mut spec = serde_json::from_str(json).unwrap();
        let mut deployment = Deployment::new(&mut spec, &std::collections::BTreeMap::new()).unwrap();
        deployment.replace_policy(Arc::new(policy));
        let record = AccountRecord {
            spec,
            files: std::collections::BTreeMap::new(),
            period: None,
            closed: false,
            created: 0,
        };
        let mut staged = Staged::new(true);
        let live = Live::create(record, 1, deployment, 0, &mut staged).unwrap();
        (live, staged)
    }

    #[test]
    fn a_policy_that_panics_when_the_clock_begins_a_period_makes_its_account_faulty() {
        let (mut live, mut staged) = with_policy(OnePeriod(false.into()));
        let written = staged.batch.clone();
        assert!(live.tick(9_999, &mut staged).is_ok());
        assert!(!live.faulty);
        assert_eq!(live.tick(10_000, &mut staged).unwrap_err().status(), 503);
        assert!(live.faulty);
        assert_eq!(staged.batch, written);
    }

    #[test]
    fn a_policy_that_panics_makes_its_account_faulty_and_writes_nothing() {
        let (mut live, mut staged) = with_policy(Panicking);
        let mut decide = |key: &str, staged: &mut Staged| {
            let request = Request {
                key: key.to_owned(),
                digest: String::new(),
                change: Change::Decide(DecisionRequest { context: vec![0.5] }),
            };
            (
                live.change(request, 0, staged).map_err(|error| error.status()),
                live.faulty,
            )
        };
        assert!(matches!(decide("a", &mut staged), (Ok(_), false)));
        let written = staged.batch.clone();
        assert_eq!(decide("b", &mut staged), (Err(503), true));
        assert_eq!(decide("c", &mut staged), (Err(503), true));
        assert_eq!(staged.batch, written);
    }
}
