//! What is counted and measured, in the text format of Prometheus.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use metrics::{Key, Label, Level, Metadata, Recorder as _, Unit};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use crate::account::{AccountView, PeriodView};
use crate::authority::Answer;

/// Accounts that have gauges of their own, in the order of their names: more would be a burden to who collects them.
const MOST_ACCOUNTS: usize = 1000;

/// Seconds, from what a busy core takes to what nobody waits for.
const SECONDS: [f64; 15] = [
    1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0,
];

/// Requests that share a commit.
const SIZES: [f64; 13] = [
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0,
];

const METADATA: Metadata<'static> = Metadata::new("laau_serve", Level::INFO, None);

/// Counters and histograms of one service.
pub struct Metrics {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    commits: metrics::Histogram,
    batches: metrics::Histogram,
    failed_commits: metrics::Counter,
    queue: metrics::Gauge,
    /// What is counted by its labels, found without making them anew: by change, and by route.
    changes: Known<Changes>,
    routes: Known<Route>,
}

/// Counters by a label. There are few, and they stay.
type Known<T> = RwLock<HashMap<String, Arc<T>>>;

/// The counters of a kind of change.
struct Changes {
    seconds: metrics::Histogram,
    first: metrics::Counter,
    repeated: metrics::Counter,
}

/// The counters of a route.
struct Route {
    seconds: metrics::Histogram,
    /// The answers 200, which most are.
    good: metrics::Counter,
}

/// What is known under a label, made if it is not.
fn known<T>(all: &Known<T>, label: &str, make: impl FnOnce() -> T) -> Arc<T> {
    let found = all
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(label)
        .cloned();
    found.unwrap_or_else(|| {
        let mut all = all.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(label.to_owned()).or_insert_with(|| Arc::new(make())))
    })
}

impl Default for Metrics {
    fn default() -> Self {
        let builder = PrometheusBuilder::new();
        // The only error is an empty list of buckets.
        let builder = match builder
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)
            .and_then(|builder| builder.set_buckets_for_metric(Matcher::Suffix("_size".to_owned()), &SIZES))
        {
            Ok(builder) => builder,
            Err(_) => PrometheusBuilder::new(),
        };
        let recorder = builder.build_recorder();
        for (name, unit, words) in [
            (
                "laau_change_seconds",
                Some(Unit::Seconds),
                "From a change's request to its durable answer",
            ),
            (
                "laau_request_seconds",
                Some(Unit::Seconds),
                "From a request to its answer, by route",
            ),
            (
                "laau_store_commit_seconds",
                Some(Unit::Seconds),
                "What one commit of the store takes",
            ),
            ("laau_batch_size", None, "Changes that share a commit"),
        ] {
            recorder.describe_histogram(name.into(), unit, words.into());
        }
        for (name, words) in [
            (
                "laau_changes_total",
                "Changes that were carried out, by kind; repeated says that the answer was a stored one",
            ),
            (
                "laau_refusals_total",
                "Requests that were refused, by the kind of the problem document",
            ),
            ("laau_requests_total", "Requests, by route and status"),
            ("laau_store_failures_total", "Commits that the store did not take"),
        ] {
            recorder.describe_counter(name.into(), None, words.into());
        }
        recorder.describe_gauge(
            "laau_queue_length".into(),
            None,
            "Requests that wait for the authority".into(),
        );
        let key = Key::from_static_name;
        Self {
            handle: recorder.handle(),
            commits: recorder.register_histogram(&key("laau_store_commit_seconds"), &METADATA),
            batches: recorder.register_histogram(&key("laau_batch_size"), &METADATA),
            failed_commits: recorder.register_counter(&key("laau_store_failures_total"), &METADATA),
            queue: recorder.register_gauge(&key("laau_queue_length"), &METADATA),
            changes: Known::default(),
            routes: Known::default(),
            recorder,
        }
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// A change that was carried out, or refused.
    pub(crate) fn changed(&self, change: &'static str, latency: Duration, answer: Option<&Answer>) {
        let known = known(&self.changes, change, || {
            let change = Label::from_static_parts("change", change);
            let counter = |repeated| {
                let repeated = Label::from_static_parts("repeated", repeated);
                self.counter("laau_changes_total", vec![change.clone(), repeated])
            };
            Changes {
                first: counter("false"),
                repeated: counter("true"),
                seconds: self.histogram("laau_change_seconds", change.clone()),
            }
        });
        match answer {
            Some(Answer { repeated: false, .. }) => known.first.increment(1),
            Some(Answer { repeated: true, .. }) => known.repeated.increment(1),
            None => {}
        }
        known.seconds.record(latency.as_secs_f64());
    }

    /// An answer of any kind. Routes, statuses and kinds are few.
    pub(crate) fn answered(
        &self,
        route: &str,
        status: u16,
        refused: Option<&'static str>,
        latency: Duration,
    ) {
        let counter = |status: u16| {
            let route = Label::new("route", route.to_owned());
            let status = Label::new("status", status.to_string());
            self.counter("laau_requests_total", vec![route, status])
        };
        let known = known(&self.routes, route, || Route {
            seconds: self.histogram("laau_request_seconds", Label::new("route", route.to_owned())),
            good: counter(200),
        });
        match status {
            200 => known.good.increment(1),
            other => counter(other).increment(1),
        }
        if let Some(kind) = refused {
            let kind = Label::from_static_parts("kind", kind);
            self.counter("laau_refusals_total", vec![kind]).increment(1);
        }
        known.seconds.record(latency.as_secs_f64());
    }

