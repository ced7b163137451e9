//! `laau decide`: a stream of contexts in, a stream of decisions out.

mod intake;
mod journal;
pub(crate) mod lines;
mod session;

use std::io::{BufReader, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use laau::core::{Policy, Task, TrainedOn};
use laau::registry::{self, Deployed, ProblemSpec, digest};

use self::intake::{Intake, IntakeArgs};
pub(crate) use self::journal::look;
use self::journal::{Header, Identity, Journal, Opening, Record};
use self::lines::{Decision, Read, Refusal, Resumed, parse, read_line, write_line};
use self::session::Session;
use crate::config::{ConfigFile, Flags, ProblemSection};
use crate::failure::{Failure, reason};
use crate::guard::{self, GuardArgs};
use crate::output::{self, Named};
use crate::saved::{read_model, read_policy};
use crate::sets::{check_model, range};

/// Up to here `laau-core` keeps the reserve of the steps to come without rounding.
const LONGEST_HORIZON: i64 = 2_000_000;

/// Bytes of the input that are read at once: as much as a pipe holds.
const INPUT_BUFFER: usize = 1 << 16;

/// Answers that share one sync of the journal, at most.
const LARGEST_BATCH: usize = 4096;

/// The arguments as they are typed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  $ printf '{\"context\":[0.31]}\\n{\"context\":[0.62]}\\n' | laau decide --policy dgd --budget 250 --horizon 20
  $ laau decide --policy-file report/mw.policy --budget 250 < contexts.jsonl
  $ laau decide --model model.safetensors --budget 250 --horizon 20 --journal today.jsonl < contexts.jsonl
  $ laau decide --model model.safetensors --budget 250 --horizon 20 --journal today.jsonl < more.jsonl
  $ laau decide --model model.safetensors --budget 250 --guard report/mw.policy < contexts.jsonl
  $ echo '{\"context\":[35]}' | laau decide --model model.safetensors --budget 250 --raw

Each line of standard input is {\"context\":[…]}; each is answered by one line on standard output:
{\"step\":0,\"action\":[12.1],\"multiplier\":[0.02],\"remaining\":[237.9]}, or {\"error\":\"…\",\"line\":1} for a line
that is no context; such a line spends nothing. \"fallback\" says why an action is the least one and not the policy's,
\"guarded\" that the guard changed it, \"warning\" that a context is far outside the range of the training contexts, of
which models and policy files know.")]
pub(crate) struct DecideArgs {
    /// A trained model
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["policy", "policy_file"]
    )]
    model: Option<PathBuf>,
    /// A policy that `laau compare -o DIR` fitted and wrote; the file has the problem and its parameters
    #[arg(long, value_name = "FILE", conflicts_with = "policy")]
    policy_file: Option<PathBuf>,
    /// A policy that needs no training: equal, avg-lt, dgd, mw, cr-pursuit or ce
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// A parameter of the policy, for example step-size=0.5; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "policy",
          conflicts_with_all = ["model", "policy_file"], value_parser = parameter)]
    parameter: Vec<(String, Vec<f64>)>,
    /// The budget of the episode; several, separated by commas, for a problem with several
    #[arg(
        long,
        value_name = "B",
        required = true,
        value_delimiter = ',',
        allow_negative_numbers = true
    )]
    budget: Vec<f64>,
    /// The number of steps of the episode; that of the model or the policy file if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=LONGEST_HORIZON))]
    horizon: Option<u32>,
    /// Writes every decision to this file, and syncs it, before printing it; goes on with the episode of a journal that
    /// exists: prints its decisions again, then decides the next step
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Insists on a journal that exists
    #[arg(long, requires = "journal")]
    resume: bool,
    /// Insists on a new journal
    #[arg(long, requires = "journal", conflicts_with = "resume")]
    new: bool,
    #[command(flatten)]
    guard: GuardArgs,
    #[command(flatten)]
    intake: IntakeArgs,
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    problem: Flags<ProblemSection>,
}

fn parameter(text: &str) -> Result<(String, Vec<f64>), String> {
    let (key, values) = text
        .split_once('=')
        .ok_or("expected KEY=VALUE, for example step-size=0.5")?;
    let values = values
        .split(',')
        .map(|value| match value.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(format!("expected a number after `{key}=`, found `{value}`")),
        })
        .collect::<Result<_, _>>()?;
    Ok((key.trim().to_owned(), values))
}

