//! Steps that a policy decides, with the lower corner where it cannot.

use crate::episode_run::{Refused, Step};
use crate::error::Error;
use crate::hold::HoldId;
use crate::policy::Agent;

/// Why the lower corner of the box was taken instead of a policy's action.
#[derive(Debug, Clone, PartialEq)]
pub enum Fallback {
    /// The policy gave no action.
    Failed(Error),
    /// The action is outside the box, or uses more than is available.
    Refused(Error),
}

impl Fallback {
    /// What the policy, or the payment of its action, said.
    #[must_use]
    pub fn error(&self) -> &Error {
        match self {
            Self::Failed(error) | Self::Refused(error) => error,
        }
    }
}

impl std::fmt::Display for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.error().fmt(f)
    }
}

impl<'r, 'a> Step<'r, 'a> {
    /// Asks a policy and pays what it decides; gives the usage. The action that was paid is in `action`.
    ///
    /// A policy that fails, or asks for what cannot be paid, gets the lower corner of the box, for which there is always
    /// a reserve; the [`Fallback`] says so.
    ///
    /// ```
    /// use laau_core::{Agent, EpisodeRun, Error, Fallback, Observation, problems::WeightedFairness};
    ///
    /// struct Greedy;
    /// impl Agent for Greedy {
    ///     fn decide(&mut self, _: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
    ///         action[0] = 9.5;
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let problem = WeightedFairness::paper(); // a step uses at least 1
    /// let mut run = EpisodeRun::new(&problem, 2, &[10.0])?;
    /// let mut action = [0.0];
    /// let (usage, fallback) = run.reveal(&[0.3])?.pay_by(&mut Greedy, &mut action)?;
    /// assert_eq!((usage, action), (&[1.0][..], [1.0]));
    /// assert!(matches!(fallback, Some(Fallback::Refused(Error::Overspend { available: 9.0, .. }))));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// When even the lower corner cannot be paid, which no policy can bring about: the problem's least usage is too low.
    #[inline]
    pub fn pay_by(
        self,
        agent: &mut dyn Agent,
        action: &mut [f64],
    ) -> Result<(&'r [f64], Option<Fallback>), Error> {
        self.by(agent, action, Self::pay)
    }

    /// As [`Step::pay_by`], but holds the usage, which may turn out to be less; gives the hold.
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn hold_by(
        self,
        agent: &mut dyn Agent,
        action: &mut [f64],
    ) -> Result<(HoldId, Option<Fallback>), Error> {
        self.by(agent, action, Self::hold)
    }

    #[inline]
    fn by<T>(
        self,
        agent: &mut dyn Agent,
        action: &mut [f64],
        pay: impl Fn(Self, &[f64]) -> Result<T, Refused<'r, 'a>>,
    ) -> Result<(T, Option<Fallback>), Error> {
        let lower = self.lower();
        action.copy_from_slice(lower);
        let (step, fallback) = match agent.decide(&self.observation(), action) {
            Ok(()) => match pay(self, action) {
                Ok(paid) => return Ok((paid, None)),
                Err(Refused { step, error }) => (step, Fallback::Refused(error)),
            },
            Err(error) => (self, Fallback::Failed(error)),
        };
        action.copy_from_slice(lower);
        Ok((pay(step, action)?, Some(fallback)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::WeightedFairness;
    use crate::{EpisodeRun, Observation};

    /// Asks for everything, fails, then asks for what is outside the box.
    struct Greedy;

    impl Agent for Greedy {
        fn decide(&mut self, seen: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
            action[0] = if seen.step == 2 { 41.0 } else { 40.0 };
            match seen.step {
                1 => Err(Error::Policy {
                    policy: "greedy".to_owned(),
                    reason: "no more ideas".to_owned(),
                }),
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn a_policy_that_overspends_or_fails_gets_the_lower_corner() {
        let problem = WeightedFairness::paper();
        for holds in [false, true] {
            let mut run = EpisodeRun::new(&problem, 4, &[50.0]).unwrap();
            let mut seen = Vec::new();
            for _ in 0..4 {
                let mut action = [f64::NAN];
                let step = run.reveal(&[0.5]).unwrap();
                let fallback = if holds {
                    step.hold_by(&mut Greedy, &mut action).unwrap().1
                } else {
                    step.pay_by(&mut Greedy, &mut action).unwrap().1
                };
                assert_eq!(run.usage(), action);
                seen.push((action[0], fallback.map(|fallback| fallback.to_string())));
            }
            let told = |reason: &str| Some(reason.to_owned());
            assert_eq!(
                seen,
                [
                    (40.0, None),
                    (1.0, told("policy `greedy`: no more ideas")),
                    (1.0, told("action[0] is 41, outside its box [1, 40]")),
                    (1.0, told("budget 0: 40 asked, 8 available")),
                ]
            );
            assert_eq!(run.ledger().open_holds(), if holds { 4 } else { 0 });
        }
    }
}
