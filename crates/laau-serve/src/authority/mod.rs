//! The authority: one thread that owns every account and commits what arrives together at once.

mod batch;
mod folder;
mod live;
mod load;
mod options;
mod queue;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use tokio::sync::{broadcast, oneshot};
use utoipa::ToSchema;

use crate::account::{AccountSpec, AccountView};
use crate::entry::{ApiKey, DecisionId, Entry};
use crate::error::Error;
use crate::store::{Store, StoreError};

use self::queue::{Refused, Sender, queue};

pub use self::options::AuthorityOptions;

/// Notices that a slow subscriber may be behind by.
const NOTICES: usize = 4096;

/// The body of a request to decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DecisionRequest {
    /// The context of the step.
    pub context: Vec<f64>,
}

/// The body of a settlement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Settlement {
    /// The usage that really happened, of each budget: at most what was held.
    pub usage: Vec<f64>,
}

/// The answer to a request that changed something: the same bytes for every repetition of its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The JSON body.
    pub body: String,
    /// Whether it was given before.
    pub repeated: bool,
}

/// What an account is asked to change, under an idempotency key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Change {
    /// To begin the next period.
    Open,
    /// To decide a step.
    Decide(DecisionRequest),
    /// To settle a decision.
    Settle {
        /// The decision, as text.
        decision: String,
        /// The usage.
        usage: Vec<f64>,
    },
    /// To return the whole hold of a decision.
    Release {
        /// The decision, as text.
        decision: String,
    },
    /// To let steps pass.
    Skip {
        /// How many.
        steps: usize,
    },
}

/// What the thread is asked. Every request has a place for its answer.
pub(crate) enum Command {
    /// Changes an account.
    Change {
        account: String,
        key: String,
        change: Change,
        reply: Reply<Answer>,
    },
    /// Makes an account; the same settings once more are no error.
    Create {
        spec: AccountSpec,
        reply: Reply<AccountView>,
    },
    /// Closes an account for good.
    Close {
        account: String,
        reply: Reply<AccountView>,
    },
    /// Every account, or the one of a name if it exists.
    Accounts {
        only: Option<String>,
        reply: Reply<Vec<AccountView>>,
    },
    /// One account.
    Account {
        account: String,
        reply: Reply<AccountView>,
    },
    /// The log of a period.
    Entries {
        account: String,
        period: u64,
        from: u64,
        most: usize,
        reply: Reply<Vec<Entry>>,
    },
    /// All API keys.
    Keys { reply: Reply<Vec<ApiKey>> },
    /// Stores an API key.
    AddKey { key: ApiKey, reply: Reply<()> },
    /// Revokes an API key.
    RevokeKey { id: String, reply: Reply<bool> },
    /// Looks whether it is time to stop.
    Wake,
}

pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// What subscribers hear of, after it is durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Notice {
    /// The account.
    pub account: String,
    /// The entry.
    pub entry: Entry,
    /// The account after it.
    pub period: crate::account::PeriodView,
}

/// The way to the authority's thread: cheap to clone, from any thread.
#[derive(Clone)]
pub struct Authority {
    commands: Sender<Command>,
    notices: broadcast::Sender<Arc<Notice>>,
}

/// The thread of an authority. It ends by [`Running::stop`], or when neither this nor any [`Authority`] is left.
pub struct Running {
    stopping: Arc<AtomicBool>,
    commands: Sender<Command>,
    thread: JoinHandle<()>,
}

impl Running {
    /// Stops: what waits is still carried out and answered, leases are given up, and the store is closed.
    ///
    /// # Errors
    /// [`Error::Store`] when the thread had ended before, by a fault.
    pub fn stop(self) -> Result<(), Error> {
        self.stopping.store(true, Ordering::Release);
        // A full queue wakes it as well.
        let _ = self.commands.send(Command::Wake);
        self.thread.join().map_err(|_| {
            Error::Store(StoreError::Unavailable {
                reason: "the authority's thread had panicked".to_owned(),
            })
        })
    }
}

