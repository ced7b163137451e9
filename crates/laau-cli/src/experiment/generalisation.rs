//! Section 6 (Theorem 6.1, Proposition 6.2): how far a model trained on `n` episodes is from the best one, and every term of the
//! bound on it.

use laau::core::tables::{GapRow, TermRow};
use laau::core::{Differentiate, Episodes, Rollout, Task, Unrolled, rollout_all};
use laau::net::{Laau, Model, Network, Output, Phase, Training};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::settings::Experiment;
use super::tables::Tables;
use super::{Cell, Study};
use crate::failure::Failure;

/// Gradient steps of every run at least, so that few episodes are not few steps.
const LEAST_STEPS: usize = 8_000;

/// Draws of random signs for the empirical Rademacher complexity.
const SIGNS: usize = 200;

/// Models that stand for the class in the supremum of the complexity, beside the trained ones, and episodes that it is taken over;
/// for more episodes it is scaled by the square root.
const MODELS: u64 = 24;
const SIGNED_EPISODES: usize = 300;

/// Episodes whose derivatives are taken for the Lipschitz constants.
const LIPSCHITZ_EPISODES: usize = 20;

/// `δ` of the theorem.
const DELTA: f64 = 0.05;

/// Trains on more and more episodes; writes `generalisation.csv` and `bound.csv`.
///
/// The largest number of episodes, `reference`, is that of the model that stands for `θ*`.
pub(super) fn run(study: &Study, cell: Cell, tables: &mut Tables) -> Result<(), Failure> {
    let Study { experiment, task, .. } = study;
    let Cell {
        construction,
        horizon,
        seed,
        ..
    } = cell;
    let data = study.source.name(construction);
    let sized = Experiment {
        train: experiment.reference.max(experiment.train),
        ..experiment.clone()
    };
    let sets = study.source.sets(&sized, horizon, construction, seed)?;
    // The proposition speaks of max(θᵀφ, 0).
    let linear = Laau {
        output: Output::Rectified,
        ..Laau::linear()
    };
    for (name, laau) in [("linear", linear), ("mlp", Laau::paper())] {
        let best = trained(name, &laau, experiment, task, &sets.train, seed)?;
        let constants = Constants::of(task, &best, &sets.train)?;
        let mut row =
            |episodes: usize, train: f64, test: f64, terms: &[(&str, f64)]| -> Result<(), Failure> {
                tables.add(&GapRow {
                    data: data.clone(),
                    model: name.to_owned(),
                    horizon,
                    episodes,
                    seed,
                    train,
                    test,
                })?;
                terms.iter().try_for_each(|(term, value)| {
                    tables.add(&TermRow {
                        data: data.clone(),
                        model: name.to_owned(),
                        horizon,
                        episodes,
                        seed,
                        term: (*term).to_owned(),
                        value: *value,
                    })
                })
            };
        for &size in &experiment.sizes {
            crate::interrupt::check(&study.asked, "the cell was interrupted")?;
            let few = sets
                .train
                .select(&(0..size.min(sets.train.len())).collect::<Vec<_>>());
            let policy = trained(name, &laau, experiment, task, &few, seed)?;
            let (train, test) = (
                task.mean_utility(&policy, &few)?,
                task.mean_utility(&policy, &sets.test)?,
            );
            let terms = Bound {
                task,
                laau: &laau,
                few: &few,
                policy: &policy,
                best: &best,
                constants: &constants,
                seed,
            };
            row(size, train, test, &terms.terms()?)?;
        }
        let (train, test) = (
            task.mean_utility(&best, &sets.train)?,
            task.mean_utility(&best, &sets.test)?,
        );
        row(sets.train.len(), train, test, &[])?;
    }
    Ok(())
}

/// A trained model with its layer.
type Priced = Unrolled<Model, Box<dyn Differentiate>>;

fn trained(
    name: &str,
    laau: &Laau,
    experiment: &Experiment,
    task: &Task,
    episodes: &Episodes,
    seed: u64,
) -> Result<Priced, Failure> {
    let training = long_enough(&experiment.training(seed), episodes.len());
    let (model, _) = laau
        .clone()
        .trained_by(training)
        .train(task, episodes, None, seed, &mut ())?;
    Ok(Unrolled::new(name, model, task.solver.clone())?)
}

/// What the right side of the theorem is made of.
struct Bound<'a> {
    task: &'a Task,
    laau: &'a Laau,
    few: &'a Episodes,
    policy: &'a Priced,
    best: &'a Priced,
    constants: &'a Constants,
    seed: u64,
}

