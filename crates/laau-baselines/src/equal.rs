//! Equal: every step gets the same share.

use laau_core::{Agent, Differentiate, Episodes, Error, Observation, Policy, StepSolver};
use serde::{Deserialize, Serialize};

use crate::layer::{Layer, share};
use crate::setting::{Fitted, Setting};

/// Equal has nothing to choose and nothing to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EqualOptions {}

impl EqualOptions {
    /// The policy itself; the episodes are not looked at.
    ///
    /// # Errors
    /// None; the signature is that of every policy.
    pub fn fit(&self, setting: &Setting, _: &Episodes, _: &Episodes) -> Result<Fitted, Error> {
        Ok(Fitted::new(Equal::new(setting)))
    }
}

/// Equal resource allocation: each step takes the action of largest utility whose usage is at most the share `B/N`.
///
/// What a step leaves of its share is not handed on. For one action that is its own usage this is `x_t = B/N`.
#[derive(Clone)]
pub struct Equal {
    solver: Box<dyn Differentiate>,
}

impl Equal {
    /// Equal shares for a problem.
    #[must_use]
    pub fn new(setting: &Setting) -> Self {
        Self {
            solver: setting.solver.clone(),
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

    fn unconverged(&self) -> usize {
        self.layer.unconverged
    }
}
