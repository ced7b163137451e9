//! What training behind a guard needs: the guard itself, and the guarded steps of a minibatch for any layer and engine.

use std::sync::Arc;

use laau_core::{
    Cap, CappedLayer, Differentiate, Dimensions, Error, Gradients, Guarded, Policy, Queries, Shadow,
    SmoothProblem, Solutions, Task,
};

/// A guard whose incumbent is ready.
#[derive(Clone)]
pub(crate) struct ReadyGuard {
    pub(crate) task: Task,
    pub(crate) incumbent: Arc<dyn Policy>,
    pub(crate) level: f64,
}

impl ReadyGuard {
    /// Advice behind the guard, in layer form.
    pub(crate) fn put_before(&self, name: &str, advice: impl Policy + 'static) -> Result<Guarded, Error> {
        let problem = Arc::clone(&self.task.problem) as Arc<_>;
        let incumbent = Arc::clone(&self.incumbent);
        let guarded = Guarded::new(name, Arc::new(advice), incumbent, problem, self.level)?;
        Ok(guarded.in_layer(&self.task))
    }
}

/// The layer of a training behind a guard, and what the episodes of a minibatch have spent on costs; see
/// [`laau_core::guarded_episode_gradient`].
pub(crate) struct GuardedLayer {
    layer: CappedLayer,
    shadow: Arc<Shadow>,
    batch: Vec<usize>,
    /// `C`: the costs so far.
    spent: Vec<f64>,
    /// `π = dL/dC`, by way of later limits.
    limited: Vec<f64>,
}

impl GuardedLayer {
    pub(crate) fn new(solver: Box<dyn Differentiate>, shadow: Arc<Shadow>) -> Self {
        Self {
            layer: CappedLayer::new(solver),
            shadow,
            batch: Vec::new(),
            spent: Vec::new(),
            limited: Vec::new(),
        }
    }

    pub(crate) fn shadow(&self) -> &Shadow {
        &self.shadow
    }

    /// The same, for another layer behind the same guard.
    pub(crate) fn shared(&self) -> Arc<Shadow> {
        Arc::clone(&self.shadow)
    }

    pub(crate) fn problem(&self) -> &dyn SmoothProblem {
        self.layer.problem()
    }

    /// Opens a minibatch.
    pub(crate) fn begin(&mut self, batch: &[usize]) {
        self.batch.clear();
        self.batch.extend_from_slice(batch);
        for values in [&mut self.spent, &mut self.limited] {
            values.clear();
            values.resize(batch.len(), 0.0);
        }
    }

    /// Takes what the guard keeps off what is available, `rows × M`.
    pub(crate) fn keep(&self, step: usize, available: &mut [f64]) {
        let m = available.len() / self.batch.len();
        for (row, &episode) in available.chunks_exact_mut(m).zip(&self.batch) {
            for (value, kept) in row.iter_mut().zip(self.shadow.get(episode).step(step).kept) {
                *value -= kept;
            }
        }
    }

    /// Solves a step of all episodes.
    pub(crate) fn solve(
        &mut self,
        step: usize,
        queries: Queries<'_>,
        solutions: &mut Solutions,
        caps: &mut [Cap],
    ) -> Result<(), Error> {
        let dimensions = solutions.dimensions();
        for (row, cap) in caps.iter_mut().enumerate() {
            let limits = self.shadow.get(self.batch[row]).step(step);
            let (query, limit) = (queries.row(row, dimensions), limits.cost - self.spent[row]);
            *cap = (self.layer).solve_or(query, limit, limits.share, solutions, row, step)?;
        }
        Ok(())
    }

    /// Takes in what the step costs.
    pub(crate) fn pay(&mut self, costs: &[f64]) {
        for (spent, cost) in self.spent.iter_mut().zip(costs) {
            *spent += cost;
        }
    }

    /// `q_t`, `rows × d`, for costs that count `weight` in the loss.
    pub(crate) fn upstream(
        &self,
        solutions: &Solutions,
        contexts: &[f64],
        prices: &[f64],
        weight: f64,
        scratch: &mut Vec<f64>,
        upstream: &mut [f64],
    ) {
        let Dimensions {
            actions: d,
            budgets: m,
            context: width,
        } = solutions.dimensions();
        for (row, out) in upstream.chunks_exact_mut(d).enumerate() {
            self.problem().step_pullback_batch(
                solutions.row(row).action,
                &contexts[row * width..][..width],
                &prices[row * m..][..m],
                weight + self.limited[row],
                scratch,
                out,
            );
        }
    }

    /// The pullback of a step of all episodes.
    pub(crate) fn pullback(
        &mut self,
        queries: Queries<'_>,
        caps: &[Cap],
        solutions: &Solutions,
        upstream: &[f64],
        gradients: &mut Gradients,
    ) -> Result<(), Error> {
        let dimensions = solutions.dimensions();
        for (row, upstream) in upstream.chunks_exact(dimensions.actions).enumerate() {
            let query = queries.row(row, dimensions);
            let (exactness, in_limit) = self.layer.pullback(
                query,
                caps[row],
                solutions.row(row),
                upstream,
                gradients.row_mut(row),
            )?;
            gradients.exactness[row] = exactness;
            self.limited[row] -= in_limit;
        }
        Ok(())
    }
}
