//! How many requests a key may send in a second.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::problem::Refusal;

/// A bucket per key that fills at a rate, and holds what a second brings.
#[derive(Debug)]
pub(super) struct Rates {
    rate: Option<u32>,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

impl Rates {
    pub(super) fn new(rate: Option<u32>) -> Self {
        Self {
            rate,
            buckets: Mutex::default(),
        }
    }

    /// Takes one request from the bucket of a key; buckets are made for keys that exist, so their number has a limit.
    pub(super) fn take(&self, id: Option<&str>, now: Instant) -> Result<(), Refusal> {
        let Some(rate) = self.rate else {
            return Ok(());
        };
        let full = f64::from(rate);
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let bucket = buckets
            .entry(id.unwrap_or_default().to_owned())
            .or_insert(Bucket {
                tokens: full,
                at: now,
            });
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.tokens = passed.mul_add(full, bucket.tokens).min(full);
        bucket.at = now;
        if bucket.tokens < 1.0 {
            let after = Duration::from_secs_f64((1.0 - bucket.tokens) / full);
            return Err(Refusal::TooFast { rate, after });
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_gets_its_rate_and_no_more_and_takes_nothing_from_others() {
        let rates = Rates::new(Some(10));
        let start = Instant::now();
        let taken = |id: &str, now| (0..100).filter(|_| rates.take(Some(id), now).is_ok()).count();
        assert_eq!(taken("a", start), 10);
        assert_eq!(taken("b", start), 10);
        assert_eq!(taken("a", start + Duration::from_millis(500)), 5);
        assert_eq!(taken("a", start + Duration::from_secs(100)), 10);
        // A clock that stands still or goes back gives nothing.
        assert_eq!(taken("a", start), 0);
    }

    #[test]
    fn without_a_rate_everything_passes() {
        let rates = Rates::new(None);
        let now = Instant::now();
        assert!((0..10_000).all(|_| rates.take(None, now).is_ok()));
    }
}
