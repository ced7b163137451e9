//! The fused engine: a whole minibatch forward and backward through time, vectorised across its episodes.

mod aligned;
mod closed;
mod general;
mod guarded;
mod inputs;
mod kernel;
mod panel;
mod parts;
mod pass;
mod workspace;

use std::sync::Arc;

use laau_core::{Differentiate, Episodes, Shadow};
use pulp::{Arch, Simd, WithSimd};

use crate::engine::{BatchResult, Engine, Precision, check_sizes};
use crate::error::Error;
use crate::model::Model;
use crate::spec::{ModelSpec, Network};

use parts::{Group, Minibatch, Parts, Worker};

/// The engine for MLP and linear models: no graph, and no allocation once a batch size has been seen.
///
/// The best instruction set is chosen when the engine is made; on processors with the same one, the same inputs give
/// the same bytes. A large minibatch is played in parts whose tables stay in a cache, on several threads of the current
/// rayon pool where that pays; the parts and the order of their sums depend on sizes alone, so that the number of threads changes
/// no byte.
pub struct FusedEngine {
    spec: ModelSpec,
    parameters: usize,
    arch: Arch,
    precision: Precision,
    /// Numbers of that precision in a vector.
    vector: usize,
    /// One for each thread that has been needed, at least one.
    workers: Vec<Worker>,
    /// How the last minibatch was divided.
    parts: Parts,
    /// The sums of a minibatch that has several parts.
    groups: Vec<Group>,
    most_threads: usize,
}

impl FusedEngine {
    /// An engine for models of a specification, with room for batches of `batch_size` episodes; other sizes may follow.
    ///
    /// # Errors
    /// [`Error::InvalidSetting`] when the specification is not of the solver's problem, or the batch is empty.
    pub fn new(solver: Box<dyn Differentiate>, spec: &ModelSpec, batch_size: usize) -> Result<Self, Error> {
        Self::with_precision(solver, spec, batch_size, Precision::F64)
    }

    /// An engine like [`FusedEngine::new`] whose network is computed in a precision.
    ///
    /// # Errors
    /// As [`FusedEngine::new`].
    pub fn with_precision(
        solver: Box<dyn Differentiate>,
        spec: &ModelSpec,
        batch_size: usize,
        precision: Precision,
    ) -> Result<Self, Error> {
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
        let vector = arch.dispatch(VectorLength(precision));
        Ok(Self {
            spec: spec.clone(),
            parameters: spec.parameter_len(),
            arch,
            precision,
            vector,
            parts: Parts::new(
                spec,
                solver.closed_form().is_some(),
                spec.horizon,
                batch_size,
                (precision, vector),
            ),
            workers: vec![Worker::new(solver, precision)],
            groups: Vec::new(),
            most_threads: usize::MAX,
        })
    }

    /// Plays every minibatch on the thread that asks for it. Its results are the same.
    #[must_use]
    pub fn on_one_thread(mut self) -> Self {
        self.most_threads = 1;
        self
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

    /// Plays a minibatch of several parts.
    fn in_parts(&mut self, minibatch: Minibatch<'_>, gradient: &mut [f64]) -> Result<BatchResult, Error> {
        let parts = self.parts;
        let groups = parts.groups();
        self.groups.resize_with(groups, || Group::new(self.parameters));
        let threads = parts.threads(self.most_threads.min(rayon::current_num_threads()));
        while self.workers.len() < threads {
            self.workers.push(self.workers[0].fork());
        }
        parts::play_all(
            &mut self.workers[..threads],
            &mut self.groups,
            minibatch,
            &parts,
            0,
        );
        gradient.fill(0.0);
        let mut result = parts::nothing();
        for group in &mut self.groups {
            let of_group = std::mem::replace(&mut group.result, Ok(parts::nothing()))?;
            parts::add(&mut result, gradient, &of_group, &group.gradient);
        }
        Ok(result)
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
        if let Some(shadow) = self.workers[0].shadow() {
            shadow.check(episodes)?;
        }
        let minibatch = Minibatch {
            arch: self.arch,
            vector: self.vector,
            model,
            episodes,
            batch,
        };
        if !self.parts.are_of(episodes.horizon(), batch.len()) {
            let is_formula = self.workers[0].has_formula();
            self.parts = Parts::new(
                &self.spec,
                is_formula,
                episodes.horizon(),
                batch.len(),
                (self.precision, self.vector),
            );
        }
        if self.parts.count() == 1 {
            self.workers[0].play(minibatch, 0..batch.len(), gradient)
        } else {
            self.in_parts(minibatch, gradient)
        }
    }

    fn guard(&mut self, shadow: Arc<Shadow>) -> Result<(), Error> {
        for worker in &mut self.workers {
            worker.guard(Arc::clone(&shadow));
        }
        Ok(())
    }
}

/// Asks for the numbers of a precision in a vector.
struct VectorLength(Precision);

impl WithSimd for VectorLength {
    type Output = usize;

    fn with_simd<S: Simd>(self, _: S) -> usize {
        match self.0 {
            Precision::F64 => S::F64_LANES,
            Precision::F32 => S::F32_LANES,
        }
    }
}
