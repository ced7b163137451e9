//! A policy behind the projection.

use std::sync::Arc;

use crate::error::Error;
use crate::policy::{Agent, Observation, Policy};
use crate::problem::Problem;
use crate::projection::Projection;

/// A policy that may ask for more than it can pay, behind the projection; the report counts how often it acted.
pub struct Projected<P> {
    inner: P,
    problem: Arc<dyn Problem>,
}

impl<P: Policy> Projected<P> {
    /// Puts a policy behind the projection.
    #[must_use]
    pub fn new(inner: P, problem: Arc<dyn Problem>) -> Self {
        Self { inner, problem }
    }
}

impl<P: Policy> Policy for Projected<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(ProjectedAgent {
            inner: self.inner.begin(),
            problem: &*self.problem,
            projection: Projection::new(&*self.problem),
            count: 0,
        })
    }

    fn is_sequential(&self) -> bool {
        self.inner.is_sequential()
    }
}

struct ProjectedAgent<'a> {
    inner: Box<dyn Agent + 'a>,
    problem: &'a dyn Problem,
    projection: Projection,
    count: usize,
}

impl Agent for ProjectedAgent<'_> {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        self.inner.decide(observation, action)?;
        let changed =
            self.projection
                .apply(self.problem, observation.context(), observation.available, action);
        self.count += usize::from(changed);
        Ok(())
    }

    fn restart(&mut self) -> bool {
        let again = self.inner.restart();
        if again {
            self.count = 0;
        }
        again
    }

    fn multiplier(&self) -> Option<&[f64]> {
        self.inner.multiplier()
    }

    fn projections(&self) -> usize {
        self.count + self.inner.projections()
    }

    fn unconverged(&self) -> usize {
        self.inner.unconverged()
    }
}
