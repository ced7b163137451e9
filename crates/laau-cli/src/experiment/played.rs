//! What the policies of a cell did: played here, or put together from pieces, one per policy, that were played anywhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use laau::baselines::{CrPursuitOptions, OptOptions, Ratio};
use laau::core::{
    Agent, Comparison, Episodes, Error, FitSets, Fitted, GradientCounts, Observation, Parameter, Player,
    Policy, PolicyReport, Report, Results, Rollout, Run, Sets, guarded_name,
};
use laau::data::shift::Shifted;
use laau::registry::PolicyKind;
use serde::{Deserialize, Serialize};

use super::settings::Kind;
use super::tables::MISTAKE;
use super::{Cell, GUARDED, Study, problem, shifted};
use crate::failure::{Failure, Hint as _};

/// CR-Pursuit with the ratio that comes with a guarantee, in tables.
const GUARANTEED: &str = "cr-pursuit-guaranteed";

/// What the tables of a cell are made of.
pub(super) struct Played {
    pub(super) sets: Sets,
    /// The training episodes at a distance, and those of validation, in an experiment about distances.
    pub(super) shifted: Option<(Shifted, Episodes)>,
    pub(super) report: Report,
    /// Policies that were left out, and why.
    pub(super) left_out: Vec<(String, String)>,
    /// First test episodes that are shown step by step, by policy.
    pub(super) shown: BTreeMap<String, Rollout>,
    /// The policies behind every guard, in the order of their rows.
    pub(super) guards: Vec<Run>,
}

/// What one policy adds to its cell.
#[derive(Serialize, Deserialize)]
struct Piece {
    left_out: Option<String>,
    own: Option<Entry>,
    guarded: Vec<Entry>,
}

/// A run without the policy: that stays where it was fitted.
#[derive(Serialize, Deserialize)]
struct Entry {
    gradients: Option<GradientCounts>,
    parameters: BTreeMap<String, Parameter>,
    results: Results,
    shown: Option<Rollout>,
}

/// Whether the cells of a kind of experiment have a piece per policy.
pub(super) fn is_by_policy(kind: Kind) -> bool {
    matches!(kind, Kind::Policies | Kind::Problem | Kind::Ood)
}

/// The pieces of every cell: its policies, in the order of the tables, and the optimum, if it is only the reference.
pub(super) fn pieces(study: &Study) -> Vec<&'static str> {
    let mut names: Vec<&str> = listed(study);
    if !names.contains(&PolicyKind::Opt.name()) {
        names.push(PolicyKind::Opt.name());
    }
    names
}

/// The policies that have rows.
fn listed(study: &Study) -> Vec<&'static str> {
    let experiment = &study.experiment;
    let policies = experiment.policies.iter().map(|policy| policy.name());
    let guaranteed = experiment.guaranteed && experiment.kind != Kind::Ood;
    policies.chain(guaranteed.then_some(GUARANTEED)).collect()
}

/// Plays every policy here.
pub(super) fn play(study: &Study, cell: Cell) -> Result<Played, Failure> {
    let data = Data::load(study, cell)?;
    let report = data
        .comparison(study, cell, &listed(study))
        .relative_to(OptOptions::default())
        .observed_by(&study.stop())
        .run()?;
    let mut shown = BTreeMap::new();
    for policy in &report.policies {
        if let Some(rollout) = shown_of(study, cell, &data.sets, policy)? {
            shown.insert(policy.name.clone(), rollout);
        }
    }
    let mut guards = Vec::new();
    if study.experiment.kind == Kind::Ood {
        for policy in shifted::guarded(&study.experiment) {
            guards.extend(shifted::play_guards(study, &report, &data.sets, policy)?);
        }
    }
    let left_out = report.left_out.iter();
    Ok(Played {
        left_out: left_out
            .map(|(name, reason)| (name.clone(), reason.to_string()))
            .collect(),
        sets: data.sets,
        shifted: data.shifted,
        report,
        shown,
        guards,
    })
}

