//! Configuration: defaults, then a TOML file, then flags; whatever comes later wins.

mod episodes;
mod flags;
mod keys;
mod model;
mod problem;
mod training;
mod workload;

use std::path::Path;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub(crate) use self::episodes::{AzureFunctionsConfig, AzureVmConfig, EpisodesConfig, TableConfig};
pub(crate) use self::flags::{ConfigFlags, Scope, scope};
use self::keys::{Key, SECTIONS, Section};
pub(crate) use self::model::ModelConfig;
pub(crate) use self::problem::ProblemConfig;
pub(crate) use self::training::{LearningConfig, TrainingConfig};
pub(crate) use self::workload::WorkloadConfig;
use crate::failure::{Failure, Hint as _};
use crate::suggest;

/// The settings of every command, section by section.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Config {
    /// What is decided.
    pub(crate) problem: ProblemConfig,
    /// What a model is made of.
    pub(crate) model: ModelConfig,
    /// Offline training.
    pub(crate) training: TrainingConfig,
    /// Online training.
    pub(crate) learning: LearningConfig,
    /// The synthetic workload.
    pub(crate) workload: WorkloadConfig,
    /// How episodes are made of a trace.
    pub(crate) episodes: EpisodesConfig,
    /// What is taken of the Azure VM trace.
    pub(crate) azure_vm: AzureVmConfig,
    /// What is taken of the Azure Functions trace.
    pub(crate) azure_functions: AzureFunctionsConfig,
    /// What the columns of a table mean.
    pub(crate) table: TableConfig,
}

impl Config {
    /// The defaults, a file if there is one, and the flags that were given.
    fn load(file: Option<&Path>, flags: &[(&Section, &Key, &str)]) -> Result<Self, Failure> {
        let mut table = default_table()?;
        if let Some(path) = file {
            overlay(&mut table, read(path)?);
        }
        for (section, key, text) in flags {
            let value = key.parse(text).map_err(|reason| {
                Failure::new(
                    format_args!("`{text}` is no value of --{}: {reason}", key.flag),
                    format_args!("it is used like this: --{} {}", key.flag, key.flag_example()),
                )
            })?;
            insert(&mut table, section.name, key.name, value);
        }
        Self::from_table(table)
    }

    fn from_table(table: Table) -> Result<Self, Failure> {
        Value::Table(table)
            .try_into()
            .map_err(|error: toml::de::Error| one_line(&error.to_string()))
            .hint("`laau config --default` shows every key with a value that fits")
    }

    /// The defaults and a text.
    #[cfg(test)]
    fn from_text(text: &str) -> Result<Self, Failure> {
        let mut table = default_table()?;
        overlay(&mut table, text.parse().expect("TOML"));
        Self::from_table(table)
    }
}

/// The default configuration with a comment on every key: a file that runs as it is.
pub(crate) fn default_text() -> String {
    let mut text = String::from(
        "# The configuration of laau: every key with its default.\n\
         # `laau COMMAND --config FILE` reads it; the flag named in a comment overrides the key.\n",
    );
    for section in SECTIONS {
        text += &["\n# ", section.help, "\n[", section.name, "]\n"].concat();
        for key in section.keys {
            text += &["# ", key.help, " (--", key.flag, ")\n"].concat();
            let unset = if key.is_set_by_default { "" } else { "# " };
            text += &[unset, key.name, " = ", key.example, "\n"].concat();
        }
    }
    text
}

fn default_table() -> Result<Table, Failure> {
    default_text()
        .parse()
        .hint("this is a mistake in laau itself: please report it")
}

fn read(path: &Path) -> Result<Table, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::file(
            path,
            &error,
            "`laau config --default` prints a configuration to start from",
        )
    })?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| {
            text[..span.start.min(text.len())].matches('\n').count() + 1
        });
        Failure::new(
            format_args!("{}, line {line}: {}", path.display(), one_line(error.message())),
            "the file is TOML; `laau config --default` shows one",
        )
    })?;
    check_keys(path, &table)?;
    Ok(table)
}

/// Refuses what no command knows, and names the nearest that is known.
fn check_keys(path: &Path, table: &Table) -> Result<(), Failure> {
    for (name, value) in table {
        let Some(section) = SECTIONS.iter().find(|section| section.name == name) else {
            return Err(Failure::new(
                format_args!("{}: unknown section [{name}]", path.display()),
                suggest::hint(name, SECTIONS.iter().map(|section| section.name)),
            ));
        };
        let Value::Table(keys) = value else {
            return Err(Failure::new(
                format_args!("{}: expected a section [{name}], found a value", path.display()),
                format_args!("write [{name}] on a line of its own, and its keys below"),
            ));
        };
        for key in keys.keys() {
            if !section.keys.iter().any(|known| known.name == key) {
                return Err(Failure::new(
                    format_args!("{}: unknown key `{key}` in [{name}]", path.display()),
                    suggest::hint(key, section.keys.iter().map(|known| known.name)),
                ));
            }
        }
    }
    Ok(())
}

fn overlay(table: &mut Table, over: Table) {
    for (section, keys) in over {
        if let Value::Table(keys) = keys {
            for (key, value) in keys {
                insert(table, &section, &key, value);
            }
        }
    }
}

fn insert(table: &mut Table, section: &str, key: &str, value: Value) {
    let keys = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(keys) = keys {
        keys.insert(key.to_owned(), value);
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_text_is_a_configuration_and_every_example_fits() {
        Config::load(None, &[]).unwrap();
        // Also with the keys that are not set by default.
        let is_key = |line: &str| {
            SECTIONS
                .iter()
                .flat_map(|section| section.keys)
                .any(|key| line == format!("{} = {}", key.name, key.example))
        };
        let text = default_text();
        let all: Vec<&str> = text
            .lines()
            .map(|line| match line.strip_prefix("# ") {
                Some(bare) if is_key(bare) => bare,
                _ => line,
            })
            .collect();
        let table: Table = all.join("\n").parse().unwrap();
        check_keys(Path::new("all.toml"), &table).unwrap();
        Value::Table(table).try_into::<Config>().unwrap();
    }

    #[test]
    fn every_example_is_read_by_its_flag() {
        for key in SECTIONS.iter().flat_map(|section| section.keys) {
            let expected: Table = format!("x = {}", key.example).parse().unwrap();
            assert_eq!(
                key.parse(&key.flag_example()).unwrap(),
                expected["x"],
                "--{} {}",
                key.flag,
                key.flag_example()
            );
        }
    }
}
