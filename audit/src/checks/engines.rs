//! `engines`: two ways to the same answer. Closed form against interior point, fused engine against candle.

use laau_core::{Differentiate, Episodes, Exactness, Gradients, Queries, Query, Solutions};
use laau_net::{EngineKind, Features, Model, ModelSpec, Network, Output, PriceBase, Statistics};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Audit, Failure, Tally};
use crate::draw::{self, Size, chance};
use crate::episodes::{EpisodeCase, Played};
use crate::query::typical_prices;
use crate::recipe::Kind;

/// How closely the training engines agree, relative to the largest entry.
const ENGINES: f64 = 1e-9;
/// How closely the solvers agree, relative to the action: the general one is solved to a residual of 1e-9.
const SOLVERS: f64 = 1e-7;

pub(crate) struct Engines;

impl Audit for Engines {
    type Case = EpisodeCase;

    fn draw(rng: &mut ChaCha8Rng) -> EpisodeCase {
        let size = Size::PLAYED;
        let recipe = if chance(rng, 0.4) {
            draw::recipe_of(Kind::WeightedFairness, rng, size)
        } else {
            draw::recipe(rng, size)
        };
        let (horizon, count) = (draw::count(rng, 8), draw::count(rng, 5));
        EpisodeCase::draw(recipe, rng, size, horizon, count)
    }

    fn check(case: &EpisodeCase) -> Result<Tally, Failure> {
        let Ok(played) = case.resolve() else {
            return Ok(Tally::REFUSED);
        };
        if let Some(closed) = case.recipe.closed_form() {
            let general = case
                .recipe
                .solver()
                .map_err(|error| Failure::new("refused", error))?;
            solvers(case, &played, Box::new(closed), Box::new(general))?;
        }
        networks(case, &played)
    }
}

/// The closed form and the interior point on every context and budget, alone and in a batch.
fn solvers(
    case: &EpisodeCase,
    played: &Played,
    mut closed: Box<dyn Differentiate>,
    mut general: Box<dyn Differentiate>,
) -> Result<(), Failure> {
    let dimensions = played.problem.dimensions();
    let error = |error: laau_core::Error| Failure::new("error", error.to_string());
    let horizon = case.horizon() as f64;
    let (mut contexts, mut multipliers, mut remaining) = (Vec::new(), Vec::new(), Vec::new());
    for (row, context) in played.episodes.contexts().iter().enumerate() {
        let typical = typical_prices(&case.recipe, &[*context])[0];
        contexts.push(*context);
        multipliers.push(typical * [0.0, 0.3, 1.0, 3.0][row % 4]);
        let budget = played.episodes.budgets()[row / case.horizon()];
        remaining.push((budget / horizon).max(played.problem.lower()[0]));
    }
    let queries = Queries {
        contexts: &contexts,
        multipliers: &multipliers,
        available: &remaining,
    };
    let rows = contexts.len();
    let mut table = Solutions::new(dimensions, rows);
    closed.solve_batch(queries, &mut table).map_err(error)?;
    let mut single = Solutions::new(dimensions, 1);
    for row in 0..rows {
        let query = queries.row(row, dimensions);
        let describe = |what: &str, a: f64, b: f64| {
            format!(
                "{what}: closed form {a:?}, interior point {b:?}; context {:?}, price {:?}, budget {:?}",
                query.context, query.multiplier, query.available
            )
        };
        general.solve(query, single.row_mut(0)).map_err(error)?;
        let (a, b) = (table.row(row), single.row(0));
        if !(a.status.is_solved() && b.status.is_solved()) {
            if a.status.is_solved() != b.status.is_solved() {
                return Err(Failure::new(
                    "solver-status",
                    format!("closed form {}, interior point {}", a.status, b.status),
                ));
            }
            continue;
        }
        if query.context[0] == 0.0 && query.multiplier[0] == 0.0 {
            continue;
        }
        if (a.action[0] - b.action[0]).abs() > SOLVERS * a.action[0].abs() {
            return Err(Failure::new(
                "solver-action",
                describe("action", a.action[0], b.action[0]),
            ));
        }
        let first = pull(&mut *closed, query, &table, row)?;
        let second = pull(&mut *general, query, &single, 0)?;
        if (first.1, second.1) != (Exactness::Exact, Exactness::Exact) {
            continue;
        }
        // What an action that moves with its input has: x/λ, 1 and x/c.
        let units = [query.multiplier[0], query.available[0], query.context[0]];
        for (input, unit) in units.into_iter().enumerate() {
            let (a_value, b_value) = (first.0[input], second.0[input]);
            let natural = if unit > 0.0 {
                a.action[0] / unit
            } else {
                f64::INFINITY
            };
            if (a_value - b_value).abs() > 1e-5 * a_value.abs().max(natural) {
                return Err(Failure::new(
                    "solver-gradient",
                    describe(["∂λ", "∂b", "∂c"][input], a_value, b_value),
                ));
            }
        }
    }
    Ok(())
}

