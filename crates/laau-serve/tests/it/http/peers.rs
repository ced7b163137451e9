//! A service whose account another node owns.

use std::ops::RangeInclusive;
use std::sync::Arc;

use laau_serve::http::{Access, HttpOptions, Server};
use laau_serve::store::{AccountRecord, Batch, Claim, Embedded, Store, StoreError};
use laau_serve::{ApiKey, Authority, AuthorityOptions, Entry, Metrics};

use super::node::{Node, SPEC};

/// A real store, of which another node owns every account.
struct Elsewhere {
    store: Embedded,
    address: String,
}

impl Store for Elsewhere {
    fn accounts(&mut self) -> Result<Vec<String>, StoreError> {
        self.store.accounts()
    }

    fn account(&mut self, name: &str) -> Result<Option<AccountRecord>, StoreError> {
        self.store.account(name)
    }

    fn file(&mut self, digest: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.file(digest)
    }

    fn entries(
        &mut self,
        account: &str,
        period: u64,
        from: u64,
        most: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        self.store.entries(account, period, from, most)
    }

    fn by_key(
        &mut self,
        account: &str,
        periods: RangeInclusive<u64>,
        key: &str,
    ) -> Result<Option<Entry>, StoreError> {
        self.store.by_key(account, periods, key)
    }

    fn keys(&mut self) -> Result<Vec<ApiKey>, StoreError> {
        self.store.keys()
    }

    fn claim(&mut self, _: &str) -> Result<Claim, StoreError> {
        Ok(Claim::Elsewhere {
            address: self.address.clone(),
        })
    }

    fn owns(&self, _: &str) -> bool {
        false
    }

    fn renew(&mut self) -> Result<Vec<String>, StoreError> {
        self.store.renew()
    }

    fn release(&mut self) -> Result<(), StoreError> {
        self.store.release()
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.store.commit(batch)
    }
}

/// A node with an account that another one owns.
pub(crate) fn of_another_node(address: &str) -> Node {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("store.laau");
    // The other node made the account.
    let (authority, running) = Authority::start(
        Box::new(Embedded::open(&file).unwrap()),
        AuthorityOptions::default(),
    )
    .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(authority.create(serde_json::from_str(SPEC).unwrap()))
        .unwrap();
    drop(authority);
    running.stop().unwrap();
    let store = Elsewhere {
        store: Embedded::open(&file).unwrap(),
        address: address.to_owned(),
    };
    let (authority, running) = Authority::start(Box::new(store), AuthorityOptions::default()).unwrap();
    let options = HttpOptions {
        access: Access::InsecureLoopback,
        ..HttpOptions::default()
    };
    let listen = "127.0.0.1:0".parse().unwrap();
    let metrics = Arc::new(Metrics::default());
    let server = runtime
        .block_on(Server::bind(listen, authority, options, None, metrics))
        .unwrap();
    let listening = server.address().unwrap();
    Node::around(listening, folder, move |ended| {
        runtime.block_on(server.run(ended));
        runtime.shutdown_background();
        running.stop().unwrap();
    })
}