/// Serves an episode on standard input and output.
pub(crate) fn run(arguments: &DecideArgs) -> Result<(), Failure> {
    if let Some(journal) = &arguments.journal {
        check_journal(journal, arguments)?;
    }
    let plan = Plan::new(arguments)?;
    let problem = &*plan.task.problem;
    let mut session = Session::open(problem, &*plan.policy, plan.horizon, &plan.budgets)?;
    let file = arguments.model.as_deref().or(arguments.policy_file.as_deref());
    let intake = Intake::new(&arguments.intake, file, plan.trained_on)?;
    intake.check_budgets(&plan.budgets, plan.horizon)?;
    let mut service = Service {
        intake,
        journal: None,
        output: std::io::stdout().lock(),
        buffer: Vec::new(),
        waiting: Vec::new(),
        answers: Vec::new(),
        printed: 0,
    };
    if let Some(path) = &arguments.journal {
        let raw = arguments.intake.raw;
        let header = Header::new(plan.problem, plan.horizon, plan.budgets, plan.identity, raw);
        let dimensions = problem.dimensions();
        let values = dimensions.context + dimensions.actions + 2 * dimensions.budgets;
        let opening = match (arguments.new, arguments.resume) {
            (true, _) => Opening::New,
            (_, true) => Opening::Resume,
            _ => Opening::Either,
        };
        let opened = Journal::open(path, &header, opening, values)?;
        if let Some(word) = opened.repaired {
            output::talk(word);
        }
        if let Some(records) = opened.records {
            service.replay(path, &mut session, &records)?;
        }
        service.journal = Some(opened.journal);
    }
    let mut input = BufReader::with_capacity(INPUT_BUFFER, std::io::stdin().lock());
    let served = service.serve(&mut session, &mut input);
    let has_reader = !matches!(served, Err(Failure::ClosedPipe));
    if let Some(certificate) = session.certificate().filter(|_| has_reader && session.step() > 0) {
        output::talk(guard::words(&certificate, session.step()));
    }
    served
}

/// Refuses a journal that is another file of the command, too.
fn check_journal(journal: &Path, arguments: &DecideArgs) -> Result<(), Failure> {
    let files = [
        ("--model", arguments.model.as_deref()),
        ("--policy-file", arguments.policy_file.as_deref()),
    ];
    let inputs: Vec<Named<'_>> = files
        .into_iter()
        .filter_map(|(name, path)| Some((name, path?)))
        .chain(arguments.config.named())
        .chain(arguments.guard.named())
        .collect();
    output::keep_apart(&inputs, &[("--journal", journal)])
}

/// Arguments that have been checked and turned into what they name.
struct Plan {
    problem: ProblemSpec,
    task: Task,
    policy: Arc<dyn Policy>,
    identity: Identity,
    horizon: usize,
    budgets: Vec<f64>,
    trained_on: Option<TrainedOn>,
}

impl Plan {
    fn new(arguments: &DecideArgs) -> Result<Self, Failure> {
        let budgets = arguments.budget.clone();
        let deployed = match &arguments.policy_file {
            Some(path) => Some(deployed(path, arguments)?),
            None => None,
        };
        let model = match &arguments.model {
            Some(path) => Some(read_model(path, "name it with --policy-file")?),
            None => None,
        };
        let trained_on = match (&deployed, &model) {
            (Some((deployed, _)), _) => deployed.trained_on.clone(),
            (None, Some((_, summary, _))) => summary.trained_on.clone(),
            (None, None) => None,
        };
        let config = arguments.config.read()?;
        let problem = match (&deployed, &model) {
            (Some((deployed, _)), _) => deployed.problem.clone(),
            (None, Some((model, ..))) => config.problem_of(&arguments.problem, &model.spec)?,
            (None, None) => config.problem(&arguments.problem)?,
        };
        let task = match &deployed {
            Some((deployed, _)) => deployed.task.clone(),
            None => problem.task()?,
        };
        let expected = task.problem.dimensions().budgets;
        if budgets.len() != expected {
            return Err(Failure::new(
                format_args!(
                    "problem `{}` has {expected} budgets, --budget gives {}",
                    problem.name(),
                    budgets.len()
                ),
                "give one number per budget, separated by commas",
            ));
        }
        let asked = arguments.horizon.map(|horizon| horizon as usize);
        let (policy, mut identity, horizon) = match (deployed, model, &arguments.policy, asked) {
            (Some((deployed, identity)), ..) => {
                let horizon = asked.unwrap_or(deployed.horizon);
                if let (Some(trained), Some(path)) = (&deployed.horizons, &arguments.policy_file) {
                    horizon_of(path, trained, Some(horizon))?;
                }
                (deployed.policy, identity, horizon)
            }
            (None, Some((model, summary, bytes)), ..) => {
                let path = arguments.model.as_deref().unwrap_or(Path::new(""));
                let horizon = horizon_of(path, &model.spec.horizons(), asked)?;
                check_model(&task, &model.spec)?;
                let model_digest = digest(&bytes);
                let deployed = Deployed::of_model(model, &summary, bytes, problem.clone())?;
                let identity = Identity::of_file(&deployed, model_digest);
                (deployed.policy, identity, horizon)
            }
            (None, None, Some(name), Some(horizon)) => {
                let untuned =
                    registry::untuned(name.parse()?, &arguments.parameter, &task, horizon, &budgets)?;
                let identity = Identity {
                    name: name.clone(),
                    model: None,
                    parameters: untuned.parameters,
                    guard: None,
                };
                (Arc::from(untuned.policy), identity, horizon)
            }
            (None, None, Some(name), None) => {
                return Err(Failure::usage(
                    format_args!("--policy {name}: nothing says how many steps the episode has"),
                    "give the number of steps with --horizon",
                ));
            }
            (None, None, None, _) => {
                return Err(Failure::usage(
                    "nothing says who decides: expected --model FILE, --policy-file FILE or --policy NAME",
                    "`laau train` writes models, `laau compare -o DIR` policy files; --policy equal needs neither",
                ));
            }
        };
        let (policy, guard) = arguments.guard.deploy(
            policy,
            &problem,
            &task,
            horizon,
            &budgets,
            (trained_on.as_ref(), arguments.intake.raw),
        )?;
        identity.guard = guard;
        Ok(Self {
            problem,
            task,
            policy,
            identity,
            horizon,
            budgets,
            trained_on,
        })
    }
}

