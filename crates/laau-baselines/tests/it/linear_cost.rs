//! The work of OPT grows with the horizon as the horizon does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use laau_baselines::{HorizonOptimum, HorizonOptions};
use laau_core::problems::VmAllocation;
use laau_core::{Dimensions, Problem, SmoothProblem};

use crate::workload::{generator, independent};

/// A problem that counts how often it is asked for anything.
struct Counted {
    inner: VmAllocation,
    calls: AtomicUsize,
}

impl Counted {
    fn inner(&self) -> &VmAllocation {
        self.calls.fetch_add(1, Ordering::Relaxed);
        &self.inner
    }
}

impl Problem for Counted {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn dimensions(&self) -> Dimensions {
        self.inner.dimensions()
    }
    fn lower(&self) -> &[f64] {
        self.inner.lower()
    }
    fn upper(&self) -> &[f64] {
        self.inner.upper()
    }
    fn cost(&self, x: &[f64], c: &[f64]) -> f64 {
        self.inner().cost(x, c)
    }
    fn usage(&self, x: &[f64], c: &[f64], out: &mut [f64]) {
        self.inner().usage(x, c, out);
    }
    fn least_usage(&self, out: &mut [f64]) {
        self.inner.least_usage(out);
    }
}

impl SmoothProblem for Counted {
    fn cost_gradient(&self, x: &[f64], c: &[f64], out: &mut [f64]) {
        self.inner().cost_gradient(x, c, out);
    }
    fn usage_jacobian(&self, x: &[f64], c: &[f64], out: &mut [f64]) {
        self.inner().usage_jacobian(x, c, out);
    }
    fn lagrangian_hessian(&self, x: &[f64], c: &[f64], weights: &[f64], out: &mut [f64]) {
        self.inner().lagrangian_hessian(x, c, weights, out);
    }
    fn cost_context_gradient(&self, x: &[f64], c: &[f64], out: &mut [f64]) {
        self.inner().cost_context_gradient(x, c, out);
    }
    fn usage_context_jacobian(&self, x: &[f64], c: &[f64], out: &mut [f64]) {
        self.inner().usage_context_jacobian(x, c, out);
    }
    fn lagrangian_mixed(&self, x: &[f64], c: &[f64], weights: &[f64], out: &mut [f64]) {
        self.inner().lagrangian_mixed(x, c, weights, out);
    }
}

/// What one optimum took: iterations, calls of the problem per step and iteration, bytes of memory per step.
fn work(horizon: usize) -> (usize, f64, f64) {
    let problem = Arc::new(Counted {
        inner: VmAllocation::server(),
        calls: AtomicUsize::new(0),
    });
    let shared: Arc<dyn SmoothProblem> = Arc::<Counted>::clone(&problem);
    let episodes = independent(&problem.inner, &mut generator(81), (1, horizon), (0.3, 0.3001));
    let solver = HorizonOptimum::new(shared, HorizonOptions::default()).unwrap();
    let episode = episodes.get(0);
    let mut found = None;
    let memory = allocation_counter::measure(|| {
        found = Some(solver.solve(episode.contexts(), episode.budgets()).unwrap());
    });
    let iterations = found.unwrap().iterations;
    let calls = problem.calls.load(Ordering::Relaxed);
    let n = horizon as f64;
    (
        iterations,
        calls as f64 / (n * iterations as f64),
        memory.bytes_max as f64 / n,
    )
}

/// A factorisation of the whole horizon would need memory that grows with its square; a solver that looks at the steps
/// pair by pair would call the problem as often.
#[test]
fn calls_and_memory_per_step_do_not_grow_with_the_horizon() {
    let (_, calls_of_100, bytes_of_100) = work(100);
    for horizon in [400, 1600, 6400] {
        let (iterations, calls, bytes) = work(horizon);
        assert!(iterations <= 40, "{iterations} iterations for {horizon} steps");
        assert!(
            calls <= 1.2 * calls_of_100,
            "{calls} calls per step and iteration, {calls_of_100} for 100 steps"
        );
        assert!(
            bytes <= 1.01 * bytes_of_100,
            "{bytes} bytes per step, {bytes_of_100} for 100 steps"
        );
    }
}
