use laau_core::problems::LogUtility;
use laau_core::{AutoDiff, Dimensions, Number, ProblemFunctions, SmoothProblem, conformance};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Weighted log-utility, given by its two functions alone.
struct LogByFunctions(LogUtility);

impl ProblemFunctions for LogByFunctions {
    fn name(&self) -> &'static str {
        "log-by-functions"
    }
    fn dimensions(&self) -> Dimensions {
        laau_core::Problem::dimensions(&self.0)
    }
    fn lower(&self) -> &[f64] {
        laau_core::Problem::lower(&self.0)
    }
    fn upper(&self) -> &[f64] {
        laau_core::Problem::upper(&self.0)
    }
    fn cost<T: Number>(&self, x: &[T], c: &[T]) -> T {
        -x.iter().zip(c).map(|(x, c)| *c * x.ln()).sum::<T>()
    }
    fn usage<T: Number>(&self, x: &[T], _: &[T], out: &mut [T]) {
        for (row, out) in self.0.matrix().chunks_exact(x.len()).zip(out) {
            *out = row.iter().zip(x).map(|(a, x)| *x * *a).sum();
        }
    }
    fn least_usage(&self, out: &mut [f64]) {
        laau_core::Problem::least_usage(&self.0, out);
    }
}

/// Usage that bends with the action and the context: power for a rate over a channel of gain `c`.
struct Rate;

impl ProblemFunctions for Rate {
    fn name(&self) -> &'static str {
        "rate"
    }
    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: 2,
            budgets: 2,
            context: 2,
        }
    }
    fn lower(&self) -> &[f64] {
        &[0.0, 0.0]
    }
    fn upper(&self) -> &[f64] {
        &[3.0, 3.0]
    }
    fn cost<T: Number>(&self, x: &[T], _: &[T]) -> T {
        -(x[0] + 1.0).ln() - (x[1] + x[0] * 0.1 + 1.0).ln()
    }
    fn usage<T: Number>(&self, x: &[T], c: &[T], out: &mut [T]) {
        out[0] = (x[0].exp2() - 1.0) / c[0] + (x[1].exp2() - 1.0) / c[1];
        out[1] = x[0] + x[1];
    }
    fn least_usage(&self, out: &mut [f64]) {
        out.fill(0.0);
    }
}

type Derivative = fn(&dyn SmoothProblem, &[f64], &[f64], &mut [f64]);

#[test]
fn derivatives_by_dual_numbers_equal_the_analytic_ones() {
    let analytic = LogUtility::new(3, 2, vec![1.0, 0.0, 0.3, 0.2, 0.9, 0.1], 0.1, 10.0).unwrap();
    let dual = AutoDiff::new(LogByFunctions(analytic.clone())).unwrap();
    let derivatives: [(Derivative, usize); 6] = [
        (|p, x, c, out| p.cost_gradient(x, c, out), 3),
        (|p, x, c, out| p.usage_jacobian(x, c, out), 6),
        (|p, x, c, out| p.lagrangian_hessian(x, c, &[0.3, 0.4], out), 9),
        (|p, x, c, out| p.cost_context_gradient(x, c, out), 3),
        (|p, x, c, out| p.usage_context_jacobian(x, c, out), 6),
        (|p, x, c, out| p.lagrangian_mixed(x, c, &[0.3, 0.4], out), 9),
    ];
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for _ in 0..100 {
        let x: Vec<f64> = (0..3).map(|_| rng.random_range(0.1..10.0)).collect();
        let c: Vec<f64> = (0..3).map(|_| rng.random_range(0.1..2.0)).collect();
        for (k, (derivative, size)) in derivatives.iter().enumerate() {
            let (mut a, mut b) = (vec![0.0; *size], vec![f64::NAN; *size]);
            derivative(&analytic, &x, &c, &mut a);
            derivative(&dual, &x, &c, &mut b);
            for (a, b) in a.iter().zip(&b) {
                assert!(
                    (a - b).abs() <= 1e-13 * (1.0 + a.abs()),
                    "derivative {k}: {a} against {b}"
                );
            }
        }
    }
}

#[test]
fn a_problem_with_bent_usage_keeps_the_contract() {
    conformance::problem(&AutoDiff::new(Rate).unwrap(), |rng, c| {
        c.fill_with(|| rng.random_range(0.2..2.0));
    });
}