impl Bound<'_> {
    /// All terms, in the loss of an episode.
    fn terms(&self) -> Result<Vec<(&'static str, f64)>, Failure> {
        let n = self.few.len() as f64;
        let own = losses(self.task, self.policy, self.few)?;
        let other = losses(self.task, self.best, self.few)?;
        let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
        let mut terms = vec![
            // The least empirical loss is not known; what another model reaches on the same episodes is above it.
            ("training error (at least)", (mean(&own) - mean(&other)).max(0.0)),
            ("R_n by random signs (at least)", self.complexity()?),
            (
                "Lipschitz term",
                self.constants.lipschitz * (2.0_f64 / DELTA).ln().sqrt() / n.sqrt(),
            ),
        ];
        if let Some(Norms { z, w, upsilon }) = self.constants.norms {
            let horizon = self.few.horizon() as f64;
            terms.extend([
                ("Z", z),
                ("W", w),
                ("Upsilon", upsilon),
                ("norm of theta", norm(&self.policy.multiplier().parameters)),
                ("R_n by Prop. 6.2", horizon * horizon * upsilon * z * w / n.sqrt()),
            ]);
        }
        Ok(terms)
    }

    /// `E sup_h (1/n) Σ σ_i L(h, c_i)` by its definition, with the supremum over models that were drawn and trained: a lower
    /// estimate, since the class has more.
    fn complexity(&self) -> Result<f64, Failure> {
        let count = self.few.len().min(SIGNED_EPISODES);
        let episodes = self.few.select(&(0..count).collect::<Vec<_>>());
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut of_models = vec![
            losses(self.task, self.policy, &episodes)?,
            losses(self.task, self.best, &episodes)?,
        ];
        for draw in 0..MODELS {
            let mut model = self.laau.initial(self.task, self.few, self.seed ^ (draw << 32))?;
            if let Network::Linear { norm_bound: Some(z) } = &model.spec.network {
                let norm = model.parameters.iter().map(|v| v * v).sum::<f64>().sqrt();
                let factor = z * rng.random::<f64>() / norm.max(f64::MIN_POSITIVE);
                model.parameters.iter_mut().for_each(|v| *v *= factor);
            }
            let policy = Unrolled::new("drawn", model, self.task.solver.clone())?;
            of_models.push(losses(self.task, &policy, &episodes)?);
        }
        let mut sum = 0.0;
        for _ in 0..SIGNS {
            let signs: Vec<f64> = (0..count)
                .map(|_| if rng.random_bool(0.5) { 1.0 } else { -1.0 })
                .collect();
            let of =
                |losses: &Vec<f64>| losses.iter().zip(&signs).map(|(l, s)| l * s).sum::<f64>() / count as f64;
            sum += of_models.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        }
        Ok(sum / SIGNS as f64 * (count as f64 / self.few.len() as f64).sqrt())
    }
}

/// What does not depend on the number of training episodes. The theorem has it for the whole class and domain, so that it is estimated
/// once, with the best model on all episodes: from the few that a model was trained on it would grow with their number, and the
/// bound with it.
struct Constants {
    /// `2 (Γ_c ω_c + Γ_b ω_b)`.
    lipschitz: f64,
    /// For a linear model, what Proposition 6.2 is made of.
    norms: Option<Norms>,
}

/// The greatest norms of parameters and of features, and `Υ_N`.
#[derive(Clone, Copy)]
struct Norms {
    z: f64,
    w: f64,
    upsilon: f64,
}

impl Constants {
    fn of(task: &Task, best: &Priced, reference: &Episodes) -> Result<Self, Failure> {
        let model = best.multiplier();
        let norms = match &model.spec.network {
            Network::Linear { norm_bound } => {
                let z = norm_bound.unwrap_or_else(|| norm(&model.parameters));
                let features = features(model, reference);
                Some(Norms {
                    z,
                    w: features.iter().map(|phi| norm(phi)).fold(0.0, f64::max),
                    upsilon: upsilon(task, best, reference, z)?,
                })
            }
            _ => None,
        };
        Ok(Self {
            lipschitz: lipschitz(task, best, reference)?,
            norms,
        })
    }
}

