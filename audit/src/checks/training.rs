//! `training`: a short training goes through on any problem, and the gradient of an episode is the derivative of its cost.

use laau_core::{Unrolled, episode_gradient, rollout_all};
use laau_net::{EngineKind, Phase, Training};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::differences::sides;
use super::engines::model;
use super::{Audit, Failure, Tally};
use crate::draw::{self, Size, chance};
use crate::episodes::{EpisodeCase, Played};
use crate::query::typical_prices;

pub(crate) struct Trainings;

impl Audit for Trainings {
    type Case = EpisodeCase;

    fn draw(rng: &mut ChaCha8Rng) -> EpisodeCase {
        let size = Size::PLAYED;
        let recipe = draw::recipe(rng, size);
        let (horizon, count) = (draw::count(rng, 6), draw::count(rng, 5));
        EpisodeCase::draw(recipe, rng, size, horizon, count)
    }

    fn check(case: &EpisodeCase) -> Result<Tally, Failure> {
        let Ok(played) = case.resolve() else {
            return Ok(Tally::REFUSED);
        };
        train(case, &played)?;
        gradient(case, &played)
    }
}

fn train(case: &EpisodeCase, played: &Played) -> Result<(), Failure> {
    let mut rng = ChaCha8Rng::seed_from_u64(case.seed);
    let mut model = model(case, played, &mut rng)?;
    let training = Training {
        phases: vec![Phase {
            epochs: 2,
            learning_rate: 5e-3,
        }],
        batch: 2,
        seed: case.seed,
        engine: if chance(&mut rng, 0.3) {
            EngineKind::Candle
        } else {
            EngineKind::Fused
        },
        ..Training::paper()
    };
    let failed = |error: laau_net::Error| {
        let kind = match &error {
            laau_net::Error::Diverged { .. } => "diverged",
            _ => "training-error",
        };
        Failure::new(kind, error.to_string())
    };
    training
        .check()
        .and_then(|trainer| {
            trainer.run(
                &mut model,
                &*played.layer,
                &played.episodes,
                Some(&played.episodes),
                &mut (),
            )
        })
        .map_err(failed)?;
    if let Some(weight) = model.parameters.iter().position(|p| !p.is_finite()) {
        return Err(Failure::new(
            "model",
            format!("weight {weight} is {}", model.parameters[weight]),
        ));
    }
    let core = |error: laau_core::Error| Failure::new("deployed", error.to_string());
    let policy = Unrolled::new("laau", model, played.layer.fork()).map_err(core)?;
    for rollout in rollout_all(&*played.problem, &policy, &played.episodes).map_err(core)? {
        if rollout.violations + rollout.failures > 0 {
            return Err(Failure::new(
                "deployed",
                format!(
                    "{} violations, {} failures, first: {:?}",
                    rollout.violations, rollout.failures, rollout.first_failure
                ),
            ));
        }
    }
    Ok(())
}

/// Core's gradient of an episode against differences of its cost.
fn gradient(case: &EpisodeCase, played: &Played) -> Result<Tally, Failure> {
    let episode = played.episodes.get(0);
    let (horizon, m) = (case.horizon(), case.recipe.budgets);
    let mut multipliers = Vec::with_capacity(horizon * m);
    for step in 0..horizon {
        let typical = typical_prices(&case.recipe, episode.context(step));
        multipliers.extend((0..m).map(|row| typical[row] * (0.2 + 0.1 * ((step + 2 * row) % 5) as f64)));
    }
    let mut layer = played.layer.fork();
    let found = episode_gradient(&mut *layer, &episode, &multipliers)
        .map_err(|error| Failure::new("episode-gradient", error.to_string()))?;
    let tally = Tally {
        gradients: found.counts.exact + found.counts.approximate,
        approximate: found.counts.approximate,
        ..Tally::default()
    };
    if found.counts.approximate > 0 {
        return Ok(tally);
    }
    let size = size_of_costs(played, found.cost);
    for entry in (0..multipliers.len()).step_by(multipliers.len().div_ceil(4).max(1)) {
        let price = multipliers[entry];
        let mut moved = multipliers.clone();
        let cost = |moved_price: f64| {
            moved[entry] = moved_price;
            let gradient = episode_gradient(&mut *layer, &episode, &moved).ok()?;
            (gradient.counts.approximate == 0).then_some(gradient.cost)
        };
        let differences = sides(cost, price, price.max(1e-300), size, true);
        if let (true, Some(central)) = (differences.smooth(), differences.central)
            && differences.agrees(found.multipliers[entry], central) == Some(false)
        {
            return Err(Failure::new(
                "episode-gradient-wrong",
                format!(
                    "price {} of step {}: gradient {:e}, {differences:?}",
                    entry % m,
                    entry / m,
                    found.multipliers[entry]
                ),
            ));
        }
    }
    Ok(tally)
}

/// What the cost of an episode is measured by: its own size, and how much it differs between the corners of the box.
fn size_of_costs(played: &Played, cost: f64) -> f64 {
    let episode = played.episodes.get(0);
    let (lower, upper) = (played.problem.lower(), played.problem.upper());
    let corners: f64 = (0..episode.horizon())
        .map(|step| {
            let context = episode.context(step);
            let corner = |x: &[f64]| played.problem.cost(x, context);
            (corner(lower) - corner(upper))
                .abs()
                .min(corner(lower).abs() + corner(upper).abs())
        })
        .sum();
    (cost.abs() + corners).max(1e-300)
}
