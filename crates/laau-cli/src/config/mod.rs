//! Configuration: defaults, then a TOML file, then flags; whatever comes later wins.
//!
//! A section is one struct. Its fields are the flags (by clap), the keys of a file (by serde) and, with
//! [`Section::defaults`], the printed default; a key that nobody gives has the default of the library type it becomes.

mod episodes;
mod model;
mod problem;
mod training;
mod values;
mod workload;

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, FromArgMatches};
use laau::registry::suggest;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

pub(crate) use self::episodes::{
    AzureFunctionsSection, AzureVmSection, EpisodesSection, TableSection, TraceSection,
};
pub(crate) use self::model::ModelSection;
pub(crate) use self::problem::ProblemSection;
pub(crate) use self::training::{LearningSection, TrainingSection};
pub(crate) use self::workload::WorkloadSection;
use crate::failure::{Failure, Hint as _};
use crate::output::{self, Named};

/// A section of the configuration: optional values that flags and files share.
pub(crate) trait Section: Args + Serialize + DeserializeOwned + Default {
    /// The name in files.
    const NAME: &'static str;
    /// What the section is for.
    const HELP: &'static str;

    /// The value of every key that has a default.
    fn defaults() -> Self;

    /// An example for every key that has none.
    fn examples() -> Self;
}

/// The flags of a section; their help names the defaults.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags<S>(pub(crate) S);

impl<S: Section> Args for Flags<S> {
    fn augment_args(command: clap::Command) -> clap::Command {
        let defaults = table(&S::defaults()).unwrap_or_default();
        let own = S::augment_args(clap::Command::new(S::NAME));
        own.get_arguments()
            .fold(S::augment_args(command), |command, argument| {
                let Some(default) = defaults.get(&key_of(argument)) else {
                    return command;
                };
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                command.mut_arg(argument.get_id(), |argument| {
                    argument.help(format!("{help} [default: {}]", flag_text(default)))
                })
            })
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl<S: Section> FromArgMatches for Flags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        S::from_arg_matches(matches).map(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl<S: Section> Flags<S> {
    /// The first flag of the section that was given, without its dashes.
    pub(crate) fn first_given(&self) -> Result<Option<String>, Failure> {
        let given = table(&self.0)?;
        let own = S::augment_args(clap::Command::new(S::NAME));
        let first = own
            .get_arguments()
            .find(|argument| given.contains_key(&key_of(argument)));
        Ok(first.map(|argument| argument.get_long().unwrap_or_default().to_owned()))
    }
}

/// A value as it is typed after a flag: `1,2` for a list, `50:0.005,30:0.0025` for rows.
fn flag_text(value: &Value) -> String {
    let join =
        |values: &[Value], between: &str| values.iter().map(flag_text).collect::<Vec<_>>().join(between);
    match value {
        Value::String(word) => word.clone(),
        Value::Array(rows) if rows.iter().all(Value::is_array) => {
            let rows = rows.iter().filter_map(Value::as_array).map(|row| join(row, ":"));
            rows.collect::<Vec<_>>().join(",")
        }
        Value::Array(values) => join(values, ","),
        other => toml_text(other),
    }
}

/// `--config FILE`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ConfigFile {
    /// Settings in TOML; `laau config --default` prints one to start from
    #[arg(long = "config", value_name = "FILE")]
    path: Option<PathBuf>,
}

impl ConfigFile {
    /// The file as an input of the command.
    pub(crate) fn named(&self) -> Option<Named<'_>> {
        self.path.as_deref().map(|path| ("--config", path))
    }

    /// Reads the file, if there is one.
    pub(crate) fn read(&self) -> Result<Config, Failure> {
        let Some(path) = &self.path else {
            return Ok(Config::default());
        };
        let (keys, text) = read(path)?;
        Ok(Config {
            keys,
            source: Some((path.clone(), text)),
        })
    }
}

/// A configuration file.
#[derive(Debug, Default)]
pub(crate) struct Config {
    keys: Table,
    /// Where the keys stand.
    source: Option<(PathBuf, String)>,
}

impl From<Table> for Config {
    fn from(keys: Table) -> Self {
        Self { keys, source: None }
    }
}

impl Config {
    /// A section: the flags that were given over the keys of the file.
    pub(crate) fn section<S: Section>(&self, Flags(flags): &Flags<S>) -> Result<S, Failure> {
        let mut keys = match self.keys.get(S::NAME) {
            Some(Value::Table(keys)) => keys.clone(),
            _ => Table::new(),
        };
        keys.extend(table(flags)?);
        let place = |error: toml::de::Error| {
            let reason = one_line(&error.to_string());
            format!("{}[{}]: {reason}", self.place(S::NAME, &reason), S::NAME)
        };
        Value::Table(keys)
            .try_into()
            .map_err(place)
            .hint("`laau config --default` shows every key with a value that fits")
    }

