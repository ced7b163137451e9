//! Training: Adam on minibatches, the best parameters on the validation set kept.

use laau_core::numerics::{adam::Adam, normal_pair};
use laau_core::{Episodes, Error, FitObserver, FitSets, Task};
use rand::RngExt;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::lanes::Lanes;
use super::unroll::Unroll;
use super::{Method, RlOptions, RlParameters};

/// What training found.
pub(crate) struct Trained {
    pub(crate) model: RlParameters,
    /// Mean cost per step on the validation set.
    pub(crate) validation_cost: f64,
    /// The epoch it was reached in; 0 is before training.
    pub(crate) best_epoch: usize,
}

pub(crate) fn train(
    options: &RlOptions,
    task: &Task,
    mut model: RlParameters,
    FitSets { train, validation }: FitSets<'_>,
    rng: &mut ChaCha8Rng,
    observer: &mut dyn FitObserver,
) -> Result<Trained, Error> {
    let projector = task.expect_projector()?;
    let mut unroll = Unroll::new(&*task.problem, projector, train.horizon());
    let mut lanes = match options.method {
        Method::Simulator => Lanes::new(&*task.problem, train.horizon()),
        Method::PolicyGradient { .. } => None,
    };
    let mut check = Unroll::new(&*task.problem, projector, validation.horizon());
    let check_lanes = Lanes::new(&*task.problem, validation.horizon());
    let mut validate = |model: &RlParameters| match &check_lanes {
        Some(lanes) => Ok(lanes.mean_cost(model, validation)),
        None => mean_cost(&mut check, model, validation),
    };
    let zeros = vec![0.0; model.weights.len()];
    let (mut first, mut second, mut gradient) = (zeros.clone(), zeros.clone(), zeros);
    let mut steps = 0;
    let mut order: Vec<usize> = (0..train.len()).collect();
    let mut best = Trained {
        validation_cost: validate(&model)?,
        model: model.clone(),
        best_epoch: 0,
    };
    let epochs: usize = options.schedule.iter().map(|phase| phase.epochs).sum();
    let mut epoch = 0;
    for phase in &options.schedule {
        for _ in 0..phase.epochs {
            observer.progress(epoch, epochs);
            if observer.should_stop() {
                return Ok(best);
            }
            epoch += 1;
            order.shuffle(rng);
            for batch in order.chunks(options.batch) {
                gradient.fill(0.0);
                match (options.method, &mut lanes) {
                    (Method::Simulator, Some(lanes)) => {
                        lanes.differentiate(&model, train, batch, &mut gradient);
                    }
                    (Method::Simulator, None) => {
                        for &index in batch {
                            let episode = train.get(index);
                            unroll.play(&model, &episode, None)?;
                            unroll.backward(&model, &episode, 1.0 / batch.len() as f64, &mut gradient)?;
                        }
                    }
                    (Method::PolicyGradient { rollouts, noise }, _) => {
                        // From the full noise down to a tenth of it, so that the mean action is what is trained last.
                        let noise = noise * (1.0 - 0.9 * (epoch - 1) as f64 / epochs as f64);
                        let batch: Vec<_> = batch.iter().map(|index| train.get(*index)).collect();
                        policy_gradient(&mut unroll, &model, &batch, rollouts, noise, rng, &mut gradient)?;
                    }
                }
                steps += 1;
                let moments = (&mut first[..], &mut second[..]);
                Adam::default().step(steps, moments, &mut model.weights, &gradient, phase.learning_rate);
            }
            if !epoch.is_multiple_of(options.validate_every) && epoch < epochs {
                continue;
            }
            let cost = validate(&model)?;
            if cost < best.validation_cost {
                best = Trained {
                    model: model.clone(),
                    validation_cost: cost,
                    best_epoch: epoch,
                };
            }
        }
    }
    Ok(best)
}

fn mean_cost(unroll: &mut Unroll<'_>, model: &RlParameters, episodes: &Episodes) -> Result<f64, Error> {
    let costs = episodes.iter().map(|episode| unroll.play(model, &episode, None));
    let total = costs.sum::<Result<f64, Error>>()?;
    Ok(total / episodes.len() as f64)
}

/// REINFORCE: `∇ = E Σ_t (cost to go − baseline)_t ∇ ln p(outputs_t)`, with Gaussian noise on the network's outputs.
///
/// The baseline of a rollout is the mean cost to go of the *other* rollouts of the same episode: contexts do not depend on
/// actions, so this takes their part out of the variance and leaves the gradient unbiased. Advantages are scaled to a unit
/// deviation over the batch.
fn policy_gradient(
    unroll: &mut Unroll<'_>,
    model: &RlParameters,
    batch: &[laau_core::Episode<'_>],
    rollouts: usize,
    noise: f64,
    rng: &mut ChaCha8Rng,
    gradient: &mut [f64],
) -> Result<(), Error> {
    let d = model.action_scale.len();
    let others = (rollouts - 1) as f64;
    let mut played = Vec::with_capacity(batch.len() * rollouts);
    let (mut squares, mut count) = (0.0, 0.0_f64);
    for episode in batch {
        let horizon = episode.horizon();
        let start = played.len();
        let mut totals = vec![0.0; horizon];
        for _ in 0..rollouts {
            let draws: Vec<f64> = (0..horizon * d).map(|_| noise * normal(rng)).collect();
            unroll.play(model, episode, Some(&draws))?;
            let mut to_go: Vec<f64> = unroll.costs().collect();
            for t in (0..horizon - 1).rev() {
                to_go[t] += to_go[t + 1];
            }
            for (total, to_go) in totals.iter_mut().zip(&to_go) {
                *total += to_go;
            }
            played.push((draws, to_go));
        }
        for (_, to_go) in &mut played[start..] {
            for (value, total) in to_go.iter_mut().zip(&totals) {
                *value -= (total - *value) / others;
                squares += *value * *value;
                count += 1.0;
            }
        }
    }
    let deviation = (squares / count).sqrt();
    if deviation <= 0.0 {
        return Ok(());
    }
    for (index, (draws, advantage)) in played.iter().enumerate() {
        let weights: Vec<f64> = draws
            .iter()
            .enumerate()
            .map(|(i, draw)| advantage[i / d] / deviation * draw / (noise * noise) / count)
            .collect();
        unroll.play(model, &batch[index / rollouts], Some(draws))?;
        unroll.score(model, &weights, gradient);
    }
    Ok(())
}

/// A standard normal draw.
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (radius, angle): (f64, f64) = (rng.random_range(f64::EPSILON..1.0), rng.random_range(0.0..1.0));
    normal_pair(radius, angle).0
}
