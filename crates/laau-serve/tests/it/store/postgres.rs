//! PostgreSQL: leases, epochs, take-overs, and a server that comes and goes.

use std::time::Duration;

use laau::core::conformance::skipped;
use laau_serve::store::{Claim, Postgres, Store, StoreError, Write};

use super::Place;
use super::sample::{append, batch, entry, numbers, record, write};
use super::server::Server;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

/// A database in the server that the tests share.
pub(super) struct Database {
    server: &'static Server,
    name: String,
    url: String,
}

impl Database {
    /// A new database; none, and a line in the log of skipped tests, without PostgreSQL.
    pub(super) fn new(test: &str) -> Option<Self> {
        let Some(server) = Server::shared() else {
            skipped(test, "PostgreSQL is not installed");
            return None;
        };
        // A name has at most 63 bytes.
        let name: String = test.replace("::", "_").chars().take(60).collect();
        let url = server.database(&name);
        Some(Self { server, name, url })
    }

    fn node(&self, name: &str, lease: Duration) -> Postgres {
        let address = format!("http://{name}:7171");
        Postgres::connect(&self.url, name, &address, lease).expect("the server answers")
    }
}

impl Place for Database {
    fn open(&self) -> Box<dyn Store> {
        Box::new(self.node("a", LONG))
    }
}