fn pull(
    solver: &mut dyn Differentiate,
    query: Query<'_>,
    solutions: &Solutions,
    row: usize,
) -> Result<([f64; 3], Exactness), Failure> {
    let mut gradients = Gradients::with_contexts(solutions.dimensions(), 1);
    let exactness = solver
        .pullback(query, solutions.row(row), &[1.0], gradients.row_mut(0))
        .map_err(|error| Failure::new("error", error.to_string()))?;
    let values = [
        gradients.multipliers[0],
        gradients.available[0],
        gradients.contexts[0],
    ];
    Ok((values, exactness))
}

/// A small model of any kind, for the case's problem and horizon.
pub(super) fn spec(case: &EpisodeCase, played: &Played, rng: &mut ChaCha8Rng) -> ModelSpec {
    let network = if chance(rng, 0.3) {
        Network::Linear { norm_bound: None }
    } else {
        Network::Mlp {
            hidden: vec![rng.random_range(1..5); rng.random_range(1..3)],
            spectral_bound: None,
        }
    };
    ModelSpec {
        network,
        features: [Features::Paper, Features::History][rng.random_range(0..2)],
        output: [Output::Softplus, Output::Exp][rng.random_range(0..2)],
        form: [PriceBase::Plain, PriceBase::Residual][rng.random_range(0..2)],
        ..ModelSpec::paper(&*played.problem, case.horizon())
    }
}

/// A model with statistics of the case's episodes.
pub(super) fn model(case: &EpisodeCase, played: &Played, rng: &mut ChaCha8Rng) -> Result<Model, Failure> {
    let spec = spec(case, played, rng);
    let mut layer = played.layer.fork();
    let statistics = Statistics::fit(&spec, &mut layer, &played.episodes)
        .map_err(|error| Failure::new("statistics", error.to_string()))?;
    Model::new(spec, statistics, case.seed).map_err(|error| Failure::new("model", error.to_string()))
}

/// How closely the engines can agree: a feature that hardly varies beside its mean carries the rounding of that mean.
fn tolerance(model: &Model) -> f64 {
    let statistics = &model.statistics;
    let pairs = statistics.feature_mean.iter().zip(&statistics.feature_scale);
    let condition = pairs.map(|(mean, scale)| mean.abs() / scale).fold(1.0, f64::max);
    ENGINES.max(100.0 * f64::EPSILON * condition)
}

/// Weights are moved by these shares to see what the layer resolves. The engines round prices differently in the last bit, and
/// an interior point that stops a step earlier or later gives another answer within its tolerance. In one case
/// both engines, moved by 1e-15, agree with each other to 1e-14 and differ from themselves by 1.6e-4 of that entry: neither is
/// wrong. How accurate a layer is, is for `layer` and `derivative` to say.
const MOVES: [f64; 6] = [1e-15, -1e-15, 1e-14, -1e-14, 1e-13, -1e-13];
/// Budgets are moved by these shares to see what a rounding of them is worth. The engines sum what remains in different orders; where
/// a curved usage only just rises, the action moves by the square root of such a rounding.
const ROUNDINGS: [f64; 4] = [1e-15, -1e-15, 4e-15, -4e-15];
/// The engines may differ by so many times what one of them scatters under these moves: few draws do not see the worst.
const SCATTER: f64 = 4.0;
/// Scatter beyond this share of the largest entry excuses nothing.
const MOST_SCATTER: f64 = 1e-5;

/// Whether two numbers differ by more than is allowed, or are none.
fn differ(a: f64, b: f64, allowed: f64) -> bool {
    let agrees = (a - b).abs() <= allowed;
    !agrees
}

