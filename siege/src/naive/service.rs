//! The rival's HTTP face, as much of it as the load asks for, and its decision: read, check, write.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::store::Store;

/// Serves on a free port until the program ends.
pub(super) async fn start(store: Arc<dyn Store>) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream, Arc::clone(&store)));
        }
    });
    Ok(address)
}

struct Asked {
    method: String,
    path: String,
    key: String,
    body: Value,
}

async fn connection(mut stream: TcpStream, store: Arc<dyn Store>) {
    let mut buffer = Vec::new();
    while let Some(asked) = read(&mut stream, &mut buffer).await {
        let store = Arc::clone(&store);
        let answer = tokio::task::spawn_blocking(move || answer(store.as_ref(), &asked)).await;
        let (status, body) = match answer {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => (500, json!({"detail": format!("{error:#}")}).to_string()),
            Err(error) => (500, json!({"detail": error.to_string()}).to_string()),
        };
        let head = format!(
            "HTTP/1.1 {status} -\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(head.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// A request as this harness's client sends it.
async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<Asked> {
    loop {
        let end = buffer.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(buffer[..end].to_vec()).ok()?;
            let header = |name: &str| {
                let line = head
                    .lines()
                    .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
                line.map(str::to_owned)
            };
            let length: usize = header("content-length").map_or(Some(0), |length| length.parse().ok())?;
            if buffer.len() >= end + 4 + length {
                let mut words = head.split(' ');
                let asked = Asked {
                    method: words.next()?.to_owned(),
                    path: words.next()?.to_owned(),
                    key: header("idempotency-key").unwrap_or_default(),
                    body: serde_json::from_slice(&buffer[end + 4..end + 4 + length]).unwrap_or_default(),
                };
                buffer.drain(..end + 4 + length);
                return Some(asked);
            }
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

type Answer = (u16, String);

fn answer(store: &dyn Store, asked: &Asked) -> anyhow::Result<Answer> {
    let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
    let parts: Vec<&str> = path.trim_start_matches("/v1/accounts").split('/').collect();
    match (asked.method.as_str(), parts.as_slice()) {
        ("POST", [""]) => {
            let name = asked.body["name"].as_str().context("a name")?;
            open(store, name, &asked.body, 0, "")
        }
        ("POST", ["", name, "periods"]) => {
            let state = state(store, name)?;
            let period = state["period"].as_u64().context("a period")?;
            once(store, name, asked, || {
                open(store, name, &state, period + 1, &asked.key)
            })
        }
        ("POST", ["", name, "decisions"]) => once(store, name, asked, || decide(store, name, asked)),
        ("POST", ["", name, "decisions", decision, "settlement"]) => {
            once(store, name, asked, || settle(store, name, decision, asked))
        }
        ("GET", ["", name, "periods", period, "entries"]) => {
            let from = query
                .split('&')
                .find_map(|part| part.strip_prefix("from=")?.parse().ok());
            let lines = store.lines(&format!("{name}/{period}"), from.unwrap_or(0))?;
            Ok((200, json!({"entries": lines}).to_string()))
        }
        ("GET", ["", name]) => {
            let state = state(store, name)?;
            Ok((200, json!({"period": {"number": state["period"]}}).to_string()))
        }
        _ => Ok((404, "{}".to_owned())),
    }
}

fn state(store: &dyn Store, name: &str) -> anyhow::Result<Value> {
    store.read(name)?.context("no such account")
}

/// The stored answer of a key, or a new one. Two at the same time both find none: the naive way.
fn once(
    store: &dyn Store,
    name: &str,
    asked: &Asked,
    work: impl FnOnce() -> anyhow::Result<Answer>,
) -> anyhow::Result<Answer> {
    match store.read(&format!("{name} key {}", asked.key))? {
        Some(stored) => Ok((200, stored.as_str().unwrap_or_default().to_owned())),
        None => work(),
    }
}

fn open(store: &dyn Store, name: &str, spec: &Value, period: u64, key: &str) -> anyhow::Result<Answer> {
    let mut state = spec.clone();
    state["period"] = period.into();
    state["remaining"] = spec["budgets"].clone();
    let answer = json!({"number": period}).to_string();
    let request = (!key.is_empty()).then(|| json!({"key": key, "status": 200, "answer": answer}));
    let rows = [
        (name.to_owned(), state),
        (format!("{name} key {key}"), answer.clone().into()),
    ];
    let event = json!({"event": "opened", "budgets": spec["budgets"]});
    store.write(
        &rows,
        &format!("{name}/{period}"),
        &|number| json!({"period": period, "number": number, "event": event, "request": request}),
    )?;
    Ok((200, answer))
}

/// Reads what remains, checks that it covers the amount, and writes what then remains.
fn decide(store: &dyn Store, name: &str, asked: &Asked) -> anyhow::Result<Answer> {
    let mut state = state(store, name)?;
    let remaining = state["remaining"][0].as_f64().context("a remainder")?;
    let period = state["period"].as_u64().context("a period")?;
    let amount = 2.0 * asked.body["context"][0].as_f64().context("a context")?;
    if amount > remaining {
        return Ok((409, "{}".to_owned()));
    }
    state["remaining"][0] = (remaining - amount).into();
    let event = json!({"event": "decided", "context": asked.body["context"], "action": [amount]});
    let answer = |number: u64| {
        let decision = format!("{period}-{number}");
        json!({"decision": decision, "period": period, "step": number, "action": [amount], "held": [amount],
               "remaining": [remaining - amount]})
        .to_string()
    };
    let line = store.write(
        &[(name.to_owned(), state)],
        &format!("{name}/{period}"),
        &|number| {
            let request = json!({"key": asked.key, "status": 200, "answer": answer(number)});
            json!({"period": period, "number": number, "event": event, "request": request})
        },
    )?;
    Ok((
        200,
        line["request"]["answer"].as_str().unwrap_or_default().to_owned(),
    ))
}

/// Reads what remains and writes it with the difference.
fn settle(store: &dyn Store, name: &str, decision: &str, asked: &Asked) -> anyhow::Result<Answer> {
    let (period, hold) = decision.split_once('-').context("a decision")?;
    let (period, hold): (u64, u64) = (period.parse()?, hold.parse()?);
    let place = format!("{name}/{period}");
    let line = store
        .lines(&place, hold)?
        .into_iter()
        .next()
        .context("no such decision")?;
    let held = line["event"]["action"][0].as_f64().context("an action")?;
    let usage = asked.body["usage"][0].as_f64().context("a usage")?;
    let mut state = state(store, name)?;
    let mut remaining = state["remaining"][0].as_f64().context("a remainder")?;
    if state["period"].as_u64() == Some(period) {
        remaining += held - usage;
        state["remaining"][0] = remaining.into();
    }
    let answer = json!({"decision": decision, "settled": [usage], "remaining": [remaining]}).to_string();
    let event = json!({"event": "settled", "hold": hold, "usage": [usage]});
    store.write(&[(name.to_owned(), state)], &place, &|number| {
        let request = json!({"key": asked.key, "status": 200, "answer": answer});
        json!({"period": period, "number": number, "event": event, "request": request})
    })?;
    Ok((200, answer))
}
