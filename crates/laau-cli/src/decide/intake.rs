//! What comes in: readings become contexts; contexts and budgets far from those of the training are told.

use std::path::Path;

use clap::Args;
use laau::core::{Scaling, TrainedOn};

use super::lines::Request;
use crate::failure::Failure;
use crate::output;

/// How lines are taken.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "input")]
pub(super) struct IntakeArgs {
    /// Takes readings as they are in the trace, and makes contexts of them as the import of the training episodes did;
    /// where that was per series, a line names its own: {"context":[35],"series":"vm-7"}
    #[arg(long)]
    pub(super) raw: bool,
    /// How far outside its training range a context is answered with a warning, and a budget told: by more than X widths of the range
    /// [default: 1]
    #[arg(long, value_name = "X", value_parser = factor)]
    range_factor: Option<f64>,
    /// Refuses such a context instead, and spends nothing on the line; refuses such a budget before the first step
    #[arg(long)]
    strict_range: bool,
}

fn factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor >= 0.0 => Ok(factor),
        _ => Err("expected a number of at least 0".to_owned()),
    }
}

/// Makes contexts of lines.
pub(super) struct Intake {
    scaling: Option<Scaling>,
    trained_on: Option<TrainedOn>,
    factor: f64,
    strict: bool,
    /// Contexts that were answered with a warning.
    pub(super) warned: u64,
}

impl Intake {
    /// Checks that what decides knows what is asked for.
    pub(super) fn new(
        arguments: &IntakeArgs,
        file: Option<&Path>,
        trained_on: Option<TrainedOn>,
    ) -> Result<Self, Failure> {
        let lacks = |flag: &str, what: &str, of: &str| {
            let who = file.map_or("--policy".to_owned(), |file| file.display().to_string());
            Failure::new(
                format_args!("{who}: {flag} needs {what}, and there is none"),
                format_args!("give a model or a policy file{of}"),
            )
        };
        let scaling = match &trained_on {
            _ if !arguments.raw => None,
            Some(TrainedOn {
                scaling: Some(scaling),
                ..
            }) => Some(scaling.clone()),
            _ => {
                let of = " that was made from episodes of `laau import`";
                return Err(lacks("--raw", "the normalisation of the training episodes", of));
            }
        };
        for (flag, is_given) in [
            ("--strict-range", arguments.strict_range),
            ("--range-factor", arguments.range_factor.is_some()),
        ] {
            if is_given && trained_on.is_none() {
                return Err(lacks(flag, "the range of the training contexts", ""));
            }
        }
        Ok(Self {
            scaling,
            trained_on,
            factor: arguments.range_factor.unwrap_or(1.0),
            strict: arguments.strict_range,
            warned: 0,
        })
    }

    /// Tells of a budget that is far outside those of the training.
    ///
    /// # Errors
    /// The same words, if such a budget is to be refused.
    pub(super) fn check_budgets(&self, budgets: &[f64], horizon: usize) -> Result<(), Failure> {
        let trained_on = self.trained_on.as_ref();
        match trained_on.and_then(|known| known.budget_outside(budgets, horizon, self.factor)) {
            None => Ok(()),
            Some(words) if self.strict => Err(Failure::new(
                words,
                "give a budget as in training, train on episodes with such budgets, or raise --range-factor",
            )),
            Some(words) => {
                output::talk(format_args!("warning: {words}"));
                Ok(())
            }
        }
    }

    /// The context of a line, and what it is before it is raised or lowered to a bound: as odd as it was.
    pub(super) fn context(&self, request: Request) -> Result<(Vec<f64>, Vec<f64>), String> {
        let Some(scaling) = &self.scaling else {
            return match request.series {
                None => Ok((request.context.clone(), request.context)),
                Some(_) => Err("a line names its series with --raw alone".to_owned()),
            };
        };
        let series = request.series.as_deref();
        scaling
            .contexts(series, &request.context)
            .and_then(|context| Ok((context, scaling.unbounded(series, &request.context)?)))
            .map_err(|error| error.to_string())
    }

    /// What is odd about a context, in words.
    ///
    /// # Errors
    /// The same words, if such a context is to be refused.
    pub(super) fn warning(&mut self, context: &[f64]) -> Result<Option<String>, String> {
        let trained_on = self.trained_on.as_ref();
        match trained_on.and_then(|trained_on| trained_on.outside(context, self.factor)) {
            Some(warning) if self.strict => Err(warning),
            warning => {
                self.warned += u64::from(warning.is_some());
                Ok(warning)
            }
        }
    }
}
