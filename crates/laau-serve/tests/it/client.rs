//! The blocking client against real services, and against one that breaks.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use laau_serve::client::{Client, ClientError, Patience};

use crate::http::node::{Node, SPEC};
use crate::http::peers;

fn client(node: &Node) -> Client {
    Client::new(&format!("http://{}/", node.address), node.key.as_deref()).unwrap()
}

#[test]
fn a_client_decides_settles_releases_and_looks() {
    let node = Node::start(|_| {});
    let client = client(&node);
    let spec = serde_json::from_str(SPEC).unwrap();
    client.create(&spec).unwrap();
    client.create(&spec).unwrap();
    let first = client.decide("shop", &[0.5]).unwrap();
    let second = client.decide_as("shop", "job-1", &[0.5]).unwrap();
    assert_eq!(client.decide_as("shop", "job-1", &[0.5]).unwrap(), second);
    let half = [first.held[0] / 2.0];
    let settled = client.settle("shop", first.decision, &half).unwrap();
    assert_eq!(settled.returned, half);
    assert_eq!(client.settle("shop", first.decision, &half).unwrap(), settled);
    client.release("shop", second.decision).unwrap();
    assert_eq!(client.skip("shop", 2).unwrap().horizon, 18);
    assert_eq!(client.entries("shop", 0, 0).unwrap().entries.len(), 6);
    assert_eq!(client.open("shop").unwrap().number, 1);
    assert_eq!(client.accounts().unwrap(), [client.account("shop").unwrap()]);
}

#[test]
fn a_guarded_account_is_read_before_its_first_decision() {
    let node = Node::start(|_| {});
    let client = client(&node);
    let mut spec: serde_json::Value = serde_json::from_str(SPEC).unwrap();
    spec["guard"] = serde_json::json!({"policy": {"name": "equal"}, "level": 0.9});
    let made = client.create(&serde_json::from_value(spec).unwrap()).unwrap();
    assert_eq!(made.period.unwrap().certificate, None);
    client.decide("shop", &[0.5]).unwrap();
    let certificate = client.account("shop").unwrap().period.unwrap().certificate;
    assert!(certificate.is_some_and(|certificate| certificate.margin.is_finite()));
    assert_eq!(client.open("shop").unwrap().certificate, None);
}

#[test]
fn a_refusal_is_told_by_its_kind_and_in_words() {
    let node = Node::with_account();
    let client = client(&node);
    let error = client.decide("nobody", &[0.5]).unwrap_err();
    assert_eq!(error.kind(), Some("unknown-account"));
    assert_eq!(error.to_string(), "Unknown account (404): no account `nobody`");
    assert!(matches!(client.account("../keys"), Err(ClientError::Setting(_))));
    assert!(matches!(
        Client::new("127.0.0.1:7171", None),
        Err(ClientError::Setting(_))
    ));
}

/// Stands between a client and a service: passes requests on, but breaks the first connections, or says that the service is busy.
fn breaking(service: SocketAddr, answers: &'static [&'static str]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (at, stream) in listener.incoming().enumerate() {
            let mut stream = stream.unwrap();
            let mut bytes = Vec::new();
            let mut buffer = [0; 4096];
            // Requests of this test end with their body's brace.
            while !bytes.ends_with(b"}") {
                let count = stream.read(&mut buffer).unwrap();
                bytes.extend_from_slice(&buffer[..count]);
            }
            let mut onward = TcpStream::connect(service).unwrap();
            // The service sees a name of its own.
            let text = String::from_utf8(bytes)
                .unwrap()
                .replace(&address.to_string(), &service.to_string());
            let text = text.replacen("\r\n", "\r\nConnection: close\r\n", 1);
            onward.write_all(text.as_bytes()).unwrap();
            let mut answer = Vec::new();
            onward.read_to_end(&mut answer).unwrap();
            // The service has carried it out; the client may never hear of it.
            let answer = answers
                .get(at)
                .map_or(answer.as_slice(), |answer| answer.as_bytes());
            stream.write_all(answer).unwrap();
        }
    });
    address
}

#[test]
fn a_change_whose_answer_is_lost_is_sent_again_and_carried_out_once() {
    const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 86\r\nContent-Type: application/problem+json\r\nConnection: close\r\n\r\n{\"type\":\"urn:laau:problem:store\",\"title\":\"\",\"status\":503,\"detail\":\"\",\"kind\":\"store\" }";
    let node = Node::with_account();
    let between = breaking(
        node.address,
        &["", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"half", BUSY],
    );
    let patience = Patience {
        pause: Duration::from_millis(1),
        ..Patience::default()
    };
    let client = Client::with(&format!("http://{between}"), None, patience, None).unwrap();
    let decision = client.decide("shop", &[0.5]).unwrap();
    assert_eq!(decision.step, 0);
    assert_eq!(
        self::client(&node).account("shop").unwrap().period.unwrap().step,
        1
    );
}

#[test]
fn a_request_follows_its_account_to_the_node_that_has_it() {
    let owner = Node::with_account();
    let other = peers::of_another_node(&format!("http://{}", owner.address));
    let decision = client(&other).decide("shop", &[0.5]).unwrap();
    assert_eq!(decision.step, 0);
    assert_eq!(client(&owner).account("shop").unwrap().period.unwrap().step, 1);
}

#[test]
fn nobody_there_is_told_after_all_patience() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let patience = Patience {
        patience: Duration::from_millis(20),
        pause: Duration::from_millis(1),
        ..Patience::default()
    };
    let client = Client::with(&format!("http://{address}"), None, patience, None).unwrap();
    assert!(matches!(client.accounts(), Err(ClientError::NoAnswer { .. })));
}
