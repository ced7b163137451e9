//! CR-Pursuit with several budgets: divide and conquer where they are apart, the plain guarantee where they are not.

use laau_baselines::{CrPursuit, CrPursuitOptions, Ratio};
use laau_core::problems::{LogUtility, PowerProvisioning, VmAllocation, Wireless};
use laau_core::{
    AutoDiff, Dimensions, Episodes, Error, Number, ProblemFunctions, SmoothProblem, Structure, Task,
    rollout_all,
};
use proptest::prelude::*;
use rand::RngExt;

use crate::guarantee::check;
use crate::workload::{fit, general, generator, independent, log_utility, number};

/// Two inventories: the first serves two actions, the second one.
fn apart() -> LogUtility {
    LogUtility::new(3, 2, vec![1.0, 0.5, 0.0, 0.0, 0.0, 2.0], 0.2, 8.0).unwrap()
}

/// One inventory per resource.
pub(crate) fn proportional() -> VmAllocation {
    VmAllocation::new(1.0, vec![1.0; 3], vec![20.0; 3]).unwrap()
}

/// Three actions whose use of two budgets changes with the context: inventories that are apart until a step connects
/// them, and an action that is free at first.
struct Sometimes;

impl ProblemFunctions for Sometimes {
    fn name(&self) -> &'static str {
        "sometimes"
    }
    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: 3,
            budgets: 2,
            context: 3,
        }
    }
    fn lower(&self) -> &[f64] {
        &[0.0; 3]
    }
    fn upper(&self) -> &[f64] {
        &[4.0; 3]
    }
    fn cost<T: Number>(&self, action: &[T], context: &[T]) -> T {
        let mut cost = T::from(0.0);
        for (x, c) in action.iter().zip(context) {
            cost -= *c * (*x + 1.0).ln();
        }
        cost
    }
    fn usage<T: Number>(&self, action: &[T], context: &[T], out: &mut [T]) {
        let sometimes = |c: T| if c.re() > 0.3 { c } else { T::from(0.0) };
        out[0] = action[0] + action[1] * sometimes(context[1]);
        out[1] = action[1] + action[2] * sometimes(context[2]);
    }
    fn least_usage(&self, out: &mut [f64]) {
        out.fill(0.0);
    }
    fn structure(&self) -> Structure {
        Structure {
            diagonal_hessian: true,
            affine_usage: true,
        }
    }
}

fn worst_case(problem: impl SmoothProblem + 'static, train: &Episodes) -> Result<f64, Error> {
    let options = CrPursuitOptions {
        ratio: Ratio::WorstCase,
        ..CrPursuitOptions::default()
    };
    let fitted = fit(&options, &general(problem), train, train)?;
    Ok(number(&fitted, "ratio"))
}

#[test]
fn each_inventory_is_pursued_as_if_it_were_alone() {
    let whole = general(apart());
    let alone = [
        general(LogUtility::new(2, 1, vec![1.0, 0.5], 0.2, 8.0).unwrap()),
        general(LogUtility::new(1, 1, vec![2.0], 0.2, 8.0).unwrap()),
    ];
    let episodes = independent(&*whole.problem, &mut generator(61), (12, 12), (0.02, 0.5));
    for ratio in [1.0, 1.4, 3.0] {
        let play = |task: &Task, episodes: &Episodes| {
            let policy = CrPursuit::new(task, ratio).unwrap();
            rollout_all(&*task.problem, &policy, episodes).unwrap()
        };
        let together = play(&whole, &episodes);
        for (part, actions) in [0..2, 2..3].into_iter().enumerate() {
            let pick = |row: &[f64]| row[actions.clone()].to_vec();
            let contexts = episodes.contexts().chunks_exact(3).flat_map(pick).collect();
            let budgets = episodes.iter().map(|episode| episode.budgets()[part]).collect();
            let own = Episodes::new(12, actions.len(), 1, contexts, budgets).unwrap();
            for (together, alone) in together.iter().zip(play(&alone[part], &own)) {
                let parts = together.actions.chunks_exact(3).flat_map(pick);
                for (found, expected) in parts.zip(&alone.actions) {
                    assert!(
                        (found - expected).abs() < 1e-6 * expected,
                        "ratio {ratio}, inventory {part}: {found} together, {expected} alone"
                    );
                }
            }
        }
    }
}

