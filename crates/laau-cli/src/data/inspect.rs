//! `laau inspect`: what a file holds.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use laau::data::{
    AzureFunctions, AzureVm, Normalisation, OutOfRange, QUANTILES, Table, Trace, TraceStatistics,
    ValueStatistics,
};
use laau::net::{Checkpoint, Model, ModelSpec, Summary};
use serde_json::{Value, json};

use super::kind::{Kind, are_figures, is_store};
use super::printed::report;
use crate::config::{ConfigFile, Flags, TableSection};
use crate::decide;
use crate::failure::Failure;
use crate::output;
use crate::saved::{read_model, read_policy};
use crate::sets::{expect_file, range};
use crate::train::best_epoch;
use laau::baselines::Stored;
use laau::core::{Constants, Episodes, GuardedDocument, Scaling, TrainedOn, ValueRange, align, four_digits};

/// The arguments as they are typed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  $ laau inspect episodes.parquet
  $ laau inspect model.safetensors --format json")]
pub(crate) struct InspectArgs {
    /// A trace, an episodes table, a model, a checkpoint, a policy file, a journal, a report, or a table of figures: rollouts,
    /// steps, the log of a training
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What the file is; found by its content and name if not given
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,
    /// How it is told
    #[arg(long, default_value = "table")]
    format: Format,
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    table: Flags<TableSection>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

impl InspectArgs {
    fn table_section(&self) -> Result<TableSection, Failure> {
        self.config.read()?.section(&self.table)
    }
}

/// Describes a file.
pub(crate) fn run(arguments: &InspectArgs) -> Result<(), Failure> {
    let path = &arguments.file;
    expect_report(path)?;
    expect_file(path)?;
    if arguments.kind.is_none() && is_store(path) {
        return Err(Failure::new(
            format_args!("{}: this is a store of `laau serve`", path.display()),
            format_args!(
                "open it with `laau serve --store {}`; its accounts are listed at GET /v1/accounts",
                path.display()
            ),
        ));
    }
    let kind = arguments.kind.unwrap_or_else(|| Kind::of(path));
    let (text, value) = match kind {
        Kind::Model => model(path)?,
        Kind::Checkpoint => checkpoint(path)?,
        Kind::Policy => policy(path)?,
        Kind::Journal => journal(path)?,
        Kind::Report => report(path, arguments.kind.is_some())?,
        Kind::AzureVm => {
            let options = laau::data::AzureVmOptions {
                paths: vec![pattern(path)],
                ..laau::data::AzureVmOptions::default()
            };
            trace(&AzureVm::open(options)?)?
        }
        Kind::AzureFunctions => {
            let options = laau::data::AzureFunctionsOptions {
                invocations: vec![pattern(path)],
                ..laau::data::AzureFunctionsOptions::default()
            };
            trace(&AzureFunctions::open(&options)?)?
        }
        Kind::Table => trace(&Table::open(
            arguments.table_section()?.options(&[pattern(path)]),
        )?)?,
        Kind::Figures => figures(path)?,
        Kind::Episodes => match laau::data::read_episodes(path) {
            Ok(set) => episodes(&set),
            Err(laau::data::Error::MissingColumn { .. })
                if arguments.kind.is_none()
                    && arguments.table.0 == TableSection::default()
                    && are_figures(&laau::data::table_columns(path)?) =>
            {
                figures(path)?
            }
            // A table without the columns of episodes may be a trace; without those, too, it has figures.
            Err(laau::data::Error::MissingColumn { .. }) if arguments.kind.is_none() => {
                match Table::open(arguments.table_section()?.options(&[pattern(path)])) {
                    Err(laau::data::Error::MissingColumn { .. })
                        if arguments.table.0 == TableSection::default() =>
                    {
                        figures(path)?
                    }
                    opened => trace(&opened?)?,
                }
            }
            Err(error) => return Err(error.into()),
        },
    };
    match arguments.format {
        Format::Table => output::print(text),
        Format::Json => output::print(format!("{value:#}\n")),
    }
}

/// Names the report in a folder that `laau compare -o` made, whoever names the folder.
fn expect_report(path: &Path) -> Result<(), Failure> {
    let report = path.join("summary.json");
    if !report.is_file() {
        return Ok(());
    }
    Err(Failure::new(
        format_args!("{}: this is a folder", path.display()),
        format_args!("its report is {}", report.display()),
    ))
}

/// The columns of a table of figures.
fn figures(path: &Path) -> Result<(String, Value), Failure> {
    let found = laau::data::inspect_table(path)?;
    let rows: Vec<Vec<String>> = found
        .columns
        .iter()
        .map(|column| {
            let mut row = vec![column.name.clone(), column.missing.to_string()];
            match column.numbers {
                Some(numbers) => row.extend(numbers.map(four_digits)),
                None => row.extend(["-", "-", "-"].map(str::to_owned)),
            }
            row.push(
                column
                    .words
                    .as_ref()
                    .map_or(String::new(), |words| words.join(" ")),
            );
            row
        })
        .collect();
    let facts = facts(&[("kind", "figures".to_owned()), ("rows", found.rows.to_string())]);
    let heading = ["column", "missing", "min", "mean", "max", "words"];
    Ok((
        format!("{facts}\n{}", align(&heading, &rows)),
        json!({"kind": "figures", "table": found}),
    ))
}

/// A path as a pattern that matches it alone.
fn pattern(path: &Path) -> String {
    let mut pattern = String::new();
    for letter in path.to_string_lossy().chars() {
        match letter {
            '*' | '?' | '[' | ']' => pattern.extend(['[', letter, ']']),
            _ => pattern.push(letter),
        }
    }
    pattern
}

fn trace(trace: &dyn Trace) -> Result<(String, Value), Failure> {
    let statistics = laau::data::inspect_trace(trace, Normalisation::None, OutOfRange::Error)?;
    let TraceStatistics { counts, .. } = &statistics;
    let rows = [
        ("kind", "trace".to_owned()),
        ("readings", counts.readings.to_string()),
        ("series", counts.series.to_string()),
        ("gaps", counts.gaps.to_string()),
        (
            "step",
            statistics.step.map_or("-".to_owned(), |step| step.to_string()),
        ),
        (
            "times",
            statistics
                .times
                .map_or("-".to_owned(), |(first, last)| format!("{first} to {last}")),
        ),
        (
            "dropped",
            (counts.dropped.filtered + counts.dropped.unlisted).to_string(),
        ),
    ];
    let text = format!("{}\n{}", facts(&rows), values(&statistics.values));
    Ok((text, json!({"kind": "trace", "statistics": statistics})))
}

fn episodes(set: &Episodes) -> (String, Value) {
    let statistics = laau::data::inspect_episodes(set);
    let mut rows = vec![
        ("kind", "episodes".to_owned()),
        ("episodes", statistics.episodes.to_string()),
        ("horizon", statistics.horizon.to_string()),
    ];
    rows.extend(
        set.scaling()
            .map(|scaling| ("normalisation", normalisation(scaling))),
    );
    let text = format!(
        "{}\n{}\nper step:\n{}",
        facts(&rows),
        values(&statistics.contexts),
        values(&statistics.budgets_per_step)
    );
    let value = json!({"kind": "episodes", "statistics": statistics, "normalisation": set.scaling()});
    (text, value)
}

fn model(path: &Path) -> Result<(String, Value), Failure> {
    let (Model { spec, parameters, .. }, summary) =
        read_model(path, "leave --kind out").map(|(model, summary, _)| (model, summary))?;
    let Summary {
        seed,
        epochs,
        best_validation_utility,
        gradients,
        episodes,
        version,
        trained_on,
        ..
    } = &summary;
    let mut rows = vec![("kind", "model".to_owned())];
    rows.extend(told_of_spec(&spec));
    rows.extend([
        ("weights", parameters.len().to_string()),
        ("seed", seed.to_string()),
        ("epochs", epochs.to_string()),
        (
            "best epoch",
            best_epoch(&summary).map_or("-".to_owned(), |epoch| epoch.to_string()),
        ),
        (
            "validation utility",
            best_validation_utility.map_or("-".to_owned(), four_digits),
        ),
        ("training episodes", episodes.to_string()),
        (
            "gradients",
            format!("{} exact, {} approximate", gradients.exact, gradients.approximate),
        ),
        ("laau version", version.clone()),
    ]);
    rows.extend(told_of(trained_on.as_ref()));
    let mut training = json!(summary);
    training["best_epoch"] = json!(best_epoch(&summary));
    let value = json!({"kind": "model", "spec": spec, "weights": parameters.len(), "training": training});
    Ok((facts(&rows), value))
}

/// What a model is for, and made of.
fn told_of_spec(spec: &ModelSpec) -> Vec<(&'static str, String)> {
    let box_and_more = spec
        .parameters
        .iter()
        .map(|(name, value)| format!("{name} = {value}"));
    vec![
        ("problem", spec.problem.clone()),
        ("of the problem", box_and_more.collect::<Vec<_>>().join(", ")),
        ("horizon", range(&spec.horizons())),
        ("actions", spec.dimensions.actions.to_string()),
        ("budgets", spec.dimensions.budgets.to_string()),
        ("context", spec.dimensions.context.to_string()),
        ("network", shown(&spec.network)),
        ("features", shown(&spec.features)),
        ("output", shown(&spec.output)),
        ("form", shown(&spec.form)),
    ]
}

fn checkpoint(path: &Path) -> Result<(String, Value), Failure> {
    let checkpoint = Checkpoint::load(path)?;
    let (spec, settings) = (checkpoint.best_model().spec, checkpoint.settings());
    let best = checkpoint
        .history()
        .iter()
        .filter_map(|record| record.validation_utility)
        .reduce(f64::max);
    let loss = checkpoint.history().last().map(|record| record.loss);
    let mut rows = vec![("kind", "checkpoint".to_owned())];
    rows.extend(told_of_spec(&spec));
    rows.extend([
        ("seed", settings.seed.to_string()),
        (
            "epochs",
            format!("{} of {}", checkpoint.epochs_done(), settings.epochs()),
        ),
        ("loss", loss.map_or("-".to_owned(), four_digits)),
        ("validation utility", best.map_or("-".to_owned(), four_digits)),
    ]);
    let value = json!({"kind": "checkpoint", "spec": spec, "settings": settings,
        "epochs_done": checkpoint.epochs_done(), "epochs": settings.epochs(), "loss": loss, "validation_utility": best});
    Ok((facts(&rows), value))
}

fn journal(path: &Path) -> Result<(String, Value), Failure> {
    let looked = decide::look(path)?;
    let header = looked.episode;
    let list = |values: &Value| parameter(values).replace(", ", " ");
    let mut rows = vec![
        ("kind", "journal".to_owned()),
        (
            "policy",
            header["policy"]["name"].as_str().unwrap_or_default().to_owned(),
        ),
    ];
    rows.extend(told_of_problem(&header["problem"]));
    rows.extend([
        ("horizon", header["horizon"].to_string()),
        ("budgets", list(&header["budgets"])),
        (
            "decisions",
            format!("{} of {}", looked.decisions, header["horizon"]),
        ),
        ("remaining", list(&json!(looked.remaining))),
        ("fallbacks", looked.fallbacks.to_string()),
    ]);
    rows.extend(looked.broken_line.map(|line| {
        (
            "broken",
            format!("line {line} is cut off or damaged; those after it are not read"),
        )
    }));
    let value = json!({"kind": "journal", "episode": header, "decisions": looked.decisions,
        "remaining": looked.remaining, "fallbacks": looked.fallbacks, "broken_line": looked.broken_line});
    Ok((facts(&rows), value))
}

/// A problem's name, and its parameters.
fn told_of_problem(problem: &Value) -> Vec<(&'static str, String)> {
    let parameters = problem.as_object().into_iter().flatten();
    let parameters: Vec<String> = parameters
        .filter(|(name, _)| *name != "name")
        .map(|(name, value)| format!("{name} = {}", parameter(value)))
        .collect();
    vec![
        ("problem", problem["name"].as_str().unwrap_or_default().to_owned()),
        ("of the problem", parameters.join(", ")),
    ]
}

/// A parameter as a person writes it: 40, not 40.0.
fn parameter(value: &Value) -> String {
    match value {
        Value::Array(values) => values.iter().map(parameter).collect::<Vec<_>>().join(", "),
        _ => value
            .as_f64()
            .map_or_else(|| shown(value), |number| number.to_string()),
    }
}

fn policy(path: &Path) -> Result<(String, Value), Failure> {
    let (policy, _) = read_policy(path, "leave --kind out")?;
    let mut rows = vec![("kind", "policy".to_owned()), ("policy", policy.name.clone())];
    rows.extend(told_of_problem(&json!(policy.problem)));
    rows.push((
        "horizon",
        match &policy.horizons {
            Some(horizons) => range(horizons),
            None => format!("any; fitted at {}", policy.horizon),
        },
    ));
    let guard = (policy.document.kind == GuardedDocument::KIND)
        .then(|| GuardedDocument::from_bytes(&policy.document.bytes))
        .transpose()?;
    let fitted = match &guard {
        None => part(policy.document.kind, &policy.document.bytes).1,
        Some(_) => Value::Null,
    };
    rows.extend(told_of_fit("fitted", &fitted));
    let mut parts = Value::Null;
    if let Some(guard) = &guard {
        let [advice, incumbent] = [&guard.advice, &guard.incumbent].map(|(kind, bytes)| part(kind, bytes));
        rows.push(("guard level", guard.level.to_string()));
        rows.push(("advice", advice.0));
        rows.extend(told_of_fit("of the advice", &advice.1));
        rows.push(("incumbent", incumbent.0));
        rows.extend(told_of_fit("of the incumbent", &incumbent.1));
        parts = json!({"advice": advice.1, "incumbent": incumbent.1});
    }
    rows.extend(told_of(policy.trained_on.as_ref()));
    let value = json!({"kind": "policy", "policy": policy.name, "problem": policy.problem, "fitted": fitted, "parts": parts,
        "horizon": policy.horizon, "horizons": policy.horizons.map(|steps| [*steps.start(), *steps.end()]), "guard_level": guard.map(|guard| guard.level), "trained_on": policy.trained_on});
    Ok((facts(&rows), value))
}

/// A stored policy by its kind and bytes: its name, and what was fitted if it says so in words.
fn part(kind: &str, bytes: &[u8]) -> (String, Value) {
    let content: Value = match kind {
        Stored::KIND => serde_json::from_slice(bytes).unwrap_or_default(),
        _ => Value::Null,
    };
    let name = content["policy"].as_str().unwrap_or(kind).to_owned();
    (name, content)
}

/// The numbers and words of what was fitted; of a long list, how long it is.
fn told_of_fit(what: &'static str, fitted: &Value) -> Option<(&'static str, String)> {
    const LONGEST: usize = 8;
    fn collect(name: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            // One of several ways to say it: the names are those of `--parameter`.
            Value::Object(fields) if fields.len() == 1 => {
                let name = if name == "scale" { "price-scale" } else { name };
                fields.values().for_each(|value| collect(name, value, found));
            }
            Value::Object(fields) => fields
                .iter()
                .for_each(|(name, value)| collect(name, value, found)),
            Value::Array(values)
                if values.len() > LONGEST || values.iter().any(|v| v.is_array() || v.is_object()) =>
            {
                found.push(format!("{name}: {} entries", values.len()));
            }
            Value::Null => {}
            value => found.push(format!("{name} = {}", parameter(value))),
        }
    }
    let mut found = Vec::new();
    for (name, value) in fitted.as_object()?.iter().filter(|(name, _)| *name != "policy") {
        collect(name, value, &mut found);
    }
    (!found.is_empty()).then(|| (what, found.join(", ")))
}

