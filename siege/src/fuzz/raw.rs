//! Bytes on the wire: requests with spoiled paths, headers, keys, credentials and bodies.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::mutate::mutate;
use crate::history::Asked;
use crate::http::{Client, Request};
use crate::server::{Node, PATIENCE};

/// Longer than any time-out of the service: whoever waits so long waits for ever.
const FOR_EVER: Duration = Duration::from_secs(90);

/// Requests under way at a time.
const AT_A_TIME: usize = 16;

/// Paths by which people try to get out of where they are.
const PATHS: &[&str] = &[
    "/v1/accounts/../keys",
    "/v1/accounts/%2e%2e/keys",
    "/v1/accounts/..%2fkeys",
    "/v1//accounts",
    "//v1/accounts",
    "/v1/accounts/",
    "/v1/accounts/%00",
    "/v1/accounts/%ff",
    "/v1/accounts/fuzz%2fdecisions",
    "/v1/accounts/fuzz/decisions/..",
    "/v1/accounts/fuzz/decisions/0-00/release",
    "/v1/accounts/fuzz/decisions/0-18446744073709551616/release",
    "/v1/accounts/fuzz/decisions/18446744073709551615-18446744073709551615/release",
    "/v1/accounts/fuzz/periods/-1/entries",
    "/v1/accounts/fuzz/periods/18446744073709551615/entries",
    "/v1/accounts/fuzz/periods/0/entries?most=0",
    "/v1/accounts/fuzz/periods/0/entries?most=18446744073709551615",
    "/v1/accounts/fuzz/periods/0/entries?from=18446744073709551615&most=1000",
    "/v1/accounts/fuzz/periods/0/entries?from=1&from=2",
    "/v1/accounts/fuzz/periods/0/entries?%ff",
    "/?",
    "/%",
    "*",
    "",
    "http://other/v1/accounts",
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/openapi.json/..",
    "/v1/keys/..",
    "/v1/keys/%2e%2e%2f",
];

/// Bodies that are nearly right.
const BODIES: &[&str] = &[
    r#"{"context":[1e999]}"#,
    r#"{"context":[-1e999]}"#,
    r#"{"context":[NaN]}"#,
    r#"{"context":[1e308]}"#,
    r#"{"context":[-1e308]}"#,
    r#"{"context":[5e-324]}"#,
    r#"{"context":[]}"#,
    r#"{"context":[0.5,0.5]}"#,
    r#"{"context":null}"#,
    r#"{"context":0.5}"#,
    r#"{"context":["0.5"]}"#,
    r#"{"context":[0.5],"context":[0.6]}"#,
    r#"{"context":[0.5],"more":1}"#,
    "[0.5]",
    "",
    "{",
    "null",
    r#"{"usage":[-1]}"#,
    r#"{"usage":[1e308]}"#,
    r#"{"usage":[-0.0]}"#,
    r#"{"usage":[]}"#,
    r#"{"steps":0}"#,
    r#"{"steps":18446744073709551615}"#,
    r#"{"steps":18446744073709551616}"#,
    r#"{"steps":-1}"#,
    r#"{"steps":1.5}"#,
    r#"{"steps":1e3}"#,
    "\u{feff}{}",
];

