//! What commands print as JSON: reports, and one object or one per line.

use std::path::Path;

use laau::core::{align, four_digits};
use serde_json::{Value, json};

use super::inspect::facts;
use crate::failure::Failure;
use crate::output;

/// What commands print as JSON: one object, or one per line, of which the last is shown.
fn objects(values: &[Value]) -> (String, Value) {
    let mut rows = vec![
        ("kind", "figures".to_owned()),
        ("objects", values.len().to_string()),
    ];
    let last = values.last().and_then(Value::as_object);
    rows.extend(last.into_iter().flatten().map(|(name, value)| {
        let words = match value {
            Value::Object(fields) => format!("{} keys", fields.len()),
            Value::Array(entries) => format!("{} entries", entries.len()),
            Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), four_digits),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        (name.as_str(), words)
    }));
    (
        facts(&rows),
        json!({"kind": "figures", "objects": values.len(), "last": values.last()}),
    )
}

/// Describes the report of a comparison, or whatever else a command printed unless a report is expected.
pub(super) fn report(path: &Path, is_expected: bool) -> Result<(String, Value), Failure> {
    let no_report = |reason: &str| {
        Failure::new(
            format_args!("{}: no report: {reason}", path.display()),
            "reports are the summary.json that `laau compare -o DIR` writes",
        )
    };
    let text = output::read_text(path, "check the path and its permissions")?;
    let lines = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let values: Vec<Value> = lines
        .collect::<Result<_, _>>()
        .map_err(|error| no_report(&error.to_string()))?;
    let report = values.first().unwrap_or(&Value::Null);
    let (Some(problem), Some(horizon), Some(policies)) = (
        report.get("problem").and_then(Value::as_str),
        report.get("horizon").and_then(Value::as_u64),
        report.get("policies").and_then(Value::as_object),
    ) else {
        if !is_expected && values.iter().all(Value::is_object) {
            return Ok(objects(&values));
        }
        return Err(no_report("expected the keys problem, horizon and policies"));
    };
    let facts = facts(&[
        ("kind", "report".to_owned()),
        ("problem", problem.to_owned()),
        ("horizon", horizon.to_string()),
    ]);
    let rows: Vec<Vec<String>> = policies
        .iter()
        .map(|(name, figures)| {
            let figure = |key: &str| {
                figures
                    .get(key)
                    .and_then(Value::as_f64)
                    .map_or("-".to_owned(), four_digits)
            };
            let remaining = match figures.get("remaining_percent") {
                Some(Value::Array(all)) => {
                    let all: Vec<String> = all.iter().filter_map(Value::as_f64).map(four_digits).collect();
                    all.join(" ")
                }
                _ => figure("remaining_percent"),
            };
            let violations = figures.get("violations").map_or("-".to_owned(), Value::to_string);
            vec![
                name.clone(),
                figure("utility"),
                figure("fraction_of_opt"),
                remaining,
                violations,
            ]
        })
        .collect();
    let heading = ["policy", "utility", "of opt", "remaining %", "violations"];
    Ok((format!("{facts}\n{}", align(&heading, &rows)), report.clone()))
}
