//! A whole service in one call: store, authority, HTTP, and an orderly end.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::authority::{Authority, AuthorityOptions, Running};
use crate::error::Error;
use crate::http::{Access, HttpOptions, Server, Tls};
use crate::metrics::Metrics;
use crate::store::{Embedded, Postgres, Store, StoreError};

/// Where a store is.
#[derive(Clone, PartialEq, Eq)]
pub enum StorePlace {
    /// The embedded store: one file.
    File(PathBuf),
    /// PostgreSQL, by its URL, which may hold a password.
    Postgres(String),
}

impl FromStr for StorePlace {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_url = ["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| text.starts_with(scheme));
        Ok(if is_url {
            Self::Postgres(text.to_owned())
        } else {
            Self::File(PathBuf::from(text))
        })
    }
}

impl std::fmt::Display for StorePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            // Who and where, without the password.
            Self::Postgres(url) => {
                let rest = url.split_once("://").map_or("", |(_, rest)| rest);
                let rest = rest.split(['?', '#']).next().unwrap_or_default();
                let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
                write!(f, "postgres://{place}")
            }
        }
    }
}

impl std::fmt::Debug for StorePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl StorePlace {
    /// Opens the store for a node that others find at an address. Not to be called within an asynchronous runtime.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(&self, address: &str, lease: Duration) -> Result<Box<dyn Store>, StoreError> {
        match self {
            Self::File(path) => Ok(Box::new(Embedded::open(path)?)),
            // A node is known again after a restart by where it is.
            Self::Postgres(url) => Ok(Box::new(Postgres::connect(url, address, address, lease)?)),
        }
    }
}

/// Why a service did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store cannot be used.
    #[error("{place}: {source}")]
    Store {
        /// Where it is.
        place: StorePlace,
        /// The reason.
        source: StoreError,
    },
    /// The address cannot be taken.
    #[error("{address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// A service without API keys on an address that others can reach.
    #[error("expected a loopback address for a service without API keys, found {address}")]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// Other nodes must know where this one is.
    #[error("expected an address at which other nodes reach this one, found {address}")]
    NoAddress {
        /// The address it listens on, which is none to reach it at.
        address: SocketAddr,
    },
    /// Nobody could ask anything.
    #[error("{place}: the store has no API key")]
    NoKeys {
        /// Where it is.
        place: StorePlace,
    },
    /// The system gives no threads.
    #[error("the service cannot start: {0}")]
    System(#[from] io::Error),
    /// The authority did not start.
    #[error(transparent)]
    Authority(#[from] Error),
}

/// What to serve, and where.
#[derive(Debug)]
pub struct ServeOptions {
    /// The store.
    pub store: StorePlace,
    /// The address to listen on; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// The base URL at which other nodes find this one; that of `listen` if not given.
    pub advertise: Option<String>,
    /// The time after which another node may take over the accounts of this one.
    pub lease: Duration,
    /// The authority's settings.
    pub authority: AuthorityOptions,
    /// Limits and times of the HTTP face.
    pub http: HttpOptions,
    /// A certificate, for TLS.
    pub tls: Option<Tls>,
}

/// A service that has its store and its address.
pub struct Serving {
    runtime: Runtime,
    server: Server,
    authority: Authority,
    running: Running,
    address: SocketAddr,
    is_tls: bool,
}

impl Serving {
    /// Opens the store, starts the authority and takes the address.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(options: ServeOptions) -> Result<Self, StartError> {
        let ServeOptions {
            store: place,
            listen,
            advertise,
            lease,
            mut authority,
            http,
            tls,
        } = options;
        if http.access == Access::InsecureLoopback && !listen.ip().is_loopback() {
            return Err(StartError::NotLoopback { address: listen });
        }
        let is_tls = tls.is_some();
        let own = match advertise {
            Some(url) => url,
            None if matches!(place, StorePlace::Postgres(_))
                && (listen.ip().is_unspecified() || listen.port() == 0) =>
            {
                return Err(StartError::NoAddress { address: listen });
            }
            None => url(is_tls, listen),
        };
        let told = |source| StartError::Store {
            place: place.clone(),
            source,
        };
        // A file that nobody made has no key: it is not left behind by a start that is refused.
        if http.access == Access::Keys
            && let StorePlace::File(path) = &place
            && std::fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        {
            return Err(StartError::NoKeys { place });
        }
        let mut store = place.open(&own, lease).map_err(told)?;
        if http.access == Access::Keys && store.keys().map_err(told)?.is_empty() {
            return Err(StartError::NoKeys { place });
        }
        let metrics = Arc::new(Metrics::default());
        authority.metrics = Some(Arc::clone(&metrics));
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        authority.runtime = Some(runtime.handle().clone());
        let (authority, running) = Authority::start(store, authority)?;
        let server = runtime
            .block_on(Server::bind(listen, authority.clone(), http, tls, metrics))
            .and_then(|server| Ok((server.address()?, server)));
        let (address, server) = match server {
            Ok(server) => server,
            Err(source) => {
                // The reason is what matters.
                let _ = running.stop();
                return Err(StartError::Listen {
                    address: listen,
                    source,
                });
            }
        };
        Ok(Self {
            runtime,
            server,
            authority,
            running,
            address,
            is_tls,
        })
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of its page.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.is_tls, self.address)
    }

    /// The way to the authority.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Waits for something before serving.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Does something beside serving, until the service ends.
    pub fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Serves until SIGINT or SIGTERM; then requests under way are finished, what waits is written, and the store is closed. A
    /// second signal does not wait for requests.
    ///
    /// # Errors
    /// [`Error::Store`] when the authority had failed.
    pub fn until_signal(self) -> Result<(), Error> {
        self.until(signal(), signal())
    }

    /// Serves until `end`; then requests under way are finished, at most until `hurry`.
    ///
    /// # Errors
    /// [`Error::Store`] when the authority had failed.
    pub fn until(self, end: impl Future<Output = ()>, hurry: impl Future<Output = ()>) -> Result<(), Error> {
        let Self {
            runtime,
            server,
            authority,
            running,
            ..
        } = self;
        let (ended, after_end) = tokio::sync::oneshot::channel();
        let end = async {
            end.await;
            // The receiver waits beside.
            let _ = ended.send(());
        };
        let hurry = async {
            // It never comes first: a signal that ends is not one to hurry.
            let _ = after_end.await;
            hurry.await;
        };
        runtime.block_on(async {
            tokio::select! {
                () = server.run(end) => {}
                () = hurry => {}
            }
        });
        drop(authority);
        runtime.shutdown_background();
        let stopped = running.stop();
        crate::logs::flush();
        stopped
    }
}

fn url(is_tls: bool, address: SocketAddr) -> String {
    let scheme = if is_tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

/// The next SIGINT or SIGTERM.
async fn signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let (Ok(mut interrupt), Ok(mut terminate)) =
            (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
        else {
            // Without handlers the system ends the process itself.
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_shown() {
        let place: StorePlace = "postgres://laau:s3cret@db.example:5432/laau?password=s3cret"
            .parse()
            .unwrap();
        assert_eq!(
            format!("{place} {place:?}"),
            "postgres://db.example:5432/laau postgres://db.example:5432/laau"
        );
        let odd: StorePlace = "postgres://laau:s3@cret@db.example/laau".parse().unwrap();
        assert_eq!(odd.to_string(), "postgres://db.example/laau");
    }

    #[test]
    fn what_is_no_url_of_postgresql_is_a_file() {
        assert_eq!(
            "budgets.laau".parse(),
            Ok(StorePlace::File("budgets.laau".into()))
        );
    }
}
