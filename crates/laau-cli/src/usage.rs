//! Wrong arguments, told like everything else: one sentence, then a hint.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Error};

use crate::args::Cli;
use crate::failure::{Failure, USAGE};
use crate::output;

/// Prints help and version to standard output; everything else is a failure.
pub(crate) fn tell(error: &Error, arguments: &[OsString]) -> u8 {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match output::print(error.to_string()) {
            Ok(()) => 0,
            Err(failure) => failure.tell(),
        },
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::talk(error);
            USAGE
        }
        ErrorKind::InvalidUtf8 => {
            let word = arguments.iter().find(|word| word.to_str().is_none());
            let word = word.map(|word| word.display().to_string()).unwrap_or_default();
            Failure::usage(
                format_args!("`{word}`: an argument that is not UTF-8"),
                "rename the file or its folder",
            )
            .tell()
        }
        _ => Failure::usage(sentence(error), hint(error, arguments)).tell(),
    }
}

/// The first paragraph of what clap says, in one line.
fn sentence(error: &Error) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let paragraph = text.split("\n\n").next().unwrap_or(text);
    paragraph.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn hint(error: &Error, arguments: &[OsString]) -> String {
    for kind in [
        ContextKind::SuggestedSubcommand,
        ContextKind::SuggestedArg,
        ContextKind::SuggestedValue,
    ] {
        let name = match error.get(kind) {
            Some(ContextValue::String(name)) => Some(name),
            Some(ContextValue::Strings(names)) => names.first(),
            _ => None,
        };
        if let Some(name) = name {
            return format!("did you mean `{name}`?");
        }
    }
    format!("see `{} --help`", typed_command(arguments))
}

/// The command whose arguments are wrong, as far as it was typed right.
fn typed_command(arguments: &[OsString]) -> String {
    let mut command = Cli::command();
    let mut words = vec!["laau".to_owned()];
    for word in arguments.iter().skip(1) {
        let Some(found) = command.find_subcommand(word).cloned() else {
            break;
        };
        command = found;
        words.push(word.display().to_string());
    }
    words.join(" ")
}
