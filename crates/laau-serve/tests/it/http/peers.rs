//! A service whose account another node owns.

use std::sync::Arc;

use laau_serve::http::{Access, HttpOptions, Server};
use laau_serve::store::Embedded;
use laau_serve::{Authority, AuthorityOptions, Metrics};

use super::node::{Node, SPEC};
use crate::watched::{Watch, Watched};

/// Another node, at this address, owns every account.
struct Elsewhere(String);

impl Watch for Elsewhere {
    fn owner(&self) -> Option<String> {
        Some(self.0.clone())
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
    let store = Watched(Embedded::open(&file).unwrap(), Elsewhere(address.to_owned()));
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