/// The same episodes with every budget times a factor; none if that is too little to play them.
fn with_budgets(played: &Played, factor: f64) -> Option<Episodes> {
    let all = &played.episodes;
    let budgets = all.budgets().iter().map(|budget| budget * factor).collect();
    let sizes = (all.horizon(), all.context_len(), all.budget_len());
    let moved = Episodes::new(sizes.0, sizes.1, sizes.2, all.contexts().to_vec(), budgets).ok()?;
    moved.check(&*played.problem).ok().map(|()| moved)
}

/// The same model with every weight times a factor.
fn moved(model: &Model, share: f64) -> Model {
    let mut moved = model.clone();
    for parameter in &mut moved.parameters {
        *parameter *= 1.0 + share;
    }
    moved
}

fn networks(case: &EpisodeCase, played: &Played) -> Result<Tally, Failure> {
    let mut rng = ChaCha8Rng::seed_from_u64(case.seed);
    let mut model = model(case, played, &mut rng)?;
    for parameter in &mut model.parameters {
        *parameter = rng.random_range(-0.5..0.5);
    }
    let batch: Vec<usize> = (0..played.episodes.len()).collect();
    let play = |kind: EngineKind, model: &Model, episodes: &Episodes| {
        let mut gradient = vec![f64::NAN; model.parameters.len()];
        let result = kind
            .build(&*played.layer, &model.spec, 3)
            .and_then(|mut engine| engine.loss_and_gradient(model, episodes, &batch, &mut gradient));
        result.map(|result| (result, gradient))
    };
    let as_drawn = |kind| play(kind, &model, &played.episodes);
    let (fused, candle) = match (as_drawn(EngineKind::Fused), as_drawn(EngineKind::Candle)) {
        (Ok(fused), Ok(candle)) => (fused, candle),
        (fused, candle) => {
            let words = |error: Option<laau_net::Error>| error.map_or("fine".to_owned(), |e| e.to_string());
            return Err(Failure::new(
                "engine-error",
                format!("fused: {}; candle: {}", words(fused.err()), words(candle.err())),
            ));
        }
    };
    let losses = (fused.0.loss, candle.0.loss);
    let tolerance = tolerance(&model);
    let size = losses.0.abs().max(losses.1.abs()).max(1e-9);
    if differ(losses.0, losses.1, tolerance * size) {
        let mut scatter = 0.0_f64;
        let mut see = |model: &Model, episodes: &Episodes| {
            for (kind, loss) in [(EngineKind::Fused, losses.0), (EngineKind::Candle, losses.1)] {
                if let Ok((result, _)) = play(kind, model, episodes) {
                    scatter = scatter.max((result.loss - loss).abs());
                }
            }
        };
        for episodes in ROUNDINGS
            .iter()
            .filter_map(|share| with_budgets(played, 1.0 + share))
        {
            see(&model, &episodes);
        }
        for share in MOVES {
            see(&moved(&model, share), &played.episodes);
        }
        if differ(losses.0, losses.1, SCATTER * scatter.min(MOST_SCATTER * size)) {
            return Err(Failure::new(
                "engine-loss",
                format!("fused {:?}, candle {:?}, scatter {scatter:e}", losses.0, losses.1),
            ));
        }
    }
    let counts = fused.0.counts;
    let tally = Tally {
        gradients: counts.exact + counts.approximate,
        approximate: counts.approximate,
        ..Tally::default()
    };
    if counts.approximate > 0 || candle.0.counts.approximate > 0 {
        return Ok(tally);
    }
    let largest = candle.1.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
    let unit = largest.max(1e-6 * losses.1.abs());
    let Some(weight) = (0..fused.1.len()).find(|&w| differ(fused.1[w], candle.1[w], tolerance * unit)) else {
        return Ok(tally);
    };
    let mut scatter = 0.0_f64;
    for share in MOVES {
        if let Ok((_, gradient)) = play(EngineKind::Fused, &moved(&model, share), &played.episodes) {
            let changes = gradient.iter().zip(&fused.1).map(|(a, b)| (a - b).abs());
            scatter = changes.fold(scatter, f64::max);
        }
    }
    let allowed = (tolerance * unit).max(SCATTER * scatter.min(MOST_SCATTER * unit));
    if (0..fused.1.len()).any(|w| differ(fused.1[w], candle.1[w], allowed)) {
        return Err(Failure::new(
            "engine-gradient",
            format!(
                "weight {weight}: fused {:?}, candle {:?}, largest {largest:e}, scatter {scatter:e}, {:?}",
                fused.1[weight], candle.1[weight], model.spec
            ),
        ));
    }
    Ok(tally)
}
