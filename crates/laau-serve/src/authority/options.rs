//! How an authority is run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::metrics::Metrics;

/// How an authority is run.
///
/// | field | default | purpose |
/// |---|---|---|
/// | `policies` | none | the folder of policy files and models that settings may name |
/// | `queue` | 8,192 | requests that may wait; more are refused |
/// | `batch` | 4,096 | requests that share one commit, at most |
/// | `gather` | 1 ms | how long a commit waits for clients that were just answered, at most: a quarter of what the last commit took, and only if that was 1 ms or more; a lone client never waits |
/// | `tick` | 250 ms | how often leases are renewed, and periods begun by the clock |
/// | `most_accounts` | 10,000 | accounts that may be made |
/// | `largest` | 4,096 | actions times budgets of an account that is made, at most: while one decides, all others wait |
/// | `runtime` | none | where those who ask wait: answers are handed out there, all of a batch by one task |
/// | `metrics` | none | where commits are measured |
/// | `clock` | the system's | when periods begin, and what is written beside decisions |
#[derive(Debug, Clone)]
pub struct AuthorityOptions {
    /// The folder of policy files and models.
    pub policies: Option<PathBuf>,
    /// Requests that may wait.
    pub queue: usize,
    /// Requests that share one commit, at most.
    pub batch: usize,
    /// How long a commit waits for clients that were just answered, at most.
    pub gather: Duration,
    /// How often leases are renewed and periods begun.
    pub tick: Duration,
    /// Accounts that may be made.
    pub most_accounts: usize,
    /// Actions times budgets of an account that is made, at most.
    pub largest: usize,
    /// Where answers are handed out; by the authority's own thread if nowhere.
    pub runtime: Option<tokio::runtime::Handle>,
    /// Where commits are measured.
    pub metrics: Option<Arc<Metrics>>,
    /// What time it is.
    pub clock: Clock,
}

impl Default for AuthorityOptions {
    fn default() -> Self {
        Self {
            policies: None,
            queue: 8_192,
            batch: 4_096,
            gather: Duration::from_millis(1),
            tick: Duration::from_millis(250),
            most_accounts: 10_000,
            largest: 4_096,
            runtime: None,
            metrics: None,
            clock: Clock::system(),
        }
    }
}
