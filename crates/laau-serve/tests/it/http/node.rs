//! A service in this process, and a client that sends exactly the bytes it is told.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::pin::Pin;
use std::thread::JoinHandle;
use std::time::Duration;

use laau_serve::http::{Access, HttpOptions};
use laau_serve::store::{Batch, Embedded, Store as _, Write};
use laau_serve::{AuthorityOptions, NewKey, Scope, ServeOptions, Serving, StorePlace};
use tempfile::TempDir;

/// The settings of an account.
pub(crate) const SPEC: &str = r#"{"name":"shop","problem":{"name":"weighted-fairness"},"policy":{"name":"mw"},"budgets":[250],"horizon":20}"#;

/// Nothing takes this long but for a mistake.
const PATIENCE: Duration = Duration::from_mins(1);

/// A running service.
pub(crate) struct Node {
    pub(crate) address: SocketAddr,
    /// What every request carries.
    pub(crate) key: Option<String>,
    end: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _folder: TempDir,
}

impl Node {
    /// Without keys.
    pub(crate) fn open() -> Self {
        Self::start(|options| options.http.access = Access::InsecureLoopback)
    }

    /// Without keys, and with an account.
    pub(crate) fn with_account() -> Self {
        let node = Self::open();
        assert_eq!(node.post("/v1/accounts", None, SPEC).status, 201);
        node
    }

    /// With a key that may do everything, and other settings.
    pub(crate) fn start(set: impl FnOnce(&mut ServeOptions)) -> Self {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("store.laau");
        let admin = NewKey::generate(Scope::Admin, None).unwrap();
        let mut store = Embedded::open(&file).unwrap();
        let batch = Batch {
            writes: vec![Write::Key(admin.key.clone())],
            ..Batch::default()
        };
        store.commit(&batch).unwrap();
        drop(store);
        let mut options = ServeOptions {
            store: StorePlace::File(file),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            advertise: None,
            lease: Duration::from_secs(10),
            authority: AuthorityOptions::default(),
            http: HttpOptions::default(),
            tls: None,
        };
        set(&mut options);
        let key = (options.http.access == Access::Keys).then(|| admin.token());
        let serving = Serving::start(options).unwrap();
        let address = serving.address();
        let mut node = Self::around(address, folder, |ended| {
            serving.until(ended, std::future::pending()).unwrap();
        });
        node.key = key;
        node
    }

    /// Any service, which serves until its future is ready.
    pub(crate) fn around(
        address: SocketAddr,
        folder: TempDir,
        serve: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>) + Send + 'static,
    ) -> Self {
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::spawn(move || serve(Box::pin(async { drop(ended.await) })));
        Self {
            address,
            key: None,
            end: Some(end),
            thread: Some(thread),
            _folder: folder,
        }
    }

    /// Asks the service to end; [`Node::join`] waits for it.
    pub(crate) fn end(&mut self) {
        drop(self.end.take());
    }

    pub(crate) fn join(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.send("GET", path, &[], "")
    }

    /// Posts JSON, or nothing, under an idempotency key.
    pub(crate) fn post(&self, path: &str, key: Option<&str>, body: &str) -> Response {
        let mut headers = Vec::new();
        if let Some(key) = key {
            headers.push(format!("Idempotency-Key: {key}"));
        }
        if !body.is_empty() {
            headers.push("Content-Type: application/json".to_owned());
        }
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        self.send("POST", path, &headers, body)
    }

    /// Sends a request with the node's own key.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Response {
        self.send_as(self.key.as_deref(), method, path, headers, body)
    }

    /// Sends a request with any key.
    pub(crate) fn send_as(
        &self,
        key: Option<&str>,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> Response {
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n",
            self.address
        );
        if let Some(key) = key {
            head.extend(["Authorization: Bearer ", key, "\r\n"]);
        }
        for header in headers {
            head.extend([header, "\r\n"]);
        }
        let bytes = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
        self.raw(bytes.as_bytes())
    }

    /// Sends bytes, and reads until the service closes the connection.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Response {
        let mut stream = self.connect();
        // A service that refuses early does not read the rest.
        let _ = stream.write_all(bytes);
        Response::read(&mut stream)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end();
        if let Some(thread) = self.thread.take() {
            // The test's own failure is what matters.
            let _ = thread.join();
        }
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// Reads to the end of the connection.
    pub(crate) fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
                // A service that did not read all of a request resets the connection after its answer.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("{error}, after {}", String::from_utf8_lossy(&bytes)),
            }
        }
        let (response, rest) = Self::parse(&bytes);
        assert!(
            rest.is_empty(),
            "more than one answer: {}",
            String::from_utf8_lossy(&bytes)
        );
        response
    }

    /// The first answer in some bytes, and the bytes after it.
    pub(crate) fn parse(bytes: &[u8]) -> (Self, &[u8]) {
        let at = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let at = at.unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(bytes)));
        let head = std::str::from_utf8(&bytes[..at]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut response = Self {
            status,
            headers,
            body: Vec::new(),
        };
        let rest = &bytes[at + 4..];
        let length = response
            .header("content-length")
            .map_or(0, |length| length.parse().unwrap());
        let (body, rest) = rest.split_at(length);
        response.body = body.to_vec();
        (response, rest)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// The kind of a problem document, which is checked.
    pub(crate) fn kind(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        let problem: laau_serve::http::Problem = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(problem.status, self.status);
        assert_eq!(problem.r#type, format!("urn:laau:problem:{}", problem.kind));
        assert!(!problem.detail.is_empty() && !problem.title.is_empty());
        problem.kind
    }

    pub(crate) fn detail(&self) -> String {
        self.json()["detail"].as_str().unwrap().to_owned()
    }
}