    /// A request that waits for the authority, until the guard is dropped.
    pub(crate) fn waiting(&self) -> Waiting<'_> {
        self.queue.increment(1.0);
        Waiting(&self.queue)
    }

    /// A commit of the store: how long it took, and how many changes shared it.
    pub(crate) fn committed(&self, took: Duration, changes: usize, stored: bool) {
        self.commits.record(took.as_secs_f64());
        self.batches.record(changes as f64);
        if !stored {
            self.failed_commits.increment(1);
        }
    }

    fn counter(&self, name: &'static str, labels: Vec<Label>) -> metrics::Counter {
        self.recorder
            .register_counter(&Key::from_parts(name, labels), &METADATA)
    }

    fn histogram(&self, name: &'static str, label: Label) -> metrics::Histogram {
        self.recorder
            .register_histogram(&Key::from_parts(name, vec![label]), &METADATA)
    }

    /// Sorts what was measured into the histograms. Without this from time to time, measurements pile up.
    pub(crate) fn upkeep(&self) {
        self.handle.run_upkeep();
    }

    /// Everything, with the gauges of accounts.
    #[must_use]
    pub fn render(&self, accounts: &[AccountView]) -> String {
        let mut text = self.handle.render();
        gauges(accounts, &mut text);
        text
    }
}

/// A request that waits.
pub(crate) struct Waiting<'a>(&'a metrics::Gauge);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// A gauge of a period: its name, what it says, and its value.
type Gauge<'a, T> = (&'a str, &'a str, &'a dyn Fn(&PeriodView) -> T);

/// The gauges of accounts are written as they are read: an account that is gone leaves none behind.
fn gauges(accounts: &[AccountView], text: &mut String) {
    let _ = write!(
        text,
        "# HELP laau_accounts Accounts that are open or closed\n# TYPE laau_accounts gauge\n"
    );
    for closed in [false, true] {
        let count = accounts.iter().filter(|account| account.closed == closed).count();
        let _ = writeln!(text, "laau_accounts{{closed=\"{closed}\"}} {count}");
    }
    let mut shown: Vec<&AccountView> = accounts.iter().filter(|account| !account.closed).collect();
    shown.sort_by(|one, other| one.spec.name.cmp(&other.spec.name));
    shown.truncate(MOST_ACCOUNTS);
    let periods: Vec<(&str, &PeriodView)> = shown
        .iter()
        .filter_map(|account| Some((account.spec.name.as_str(), account.period.as_ref()?)))
        .collect();
    let share = |part: &[f64], period: &PeriodView| -> Vec<f64> {
        let shares = part.iter().zip(&period.budgets);
        shares
            .map(|(part, budget)| if *budget > 0.0 { part / budget } else { 0.0 })
            .collect()
    };
    let by_budget: [Gauge<'_, Vec<f64>>; 3] = [
        (
            "laau_remaining_share",
            "What remains of a budget, as a share of it",
            &|period| share(&period.remaining, period),
        ),
        (
            "laau_held_share",
            "What is held of a budget and not yet settled, as a share of it",
            &|period| share(&period.held, period),
        ),
        (
            "laau_multiplier",
            "The price of a budget behind the last decision",
            &|period| period.multiplier.clone().unwrap_or_default(),
        ),
    ];
    for (name, words, values) in by_budget {
        let _ = write!(text, "# HELP {name} {words}\n# TYPE {name} gauge\n");
        for (account, period) in &periods {
            for (budget, value) in values(period).iter().enumerate() {
                let _ = writeln!(
                    text,
                    "{name}{{account=\"{account}\",budget=\"{budget}\"}} {value}"
                );
            }
        }
    }
    let by_account: [Gauge<'_, Option<f64>>; 7] = [
        ("laau_period", "The number of the open period", &|period| {
            Some(period.number as f64)
        }),
        ("laau_step", "The next step of the period", &|period| {
            Some(period.step as f64)
        }),
        ("laau_horizon", "The number of steps of the period", &|period| {
            Some(period.horizon as f64)
        }),
        ("laau_open_holds", "Decisions that are not settled", &|period| {
            Some(period.holds as f64)
        }),
        (
            "laau_granted",
            "Decisions past the horizon, in the period",
            &|period| Some(period.granted as f64),
        ),
        (
            "laau_guard_acted",
            "Steps of the period in which the guard changed the action",
            &|period| period.certificate.map(|certificate| certificate.acted as f64),
        ),
        (
            "laau_guard_margin",
            "The least lead over the promised share of the incumbent's gain, in the period",
            &|period| period.certificate.map(|certificate| certificate.margin),
        ),
    ];
    for (name, words, value) in by_account {
        let _ = write!(text, "# HELP {name} {words}\n# TYPE {name} gauge\n");
        for (account, period) in &periods {
            if let Some(value) = value(period) {
                let _ = writeln!(text, "{name}{{account=\"{account}\"}} {value}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happened_is_in_the_text() {
        let metrics = Metrics::default();
        let answer = Answer {
            status: 200,
            body: String::new(),
            repeated: false,
        };
        metrics.changed("decide", Duration::from_millis(2), Some(&answer));
        metrics.answered(
            "/v1/accounts",
            401,
            Some("unauthorized"),
            Duration::from_micros(30),
        );
        metrics.committed(Duration::from_micros(300), 7, true);
        let _waiting = metrics.waiting();
        drop(metrics.waiting());
        let text = metrics.render(&[]);
        for line in [
            "laau_changes_total{change=\"decide\",repeated=\"false\"} 1",
            "laau_refusals_total{kind=\"unauthorized\"} 1",
            "laau_requests_total{route=\"/v1/accounts\",status=\"401\"} 1",
            "laau_change_seconds_bucket{change=\"decide\",le=\"0.0025\"} 1",
            "laau_store_commit_seconds_count 1",
            "laau_batch_size_bucket{le=\"8\"} 1",
            "laau_queue_length 1",
            "laau_accounts{closed=\"false\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
        }
    }
}
