//! The fused engine: a whole minibatch forward and backward through time, vectorised across its episodes.

mod aligned;
mod closed;
mod general;
mod guarded;
mod inputs;
mod kernel;
mod pass;
mod workspace;

use std::sync::Arc;

use laau_core::{Differentiate, Episodes, Shadow};
use pulp::{Arch, Simd, WithSimd};

use crate::engine::{BatchResult, Engine, check_sizes};
use crate::error::Error;
use crate::guarded::GuardedLayer;
use crate::model::Model;
use crate::spec::{ModelSpec, Network};

use pass::Pass;
use workspace::Workspace;

/// The engine for MLP and linear models: no graph, and no allocation once a batch size has been seen.
///
/// The best instruction set is chosen when the engine is made; on processors with the same one, the same inputs give
/// the same bytes.
pub struct FusedEngine {
    solver: Box<dyn Differentiate>,
    guard: Option<GuardedLayer>,
    spec: ModelSpec,
    parameters: usize,
    arch: Arch,
    vector: usize,
    workspace: Workspace,
}

impl FusedEngine {
    /// An engine for models of a specification, with room for batches of `batch_size` episodes; other sizes may follow.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] when the specification is not of the solver's problem, or the batch is empty.
    pub fn new(solver: Box<dyn Differentiate>, spec: &ModelSpec, batch_size: usize) -> Result<Self, Error> {
        spec.validate()?;
        spec.check_problem(solver.problem())?;
        if let Network::Custom(_) = spec.network {
            return Err(Error::InvalidSetting {
                field: "engine",
                reason: "expected `candle` for a custom network, found `fused`".to_owned(),
            });
        }
        if batch_size == 0 {
            return Err(Error::InvalidSetting {
                field: "batch_size",
                reason: "expected at least one episode, found 0".to_owned(),
            });
        }
        let arch = Arch::new();
        let vector = arch.dispatch(VectorLength);
        let workspace = Workspace::new(&*solver, spec, spec.horizon, batch_size, vector);
        Ok(Self {
            solver,
            guard: None,
            spec: spec.clone(),
            parameters: spec.parameter_len(),
            arch,
            vector,
            workspace,
        })
    }

    fn check(
        &self,
        model: &Model,
        episodes: &Episodes,
        batch: &[usize],
        gradient: &[f64],
    ) -> Result<(), Error> {
        if model.spec != self.spec {
            return Err(Error::InvalidSetting {
                field: "spec",
                reason: "expected a model of the specification that the engine was made for".to_owned(),
            });
        }
        check_sizes(
            self.spec.dimensions,
            self.parameters,
            model,
            episodes,
            batch,
            gradient,
        )
    }
}

impl Engine for FusedEngine {
    fn loss_and_gradient(
        &mut self,
        model: &Model,
        episodes: &Episodes,
        batch: &[usize],
        gradient: &mut [f64],
    ) -> Result<BatchResult, Error> {
        self.check(model, episodes, batch, gradient)?;
        if let Some(guard) = &mut self.guard {
            guard.shadow().check(episodes)?;
            guard.begin(batch);
        }
        if !self.workspace.fits(episodes.horizon(), batch.len()) {
            self.workspace = Workspace::new(
                &*self.solver,
                &self.spec,
                episodes.horizon(),
                batch.len(),
                self.vector,
            );
        }
        self.arch.dispatch(Pass {
            solver: &mut *self.solver,
            guard: self.guard.as_mut(),
            model,
            episodes,
            batch,
            workspace: &mut self.workspace,
            gradient,
        })
    }

    fn guard(&mut self, shadow: Arc<Shadow>) -> Result<(), Error> {
        self.guard = Some(GuardedLayer::new(self.solver.clone(), shadow));
        Ok(())
    }
}

/// Asks for the number of floats in a vector.
struct VectorLength;

impl WithSimd for VectorLength {
    type Output = usize;

    fn with_simd<S: Simd>(self, _: S) -> usize {
        S::F64_LANES
    }
}