/// `2 (Γ_c ω_c + Γ_b ω_b)`, with the largest slopes that were seen and the sizes of the ranges that were seen.
fn lipschitz(task: &Task, best: &Priced, reference: &Episodes) -> Result<f64, Failure> {
    const STEP: f64 = 1e-5;
    let (horizon, width, budgets) = (
        reference.horizon(),
        reference.context_len(),
        reference.budget_len(),
    );
    let (mut of_contexts, mut of_budgets) = (0.0_f64, 0.0_f64);
    for episode in reference.iter().take(LIPSCHITZ_EPISODES) {
        let contexts: Vec<f64> = (0..horizon)
            .flat_map(|step| episode.context(step).to_vec())
            .collect();
        let moves = contexts.len() + budgets;
        let (mut moved, mut amounts) = (Vec::new(), Vec::new());
        for index in 0..=moves {
            let mut contexts = contexts.clone();
            let mut budget = episode.budgets().to_vec();
            if let Some(value) = contexts.get_mut(index) {
                *value += STEP;
            } else if let Some(value) = budget.get_mut(index - contexts.len()) {
                *value += STEP;
            }
            moved.extend(contexts);
            amounts.extend(budget);
        }
        let moved = Episodes::new(horizon, width, budgets, moved, amounts)?;
        let losses = losses(task, best, &moved)?;
        let slopes: Vec<f64> = losses[..moves]
            .iter()
            .map(|l| (l - losses[moves]) / STEP)
            .collect();
        let (contexts, budgets) = slopes.split_at(horizon * width);
        of_contexts = of_contexts.max(norm(contexts));
        of_budgets = of_budgets.max(norm(budgets));
    }
    let size = |values: &[f64], width: usize| {
        let ranges: Vec<f64> = (0..width)
            .map(|column| {
                let of = values.iter().skip(column).step_by(width).copied();
                of.clone().fold(f64::NEG_INFINITY, f64::max) - of.fold(f64::INFINITY, f64::min)
            })
            .collect();
        norm(&ranges)
    };
    let contexts = size(reference.contexts(), horizon * width);
    Ok(2.0 * (of_contexts * contexts + of_budgets * size(reference.budgets(), budgets)))
}

/// `Υ_N` of the paper's appendix, with the largest constants over the steps that were played, and parameters of norm `z` at most:
/// `Γ_l (Γ_pλ Γ_fb + Γ_l Γ_pb) (1 + Γ_g Γ_pb + Γ_g Γ_pλ Γ_fb)^{N−2} Γ_g Γ_pλ`.
fn upsilon(task: &Task, best: &Priced, reference: &Episodes, z: f64) -> Result<f64, Failure> {
    let statistics = &best.multiplier().statistics;
    let rollouts = rollout_all(&*task.problem, best, reference)?;
    // For Σ c ln x and one budget: l' = c/x, and x = c/λ moves by x²/c with the price; usage and budget move one to one.
    let (mut of_loss, mut of_price) = (0.0_f64, 0.0_f64);
    for (episode, rollout) in reference.iter().zip(&rollouts) {
        for (step, x) in rollout.actions.iter().enumerate() {
            let c = episode.context(step)[0];
            of_loss = of_loss.max(c / x);
            if rollout.multipliers[step] > 0.0 && c > 0.0 {
                of_price = of_price.max(x * x / c);
            }
        }
    }
    let price = statistics.multiplier_scale[0];
    let of_network = price * z / statistics.feature_scale[0];
    let growth = 1.0 + 1.0 + of_price * of_network;
    let steps = i32::try_from(reference.horizon()).unwrap_or(i32::MAX) - 2;
    Ok(of_loss * (of_price * of_network + of_loss) * growth.powi(steps) * of_price * price)
}

/// Total losses of episodes.
fn losses(task: &Task, policy: &Priced, episodes: &Episodes) -> Result<Vec<f64>, Failure> {
    let horizon = episodes.horizon() as f64;
    let rollouts = rollout_all(&*task.problem, policy, episodes)?;
    Ok(rollouts
        .iter()
        .map(|rollout| -horizon * Rollout::utility(rollout))
        .collect())
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// Repeats the phases until there are enough gradient steps.
fn long_enough(training: &Training, episodes: usize) -> Training {
    let steps = training.epochs() * episodes.div_ceil(training.batch);
    let factor = LEAST_STEPS.div_ceil(steps.max(1)).max(1);
    let phases = training
        .phases
        .iter()
        .map(|phase| Phase {
            epochs: phase.epochs * factor,
            ..*phase
        })
        .collect();
    Training {
        phases,
        ..training.clone()
    }
}

/// Normalised features of every episode's first step: budget, context, share of steps left, and the constant.
fn features(model: &Model, episodes: &Episodes) -> Vec<Vec<f64>> {
    let statistics = &model.statistics;
    let left = (episodes.horizon() - 1) as f64 / episodes.horizon() as f64;
    episodes
        .iter()
        .map(|episode| {
            let raw = episode
                .budgets()
                .iter()
                .chain(episode.context(0))
                .chain(std::iter::once(&left));
            let scaled = raw
                .zip(&statistics.feature_mean)
                .zip(&statistics.feature_scale)
                .map(|((v, m), s)| (v - m) / s);
            scaled.chain(std::iter::once(1.0)).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_episodes_get_as_many_steps() {
        let steps = |episodes: usize| {
            let training = long_enough(&Training::paper(), episodes);
            training.epochs() * episodes.div_ceil(training.batch)
        };
        assert!(steps(50) >= LEAST_STEPS);
        assert_eq!(steps(5000), 40_000);
    }
}
