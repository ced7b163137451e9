//! The figures as a table, JSON, CSV or Markdown.

use clap::ValueEnum;

use super::summary::{PolicySummary, Summary};
use crate::data::{number, table};
use crate::failure::Failure;

/// How figures are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Columns that line up, rounded
    Table,
    /// One JSON object, as in summary.json
    Json,
    /// Full precision, one row per policy
    Csv,
    /// A table in Markdown, rounded
    Markdown,
}

/// The columns of tables for people.
const HEADING: [&str; 11] = [
    "policy",
    "utility",
    "of opt",
    "remaining %",
    "min",
    "25%",
    "50%",
    "75%",
    "max",
    "violations",
    "µs/decision",
];

impl Format {
    pub(super) fn text(self, summary: &Summary) -> Result<String, Failure> {
        Ok(match self {
            Self::Table => table(
                &HEADING,
                &summary.policies.iter().map(rounded).collect::<Vec<_>>(),
            ),
            Self::Markdown => markdown(summary),
            Self::Csv => csv(summary),
            Self::Json => json(summary)?,
        })
    }
}

/// The JSON of a summary, for people's eyes, too.
pub(super) fn json(summary: &Summary) -> Result<String, Failure> {
    serde_json::to_string_pretty(summary)
        .map(|text| text + "\n")
        .map_err(|error| Failure::output(&error.into()))
}

fn rounded(policy: &PolicySummary) -> Vec<String> {
    let remaining: Vec<String> = policy
        .remaining_percent
        .iter()
        .map(|percent| format!("{percent:.2}"))
        .collect();
    let mut row = vec![
        policy.name.clone(),
        number(policy.utility),
        policy
            .fraction_of_opt
            .map_or("-".to_owned(), |fraction| format!("{fraction:.4}")),
        remaining.join(" "),
    ];
    row.extend(policy.quantiles.map(number));
    row.push(policy.violations.to_string());
    row.push(format!("{:.2}", policy.microseconds_per_decision));
    row
}

fn markdown(summary: &Summary) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&HEADING.map(str::to_owned));
    text.push_str("|---|");
    text.push_str(&"--:|".repeat(HEADING.len() - 1));
    text.push('\n');
    for policy in &summary.policies {
        text.push_str(&line(&rounded(policy)));
    }
    text
}

fn csv(summary: &Summary) -> String {
    let budgets = summary
        .policies
        .first()
        .map_or(1, |policy| policy.remaining_percent.len());
    let remaining = match budgets {
        1 => "remaining_percent".to_owned(),
        several => {
            let names: Vec<String> = (0..several).map(|m| format!("remaining_percent_{m}")).collect();
            names.join(",")
        }
    };
    let mut text = format!(
        "policy,utility,fraction_of_opt,{remaining},min,q25,median,q75,max,violations,failures,projections,\
         exact_gradients,approximate_gradients,microseconds_per_decision\n"
    );
    for policy in &summary.policies {
        let mut row = vec![policy.name.clone(), policy.utility.to_string()];
        row.push(
            policy
                .fraction_of_opt
                .map_or(String::new(), |fraction| fraction.to_string()),
        );
        row.extend(policy.remaining_percent.iter().map(f64::to_string));
        row.extend(policy.quantiles.map(|quantile| quantile.to_string()));
        row.extend([policy.violations, policy.failures, policy.projections].map(|count| count.to_string()));
        row.extend(match policy.gradients {
            Some(counts) => [counts.exact.to_string(), counts.approximate.to_string()],
            None => [String::new(), String::new()],
        });
        row.push(policy.microseconds_per_decision.to_string());
        text.push_str(&row.join(","));
        text.push('\n');
    }
    text
}
