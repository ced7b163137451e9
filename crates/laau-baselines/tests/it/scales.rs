//! "Solved" means solved, at every scale: the duality gap of each optimum, computed without the solver.

use std::sync::Arc;

use laau_baselines::{HorizonOptimum, HorizonOptions};
use laau_core::problems::{
    LlmTokens, LogUtility, PowerProvisioning, Trading, VmAllocation, WeightedFairness, Wireless,
};
use laau_core::{Dimensions, Problem, SmoothProblem};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::workload::generator;

/// The largest gap, relative to the terms of the cost.
const MOST_GAP: f64 = 1e-7;
/// By how much a sum of rounded usages may be above its budget.
const ROUNDING: f64 = 1e-13;

/// The gap of actions and prices relative to the terms of the cost, for a problem that is separable once it is priced.
///
/// Every action is compared with the best one at the prices, found by bisection on the sign of its slope, among those that
/// a budget allows alone. What the last bits of the budgets are worth is not counted.
fn certified_gap(
    problem: &dyn SmoothProblem,
    contexts: &[f64],
    budgets: &[f64],
    plan: &[f64],
    prices: &[f64],
) -> f64 {
    let Dimensions {
        actions: d,
        budgets: m,
        context: q,
    } = problem.dimensions();
    let (lower, upper) = (problem.lower(), problem.upper());
    let (mut gradient, mut jacobian) = (vec![0.0; d], vec![0.0; m * d]);
    let (mut usage, mut used) = (vec![0.0; m], vec![0.0; m]);
    let (mut gap, mut cost, mut worth) = (0.0, 0.0_f64, 0.0_f64);
    let mut room = budgets.to_vec();
    for c in contexts.chunks_exact(q) {
        problem.usage(lower, c, &mut usage);
        for (room, usage) in room.iter_mut().zip(&usage) {
            *room -= usage;
        }
    }
    for (x, c) in plan.chunks_exact(d).zip(contexts.chunks_exact(q)) {
        problem.usage(x, c, &mut usage);
        problem.cost_gradient(x, c, &mut gradient);
        for i in 0..d {
            assert!(
                (lower[i]..=upper[i]).contains(&x[i]),
                "{} is outside the box",
                x[i]
            );
            worth += (gradient[i] * (x[i] - lower[i])).abs();
        }
        for (used, usage) in used.iter_mut().zip(&usage) {
            *used += usage;
        }
        cost += problem.cost(x, c).abs();
        let slope = |y: &[f64], i: usize| {
            let (mut gradient, mut jacobian) = (vec![0.0; d], vec![0.0; m * d]);
            problem.cost_gradient(y, c, &mut gradient);
            problem.usage_jacobian(y, c, &mut jacobian);
            gradient[i] + (0..m).map(|k| prices[k] * jacobian[k * d + i]).sum::<f64>()
        };
        let mut best = x.to_vec();
        for i in 0..d {
            problem.usage_jacobian(lower, c, &mut jacobian);
            let reach = (0..m)
                .filter(|k| jacobian[k * d + i] > 0.0)
                .fold(upper[i], |reach, k| {
                    reach.min(lower[i] + room[k].max(0.0) / jacobian[k * d + i])
                });
            let highest = reach.max(x[i]).to_bits();
            let (mut low, mut high) = (lower[i].to_bits(), highest);
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                best[i] = f64::from_bits(middle);
                if slope(&best, i) > 0.0 {
                    high = middle;
                } else {
                    low = middle;
                }
            }
            best[i] = f64::from_bits(low);
            if high == highest {
                best[i] = f64::from_bits(high);
            }
            // What the action costs more than the best one: the integral of the slope between the two.
            gap += integral(best[i], x[i], |y| {
                let mut at = x.to_vec();
                at[i] = y;
                slope(&at, i)
            });
            best[i] = x[i];
        }
    }
    for k in 0..m {
        assert!(
            used[k] <= budgets[k] * (1.0 + ROUNDING),
            "{} of {}",
            used[k],
            budgets[k]
        );
        gap += prices[k] * (budgets[k] * (1.0 - ROUNDING) - used[k]).max(0.0);
    }
    let size = cost.max(worth);
    if size > 0.0 { gap / size } else { gap }
}

/// An upper bound of the integral of an increasing slope that vanishes, or is a bound's, at `from`.
fn integral(from: f64, to: f64, mut slope: impl FnMut(f64) -> f64) -> f64 {
    const PIECES: usize = 32;
    let mut sum = 0.0;
    for piece in 0..PIECES {
        let near = from + (to - from) * piece as f64 / PIECES as f64;
        let far = from + (to - from) * (piece + 1) as f64 / PIECES as f64;
        sum += slope(far) * (far - near);
    }
    sum.max(0.0)
}

fn power_of_ten(rng: &mut ChaCha8Rng, least: f64, most: f64) -> f64 {
    10.0_f64.powf(rng.random_range(least..=most))
}

