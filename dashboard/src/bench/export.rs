//! Figures in the formats of dashboards: Bencher Metric Format and github-action-benchmark.

use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::history::Record;

/// Writes both files into a folder.
pub(super) fn write(record: &Record, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, content) in [
        ("bmf.json", bmf(record)),
        ("github-action-benchmark.json", github(record)),
    ] {
        let path = folder.join(name);
        std::fs::write(&path, serde_json::to_string_pretty(&content)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Bencher Metric Format: benchmark → measure → value, with the least sample and the ninth decile as its bounds.
pub(super) fn bmf(record: &Record) -> Value {
    let mut benchmarks: Map<String, Value> = Map::new();
    for figure in &record.figures {
        benchmarks.entry(figure.id.clone()).or_insert_with(|| json!({}))[figure.measure.slug()] =
            json!({ "value": figure.value, "lower_value": figure.low, "upper_value": figure.high });
    }
    Value::Object(benchmarks)
}

/// The format of github-action-benchmark's tool `customSmallerIsBetter`.
pub(super) fn github(record: &Record) -> Value {
    record
        .figures
        .iter()
        .map(|figure| {
            let name = match figure.measure {
                super::history::Measure::Latency => figure.id.clone(),
                super::history::Measure::Instructions => format!("{} (instructions)", figure.id),
            };
            json!({
                "name": name,
                "unit": figure.measure.unit(),
                "value": figure.value,
                "range": format!("± {:.1}", (figure.high - figure.low) / 2.0),
                "extra": format!("least {:.1}\n{} at {}", figure.low, record.machine.cpu, record.commit),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::bench::history::{Figure, Measure};

    fn record() -> Record {
        let mut record = Record::begin(Path::new("."), "small");
        for (id, measure) in [
            ("train/fused/N=20", Measure::Latency),
            ("train/fused/N=20", Measure::Instructions),
            ("opt/interior-point/d=4,M=2,N=20", Measure::Latency),
        ] {
            record.figures.push(Figure {
                id: id.to_owned(),
                measure,
                value: 12.5,
                low: 11.0,
                high: 14.0,
            });
        }
        record
    }

    /// The published schema of Bencher Metric Format (bencher.dev, reference, `bmf.json`): an object of objects of metrics, a
    /// metric has a number `value` and may have numbers `lower_value` and `upper_value`; names have at most 1024
    /// characters, measures at most 64.
    fn check_bmf(value: &Value) -> Result<(), String> {
        for (benchmark, measures) in value.as_object().ok_or("not an object")? {
            if benchmark.is_empty() || benchmark.len() > 1024 {
                return Err(format!("a name of {} characters", benchmark.len()));
            }
            for (measure, metric) in measures.as_object().ok_or("measures are not an object")? {
                if measure.is_empty() || measure.len() > 64 {
                    return Err(format!("a measure of {} characters", measure.len()));
                }
                let metric = metric.as_object().ok_or("a metric is not an object")?;
                if !metric.contains_key("value") {
                    return Err(format!("{benchmark}: {measure} has no value"));
                }
                for (key, number) in metric {
                    if !["value", "lower_value", "upper_value"].contains(&key.as_str()) || !number.is_number()
                    {
                        return Err(format!("{benchmark}: {measure}: {key} is {number}"));
                    }
                }
            }
        }
        Ok(())
    }

    /// What github-action-benchmark documents for custom tools: an array of entries with `name`, `unit` and a number
    /// `value`, and strings `range` and `extra` if wanted; it tells entries apart by name.
    fn check_github(value: &Value) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for entry in value.as_array().ok_or("not an array")? {
            let entry = entry.as_object().ok_or("an entry is not an object")?;
            for key in ["name", "unit", "range", "extra"] {
                if !entry.get(key).is_some_and(Value::is_string) {
                    return Err(format!("{key} is not text"));
                }
            }
            if !entry.get("value").is_some_and(Value::is_number) || entry.len() != 5 {
                return Err("value is not a number, or there is more".to_owned());
            }
            if !names.insert(entry["name"].as_str()) {
                return Err(format!("{} appears twice", entry["name"]));
            }
        }
        Ok(())
    }

    #[test]
    fn bencher_metric_format_has_the_published_shape() {
        let exported = bmf(&record());
        check_bmf(&exported).unwrap();
        assert_eq!(exported["train/fused/N=20"]["instructions"]["value"], 12.5);
        assert_eq!(exported["train/fused/N=20"]["latency"]["lower_value"], 11.0);
        assert!(check_bmf(&json!({"a": {"latency": {"lower_value": 1.0}}})).is_err());
        assert!(check_bmf(&json!({"a": {"latency": {"value": "1"}}})).is_err());
        assert!(check_bmf(&json!([1])).is_err());
    }

    #[test]
    fn github_action_benchmark_has_the_published_shape() {
        let exported = github(&record());
        check_github(&exported).unwrap();
        assert_eq!(exported.as_array().unwrap().len(), 3);
        assert_eq!(exported[1]["unit"], "instructions");
        assert!(check_github(&json!([{"name": "a", "unit": "ns", "value": "1"}])).is_err());
    }

    #[test]
    fn both_files_are_written_whole() {
        let folder = tempfile::tempdir().unwrap();
        write(&record(), folder.path()).unwrap();
        let read = |name: &str| -> Value {
            serde_json::from_slice(&std::fs::read(folder.path().join(name)).unwrap()).unwrap()
        };
        check_bmf(&read("bmf.json")).unwrap();
        check_github(&read("github-action-benchmark.json")).unwrap();
    }
}
