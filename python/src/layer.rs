//! The convex layer and the whole episode, batched and differentiated.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use laau::core::{
    Differentiate, Dimensions, Episode, EpisodeGradient, Error, GradientCounts, Gradients, Queries,
    Solutions, Status, episode_gradient,
};
use laau_cli::Refused;
use numpy::PyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyType;
use rayon::prelude::*;

use crate::arrays::{Numbers, array, numbers};
use crate::errors::{Raise as _, error};
use crate::task::Task;
use crate::threads::pool;

/// Solves that are worth another thread: fewer are done before it has woken up.
const GRAIN: usize = 16;

type Array<'py> = Bound<'py, PyArrayDyn<f64>>;

/// The layer of a task for batches: solves, pulls gradients back, and counts which of them are exact.
#[pyclass(frozen, module = "laau", name = "Layer")]
pub(crate) struct Layer {
    task: Py<Task>,
    sizes: Dimensions,
    /// Solvers that nobody uses at the moment.
    idle: Mutex<Vec<Box<dyn Differentiate>>>,
    exact: AtomicU64,
    approximate: AtomicU64,
}

impl Layer {
    /// Does a part of a batch with a solver of its own.
    fn with_solver<T>(&self, work: impl FnOnce(&mut dyn Differentiate) -> T) -> T {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let found = idle().pop();
        let mut solver = found.unwrap_or_else(|| self.task.get().task.solver.fork());
        let result = work(&mut *solver);
        idle().push(solver);
        result
    }

    /// Does rows in as many parts as are worth it; results come in the order of the rows. `weight` is the number of solves
    /// of a row.
    fn in_parts<T: Send>(
        &self,
        py: Python<'_>,
        rows: usize,
        weight: usize,
        work: impl Fn(&mut dyn Differentiate, Range<usize>) -> Result<T, Refused> + Sync,
    ) -> PyResult<Vec<T>> {
        let pool = pool()?;
        let parts = (rows * weight / GRAIN).clamp(1, pool.current_num_threads().min(rows));
        let range = |part: usize| part * rows / parts..(part + 1) * rows / parts;
        let results = py.detach(|| match parts {
            1 => self
                .with_solver(|solver| work(solver, 0..rows))
                .map(|done| vec![done]),
            _ => pool.install(|| {
                (0..parts)
                    .into_par_iter()
                    .map(|part| self.with_solver(|solver| work(solver, range(part))))
                    .collect()
            }),
        });
        results.raise()
    }

    fn count(&self, counts: GradientCounts) {
        self.exact.fetch_add(counts.exact, Ordering::Relaxed);
        self.approximate.fetch_add(counts.approximate, Ordering::Relaxed);
    }

    /// Duals of budgets and bounds, and whether the row was solved to the tolerance.
    fn state_len(&self) -> usize {
        self.sizes.budgets + 2 * self.sizes.actions + 1
    }
}

/// Contexts, multipliers and available budgets of the same number of rows.
struct Batch<'py> {
    contexts: Numbers<'py>,
    multipliers: Numbers<'py>,
    available: Numbers<'py>,
    rows: usize,
}

impl<'py> Batch<'py> {
    fn new(
        sizes: Dimensions,
        contexts: &Bound<'py, PyAny>,
        multipliers: &Bound<'py, PyAny>,
        available: &Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let contexts = numbers("contexts", contexts)?;
        let multipliers = numbers("multipliers", multipliers)?;
        let available = numbers("available", available)?;
        let rows = multipliers.rows(&[sizes.budgets], &format!("(batch, {})", sizes.budgets))?;
        if rows == 0 {
            return Err(error(
                "expected at least one row in the batch, found none",
                "skip an empty batch",
            ));
        }
        for (table, width) in [(&contexts, sizes.context), (&available, sizes.budgets)] {
            let expected = format!("({rows}, {width}), as the multipliers have {rows} rows");
            if table.rows(&[width], &expected)? != rows {
                return Err(table.wrong_shape(&expected));
            }
        }
        Ok(Self {
            contexts,
            multipliers,
            available,
            rows,
        })
    }

    fn queries(&self) -> PyResult<Queries<'_>> {
        Ok(Queries {
            contexts: self.contexts.values()?,
            multipliers: self.multipliers.values()?,
            available: self.available.values()?,
        })
    }

    /// The shape of a result: that of the multipliers with another last dimension.
    fn shape(&self, width: usize) -> Vec<usize> {
        let mut shape = self.multipliers.shape().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = width;
        }
        shape
    }
}

/// The queries of some rows.
fn part<'a>(queries: Queries<'a>, rows: &Range<usize>, sizes: Dimensions) -> Queries<'a> {
    let of = |table: &'a [f64], width: usize| &table[rows.start * width..rows.end * width];
    Queries {
        contexts: of(queries.contexts, sizes.context),
        multipliers: of(queries.multipliers, sizes.budgets),
        available: of(queries.available, sizes.budgets),
    }
}

