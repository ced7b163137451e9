//! The figures as a table, JSON, CSV or Markdown.

use clap::ValueEnum;
use laau::core::Report;

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

impl Format {
    pub(super) fn text(self, report: &Report) -> Result<String, Failure> {
        Ok(match self {
            Self::Table => report.to_string(),
            Self::Markdown => report.to_markdown(),
            Self::Csv => report.to_csv(),
            Self::Json => json(report)?,
        })
    }
}

/// The JSON of a report, for people's eyes, too.
pub(super) fn json(report: &Report) -> Result<String, Failure> {
    serde_json::to_string_pretty(report)
        .map(|text| text + "\n")
        .map_err(|error| Failure::output(&error.into()))
}
