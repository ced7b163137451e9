//! Server-sent events over real sockets.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use laau_serve::http::Access;

use super::node::{Node, SPEC};

/// A reader of a stream.
struct Reader {
    stream: TcpStream,
    text: String,
}

impl Reader {
    fn open(node: &Node, key: Option<&str>) -> Self {
        let mut stream = node.connect();
        let key = key.or(node.key.as_deref());
        let authorization = key.map_or(String::new(), |key| format!("Authorization: Bearer {key}\r\n"));
        let request = format!(
            "GET /v1/accounts/shop/events HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{authorization}\r\n",
            node.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut reader = Self {
            stream,
            text: String::new(),
        };
        reader.until(": listening");
        reader
    }

    /// Reads until a word has come; false if the stream ended before.
    fn until(&mut self, word: &str) -> bool {
        let mut buffer = [0; 4096];
        while !self.text.contains(word) {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return false,
                Err(error) => panic!("the stream neither speaks nor ends: {error}"),
                Ok(count) => self.text += &String::from_utf8_lossy(&buffer[..count]),
            }
        }
        true
    }
}

fn decide(node: &Node, number: usize) {
    let answer = node.post(
        "/v1/accounts/shop/decisions",
        Some(&number.to_string()),
        r#"{"context":[0.5]}"#,
    );
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn a_stream_tells_what_became_durable_in_its_account_and_no_other() {
    let node = Node::with_account();
    node.post("/v1/accounts", None, &SPEC.replace("shop", "bank"));
    let mut reader = Reader::open(&node, None);
    assert!(
        reader
            .text
            .to_lowercase()
            .contains("content-type: text/event-stream"),
        "{}",
        reader.text
    );
    node.post("/v1/accounts/bank/decisions", Some("a"), r#"{"context":[0.25]}"#);
    decide(&node, 0);
    assert!(reader.until("\"context\":[0.5]"), "{}", reader.text);
    assert!(
        reader.text.contains("event: entry") && reader.text.contains("id: 0-1"),
        "{}",
        reader.text
    );
    assert!(
        !reader.text.contains("bank") && !reader.text.contains("0.25"),
        "{}",
        reader.text
    );
}

#[test]
fn a_quiet_stream_gives_signs_of_life_and_ends_with_the_service() {
    let mut node = Node::start(|options| {
        options.http.access = Access::InsecureLoopback;
        options.http.heartbeat = Duration::from_millis(50);
    });
    node.post("/v1/accounts", None, SPEC);
    let mut reader = Reader::open(&node, None);
    assert!(reader.until(": alive"));
    node.join();
    assert!(!reader.until("nothing more"));
}

#[test]
fn a_stream_ends_when_its_key_is_revoked() {
    let node = Node::start(|options| options.http.heartbeat = Duration::from_millis(50));
    node.post("/v1/accounts", None, SPEC);
    let made = node
        .post("/v1/keys", None, r#"{"scope":"read","account":"shop"}"#)
        .json();
    let mut reader = Reader::open(&node, made["token"].as_str());
    assert!(reader.until(": alive"));
    node.send(
        "DELETE",
        &format!("/v1/keys/{}", made["id"].as_str().unwrap()),
        &[],
        "",
    );
    assert!(!reader.until("nothing more"));
}

#[test]
fn streams_have_a_limit_and_give_their_place_back() {
    let node = Node::start(|options| {
        options.http.access = Access::InsecureLoopback;
        options.http.streams = 2;
        options.http.heartbeat = Duration::from_millis(20);
    });
    node.post("/v1/accounts", None, SPEC);
    let readers = [Reader::open(&node, None), Reader::open(&node, None)];
    let refused = node.get("/v1/accounts/shop/events");
    assert_eq!((refused.status, refused.kind().as_str()), (503, "overloaded"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    drop(readers);
    // The service notices by the next sign of life that nobody reads.
    let ask = || {
        let mut stream = node.connect();
        let request = format!(
            "GET /v1/accounts/shop/events HTTP/1.1\r\nHost: {}\r\n\r\n",
            node.address
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut buffer = [0; 16];
        stream.read_exact(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer).contains("200")
    };
    while !ask() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_reader_that_takes_nothing_is_dropped_and_holds_nobody_up() {
    let node = Node::start(|options| {
        options.http.access = Access::InsecureLoopback;
        options.http.write_time = Duration::from_millis(300);
    });
    // Steps with many values fill a socket soon.
    let spec = r#"{"name":"shop","problem":{"name":"log-utility","actions":1000},"policy":{"name":"equal"},"budgets":[400000],"horizon":200}"#;
    let made = node.post("/v1/accounts", None, spec);
    assert_eq!(made.status, 201, "{}", made.text());
    let context = (0..1000).map(|number| 0.1 + f64::from(number) / 1237.0);
    let body = serde_json::json!({ "context": context.collect::<Vec<_>>() }).to_string();
    let idle = Reader::open(&node, None);
    let decide = |number: usize| {
        let answer = node.post("/v1/accounts/shop/decisions", Some(&number.to_string()), &body);
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    // Each is tens of kilobytes on the stream: more than sockets take.
    (0..100).for_each(decide);
    std::thread::sleep(Duration::from_millis(600));
    // A stream that was dropped is closed: what is in the socket can be read, then it ends.
    let mut idle = idle;
    assert!(!idle.until("nothing like this"));
    decide(100);
}
