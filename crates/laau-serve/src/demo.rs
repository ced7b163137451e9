//! `laau serve --demo`: an account that lives, so that there is something to look at.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use laau::data::synthetic::{ContextProcess, Requests};
use laau::registry::ProblemSpec;

use crate::account::{AccountSpec, GuardSpec, PolicySource};
use crate::answer::Decision;
use crate::authority::{Authority, Change, DecisionRequest};
use crate::error::Error;

/// The account's name.
pub const DEMO_ACCOUNT: &str = "llm-gateway";

/// Steps of a period: a quarter of a minute short of two minutes.
const HORIZON: usize = 400;

/// Between two decisions.
const PACE: Duration = Duration::from_millis(250);

/// Decisions between one and its settlement.
const DELAY: usize = 6;

/// One hold of so many is never settled, as if its program had crashed.
const CRASHES: u64 = 40;

const SEED: u64 = 7;

/// Requests to a language model, second by second, under a quota of tokens and one of spend: certainty equivalence decides, and
/// multiplicative weights guards it.
///
/// # Errors
/// None that a test would not find.
pub fn account() -> Result<AccountSpec, Error> {
    let requests = Requests::default();
    let mean = mean_context(&requests);
    let problem = serde_json::from_value::<ProblemSpec>(serde_json::json!({ "name": "llm-tokens" }));
    let middle = |(least, most): (f64, f64)| HORIZON as f64 * f64::midpoint(least, most);
    Ok(AccountSpec {
        name: DEMO_ACCOUNT.to_owned(),
        problem: Some(problem.map_err(|error| Error::Invalid {
            reason: error.to_string(),
        })?),
        policy: PolicySource::Named {
            name: "ce".to_owned(),
            parameters: BTreeMap::from([("mean-context".to_owned(), mean)]),
        },
        guard: Some(GuardSpec {
            policy: PolicySource::Named {
                name: "mw".to_owned(),
                parameters: BTreeMap::new(),
            },
            level: 0.95,
        }),
        budgets: vec![middle(requests.tokens), middle(requests.spend)],
        horizon: Some(HORIZON),
        period: None,
        rollover: false,
    })
}

fn mean_context(requests: &Requests) -> Vec<f64> {
    const SAMPLE: usize = 5000;
    let len = requests.context_len();
    let contexts = requests.series(SEED, 0, SAMPLE);
    (0..len)
        .map(|at| contexts.iter().skip(at).step_by(len).sum::<f64>() / SAMPLE as f64)
        .collect()
}

/// Decides a few times a second and settles a little later, period after period, until the authority is gone.
pub async fn play(authority: Authority) {
    let mut clock = tokio::time::interval(PACE);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for series in 1.. {
        if let Err(error) = period(&authority, series, &mut clock).await {
            if !matches!(error, Error::Overloaded | Error::Store(_)) {
                tracing::info!(%error, "the demonstration ends");
                return;
            }
            tracing::warn!(%error, "the demonstration goes on in a second");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

async fn period(authority: &Authority, series: u64, clock: &mut tokio::time::Interval) -> Result<(), Error> {
    let requests = Requests::default();
    let contexts = requests.series(SEED, series, HORIZON);
    let mut open: VecDeque<Decision> = VecDeque::new();
    for (step, context) in contexts.chunks(requests.context_len()).enumerate() {
        clock.tick().await;
        let key = |what: &str| format!("demo-{series}-{step}-{what}");
        let request = DecisionRequest {
            context: context.to_vec(),
        };
        let answer = authority.decide(DEMO_ACCOUNT, &key("decide"), request).await?;
        let decision: Decision = serde_json::from_str(&answer.body).map_err(|error| Error::Invalid {
            reason: error.to_string(),
        })?;
        let mixed = mix(series, step as u64);
        if !mixed.is_multiple_of(CRASHES) {
            open.push_back(decision);
        }
        if open.len() > DELAY
            && let Some(decision) = open.pop_front()
        {
            // From half of what was held to all of it.
            let share = 0.5 + 0.5 * ((mixed >> 32) as f64 / f64::from(u32::MAX));
            let usage = decision.held.iter().map(|held| held * share).collect();
            let decision = decision.decision.to_string();
            let change = Change::Settle { decision, usage };
            authority.change(DEMO_ACCOUNT, &key("settle"), change).await?;
        }
    }
    let key = format!("demo-{series}-open");
    authority.change(DEMO_ACCOUNT, &key, Change::Open).await.map(drop)
}

/// Numbers without a pattern, the same in every run.
fn mix(series: u64, step: u64) -> u64 {
    let mut mixed = (series << 32 | step).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 27
}