/// Contexts of one scale, or of all at once; now and then a zero.
fn weights(rng: &mut ChaCha8Rng, count: usize) -> Vec<f64> {
    let spread = [0.3, 3.0, 9.0, 20.9][rng.random_range(0..4)];
    let centre = rng.random_range(-9.0 + spread / 2.0..12.0 - spread / 2.0);
    (0..count)
        .map(|_| match rng.random_range(0..15) {
            0 => 0.0,
            _ => power_of_ten(rng, centre - spread / 2.0, centre + spread / 2.0),
        })
        .collect()
}

/// Budgets between the least and far more than can be used; now and then the least itself.
fn budgets(rng: &mut ChaCha8Rng, problem: &dyn Problem, horizon: usize) -> Vec<f64> {
    let mut least = vec![0.0; problem.dimensions().budgets];
    problem.reserve(horizon, &mut least);
    let mut drawn = |least: f64| match rng.random_range(0..8) {
        0 => least,
        1 => least + power_of_ten(rng, -9.0, 12.0),
        2..5 if least > 0.0 => least * (1.0 + power_of_ten(rng, -9.0, 9.0)),
        _ if least > 0.0 => least * (1.0 + power_of_ten(rng, -1.0, 2.0)),
        _ => power_of_ten(rng, -9.0, 12.0),
    };
    least.into_iter().map(&mut drawn).collect()
}

/// Solves instances, and collects what is wrong with them.
struct Trial {
    faults: Vec<String>,
    worst: f64,
    count: usize,
}

impl Trial {
    fn new() -> Self {
        Self {
            faults: Vec::new(),
            worst: 0.0,
            count: 0,
        }
    }

    fn solve(&mut self, problem: impl SmoothProblem + 'static, contexts: &[f64], budgets: &[f64]) {
        let problem: Arc<dyn SmoothProblem> = Arc::new(problem);
        let solver = HorizonOptimum::new(Arc::clone(&problem), HorizonOptions::default()).unwrap();
        self.count += 1;
        let what = || {
            format!(
                "{} in [{:e}, {:e}], contexts {contexts:?}, budgets {budgets:?}",
                problem.name(),
                problem.lower()[0],
                problem.upper()[0]
            )
        };
        match solver.solve(contexts, budgets) {
            Ok(found) => {
                let gap = certified_gap(&*problem, contexts, budgets, &found.actions, &found.multipliers);
                self.worst = self.worst.max(gap);
                if gap.is_nan() || gap > MOST_GAP {
                    self.faults.push(format!(
                        "a gap of {gap:.1e}, {:.1e} reported after {} iterations: {}",
                        found.gap,
                        found.iterations,
                        what()
                    ));
                }
            }
            Err(error) => self.faults.push(format!("{error}: {}", what())),
        }
    }

    fn end(self) {
        let shown: Vec<_> = self.faults.iter().take(5).map(String::as_str).collect();
        assert!(
            self.faults.is_empty(),
            "{} of {}, for example\n{}",
            self.faults.len(),
            self.count,
            shown.join("\n")
        );
    }
}

#[test]
fn fairness_is_solved_at_every_scale() {
    let mut rng = generator(301);
    let mut trial = Trial::new();
    for _ in 0..3000 {
        let horizon = rng.random_range(1..=30);
        let lower = power_of_ten(&mut rng, -9.0, 11.0);
        let upper = power_of_ten(&mut rng, lower.log10() + 1e-3, 12.0);
        let problem = WeightedFairness::new(lower, upper).unwrap();
        let budgets = budgets(&mut rng, &problem, horizon);
        let contexts = weights(&mut rng, horizon);
        trial.solve(problem, &contexts, &budgets);
    }
    trial.end();
}

#[test]
fn log_utility_is_solved_at_every_scale() {
    let mut rng = generator(302);
    let mut trial = Trial::new();
    for _ in 0..3000 {
        let (d, m) = (rng.random_range(1..=4), rng.random_range(1..=3));
        let horizon = rng.random_range(1..=12);
        let lower = power_of_ten(&mut rng, -9.0, 11.0);
        let upper = power_of_ten(&mut rng, lower.log10() + 1e-3, 12.0);
        let matrix = (0..d * m)
            .map(|_| match rng.random_range(0..4) {
                0 => 0.0,
                _ => power_of_ten(&mut rng, -2.0, 2.0),
            })
            .collect();
        let problem = LogUtility::new(d, m, matrix, lower, upper).unwrap();
        let budgets = budgets(&mut rng, &problem, horizon);
        let contexts = weights(&mut rng, horizon * d);
        trial.solve(problem, &contexts, &budgets);
    }
    trial.end();
}

