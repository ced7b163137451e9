//! A service that runs on a store of its own, and can be ended and started again.

use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use laau_serve::http::{Access, HttpOptions};
use laau_serve::store::{Batch, Embedded, Store as _, Write};
use laau_serve::{AuthorityOptions, NewKey, Scope, ServeOptions, Serving, StorePlace};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// A service on a store of its own, in a thread of its own.
pub(crate) struct Place {
    address: SocketAddr,
    access: Access,
    folder: TempDir,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    admin: Option<String>,
}

impl Place {
    /// A service for whoever is on this machine.
    pub(crate) fn open() -> Self {
        let mut place = Self {
            address: ([127, 0, 0, 1], 0).into(),
            access: Access::InsecureLoopback,
            folder: tempfile::tempdir().unwrap(),
            running: None,
            admin: None,
        };
        place.start();
        place
    }

    /// A service that asks for keys.
    pub(crate) fn with_keys() -> Self {
        let mut place = Self::open();
        place.stop();
        let made = NewKey::generate(Scope::Admin, None).unwrap();
        let batch = Batch {
            writes: vec![Write::Key(made.key.clone())],
            ..Batch::default()
        };
        Embedded::open(place.folder.path().join("store"))
            .unwrap()
            .commit(&batch)
            .unwrap();
        place.access = Access::Keys;
        place.admin = Some(made.token());
        place.start();
        place
    }

    /// Starts; for the second time at the same address.
    pub(crate) fn start(&mut self) {
        let options = ServeOptions {
            store: StorePlace::File(self.folder.path().join("store")),
            listen: self.address,
            advertise: None,
            lease: Duration::from_secs(10),
            authority: AuthorityOptions::default(),
            http: HttpOptions {
                access: self.access,
                ..HttpOptions::default()
            },
            tls: None,
        };
        let serving = Serving::start(options).unwrap();
        self.address = serving.address();
        let (end, ended) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let ended = async { drop(ended.await) };
            serving.until(ended, std::future::pending()).unwrap();
        });
        self.running = Some((end, thread));
    }

    /// Ends, and waits for it.
    pub(crate) fn stop(&mut self) {
        if let Some((end, thread)) = self.running.take() {
            drop(end);
            thread.join().unwrap();
        }
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Asks; gives status and body.
    pub(crate) fn ask(&self, method: &str, path: &str, key: &str, body: Option<&Value>) -> (u16, Value) {
        let agent: ureq::Agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build()
            .into();
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.origin()))
            .header("Idempotency-Key", key);
        if let Some(admin) = &self.admin {
            request = request.header("Authorization", format!("Bearer {admin}"));
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        if !body.is_empty() {
            request = request.header("Content-Type", "application/json");
        }
        let mut answer = agent.run(request.body(body).unwrap()).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        (
            answer.status().as_u16(),
            serde_json::from_str(&text).unwrap_or(Value::Null),
        )
    }

    /// Makes an account with two hundred steps.
    pub(crate) fn account(&self, name: &str) {
        let spec = json!({
            "name": name,
            "problem": {"name": "weighted-fairness"},
            "policy": {"name": "mw"},
            "guard": {"policy": {"name": "equal"}, "level": 0.9},
            "budgets": [2000.0],
            "horizon": 200,
        });
        let (status, body) = self.ask("POST", "/v1/accounts", "-", Some(&spec));
        assert_eq!(status, 201, "{body}");
    }

    /// Decides under a key; gives the name of the decision.
    pub(crate) fn decide(&self, account: &str, key: &str) -> String {
        let body = json!({"context": [0.4]});
        let (status, body) = self.ask(
            "POST",
            &format!("/v1/accounts/{account}/decisions"),
            key,
            Some(&body),
        );
        assert_eq!(status, 200, "{body}");
        body["decision"].as_str().unwrap().to_owned()
    }

    /// Makes a key of a scope.
    pub(crate) fn key(&self, scope: &str) -> String {
        let (status, body) = self.ask("POST", "/v1/keys", "-", Some(&json!({"scope": scope})));
        assert_eq!(status, 201, "{body}");
        body["token"].as_str().unwrap().to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.stop();
    }
}