/// Settings of accounts that ask for too much, or for nothing that makes sense.
fn settings() -> Vec<String> {
    let with = |name: &str, value: serde_json::Value| {
        let mut spec = json!({"name": "other", "policy": {"name": "mw"}, "budgets": [10.0], "horizon": 10,
                              "problem": {"name": "weighted-fairness"}});
        spec[name] = value;
        spec.to_string()
    };
    vec![
        with("horizon", json!(0)),
        with("horizon", json!(u64::MAX)),
        with("horizon", json!(1_u64 << 40)),
        with("horizon", json!(-1)),
        with("budgets", json!([])),
        with("budgets", json!([-1.0])),
        with("budgets", json!([0.0])),
        with("budgets", json!([1e308])),
        with("budgets", json!([5e-324])),
        with("budgets", json!([1.0, 1.0])),
        with("budgets", json!(vec![1.0; 10_000])),
        with("name", json!("")),
        with("name", json!("..")),
        with("name", json!("../../etc/passwd")),
        with("name", json!("a/b")),
        with("name", json!("A")),
        with("name", json!("a".repeat(10_000))),
        with("name", json!("\u{0}")),
        with("period", json!({"seconds": 0})),
        with("period", json!({"seconds": u64::MAX})),
        with("policy", json!({"name": "nobody"})),
        with("policy", json!({"name": "opt"})),
        with("policy", json!({"file": "../../../etc/passwd"})),
        with("policy", json!({"file": "/etc/passwd"})),
        with("policy", json!({"file": "."})),
        with("policy", json!({"file": ""})),
        with("policy", json!({"file": "a\u{0}b"})),
        with("policy", json!({"file": "x".repeat(5000)})),
        with("policy", json!({"name": "dgd", "parameters": {"step": [1e308]}})),
        with("policy", json!({"name": "mw", "parameters": {"nothing": [1.0]}})),
        with(
            "problem",
            json!({"name": "weighted-fairness", "lower": 5.0, "upper": 1.0}),
        ),
        with("problem", json!({"name": "weighted-fairness", "lower": -1.0})),
        with(
            "problem",
            json!({"name": "vm-allocation", "actions": 1_u64 << 60}),
        ),
        with("problem", json!({"name": "vm-allocation", "actions": 0})),
        with("problem", json!({"name": "wireless", "actions": 1_u64 << 40})),
        with("problem", json!({"name": "log-utility", "usage": []})),
        with(
            "problem",
            json!({"name": "log-utility", "usage": [[1.0], [1.0, 2.0]]}),
        ),
        with("guard", json!({"policy": {"name": "equal"}, "level": 2.0})),
        with("guard", json!({"policy": {"name": "equal"}, "level": -1.0})),
        with("guard", json!({"policy": {"name": "nobody"}})),
        format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("{{\"name\":{}1{}", "{\"a\":".repeat(50_000), "}".repeat(50_001)),
    ]
}

