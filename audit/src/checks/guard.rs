//! `guard`: whatever is advised, a guarded policy keeps its promise in exact arithmetic.

use std::sync::Arc;

use laau_core::{
    Agent, Episode, Error, FitSets, Guarded, Multiplier, Observation, Player, Policy, Pricer, Problem,
    Projection, Rollout, Task, Unrolled, rollout,
};
use num_bigint::BigInt;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::policies::{fits, honest, task};
use super::{Audit, Failure, Tally};
use crate::draw::{self, Size, between_powers, chance};
use crate::episodes::{EpisodeCase, Played};
use crate::exact::integer;

/// Pairs of advice and incumbent that are played per case.
const PAIRS: usize = 6;

pub(crate) struct Guards;

impl Audit for Guards {
    type Case = EpisodeCase;

    fn draw(rng: &mut ChaCha8Rng) -> EpisodeCase {
        let size = Size::PLAYED;
        let recipe = draw::recipe(rng, size);
        let horizon = if chance(rng, 0.1) {
            draw::count(rng, 60)
        } else {
            draw::count(rng, 10)
        };
        let count = draw::count(rng, 4);
        EpisodeCase::draw(recipe, rng, size, horizon, count)
    }

    fn check(case: &EpisodeCase) -> Result<Tally, Failure> {
        let Ok(played) = case.resolve() else {
            return Ok(Tally::REFUSED);
        };
        let task = task(&played).map_err(|error| Failure::new("task", error))?;
        let mut rng = ChaCha8Rng::seed_from_u64(case.seed);
        let mut tally = Tally::default();
        for _ in 0..PAIRS {
            let level = match rng.random_range(1..=6) {
                1 => 0.0,
                2 => 1.0,
                3 => 0.95,
                4 => 1.0 - between_powers(&mut rng, -16.0, -2.0),
                _ => rng.random_range(0.0..1.0),
            };
            let (Some(advice), Some(incumbent)) = (
                policy(case, &played, &task, &mut rng)?,
                policy(case, &played, &task, &mut rng)?,
            ) else {
                continue;
            };
            let layered = chance(&mut rng, 0.5);
            pair(&played, &task, advice, &incumbent, level, layered)
                .map_err(|failure| failure.of(&*played.problem))?;
            tally.episodes += played.episodes.len() as u64;
        }
        Ok(tally)
    }
}

/// Plays one guarded policy on all episodes, and the incumbent alone.
fn pair(
    played: &Played,
    task: &Task,
    advice: Arc<dyn Policy>,
    incumbent: &Arc<dyn Policy>,
    level: f64,
    layered: bool,
) -> Result<(), Failure> {
    let problem = &*played.problem;
    let name = advice.name().to_owned();
    let beside = format!("{name} guarded by {} at {level}", incumbent.name());
    let failed = |error: Error| Failure::new("rollout", format!("{beside}: {error}"));
    let guarded = Guarded::new(
        name,
        advice,
        Arc::clone(incumbent),
        Arc::clone(&played.problem) as Arc<_>,
        level,
    )
    .map_err(failed)?;
    let guarded = if layered { guarded.in_layer(task) } else { guarded };
    for index in 0..played.episodes.len() {
        let episode = played.episodes.get(index);
        let ours = rollout(problem, &guarded, &episode).map_err(failed)?;
        let theirs = rollout(problem, &**incumbent, &episode).map_err(failed)?;
        honest("guarded", problem, &episode, &ours)?;
        promise(problem, &episode, &ours, &theirs, level)
            .map_err(|word| Failure::new("promise", format!("episode {index}: {beside}: {word}")))?;
    }
    Ok(())
}

/// `G_t ≥ γ G†_t − allowance` after every step, in integers, and a margin that says no more than they do.
pub(super) fn promise(
    problem: &dyn Problem,
    episode: &Episode<'_>,
    ours: &Rollout,
    theirs: &Rollout,
    level: f64,
) -> Result<(), String> {
    let certificate = ours
        .certificate
        .ok_or("a guarded rollout without a certificate")?;
    let (unit, level) = (integer(1.0), integer(level));
    let (mut lead, mut least) = (BigInt::ZERO, None);
    for step in 0..episode.horizon() {
        let corner = integer(problem.cost(problem.lower(), episode.context(step)));
        let gain = |rollout: &Rollout| &corner - integer(rollout.costs[step]);
        lead += gain(ours) * &unit - gain(theirs) * &level;
        if least.as_ref().is_none_or(|least| lead < *least) {
            least = Some(lead.clone());
        }
    }
    let least = least.unwrap_or_default();
    if least < -integer(certificate.allowance) * &unit {
        return Err(format!("short of the promise: {certificate:?}"));
    }
    if integer(certificate.margin) * &unit > least {
        return Err(format!(
            "a margin that is larger than the exact one: {certificate:?}"
        ));
    }
    // A step that was rounded may take a few roundings of its cost, not more.
    let largest = (0..episode.horizon())
        .map(|step| {
            let context = episode.context(step);
            let ends = [problem.lower(), problem.upper()].map(|corner| problem.cost(corner, context).abs());
            ends[0].max(ends[1]).max(ours.costs[step].abs())
        })
        .fold(0.0, f64::max);
    if certificate.rounded == 0 && certificate.allowance != 0.0 {
        return Err(format!("an allowance without a rounding: {certificate:?}"));
    }
    if certificate.allowance > 1e-12 * largest * episode.horizon() as f64 + 1e-300 {
        return Err(format!(
            "a large allowance beside costs of {largest:e}: {certificate:?}"
        ));
    }
    Ok(())
}

