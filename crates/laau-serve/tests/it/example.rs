//! The worked example of docs/serve.md is what the service answers.

use serde_json::Value;

use crate::place::Place;

/// One request of the example, and the answer that stands there.
#[derive(Debug)]
struct Exchange {
    method: String,
    path: String,
    key: String,
    body: Option<Value>,
    status: u16,
    answer: Value,
}

/// Reads blocks of `METHOD PATH [KEY]`, a body if there is one, and `STATUS ANSWER`.
fn exchanges(document: &str) -> Vec<Exchange> {
    let mut found = Vec::new();
    for block in document.split("```http\n").skip(1) {
        let block = block.split("```").next().unwrap();
        let mut lines = block.lines().filter(|line| !line.trim().is_empty()).peekable();
        while let Some(request) = lines.next() {
            let mut words = request.split_whitespace();
            let (method, path) = (words.next().unwrap(), words.next().unwrap());
            let body = lines
                .next_if(|line| line.starts_with('{'))
                .map(|line| serde_json::from_str(line).unwrap());
            let (status, answer) = lines.next().unwrap().split_once(' ').unwrap();
            found.push(Exchange {
                method: method.to_owned(),
                path: path.to_owned(),
                key: words.next_back().unwrap_or("-").to_owned(),
                body,
                status: status.parse().unwrap(),
                answer: serde_json::from_str(answer).unwrap(),
            });
        }
    }
    found
}

/// The part of an answer that the document shows: it may leave fields out.
fn shown(answer: &Value, document: &Value) -> Value {
    match (answer, document) {
        (Value::Object(answer), Value::Object(document)) => document
            .iter()
            .map(|(name, value)| {
                (
                    name.clone(),
                    shown(answer.get(name).unwrap_or(&Value::Null), value),
                )
            })
            .collect(),
        _ => answer.clone(),
    }
}

#[test]
fn the_example_of_the_document_is_what_the_service_answers() {
    let document =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve.md")).unwrap();
    let exchanges = exchanges(&document);
    assert!(exchanges.len() >= 8, "found {}", exchanges.len());
    let place = Place::open();
    for exchange in exchanges {
        let (status, answer) = place.ask(
            &exchange.method,
            &exchange.path,
            &exchange.key,
            exchange.body.as_ref(),
        );
        let shown = shown(&answer, &exchange.answer);
        assert_eq!(
            (status, &shown),
            (exchange.status, &exchange.answer),
            "{exchange:#?} was answered {answer}"
        );
    }
}
