//! Fits every policy for weighted fairness and prints its utility over that of OPT, the time of its fit and the cost of a
//! decision.
//!
//! ```text
//! cargo run --release -p laau-baselines --example policies                  # synthetic, each step another level
//! cargo run --release -p laau-baselines --example policies consecutive      # synthetic, one level per episode
//! cargo run --release -p laau-baselines --example policies train.csv validation.csv test.csv
//! cargo run --release -p laau-baselines --example policies pursuit          # CR-Pursuit's decision cost by horizon
//! ```
//!
//! A CSV is an episodes table: `episode,step,context,budget` with a header, sorted by episode and step.

#![expect(clippy::print_stdout, reason = "standard output is this program's purpose")]

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuit, CrPursuitOptions, DpOptions, DualDescentOptions, Equal, EqualOptions,
    Memory, Mirror, OptOptions, Prediction, Ratio, RlOptions,
};
use laau_core::problems::WeightedFairness;
use laau_core::{Comparison, ComparisonObserver, Episode, Episodes, Policy, Run, Sets, Task, rollout};
use laau_kkt::FairnessLayer;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let problem = WeightedFairness::paper();
    let layer = FairnessLayer::new(problem.clone());
    let task = Task::new(Arc::new(problem), Box::new(layer));
    let sets = match arguments.as_slice() {
        [one] if one == "pursuit" => return pursuit(&task),
        [] => synthetic(false)?,
        [one] if one == "consecutive" => synthetic(true)?,
        [train, validation, test] => Sets {
            train: read(train)?,
            validation: read(validation)?,
            test: read(test)?,
        },
        _ => return Err("expected nothing, `consecutive`, `pursuit`, or three CSV files".into()),
    };
    let chase = |ratio| CrPursuitOptions {
        ratio,
        ..CrPursuitOptions::default()
    };
    let ce = |prediction| CeOptions {
        prediction,
        ..CeOptions::default()
    };
    let dp = |memory| DpOptions {
        memory,
        ..DpOptions::default()
    };
    let report = Comparison::new(&task, &sets)
        .with("opt", OptOptions::default())
        .with("equal", EqualOptions::default())
        .with("avg-lt", AvgLtOptions::default())
        .with("dgd", DualDescentOptions::new(Mirror::Euclidean))
        .with("mw", DualDescentOptions::new(Mirror::Entropic))
        .with("cr-pursuit, calibrated", chase(Ratio::Calibrated))
        .with("cr-pursuit, worst case", chase(Ratio::WorstCase))
        .with("ce, prior", ce(Prediction::Prior))
        .with("ce, shrunk mean", ce(Prediction::ShrunkMean))
        .with("ce, regression", ce(Prediction::Regression))
        .with("dp, independent", dp(Memory::Independent))
        .with("dp, markov", dp(Memory::Markov))
        .with("dp, running mean", dp(Memory::RunningMean))
        .with("rl", RlOptions::default())
        .with("rl-pg", RlOptions::model_free())
        .timed()
        .observed_by(&Times)
        .run()?;
    println!("{report}");
    for policy in &report.policies {
        println!("{:<24} {:.4?}", policy.name, policy.parameters);
    }
    Ok(())
}

/// Prints how long each policy took to fit and play.
struct Times;

impl ComparisonObserver for Times {
    fn done(&self, policy: &str, _: &Run, elapsed: Duration) {
        println!("{policy:<24} {:>8.3} s", elapsed.as_secs_f64());
    }
}

/// The cost of a decision of CR-Pursuit as the horizon grows: amortised `O(log t)`.
fn pursuit(task: &Task) -> Result<(), Box<dyn Error>> {
    let policies: [Box<dyn Policy>; 2] = [Box::new(CrPursuit::new(task, 2.0)?), Box::new(Equal::new(task))];
    println!("{:>8} {:>12} {:>12}", "horizon", "cr-pursuit", "equal");
    for horizon in [20, 200, 2_000, 20_000, 200_000] {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let contexts: Vec<f64> = (0..400_000).map(|_| rng.random_range(0.0..1.0)).collect();
        let budget = [12.5 * horizon as f64];
        let nanoseconds = |policy: &dyn Policy| -> Result<f64, laau_core::Error> {
            let now = Instant::now();
            for contexts in contexts.chunks_exact(horizon) {
                black_box(rollout(
                    &*task.problem,
                    policy,
                    &Episode::new(contexts, 1, &budget)?,
                )?);
            }
            Ok(now.elapsed().as_secs_f64() * 1e9 / contexts.len() as f64)
        };
        let [pursuit, equal] = [nanoseconds(&*policies[0])?, nanoseconds(&*policies[1])?];
        println!("{horizon:>8} {pursuit:>9.0} ns {equal:>9.0} ns");
    }
    Ok(())
}

/// Skewed levels with a mean of about 0.3 and readings around them; budgets `U[10N, 15N]`.
fn synthetic(consecutive: bool) -> Result<Sets, laau_core::Error> {
    const HORIZON: usize = 20;
    let mut rng = ChaCha8Rng::seed_from_u64(2026);
    let mut set = |count: usize| {
        let normal =
            |rng: &mut ChaCha8Rng| (0..12).map(|_| rng.random_range(0.0..1.0_f64)).sum::<f64>() - 6.0;
        let (mut contexts, mut budgets) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let mut level = (-1.5 + 0.8 * normal(&mut rng)).exp();
            for _ in 0..HORIZON {
                if !consecutive {
                    level = (-1.5 + 0.8 * normal(&mut rng)).exp();
                }
                contexts.push((level * (0.25 * normal(&mut rng)).exp()).clamp(0.0, 1.0));
            }
            budgets.push(rng.random_range(10.0..15.0) * HORIZON as f64);
        }
        Episodes::new(HORIZON, 1, 1, contexts, budgets)
    };
    Ok(Sets {
        train: set(1000)?,
        validation: set(300)?,
        test: set(1000)?,
    })
}

fn read(path: impl AsRef<Path>) -> Result<Episodes, Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    let (mut contexts, mut budgets, mut horizon) = (Vec::new(), Vec::new(), 0);
    for line in text.lines().skip(1) {
        let fields: Vec<f64> = line.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let [_, step, context, budget] = fields[..] else {
            return Err(format!("expected 4 fields, found {}: {line}", fields.len()).into());
        };
        if step == 0.0 {
            budgets.push(budget);
        }
        if budgets.len() == 1 {
            horizon += 1;
        }
        contexts.push(context);
    }
    Ok(Episodes::new(horizon, 1, 1, contexts, budgets)?)
}