/// Requests that are right, as a start for mutations.
fn sound(secret: &str, number: u64) -> Vec<Vec<u8>> {
    let asked = [
        Asked::Decide { context: vec![0.25] },
        Asked::Settle {
            decision: format!("0-{number}"),
            usage: vec![0.01],
        },
        Asked::Release {
            decision: format!("0-{number}"),
        },
        Asked::Skip { steps: 1 },
        Asked::Open,
    ];
    let key = format!("fuzz-{number}");
    let changes = asked
        .iter()
        .map(|asked| crate::clients::request("fuzz", &key, asked, secret).bytes());
    let spec = json!({"name": format!("made-{}", number % 16), "policy": {"name": "mw"}, "budgets": [10.0], "horizon": 10,
                      "problem": {"name": "log-utility", "usage": [[0.3, 1.1], [0.7, 0.1]]}, "guard": {"policy": {"name": "equal"}}});
    let others = [
        Request::get("/v1/accounts/fuzz"),
        Request::get("/v1/accounts"),
        Request::get("/metrics"),
        Request::get("/v1/accounts/fuzz/periods/0/entries?from=3&most=7"),
        Request::post("/v1/accounts", spec.to_string()),
        Request::post("/v1/keys", r#"{"scope":"read","account":"fuzz"}"#),
        Request::delete("/v1/keys/0123456789abcdef"),
    ];
    changes
        .chain(others.into_iter().map(|request| request.by(secret).bytes()))
        .collect()
}

/// The bytes of a case.
fn case(secret: &str, number: u64, random: &mut ChaCha8Rng) -> Vec<u8> {
    let settings = settings();
    let pick = |random: &mut ChaCha8Rng, of: usize| random.random_range(0..of);
    match random.random_range(0..10) {
        0 => {
            let path = PATHS[pick(random, PATHS.len())];
            let request = Request {
                method: ["GET", "POST", "DELETE", "PUT", "PATCH"][pick(random, 5)],
                ..Request::get(path)
            };
            request.by(secret).keyed(format!("path-{number}")).bytes()
        }
        1 => {
            let body = BODIES[pick(random, BODIES.len())];
            let path = [
                "decisions",
                "decisions/0-0/settlement",
                "skip",
                "periods",
                "decisions/0-0/release",
            ][pick(random, 5)];
            Request::post(format!("/v1/accounts/fuzz/{path}"), body)
                .by(secret)
                .keyed(format!("body-{number}"))
                .bytes()
        }
        2 => Request::post("/v1/accounts", settings[pick(random, settings.len())].clone())
            .by(secret)
            .bytes(),
        // Idempotency keys and credentials of any bytes.
        3 => {
            let mut junk: Vec<u8> = (0..random.random_range(0..300))
                .map(|_| random.random())
                .collect();
            junk.retain(|byte| *byte != b'\n');
            let name: &[u8] = [
                &b"idempotency-key: "[..],
                b"authorization: ",
                b"authorization: Bearer laau_",
            ][pick(random, 3)];
            let mut bytes = b"POST /v1/accounts/fuzz/decisions HTTP/1.1\r\nhost: siege\r\ncontent-type: application/json\r\n".to_vec();
            bytes.extend_from_slice(format!("authorization: Bearer {secret}\r\n").as_bytes());
            bytes.extend_from_slice(name);
            bytes.extend_from_slice(&junk);
            bytes.extend_from_slice(b"\r\ncontent-length: 17\r\n\r\n{\"context\":[0.5]}");
            bytes
        }
        _ => {
            let sound = sound(secret, number);
            let mut bytes = sound[pick(random, sound.len())].clone();
            // Several on one connection, so that what is left of one meets the next.
            if random.random_range(0..4) == 0 {
                bytes.extend_from_slice(&sound[pick(random, sound.len())]);
            }
            mutate(&mut bytes, random);
            bytes
        }
    }
}

/// Sends so many cases; gives how often each status was answered.
pub(super) async fn run(
    node: &mut Node,
    secret: &str,
    cases: u64,
    seed: u64,
) -> anyhow::Result<super::Statuses> {
    let mut statuses = super::Statuses::new();
    let mut tasks: JoinSet<anyhow::Result<Vec<u16>>> = JoinSet::new();
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for number in 0..cases {
        let bytes = case(secret, number, &mut random);
        let address = node.address;
        tasks.spawn(async move {
            let found = send(address, &bytes).await;
            found.with_context(|| {
                format!(
                    "case {number}: {}",
                    String::from_utf8_lossy(&bytes[..bytes.len().min(600)])
                )
            })
        });
        while tasks.len() >= AT_A_TIME || (number + 1 == cases && !tasks.is_empty()) {
            let Some(found) = tasks.join_next().await else {
                break;
            };
            for status in found?? {
                *statuses.entry(status).or_default() += 1;
            }
        }
        if number % 500 == 499 || number + 1 == cases {
            alive(node, secret, number).await?;
        }
    }
    large(node, secret).await?;
    slow(node, secret).await?;
    Ok(statuses)
}

/// The service must be as good as before.
pub(super) async fn alive(node: &mut Node, secret: &str, number: u64) -> anyhow::Result<()> {
    if let Some(status) = node.exited()? {
        bail!("the service ended ({status}): {}", node.last_words());
    }
    node.check_panics()?;
    let mut client = Client::new(node.address, PATIENCE);
    let asked = Asked::Decide { context: vec![0.5] };
    let request = crate::clients::request("steady", &format!("steady-{number}"), &asked, secret);
    let response = client
        .send(&request)
        .await
        .context("the service does not answer any more")?;
    ensure!(
        response.status == 200,
        "a sound request is answered {} {}",
        response.status,
        response.text()
    );
    Ok(())
}

/// A decision that requests can speak of: 0-0.
pub(super) async fn decide(node: &Node, secret: &str, account: &str) -> anyhow::Result<()> {
    let asked = Asked::Decide { context: vec![0.5] };
    let request = crate::clients::request(account, "first", &asked, secret);
    let response = Client::new(node.address, PATIENCE).send(&request).await?;
    ensure!(response.status == 200, "{} {}", response.status, response.text());
    Ok(())
}

/// Sends bytes, says that no more come, and reads to the end; gives the statuses of all answers.
async fn send(address: SocketAddr, bytes: &[u8]) -> anyhow::Result<Vec<u16>> {
    let mut stream = TcpStream::connect(address).await?;
    let mut answer = Vec::new();
    let exchange = async {
        // The service may have seen enough before all is sent.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                // An event stream has no end.
                Ok(_) if answer.len() > 1 << 20 => return,
                Ok(read) => answer.extend_from_slice(&buffer[..read]),
            }
        }
    };
    if tokio::time::timeout(FOR_EVER, exchange).await.is_err() && !contains(&answer, b"text/event-stream") {
        bail!("no end after {} s", FOR_EVER.as_secs());
    }
    let statuses = statuses(&answer);
    for status in &statuses {
        ensure!(
            *status < 500 || *status == 503,
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    Ok(statuses)
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}

/// The statuses of all answers in what came back.
fn statuses(answer: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(answer);
    let found = text.split("HTTP/1.").skip(1);
    found
        .filter_map(|rest| rest.get(2..5)?.parse().ok())
        .filter(|status| (100..600).contains(status))
        .collect()
}

/// Bodies of 10 MB, announced and in chunks, and a head without end.
async fn large(node: &mut Node, secret: &str) -> anyhow::Result<()> {
    let body = format!("{{\"context\":[{}0]}}", "0,".repeat(5 << 20));
    let announced = Request::post("/v1/accounts/fuzz/decisions", body.clone())
        .by(secret)
        .keyed("large")
        .bytes();
    let mut chunked = format!(
        "POST /v1/accounts/fuzz/decisions HTTP/1.1\r\nhost: siege\r\nauthorization: Bearer {secret}\r\nidempotency-key: chunked\r\n\
         content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    .into_bytes();
    for piece in body.as_bytes().chunks(1 << 16) {
        chunked.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        chunked.extend_from_slice(piece);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let head = format!(
        "GET /v1/accounts HTTP/1.1\r\n{}",
        "x-header: 0123456789\r\n".repeat(1 << 18)
    )
    .into_bytes();
    for bytes in [announced, chunked, head] {
        let statuses = send(node.address, &bytes).await?;
        ensure!(
            statuses.iter().all(|status| (400..500).contains(status)),
            "too much was answered {statuses:?}"
        );
    }
    alive(node, secret, u64::MAX).await
}

/// Clients that send half a request and wait, or go away.
async fn slow(node: &mut Node, secret: &str) -> anyhow::Result<()> {
    let bytes =
        crate::clients::request("fuzz", "slow", &Asked::Decide { context: vec![0.5] }, secret).bytes();
    let mut waiting = Vec::new();
    for place in 0..200 {
        let mut stream = TcpStream::connect(node.address).await?;
        stream
            .write_all(&bytes[..bytes.len() * (place % 10) / 10])
            .await?;
        if place % 2 == 0 {
            waiting.push(stream);
        }
    }
    alive(node, secret, u64::MAX - 1).await?;
    for mut stream in waiting {
        let mut rest = Vec::new();
        let end = tokio::time::timeout(FOR_EVER, stream.read_to_end(&mut rest)).await;
        ensure!(end.is_ok(), "half a request keeps its connection for ever");
        let statuses = statuses(&rest);
        ensure!(
            statuses.iter().all(|status| *status < 500 || *status == 503),
            "half a request is answered {statuses:?}"
        );
    }
    alive(node, secret, u64::MAX - 2).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_of_a_connection_is_seen() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 500 Internal\r\n\r\n";
        assert_eq!(statuses(answer), [200, 500]);
    }

    #[tokio::test]
    async fn an_answer_of_500_is_a_failure() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for status in ["503", "500"] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let answer = format!("HTTP/1.1 {status} -\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        assert_eq!(send(address, b"x").await.unwrap(), [503]);
        assert!(send(address, b"x").await.is_err());
    }
}
