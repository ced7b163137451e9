//! A large minibatch in parts, whose tables stay in a cache while they are played.
//!
//! The parts, and which of them are added up together, follow from sizes alone: sums have one order, on any number of threads.

use std::ops::Range;
use std::sync::Arc;

use laau_core::{Differentiate, Episodes, GradientCounts, Shadow};
use pulp::Arch;

use super::pass::Pass;
use super::workspace::{Workspace, bytes_per_lane, is_wide};
use crate::engine::BatchResult;
use crate::engine::Precision;
use crate::error::Error;
use crate::guarded::GuardedLayer;
use crate::lanes::Real;
use crate::model::Model;
use crate::spec::ModelSpec;

/// What the tables of a part of a narrow network may take: a fraction of a second-level cache, which they share with the episodes.
/// (Measured at N = 20: a thousand episodes take 5 % less time than with four times as much.)
const CACHE: usize = 128 << 10;

/// Lanes of a part of a wide network: its tables are read once in each direction, so that they may be larger than a cache, but
/// those of a step may not.
const WIDE_LANES: usize = 48;

/// The least lanes of a part.
const LEAST_LANES: usize = 24;

/// Parts are added up in so many groups at most, each by one thread.
const GROUPS: usize = 8;

/// Multiply-adds of a minibatch from which on another thread is asked for: a guess, that waking it takes some ten microseconds.
const WORTH_A_THREAD: usize = 1 << 19;

/// What a step through a solver counts in multiply-adds, about: some microseconds.
const SOLVE: usize = 1 << 15;

/// How a minibatch is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    horizon: usize,
    batch: usize,
    /// Episodes of each part but the last.
    part: usize,
    /// Multiply-adds of the whole.
    work: usize,
}

impl Parts {
    /// The parts of a minibatch whose layer is a formula or needs a solver.
    pub(super) fn new(
        spec: &ModelSpec,
        is_formula: bool,
        horizon: usize,
        batch: usize,
        (precision, vector): (Precision, usize),
    ) -> Self {
        let layers = spec.layers();
        let bytes = match precision {
            Precision::F64 => bytes_per_lane::<f64>(spec, horizon),
            Precision::F32 => bytes_per_lane::<f32>(spec, horizon),
        };
        let weights: usize = layers.iter().map(|(inputs, outputs)| inputs * outputs).sum();
        let most = if is_wide(&layers) {
            WIDE_LANES
        } else {
            (CACHE / bytes).max(LEAST_LANES)
        };
        // Whole vectors, and parts of about the same size.
        let most = most / vector * vector;
        let count = batch.div_ceil(most);
        let part = batch.div_ceil(count).next_multiple_of(2 * vector).min(most);
        Self {
            horizon,
            batch,
            part: part.min(batch),
            work: (3 * weights + if is_formula { 0 } else { SOLVE }) * batch * horizon,
        }
    }

    pub(super) fn are_of(&self, horizon: usize, batch: usize) -> bool {
        self.horizon == horizon && self.batch == batch
    }

    pub(super) fn count(&self) -> usize {
        self.batch.div_ceil(self.part)
    }

    /// The places in the minibatch of a part's episodes.
    pub(super) fn episodes(&self, index: usize) -> Range<usize> {
        index * self.part..((index + 1) * self.part).min(self.batch)
    }

    pub(super) fn groups(&self) -> usize {
        self.count().min(GROUPS)
    }

    /// The parts of a group.
    fn group(&self, index: usize) -> Range<usize> {
        let (count, groups) = (self.count(), self.groups());
        index * count / groups..(index + 1) * count / groups
    }

    /// How many of the threads that there are.
    pub(super) fn threads(&self, available: usize) -> usize {
        available.min(self.groups()).min(1 + self.work / WORTH_A_THREAD)
    }
}

/// What a call asks for, and with which instructions.
#[derive(Clone, Copy)]
pub(super) struct Minibatch<'a> {
    pub(super) arch: Arch,
    pub(super) vector: usize,
    pub(super) model: &'a Model,
    pub(super) episodes: &'a Episodes,
    pub(super) batch: &'a [usize],
}

/// What one thread needs.
pub(super) struct Worker {
    solver: Box<dyn Differentiate>,
    guard: Option<GuardedLayer>,
    workspaces: Workspaces,
    gradient: Vec<f64>,
}

/// For the parts of a minibatch, and for the last one if that is smaller.
enum Workspaces {
    F64([Option<Workspace<f64>>; 2]),
    F32([Option<Workspace<f32>>; 2]),
}

impl Worker {
    pub(super) fn new(solver: Box<dyn Differentiate>, precision: Precision) -> Self {
        Self {
            solver,
            guard: None,
            workspaces: match precision {
                Precision::F64 => Workspaces::F64([None, None]),
                Precision::F32 => Workspaces::F32([None, None]),
            },
            gradient: Vec::new(),
        }
    }

    pub(super) fn has_formula(&self) -> bool {
        self.solver.closed_form().is_some()
    }