impl Authority {
    /// Starts the thread that owns a store.
    ///
    /// # Errors
    /// [`Error::Store`] when the store does not answer.
    pub fn start(mut store: Box<dyn Store>, options: AuthorityOptions) -> Result<(Self, Running), Error> {
        store.accounts()?;
        let (commands, waiting) = queue(options.queue);
        let (notices, _) = broadcast::channel(NOTICES);
        let stopping = Arc::new(AtomicBool::new(false));
        let worker = {
            let (notices, stopping) = (notices.clone(), Arc::clone(&stopping));
            move || worker::Worker::new(store, options, notices).run(&waiting, &stopping)
        };
        let thread = std::thread::Builder::new()
            .name("authority".to_owned())
            .spawn(worker)
            .map_err(|error| StoreError::Unavailable {
                reason: error.to_string(),
            })?;
        let running = Running {
            stopping,
            commands: commands.clone(),
            thread,
        };
        Ok((Self { commands, notices }, running))
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).map_err(|error| match error {
            Refused::Full => Error::Overloaded,
            Refused::Closed => Error::ShuttingDown,
        })?;
        answer.await.map_err(|_| Error::ShuttingDown)?
    }

    /// Changes an account under an idempotency key. The answer is durable.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn change(&self, account: &str, key: &str, change: Change) -> Result<Answer, Error> {
        self.ask(|reply| Command::Change {
            account: account.to_owned(),
            key: key.to_owned(),
            change,
            reply,
        })
        .await
    }

    /// Decides a step.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn decide(&self, account: &str, key: &str, request: DecisionRequest) -> Result<Answer, Error> {
        self.change(account, key, Change::Decide(request)).await
    }

    /// Settles a decision.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn settle(
        &self,
        account: &str,
        key: &str,
        decision: DecisionId,
        settlement: Settlement,
    ) -> Result<Answer, Error> {
        let change = Change::Settle {
            decision: decision.to_string(),
            usage: settlement.usage,
        };
        self.change(account, key, change).await
    }

    /// Makes an account.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create(&self, spec: AccountSpec) -> Result<AccountView, Error> {
        self.ask(|reply| Command::Create { spec, reply }).await
    }

    /// Closes an account for good.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn close(&self, account: &str) -> Result<AccountView, Error> {
        let account = account.to_owned();
        self.ask(|reply| Command::Close { account, reply }).await
    }

    /// Every account. An account that this node does not own is not claimed, and shown without its period.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn accounts(&self) -> Result<Vec<AccountView>, Error> {
        self.ask(|reply| Command::Accounts { only: None, reply }).await
    }

    /// An account as [`Authority::accounts`] shows it, if it exists.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn listed(&self, account: &str) -> Result<Option<AccountView>, Error> {
        let only = Some(account.to_owned());
        let views = self.ask(|reply| Command::Accounts { only, reply }).await?;
        Ok(views.into_iter().next())
    }

    /// One account, which this node claims if nobody has it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn account(&self, account: &str) -> Result<AccountView, Error> {
        let account = account.to_owned();
        self.ask(|reply| Command::Account { account, reply }).await
    }

    /// The log of a period, from a number on.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn entries(
        &self,
        account: &str,
        period: u64,
        from: u64,
        most: usize,
    ) -> Result<Vec<Entry>, Error> {
        let account = account.to_owned();
        self.ask(|reply| Command::Entries {
            account,
            period,
            from,
            most,
            reply,
        })
        .await
    }

    /// All API keys.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn keys(&self) -> Result<Vec<ApiKey>, Error> {
        self.ask(|reply| Command::Keys { reply }).await
    }

    /// Stores an API key.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn add_key(&self, key: ApiKey) -> Result<(), Error> {
        self.ask(|reply| Command::AddKey { key, reply }).await
    }

    /// Revokes an API key; says whether there was one.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn revoke_key(&self, id: &str) -> Result<bool, Error> {
        let id = id.to_owned();
        self.ask(|reply| Command::RevokeKey { id, reply }).await
    }

    /// Everything that becomes durable from now on. A slow reader misses the oldest.
    #[must_use]
    pub fn subscribe(&self) -> broadcast::Receiver<Arc<Notice>> {
        self.notices.subscribe()
    }
}
