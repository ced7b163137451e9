//! The HTTP face over real sockets: what is answered, what is refused, and what clients do to it.

mod events;
mod keys;
pub(crate) mod node;
mod openapi;
pub(crate) mod peers;
mod protocol;
mod refusals;
mod tls;

use serde_json::json;

use self::node::{Node, SPEC};

#[test]
fn an_account_decides_settles_and_shows_what_is_left() {
    let node = Node::open();
    let made = node.post("/v1/accounts", None, SPEC);
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.header("location"), Some("/v1/accounts/shop"));
    let decided = node.post("/v1/accounts/shop/decisions", Some("a"), r#"{"context":[0.5]}"#);
    assert_eq!(decided.status, 200, "{}", decided.text());
    assert_eq!(decided.header("idempotent-replayed"), None);
    let decision = decided.json();
    let held = decision["held"][0].as_f64().unwrap();
    assert_eq!(decision["decision"], "0-0");
    assert_eq!(decision["remaining"][0], 250.0 - held);
    let path = "/v1/accounts/shop/decisions/0-0/settlement";
    let settled = node.post(path, Some("b"), &json!({ "usage": [held / 2.0] }).to_string());
    assert_eq!(settled.status, 200, "{}", settled.text());
    assert_eq!(settled.json()["returned"][0], held / 2.0);
    let view = node.get("/v1/accounts/shop").json();
    assert_eq!(view["period"]["remaining"][0], 250.0 - held / 2.0);
    let entries = node.get("/v1/accounts/shop/periods/0/entries").json();
    let events: Vec<_> = entries["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["event"]["event"].clone())
        .collect();
    assert_eq!(events, ["opened", "decided", "settled"]);
}

#[test]
fn a_repeated_key_gets_the_first_answers_bytes_and_says_so() {
    let node = Node::with_account();
    let ask = |body| node.post("/v1/accounts/shop/decisions", Some("once"), body);
    let (first, second) = (ask(r#"{"context":[0.5]}"#), ask(r#"{"context":[0.5]}"#));
    assert_eq!((first.status, &first.body), (second.status, &second.body));
    assert_eq!(second.header("idempotent-replayed"), Some("true"));
    let other = ask(r#"{"context":[0.25]}"#);
    assert_eq!((other.status, other.kind().as_str()), (422, "key-reused"));
    assert_eq!(node.get("/v1/accounts/shop").json()["period"]["step"], 1);
}

#[test]
fn periods_open_steps_pass_and_holds_are_released() {
    let node = Node::with_account();
    node.post("/v1/accounts/shop/decisions", Some("a"), r#"{"context":[0.5]}"#);
    let skipped = node.post("/v1/accounts/shop/skip", Some("b"), r#"{"steps":3}"#);
    assert_eq!(skipped.json()["horizon"], 17, "{}", skipped.text());
    let released = node.post("/v1/accounts/shop/decisions/0-0/release", Some("c"), "");
    assert_eq!(released.json()["remaining"][0], 250.0, "{}", released.text());
    let opened = node.post("/v1/accounts/shop/periods", Some("d"), "");
    assert_eq!(opened.json()["number"], 1, "{}", opened.text());
    let closed = node.send("DELETE", "/v1/accounts/shop", &[], "");
    assert_eq!(closed.json()["closed"], true, "{}", closed.text());
    let after = node.post("/v1/accounts/shop/decisions", Some("e"), r#"{"context":[0.5]}"#);
    assert_eq!((after.status, after.kind().as_str()), (410, "account-closed"));
}

#[test]
fn the_log_is_read_in_parts() {
    let node = Node::with_account();
    for key in ["a", "b", "c"] {
        node.post("/v1/accounts/shop/decisions", Some(key), r#"{"context":[0.5]}"#);
    }
    let path = "/v1/accounts/shop/periods/0/entries";
    let part = node.get(&format!("{path}?from=1&most=2")).json();
    assert_eq!(
        (part["entries"].as_array().unwrap().len(), &part["next"]),
        (2, &json!(3))
    );
    let rest = node.get(&format!("{path}?from=3&most=2")).json();
    assert_eq!(
        (rest["entries"].as_array().unwrap().len(), rest.get("next")),
        (1, None)
    );
}

#[test]
fn the_page_is_served_under_a_policy_and_the_service_says_that_it_lives() {
    let node = Node::start(|_| {});
    let page = node.get("/");
    assert!(page.text().contains("<title>"), "{}", page.text());
    assert!(
        page.header("content-security-policy")
            .unwrap()
            .contains("default-src 'none'")
    );
    for path in ["/healthz", "/readyz"] {
        assert_eq!(node.get(path).json(), json!({ "status": "ok" }));
    }
}

#[test]
fn the_metrics_count_what_happened() {
    let node = Node::with_account();
    node.post("/v1/accounts/shop/decisions", Some("a"), r#"{"context":[0.5]}"#);
    node.post("/v1/accounts/shop/decisions", Some("a"), r#"{"context":[0.5]}"#);
    node.post("/v1/accounts/none/decisions", Some("a"), r#"{"context":[0.5]}"#);
    let text = node.get("/metrics").text();
    for line in [
        r#"laau_changes_total{change="decide",repeated="false"} 1"#,
        r#"laau_changes_total{change="decide",repeated="true"} 1"#,
        r#"laau_refusals_total{kind="unknown-account"} 1"#,
        r#"laau_accounts{closed="false"} 1"#,
        r#"laau_step{account="shop"} 1"#,
        r#"laau_open_holds{account="shop"} 1"#,
        // The account, and the decision.
        "laau_store_commit_seconds_count 2",
        "laau_batch_size_count 2",
    ] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
    let share = text
        .lines()
        .find_map(|line| line.strip_prefix(r#"laau_remaining_share{account="shop",budget="0"} "#));
    let share: f64 = share.unwrap().parse().unwrap();
    assert!(0.5 < share && share < 1.0, "{share}");
}

#[test]
fn a_request_for_another_nodes_account_is_sent_there() {
    let node = peers::of_another_node("http://other.example:7171");
    let path = "/v1/accounts/shop/decisions?x=1";
    let sent = node.post(path, Some("a"), r#"{"context":[0.5]}"#);
    assert_eq!(sent.status, 307, "{}", sent.text());
    assert_eq!(
        sent.header("location"),
        Some("http://other.example:7171/v1/accounts/shop/decisions?x=1")
    );
    assert_eq!(sent.json()["address"], "http://other.example:7171");
}
