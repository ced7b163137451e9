//! The way into the authority's thread: many senders, one receiver that takes all that waits at once.
//!
//! A channel of the standard library wakes its receiver for every message. This one wakes it when as many wait as it asked for:
//! the thread sleeps while the requests that will share a commit arrive, and the processor is theirs.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Why something was not put into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Too much waits already.
    Full,
    /// Nobody takes anything out any more.
    Closed,
}

/// A queue that holds so many.
pub(super) fn queue<T>(most: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            waiting: Vec::new(),
            wanted: usize::MAX,
            senders: 1,
            closed: false,
        }),
        arrived: Condvar::new(),
        most,
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

struct Shared<T> {
    state: Mutex<State<T>>,
    arrived: Condvar,
    most: usize,
}

struct State<T> {
    waiting: Vec<T>,
    /// The receiver sleeps until so many wait.
    wanted: usize,
    senders: usize,
    closed: bool,
}

impl<T> Shared<T> {
    /// Nothing that is done under the lock can panic half-way.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) struct Sender<T>(Arc<Shared<T>>);

impl<T> Sender<T> {
    /// Puts something at the end.
    pub(super) fn send(&self, one: T) -> Result<(), Refused> {
        let mut state = self.0.lock();
        if state.closed {
            return Err(Refused::Closed);
        }
        if state.waiting.len() >= self.0.most {
            return Err(Refused::Full);
        }
        state.waiting.push(one);
        let wake = state.waiting.len() >= state.wanted;
        if wake {
            // Once: it takes all that is there when it runs.
            state.wanted = usize::MAX;
        }
        drop(state);
        if wake {
            self.0.arrived.notify_one();
        }
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.senders -= 1;
        let last = state.senders == 0;
        drop(state);
        if last {
            self.0.arrived.notify_one();
        }
    }
}

pub(super) struct Receiver<T>(Arc<Shared<T>>);

impl<T> Receiver<T> {
    /// Waits until so many are there, or all senders have gone, or the time has come; says how many there are.
    pub(super) fn wait(&self, wanted: usize, until: Instant) -> usize {
        let mut state = self.0.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if state.waiting.len() >= wanted || state.senders == 0 || left.is_zero() {
                state.wanted = usize::MAX;
                return state.waiting.len();
            }
            state.wanted = wanted;
            let waited = self.0.arrived.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// How many wait now.
    pub(super) fn waiting(&self) -> usize {
        self.0.lock().waiting.len()
    }

    /// Takes the first ones, at most so many.
    pub(super) fn take(&self, most: usize) -> Vec<T> {
        let mut state = self.0.lock();
        if state.waiting.len() <= most {
            let room = Vec::with_capacity(state.waiting.len());
            return std::mem::replace(&mut state.waiting, room);
        }
        let rest = state.waiting.split_off(most);
        std::mem::replace(&mut state.waiting, rest)
    }

    /// Whether nothing waits and nothing more can come.
    pub(super) fn is_over(&self) -> bool {
        let state = self.0.lock();
        state.senders == 0 && state.waiting.is_empty()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.closed = true;
        let left = std::mem::take(&mut state.waiting);
        drop(state);
        // Whoever waits for an answer learns that there is none; not under the lock, since that is code of others.
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(1)
    }

    fn late() -> Instant {
        Instant::now() + Duration::from_mins(1)
    }

    #[test]
    fn what_was_sent_is_taken_in_its_order_and_at_most_as_much_as_asked_for() {
        let (sender, receiver) = queue(5);
        for number in 0..5 {
            assert_eq!(sender.send(number), Ok(()));
        }
        assert_eq!(sender.send(5), Err(Refused::Full));
        assert_eq!(receiver.wait(1, late()), 5);
        assert_eq!(receiver.take(3), [0, 1, 2]);
        assert_eq!(receiver.take(3), [3, 4]);
        assert_eq!(receiver.take(3), [0; 0]);
        assert_eq!(sender.send(6), Ok(()));
    }

    #[test]
    fn the_receiver_wakes_for_as_many_as_it_wants_for_the_end_and_in_time() {
        let (sender, receiver) = queue(10);
        assert_eq!(receiver.wait(1, soon()), 0);
        let other = sender.clone();
        let sending = std::thread::spawn(move || {
            for number in 0..3 {
                other.send(number).unwrap();
            }
        });
        assert_eq!(receiver.wait(3, late()), 3);
        sending.join().unwrap();
        assert_eq!(receiver.wait(4, soon()), 3);
        let ending = std::thread::spawn(move || drop(sender));
        assert_eq!(receiver.wait(4, late()), 3);
        ending.join().unwrap();
        assert!(!receiver.is_over());
        assert_eq!(receiver.take(10).len(), 3);
        assert!(receiver.is_over());
    }

    #[test]
    fn after_the_receiver_nothing_is_taken_and_what_waited_is_dropped() {
        let (sender, receiver) = queue(10);
        let held = Arc::new(());
        sender.send(Arc::clone(&held)).unwrap();
        drop(receiver);
        assert_eq!(Arc::strong_count(&held), 1);
        assert_eq!(sender.send(Arc::clone(&held)), Err(Refused::Closed));
    }
}