/// What a file tells of the contexts that it was made from.
fn told_of(trained_on: Option<&TrainedOn>) -> Vec<(&'static str, String)> {
    let Some(TrainedOn {
        scaling,
        contexts,
        budgets,
    }) = trained_on
    else {
        return Vec::new();
    };
    let told = |ranges: &[ValueRange]| {
        let ranges = ranges.iter().map(|range| {
            let [min, max, mean, std] = [range.min, range.max, range.mean, range.std].map(four_digits);
            format!("{min} to {max}, mean {mean}, std {std}")
        });
        ranges.collect::<Vec<_>>().join("; ")
    };
    let mut rows: Vec<_> = scaling
        .iter()
        .map(|scaling| ("normalisation", normalisation(scaling)))
        .collect();
    rows.push(("training contexts", told(contexts)));
    if !budgets.is_empty() {
        rows.push(("budgets per step", told(budgets)));
    }
    rows
}

/// How readings became contexts, in a line.
pub(super) fn normalisation(scaling: &Scaling) -> String {
    let Scaling {
        kind,
        columns,
        constants,
    } = scaling;
    let columns: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    let constants = match constants {
        Constants::Shared(_) => "the same for every series".to_owned(),
        Constants::PerSeries(series) => format!("constants of {} series", series.len()),
    };
    format!("{kind} of {}, {constants}", columns.join(", "))
}

/// A setting as its file spells it.
fn shown(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_default();
    text.trim_matches('"').to_owned()
}

pub(super) fn facts(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines: Vec<String> = rows
        .iter()
        .map(|(name, value)| {
            format!(
                "{name:width$}  {value}
"
            )
        })
        .collect();
    lines.concat()
}

fn values(values: &[ValueStatistics]) -> String {
    let quantiles = QUANTILES.map(|q| format!("{}%", q * 100.0));
    let mut heading = vec!["value", "mean", "std", "min"];
    heading.extend(quantiles.iter().map(String::as_str));
    heading.extend(["max", "zeros", "autocorrelation"]);
    let rows: Vec<Vec<String>> = values
        .iter()
        .map(|v| {
            let mut row = vec![
                v.name.clone(),
                four_digits(v.mean),
                four_digits(v.std),
                four_digits(v.min),
            ];
            row.extend(v.quantiles.map(four_digits));
            row.extend([
                four_digits(v.max),
                v.zeros.to_string(),
                four_digits(v.autocorrelation),
            ]);
            row
        })
        .collect();
    align(&heading, &rows)
}
