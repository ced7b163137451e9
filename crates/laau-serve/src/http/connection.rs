//! A connection that does not wait for ever: neither for the first bytes of a client, nor for one that takes nothing.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Bytes after which HTTP/1 and HTTP/2 are told apart: from there on hyper has a clock of its own.
const PREFACE: usize = 24;

/// A connection with two clocks.
pub(super) struct Timed<T> {
    inner: T,
    /// Runs until the first bytes are there.
    first: Option<Pin<Box<Sleep>>>,
    read: usize,
    /// Runs while the client takes nothing of what is written.
    stalled: Pin<Box<Sleep>>,
    is_stalled: bool,
    write_time: Duration,
}

impl<T> Timed<T> {
    pub(super) fn new(inner: T, first_time: Duration, write_time: Duration) -> Self {
        Self {
            inner,
            first: Some(Box::pin(tokio::time::sleep(first_time))),
            read: 0,
            stalled: Box::pin(tokio::time::sleep(write_time)),
            is_stalled: false,
            write_time,
        }
    }

    /// Watches the outcome of a write: one that waits too long is an error.
    fn watch<R>(&mut self, cx: &mut Context<'_>, outcome: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if outcome.is_ready() {
            self.is_stalled = false;
            return outcome;
        }
        if !self.is_stalled {
            self.is_stalled = true;
            self.stalled.as_mut().reset(Instant::now() + self.write_time);
        }
        match self.stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(too_slow("the client takes nothing"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn too_slow(words: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, words)
}

impl<T: AsyncRead + Unpin> AsyncRead for Timed<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if let Some(first) = &mut self.first {
            match outcome {
                Poll::Pending => {
                    if first.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Err(too_slow("the client sends nothing")));
                    }
                }
                Poll::Ready(_) => {
                    self.read += buffer.filled().len() - before;
                    if self.read >= PREFACE {
                        self.first = None;
                    }
                }
            }
        }
        outcome
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Timed<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.watch(cx, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.watch(cx, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_flush(cx);
        self.watch(cx, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.watch(cx, outcome)
    }
}
