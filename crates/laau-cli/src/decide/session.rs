//! One episode in service: a policy decides, the ledger pays.

use laau::core::{Agent, Certificate, EpisodeRun, Error, Policy, Problem};

use super::lines::Decision;

/// An episode that is decided step by step.
pub(super) struct Session<'a> {
    run: EpisodeRun<'a>,
    agent: Box<dyn Agent + 'a>,
    action: Vec<f64>,
    fallback: Option<String>,
}

impl<'a> Session<'a> {
    /// Opens an episode.
    ///
    /// # Errors
    /// When the problem cannot be played with these budgets.
    pub(super) fn open(
        problem: &'a dyn Problem,
        policy: &'a dyn Policy,
        horizon: usize,
        budgets: &[f64],
    ) -> Result<Self, Error> {
        Ok(Self {
            run: EpisodeRun::new(problem, horizon, budgets)?,
            agent: policy.begin(),
            action: vec![0.0; problem.dimensions().actions],
            fallback: None,
        })
    }

    /// The next step.
    pub(super) fn step(&self) -> usize {
        self.run.step()
    }

    /// What a guard kept of its promise so far.
    pub(super) fn certificate(&self) -> Option<Certificate> {
        self.agent.certificate()
    }

    /// Whether the next step can be decided in a context. If not, nothing has happened.
    pub(super) fn check(&self, context: &[f64]) -> Result<(), Error> {
        self.run.check(context)
    }

    /// Decides and pays a step in a context that was checked, by the lower corner of the box if the policy cannot.
    ///
    /// # Errors
    /// When even that cannot be paid, which no policy can bring about.
    pub(super) fn decide(&mut self, context: &[f64]) -> Result<Decision<'_>, Error> {
        let number = self.run.step();
        let step = self.run.reveal(context)?;
        let (_, fallback) = step.pay_by(&mut *self.agent, &mut self.action)?;
        self.fallback = fallback.map(|fallback| fallback.to_string());
        Ok(Decision {
            step: number,
            action: &self.action,
            multiplier: self.agent.multiplier(),
            remaining: self.run.remaining(),
            fallback: self.fallback.as_deref(),
            guarded: self.agent.guarded(),
            warning: None,
            replayed: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laau::core::Observation;
    use laau::core::problems::WeightedFairness;

    /// Asks for everything, then fails.
    struct Greedy;

    impl Policy for Greedy {
        fn name(&self) -> &'static str {
            "greedy"
        }

        fn begin(&self) -> Box<dyn Agent + '_> {
            Box::new(Self)
        }
    }

    impl Agent for Greedy {
        fn decide(&mut self, seen: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
            action[0] = 40.0;
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
        let mut session = Session::open(&problem, &Greedy, 3, &[4.0]).unwrap();
        let mut seen = Vec::new();
        for _ in 0..3 {
            session.check(&[0.5]).unwrap();
            let decision = session.decide(&[0.5]).unwrap();
            seen.push(serde_json::to_string(&decision).unwrap());
        }
        assert_eq!(
            seen,
            [
                r#"{"step":0,"action":[1.0],"remaining":[3.0],"fallback":"budget 0: 40 asked, 2 available"}"#,
                r#"{"step":1,"action":[1.0],"remaining":[2.0],"fallback":"policy `greedy`: no more ideas"}"#,
                r#"{"step":2,"action":[1.0],"remaining":[1.0],"fallback":"budget 0: 40 asked, 2 available"}"#,
            ]
        );
        assert_eq!(
            session.check(&[0.5]).unwrap_err().to_string(),
            "the episode is over: all 3 steps are decided"
        );
    }
}
