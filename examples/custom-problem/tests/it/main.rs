//! The problem and the solver of this example against the suites of `laau-core`, and the program as it is run.

#![expect(clippy::unwrap_used, reason = "a helper of a test may panic, like the test")]

use std::process::Command;
use std::sync::Arc;

use custom_problem::{AdPacing, ClarabelLayer, Sizes, campaigns, compare};
use laau_core::{
    AutoDiff, Constant, ProblemFunctions, Query, SmoothProblem, Solutions, StepSolver, Unrolled, conformance,
};
use laau_kkt::{InteriorPoint, Kkt, Options};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn problem() -> Arc<dyn SmoothProblem> {
    Arc::new(AutoDiff::new(AdPacing).unwrap())
}

fn layer() -> Kkt<ClarabelLayer> {
    Kkt::new(ClarabelLayer::new(problem()).unwrap()).unwrap()
}

/// Values and prices of an hour.
fn draw(rng: &mut ChaCha8Rng, context: &mut [f64]) {
    for value in context {
        *value = rng.random_range(0.2..1.5);
    }
}

#[test]
fn the_problem_conforms() {
    conformance::problem(&*problem(), draw);
}

#[test]
fn the_solver_conforms() {
    conformance::step_solver(&mut layer(), draw);
}

#[test]
fn a_policy_on_the_solver_conforms() {
    let episodes = campaigns(&mut ChaCha8Rng::seed_from_u64(3), 4, 8).unwrap();
    for price in [0.0, 0.2] {
        let policy = Unrolled::new("constant", Constant(vec![price; 2]), layer()).unwrap();
        conformance::policy(&*problem(), &policy, &episodes);
    }
}

#[test]
fn the_solver_agrees_with_the_library_s() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let mut theirs = InteriorPoint::new(problem(), Options::default()).unwrap();
    let mut ours = layer();
    let dimensions = AdPacing.dimensions();
    let mut solutions = Solutions::new(dimensions, 2);
    for number in 0..100 {
        let mut context = [0.0; 4];
        draw(&mut rng, &mut context);
        let query = Query {
            context: &context,
            multiplier: &[rng.random_range(0.0..0.6), rng.random_range(0.0..0.3)],
            available: &[rng.random_range(0.0..4.0), rng.random_range(0.0..6.0)],
        };
        // Without derivatives: clarabel's own digits, and payable all the same.
        ours.solver().clone().solve(query, solutions.row_mut(0)).unwrap();
        let bare = solutions.actions()[..2].to_vec();
        assert!(
            solutions.statuses()[0].is_solved(),
            "{number}: {}",
            solutions.statuses()[0]
        );
        let spent = [bare[0] * context[2] + bare[1] * context[3], bare[0] + bare[1]];
        assert!(spent[0] <= query.available[0] && spent[1] <= query.available[1]);

        ours.solve(query, solutions.row_mut(0)).unwrap();
        theirs.solve(query, solutions.row_mut(1)).unwrap();
        let (ours, theirs) = (solutions.row(0), solutions.row(1));
        assert!(ours.status.is_solved(), "{number}: {}", ours.status);
        for (a, b) in bare.iter().zip(theirs.action) {
            assert!((a - b).abs() < 1e-5, "{number}: {bare:?} and {:?}", theirs.action);
        }
        for (a, b) in ours.action.iter().zip(theirs.action) {
            assert!(
                (a - b).abs() < 1e-11,
                "{number}: {:?} and {:?}",
                ours.action,
                theirs.action
            );
        }
        for (a, b) in ours.duals.iter().zip(theirs.duals) {
            assert!(
                (a - b).abs() < 1e-9,
                "{number}: {:?} and {:?}",
                ours.duals,
                theirs.duals
            );
        }
    }
}

#[test]
fn curved_usage_is_refused() {
    struct Curved;
    impl ProblemFunctions for Curved {
        fn name(&self) -> &'static str {
            "curved"
        }
        fn dimensions(&self) -> laau_core::Dimensions {
            AdPacing.dimensions()
        }
        fn lower(&self) -> &[f64] {
            AdPacing.lower()
        }
        fn upper(&self) -> &[f64] {
            AdPacing.upper()
        }
        fn cost<T: laau_core::Number>(&self, action: &[T], context: &[T]) -> T {
            AdPacing.cost(action, context)
        }
        fn usage<T: laau_core::Number>(&self, action: &[T], _: &[T], out: &mut [T]) {
            out[0] = action[0] * action[0];
            out[1] = action[1] * action[1];
        }
        fn least_usage(&self, out: &mut [f64]) {
            out.fill(0.0);
        }
    }
    let error = ClarabelLayer::new(Arc::new(AutoDiff::new(Curved).unwrap()))
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "invalid problem `curved`: expected affine usage: its budgets become linear constraints"
    );
}

#[test]
fn training_on_the_solver_beats_its_rivals_and_nobody_overspends() {
    let report = compare(Sizes::small(), 2).unwrap();
    let fraction = |name: &str| {
        let policy = report.policies.iter().find(|policy| policy.name == name).unwrap();
        assert_eq!((policy.violations, policy.failures), (0, 0), "{name}");
        policy.fraction_of_opt.unwrap()
    };
    for name in ["equal", "avg-lt"] {
        let (rival, laau) = (fraction(name), fraction("laau"));
        assert!(rival < 1.0 && laau < 1.0, "{name}: {rival}, laau: {laau}");
        assert!(laau > rival, "laau earns {laau} of OPT, {name} {rival}");
    }
    let gradients = report.policies.last().unwrap().gradients.unwrap();
    assert!(gradients.exact > 9 * gradients.approximate, "{gradients:?}");
}

#[test]
fn the_program_prints_its_table() {
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_custom-problem"))
            .args(arguments)
            .output()
            .unwrap()
    };
    let small = run(&["--small"]);
    let table = String::from_utf8(small.stdout).unwrap();
    assert!(
        small.status.success(),
        "{}",
        String::from_utf8_lossy(&small.stderr)
    );
    for policy in ["opt", "equal", "avg-lt", "laau"] {
        let row = table.lines().find(|line| line.split(' ').next() == Some(policy));
        assert!(
            row.is_some_and(|row| row.ends_with(" 0")),
            "no row without violations for {policy} in\n{table}"
        );
    }
    assert!(!run(&["--large"]).status.success());
}
