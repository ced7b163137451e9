//! What clients do to a connection.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use laau_serve::http::Access;

use super::node::{Node, Response, SPEC};

fn hasty() -> Node {
    let node = Node::start(|options| {
        options.http.access = Access::InsecureLoopback;
        options.http.header_time = Duration::from_millis(200);
        options.http.body_time = Duration::from_millis(200);
    });
    assert_eq!(node.post("/v1/accounts", None, SPEC).status, 201);
    node
}

fn decide(node: &Node, length: usize, body: &str) -> String {
    format!(
        "POST /v1/accounts/shop/decisions HTTP/1.1\r\nHost: {}\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}",
        node.address
    )
}

#[test]
fn clients_that_say_nothing_or_half_a_head_are_closed() {
    let node = hasty();
    for beginning in [
        "",
        "P",
        "PRI * HTTP/2.0\r\n",
        "GET /healthz HT",
        "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    ] {
        let mut stream = node.connect();
        stream.write_all(beginning.as_bytes()).unwrap();
        let mut rest = Vec::new();
        // It ends, be it with words or without.
        let _ = stream.read_to_end(&mut rest);
        let text = String::from_utf8_lossy(&rest);
        assert!(
            text.is_empty() || text.starts_with("HTTP/1.1 408") || text.starts_with("HTTP/1.1 4"),
            "{beginning}: {text}"
        );
    }
    assert_eq!(node.get("/healthz").status, 200);
}

#[test]
fn a_body_that_stays_away_is_waited_for_and_then_refused() {
    let node = hasty();
    let mut stream = node.connect();
    stream.write_all(decide(&node, 15, "{\"cont").as_bytes()).unwrap();
    let answer = Response::read(&mut stream);
    assert_eq!((answer.status, answer.kind().as_str()), (408, "too-slow"));
    assert_eq!(node.get("/v1/accounts/shop").json()["period"]["step"], 0);
}

#[test]
fn a_client_that_vanishes_leaves_a_whole_decision_or_none() {
    let node = Node::with_account();
    let body = r#"{"context":[0.5]}"#;
    // In the middle of its body.
    node.connect()
        .write_all(decide(&node, 17, "{\"cont").as_bytes())
        .unwrap();
    assert_eq!(node.get("/v1/accounts/shop").json()["period"]["step"], 0);
    // After its request, before the answer.
    node.connect()
        .write_all(decide(&node, body.len(), body).as_bytes())
        .unwrap();
    let again = node.post("/v1/accounts/shop/decisions", Some("k"), body);
    assert_eq!((again.status, again.json()["step"].as_u64()), (200, Some(0)));
    assert_eq!(node.get("/v1/accounts/shop").json()["period"]["step"], 1);
}

#[test]
fn requests_in_a_row_on_one_connection_are_answered_in_order() {
    let node = Node::with_account();
    let mut stream = node.connect();
    let mut bytes = String::new();
    for number in 0..20 {
        let body = r#"{"context":[0.5]}"#;
        bytes += &decide(&node, body.len(), body).replace(": k\r", &format!(": k{number}\r"));
    }
    bytes += "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(bytes.as_bytes()).unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    let mut rest = all.as_slice();
    for step in 0..20 {
        let (answer, after) = Response::parse(rest);
        assert_eq!((answer.status, answer.json()["step"].as_u64()), (200, Some(step)));
        rest = after;
    }
    assert_eq!(Response::parse(rest).0.json()["status"], "ok");
}

#[test]
fn what_is_no_http_is_refused_and_harms_nobody() {
    let node = Node::with_account();
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(10_000));
    let tls = "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{fc}\u{3}\u{3}";
    let both = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nConnection: close\r\n\r\n";
    for bytes in [
        "\r\n\r\n\r\n",
        "hello\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nHost\r\n\r\n",
        &long,
        &many,
        tls,
        both,
    ] {
        let mut stream = node.connect();
        let _ = stream.write_all(bytes.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            !answer.contains("HTTP/1.1 5") && !answer.contains("HTTP/1.1 2"),
            "{bytes:.60}: {answer}"
        );
    }
    assert_eq!(node.get("/healthz").status, 200);
}

#[test]
fn more_connections_than_places_wait_and_are_served() {
    let node = Node::start(|options| {
        options.http.access = Access::InsecureLoopback;
        options.http.connections = 4;
        options.http.header_time = Duration::from_millis(300);
    });
    node.post("/v1/accounts", None, SPEC);
    // They hold every place for a while, and say nothing.
    let idle: Vec<_> = (0..8).map(|_| node.connect()).collect();
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| assert_eq!(node.get("/v1/accounts/shop").status, 200));
        }
    });
    drop(idle);
}

#[test]
fn many_clients_at_once_decide_every_step_once() {
    let node = Node::open();
    node.post(
        "/v1/accounts",
        None,
        &SPEC.replace("20}", "400}").replace("250", "5000"),
    );
    std::thread::scope(|scope| {
        for client in 0..40 {
            let node = &node;
            scope.spawn(move || {
                for number in 0..10 {
                    let key = format!("{client}-{number}");
                    let answer = node.post("/v1/accounts/shop/decisions", Some(&key), r#"{"context":[0.5]}"#);
                    assert_eq!(answer.status, 200, "{}", answer.text());
                }
            });
        }
    });
    let period = node.get("/v1/accounts/shop").json()["period"].clone();
    assert_eq!(
        (period["step"].as_u64(), period["holds"].as_u64()),
        (Some(400), Some(400))
    );
}

#[test]
fn http_2_is_spoken_without_tls_too() {
    use http_body_util::{BodyExt as _, Full};
    let node = Node::with_account();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(node.address).await.unwrap();
        let io = hyper_util::rt::TokioIo::new(stream);
        let executor = hyper_util::rt::TokioExecutor::new();
        let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
        tokio::spawn(async { drop(connection.await) });
        let mut waiting = Vec::new();
        for number in 0..20 {
            let request = hyper::Request::post(format!("http://{}/v1/accounts/shop/decisions", node.address))
                .header("idempotency-key", format!("k{number}"))
                .header("content-type", "application/json")
                .body(Full::new(hyper::body::Bytes::from_static(
                    br#"{"context":[0.5]}"#,
                )))
                .unwrap();
            sender.ready().await.unwrap();
            waiting.push(sender.send_request(request));
        }
        let mut steps = Vec::new();
        for response in waiting {
            let response = response.await.unwrap();
            assert_eq!(response.status(), 200);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            let decision: laau_serve::Decision = serde_json::from_slice(&body).unwrap();
            steps.push(decision.step);
        }
        steps.sort_unstable();
        assert!(steps.into_iter().eq(0..20));
    });
}

#[test]
fn a_service_that_ends_finishes_what_is_under_way() {
    let mut node = Node::with_account();
    let body = r#"{"context":[0.5]}"#;
    let request = decide(&node, body.len(), body);
    let (first, second) = request.split_at(request.len() - 5);
    let mut stream = node.connect();
    stream.write_all(first.as_bytes()).unwrap();
    // The head is there for sure when the service has answered another request that came later.
    assert_eq!(node.get("/healthz").status, 200);
    node.end();
    std::thread::sleep(Duration::from_millis(200));
    stream.write_all(second.as_bytes()).unwrap();
    let answer = Response::read(&mut stream);
    assert_eq!((answer.status, answer.json()["step"].as_u64()), (200, Some(0)));
    node.join();
    assert!(std::net::TcpStream::connect(node.address).is_err());
}
