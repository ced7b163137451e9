//! What is refused: always a problem document with a sentence, never a 5xx but 503.

use super::node::{Node, SPEC};

#[track_caller]
fn check(node: &Node, request: (&str, &str, &[&str], &str), status: u16, kind: &str, words: &str) {
    let (method, path, headers, body) = request;
    let answer = node.send(method, path, headers, body);
    assert_eq!(
        (answer.status, answer.kind().as_str()),
        (status, kind),
        "{method} {path}: {}",
        answer.text()
    );
    assert!(
        answer.detail().contains(words),
        "{method} {path}: {}",
        answer.detail()
    );
}

const JSON: &str = "Content-Type: application/json";

#[test]
fn addresses_and_methods_that_are_not_there_are_told() {
    let node = Node::with_account();
    for path in [
        "/nothing",
        "/v1",
        "/v1/accounts/",
        "//v1/accounts",
        "/v1//accounts",
        "/v1/accounts/shop/",
        "/page/",
        "/page/../app.js",
        "/page/%2e%2e%2fapp.js",
    ] {
        check(&node, ("GET", path, &[], ""), 404, "not-found", "/openapi.json");
    }
    let tricks = [
        "/v1/accounts/%2e%2e",
        "/v1/accounts/..",
        "/v1/accounts/%2e%2e%2fkeys",
        "/v1/accounts/shop%00",
        "/v1/accounts/SHOP",
        "/v1/accounts/%C3%A9",
    ];
    for path in tricks {
        check(
            &node,
            ("GET", path, &[], ""),
            404,
            "unknown-account",
            "no account",
        );
    }
    check(&node, ("GET", "/v1/accounts/%ff", &[], ""), 404, "not-found", "");
    for (method, path, allow) in [
        ("PUT", "/v1/accounts", "GET,HEAD,POST"),
        ("GET", "/v1/accounts/shop/decisions", "POST"),
        ("PATCH", "/v1/accounts/shop", "GET,HEAD,DELETE"),
        ("OPTIONS", "/v1/keys", "GET,HEAD,POST"),
    ] {
        let answer = node.send(method, path, &[], "");
        assert_eq!(
            (answer.status, answer.kind().as_str()),
            (405, "method-not-allowed")
        );
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    }
}

