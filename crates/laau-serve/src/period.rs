//! A period of an account: an episode whose decisions are held, rebuilt by its log.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use laau::core::{Agent, EpisodeRun, HoldId, Policy, Problem, SmoothProblem};

use crate::account::PeriodView;
use crate::answer::{Decision, Settled};
use crate::deployment::Deployment;
use crate::entry::{DecisionId, Event};
use crate::error::Error;

/// How a period begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Opening {
    pub(crate) at: u64,
    pub(crate) until: Option<u64>,
    pub(crate) budgets: Vec<f64>,
    pub(crate) horizon: usize,
}

impl Opening {
    pub(crate) fn event(&self) -> Event {
        let Self {
            at,
            until,
            budgets,
            horizon,
        } = self.clone();
        Event::Opened {
            at,
            until,
            budgets,
            horizon,
        }
    }
}

/// What an episode borrows from.
struct Owner {
    problem: Arc<dyn SmoothProblem>,
    policy: Arc<dyn Policy>,
}

struct Playing<'a> {
    problem: &'a dyn Problem,
    run: EpisodeRun<'a>,
    agent: Box<dyn Agent + 'a>,
    action: Vec<f64>,
}

self_cell::self_cell!(
    struct Episode {
        owner: Owner,

        #[not_covariant]
        dependent: Playing,
    }
);

/// Why an event of the log cannot be played again.
pub(crate) struct Unplayable(pub(crate) String);

/// How much of a log is played again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// The policy decides every step once more, and must decide the same: it can go on from there.
    Decisions,
    /// The books alone, of a period in which nothing more is decided.
    Books,
}

/// A period in memory.
pub(crate) struct Period {
    pub(crate) number: u64,
    opening: Opening,
    granted: usize,
    /// The number of entries in its log.
    pub(crate) entries: u64,
    /// Fingerprints of the idempotency keys in its log: a key that has none is new, and the store need not be asked.
    keys: HashSet<u64>,
    fingerprints: RandomState,
    episode: Episode,
}

impl Period {
    /// Begins a period. Its log has no entry yet.
    pub(crate) fn open(deployment: &Deployment, number: u64, opening: Opening) -> Result<Self, Error> {
        let owner = Owner {
            problem: Arc::clone(&deployment.task.problem),
            policy: deployment.policy(opening.horizon, &opening.budgets)?,
        };
        let episode = Episode::try_new(owner, |owner| {
            let problem: &dyn Problem = &*owner.problem;
            Ok::<_, Error>(Playing {
                problem,
                run: EpisodeRun::new(problem, opening.horizon, &opening.budgets)?,
                agent: owner.policy.begin(),
                action: vec![0.0; problem.dimensions().actions],
            })
        })?;
        Ok(Self {
            number,
            opening,
            granted: 0,
            entries: 0,
            keys: HashSet::new(),
            fingerprints: RandomState::new(),
            episode,
        })
    }

    /// Notes the idempotency key of an entry.
    pub(crate) fn note_key(&mut self, key: &str) {
        self.keys.insert(self.fingerprints.hash_one(key));
    }

    /// Whether an idempotency key may be in its log; if not, it surely is not.
    pub(crate) fn may_have_key(&self, key: &str) -> bool {
        self.keys.contains(&self.fingerprints.hash_one(key))
    }

    /// When it ends, if the clock says so.
    pub(crate) fn until(&self) -> Option<u64> {
        self.opening.until
    }