/// A row that has no feasible action, or is no query.
fn unsolved(row: usize, status: Status) -> Refused {
    Refused {
        sentence: format!("row {row}: {status}"),
        hint: "the lower corner must be payable, and multipliers finite and not negative".to_owned(),
    }
}

#[pymethods]
impl Layer {
    #[new]
    fn new(task: Py<Task>) -> Self {
        Self {
            sizes: task.get().dimensions(),
            task,
            idle: Mutex::new(Vec::new()),
            exact: AtomicU64::new(0),
            approximate: AtomicU64::new(0),
        }
    }

    /// The task.
    #[getter]
    fn task(&self, py: Python<'_>) -> Py<Task> {
        self.task.clone_ref(py)
    }

    /// How many gradients were exact, and how many a substitute (at kinks, where there is none).
    #[getter]
    fn gradients(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.exact), load(&self.approximate))
    }

    /// Solves a batch: actions, and what `backward` needs besides.
    fn forward<'py>(
        &self,
        py: Python<'py>,
        contexts: &Bound<'py, PyAny>,
        multipliers: &Bound<'py, PyAny>,
        available: &Bound<'py, PyAny>,
    ) -> PyResult<(Array<'py>, Array<'py>)> {
        let sizes = self.sizes;
        let batch = Batch::new(sizes, contexts, multipliers, available)?;
        let queries = batch.queries()?;
        let parts = self.in_parts(py, batch.rows, 1, |solver, rows| {
            let mut solutions = Solutions::new(sizes, rows.len());
            solver.solve_batch(part(queries, &rows, sizes), &mut solutions)?;
            let statuses = solutions.statuses();
            match statuses.iter().position(|status| !status.is_feasible()) {
                Some(row) => Err(unsolved(rows.start + row, statuses[row])),
                None => Ok(solutions),
            }
        })?;
        let mut actions = Vec::with_capacity(batch.rows * sizes.actions);
        let mut state = Vec::with_capacity(batch.rows * self.state_len());
        for solutions in &parts {
            actions.extend_from_slice(solutions.actions());
            for row in 0..solutions.rows() {
                let solution = solutions.row(row);
                for values in [solution.duals, solution.lower_duals, solution.upper_duals] {
                    state.extend_from_slice(values);
                }
                state.push(f64::from(u8::from(solution.status.is_solved())));
            }
        }
        Ok((
            array(py, actions, &batch.shape(sizes.actions))?,
            array(py, state, &batch.shape(self.state_len()))?,
        ))
    }

    /// The gradients of `upstreamᵀ actions` in multipliers, available budgets and, if asked for, contexts.
    #[expect(clippy::too_many_arguments, reason = "all of them are arrays of a batch")]
    fn backward<'py>(
        &self,
        py: Python<'py>,
        contexts: &Bound<'py, PyAny>,
        multipliers: &Bound<'py, PyAny>,
        available: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        state: &Bound<'py, PyAny>,
        upstream: &Bound<'py, PyAny>,
        with_contexts: bool,
    ) -> PyResult<(Array<'py>, Array<'py>, Option<Array<'py>>)> {
        let sizes = self.sizes;
        let batch = Batch::new(sizes, contexts, multipliers, available)?;
        let queries = batch.queries()?;
        let tables = [
            (numbers("actions", actions)?, sizes.actions),
            (numbers("state", state)?, self.state_len()),
            (numbers("upstream", upstream)?, sizes.actions),
        ];
        for (table, width) in &tables {
            let expected = format!("({}, {width})", batch.rows);
            if table.rows(&[*width], &expected)? != batch.rows {
                return Err(table.wrong_shape(&expected));
            }
        }
        let [(actions, _), (state, _), (upstream, _)] = &tables;
        let (actions, state, upstream) = (actions.values()?, state.values()?, upstream.values()?);
        let (d, width) = (sizes.actions, self.state_len());
        let parts = self.in_parts(py, batch.rows, 1, |solver, rows| {
            let solutions = restored(
                sizes,
                &actions[rows.start * d..rows.end * d],
                &state[rows.start * width..rows.end * width],
            );
            let mut gradients = if with_contexts {
                Gradients::with_contexts(sizes, rows.len())
            } else {
                Gradients::new(sizes, rows.len())
            };
            let upstream = &upstream[rows.start * d..rows.end * d];
            solver.pullback_batch(part(queries, &rows, sizes), &solutions, upstream, &mut gradients)?;
            Ok(gradients)
        })?;
        let mut counts = GradientCounts::default();
        for exactness in parts.iter().flat_map(|part| &part.exactness) {
            counts.add(*exactness);
        }
        self.count(counts);
        let joined = |of: fn(&Gradients) -> &[f64]| parts.iter().flat_map(of).copied().collect::<Vec<_>>();
        let in_contexts = if with_contexts {
            Some(array(py, joined(|part| &part.contexts), batch.contexts.shape())?)
        } else {
            None
        };
        Ok((
            array(py, joined(|part| &part.multipliers), batch.multipliers.shape())?,
            array(py, joined(|part| &part.available), batch.available.shape())?,
            in_contexts,
        ))
    }

    /// Plays episodes with given prices: their costs, and the gradients in prices and budgets.
    fn episode<'py>(
        &self,
        py: Python<'py>,
        contexts: &Bound<'py, PyAny>,
        budgets: &Bound<'py, PyAny>,
        multipliers: &Bound<'py, PyAny>,
    ) -> PyResult<(Array<'py>, Array<'py>, Array<'py>)> {
        let sizes = self.sizes;
        let (m, c) = (sizes.budgets, sizes.context);
        let contexts = numbers("contexts", contexts)?;
        let budgets = numbers("budgets", budgets)?;
        let multipliers = numbers("multipliers", multipliers)?;
        let expected = format!("(batch, steps, {m})");
        let horizon = match *multipliers.shape() {
            [.., horizon, width] if width == m && horizon > 0 => horizon,
            _ => return Err(multipliers.wrong_shape(&expected)),
        };
        let rows = multipliers.rows(&[horizon, m], &expected)?;
        if rows == 0 {
            return Err(error(
                "expected at least one episode in the batch, found none",
                "skip an empty batch",
            ));
        }
        let expected = format!("({rows}, {horizon}, {c}), as the multipliers say");
        if contexts.rows(&[horizon, c], &expected)? != rows {
            return Err(contexts.wrong_shape(&expected));
        }
        let expected = format!("({rows}, {m}), as the multipliers say");
        if budgets.rows(&[m], &expected)? != rows {
            return Err(budgets.wrong_shape(&expected));
        }
        let (all_contexts, all_budgets) = (contexts.values()?, budgets.values()?);
        let prices = multipliers.values()?;
        let parts = self.in_parts(py, rows, horizon, |solver, rows| {
            rows.map(|row| {
                let contexts = &all_contexts[row * horizon * c..][..horizon * c];
                let gradient = Episode::new(contexts, c, &all_budgets[row * m..][..m])
                    .and_then(|episode| play(solver, &episode, &prices[row * horizon * m..][..horizon * m]));
                gradient.map_err(|error| in_episode(row, error))
            })
            .collect::<Result<Vec<EpisodeGradient>, Refused>>()
        })?;
        let (mut costs, mut in_prices, mut in_budgets) = (Vec::new(), Vec::new(), Vec::new());
        for gradient in parts.iter().flatten() {
            costs.push(gradient.cost);
            in_prices.extend_from_slice(&gradient.multipliers);
            in_budgets.extend_from_slice(&gradient.budgets);
            self.count(gradient.counts);
        }
        let shape = multipliers.shape();
        Ok((
            array(py, costs, &shape[..shape.len() - 2])?,
            array(py, in_prices, shape)?,
            array(py, in_budgets, budgets.shape())?,
        ))
    }

    /// A layer is pickled as its task; its counts begin again.
    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (Py<Task>,)) {
        (py.get_type::<Self>(), (self.task(py),))
    }

    fn __repr__(&self) -> String {
        let (exact, approximate) = self.gradients();
        format!(
            "Layer({}, gradients: {exact} exact, {approximate} approximate)",
            self.task.get().spec.name()
        )
    }
}