/// The policy of a file, and what a journal knows it by.
fn deployed(path: &Path, arguments: &DecideArgs) -> Result<(Deployed, Identity), Failure> {
    if arguments.problem.0 != ProblemSection::default() {
        return Err(Failure::new(
            format_args!("{}: the file has the problem and its parameters", path.display()),
            "leave the flags of the problem out",
        ));
    }
    if arguments.config.named().is_some() {
        return Err(Failure::new(
            format_args!(
                "{}: the file has the problem; --config has no effect",
                path.display()
            ),
            "leave --config out",
        ));
    }
    let (deployed, bytes) = read_policy(path, "name it with --model")?;
    let identity = Identity::of_file(&deployed, digest(&bytes));
    Ok((deployed, identity))
}

/// The horizon that was asked for, if a model is for it; the model's own if it has one.
fn horizon_of(path: &Path, trained: &RangeInclusive<usize>, asked: Option<usize>) -> Result<usize, Failure> {
    let single = (trained.start() == trained.end()).then_some(*trained.end());
    let path = path.display();
    match (asked.or(single), single) {
        (Some(horizon), _) if trained.contains(&horizon) => Ok(horizon),
        (Some(horizon), single) => Err(Failure::new(
            format_args!(
                "{path}: the model is for {} steps, --horizon asks for {horizon}",
                range(trained)
            ),
            match single {
                Some(_) => {
                    format!("leave --horizon out, or train a model on episodes of {horizon} steps")
                }
                None => "train a model with other --horizons".to_owned(),
            },
        )),
        (None, _) => Err(Failure::new(
            format_args!("{path}: the model is for {} steps", range(trained)),
            "say how many the episode has with --horizon",
        )),
    }
}

/// The stream.
struct Service<W> {
    intake: Intake,
    journal: Option<Journal>,
    output: W,
    buffer: Vec<u8>,
    /// Answers that wait for the journal, and per answer where it ends and whether it is a decision.
    waiting: Vec<u8>,
    answers: Vec<(usize, bool)>,
    printed: u64,
}

impl<W: Write> Service<W> {
    /// Brings the episode to where its journal ends, and prints the decisions again.
    ///
    /// The policy decides every step once more: its state is what it was, and a journal of another policy shows.
    fn replay(&mut self, path: &Path, session: &mut Session<'_>, records: &[Record]) -> Result<(), Failure> {
        for record in records {
            let told = |what: &str| {
                Failure::new(
                    format_args!("{}: step {}: {what}", path.display(), record.step),
                    "go on with the version of laau, on the kind of machine, that began the episode",
                )
            };
            session
                .check(&record.context)
                .map_err(|reason| told(&format!("the journal holds no such step: {reason}")))?;
            let decision = session.decide(&record.context)?;
            if !record.is(&decision) {
                return Err(told(&format!(
                    "the journal says {:?} was decided, this policy decides {:?}",
                    record.action, decision.action
                )));
            }
            self.intake.warned += u64::from(record.warning.is_some());
            self.print(&Decision {
                warning: record.warning.as_deref(),
                replayed: true,
                ..decision
            })?;
        }
        let resumed_at = session.step();
        self.print(&Resumed { resumed_at })
    }

