//! A task with the best solver for its problem.

use std::any::Any;
use std::sync::Arc;

use laau_core::problems::WeightedFairness;
use laau_core::{Error, Nearest, SmoothProblem, Task};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};

/// A task for a problem, with the fastest solver there is for it: a closed form for weighted fairness, an interior point
/// for any other. [`Task::new`] takes a solver of your own.
///
/// # Errors
/// [`Error::InvalidProblem`] for a problem with inconsistent sizes or box.
pub fn task<P: SmoothProblem + 'static>(problem: P) -> Result<Task, Error> {
    if let Some(fairness) = (&problem as &dyn Any).downcast_ref::<WeightedFairness>() {
        let problem = Arc::new(fairness.clone());
        let layer = FairnessLayer::new(Arc::clone(&problem));
        return Ok(Task::new(problem, Box::new(layer)));
    }
    shared_task(Arc::new(problem))
}

/// A task for any problem, solved by the interior point; policies that output several actions get a projector.
///
/// # Errors
/// As [`task`].
pub fn shared_task(problem: Arc<dyn SmoothProblem>) -> Result<Task, Error> {
    let solve = |problem| InteriorPoint::new(problem, Options::default()).map_err(into_core);
    let task = Task::new(Arc::clone(&problem), Box::new(solve(Arc::clone(&problem))?));
    if problem.dimensions().actions == 1 {
        return Ok(task);
    }
    task.with_projector(Box::new(solve(Arc::new(Nearest::new(problem)))?))
}

/// The default options are valid: what is left is the problem's.
fn into_core(error: laau_kkt::Error) -> Error {
    match error {
        laau_kkt::Error::Core(error) => error,
        other => Error::InvalidProblem {
            problem: String::new(),
            reason: other.to_string(),
        },
    }
}