    /// Whether a decision in a context would be taken, if it can be paid.
    pub(crate) fn check(&self, context: &[f64]) -> Result<(), Error> {
        self.episode
            .with_dependent(|_, playing| match playing.run.check(context) {
                Ok(()) | Err(laau::core::Error::EpisodeOver { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            })
    }

    /// Whether all steps have been taken.
    pub(crate) fn is_over(&self) -> bool {
        self.episode.with_dependent(|_, playing| playing.run.is_over())
    }

    /// Steps that are still to come.
    pub(crate) fn steps_left(&self) -> usize {
        self.episode
            .with_dependent(|_, playing| playing.run.horizon() - playing.run.step())
    }

    /// The slots of a period by the clock that have passed unused.
    pub(crate) fn unused_slots(&self, now: u64) -> usize {
        let Some(until) = self.opening.until else {
            return 0;
        };
        let planned = self.opening.horizon;
        let length = u128::from(until.saturating_sub(self.opening.at).max(1));
        let elapsed = u128::from(now.saturating_sub(self.opening.at)).min(length);
        let slot = usize::try_from(elapsed * planned as u128 / length).unwrap_or(planned);
        // Each slot is one step: decided, or skipped before.
        let taken = planned - self.steps_left();
        slot.min(planned).saturating_sub(taken)
    }

    /// Decides a step in a context that was checked. The period is of no more use after an error.
    pub(crate) fn decide(&mut self, context: &[f64]) -> Result<Decision, Error> {
        let number = self.number;
        self.episode.with_dependent_mut(|_, playing| {
            let at = playing.run.step();
            let step = playing.run.reveal(context)?;
            let (hold, fallback) = step.hold_by(&mut *playing.agent, &mut playing.action)?;
            Ok(Decision {
                decision: DecisionId { period: number, hold },
                period: number,
                step: at,
                horizon: playing.run.horizon(),
                action: playing.action.clone(),
                multiplier: playing.agent.multiplier().map(<[f64]>::to_vec),
                held: playing.run.usage().to_vec(),
                remaining: playing.run.remaining().to_vec(),
                fallback: fallback.map(|fallback| fallback.to_string()),
                guarded: playing.agent.guarded(),
                beyond_horizon: false,
                warning: None,
            })
        })
    }

    /// Grants the lower corner after the last step; after an error nothing has changed.
    pub(crate) fn grant(&mut self, context: &[f64]) -> Result<Decision, Error> {
        let number = self.number;
        let granted = self.episode.with_dependent_mut(|_, playing| {
            let hold = playing.run.grant(context).map_err(|error| match error {
                laau::core::Error::Overspend { .. } => Error::Exhausted {
                    reason: error.to_string(),
                },
                error => error.into(),
            })?;
            Ok::<_, Error>(Decision {
                decision: DecisionId { period: number, hold },
                period: number,
                step: playing.run.step(),
                horizon: playing.run.horizon(),
                action: playing.problem.lower().to_vec(),
                multiplier: None,
                held: playing.run.usage().to_vec(),
                remaining: playing.run.remaining().to_vec(),
                fallback: None,
                guarded: false,
                beyond_horizon: true,
                warning: None,
            })
        })?;
        self.granted += 1;
        Ok(granted)
    }

    /// Settles a hold; after an error nothing has changed.
    pub(crate) fn settle(&mut self, hold: HoldId, usage: &[f64]) -> Result<Settled, Error> {
        self.close_hold(hold, usage.to_vec(), |run| run.settle(hold, usage))
    }

    /// Returns a whole hold; after an error nothing has changed.
    pub(crate) fn release(&mut self, hold: HoldId) -> Result<Settled, Error> {
        let nothing = vec![0.0; self.opening.budgets.len()];
        self.close_hold(hold, nothing, |run| run.release(hold))
    }

    fn close_hold(
        &mut self,
        hold: HoldId,
        settled: Vec<f64>,
        close: impl FnOnce(&mut EpisodeRun<'_>) -> Result<(), laau::core::Error>,
    ) -> Result<Settled, Error> {
        let decision = DecisionId {
            period: self.number,
            hold,
        };
        self.episode.with_dependent_mut(|_, playing| {
            let known = |error| match error {
                laau::core::Error::UnknownHold { .. } => Error::UnknownDecision { decision },
                laau::core::Error::HoldClosed { .. } => Error::Conflict {
                    reason: format!("decision {decision} was settled or released before"),
                },
                error => error.into(),
            };
            let held = playing.run.ledger().held(hold).map_err(known)?.to_vec();
            close(&mut playing.run).map_err(known)?;
            let returned = held.iter().zip(&settled).map(|(held, used)| held - used);
            Ok(Settled {
                decision,
                returned: returned.collect(),
                settled,
                remaining: playing.run.remaining().to_vec(),
            })
        })
    }

    /// Lets steps pass; after an error nothing has changed.
    pub(crate) fn skip(&mut self, steps: usize) -> Result<(), Error> {
        self.episode
            .with_dependent_mut(|_, playing| playing.run.skip(steps))?;
        Ok(())
    }

    /// The budgets of the period after this one: so many times those of the settings, and what remains here.
    pub(crate) fn carried_over(&self, budgets: &[f64], times: usize) -> Vec<f64> {
        self.episode
            .with_dependent(|_, playing| playing.run.ledger().carried_over(budgets, times))
    }

    /// The period as it is shown.
    pub(crate) fn view(&self) -> PeriodView {
        self.episode.with_dependent(|_, playing| {
            let (run, ledger) = (&playing.run, playing.run.ledger());
            let multiplier = playing.agent.multiplier().filter(|_| run.step() > 0);
            PeriodView {
                number: self.number,
                began: self.opening.at,
                until: self.opening.until,
                budgets: self.opening.budgets.clone(),
                remaining: run.remaining().to_vec(),
                held: ledger.held_in_all(),
                holds: ledger.open_holds(),
                step: run.step(),
                horizon: run.horizon(),
                granted: self.granted,
                multiplier: multiplier.map(<[f64]>::to_vec),
                // Its margin is the least over the steps so far: over none it is infinite, which JSON cannot say.
                certificate: playing
                    .agent
                    .certificate()
                    .filter(|certificate| certificate.margin.is_finite()),
            }
        })
    }

    /// Plays an event of the log again.
    pub(crate) fn replay(&mut self, event: &Event, replay: Replay) -> Result<(), Unplayable> {
        let played = match event {
            Event::Opened { .. } => return Err(Unplayable("the period begins twice".to_owned())),
            Event::Decided { context, action, .. } if replay == Replay::Books => self.hold(context, action),
            Event::Decided { context, action, .. } => {
                let decided = self.check(context).and_then(|()| self.decide(context));
                match decided {
                    Ok(decision) if !same_bits(&decision.action, action) => {
                        return Err(Unplayable(format!(
                            "{} was {action:?}, and is {:?} by this program: another version or kind of machine decided it",
                            decision.decision, decision.action
                        )));
                    }
                    decided => decided.map(drop),
                }
            }
            Event::Granted { context, .. } => self.grant(context).map(drop),
            Event::Settled { hold, usage } => self.settle(*hold, usage).map(drop),
            Event::Released { hold } => self.release(*hold).map(drop),
            Event::Skipped { steps } => self.skip(*steps),
        };
        self.entries += 1;
        played.map_err(|error| Unplayable(error.to_string()))
    }

    /// Holds an action that was decided before.
    fn hold(&mut self, context: &[f64], action: &[f64]) -> Result<(), Error> {
        self.episode.with_dependent_mut(|_, playing| {
            let step = playing.run.reveal(context)?;
            step.hold(action).map_err(laau::core::Error::from)?;
            Ok(())
        })
    }
}

fn same_bits(one: &[f64], other: &[f64]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.to_bits() == b.to_bits())
}
