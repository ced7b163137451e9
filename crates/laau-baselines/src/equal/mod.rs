//! Equal: every step gets the same share.

use laau_core::{
    Agent, Differentiate, Error, Fit, FitObserver, FitSets, Fitted, Observation, Policy, StepSolver, Task,
};
use serde::{Deserialize, Serialize};

use crate::Stored;
use crate::shared::{Layer, share};

/// Equal has no options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EqualOptions {}

impl Fit for EqualOptions {
    fn fit(&self, task: &Task, _: FitSets<'_>, _: u64, _: &mut dyn FitObserver) -> Result<Fitted, Error> {
        Ok(Fitted::new(Equal::new(task)).with_document(Stored::Equal.document()))
    }
}

/// Equal resource allocation: each step takes the action of largest utility whose usage is at most the share `B/N`.
///
/// What a step leaves of its share is not carried over. For one action that is its own usage this is `x_t = B/N`.
#[derive(Clone)]
pub struct Equal {
    solver: Box<dyn Differentiate>,
}

impl Equal {
    /// Equal shares for a problem.
    #[must_use]
    pub fn new(task: &Task) -> Self {
        Self {
            solver: task.solver.clone(),
        }
    }
}

impl Policy for Equal {
    fn name(&self) -> &'static str {
        "equal"
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(EqualAgent {
            layer: Layer::new(&*self.solver),
            share: vec![0.0; self.solver.problem().dimensions().budgets],
        })
    }
}

struct EqualAgent {
    layer: Layer,
    share: Vec<f64>,
}

impl Agent for EqualAgent {
    fn decide(&mut self, seen: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        share(seen, &mut self.share);
        self.layer.within(seen, &self.share, action)?;
        Ok(())
    }

    fn restart(&mut self) -> bool {
        self.layer.unconverged = 0;
        true
    }

    fn unconverged(&self) -> usize {
        self.layer.unconverged
    }
}
