//! `policies`: nobody overspends, nobody fails, nobody beats OPT.

use std::sync::Arc;

use laau_baselines::{
    AvgLtOptions, CeOptions, CrPursuitOptions, DpOptions, DualDescent, DualDescentOptions,
    DualDescentParameters, EqualOptions, HorizonOptimum, HorizonOptions, Memory, Mirror, OptOptions, Phase,
    Prediction, Ratio, RlOptions,
};
use laau_core::{Episode, Error, Fit, FitSets, Nearest, Problem, Rollout, Task, Unfitted};
use laau_kkt::{InteriorPoint, Options};
use num_bigint::BigInt;
use rand_chacha::ChaCha8Rng;

use super::{Audit, Failure, Tally};
use crate::draw::{self, Size, chance};
use crate::episodes::{EpisodeCase, Played};
use crate::exact::{floor, integer};
use crate::recipe::Kind;

/// How far above OPT a policy may come out, relative to the sum of OPT's costs by size, or to 1.
const ABOVE: f64 = 1e-9;
/// Roundings of a budget in each step that no policy answers for: of its usage, of the sum, and of what is given back.
const ROUNDINGS: f64 = 8.0;
/// Beyond this horizon only policies that need little fitting are played.
const LONG: usize = 60;

pub(crate) struct Policies;

impl Audit for Policies {
    type Case = EpisodeCase;

    fn draw(rng: &mut ChaCha8Rng) -> EpisodeCase {
        let mut size = Size::PLAYED;
        let horizon = match draw::count(rng, 100) {
            100 => 1000,
            90..100 => draw::count(rng, 200),
            _ => draw::count(rng, 10),
        };
        if horizon > LONG {
            size.actions = 1;
            size.budgets = 1;
        }
        let recipe = if chance(rng, 0.3) {
            draw::recipe_of(Kind::WeightedFairness, rng, size)
        } else {
            draw::recipe(rng, size)
        };
        let count = draw::count(rng, 4);
        EpisodeCase::draw(recipe, rng, size, horizon, count)
    }

    fn check(case: &EpisodeCase) -> Result<Tally, Failure> {
        let Ok(played) = case.resolve() else {
            return Ok(Tally::REFUSED);
        };
        let task = task(&played).map_err(|error| Failure::new("task", error))?;
        let episodes = &played.episodes;
        let half: Vec<usize> = (0..=episodes.len() / 2)
            .filter(|index| *index < episodes.len())
            .collect();
        let train = episodes.select(&half);
        let sets = FitSets {
            train: &train,
            validation: episodes,
        };
        let mut costs: Vec<(&str, Vec<f64>)> = Vec::new();
        for (name, fit) in fits(case.horizon() > LONG) {
            let fitted = match fit.fit(&task, sets, 0, &mut ()) {
                Ok(fitted) => fitted,
                Err(Error::NotApplicable { .. }) => continue,
                Err(error) => return Err(Failure::new(format!("{name}: fit"), error.to_string())),
            };
            let rollouts = fitted
                .player
                .play(&task, episodes)
                .map_err(|error| Failure::new(format!("{name}: rollout"), error.to_string()))?;
            for (index, rollout) in rollouts.iter().enumerate() {
                honest(name, &*played.problem, &episodes.get(index), rollout)?;
            }
            costs.push((name, rollouts.iter().map(|r| r.costs.iter().sum()).collect()));
        }
        let best = best(sets, &task)?;
        for (index, opt) in best.iter().enumerate() {
            honest("opt", &*played.problem, &episodes.get(index), opt)?;
            let total: f64 = opt.costs.iter().sum();
            let size: f64 = opt.costs.iter().map(|cost| cost.abs()).sum();
            for (name, costs) in &costs {
                let above = total - costs[index];
                let allowed = ABOVE * size.max(1.0);
                if above > allowed && above > allowed + roundings(&task, &episodes.get(index), opt) {
                    return Err(Failure::new(
                        "above-opt",
                        format!(
                            "episode {index}: {name} costs {:?}, opt {total:?}: {above:e} less, of {size:e}",
                            costs[index]
                        ),
                    ));
                }
            }
        }
        Ok(Tally::default())
    }
}

/// What the roundings of the budgets are worth at OPT's prices, those of the whole and those of each step: what the reserve leaves a step
/// may be dear though the whole is not used up. Where a budget ends a few roundings above the lower corners, they are a good part of
/// what it pays for, and which policy gets them is chance.
fn roundings(task: &Task, episode: &Episode<'_>, played: &Rollout) -> f64 {
    let optimum = HorizonOptimum::new(task.problem.clone(), HorizonOptions::default());
    let Ok(found) = optimum.and_then(|optimum| optimum.solve(episode.contexts(), episode.budgets())) else {
        return 0.0;
    };
    let problem = &*task.problem;
    let (lower, upper) = (problem.lower(), problem.upper());
    let d = lower.len();
    let (mut gradient, mut jacobian) = (vec![0.0; d], vec![0.0; d * episode.budgets().len()]);
    let mut worth = 0.0;
    for (t, action) in played.actions.chunks_exact(d).enumerate() {
        problem.cost_gradient(action, episode.context(t), &mut gradient);
        problem.usage_jacobian(action, episode.context(t), &mut jacobian);
        let budgets = found.multipliers.iter().zip(episode.budgets());
        for ((whole, budget), usage) in budgets.zip(jacobian.chunks_exact(d)) {
            let of_step = (0..d)
                .filter(|&i| usage[i] > 0.0 && action[i] > lower[i] && action[i] < upper[i])
                .map(|i| -gradient[i] / usage[i])
                .fold(0.0, f64::max);
            worth += whole.max(of_step) * budget.abs();
        }
    }
    ROUNDINGS * f64::EPSILON * worth
}