/// An error with the row it comes from.
fn in_episode(row: usize, error: Error) -> Refused {
    let Refused { sentence, hint } = error.into();
    Refused {
        sentence: format!("episode {row}: {sentence}"),
        hint,
    }
}

/// The gradient of an episode whose contexts and budgets are checked before.
fn play(
    solver: &mut dyn Differentiate,
    episode: &Episode<'_>,
    prices: &[f64],
) -> Result<EpisodeGradient, Error> {
    for step in 0..episode.horizon() {
        let checked = solver.problem().check_context(episode.context(step));
        checked.map_err(|error| Error::AtStep {
            step,
            reason: Box::new(error),
        })?;
    }
    episode_gradient(solver, episode, prices)
}

/// Solutions as `forward` gave them.
fn restored(sizes: Dimensions, actions: &[f64], state: &[f64]) -> Solutions {
    let (d, m) = (sizes.actions, sizes.budgets);
    let mut solutions = Solutions::new(sizes, actions.len() / d);
    for (row, (action, state)) in actions
        .chunks_exact(d)
        .zip(state.chunks_exact(m + 2 * d + 1))
        .enumerate()
    {
        let solution = solutions.row_mut(row);
        solution.action.copy_from_slice(action);
        solution.duals.copy_from_slice(&state[..m]);
        solution.lower_duals.copy_from_slice(&state[m..m + d]);
        solution.upper_duals.copy_from_slice(&state[m + d..m + 2 * d]);
        // How many iterations it took does not matter to a gradient.
        *solution.status = if state[m + 2 * d] == 1.0 {
            Status::Solved {
                iterations: 0,
                residual: 0.0,
            }
        } else {
            Status::NotConverged {
                iterations: 0,
                residual: f64::INFINITY,
            }
        };
    }
    solutions
}
