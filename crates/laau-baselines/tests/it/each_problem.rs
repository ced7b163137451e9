//! OPT of each problem against clarabel, each written as a conic program.

use std::sync::Arc;

use clarabel::solver::SupportedConeT;
use laau_baselines::{HorizonOptimum, HorizonOptions};
use laau_core::problems::{PowerProvisioning, Trading, VmAllocation, Wireless};
use laau_core::{Episode, Episodes, Problem, SmoothProblem};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::cone::{Affine, Program};
use crate::optimum::played;
use crate::workload::{generator, independent};

/// Relative to the sizes of the episode's costs.
const TOLERANCE: f64 = 1e-7;
const INSTANCES: usize = 30;

/// Compares the planned, paid and played optimum with clarabel's least cost on random episodes.
fn check<P: SmoothProblem + Clone + 'static>(
    seed: u64,
    problem: &P,
    prepare: impl Fn(&mut ChaCha8Rng, &mut [f64]),
    truth: impl Fn(&Episode<'_>) -> f64,
) {
    let mut rng = generator(seed);
    let q = problem.dimensions().context;
    let shared: Arc<dyn SmoothProblem> = Arc::new(problem.clone());
    let solver = HorizonOptimum::new(Arc::clone(&shared), HorizonOptions::default()).unwrap();
    for number in 0..INSTANCES {
        let horizon = rng.random_range(1..=8);
        let drawn = independent(problem, &mut rng, (1, horizon), (0.02, 0.9));
        let mut contexts = drawn.contexts().to_vec();
        for context in contexts.chunks_exact_mut(q) {
            prepare(&mut rng, context);
        }
        let budgets = drawn.get(0).budgets().to_vec();
        let episodes = Episodes::new(horizon, q, budgets.len(), contexts, budgets).unwrap();
        let episode = episodes.get(0);
        let costs = played(&shared, &solver, &episode).costs;
        let found: f64 = costs.iter().sum();
        let size: f64 = costs.iter().map(|cost| cost.abs()).sum::<f64>().max(1e-3);
        let expected = truth(&episode);
        assert!(
            (found - expected).abs() <= TOLERANCE * size,
            "{}, instance {number}, horizon {horizon}: {found} against {expected}, off by {:e} of {size}",
            problem.name(),
            (found - expected).abs() / size
        );
    }
}

/// A variable for every action of every step, with the costs given.
fn actions(
    program: &mut Program,
    problem: &dyn Problem,
    horizon: usize,
    cost: impl Fn(usize) -> (f64, f64),
) -> Vec<Vec<usize>> {
    let boxes: Vec<_> = problem
        .lower()
        .iter()
        .copied()
        .zip(problem.upper().iter().copied())
        .collect();
    (0..horizon)
        .map(|step| {
            let variable = |(lower, upper): &(f64, f64)| program.bounded(cost(step), *lower, *upper);
            boxes.iter().map(variable).collect()
        })
        .collect()
}

/// One budget of linear usage; what the reserve leaves is a limit at every step.
fn budget(
    program: &mut Program,
    problem: &dyn Problem,
    episode: &Episode<'_>,
    resource: usize,
    usage: impl Fn(usize) -> Vec<(usize, f64)>,
) {
    let mut reserve = vec![0.0; episode.budgets().len()];
    let mut terms = Vec::new();
    for step in 0..episode.horizon() {
        terms.extend(usage(step));
        problem.reserve(episode.horizon() - 1 - step, &mut reserve);
        program.at_most(&terms, episode.budgets()[resource] - reserve[resource]);
    }
}

/// The shares of a job add up to 1.
fn shares(_: &mut ChaCha8Rng, context: &mut [f64]) {
    let sum: f64 = context[1..].iter().sum();
    for share in &mut context[1..] {
        *share /= sum;
    }
}