/// The problem, its layer, and the nearest payable action for networks of several actions.
pub(super) fn task(played: &Played) -> Result<Task, String> {
    let nearest = Nearest::new(played.problem.clone());
    let projector = InteriorPoint::new(Arc::new(nearest), Options::default());
    Task::new(played.problem.clone(), played.layer.fork())
        .with_projector(Box::new(projector.map_err(|error| error.to_string())?))
        .map_err(|error| error.to_string())
}

/// The offline optimum, played.
fn best(sets: FitSets<'_>, task: &Task) -> Result<Vec<Rollout>, Failure> {
    let fitted = OptOptions::default().fit(task, sets, 0, &mut ());
    fitted
        .and_then(|fitted| fitted.player.play(task, sets.validation))
        .map_err(|error| Failure::new("opt: fit", error.to_string()))
}

/// What a rollout says of itself, and what exact arithmetic says of it.
pub(super) fn honest(
    name: &str,
    problem: &dyn Problem,
    episode: &Episode<'_>,
    rollout: &Rollout,
) -> Result<(), Failure> {
    if rollout.violations > 0 {
        return Err(Failure::new(
            format!("{name}: violation"),
            format!("{} steps could not be paid", rollout.violations),
        ));
    }
    if rollout.failures > 0 {
        let first = rollout.first_failure.as_ref().map(ToString::to_string);
        return Err(Failure::new(
            format!("{name}: failure"),
            format!("{} steps failed, first: {first:?}", rollout.failures),
        ));
    }
    let dimensions = problem.dimensions();
    let (d, m) = (dimensions.actions, dimensions.budgets);
    let mut left: Vec<BigInt> = episode.budgets().iter().map(|b| integer(*b)).collect();
    let mut usage = vec![0.0; m];
    for step in 0..episode.horizon() {
        let action = &rollout.actions[step * d..][..d];
        problem.usage(action, episode.context(step), &mut usage);
        let outside = (0..d).any(|i| !(action[i] >= problem.lower()[i] && action[i] <= problem.upper()[i]));
        if outside || usage != rollout.usages[step * m..][..m] {
            return Err(Failure::new(
                format!("{name}: record"),
                format!("step {step}: action {action:?} uses {usage:?}, outside its box: {outside}"),
            ));
        }
        for (left, paid) in left.iter_mut().zip(&usage) {
            *left -= integer(*paid);
        }
    }
    for (row, left) in left.iter().enumerate() {
        let exact = floor(left);
        if exact < 0.0 || rollout.remaining[row] != exact {
            return Err(Failure::new(
                format!("{name}: overspent"),
                format!(
                    "budget {row}: exactly {exact:?} remain, {:?} recorded",
                    rollout.remaining[row]
                ),
            ));
        }
    }
    Ok(())
}

/// Every policy, fitted quickly.
pub(super) fn fits(long: bool) -> Vec<(&'static str, Box<dyn Fit>)> {
    fn boxed(fit: impl Fit + 'static) -> Box<dyn Fit> {
        Box::new(fit)
    }
    let plain = |mirror: Mirror| {
        boxed(Unfitted(move |task: &Task| {
            DualDescent::new(task, mirror, DualDescentParameters::default())
        }))
    };
    let mut fits = vec![
        ("equal", boxed(EqualOptions::default())),
        ("dgd, untuned", plain(Mirror::Euclidean)),
        ("mw, untuned", plain(Mirror::Entropic)),
        ("avg-lt", boxed(AvgLtOptions::default())),
    ];
    if long {
        return fits;
    }
    let tuned = |mirror| DualDescentOptions {
        refinements: 1,
        most_episodes: 2,
        ..DualDescentOptions::new(mirror)
    };
    let chase = |ratio| CrPursuitOptions {
        ratio,
        ..CrPursuitOptions::default()
    };
    let program = |memory| DpOptions {
        memory,
        atoms: 6,
        states: 3,
        points: 12,
    };
    let network = |options: RlOptions| RlOptions {
        hidden: 3,
        schedule: vec![Phase {
            epochs: 2,
            learning_rate: 5e-3,
        }],
        batch: 2,
        ..options
    };
    let ce = |prediction| CeOptions {
        prediction,
        ..CeOptions::default()
    };
    fits.extend([
        ("dgd", boxed(tuned(Mirror::Euclidean))),
        ("mw", boxed(tuned(Mirror::Entropic))),
        ("cr-pursuit, calibrated", boxed(chase(Ratio::Calibrated))),
        ("cr-pursuit, worst case", boxed(chase(Ratio::WorstCase))),
        ("cr-pursuit, fixed", boxed(chase(Ratio::Fixed(1.5)))),
        ("ce, prior", boxed(ce(Prediction::Prior))),
        ("ce, shrunk mean", boxed(ce(Prediction::ShrunkMean))),
        ("ce, regression", boxed(ce(Prediction::Regression))),
        ("dp, independent", boxed(program(Memory::Independent))),
        ("dp, markov", boxed(program(Memory::Markov))),
        ("dp, running mean", boxed(program(Memory::RunningMean))),
        ("rl", boxed(network(RlOptions::default()))),
        ("rl-pg", boxed(network(RlOptions::model_free()))),
    ]);
    fits
}
