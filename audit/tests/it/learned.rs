//! No learned price is above OPT where budgets are degenerate: the rivals have the same test in laau-baselines.

use std::sync::Arc;

use laau_baselines::{HorizonOptimum, HorizonOptions};
use laau_core::problems::{
    LlmTokens, LogUtility, PowerProvisioning, Trading, VmAllocation, WeightedFairness, Wireless,
};
use laau_core::{Episodes, Fit as _, FitSets, Rollout, SmoothProblem, Task, rollout_hindsight};
use laau_kkt::{InteriorPoint, Options};
use laau_net::{Laau, Phase, Training};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// How far above OPT rounding may put a policy, relative to OPT or to 1, whichever is more.
const TOLERANCE: f64 = 1e-9;

const HORIZON: usize = 6;

fn problems() -> Vec<Arc<dyn SmoothProblem>> {
    vec![
        Arc::new(WeightedFairness::paper()),
        Arc::new(LogUtility::new(2, 2, vec![1.0, 0.0, 0.0, 1.0], 0.5, 10.0).unwrap()),
        Arc::new(LogUtility::new(3, 2, vec![1.0, 0.5, 0.0, 0.2, 0.7, 1.0], 0.1, 10.0).unwrap()),
        Arc::new(VmAllocation::server()),
        Arc::new(Wireless::three_channels()),
        Arc::new(Trading::inventory()),
        Arc::new(PowerProvisioning::two_loads()),
        Arc::new(LlmTokens::two_classes()),
    ]
}

/// Budgets at their least, at what an unconstrained optimum uses, a hair beside either, and between them.
fn episodes(problem: &Arc<dyn SmoothProblem>, rng: &mut ChaCha8Rng) -> Episodes {
    let dimensions = problem.dimensions();
    let (m, q) = (dimensions.budgets, dimensions.context);
    let solver = HorizonOptimum::new(Arc::clone(problem), HorizonOptions::default()).unwrap();
    let (mut least, mut usage) = (vec![0.0; m], vec![0.0; m]);
    problem.reserve(HORIZON, &mut least);
    let (mut contexts, mut budgets) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        let drawn: Vec<f64> = (0..HORIZON * q).map(|_| rng.random_range(0.05..0.9)).collect();
        let free = solver.solve(&drawn, &vec![1e9; m]).unwrap();
        let mut wanted = vec![0.0; m];
        let steps = free.actions.chunks_exact(dimensions.actions);
        for (action, context) in steps.zip(drawn.chunks_exact(q)) {
            problem.usage(action, context, &mut usage);
            wanted.iter_mut().zip(&usage).for_each(|(sum, used)| *sum += used);
        }
        for (least, wanted) in least.iter().zip(&wanted) {
            let nudge = 10.0_f64.powf(rng.random_range(-14.0..-6.0));
            let budget = match rng.random_range(0..6) {
                0 => *least,
                1 => least + nudge * wanted,
                2 => wanted * (1.0 - nudge),
                3 => *wanted,
                4 => wanted * (1.0 + nudge),
                _ => least + (wanted - least) * rng.random_range(0.0..1.0),
            };
            budgets.push(budget.max(*least));
        }
        contexts.extend(drawn);
    }
    Episodes::new(HORIZON, q, m, contexts, budgets).unwrap()
}

fn earned(rollout: &Rollout) -> f64 {
    -rollout.costs.iter().sum::<f64>()
}

#[test]
fn no_learned_price_is_above_opt_where_budgets_are_degenerate() {
    let mut rng = ChaCha8Rng::seed_from_u64(19);
    let training = Training {
        phases: vec![Phase {
            epochs: 2,
            learning_rate: 5e-3,
        }],
        ..Training::paper()
    };
    for problem in problems() {
        let layer = InteriorPoint::new(Arc::clone(&problem), Options::default()).unwrap();
        let task = Task::new(Arc::clone(&problem), Box::new(layer));
        let set = episodes(&problem, &mut rng);
        let optimum = HorizonOptimum::new(Arc::clone(&problem), HorizonOptions::default()).unwrap();
        let best = rollout_hindsight(&*problem, &optimum, &set).unwrap();
        let sets = FitSets {
            train: &set,
            validation: &set,
        };
        for laau in [Laau::paper(), Laau::history(), Laau::residual()] {
            let name = format!("{}, {}", problem.name(), laau.name);
            let fitted = laau
                .trained_by(training.clone())
                .fit(&task, sets, 1, &mut ())
                .unwrap();
            let played = fitted.player.play(&task, &set).unwrap();
            for (index, (ours, best)) in played.iter().zip(&best).enumerate() {
                assert_eq!((ours.violations, ours.failures), (0, 0), "{name}");
                let best = earned(best);
                assert!(
                    earned(ours) <= best + TOLERANCE * best.abs().max(1.0),
                    "{name}: {} beside {best}, budgets {:?}",
                    earned(ours),
                    set.get(index).budgets()
                );
            }
        }
    }
}
