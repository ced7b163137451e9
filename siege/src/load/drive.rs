//! A closed loop: every client sends its next request when it has the answer to the last.

use std::time::{Duration, Instant};

use crate::server::PATIENCE;
use anyhow::{Context as _, ensure};
use tokio::task::JoinSet;

/// A client that is measured.
pub(super) trait Worker: Send + 'static {
    /// One durable decision, from the request to its answer.
    fn once(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// What a run measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measured {
    /// Durable decisions a second.
    pub(crate) rate: f64,
    /// Milliseconds that half of them took at most.
    pub(crate) p50: f64,
    /// Milliseconds that 99 of 100 took at most.
    pub(crate) p99: f64,
}

impl Measured {
    /// From the microseconds of each request and the time they took together.
    pub(super) fn new(mut micros: Vec<u32>, elapsed: Duration) -> anyhow::Result<Self> {
        ensure!(!micros.is_empty(), "nothing was measured");
        micros.sort_unstable();
        let share = |hundredths: usize| f64::from(micros[(micros.len() - 1) * hundredths / 100]) / 1000.0;
        Ok(Self {
            rate: micros.len() as f64 / elapsed.as_secs_f64(),
            p50: share(50),
            p99: share(99),
        })
    }
}

/// Runs the clients on one thread of their own, so that they take no more of the machine than another driver would.
pub(super) fn drive<W: Worker>(
    workers: Vec<W>,
    warm_up: Duration,
    measured: Duration,
) -> anyhow::Result<Measured> {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let patience = warm_up + measured + PATIENCE;
        runtime.block_on(async { tokio::time::timeout(patience, run(workers, warm_up, measured)).await })?
    });
    thread.join().ok().context("the driver panicked")?
}

async fn run<W: Worker>(workers: Vec<W>, warm_up: Duration, measured: Duration) -> anyhow::Result<Measured> {
    let began = Instant::now() + warm_up;
    let ends = began + measured;
    let mut tasks = JoinSet::new();
    for mut worker in workers {
        tasks.spawn(async move {
            let mut micros = Vec::new();
            loop {
                let sent = Instant::now();
                if sent >= ends {
                    return anyhow::Ok(micros);
                }
                worker.once().await?;
                let answered = Instant::now();
                if sent >= began && answered <= ends {
                    let taken = answered.duration_since(sent).as_micros();
                    micros.push(u32::try_from(taken).unwrap_or(u32::MAX));
                }
            }
        });
    }
    let mut micros = Vec::new();
    while let Some(one) = tasks.join_next().await {
        micros.extend(one??);
    }
    Measured::new(micros, measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_from_sorted_times() {
        let measured = Measured::new(
            (1..=1000).rev().map(|micros| micros * 1000).collect(),
            Duration::from_secs(2),
        );
        let measured = measured.unwrap();
        assert_eq!((measured.rate, measured.p50, measured.p99), (500.0, 500.0, 990.0));
    }
}
