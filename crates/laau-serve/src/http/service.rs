//! What every request shares.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use super::access::Access;
use super::body::Taking;
use super::problem::Refusal;
use super::rate::Rates;
use crate::authority::Authority;
use crate::error::Error;
use crate::keys::{Freshness, Keyring};
use crate::metrics::Metrics;

/// Limits and times of the HTTP face.
///
/// | setting | default | limits |
/// |---|---|---|
/// | `access` | keys | who may ask |
/// | `body` | 1 MiB | the bytes of a request's body |
/// | `connections` | 4,096 | open at a time; more wait to be accepted |
/// | `streams` | 256 | event streams at a time; more get 503 |
/// | `rate` | none | requests of a key in a second; more get 429 |
/// | `header_time` | 30 s | until the head of a request, or the handshake of TLS, is there; also how long a connection may idle |
/// | `body_time` | 20 s | until the body is there; then 408 |
/// | `answer_time` | 30 s | until the authority has answered; then 503 |
/// | `write_time` | 20 s | without a byte taken by the client; then the connection ends |
/// | `heartbeat` | 10 s | between two signs of life on an event stream |
/// | `grace` | 20 s | for requests under way when the service ends |
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the table above has them")]
pub struct HttpOptions {
    pub access: Access,
    pub body: usize,
    pub connections: usize,
    pub streams: usize,
    pub rate: Option<u32>,
    pub header_time: Duration,
    pub body_time: Duration,
    pub answer_time: Duration,
    pub write_time: Duration,
    pub heartbeat: Duration,
    pub grace: Duration,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            access: Access::Keys,
            body: 1 << 20,
            connections: 4096,
            streams: 256,
            rate: None,
            header_time: Duration::from_secs(30),
            body_time: Duration::from_secs(20),
            answer_time: Duration::from_secs(30),
            write_time: Duration::from_secs(20),
            heartbeat: Duration::from_secs(10),
            grace: Duration::from_secs(20),
        }
    }
}

/// What handlers work with.
pub(crate) struct Service {
    pub(super) authority: Authority,
    pub(super) keyring: Keyring,
    pub(super) options: HttpOptions,
    pub(super) rates: Rates,
    pub(super) metrics: Arc<Metrics>,
    pub(super) streams: Arc<Semaphore>,
    /// Turns true when the service ends: streams end with it.
    pub(super) ending: watch::Receiver<bool>,
}

impl Service {
    pub(super) fn new(
        authority: Authority,
        options: HttpOptions,
        metrics: Arc<Metrics>,
        ending: watch::Receiver<bool>,
    ) -> Self {
        Self {
            keyring: Keyring::new(authority.clone(), Freshness::default()),
            authority,
            rates: Rates::new(options.rate),
            streams: Arc::new(Semaphore::new(options.streams)),
            metrics,
            ending,
            options,
        }
    }

    pub(super) fn taking(&self) -> Taking {
        Taking {
            most: self.options.body,
            within: self.options.body_time,
        }
    }

    /// Waits for the authority, but not for ever.
    pub(super) async fn wait<T>(&self, answer: impl Future<Output = Result<T, Error>>) -> Result<T, Refusal> {
        let within = self.options.answer_time;
        let _waiting = self.metrics.waiting();
        match tokio::time::timeout(within, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Refusal::NoAnswer { within }),
        }
    }
}
