//! Training in f32 beside training in f64: what either reaches of the offline optimum on test episodes, and how long it takes.
//!
//! `cargo run --release -p laau-benches --example precision [SEEDS]`
//!
//! The episodes are those of `laau generate --horizon 20 --split 5000,1000,2000 --seed 1`, the model and its phases the paper's, also
//! with wider layers and larger minibatches. A seed draws the first weights and the shuffles; validation chooses the epoch.
#![expect(clippy::print_stdout, reason = "an example prints what it found")]

use std::error::Error;
use std::time::{Duration, Instant};

use laau_baselines::WaterFilling;
use laau_core::problems::WeightedFairness;
use laau_core::{Episodes, Hindsight as _, Problem, Rollout, Sets, StepSolver as _, Unrolled, rollout_all};
use laau_data::Split;
use laau_data::synthetic::{GenerateOptions, Workload};
use laau_kkt::FairnessLayer;
use laau_net::{
    BatchProgress, EpochRecord, Model, ModelSpec, Network, Precision, Statistics, TrainObserver, Training,
};

/// How far apart shares of the optimum may be.
const WANTED: f64 = 2e-4;

fn main() -> Result<(), Box<dyn Error>> {
    let seeds: u64 = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let sizes = Split {
        train: 5000,
        validation: 1000,
        test: 2000,
    };
    let options = GenerateOptions {
        seed: 1,
        ..GenerateOptions::default()
    };
    let sets = Workload::default().generate_split(sizes, &options)?;
    let best = optimum(&sets.test)?;
    println!("optimum: {best:.6} a step");
    for (width, batch) in [(10, 10), (40, 100), (80, 100)] {
        println!("width {width}, batch {batch}: shares of the optimum in f64 and f32");
        let (mut sums, mut largest, mut times) = ([0.0; 2], 0.0_f64, [Duration::ZERO; 2]);
        for seed in 0..seeds {
            let mut shares = [0.0; 2];
            for (index, precision) in [Precision::F64, Precision::F32].into_iter().enumerate() {
                let (utility, time) = train(&sets, width, batch, seed, precision)?;
                shares[index] = utility / best;
                sums[index] += shares[index];
                times[index] += time;
            }
            let [double, single] = shares;
            largest = largest.max((single - double).abs());
            println!("  seed {seed}: {double:.6} {single:.6}, {:+.6}", single - double);
        }
        let [double, single] = sums.map(|sum| sum / seeds as f64);
        let [slow, fast] = times.map(|time| time.as_secs_f64());
        println!(
            "  mean: {double:.6} {single:.6}, {:+.6} ({}); furthest apart {largest:.6}; epochs without validation {slow:.1} s and {fast:.1} s, {:.2}×",
            single - double,
            if (single - double).abs() <= WANTED {
                "the same"
            } else {
                "NOT the same"
            },
            slow / fast,
        );
    }
    Ok(())
}

/// The utility per step on the test set, and the time of all minibatches.
fn train(
    sets: &Sets,
    width: usize,
    batch: usize,
    seed: u64,
    precision: Precision,
) -> Result<(f64, Duration), Box<dyn Error>> {
    let mut layer = FairnessLayer::new(WeightedFairness::paper());
    let spec = ModelSpec {
        network: Network::Mlp {
            hidden: vec![width, width],
            spectral_bound: None,
        },
        ..ModelSpec::paper(layer.problem(), sets.train.horizon())
    };
    let statistics = Statistics::fit(&spec, &mut layer, &sets.train)?;
    let mut model = Model::new(spec, statistics, seed)?;
    let training = Training {
        batch,
        seed,
        precision,
        ..Training::paper()
    };
    let mut clock = Clock::default();
    let validation = Some(&sets.validation);
    training
        .check()?
        .run(&mut model, &layer, &sets.train, validation, &mut clock)?;
    let policy = Unrolled::new("laau", model, layer)?;
    let rollouts = rollout_all(&WeightedFairness::paper(), &policy, &sets.test)?;
    if rollouts.iter().any(|rollout| rollout.violations > 0) {
        return Err("a budget was exceeded".into());
    }
    Ok((mean(rollouts.iter().map(Rollout::utility)), clock.minibatches))
}

/// The utility per step of the best actions, all contexts known.
fn optimum(set: &Episodes) -> Result<f64, Box<dyn Error>> {
    let problem = WeightedFairness::paper();
    let solver = WaterFilling::new(problem.clone());
    let mut actions = vec![0.0; set.horizon()];
    let mut utilities = Vec::new();
    for episode in set.iter() {
        solver.plan(&episode, &mut actions)?;
        let steps = actions.iter().enumerate();
        let costs = steps.map(|(step, action)| problem.cost(&[*action], episode.context(step)));
        utilities.push(-mean(costs));
    }
    Ok(mean(utilities.into_iter()))
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

/// Adds up the time from the first minibatch of each epoch to its last.
#[derive(Default)]
struct Clock {
    began: Option<Instant>,
    latest: Option<Instant>,
    minibatches: Duration,
}

impl TrainObserver for Clock {
    fn batch(&mut self, _: &BatchProgress) {
        let now = Instant::now();
        self.began.get_or_insert(now);
        self.latest = Some(now);
    }

    fn epoch(&mut self, _: &EpochRecord, _: Duration) {
        if let (Some(began), Some(latest)) = (self.began.take(), self.latest.take()) {
            self.minibatches += latest - began;
        }
    }
}
