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
use std::time::Instant;

use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuit, CrPursuitOptions, DpOptions, DualDescentOptions, Equal, EqualOptions,
    Fitted, Memory, Mirror, Optimum, Prediction, Ratio, RlOptions, Task, optimum,
};
use laau_core::problems::WeightedFairness;
use laau_core::{Episodes, PolicyReport, rollout, rollout_all, rollout_hindsight};
use laau_kkt::FairnessLayer;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [train, validation, test] = match arguments.as_slice() {
        [one] if one == "pursuit" => return pursuit(),
        [] => synthetic(false)?,
        [one] if one == "consecutive" => synthetic(true)?,
        [train, validation, test] => [read(train)?, read(validation)?, read(test)?],
        _ => return Err("expected nothing, `consecutive`, `pursuit`, or three CSV files".into()),
    };
    let problem = WeightedFairness::paper();
    let task = Task::new(
        Arc::new(problem.clone()),
        Box::new(FairnessLayer::new(problem.clone())),
    );
    let best = rollout_hindsight(
        &task.problem.clone(),
        &*optimum(Optimum::WaterFilling(problem))?,
        &test,
    )?;
    println!(
        "{} training, {} validation and {} test episodes of {} steps; OPT earns {:.4} a step",
        train.len(),
        validation.len(),
        test.len(),
        test.horizon(),
        -best.iter().flat_map(|r| &r.costs).sum::<f64>() / (test.len() * test.horizon()) as f64
    );
    println!(
        "{:<24} {:>8} {:>9} {:>8} {:>9}  found",
        "policy", "of OPT", "remaining", "fit s", "ns/step"
    );
    for (label, fit) in policies() {
        let now = Instant::now();
        let fitted = fit(&task, &train, &validation)?;
        let seconds = now.elapsed().as_secs_f64();
        let rollouts = rollout_all(&*task.problem, &*fitted.policy, &test)?;
        let report = PolicyReport::new(label, &rollouts, &test, Some(&best));
        println!(
            "{label:<24} {:>8.4} {:>8.2}% {seconds:>8.3} {:>9.0}  {:.4?}",
            report.fraction_of_opt.unwrap_or(f64::NAN),
            report.remaining_percent[0],
            decision_cost(&task, &fitted, &test)?,
            fitted.parameters
        );
    }
    Ok(())
}

/// CR-Pursuit's cost of a decision as the horizon grows: amortised `O(log t)`.
fn pursuit() -> Result<(), Box<dyn Error>> {
    let problem = WeightedFairness::paper();
    let task = Task::new(
        Arc::new(problem.clone()),
        Box::new(FairnessLayer::new(problem.clone())),
    );
    let fitted = Fitted::new(CrPursuit::new(&task, 2.0)?);
    let equal = Fitted::new(Equal::new(&task));
    println!("{:>8} {:>12} {:>12}", "horizon", "cr-pursuit", "equal");
    for horizon in [20, 200, 2_000, 20_000, 200_000] {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let count = 400_000 / horizon;
        let contexts = (0..count * horizon).map(|_| rng.random_range(0.0..1.0)).collect();
        let episodes = Episodes::new(horizon, 1, 1, contexts, vec![12.5 * horizon as f64; count])?;
        let [pursuit, equal] = [&fitted, &equal].map(|policy| decision_cost(&task, policy, &episodes));
        println!("{horizon:>8} {:>9.0} ns {:>9.0} ns", pursuit?, equal?);
    }
    Ok(())
}

/// Fits a policy.
type Fit = Box<dyn Fn(&Task, &Episodes, &Episodes) -> Result<Fitted, laau_core::Error>>;

fn policies() -> Vec<(&'static str, Fit)> {
    macro_rules! fit {
        ($options:expr) => {{
            let options = $options;
            Box::new(move |s: &Task, t: &Episodes, v: &Episodes| {
                options.fit(
                    s,
                    FitSets {
                        train: t,
                        validation: v,
                    },
                    0,
                    &mut (),
                )
            }) as Fit
        }};
    }
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
    vec![
        ("equal", fit!(EqualOptions::default())),
        ("avg-lt", fit!(AvgLtOptions::default())),
        ("dgd", fit!(DualDescentOptions::new(Mirror::Euclidean))),
        ("mw", fit!(DualDescentOptions::new(Mirror::Entropic))),
        ("cr-pursuit, calibrated", fit!(chase(Ratio::Calibrated))),
        ("cr-pursuit, worst case", fit!(chase(Ratio::WorstCase))),
        ("ce, prior", fit!(ce(Prediction::Prior))),
        ("ce, shrunk mean", fit!(ce(Prediction::ShrunkMean))),
        ("ce, regression", fit!(ce(Prediction::Regression))),
        ("dp, independent", fit!(dp(Memory::Independent))),
        ("dp, markov", fit!(dp(Memory::Markov))),
        ("dp, running mean", fit!(dp(Memory::RunningMean))),
        ("rl", fit!(RlOptions::default())),
        ("rl-pg", fit!(RlOptions::model_free())),
    ]
}

/// Nanoseconds a step, the driver and its ledger included, on one thread.
fn decision_cost(task: &Task, fitted: &Fitted, test: &Episodes) -> Result<f64, laau_core::Error> {
    let count = test.len().min(500);
    let now = Instant::now();
    for episode in test.iter().take(count) {
        black_box(rollout(&*task.problem, &*fitted.policy, &episode)?);
    }
    Ok(now.elapsed().as_secs_f64() * 1e9 / (count * test.horizon()) as f64)
}

/// Skewed levels with a mean of about 0.3 and readings around them; budgets `U[10N, 15N]`.
fn synthetic(consecutive: bool) -> Result<[Episodes; 3], laau_core::Error> {
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
    Ok([set(1000)?, set(300)?, set(1000)?])
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
