//! The document describes what is there, and what is there is as it describes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::node::{Node, Response, SPEC};

/// The sources of the routes, to find one that the document forgot.
const ROUTES: &str = include_str!("../../../src/http/routes.rs");

struct Document {
    whole: Value,
}

impl Document {
    fn of(node: &Node) -> Self {
        Self {
            whole: node.get("/openapi.json").json(),
        }
    }

    fn paths(&self) -> &serde_json::Map<String, Value> {
        self.whole["paths"].as_object().unwrap()
    }

    /// The schema of an answer.
    fn answer(&self, method: &str, path: &str, status: u16) -> Option<Value> {
        let answer = &self.paths()[path][method]["responses"][status.to_string()];
        assert!(
            answer.is_object(),
            "{method} {path} has no {status} in the document"
        );
        let content = answer["content"].as_object()?;
        Some(content.values().next().unwrap()["schema"].clone())
    }

    /// Checks a value: types, names, and that what is required is there.
    fn check(&self, schema: &Value, value: &Value, place: &str) {
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.strip_prefix("#/components/schemas/").unwrap();
            return self.check(&self.whole["components"]["schemas"][name], value, place);
        }
        for several in ["oneOf", "anyOf"] {
            if let Some(choices) = schema[several].as_array() {
                let fits = |choice: &Value| {
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        self.check(choice, value, place);
                    }))
                    .is_ok()
                };
                assert!(
                    choices.iter().any(fits),
                    "{place}: {value} is none of {choices:?}"
                );
                return;
            }
        }
        if let Some(parts) = schema["allOf"].as_array() {
            return self.check_all(parts, value, place);
        }
        let types: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(several) => several.iter().map(|one| one.as_str().unwrap()).collect(),
            _ => return,
        };
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let fits = types.contains(&found) || (found == "integer" && types.contains(&"number"));
        assert!(fits, "{place}: {value} is no {types:?}");
        if let Some(values) = schema["enum"].as_array() {
            assert!(values.contains(value), "{place}: {value} is none of {values:?}");
        }
        match value {
            Value::Array(items) => items
                .iter()
                .for_each(|item| self.check(&schema["items"], item, place)),
            Value::Object(fields) => self.check_fields(std::slice::from_ref(schema), fields, place),
            _ => {}
        }
    }

    fn check_all(&self, parts: &[Value], value: &Value, place: &str) {
        let whole: Vec<Value> = parts
            .iter()
            .map(|part| match part["$ref"].as_str() {
                Some(name) => self.whole["components"]["schemas"][name.rsplit('/').next().unwrap()].clone(),
                None => part.clone(),
            })
            .collect();
        self.check_fields(&whole, value.as_object().unwrap(), place);
    }

    fn check_fields(&self, parts: &[Value], fields: &serde_json::Map<String, Value>, place: &str) {
        for part in parts {
            for name in part["required"].as_array().into_iter().flatten() {
                assert!(
                    fields.contains_key(name.as_str().unwrap()),
                    "{place}: no {name} in {fields:?}"
                );
            }
        }
        for (name, value) in fields {
            let known = parts.iter().find_map(|part| part["properties"].get(name));
            let is_free = parts.iter().any(|part| {
                part["additionalProperties"] == json!(true)
                    || part["additionalProperties"].is_object()
                    || part["properties"].is_null()
            });
            match known {
                Some(schema) => self.check(schema, value, &format!("{place}.{name}")),
                None => assert!(is_free, "{place}: {name} is not in the document"),
            }
        }
    }
}

#[test]
fn every_route_is_in_the_document_with_its_methods() {
    let node = Node::open();
    let document = Document::of(&node);
    assert_eq!(document.whole["openapi"], "3.1.0");
    let routed: BTreeSet<&str> = ROUTES
        .split(".route(")
        .skip(1)
        .map(|rest| rest.split('"').nth(1).unwrap())
        .filter(|path| *path != "/" && !path.starts_with("/page/"))
        .collect();
    let described: BTreeSet<&str> = document.paths().keys().map(String::as_str).collect();
    assert_eq!(routed, described);
    assert!(routed.len() > 12);
    for (path, methods) in document.paths() {
        let real = path
            .replace("{account}", "a")
            .replace("{decision}", "0-0")
            .replace("{period}", "0")
            .replace("{id}", "a");
        let answer = node.send("TRACE", &real, &[], "");
        let allowed: BTreeSet<String> = answer
            .header("allow")
            .unwrap()
            .split(',')
            .map(str::to_lowercase)
            .filter(|method| method != "head")
            .collect();
        let described: BTreeSet<String> = methods.as_object().unwrap().keys().cloned().collect();
        assert_eq!(allowed, described, "{path}");
    }
}