#[test]
fn trading_is_solved_at_every_scale() {
    let mut rng = generator(303);
    let mut trial = Trial::new();
    for _ in 0..1500 {
        let horizon = rng.random_range(1..=20);
        let impact = power_of_ten(&mut rng, -6.0, 6.0);
        let most = power_of_ten(&mut rng, -9.0, 12.0);
        let problem = Trading::new(impact, most).unwrap();
        let budgets = budgets(&mut rng, &problem, horizon);
        let contexts = weights(&mut rng, horizon);
        trial.solve(problem, &contexts, &budgets);
    }
    trial.end();
}

#[test]
fn wireless_power_and_proportional_machines_are_solved_at_every_scale() {
    let mut rng = generator(304);
    let mut trial = Trial::new();
    for _ in 0..700 {
        let horizon = rng.random_range(1..=10);
        let channels = rng.random_range(1..=3);
        let bandwidth = power_of_ten(&mut rng, -6.0, 9.0);
        let most = bandwidth * power_of_ten(&mut rng, -6.0, 1.5);
        let problem = Wireless::new(channels, bandwidth, most).unwrap();
        let mut contexts = weights(&mut rng, horizon * (channels + 1));
        for context in contexts.chunks_exact_mut(channels + 1) {
            context[1..].fill_with(|| power_of_ten(&mut rng, -3.0, 3.0));
        }
        let drawn = budgets(&mut rng, &problem, horizon);
        trial.solve(problem, &contexts, &drawn);

        let load = power_of_ten(&mut rng, -6.0, 6.0);
        let lower = load * (1.0 + power_of_ten(&mut rng, -3.0, 3.0));
        let upper = lower * (1.0 + power_of_ten(&mut rng, -3.0, 6.0));
        let problem = PowerProvisioning::new(vec![1.0, 0.8], load, 1.0, lower, upper).unwrap();
        let contexts: Vec<f64> = (0..horizon)
            .flat_map(|_| {
                let mut share = || power_of_ten(&mut rng, -3.0, 0.0);
                [load * share(), load * share(), share()]
            })
            .collect();
        let drawn = budgets(&mut rng, &problem, horizon);
        trial.solve(problem, &contexts, &drawn);

        let lower = power_of_ten(&mut rng, -6.0, 6.0);
        let upper = lower * (1.0 + power_of_ten(&mut rng, -3.0, 6.0));
        let problem = VmAllocation::new(1.0, vec![lower; 3], vec![upper; 3]).unwrap();
        let drawn = budgets(&mut rng, &problem, horizon);
        let contexts = weights(&mut rng, horizon * 4);
        trial.solve(problem, &contexts, &drawn);
    }
    trial.end();
}

#[test]
fn requests_of_a_token_and_of_billions_in_one_episode_are_solved() {
    let mut trial = Trial::new();
    let problem = |classes, kappa, upper| LlmTokens::new(classes, kappa, 1.0, 2.0, upper).unwrap();
    for exponent in 1..20 {
        let large = 10.0_f64.powi(exponent);
        trial.solve(
            problem(1, 1.0, large),
            &[1.0, 1.0, large, 0.0, 0.0, 0.0],
            &[2.0 * large, large],
        );
        trial.solve(
            problem(2, 10.0, large),
            &[0.0, 0.7 * large, 0.0, 0.0, 0.1, 0.04, 0.0, 0.0],
            &[0.4 * large, 0.4 * large],
        );
    }
    let mut rng = generator(305);
    for _ in 0..1500 {
        let (classes, horizon) = (rng.random_range(1..=3), rng.random_range(1..=8));
        let upper = power_of_ten(&mut rng, 0.0, 19.5);
        let kappa = power_of_ten(&mut rng, -1.0, 1.5);
        let mut contexts = Vec::new();
        for _ in 0..horizon {
            let size = [0.1, 5.0, upper, upper][rng.random_range(0..4)];
            contexts.extend((0..classes).map(|_| size * power_of_ten(&mut rng, -1.0, 0.4)));
            contexts.extend((0..classes).map(|_| rng.random_range(0.0..=1.0_f64)));
        }
        let most = upper * (classes * horizon) as f64;
        let budgets = [(); 2].map(|()| most * power_of_ten(&mut rng, -2.0, 0.3));
        trial.solve(problem(classes, kappa, upper), &contexts, &budgets);
    }
    trial.end();
}

#[test]
fn the_width_of_the_box_does_not_matter_where_the_budget_is_narrower() {
    // No problem takes bounds beyond 1e60.
    for exponent in 2..60 {
        let upper = 10.0_f64.powi(exponent);
        let problem: Arc<dyn SmoothProblem> = Arc::new(WeightedFairness::new(1.0, upper).unwrap());
        let solver = HorizonOptimum::new(problem, HorizonOptions::default()).unwrap();
        let found = solver.solve(&[0.5; 5], &[10.0]).unwrap();
        for x in &found.actions {
            assert!((x - 2.0).abs() < 1e-6, "upper {upper:e}: {:?}", found.actions);
        }
        assert!(found.iterations < 20, "upper {upper:e}: {}", found.iterations);
    }
}