    /// Another one, behind the same guard.
    pub(super) fn fork(&self) -> Self {
        let precision = match self.workspaces {
            Workspaces::F64(_) => Precision::F64,
            Workspaces::F32(_) => Precision::F32,
        };
        let mut fork = Self::new(self.solver.clone(), precision);
        fork.guard =
            (self.guard.as_ref()).map(|guard| GuardedLayer::new(fork.solver.clone(), guard.shared()));
        fork
    }

    pub(super) fn guard(&mut self, shadow: Arc<Shadow>) {
        self.guard = Some(GuardedLayer::new(self.solver.clone(), shadow));
    }

    pub(super) fn shadow(&self) -> Option<&Shadow> {
        self.guard.as_ref().map(GuardedLayer::shadow)
    }

    /// Plays a part of a minibatch and writes what it has of the gradient.
    pub(super) fn play(
        &mut self,
        minibatch: Minibatch<'_>,
        part: Range<usize>,
        gradient: &mut [f64],
    ) -> Result<BatchResult, Error> {
        match &mut self.workspaces {
            Workspaces::F64(places) => play(
                &mut *self.solver,
                self.guard.as_mut(),
                places,
                minibatch,
                part,
                gradient,
            ),
            Workspaces::F32(places) => play(
                &mut *self.solver,
                self.guard.as_mut(),
                places,
                minibatch,
                part,
                gradient,
            ),
        }
    }
}

fn play<T: Real>(
    solver: &mut dyn Differentiate,
    mut guard: Option<&mut GuardedLayer>,
    places: &mut [Option<Workspace<T>>; 2],
    minibatch: Minibatch<'_>,
    part: Range<usize>,
    gradient: &mut [f64],
) -> Result<BatchResult, Error> {
    let Minibatch {
        arch,
        vector,
        model,
        episodes,
        batch,
    } = minibatch;
    let (horizon, whole) = (episodes.horizon(), batch.len());
    let is_last = part.start > 0 && part.end == whole;
    let batch = &batch[part];
    let place = &mut places[usize::from(is_last)];
    let workspace = match place {
        Some(workspace) if workspace.fits(horizon, batch.len(), whole) => workspace,
        _ => place.insert(Workspace::new(
            solver,
            &model.spec,
            horizon,
            (batch.len(), whole),
            vector,
        )),
    };
    if let Some(guard) = &mut guard {
        guard.begin(batch);
    }
    arch.dispatch(Pass {
        solver,
        guard,
        model,
        episodes,
        batch,
        workspace,
        gradient,
    })
}

/// Some neighbouring parts, added up in their order.
pub(super) struct Group {
    pub(super) gradient: Vec<f64>,
    pub(super) result: Result<BatchResult, Error>,
}

impl Group {
    pub(super) fn new(parameters: usize) -> Self {
        Self {
            gradient: vec![0.0; parameters],
            result: Ok(nothing()),
        }
    }

    pub(super) fn play(
        &mut self,
        worker: &mut Worker,
        minibatch: Minibatch<'_>,
        parts: &Parts,
        index: usize,
    ) {
        let mut gradient = std::mem::take(&mut worker.gradient);
        gradient.resize(self.gradient.len(), 0.0);
        self.gradient.fill(0.0);
        self.result = parts.group(index).try_fold(nothing(), |mut sum, part| {
            let result = worker.play(minibatch, parts.episodes(part), &mut gradient)?;
            add(&mut sum, &mut self.gradient, &result, &gradient);
            Ok(sum)
        });
        worker.gradient = gradient;
    }
}

/// Plays groups, the first of which has this number, on as many threads as there are workers.
pub(super) fn play_all(
    workers: &mut [Worker],
    groups: &mut [Group],
    minibatch: Minibatch<'_>,
    parts: &Parts,
    first: usize,
) {
    match workers {
        [] => {}
        [worker] => {
            for (index, group) in (first..).zip(groups) {
                group.play(worker, minibatch, parts, index);
            }
        }
        _ => {
            // The later half has a group more, if anyone: the last group may be small.
            let (half, middle) = (
                workers.len() / 2,
                groups.len() * (workers.len() / 2) / workers.len(),
            );
            let (workers, other_workers) = workers.split_at_mut(half);
            let (groups, other_groups) = groups.split_at_mut(middle);
            rayon::join(
                || play_all(workers, groups, minibatch, parts, first),
                || play_all(other_workers, other_groups, minibatch, parts, first + middle),
            );
        }
    }
}

/// The result of no episode.
pub(super) fn nothing() -> BatchResult {
    BatchResult {
        loss: 0.0,
        counts: GradientCounts::default(),
    }
}

/// Adds a result and its gradient.
pub(super) fn add(sum: &mut BatchResult, gradients: &mut [f64], result: &BatchResult, gradient: &[f64]) {
    sum.loss += result.loss;
    sum.counts.exact += result.counts.exact;
    sum.counts.approximate += result.counts.approximate;
    for (sum, value) in gradients.iter_mut().zip(gradient) {
        *sum += value;
    }
}
