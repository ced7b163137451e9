//! Offline optima, which see the whole episode.

use crate::episode::Episode;
use crate::error::Error;
use crate::policy::{Agent, Observation, Policy};
use crate::problem::Problem;
use crate::projection::Projection;

/// Plans an episode from all of its contexts.
pub trait Hindsight: Send + Sync {
    /// The name in tables and on the command line.
    fn name(&self) -> &str;

    /// Writes the actions of all steps, `N × d`.
    ///
    /// # Errors
    /// Whatever keeps it from planning.
    fn plan(&self, episode: &Episode<'_>, actions: &mut [f64]) -> Result<(), Error>;
}

/// A plan for one episode as a policy, paid by the same ledger as every other policy.
///
/// A plan is optimal up to rounding; where rounding would overspend, the projection reduces the action by its last bits.
pub struct Replay<'a> {
    name: String,
    plan: Vec<f64>,
    problem: &'a dyn Problem,
}

impl<'a> Replay<'a> {
    /// Plays a plan of `N × d` actions.
    #[must_use]
    pub fn new(name: impl Into<String>, plan: Vec<f64>, problem: &'a dyn Problem) -> Self {
        Self {
            name: name.into(),
            plan,
            problem,
        }
    }
}

impl Policy for Replay<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(ReplayAgent {
            replay: self,
            projection: Projection::new(self.problem),
            projections: 0,
        })
    }
}

struct ReplayAgent<'a> {
    replay: &'a Replay<'a>,
    projection: Projection,
    projections: usize,
}

impl Agent for ReplayAgent<'_> {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        let Replay { plan, problem, .. } = self.replay;
        let d = action.len();
        let start = observation.step * d;
        let Some(planned) = plan.get(start..start + d) else {
            return Err(Error::WrongLength {
                what: "the plan",
                expected: observation.horizon * d,
                found: plan.len(),
            });
        };
        action.copy_from_slice(planned);
        let (context, available) = (observation.context(), observation.available);
        let changed = self.projection.apply(*problem, context, available, action);
        self.projections += usize::from(changed);
        Ok(())
    }

    fn projections(&self) -> usize {
        self.projections
    }
}
