//! The connection to PostgreSQL: made again by itself, and never waited for without end.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, NoTls, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::schema::{self, Found};
use super::tls;
use crate::store::StoreError;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a server that does not answer is left alone.
const REST: Duration = Duration::from_millis(500);

/// What every session says first: statements that nobody waits for any more end by themselves, what is acknowledged is
/// durable whatever the server's default, and each statement sees what was committed before it.
const SETTINGS: &str = "SET statement_timeout = '8s';
    SET lock_timeout = '6s';
    SET idle_in_transaction_session_timeout = '10s';
    SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// A server, and the connection to it if there is one.
pub(super) struct Server {
    runtime: Runtime,
    config: Config,
    tls: Option<MakeRustlsConnect>,
    link: Link,
}

enum Link {
    Up(Box<Session>),
    /// Since when it did not answer, if it did not let us in; a connection that broke is made anew at once.
    Down {
        reason: String,
        since: Option<Instant>,
    },
}

/// A connection with its prepared statements.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) accounts: Statement,
    pub(super) account: Statement,
    pub(super) file: Statement,
    pub(super) entries: Statement,
    pub(super) by_keys: Statement,
    pub(super) keys: Statement,
    pub(super) claim: Statement,
    pub(super) owner: Statement,
    pub(super) renew: Statement,
    pub(super) release: Statement,
    pub(super) commit: Statement,
}

impl Server {
    /// Connects for the first time.
    pub(super) fn connect(url: &str) -> Result<Self, StoreError> {
        let (url, tls) = tls::split(url).map_err(|reason| StoreError::Unavailable { reason })?;
        let mut config: Config = url.parse().map_err(|error| StoreError::Unavailable {
            reason: format!(
                "expected a URL as postgres://user@host/database: {}",
                words(&error)
            ),
        })?;
        config
            .ssl_mode(match tls {
                Some(_) => SslMode::Require,
                None => SslMode::Disable,
            })
            .connect_timeout(Duration::from_secs(5))
            .tcp_user_timeout(PATIENCE)
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3);
        if config.get_application_name().is_none() {
            config.application_name("laau serve");
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StoreError::Unavailable {
                reason: error.to_string(),
            })?;
        let session = open(&runtime, &config, tls.as_ref())?;
        Ok(Self {
            runtime,
            config,
            tls,
            link: Link::Up(session),
        })
    }

    /// Asks the server something. After [`StoreError::Unavailable`] it may have happened or may still happen; after any other
    /// error it has not.
    pub(super) fn ask<T>(
        &mut self,
        question: impl AsyncFnOnce(&Session) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        self.connect_again()?;
        let session = match &self.link {
            Link::Up(session) => session,
            Link::Down { reason, .. } => {
                return Err(StoreError::Unavailable {
                    reason: reason.clone(),
                });
            }
        };
        let answer = self
            .runtime
            .block_on(async { tokio::time::timeout(PATIENCE, question(session)).await });
        let error = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => refusal(&error),
            Err(_) => StoreError::Unavailable {
                reason: format!("no answer within {} s", PATIENCE.as_secs()),
            },
        };
        // A session that failed is not asked again: what it still does is not known.
        if let StoreError::Unavailable { reason } = &error {
            self.link = Link::Down {
                reason: reason.clone(),
                since: None,
            };
        }
        Err(error)
    }

    /// Connects anew if the connection is gone.
    fn connect_again(&mut self) -> Result<(), StoreError> {
        match &self.link {
            Link::Up(session) => {
                // Lets the connection hear what the server said meanwhile, a farewell perhaps.
                self.runtime.block_on(async {
                    for _ in 0..3 {
                        tokio::task::yield_now().await;
                    }
                });
                if !session.client.is_closed() {
                    return Ok(());
                }
            }
            Link::Down {
                since: Some(since), ..
            } if since.elapsed() < REST => return Ok(()),
            Link::Down { .. } => {}
        }
        match open(&self.runtime, &self.config, self.tls.as_ref()) {
            Ok(session) => {
                self.link = Link::Up(session);
                Ok(())
            }
            Err(error) => {
                self.link = Link::Down {
                    reason: error.to_string(),
                    since: Some(Instant::now()),
                };
                Err(error)
            }
        }
    }
}

fn open(
    runtime: &Runtime,
    config: &Config,
    tls: Option<&MakeRustlsConnect>,
) -> Result<Box<Session>, StoreError> {
    let opened = runtime.block_on(async { tokio::time::timeout(PATIENCE, begin(config, tls)).await });
    match opened {
        Ok(Ok(Ok(session))) => Ok(session),
        Ok(Ok(Err(found))) => Err(StoreError::Version {
            expected: schema::FORMAT,
            found,
        }),
        Ok(Err(error)) => Err(refusal(&error)),
        Err(_) => Err(StoreError::Unavailable {
            reason: format!("no connection within {} s", PATIENCE.as_secs()),
        }),
    }
}

/// Lets a connection run until it ends.
fn keep(connection: impl Future<Output = Result<(), Error>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::warn!(error = words(&error), "the connection to PostgreSQL ended");
        }
    });
}

