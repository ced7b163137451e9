//! Who may do what.

use std::time::Duration;

use serde_json::json;

use super::node::{Node, Response, SPEC};

fn make(node: &Node, scope: &str, account: Option<&str>) -> (String, String) {
    let body = json!({ "scope": scope, "account": account }).to_string();
    let made = node.post("/v1/keys", None, &body);
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(made.header("cache-control"), Some("no-store"));
    let made = made.json();
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("id"), text("token"))
}

/// Every request there is, and the least scope for it; those that are for no single account come last.
const REQUESTS: [(&str, &str, &str, u8); 14] = [
    ("GET", "/v1/accounts", "", 1),
    ("GET", "/v1/accounts/shop", "", 1),
    ("GET", "/v1/accounts/shop/periods/0/entries", "", 1),
    ("POST", "/v1/accounts/shop/decisions", r#"{"context":[0.5]}"#, 2),
    (
        "POST",
        "/v1/accounts/shop/decisions/0-0/settlement",
        r#"{"usage":[0]}"#,
        2,
    ),
    ("POST", "/v1/accounts/shop/skip", r#"{"steps":1}"#, 2),
    ("POST", "/v1/accounts/shop/decisions/0-0/release", "", 3),
    ("POST", "/v1/accounts/shop/periods", "", 3),
    ("DELETE", "/v1/accounts/shop", "", 3),
    ("GET", "/metrics", "", 1),
    ("POST", "/v1/accounts", SPEC, 3),
    ("GET", "/v1/keys", "", 3),
    ("POST", "/v1/keys", r#"{"scope":"read"}"#, 3),
    ("DELETE", "/v1/keys/0123456789abcdef", "", 3),
];

fn ask(node: &Node, key: Option<&str>, request: (&str, &str, &str, u8), number: usize) -> Response {
    let (method, path, body, _) = request;
    let name = format!("Idempotency-Key: k{number}");
    node.send_as(
        key,
        method,
        path,
        &[&name, "Content-Type: application/json"],
        body,
    )
}

#[test]
fn a_scope_allows_what_it_says_and_no_more() {
    for (scope, level) in [("read", 1), ("decide", 2), ("admin", 3)] {
        let node = Node::start(|_| {});
        node.post("/v1/accounts", None, SPEC);
        let (_, token) = make(&node, scope, None);
        for (number, request) in REQUESTS.into_iter().enumerate() {
            let answer = ask(&node, Some(&token), request, number);
            let refused = answer.status == 403;
            assert_eq!(
                refused,
                level < request.3,
                "{scope}: {request:?}: {}",
                answer.text()
            );
        }
    }
}

#[test]
fn without_a_key_that_is_known_nothing_is_answered() {
    let node = Node::start(|_| {});
    let (id, token) = make(&node, "admin", None);
    let wrong = format!(
        "{}{}",
        &token[..token.len() - 1],
        if token.ends_with('0') { "1" } else { "0" }
    );
    let stranger = token.replace(&id, "0123456789abcdef");
    for key in [
        None,
        Some(""),
        Some("x"),
        Some(&wrong),
        Some(&stranger),
        Some(&token[5..]),
    ] {
        for (number, request) in REQUESTS.into_iter().enumerate() {
            let answer = ask(&node, key, request, number);
            assert_eq!(
                (answer.status, answer.kind().as_str()),
                (401, "unauthorized"),
                "{request:?}"
            );
            assert!(answer.header("www-authenticate").unwrap().starts_with("Bearer"));
            assert!(
                !answer.text().contains(&wrong[22..]),
                "a secret comes back: {}",
                answer.text()
            );
        }
    }
    assert_eq!(
        node.send_as(Some(&token), "GET", "/v1/accounts", &[], "").status,
        200
    );
}

#[test]
fn a_key_of_one_account_cannot_learn_that_another_exists() {
    let node = Node::start(|_| {});
    node.post("/v1/accounts", None, SPEC);
    node.post("/v1/accounts", None, &SPEC.replace("shop", "bank"));
    let (_, token) = make(&node, "admin", Some("shop"));
    let list = node.send_as(Some(&token), "GET", "/v1/accounts", &[], "").json();
    let names: Vec<_> = list["accounts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|account| &account["spec"]["name"])
        .collect();
    assert_eq!(names, ["shop"]);
    for request in REQUESTS
        .into_iter()
        .filter(|(_, path, ..)| path.contains("/shop"))
    {
        let of = |name: &str| {
            let path = request.1.replace("shop", name);
            let answer = ask(&node, Some(&token), (request.0, &path, request.2, 0), 0);
            (answer.status, answer.kind(), answer.detail().replace(name, "…"))
        };
        assert_eq!(of("bank"), of("nobody"), "{request:?}");
        assert_eq!(of("bank").0, 404);
    }
    for request in &REQUESTS[9..] {
        assert_eq!(ask(&node, Some(&token), *request, 0).status, 403, "{request:?}");
    }
    assert_eq!(node.get("/v1/accounts/bank").json()["period"]["step"], 0);
}

#[test]
fn keys_are_listed_without_secrets_and_revoked_at_once() {
    let node = Node::start(|_| {});
    let (id, token) = make(&node, "read", Some("shop"));
    let list = node.get("/v1/keys").text();
    assert!(list.contains(&id), "{list}");
    assert!(
        !list.contains("hash") && !list.contains(token.rsplit('_').next().unwrap()),
        "{list}"
    );
    assert_eq!(
        node.send_as(Some(&token), "GET", "/v1/accounts", &[], "").status,
        200
    );
    assert_eq!(
        node.send("DELETE", &format!("/v1/keys/{id}"), &[], "").status,
        204
    );
    assert_eq!(
        node.send_as(Some(&token), "GET", "/v1/accounts", &[], "").status,
        401
    );
    let again = node.send("DELETE", &format!("/v1/keys/{id}"), &[], "");
    assert_eq!((again.status, again.kind().as_str()), (404, "unknown-key"));
    let bad = node.post("/v1/keys", None, r#"{"scope":"read","account":"../x"}"#);
    assert_eq!((bad.status, bad.kind().as_str()), (400, "invalid"));
}

#[test]
fn a_key_that_sends_too_much_is_slowed_down() {
    let node = Node::start(|options| options.http.rate = Some(3));
    let answers: Vec<Response> = (0..20).map(|_| node.get("/v1/accounts")).collect();
    let refused: Vec<&Response> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!(!refused.is_empty());
    assert_eq!(refused[0].kind(), "too-fast");
    assert_eq!(refused[0].header("retry-after"), Some("1"));
    assert!(answers[0].status == 200);
    // Health is not a matter of keys.
    assert_eq!(node.get("/healthz").status, 200);
}

#[test]
fn a_service_without_keys_answers_no_page_of_another_site() {
    let node = Node::open();
    let ask = |host: &str, more: &str| {
        let request = format!("GET /v1/accounts HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
        node.raw(request.as_bytes())
    };
    let own = node.address.to_string();
    assert_eq!(ask(&own, "").status, 200);
    assert_eq!(ask(&own, &format!("Origin: http://{own}\r\n")).status, 200);
    for (host, more) in [
        (own.as_str(), "Origin: https://evil.example\r\n"),
        ("evil.example", ""),
    ] {
        let answer = ask(host, more);
        assert_eq!((answer.status, answer.kind().as_str()), (403, "foreign-origin"));
    }
}

#[test]
fn a_service_without_keys_starts_on_a_loopback_address_alone() {
    use laau_serve::http::{Access, HttpOptions};
    use laau_serve::{AuthorityOptions, ServeOptions, Serving, StartError, StorePlace};
    let folder = tempfile::TempDir::new().unwrap();
    let started = Serving::start(ServeOptions {
        store: StorePlace::File(folder.path().join("store.laau")),
        listen: "0.0.0.0:0".parse().unwrap(),
        advertise: None,
        lease: Duration::from_secs(10),
        authority: AuthorityOptions::default(),
        http: HttpOptions {
            access: Access::InsecureLoopback,
            ..HttpOptions::default()
        },
        tls: None,
    });
    assert!(matches!(started, Err(StartError::NotLoopback { .. })));
}