    /// Answers every line of the input. Lines that wait in the buffer already share one sync of the journal.
    fn serve<R: std::io::Read>(
        &mut self,
        session: &mut Session<'_>,
        input: &mut BufReader<R>,
    ) -> Result<(), Failure> {
        let mut line = Vec::new();
        let (mut number, mut refused) = (0, 0);
        loop {
            let read = read_line(input, &mut line).map_err(|error| {
                Failure::new(
                    format_args!("standard input: {}", reason(&error)),
                    "what was decided has been printed; with a journal, go on with --resume",
                )
            })?;
            number += 1;
            let context = match read {
                Read::End => break,
                Read::TooLong => Err("expected {\"context\":[…]}: the line is too long".to_owned()),
                Read::Line => parse(&line),
            };
            let context = context.and_then(|request| self.intake.context(request));
            match context.and_then(|(context, unbounded)| {
                session.check(&context).map_err(|error| error.to_string())?;
                let warning = self.intake.warning(&unbounded)?;
                Ok((context, warning))
            }) {
                Ok((context, warning)) => {
                    let decision = match session.decide(&context) {
                        Ok(decision) => decision,
                        Err(error) => {
                            self.commit()?;
                            return Err(error.into());
                        }
                    };
                    let warning = warning.as_deref();
                    let decision = Decision { warning, ..decision };
                    if let Some(journal) = &mut self.journal {
                        journal.stage(&context, decision)?;
                    }
                    self.answer(&decision, true)?;
                }
                Err(error) => {
                    refused += 1;
                    let refusal = Refusal {
                        error: &error,
                        line: number,
                    };
                    self.answer(&refusal, false)?;
                }
            }
            let more_waits = self.journal.is_some()
                && self.answers.len() < LARGEST_BATCH
                && input.buffer().contains(&b'\n');
            if !more_waits {
                self.commit()?;
            }
        }
        if self.intake.warned > 0 {
            output::talk(format_args!(
                "warning: contexts far outside the training range: {}; each was answered with a warning",
                self.intake.warned
            ));
        }
        match refused {
            0 => Ok(()),
            _ => Err(Failure::new(
                format_args!(
                    "{refused} of {} lines were refused, and spent nothing",
                    number - 1
                ),
                "each was answered with an error object that says why",
            )),
        }
    }

    /// Adds an answer to those that wait for [`Service::commit`].
    fn answer(&mut self, value: &impl serde::Serialize, is_decision: bool) -> Result<(), Failure> {
        write_line(&mut self.buffer, value).map_err(|error| self.cannot_print(&error))?;
        self.waiting.extend_from_slice(&self.buffer);
        self.answers.push((self.waiting.len(), is_decision));
        Ok(())
    }

    /// Syncs the journal, then prints the answers; if the journal fails, those before the first decision that it has not.
    fn commit(&mut self) -> Result<(), Failure> {
        let synced = self.journal.as_mut().map_or(Ok(()), Journal::commit);
        let safe = match &synced {
            Ok(()) => self.answers.len(),
            Err((safe, _)) => {
                let mut decisions = self.answers.iter().enumerate().filter(|(_, (_, is))| *is);
                decisions.nth(*safe).map_or(0, |(first_lost, _)| first_lost)
            }
        };
        let end = self.answers[..safe].last().map_or(0, |(end, _)| *end);
        self.output
            .write_all(&self.waiting[..end])
            .and_then(|()| self.output.flush())
            .map_err(|error| self.cannot_print(&error))?;
        self.printed += safe as u64;
        self.waiting.clear();
        self.answers.clear();
        synced.map_err(|(_, failure)| failure)
    }

    /// Prints one line, at once.
    fn print(&mut self, value: &impl serde::Serialize) -> Result<(), Failure> {
        self.answer(value, false)?;
        self.commit()
    }

    fn cannot_print(&self, error: &std::io::Error) -> Failure {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Failure::ClosedPipe;
        }
        Failure::new(
            format_args!("standard output: {} after {} lines", reason(error), self.printed),
            "make room for the output; with a journal, the same command goes on",
        )
    }
}