    /// The file, and the line of the key that a reason ends with; nothing for a key that is not in the file.
    fn place(&self, section: &str, reason: &str) -> String {
        let Some((path, text)) = &self.source else {
            return String::new();
        };
        let line = line_of(text, section, key_in(reason));
        line.map_or_else(String::new, |line| format!("{}, line {line}: ", path.display()))
    }
}

/// The key that a reason of the parser ends with, in backticks.
pub(crate) fn key_in(reason: &str) -> &str {
    reason.rsplit('`').nth(1).unwrap_or_default()
}

/// The line of a key in a section of a file, from 1; of the section itself if the key is empty. Keys above the first section are in
/// the section without a name.
pub(crate) fn line_of(text: &str, section: &str, key: &str) -> Option<usize> {
    let mut at = "";
    for (index, line) in text.lines().map(str::trim).enumerate() {
        let header = line.strip_prefix('[').and_then(|line| line.strip_suffix(']'));
        if let Some(name) = header {
            at = name.trim();
        }
        let name = line.split_once('=').map(|(name, _)| name.trim());
        let is_there = match key {
            "" => (at == section && header.is_some()) || (at.is_empty() && name == Some(section)),
            key => at == section && name == Some(key),
        };
        if is_there {
            return Some(index + 1);
        }
    }
    None
}

/// The place in a file that a parser complains of, for messages.
pub(crate) fn place_of(path: &Path, text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map_or(1, |span| {
        text[..span.start.min(text.len())].matches('\n').count() + 1
    });
    format!("{}, line {line}", path.display())
}

/// The keys that are set.
fn table<S: Section>(section: &S) -> Result<Table, Failure> {
    Table::try_from(section)
        .map_err(|error| format!("[{}]: {error}", S::NAME))
        .hint("the numbers of a configuration go up to 9223372036854775807")
}

/// Calls a macro with every section, in the order in which they are printed.
macro_rules! for_each_section {
    ($with:ident) => {
        $with!(
            ProblemSection,
            ModelSection,
            TrainingSection,
            LearningSection,
            WorkloadSection,
            EpisodesSection,
            AzureVmSection,
            AzureFunctionsSection,
            TableSection
        )
    };
}

/// The default configuration with a comment on every key: a file that runs as it is.
pub(crate) fn default_text() -> Result<String, Failure> {
    macro_rules! texts {
        ($($section:ty),+) => { [$(section_text::<$section>()?),+].concat() };
    }
    let sections: String = for_each_section!(texts);
    Ok(format!(
        "# The configuration of laau: every key with its default.\n\
         # `laau COMMAND --config FILE` reads it; the flag named in a comment overrides the key.\n{sections}"
    ))
}

fn section_text<S: Section>() -> Result<String, Failure> {
    let (defaults, examples) = (table(&S::defaults())?, table(&S::examples())?);
    let mut text = format!("\n# {}\n[{}]\n", S::HELP, S::NAME);
    for argument in S::augment_args(clap::Command::new(S::NAME)).get_arguments() {
        let key = key_of(argument);
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let flag = argument.get_long().unwrap_or_default();
        let line = match (defaults.get(&key), examples.get(&key)) {
            (Some(value), _) => format!("{key} = {}", toml_text(value)),
            (None, Some(value)) => format!("# {key} = {}", toml_text(value)),
            (None, None) => continue,
        };
        text.extend(["# ", &help, " (--", flag, ")\n", &line, "\n"]);
    }
    Ok(text)
}

/// A value as a person would write it: `1e-8`, not `0.00000001`.
fn toml_text(value: &Value) -> String {
    match value {
        Value::Float(small) if *small != 0.0 && small.abs() < 1e-4 => format!("{small:e}"),
        other => other.to_string(),
    }
}

/// The keys of a section, from its flags.
pub(crate) fn keys_of(command: &clap::Command) -> Vec<String> {
    command.get_arguments().map(key_of).collect()
}

fn key_of(argument: &clap::Arg) -> String {
    argument.get_id().as_str().replace('_', "-")
}

fn read(path: &Path) -> Result<(Table, String), Failure> {
    let text = output::read_text(
        path,
        "`laau config --default` prints a configuration to start from",
    )?;
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        Failure::new(
            format_args!("{}: {}", place_of(path, &text, &error), one_line(error.message())),
            "the file is TOML; `laau config --default` shows one",
        )
    })?;
    check_keys(path, &text, &table)?;
    Ok((table, text))
}

