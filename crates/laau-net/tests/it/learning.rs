//! Training finds what is there to find.

use laau_core::problems::WeightedFairness;
use laau_core::{Constant, Episodes, Problem, Unrolled, rollout_all};
use laau_net::{ModelSpec, Phase, Training};

use crate::support::{draw_context, fairness, iid_episodes, mean_utility, model, paper_model, play};

#[test]
fn training_finds_what_is_there_to_find_on_independent_contexts() {
    let [training, validation, test] =
        [(1500, 1), (400, 2), (600, 3)].map(|(count, seed)| iid_episodes(count, 20, seed));
    let layer = fairness();
    let best = dynamic_programming(&test);
    let constant = {
        let model = paper_model(&training, 0);
        let prices = Constant(model.statistics.multiplier_scale);
        let policy = Unrolled::new("avg-lt", prices, layer.fork())
            .unwrap()
            .priced_to_the_end();
        mean_utility(&rollout_all(layer.problem(), &policy, &test).unwrap())
    };
    assert!(constant < best - 5e-3, "nothing to find: {constant} and {best}");
    let train = |spec: ModelSpec, epochs, seed| {
        let mut model = model(spec, &*layer, &training, seed);
        let settings = Training {
            phases: vec![
                Phase {
                    epochs,
                    learning_rate: 5e-3,
                },
                Phase {
                    epochs: epochs / 2,
                    learning_rate: 1e-3,
                },
            ],
            seed,
            ..Training::paper()
        };
        settings
            .check()
            .unwrap()
            .run(&mut model, &*layer, &training, Some(&validation), &mut ())
            .unwrap();
        let rollouts = play(&model, &*layer, &test);
        assert!(rollouts.iter().all(|r| r.violations == 0 && r.failures == 0));
        mean_utility(&rollouts)
    };
    let paper = ModelSpec::paper(layer.problem(), 20);
    let residual = ModelSpec::residual(layer.problem(), 20);
    for (spec, epochs, seed) in (0..3).flat_map(|seed| [(&paper, 20, seed), (&residual, 10, seed)]) {
        let utility = train(spec.clone(), epochs, seed);
        let name = format!("{:?} {:?}, seed {seed}", spec.features, spec.form);
        // Within a thousandth of dynamic programming, and nearly all the way there from the constant price.
        assert!(utility > 0.999 * best, "{name}: {utility}, best {best}");
        assert!(
            utility - constant > 0.95 * (best - constant),
            "{name}: {utility}, constant {constant}, best {best}"
        );
        assert!(utility < best + 1e-3 * best.abs(), "{name}: better than possible");
    }
}

/// The utility per step that dynamic programming reaches on independent contexts: near the best of any online policy.
fn dynamic_programming(episodes: &Episodes) -> f64 {
    let problem = WeightedFairness::paper();
    let (horizon, cell) = (episodes.horizon(), 0.5);
    let largest = 15.0 * horizon as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of cells"
    )]
    let cells = (largest / cell) as usize + 1;
    let contexts: Vec<f64> = (0..40)
        .map(|k| draw_context((f64::from(k) + 0.5) / 40.0))
        .collect();
    // value[t][j]: the best utility to come from step t on with the budget j · cell.
    let mut value = vec![vec![0.0; cells]; horizon + 1];
    for step in (0..horizon).rev() {
        let (before, after) = value.split_at_mut(step + 1);
        let left = horizon - 1 - step;
        for j in 0..cells {
            let budget = j as f64 * cell;
            before[step][j] = if budget < (left + 1) as f64 {
                f64::NEG_INFINITY
            } else {
                let sum: f64 = contexts
                    .iter()
                    .map(|c| best_action(*c, budget, left, &after[0], cell).1)
                    .sum();
                sum / contexts.len() as f64
            };
        }
    }
    let mut total = 0.0;
    for episode in episodes.iter() {
        let mut budget = episode.budgets()[0];
        for step in 0..horizon {
            let c = episode.context(step)[0];
            let (action, _) = best_action(c, budget, horizon - 1 - step, &value[step + 1], cell);
            total -= Problem::cost(&problem, &[action], &[c]);
            budget -= action;
        }
    }
    total / (episodes.len() * horizon) as f64
}

/// Maximises `c ln x + value(budget − x)` by golden sections; the value is interpolated.
fn best_action(c: f64, budget: f64, left: usize, value: &[f64], cell: f64) -> (f64, f64) {
    let to_come = |rest: f64| {
        if left == 0 {
            return 0.0;
        }
        let position = (rest / cell).clamp(0.0, (value.len() - 1) as f64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cell")]
        let low = (position.floor() as usize).min(value.len() - 2);
        if value[low] == f64::NEG_INFINITY {
            return value[low + 1];
        }
        value[low] + (position - low as f64) * (value[low + 1] - value[low])
    };
    let objective = |x: f64| c * x.ln() + to_come(budget - x);
    let (mut low, mut high) = (1.0_f64, (budget - left as f64).clamp(1.0, 40.0));
    let golden = 0.618_033_988_749_894_9;
    for _ in 0..30 {
        let (a, b) = (high - golden * (high - low), low + golden * (high - low));
        if objective(a) < objective(b) {
            low = a;
        } else {
            high = b;
        }
    }
    let x = f64::midpoint(low, high);
    (x, objective(x))
}
