//! The report of a comparison: what is printed, what is written, what is said besides.

mod export;
mod formats;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use laau::core::{ComparisonObserver, Error, Report, Run, Sets, Task, four_digits};
use laau::registry::ProblemSpec;

use self::formats::Format;
use crate::failure::Failure;
use crate::output::{Folder, Named};
use crate::progress::Progress;
use crate::{interrupt, output};

/// What is wanted of a report.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// How the figures are printed
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Folder for summary.json, rollouts.parquet and, of `compare`, a policy file per policy
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Also writes every step, as steps.parquet; the policies play once more for it
    #[arg(long, requires = "output")]
    pub(crate) steps: bool,
    /// No progress on standard error
    #[arg(short, long)]
    quiet: bool,
}

impl ReportArgs {
    /// Refuses a folder in which an input would be overwritten.
    pub(crate) fn keep_apart<'a>(
        &self,
        inputs: &[Named<'_>],
        policies: impl Iterator<Item = &'a str>,
    ) -> Result<(), Failure> {
        let Some(folder) = &self.output else {
            return Ok(());
        };
        let places = export::places(folder, policies, self.steps);
        let outputs: Vec<Named<'_>> = places.iter().map(|place| ("-o", &**place)).collect();
        output::keep_apart(inputs, &outputs)
    }

    /// Makes the folder, and finds out whether it can be written to.
    pub(crate) fn prepare(&self) -> Result<Option<Folder>, Failure> {
        let Some(folder) = &self.output else {
            return Ok(None);
        };
        let folder = Folder::make(folder)?;
        output::probe(&folder.path().join("summary.json"))?;
        Ok(Some(folder))
    }

    /// Prints and writes what is finished.
    pub(crate) fn tell(
        &self,
        report: &Report,
        task: &Task,
        sets: &Sets,
        problem: &ProblemSpec,
    ) -> Result<(), Failure> {
        for warning in warnings(report) {
            output::talk(warning);
        }
        let finished = report.policies.len();
        if report.unfinished.is_empty() || finished > 0 {
            if let Some(folder) = &self.output {
                export::write(folder, report, task, sets, problem, self.steps)?;
                let others = export::of_others(folder, report, self.steps);
                if !others.is_empty() {
                    output::talk(format_args!(
                        "note: {} also holds {}, which this report is not about",
                        folder.display(),
                        others.join(", ")
                    ));
                }
            }
            output::print(self.format.text(report)?)?;
        }
        if report.unfinished.is_empty() {
            return Ok(());
        }
        Err(Failure::Interrupted {
            sentence: format!(
                "stopped: the comparison is incomplete, without {}",
                report.unfinished.join(", ")
            ),
            hint: match (finished, &self.output) {
                (0, _) => "no policy was finished, and nothing was written".to_owned(),
                (_, None) => format!("the {finished} policies that were finished are reported"),
                (_, Some(folder)) => format!(
                    "the {finished} policies that were finished are reported, and in {}",
                    folder.display()
                ),
            },
        })
    }
}

/// Progress of the fits.
pub(crate) struct Watch {
    progress: Progress,
    /// Raised when the user asks for the end.
    pub(crate) asked: Arc<AtomicBool>,
}

impl Watch {
    pub(crate) fn new(wanted: &ReportArgs) -> Result<Self, Failure> {
        Ok(Self {
            progress: Progress::new(1, wanted.quiet),
            asked: interrupt::watch()?,
        })
    }

    pub(crate) fn finish(&self) {
        self.progress.finish();
    }
}

impl ComparisonObserver for Watch {
    fn begin(&self, jobs: usize) {
        self.progress.set_length(jobs);
    }

    fn done(&self, policy: &str, run: &Run, elapsed: Duration) {
        self.progress.advance();
        self.progress.line(format_args!(
            "{policy}, seed {}: utility {}, {:.1} s",
            run.seed,
            four_digits(run.results.mean_utility()),
            elapsed.as_secs_f64()
        ));
    }

    fn should_stop(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }
}

/// What a reader of the table must know besides.
fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    for (policy, error) in &report.left_out {
        warnings.push(match error {
            Error::NotApplicable { .. } => format!("left out: {error}"),
            _ => format!("warning: `{policy}` failed, fractions of it are left out: {error}"),
        });
    }
    for policy in &report.policies {
        let name = &policy.name;
        if let Some(error) = policy.first_failure() {
            warnings.push(format!(
                "warning: policy `{name}` failed in {} steps; first: {error}",
                policy.failures
            ));
        }
        if policy.unconverged > 0 {
            warnings.push(format!(
                "warning: policy `{name}` played {} actions that are short of the layer's tolerance",
                policy.unconverged
            ));
        }
    }
    warnings
}