#[test]
fn every_answer_is_as_the_document_says() {
    let node = Node::start(|_| {});
    let document = Document::of(&node);
    let seen = std::cell::RefCell::new(BTreeSet::new());
    let check = |method: &str, path: &str, real: &str, answer: &Response| {
        let schema = document.answer(method, path, answer.status);
        if let Some(schema) = schema.filter(|_| !answer.body.is_empty() && real != "/metrics") {
            document.check(&schema, &answer.json(), &format!("{method} {path}"));
        }
        seen.borrow_mut().insert((method.to_owned(), path.to_owned()));
    };
    let get = |path: &str, real: &str| check("get", path, real, &node.get(real));
    let post = |path: &str, real: &str, key: &str, body: &str| {
        let answer = node.post(real, Some(key), body);
        check("post", path, real, &answer);
        answer
    };
    let spec = SPEC.replace(
        "\"budgets\"",
        r#""guard":{"policy":{"name":"equal"}},"rollover":true,"budgets""#,
    );
    post("/v1/accounts", "/v1/accounts", "-", &spec);
    post(
        "/v1/accounts",
        "/v1/accounts",
        "-",
        &spec
            .replace("shop", "clock")
            .replace("\"budgets\"", r#""period":{"seconds":3600},"budgets""#),
    );
    post("/v1/accounts", "/v1/accounts", "-", "{}");
    let decisions = "/v1/accounts/{account}/decisions";
    for key in ["a", "b", "c", "a"] {
        post(
            decisions,
            "/v1/accounts/shop/decisions",
            key,
            r#"{"context":[0.5]}"#,
        );
    }
    post(
        decisions,
        "/v1/accounts/shop/decisions",
        "x",
        r#"{"context":[0.5,1]}"#,
    );
    post(
        decisions,
        "/v1/accounts/nobody/decisions",
        "x",
        r#"{"context":[0.5]}"#,
    );
    let settlement = "/v1/accounts/{account}/decisions/{decision}/settlement";
    post(
        settlement,
        "/v1/accounts/shop/decisions/0-0/settlement",
        "d",
        r#"{"usage":[0.5]}"#,
    );
    post(
        settlement,
        "/v1/accounts/shop/decisions/0-0/settlement",
        "e",
        r#"{"usage":[0.5]}"#,
    );
    post(
        "/v1/accounts/{account}/decisions/{decision}/release",
        "/v1/accounts/shop/decisions/0-1/release",
        "f",
        "",
    );
    post(
        "/v1/accounts/{account}/skip",
        "/v1/accounts/shop/skip",
        "g",
        r#"{"steps":2}"#,
    );
    post(
        "/v1/accounts/{account}/periods",
        "/v1/accounts/shop/periods",
        "h",
        "",
    );
    get("/v1/accounts", "/v1/accounts");
    get("/v1/accounts/{account}", "/v1/accounts/shop");
    get(
        "/v1/accounts/{account}/periods/{period}/entries",
        "/v1/accounts/shop/periods/0/entries",
    );
    get("/healthz", "/healthz");
    get("/readyz", "/readyz");
    get("/metrics", "/metrics");
    get("/openapi.json", "/openapi.json");
    let made = post(
        "/v1/keys",
        "/v1/keys",
        "-",
        r#"{"scope":"read","account":"shop"}"#,
    )
    .json();
    get("/v1/keys", "/v1/keys");
    let real = format!("/v1/keys/{}", made["id"].as_str().unwrap());
    check(
        "delete",
        "/v1/keys/{id}",
        &real,
        &node.send("DELETE", &real, &[], ""),
    );
    check(
        "delete",
        "/v1/accounts/{account}",
        "/v1/accounts/clock",
        &node.send("DELETE", "/v1/accounts/clock", &[], ""),
    );
    // Streams do not end; their notices are made of what was checked above.
    seen.borrow_mut()
        .insert(("get".to_owned(), "/v1/accounts/{account}/events".to_owned()));
    let described = document.paths().iter().flat_map(|(path, methods)| {
        methods
            .as_object()
            .unwrap()
            .keys()
            .map(move |method| (method.clone(), path.clone()))
    });
    assert_eq!(*seen.borrow(), described.collect::<BTreeSet<_>>());
}
