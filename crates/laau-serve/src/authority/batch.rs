//! What arrives together: it is written at once, and answered afterwards.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::{Answer, Notice, Reply};
use crate::account::PeriodView;
use crate::entry::{Entry, Event, KeyedRequest};
use crate::error::Error;
use crate::store::{Batch, StoreError, Write};

/// Answers one request, once it is known whether the batch was written.
type Waiting = Box<dyn FnOnce(Result<(), &StoreError>) + Send>;

/// What a batch will write, and what will be told of it.
pub(super) struct Staged {
    pub(super) batch: Batch,
    /// The keys of the batch under way: account and key → the request with its answer.
    keys: HashMap<(String, String), KeyedRequest>,
    /// Keys that the store was asked for before the batch: what it has under them.
    stored: HashMap<(String, String), Option<KeyedRequest>>,
    /// How many periods of an account begin in the batch under way.
    begun: HashMap<String, u64>,
    pub(super) notices: Vec<Arc<Notice>>,
    /// Accounts to be rebuilt afterwards, because memory is not what their logs say.
    pub(super) faulty: Vec<String>,
    /// Whether anybody listens.
    heard: bool,
    replies: Vec<Waiting>,
}

impl Staged {
    pub(super) fn new(heard: bool) -> Self {
        Self {
            batch: Batch::default(),
            keys: HashMap::new(),
            stored: HashMap::new(),
            begun: HashMap::new(),
            notices: Vec::new(),
            faulty: Vec::new(),
            heard,
            replies: Vec::new(),
        }
    }

    /// Adds a change of an account.
    pub(super) fn write(&mut self, account: &str, epoch: u64, write: Write) {
        if !self.batch.epochs.contains_key(account) {
            self.batch.epochs.insert(account.to_owned(), epoch);
        }
        self.batch.writes.push(write);
    }

    /// Adds a line to the log of an account.
    pub(super) fn append(
        &mut self,
        account: &str,
        epoch: u64,
        entry: Entry,
        view: impl FnOnce() -> PeriodView,
    ) {
        if let Event::Opened { .. } = entry.event {
            *self.begun.entry(account.to_owned()).or_default() += 1;
        }
        if let Some(request) = &entry.request {
            let key = (account.to_owned(), request.key.clone());
            self.keys.insert(key, request.clone());
        }
        if self.heard {
            self.notices.push(Arc::new(Notice {
                account: account.to_owned(),
                entry: entry.clone(),
                period: view(),
            }));
        }
        let account_name = account.to_owned();
        self.write(
            account,
            epoch,
            Write::Append {
                account: account_name,
                entry,
            },
        );
    }

    /// The request of a key in the batch under way.
    pub(super) fn by_key(&self, account: &str, key: &str) -> Option<&KeyedRequest> {
        if self.keys.is_empty() {
            return None;
        }
        self.keys.get(&(account.to_owned(), key.to_owned()))
    }

    /// The periods in which the store may have a key, of an account whose open period is given: what begins and what is forgotten
    /// in the batch under way has not been written, so that all of a batch is looked up alike.
    pub(super) fn periods(&self, account: &str, open: u64) -> RangeInclusive<u64> {
        let begun = self.begun.get(account).copied().unwrap_or(0);
        let open = open.saturating_sub(begun);
        open.saturating_sub(1)..=open
    }

    /// Remembers what the store has under a key.
    pub(super) fn looked_up(&mut self, account: &str, key: &str, request: Option<KeyedRequest>) {
        self.stored.insert((account.to_owned(), key.to_owned()), request);
    }

    /// What the store has under a key; it is asked if it was not before.
    pub(super) fn stored(
        &self,
        account: &str,
        key: &str,
        ask: impl FnOnce() -> Result<Option<Entry>, StoreError>,
    ) -> Result<Option<KeyedRequest>, StoreError> {
        if !self.stored.is_empty()
            && let Some(known) = self.stored.get(&(account.to_owned(), key.to_owned()))
        {
            return Ok(known.clone());
        }
        Ok(ask()?.and_then(|entry| entry.request))
    }

    /// The number of lines that it adds to logs.
    pub(super) fn changes(&self) -> usize {
        let lines = self.batch.writes.iter();
        lines
            .filter(|write| matches!(write, Write::Append { .. }))
            .count()
    }

    /// Keeps an answer until the batch is durable: it may rest on what others in the batch did.
    pub(super) fn reply<T: Send + 'static>(&mut self, reply: Reply<T>, answer: Result<T, Error>) {
        self.replies.push(Box::new(move |committed| {
            let answer = match committed {
                Ok(()) => answer,
                Err(error) => Err(Error::Store(error.clone())),
            };
            // Whoever asked may have gone.
            let _ = reply.send(answer);
        }));
    }

    /// Answers everybody, as a task of a runtime if one is given: whoever waits there is woken without a way between threads for each.
    pub(super) fn answer(self, committed: Result<(), StoreError>, within: Option<&Handle>) {
        let replies = self.replies;
        let all = move || {
            for reply in replies {
                reply(committed.as_ref().copied());
            }
        };
        match within {
            Some(runtime) => drop(runtime.spawn(async move { all() })),
            None => all(),
        }
    }
}

impl Answer {
    /// The first answer to a request.
    pub(super) fn of(request: &KeyedRequest) -> Self {
        Self {
            status: request.status,
            body: request.answer.clone(),
            repeated: false,
        }
    }

    /// The answer to a request whose key is known: the same once more, if it is the same request.
    pub(super) fn again(request: &KeyedRequest, digest: &str) -> Result<Self, Error> {
        if request.digest != digest {
            return Err(Error::KeyReused);
        }
        Ok(Self {
            repeated: true,
            ..Self::of(request)
        })
    }
}