fn vm_allocation(problem: &VmAllocation, episode: &Episode<'_>) -> f64 {
    let p = 1.0 - problem.alpha();
    let mut program = Program::default();
    let x = actions(&mut program, problem, episode.horizon(), |_| (0.0, 0.0));
    for resource in 0..x[0].len() {
        budget(&mut program, problem, episode, resource, |step| {
            vec![(x[step][resource], 1.0)]
        });
    }
    let mut constant = 0.0;
    for (step, x) in x.iter().enumerate() {
        let (weight, shares) = episode.context(step).split_first().unwrap();
        if p > 0.0 {
            // z ≤ y^p 1^{1−p} with y ≤ Π x^s, a chain of power cones; the cost is −w (z − 1)/p.
            let (mut bundle, mut total) = (x[0], shares[0]);
            for (x, share) in x.iter().zip(shares).skip(1) {
                total += share;
                bundle = program.power(0.0, 1.0 - share / total, bundle, Affine::variable(*x));
            }
            program.power(-weight / p, p, bundle, Affine::constant(1.0));
            constant += weight / p;
            continue;
        }
        // α = 1: the cost is −w Σ s u with u ≤ ln x. Beyond: w (z − 1)/|p| with z ≥ exp(p Σ s u).
        let mut exponent = Vec::new();
        for (x, share) in x.iter().zip(shares) {
            let cost = if p == 0.0 { -weight * share } else { 0.0 };
            let u = program.logarithm(cost, Affine::variable(*x));
            exponent.push((u, p * share));
        }
        if p < 0.0 {
            let z = program.variable(-weight / p, 0.0);
            program.at_most_logarithm(Affine::new(&exponent, 0.0), Affine::variable(z));
            constant += weight / p;
        }
    }
    program.solve() + constant
}

#[test]
fn vm_allocation_equals_clarabel_for_every_fairness() {
    for (seed, alpha) in [(71, 0.5), (72, 1.0), (73, 2.0), (74, 3.5)] {
        let problem = VmAllocation::new(alpha, vec![1.0; 4], vec![40.0; 4]).unwrap();
        check(seed, &problem, shares, |episode| vm_allocation(&problem, episode));
    }
}

#[test]
fn wireless_equals_clarabel() {
    let bandwidth = 1.5;
    let problem = Wireless::new(3, bandwidth, 4.0).unwrap();
    check(
        75,
        &problem,
        |_, _| {},
        |episode| {
            let mut program = Program::default();
            let x = actions(&mut program, &problem, episode.horizon(), |_| (0.0, 0.0));
            let (mut energy, mut unit) = (Vec::new(), 0.0);
            for (step, x) in x.iter().enumerate() {
                let (priority, gains) = episode.context(step).split_first().unwrap();
                for (x, gain) in x.iter().zip(gains) {
                    program.logarithm(-priority, Affine::new(&[(*x, 1.0)], 1.0));
                    // The energy is (2^{x/w} − 1)/h: e ≥ 2^{x/w}.
                    let e = program.variable(0.0, 0.0);
                    let exponent = Affine::new(&[(*x, 2.0_f64.ln() / bandwidth)], 0.0);
                    program.at_most_logarithm(exponent, Affine::variable(e));
                    energy.push((e, 1.0 / gain));
                    unit += 1.0 / gain;
                }
            }
            program.at_most(&energy, episode.budgets()[0] + unit);
            budget(&mut program, &problem, episode, 1, |step| {
                x[step].iter().map(|x| (*x, 1.0)).collect()
            });
            program.solve()
        },
    );
}

#[test]
fn trading_equals_clarabel() {
    let impact = 0.07;
    let problem = Trading::new(impact, 10.0).unwrap();
    check(
        76,
        &problem,
        |_, _| {},
        |episode| {
            let mut program = Program::default();
            let cost = |step: usize| (-episode.context(step)[0], impact);
            let x = actions(&mut program, &problem, episode.horizon(), cost);
            budget(&mut program, &problem, episode, 0, |step| vec![(x[step][0], 1.0)]);
            program.solve()
        },
    );
}

#[test]
fn power_provisioning_equals_clarabel() {
    let energy = [1.0, 0.8, 1.7];
    let problem = PowerProvisioning::new(energy.to_vec(), 1.0, 1.0, 1.1, 6.0).unwrap();
    check(
        77,
        &problem,
        |_, _| {},
        |episode| {
            let mut program = Program::default();
            let x = actions(&mut program, &problem, episode.horizon(), |_| (0.0, 0.0));
            for (step, x) in x.iter().enumerate() {
                for (x, load) in x.iter().zip(episode.context(step)) {
                    // The delay is c/(x − c): q (x − c) ≥ 1 is ‖(2, q − (x − c))‖ ≤ q + (x − c).
                    let q = program.variable(*load, 0.0);
                    let rows = vec![
                        Affine::new(&[(q, 1.0), (*x, 1.0)], -load),
                        Affine::constant(2.0),
                        Affine::new(&[(q, 1.0), (*x, -1.0)], *load),
                    ];
                    program.cone(SupportedConeT::SecondOrderConeT(3), rows);
                }
            }
            for resource in 0..2 {
                budget(&mut program, &problem, episode, resource, |step| {
                    let intensity = episode.context(step)[energy.len()];
                    let rate = if resource == 0 { 1.0 } else { intensity };
                    x[step].iter().zip(energy).map(|(x, e)| (*x, rate * e)).collect()
                });
            }
            program.solve()
        },
    );
}