#[test]
fn bodies_that_are_not_what_was_expected_are_refused_with_the_place() {
    let node = Node::with_account();
    let decide = "/v1/accounts/shop/decisions";
    let key = "Idempotency-Key: k";
    for (body, words) in [
        ("", "EOF"),
        ("{", "line 1 column 1"),
        ("[]", "line 1"),
        (r#"{"context":[NaN]}"#, "line 1 column 13"),
        (r#"{"context":[1e999]}"#, "number out of range"),
        (r#"{"context":["1"]}"#, "invalid type"),
        (r#"{"context":[1],"context":[1]}"#, "duplicate field `context`"),
        (r#"{"context":[1],"contexts":[1]}"#, "unknown field `contexts`"),
        ("{\"context\":[1]}\u{0}", "trailing"),
        ("\u{feff}{\"context\":[1]}", "expected value"),
    ] {
        check(&node, ("POST", decide, &[key, JSON], body), 400, "invalid", words);
    }
    let deep = format!("{{\"context\":{}", "[".repeat(100_000));
    check(
        &node,
        ("POST", decide, &[key, JSON], &deep),
        400,
        "invalid",
        "recursion limit",
    );
    check(
        &node,
        ("POST", decide, &[key], r#"{"context":[1]}"#),
        415,
        "not-json",
        "application/json",
    );
    check(
        &node,
        (
            "POST",
            decide,
            &[key, "Content-Type: text/plain"],
            r#"{"context":[1]}"#,
        ),
        415,
        "not-json",
        "",
    );
    check(
        &node,
        ("POST", "/v1/accounts/shop/periods", &[key], "{\"number\":7}"),
        400,
        "invalid",
        "unknown field `number`",
    );
    // None of it has spent anything, and the key is as good as new.
    assert_eq!(node.get("/v1/accounts/shop").json()["period"]["step"], 0);
    assert_eq!(node.post(decide, Some("k"), r#"{"context":[1]}"#).status, 200);
}

#[test]
fn values_that_the_problem_does_not_take_are_refused() {
    let node = Node::with_account();
    let decide = "/v1/accounts/shop/decisions";
    let key = "Idempotency-Key: k";
    for (body, words) in [
        (r#"{"context":[]}"#, "1"),
        (r#"{"context":[1,2]}"#, "2"),
        (r#"{"context":[-1]}"#, ""),
    ] {
        check(&node, ("POST", decide, &[key, JSON], body), 422, "refused", words);
    }
    node.post(decide, Some("first"), r#"{"context":[0.5]}"#);
    let settle = "/v1/accounts/shop/decisions/0-0/settlement";
    for body in [r#"{"usage":[-1]}"#, r#"{"usage":[1e9]}"#, r#"{"usage":[]}"#] {
        check(&node, ("POST", settle, &[key, JSON], body), 422, "refused", "");
    }
    let unknown = "/v1/accounts/shop/decisions/0-7/settlement";
    let answer = node.send("POST", unknown, &[key, JSON], r#"{"usage":[1]}"#);
    assert_eq!(answer.status, 404, "{}", answer.text());
    for decision in ["7", "0-", "-1-0", "0-00", "0-18446744073709551616", "a-b"] {
        let path = format!("/v1/accounts/shop/decisions/{decision}/settlement");
        check(
            &node,
            ("POST", &path, &[key, JSON], r#"{"usage":[1]}"#),
            400,
            "invalid",
            "PERIOD-NUMBER",
        );
    }
    node.post(settle, Some("settle"), r#"{"usage":[0.5]}"#);
    let again = node.post(settle, Some("again"), r#"{"usage":[0.5]}"#);
    assert_eq!(again.status, 409, "{}", again.text());
}

#[test]
fn changes_without_a_proper_key_are_refused() {
    let node = Node::with_account();
    let decide = "/v1/accounts/shop/decisions";
    let body = r#"{"context":[1]}"#;
    let long = format!("Idempotency-Key: {}", "k".repeat(256));
    for headers in [
        &[JSON][..],
        &[JSON, "Idempotency-Key:"],
        &[JSON, "Idempotency-Key: a b"],
        &[JSON, "Idempotency-Key: a", "Idempotency-Key: b"],
        &[JSON, &long],
    ] {
        check(
            &node,
            ("POST", decide, headers, body),
            400,
            "missing-key",
            "Idempotency-Key",
        );
    }
}

#[test]
fn queries_and_periods_outside_their_ranges_are_refused() {
    let node = Node::with_account();
    let path = "/v1/accounts/shop/periods/0/entries";
    for query in [
        "most=0",
        "most=1001",
        "from=-1",
        "from=x",
        "form=1",
        "most=1e3",
        "from=9223372036854775808",
        "from=18446744073709551616",
    ] {
        check(
            &node,
            ("GET", &format!("{path}?{query}"), &[], ""),
            400,
            "invalid",
            "",
        );
    }
    check(
        &node,
        ("GET", "/v1/accounts/shop/periods/-1/entries", &[], ""),
        400,
        "invalid",
        "period",
    );
}

#[test]
fn settings_that_make_no_account_are_refused() {
    let node = Node::open();
    let other = SPEC.replace("250", "260");
    assert_eq!(node.post("/v1/accounts", None, SPEC).status, 201);
    assert_eq!(
        node.post("/v1/accounts", None, SPEC).status,
        201,
        "the same settings once more"
    );
    check(
        &node,
        ("POST", "/v1/accounts", &[JSON], &other),
        409,
        "account-exists",
        "shop",
    );
    let other = SPEC.replace("shop", "other");
    for (from, to, status, kind) in [
        ("other", "../other", 400, "invalid"),
        ("other", "Other", 400, "invalid"),
        ("[250]", "[1]", 422, "refused"),
        ("[250]", "[250,250]", 422, "refused"),
        ("[250]", "[-250]", 422, "refused"),
        ("\"mw\"", "\"mww\"", 422, "unknown-policy"),
        ("\"mw\"", "\"laau\"", 422, "unknown-policy"),
        ("weighted-fairness", "weighted", 400, "invalid"),
        (
            "{\"name\":\"mw\"}",
            "{\"file\":\"../../etc/passwd\"}",
            400,
            "invalid",
        ),
        ("{\"name\":\"mw\"}", "{\"names\":\"mw\"}", 400, "invalid"),
        ("20}", "0}", 400, "invalid"),
        ("20}", "-20}", 400, "invalid"),
        ("20}", "1e30}", 400, "invalid"),
        (
            "weighted-fairness\"",
            "vm-allocation\",\"actions\":1000000",
            422,
            "account-too-large",
        ),
    ] {
        check(
            &node,
            ("POST", "/v1/accounts", &[JSON], &other.replace(from, to)),
            status,
            kind,
            "",
        );
    }
    assert_eq!(
        node.get("/v1/accounts").json()["accounts"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_body_that_is_too_large_is_refused_before_it_is_read() {
    let node = Node::with_account();
    let large = format!("{{\"context\":[{}]}}", "1,".repeat(5 << 20));
    let key = "Idempotency-Key: k";
    check(
        &node,
        ("POST", "/v1/accounts/shop/decisions", &[key, JSON], &large),
        413,
        "too-large",
        "1048576 bytes",
    );
    // Without an announced length.
    let mut chunked = format!(
        "POST /v1/accounts/shop/decisions HTTP/1.1\r\nHost: {}\r\n{key}\r\n{JSON}\r\nTransfer-Encoding: chunked\r\n\r\n",
        node.address
    );
    for _ in 0..40 {
        chunked.extend(["10000\r\n", &"1".repeat(1 << 16), "\r\n"]);
    }
    let answer = node.raw(chunked.as_bytes());
    assert_eq!((answer.status, answer.kind().as_str()), (413, "too-large"));
}
