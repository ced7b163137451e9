//! A flag for every key, made from the table of keys.

use std::marker::PhantomData;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::Config;
use super::keys::{Key, SECTIONS, Section};
use crate::failure::Failure;

/// The sections of the configuration that a command uses.
pub(crate) trait Scope {
    /// Their names.
    const SECTIONS: &'static [&'static str];
}

/// Names the sections of the configuration that a command uses.
macro_rules! scope {
    ($name:ident, $($section:literal),+) => {
        #[derive(Debug, Clone)]
        pub(crate) struct $name;

        impl $crate::config::Scope for $name {
            const SECTIONS: &'static [&'static str] = &[$($section),+];
        }
    };
}

pub(crate) use scope;

/// `--config FILE` and a flag for every key of a command's sections.
#[derive(Debug, Clone)]
pub(crate) struct ConfigFlags<S> {
    file: Option<PathBuf>,
    given: Vec<(&'static Section, &'static Key, String)>,
    scope: PhantomData<S>,
}

impl<S: Scope> ConfigFlags<S> {
    /// The configuration: defaults, the file, the flags.
    pub(crate) fn load(&self) -> Result<Config, Failure> {
        let given: Vec<_> = self
            .given
            .iter()
            .map(|(s, k, text)| (*s, *k, text.as_str()))
            .collect();
        Config::load(self.file.as_deref(), &given)
    }

    fn keys() -> impl Iterator<Item = (&'static Section, &'static Key)> {
        SECTIONS
            .iter()
            .filter(|section| S::SECTIONS.contains(&section.name))
            .flat_map(|section| section.keys.iter().map(move |key| (section, key)))
    }
}

impl<S: Scope> Args for ConfigFlags<S> {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Settings in TOML; `laau config --default` prints one to start from");
        Self::keys().fold(command.arg(file), |command, (section, key)| {
            let shown = if key.is_set_by_default {
                format!(" [default: {}]", key.flag_example())
            } else {
                String::new()
            };
            command.arg(
                Arg::new(key.flag)
                    .long(key.flag)
                    .value_name("VALUE")
                    .allow_negative_numbers(true)
                    .help_heading(section.name)
                    .help(format!("{}{shown}", key.help)),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: Scope> FromArgMatches for ConfigFlags<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self {
            file: matches.get_one::<PathBuf>("config").cloned(),
            given: Self::keys()
                .filter_map(|(section, key)| {
                    let text = matches.get_one::<String>(key.flag)?;
                    Some((section, key, text.clone()))
                })
                .collect(),
            scope: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