/// Plays one policy, alone but for the incumbents of its guards; gives its piece as text.
pub(super) fn play_piece(study: &Study, cell: Cell, piece: &str) -> Result<String, Failure> {
    let Study { experiment, .. } = study;
    let data = Data::load(study, cell)?;
    let mut wanted = vec![piece];
    if GUARDED.iter().any(|policy| policy.name() == piece) {
        wanted.extend(experiment.incumbents.iter().map(|incumbent| incumbent.name()));
    }
    let report = data
        .comparison(study, cell, &wanted)
        .observed_by(&study.stop())
        .run()?;
    if !report.unfinished.is_empty() {
        return Err(Failure::new("the piece was interrupted", "run it again"));
    }
    let mut guarded = Vec::new();
    for policy in shifted::guarded(experiment).filter(|policy| policy.name() == piece) {
        if experiment.kind == Kind::Ood {
            guarded.extend(shifted::play_guards(study, &report, &data.sets, policy)?);
        }
    }
    let left_out = report.left_out.iter().find(|(name, _)| name == piece);
    let left_out = left_out.map(|(_, reason)| reason.to_string());
    let (mut own, mut runs) = (None, Vec::new());
    for policy in report.policies {
        let shown = shown_of(study, cell, &data.sets, &policy)?;
        let is_own = policy.name == piece;
        let is_guarded = guarded_names(study, piece).any(|name| name == policy.name);
        for run in policy.runs {
            match (is_own, is_guarded) {
                (true, _) => own = Some(Entry::new(run, shown.clone())),
                (_, true) => runs.push(Entry::new(run, None)),
                _ => {}
            }
        }
    }
    runs.extend(guarded.into_iter().map(|run| Entry::new(run, None)));
    let piece = Piece {
        left_out,
        own,
        guarded: runs,
    };
    // Not JSON, which has no word for what is not finite.
    toml::to_string(&piece).hint(MISTAKE)
}

/// Puts the pieces of a cell together, given in the order of [`pieces`].
pub(super) fn assemble(study: &Study, cell: Cell, texts: &[String]) -> Result<Played, Failure> {
    let names = pieces(study);
    if !is_by_policy(study.experiment.kind) || texts.len() != names.len() {
        return Err(Failure::new(
            format_args!("{} pieces are not those of the cell", texts.len()),
            "give one per policy, in the order of the policies",
        ));
    }
    let read = |text: &String| {
        toml::from_str(text)
            .map_err(|error| Failure::new(error.message(), "give what the run of each piece gave"))
    };
    let pieces = texts.iter().map(read).collect::<Result<Vec<Piece>, _>>()?;
    let Data { sets, shifted } = Data::load(study, cell)?;
    let reference = names.iter().position(|name| *name == PolicyKind::Opt.name());
    let optimum = reference.and_then(|index| Some(pieces[index].own.as_ref()?.results.clone()));
    let report_of = |name: String, run: Run| {
        PolicyReport::new(name, vec![run], &[cell.seed], &sets.test, optimum.as_ref())
    };
    let listed = listed(study);
    let (mut policies, mut guarded, mut guards) = (Vec::new(), Vec::new(), BTreeMap::new());
    let (mut left_out, mut shown) = (Vec::new(), BTreeMap::new());
    for (&name, piece) in names.iter().zip(pieces) {
        left_out.extend(piece.left_out.map(|reason| (name.to_owned(), reason)));
        if let Some(own) = piece.own.filter(|_| listed.contains(&name)) {
            shown.extend(own.shown.clone().map(|rollout| (name.to_owned(), rollout)));
            policies.push(report_of(name.to_owned(), own.run(name, cell)));
        }
        let runs = piece.guarded.into_iter().map(|entry| entry.run(name, cell));
        if study.experiment.kind == Kind::Ood {
            guards.insert(name, runs.collect::<Vec<_>>());
        } else {
            let rows = guarded_names(study, name).zip(runs);
            guarded.extend(rows.map(|(name, run)| report_of(name, run)).enumerate());
        }
    }
    // Guard by guard, as a comparison that plays them all has them.
    guarded.sort_by_key(|(guard, _)| *guard);
    policies.extend(guarded.into_iter().map(|(_, report)| report));
    let in_order = shifted::guarded(&study.experiment);
    let guards = in_order
        .filter_map(|policy| guards.remove(policy.name()))
        .flatten()
        .collect();
    Ok(Played {
        report: Report {
            problem: study.task.problem.name().to_owned(),
            horizon: sets.test.horizon(),
            episodes: sets.test.len(),
            seeds: vec![cell.seed],
            policies,
            left_out: Vec::new(),
            unfinished: Vec::new(),
        },
        sets,
        shifted,
        left_out,
        shown,
        guards,
    })
}

/// The episodes of a cell.
struct Data {
    sets: Sets,
    shifted: Option<(Shifted, Episodes)>,
}