/// Refuses what no command knows, and names the nearest that is known.
fn check_keys(path: &Path, text: &str, table: &Table) -> Result<(), Failure> {
    let place = |section: &str, key: &str| match line_of(text, section, key) {
        Some(line) => format!("{}, line {line}", path.display()),
        None => path.display().to_string(),
    };
    macro_rules! known {
        ($($section:ty),+) => {
            [$((
                <$section>::NAME,
                keys_of(&<$section>::augment_args(clap::Command::new(""))),
            )),+]
        };
    }
    let known = for_each_section!(known);
    for (name, value) in table {
        let Some((_, keys)) = known.iter().find(|(section, _)| section == name) else {
            return Err(Failure::new(
                format_args!("{}: unknown section [{name}]", place(name, "")),
                suggest::hint(name, known.iter().map(|(section, _)| *section)),
            ));
        };
        let Value::Table(given) = value else {
            return Err(Failure::new(
                format_args!("{}: expected a section [{name}], found a value", place(name, "")),
                format_args!("write [{name}] on a line of its own, and its keys below"),
            ));
        };
        if let Some(key) = given.keys().find(|key| !keys.contains(key)) {
            return Err(Failure::new(
                format_args!("{}: unknown key `{key}` in [{name}]", place(name, key)),
                suggest::hint(key, keys.iter().map(String::as_str)),
            ));
        }
    }
    Ok(())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Three sizes of sets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Sizes([usize; 3]);

impl From<Sizes> for laau::data::Split {
    fn from(Sizes([train, validation, test]): Sizes) -> Self {
        Self {
            train,
            validation,
            test,
        }
    }
}

impl From<laau::data::Split> for Sizes {
    fn from(split: laau::data::Split) -> Self {
        Self(split.sizes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_text_is_a_configuration_and_every_example_fits() {
        let text = default_text().unwrap();
        // Also with the keys that are not set by default.
        let all = text.lines().map(|line| match line.strip_prefix("# ") {
            Some(bare) if bare.contains(" = ") && !bare.contains("(--") => bare,
            _ => line,
        });
        let all: Table = all.collect::<Vec<_>>().join("\n").parse().unwrap();
        let set: Table = text.parse().unwrap();
        for table in [all, set] {
            check_keys(Path::new("all.toml"), &text, &table).unwrap();
            let config = Config::from(table);
            macro_rules! fits {
                ($($section:ty),+) => { $(config.section(&Flags::<$section>::default()).unwrap();)+ };
            }
            for_each_section!(fits);
        }
    }

    #[test]
    fn a_key_is_found_in_its_section() {
        let text = "top = 1\nlate = 2\n\n[a]\nkey = 1 # a comment\n [ b ] \nkey=2\n";
        for (section, key, line) in [
            ("", "top", Some(1)),
            ("late", "", Some(2)),
            ("a", "", Some(4)),
            ("a", "key", Some(5)),
            ("b", "", Some(6)),
            ("b", "key", Some(7)),
            ("a", "top", None),
            ("c", "", None),
        ] {
            assert_eq!(line_of(text, section, key), line, "[{section}] {key}");
        }
    }

    #[test]
    fn a_flag_is_above_the_file_and_the_file_above_the_default() {
        let table: Table = "[training]\nbatch = 3\nseed = 4".parse().unwrap();
        let config = Config::from(table);
        let mut flags = Flags::<TrainingSection>::default();
        flags.0.seed = Some(5);
        let training = config.section(&flags).unwrap().settings();
        assert_eq!(
            (training.batch, training.seed, training.checkpoint_every),
            (3, 5, 10)
        );
    }
}
