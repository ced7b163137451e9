//! The offline optimum sees the whole episode; nothing else does.

use std::sync::Arc;

use crate::episode::Episode;
use crate::error::Error;
use crate::policy::{Agent, Observation, Policy};
use crate::problem::Problem;
use crate::projected::Projected;

/// Plans an episode with all of it in sight.
pub trait Hindsight: Send + Sync {
    /// The name in tables and on the command line.
    fn name(&self) -> &str;

    /// Writes the actions of all steps, `N × d`.
    ///
    /// # Errors
    /// Whatever keeps it from planning.
    fn plan(&self, episode: &Episode<'_>, actions: &mut [f64]) -> Result<(), Error>;
}

/// Plays a plan step by step, so that it is paid by the same ledger as everybody's actions.
///
/// A plan is optimal to rounding; the projection takes back the last bit where the plan would overspend by it.
#[must_use]
pub fn replay(name: impl Into<String>, plan: Vec<f64>, problem: Arc<dyn Problem>) -> Projected<Replay> {
    Projected::new(
        Replay {
            name: name.into(),
            plan,
        },
        problem,
    )
}

/// A plan for one episode, as a policy; see [`replay`].
#[derive(Debug, Clone)]
pub struct Replay {
    name: String,
    plan: Vec<f64>,
}

impl Policy for Replay {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(ReplayAgent { plan: &self.plan })
    }
}

struct ReplayAgent<'a> {
    plan: &'a [f64],
}

impl Agent for ReplayAgent<'_> {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        let d = action.len();
        let start = observation.step * d;
        match self.plan.get(start..start + d) {
            Some(planned) => {
                action.copy_from_slice(planned);
                Ok(())
            }
            None => Err(Error::WrongLength {
                what: "the plan",
                expected: observation.horizon * d,
                found: self.plan.len(),
            }),
        }
    }
}