impl Data {
    fn load(study: &Study, cell: Cell) -> Result<Self, Failure> {
        let sets = match study.experiment.kind {
            Kind::Problem => problem::sets_of(study, cell)?,
            _ => study.sets(cell)?,
        };
        let shifted = match study.experiment.kind {
            Kind::Ood => Some(shifted::shift_sets(&sets, cell.target(), cell.seed)?),
            _ => None,
        };
        Ok(Self { sets, shifted })
    }

    /// A comparison of some of the experiment's policies.
    fn comparison<'a>(&'a self, study: &'a Study, cell: Cell, wanted: &[&str]) -> Comparison<'a> {
        let experiment = &study.experiment;
        let training = experiment.training(cell.seed);
        let on_shifted = self.shifted.as_ref().map(|(shifted, validation)| FitSets {
            train: &shifted.episodes,
            validation,
        });
        let mut comparison = Comparison::new(&study.task, &self.sets)
            .seeds([cell.seed])
            .skip_inapplicable(experiment.kind == Kind::Problem);
        for policy in (experiment.policies.iter()).filter(|policy| wanted.contains(&policy.name())) {
            let (name, fit) = (policy.name(), policy.fit(&training));
            comparison = match on_shifted {
                Some(sets) if !shifted::NOT_TRAINED.contains(policy) => {
                    comparison.with_fitted_on(name, fit, sets)
                }
                _ => comparison.with(name, fit),
            };
        }
        if wanted.contains(&GUARANTEED) {
            let options = CrPursuitOptions {
                ratio: Ratio::WorstCase,
                ..CrPursuitOptions::default()
            };
            comparison = comparison.with(GUARANTEED, options);
        }
        let optimum = PolicyKind::Opt;
        if wanted.contains(&optimum.name()) && !experiment.policies.contains(&optimum) {
            comparison = comparison.with(optimum.name(), OptOptions::default());
        }
        let is_guarded = |name: &&str| GUARDED.iter().any(|policy| policy.name() == *name);
        if experiment.kind != Kind::Ood && wanted.iter().any(is_guarded) {
            for incumbent in &experiment.incumbents {
                let guarded = GUARDED.map(|policy| policy.name().to_owned());
                comparison = comparison.guarded(guarded, incumbent.name(), experiment.level);
            }
        }
        comparison
    }
}

/// The rows of a policy behind the guard of every incumbent.
fn guarded_names<'a>(study: &'a Study, policy: &'a str) -> impl Iterator<Item = String> + 'a {
    let incumbents = study.experiment.incumbents.iter().enumerate();
    incumbents.map(move |(guard, incumbent)| guarded_name(policy, incumbent.name(), guard))
}

/// The first test episode of a policy that is shown step by step. One seed is enough to look at.
fn shown_of(
    study: &Study,
    cell: Cell,
    sets: &Sets,
    policy: &PolicyReport,
) -> Result<Option<Rollout>, Failure> {
    let is_shown = study.experiment.kind == Kind::Problem
        && cell.seed == study.seeds[0]
        && problem::SHOWN.contains(&&*policy.name);
    if !is_shown {
        return Ok(None);
    }
    let player = &policy.runs[0].fitted.player;
    Ok(player.play(&study.task, &sets.test.select(&[0]))?.pop())
}

impl Entry {
    fn new(run: Run, shown: Option<Rollout>) -> Self {
        Self {
            gradients: run.fitted.gradients,
            parameters: run.fitted.parameters,
            results: run.results,
            shown,
        }
    }

    fn run(self, name: &str, cell: Cell) -> Run {
        Run {
            seed: cell.seed,
            fitted: Fitted {
                player: Player::Online(Arc::new(Elsewhere(name.to_owned()))),
                parameters: self.parameters,
                gradients: self.gradients,
                document: None,
            },
            results: self.results,
            rollouts: Vec::new(),
        }
    }
}

/// A policy that was fitted and played elsewhere: its results are here, it is not.
struct Elsewhere(String);

impl Policy for Elsewhere {
    fn name(&self) -> &str {
        &self.0
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(Absent(&self.0))
    }
}

struct Absent<'a>(&'a str);

impl Agent for Absent<'_> {
    fn decide(&mut self, _: &Observation<'_>, _: &mut [f64]) -> Result<(), Error> {
        Err(Error::Policy {
            policy: self.0.to_owned(),
            reason: "it was fitted elsewhere, and only its results came back".to_owned(),
        })
    }
}