#[test]
fn the_worst_case_ratio_of_several_inventories_is_feasible_in_any_order() {
    // Rising, falling and alternating weights, each inventory in another rhythm, from tight budgets to wide ones.
    let horizon = 24;
    let task = general(apart());
    let (mut contexts, mut budgets) = (Vec::new(), Vec::new());
    for shape in 0..4 {
        for (first, second) in [(0.1, 40.0), (4.0, 0.5), (30.0, 100.0), (200.0, 10.0)] {
            for t in 0..horizon {
                let up = f64::from(t) / f64::from(horizon - 1);
                let places = [up, 1.0 - up, f64::from(t % 2), up * up * up];
                for action in 0..3 {
                    let place: f64 = places[(shape + action) % 4];
                    contexts.push(0.02_f64.powf(1.0 - place));
                }
            }
            let n = f64::from(horizon);
            budgets.extend([0.3 * n + first, 0.4 * n + second]);
        }
    }
    let episodes = Episodes::new(24, 3, 2, contexts, budgets).unwrap();
    let ratio = worst_case(apart(), &episodes).unwrap();
    // Weights from 0.02 to 1, a box from 0.2 to 8, and half the usage of one action in the first inventory.
    let expected = (50.0_f64 * 40.0 * 2.0).ln() + 1.0;
    assert!((ratio - expected).abs() < 1e-9, "{ratio} against {expected}");
    assert_eq!(check(&task, ratio, &episodes), episodes.len());
    assert!(check(&task, 1.0, &episodes) < episodes.len());
}

#[test]
fn a_calibrated_ratio_of_several_inventories_is_the_smallest_that_is_feasible() {
    let task = general(proportional());
    let mut rng = generator(62);
    let train = independent(&*task.problem, &mut rng, (24, 10), (0.1, 0.4));
    let fitted = CrPursuitOptions {
        tolerance: 1e-4,
        ..CrPursuitOptions::default()
    };
    let ratio = number(&fit(&fitted, &task, &train, &train).unwrap(), "ratio");
    assert!(ratio > 1.01 && ratio < 4.0, "{ratio}");
    assert_eq!(check(&task, ratio, &train), train.len());
    assert!(check(&task, 1.0 + (ratio - 1.0) * 0.98, &train) < train.len());
}

#[test]
fn no_worst_case_ratio_is_claimed_for_budgets_that_are_connected() {
    fn reason(problem: impl SmoothProblem + 'static) -> String {
        let train = independent(&problem, &mut generator(63), (4, 5), (0.1, 0.5));
        match worst_case(problem, &train) {
            Err(Error::NotApplicable { reason, .. }) => reason,
            other => panic!("expected a typed refusal, found {other:?}"),
        }
    }
    let separable = "a worst-case ratio needs a separable cost and an affine usage";
    let connected = "a worst-case ratio is known for actions that use one budget each only";
    assert_eq!(reason(VmAllocation::server()), separable);
    assert_eq!(reason(Wireless::three_channels()), separable);
    assert_eq!(reason(log_utility()), connected);
    assert_eq!(reason(PowerProvisioning::two_loads()), connected);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 70, failure_persistence: None, ..ProptestConfig::default() })]

    /// Inventories apart and connected: an episode that is never cut earns the optimum over the ratio.
    #[test]
    fn the_guarantee_holds_with_several_budgets(
        seed in any::<u64>(),
        horizon in 1_usize..=10,
        ratio in 1.0..4.0_f64,
        which in 0_usize..7,
    ) {
        let mut rng = generator(seed);
        let task = match which {
            0 => general(apart()),
            1 => general(proportional()),
            // Every action in a random inventory, or in none.
            2 => {
                let (d, m) = (rng.random_range(1..=4), rng.random_range(2..=3));
                let mut matrix = vec![0.0; m * d];
                for i in 0..d {
                    if rng.random_bool(0.9) {
                        matrix[rng.random_range(0..m) * d + i] = rng.random_range(0.2..2.0);
                    }
                }
                general(LogUtility::new(d, m, matrix, 0.2, 8.0).unwrap())
            }
            // Two of three budgets are connected.
            3 => general(LogUtility::new(3, 3, vec![1.0, 0.5, 0.0, 0.2, 0.9, 0.0, 0.0, 0.0, 1.0], 0.1, 9.0).unwrap()),
            4 => general(log_utility()),
            5 => general(VmAllocation::server()),
            _ => general(AutoDiff::new(Sometimes).unwrap()),
        };
        let episodes = independent(&*task.problem, &mut rng, (4, horizon), (0.01, 0.9));
        check(&task, ratio, &episodes);
    }
}
