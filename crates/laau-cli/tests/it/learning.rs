//! What training is worth on the synthetic workload, with the paper's settings.

use serde_json::Value;

use crate::support::Bench;

/// Compares policies at N = 20, trained as in the paper, on two seeds.
fn compare(construction: &str, policies: &str) -> Value {
    let bench = Bench::new();
    bench.stdout(
        &format!("generate --split 5000,1000,2000 --construction {construction} -o sets"),
        "",
    );
    let text = bench.stdout(
        &format!(
            "compare --train sets/train.parquet --validation sets/validation.parquet --test sets/test.parquet \
             --policies {policies} --seeds 0,1 --format json --quiet"
        ),
        "",
    );
    serde_json::from_str(&text).unwrap()
}

/// The fraction of the optimum that a policy reached on each seed.
fn fractions(report: &Value, policy: &str) -> [f64; 2] {
    let policy = &report["policies"][policy];
    assert_eq!(policy["violations"], 0);
    [0, 1].map(|seed| policy["seeds"][seed]["fraction_of_opt"].as_f64().unwrap())
}

#[test]
fn on_interleaved_readings_the_papers_model_is_within_a_tenth_of_a_point_of_the_dynamic_program() {
    let report = compare("interleaved", "opt,dp,laau");
    let best = fractions(&report, "dp");
    for (laau, best) in fractions(&report, "laau").into_iter().zip(best) {
        assert!((laau - best).abs() < 1e-3, "{laau} against {best}");
    }
}

#[test]
fn on_consecutive_readings_history_is_worth_something_on_every_seed() {
    let report = compare("consecutive", "opt,laau,laau-history,laau-residual");
    let [laau, history, residual] =
        ["laau", "laau-history", "laau-residual"].map(|name| fractions(&report, name));
    for seed in 0..2 {
        let best = history[seed].max(residual[seed]);
        assert!(best >= laau[seed], "seed {seed}: {best} against {}", laau[seed]);
    }
}
