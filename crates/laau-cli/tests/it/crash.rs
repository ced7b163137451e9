//! `laau decide --journal` is killed at random points; nothing is lost, nothing is spent twice.

use std::time::Duration;

use num_bigint::BigInt;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

use crate::support::{Bench, Stream, contexts};

const KILLS: usize = 200;
const HORIZON: usize = 12;

/// The exact value of a non-negative float, in units of 2^-1074.
fn exact(value: f64) -> BigInt {
    assert!(value >= 0.0 && value.is_finite());
    let bits = value.to_bits();
    let (exponent, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
    match exponent {
        0 => BigInt::from(fraction),
        _ => BigInt::from(fraction | (1 << 52)) << (exponent - 1),
    }
}

/// One episode, killed as often as `rng` likes; returns the number of kills.
fn play(bench: &Bench, rng: &mut ChaCha8Rng, episode: usize) -> usize {
    let policy = ["dgd", "mw", "ce", "cr-pursuit"][episode % 4];
    let budget: f64 = rng.random_range(15.0..200.0);
    let weights: Vec<f64> = (0..HORIZON).map(|_| rng.random_range(0.0..1.0)).collect();
    let arguments = format!("decide --policy {policy} --budget {budget} --horizon {HORIZON}");
    let reference = bench.stdout(&arguments, &contexts(&weights));
    let reference: Vec<&str> = reference.lines().collect();

    let name = format!("{episode}.jsonl");
    let mut heard: Vec<String> = Vec::new();
    let mut kills = 0;
    loop {
        let resume = bench.path().join(&name).exists();
        // One command starts and goes on.
        let arguments = format!("{arguments} --journal {name}");
        let mut stream = Stream::start(bench.path(), &arguments);
        let is_killed = rng.random_bool(0.85);
        let lines_to_hear = rng.random_range(0..=5);
        let pause = Duration::from_micros(rng.random_range(0..3000));

        let mut fed = false;
        let mut new_lines = 0;
        let mut replayed = 0;
        if !resume {
            stream.say(&contexts(&weights));
            fed = true;
        }
        loop {
            if is_killed && fed && new_lines >= lines_to_hear {
                std::thread::sleep(pause);
                drop(stream);
                kills += 1;
                break;
            }
            if fed && heard.len() == HORIZON {
                assert!(stream.finish());
                check(&heard, budget);
                return kills;
            }
            let line = stream.hear().expect("the stream goes on");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if let Some(step) = answer.get("resumed_at") {
                assert_eq!(step, replayed, "resumed after what was replayed");
                // Nothing that was heard is lost.
                assert!(
                    heard.len() <= replayed,
                    "{} heard, {replayed} replayed",
                    heard.len()
                );
                heard = reference[..replayed]
                    .iter()
                    .map(|line| (*line).to_owned())
                    .collect();
                stream.say(&contexts(&weights[replayed..]));
                fed = true;
            } else if answer.get("replayed").is_some() {
                let original = line.replace(",\"replayed\":true}", "}");
                assert_eq!(original, reference[replayed]);
                replayed += 1;
            } else {
                assert_eq!(line, reference[heard.len()]);
                heard.push(line);
                new_lines += 1;
            }
        }
    }
}

/// The exact sum of all actions is within the budget. (The usage of weighted fairness is its action.)
fn check(heard: &[String], budget: f64) {
    let mut sum = BigInt::ZERO;
    for (step, line) in heard.iter().enumerate() {
        let answer: Value = serde_json::from_str(line).unwrap();
        assert_eq!(answer["step"], step);
        sum += exact(answer["action"][0].as_f64().unwrap());
    }
    assert!(sum <= exact(budget), "more than {budget} was spent");
}

#[test]
fn two_hundred_kills_lose_nothing_and_never_overspend() {
    let bench = Bench::new();
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let mut kills = 0;
    let mut episode = 0;
    while kills < KILLS {
        kills += play(&bench, &mut rng, episode);
        episode += 1;
    }
}