/// Any policy: fitted, priced at random, a random network, or absurd.
fn policy(
    case: &EpisodeCase,
    played: &Played,
    task: &Task,
    rng: &mut ChaCha8Rng,
) -> Result<Option<Arc<dyn Policy>>, Failure> {
    let seed = rng.random();
    let failed = |error: Error| Failure::new("policy", error.to_string());
    Ok(Some(match rng.random_range(1..=4) {
        1 => {
            let mut fits = fits(false);
            let (_, fit) = fits.swap_remove(rng.random_range(0..fits.len()));
            let sets = FitSets {
                train: &played.episodes,
                validation: &played.episodes,
            };
            match fit.fit(task, sets, 0, &mut ()).map(|fitted| fitted.player) {
                Ok(Player::Online(policy)) => policy,
                _ => return Ok(None),
            }
        }
        2 => {
            let prices = WildPrices {
                seed,
                budgets: case.recipe.budgets,
            };
            Arc::new(Unrolled::new("wild prices", prices, played.layer.fork()).map_err(failed)?)
        }
        3 => {
            let mut model = super::engines::model(case, played, rng)?;
            let scale = [1.0, 1e3, 1e-6][rng.random_range(0..3)];
            for weight in &mut model.parameters {
                *weight *= scale;
            }
            Arc::new(Unrolled::new("network", model, played.layer.fork()).map_err(failed)?)
        }
        _ => Arc::new(Absurd {
            manner: [
                Manner::Nothing,
                Manner::Infinite,
                Manner::Lower,
                Manner::Upper,
                Manner::Random,
                Manner::Failing,
                Manner::Greedy,
                Manner::Hoarding,
            ][rng.random_range(0..8)],
            seed,
            problem: Arc::clone(&played.problem) as Arc<_>,
        }),
    }))
}

/// A price drawn at every step, now and then none.
struct WildPrices {
    seed: u64,
    budgets: usize,
}

impl Multiplier for WildPrices {
    fn budgets(&self) -> usize {
        self.budgets
    }

    fn begin(&self) -> Box<dyn Pricer + '_> {
        Box::new(self)
    }
}

impl Pricer for &WildPrices {
    fn price(&mut self, observation: &Observation<'_>, multiplier: &mut [f64]) -> Result<(), Error> {
        let mut rng = at_step(self.seed, observation.step);
        for price in multiplier {
            *price = match rng.random_range(1..=8) {
                1 => 0.0,
                2 => f64::NAN,
                3 => between_powers(&mut rng, -12.0, 12.0),
                _ => between_powers(&mut rng, -2.0, 2.0),
            };
        }
        Ok(())
    }
}

fn at_step(seed: u64, step: usize) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed ^ (step as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[derive(Debug, Clone, Copy)]
enum Manner {
    Nothing,
    Infinite,
    Lower,
    Upper,
    Random,
    Failing,
    /// As much as can be paid.
    Greedy,
    /// Nothing until the last steps, then everything.
    Hoarding,
}

struct Absurd {
    manner: Manner,
    seed: u64,
    problem: Arc<dyn Problem>,
}

impl Policy for Absurd {
    fn name(&self) -> &'static str {
        match self.manner {
            Manner::Nothing => "nothing",
            Manner::Infinite => "infinite",
            Manner::Lower => "lower",
            Manner::Upper => "upper",
            Manner::Random => "random",
            Manner::Failing => "failing",
            Manner::Greedy => "greedy",
            Manner::Hoarding => "hoarding",
        }
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(self)
    }
}

impl Agent for &Absurd {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        let (lower, upper) = (self.problem.lower(), self.problem.upper());
        let mut rng = at_step(self.seed, observation.step);
        let afford = |action: &mut [f64]| {
            Projection::new(&*self.problem).apply(
                &*self.problem,
                observation.context(),
                observation.available,
                action,
            );
        };
        match self.manner {
            Manner::Nothing => action.fill(f64::NAN),
            Manner::Infinite => action.fill(if chance(&mut rng, 0.5) {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            }),
            Manner::Lower => action.copy_from_slice(lower),
            Manner::Upper => action.copy_from_slice(upper),
            Manner::Failing if chance(&mut rng, 0.5) => return Err(Error::Empty { what: "idea" }),
            Manner::Random | Manner::Failing => {
                for (i, x) in action.iter_mut().enumerate() {
                    *x = lower[i] + rng.random_range(0.0..=1.0) * (upper[i] - lower[i]);
                }
                if chance(&mut rng, 0.5) {
                    afford(action);
                }
            }
            Manner::Hoarding if observation.steps_left() > 1 => action.copy_from_slice(lower),
            Manner::Greedy | Manner::Hoarding => {
                action.copy_from_slice(upper);
                afford(action);
            }
        }
        Ok(())
    }
}