/// A session, or what is in the database instead of our tables.
async fn begin(
    config: &Config,
    tls: Option<&MakeRustlsConnect>,
) -> Result<Result<Box<Session>, String>, Error> {
    let mut client = if let Some(tls) = tls {
        let (client, connection) = config.connect(tls.clone()).await?;
        keep(connection);
        client
    } else {
        let (client, connection) = config.connect(NoTls).await?;
        keep(connection);
        client
    };
    client.batch_execute(SETTINGS).await?;
    if let Found::Other(found) = schema::migrate(&mut client).await? {
        return Ok(Err(found));
    }
    let session = Session {
        accounts: client
            .prepare("SELECT name FROM laau_serve.account ORDER BY name")
            .await?,
        account: client
            .prepare("SELECT body FROM laau_serve.account WHERE name = $1")
            .await?,
        file: client
            .prepare("SELECT body FROM laau_serve.file WHERE digest = $1")
            .await?,
        entries: client.prepare(ENTRIES).await?,
        by_keys: client.prepare(BY_KEYS).await?,
        keys: client
            .prepare("SELECT id, body FROM laau_serve.api_key ORDER BY id")
            .await?,
        claim: client.prepare(CLAIM).await?,
        owner: client
            .prepare("SELECT address FROM laau_serve.lease WHERE account = $1")
            .await?,
        renew: client.prepare(RENEW).await?,
        release: client.prepare(RELEASE).await?,
        commit: client
            .prepare("SELECT laau_serve.commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)")
            .await?,
        client,
    };
    Ok(Ok(Box::new(session)))
}

const ENTRIES: &str = "SELECT number, body FROM laau_serve.entry
    WHERE account = $1 AND period = $2 AND number >= $3
        AND period >= coalesce((SELECT before FROM laau_serve.forgotten WHERE account = $1), 0)
    ORDER BY number LIMIT $4";

const BY_KEYS: &str = "SELECT w.place, e.period, e.number, e.body
    FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[])
        WITH ORDINALITY AS w (account, first, last, key, place)
    CROSS JOIN LATERAL (
        SELECT period, number, body FROM laau_serve.entry
        WHERE account = w.account AND key = w.key AND period BETWEEN w.first AND w.last
            AND period >= coalesce((SELECT before FROM laau_serve.forgotten f WHERE f.account = w.account), 0)
        ORDER BY period DESC LIMIT 1) AS e";

// The node that owns an account already gets a new epoch as well: what it may have under way under the old one is void.
const CLAIM: &str = "INSERT INTO laau_serve.lease AS l (account, node, address, epoch, expires)
    VALUES ($1, $2, $3, nextval('laau_serve.epoch'), clock_timestamp() + make_interval(secs => $4))
    ON CONFLICT (account) DO UPDATE SET node = EXCLUDED.node, address = EXCLUDED.address, epoch = EXCLUDED.epoch,
        expires = clock_timestamp() + make_interval(secs => $4)
    WHERE l.node = EXCLUDED.node OR l.expires <= clock_timestamp()
    RETURNING l.epoch";

// Leases are locked in the order in which commits lock them. One that ended long ago is of no use; a row that is locked has an
// owner at work and is passed over.
const RENEW: &str = "WITH locked AS (
        SELECT account, epoch FROM laau_serve.lease WHERE account = ANY ($1::text[]) ORDER BY account FOR UPDATE),
    renewed AS (
        UPDATE laau_serve.lease l SET expires = clock_timestamp() + make_interval(secs => $3)
        FROM unnest($1::text[], $2::bigint[]) AS c (account, epoch) JOIN locked USING (account, epoch)
        WHERE l.account = c.account AND l.epoch = c.epoch
        RETURNING l.account),
    swept AS (
        DELETE FROM laau_serve.lease WHERE account IN (
            SELECT account FROM laau_serve.lease
            WHERE expires < clock_timestamp() - interval '1 hour' AND account <> ALL ($1::text[])
            LIMIT 1000 FOR UPDATE SKIP LOCKED)),
    tidied AS (SELECT laau_serve.tidy($1, 256))
    SELECT account FROM renewed CROSS JOIN tidied";

const RELEASE: &str =
    "DELETE FROM laau_serve.lease l USING unnest($1::text[], $2::bigint[]) AS c (account, epoch)
    WHERE l.account = c.account AND l.epoch = c.epoch";

/// What an error means.
fn refusal(error: &Error) -> StoreError {
    let reason = words(error);
    let Some(db) = error.as_db_error() else {
        return StoreError::Unavailable { reason };
    };
    match db.code() {
        code if code.code() == "LF001" => StoreError::Fenced {
            account: db.message().to_owned(),
        },
        code if *code == SqlState::UNIQUE_VIOLATION => StoreError::Fenced {
            account: db.detail().and_then(first_value).unwrap_or_default().to_owned(),
        },
        code if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) => {
            StoreError::Damaged { reason }
        }
        _ => StoreError::Unavailable { reason },
    }
}

/// The first value in `Key (account, period, number)=(a, 0, 7) already exists.`, in whatever language.
fn first_value(detail: &str) -> Option<&str> {
    let (_, values) = detail.split_once(")=(")?;
    values.split([',', ')']).next()
}

/// An error with what is behind it.
fn words(error: &Error) -> String {
    if let Some(db) = error.as_db_error() {
        return format!("PostgreSQL: {} ({})", db.message(), db.code().code());
    }
    match std::error::Error::source(error) {
        Some(source) => format!("PostgreSQL: {error}: {source}"),
        None => format!("PostgreSQL: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::first_value;

    #[test]
    fn the_account_of_a_conflict_is_read_from_its_detail() {
        let detail = "Key (account, period, number)=(a.b-c_d, 0, 7) already exists.";
        assert_eq!(first_value(detail), Some("a.b-c_d"));
        assert_eq!(first_value("no detail"), None);
    }
}
