//! An episode played by the network, and the derivative of its cost through every step and through the budget.

use laau_core::numerics::{mlp, softplus};
use laau_core::{Differentiate, Dimensions, Episode, Error, SmoothProblem};

use super::RlParameters;
use super::network::Activations;
use super::projector::Projector;

/// How close to the budget a single action is cut, as a share of it.
const PAYABLE: f64 = 1e-13;

/// Plays episodes in plain floats (a ledger is exact, but has no derivative), and remembers each step.
pub(crate) struct Unroll<'a> {
    problem: &'a dyn SmoothProblem,
    /// Of several actions; a single one is cut in closed form.
    projector: Option<Projector>,
    steps: Vec<Step>,
    /// The reserve for every number of steps to come.
    reserves: Vec<f64>,
    usage: Vec<f64>,
    jacobian: Vec<f64>,
    weight: Vec<f64>,
    features: Vec<f64>,
    in_remaining: Vec<f64>,
}

/// One step as it was played.
#[derive(Debug, Clone, Default)]
struct Step {
    activations: Activations,
    action: Vec<f64>,
    /// A single action in the box, less its lower bound, before it was made payable.
    wanted: f64,
    /// Whether that is strictly within the bounds.
    free: bool,
    /// The share of `wanted` that can be paid, and the budget that says so.
    cut: Option<(f64, usize)>,
    cost: f64,
}

impl<'a> Unroll<'a> {
    /// Episodes of a problem with one action, or with several and a layer that projects them.
    pub(crate) fn new(
        problem: &'a dyn SmoothProblem,
        projector: Option<&dyn Differentiate>,
        horizon: usize,
    ) -> Self {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = problem.dimensions();
        let mut reserves = vec![0.0; horizon * m];
        for (left, reserve) in reserves.chunks_exact_mut(m).enumerate() {
            problem.reserve(left, reserve);
        }
        Self {
            problem,
            projector: projector.map(|solver| Projector::new(solver, horizon)),
            steps: vec![Step::default(); horizon],
            reserves,
            usage: vec![0.0; m],
            jacobian: vec![0.0; m * d],
            weight: vec![0.0; d],
            features: Vec::new(),
            in_remaining: vec![0.0; m],
        }
    }

    /// Plays an episode, with `noise` (`N × d`, or nothing) added to the network's outputs. Returns the mean cost per step.
    ///
    /// # Errors
    /// When the projector does not fit the problem.
    pub(crate) fn play(
        &mut self,
        model: &RlParameters,
        episode: &Episode<'_>,
        noise: Option<&[f64]>,
    ) -> Result<f64, Error> {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.problem.dimensions();
        let (horizon, layers) = (episode.horizon(), model.layers());
        let mut remaining = episode.budgets().to_vec();
        let mut total = 0.0;
        for t in 0..horizon {
            let mut step = std::mem::take(&mut self.steps[t]);
            let context = episode.context(t);
            model.features(t, horizon, context, &remaining, &mut self.features);
            step.activations.evaluate(&layers, &model.weights, &self.features);
            if let Some(noise) = noise {
                for (output, noise) in step.activations.outputs.iter_mut().zip(&noise[t * d..][..d]) {
                    *output += noise;
                }
            }
            step.action.clear();
            let outputs = step.activations.outputs.iter().zip(&model.action_scale);
            step.action
                .extend(outputs.map(|(output, scale)| scale * softplus(*output).0));
            let reserve = &self.reserves[(horizon - 1 - t) * m..][..m];
            for i in 0..m {
                self.in_remaining[i] = remaining[i] - reserve[i];
            }
            self.make_payable(t, &mut step, context)?;
            step.cost = self.problem.cost(&step.action, context);
            total += step.cost;
            self.problem.usage(&step.action, context, &mut self.usage);
            for i in 0..m {
                remaining[i] -= self.usage[i];
            }
            self.steps[t] = step;
        }
        Ok(total / horizon as f64)
    }

    /// The cost of each step of the episode that was played last.
    pub(crate) fn costs(&self) -> impl Iterator<Item = f64> + '_ {
        self.steps.iter().map(|step| step.cost)
    }

    /// Adds the gradient of the last episode's mean cost, times `scale`, by the chain rule through the simulator:
    ///
    /// ```text
    ///     q_t = ∂l/∂x_t − (∂g/∂x_t)ᵀ p_{t+1}             p_t = dL/db_t,  p_{N+1} = 0
    ///     p_t = p_{t+1} + (∂x_t/∂b_t)ᵀ q_t               through a = b − reserve and through the features
    /// ```
    ///
    /// A single action that the budget `m` cuts is `x = lower + s w` with `g_m(x) = a_m`, so that
    /// `ds = (da_m − s g_m' dw) / (g_m' w)`; several go through the pullback of their projection.
    ///
    /// # Errors
    /// When the projector does not fit the problem.
    pub(crate) fn backward(
        &mut self,
        model: &RlParameters,
        episode: &Episode<'_>,
        scale: f64,
        gradient: &mut [f64],
    ) -> Result<(), Error> {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.problem.dimensions();
        let scale = scale / episode.horizon() as f64;
        let layers = model.layers();
        let mut price = vec![0.0; m];
        for t in (0..episode.horizon()).rev() {
            let step = &mut self.steps[t];
            let context = episode.context(t);
            self.problem
                .cost_gradient(&step.action, context, &mut self.weight);
            self.problem
                .usage_jacobian(&step.action, context, &mut self.jacobian);
            for i in 0..d {
                self.weight[i] *= scale;
                for k in 0..m {
                    self.weight[i] -= self.jacobian[k * d + i] * price[k];
                }
            }
            self.in_remaining.copy_from_slice(&price);
            if let Some(projector) = &mut self.projector {
                projector.pullback(t, &mut self.weight, &mut self.in_remaining)?;
            } else {
                let weight = &mut self.weight[0];
                if let Some((share, resource)) = step.cut {
                    let slope = self.jacobian[resource];
                    let along = slope * step.wanted;
                    // Where the wanted direction uses nothing there is nothing to cut.
                    let rate = if along > 0.0 {
                        *weight * step.wanted / along
                    } else {
                        0.0
                    };
                    self.in_remaining[resource] += rate;
                    *weight = share * (*weight - rate * slope);
                }
                if !step.free {
                    *weight = 0.0;
                }
            }
            let outputs = step.activations.outputs.iter().zip(&model.action_scale);
            for (weight, (output, scale)) in self.weight.iter_mut().zip(outputs) {
                *weight *= scale * softplus(*output).1;
            }
            let slots = &mut step.activations.slots;
            mlp::backward(&layers, &model.weights, slots, &self.weight, gradient);
            for k in 0..m {
                price[k] = self.in_remaining[k] + slots[k] / model.budget_scale[k];
            }
        }
        Ok(())
    }

    /// Adds the score-function gradient of the last episode: `Σ_t weights_tᵀ ∂outputs_t`, with `weights` of `N × d`.
    pub(crate) fn score(&mut self, model: &RlParameters, weights: &[f64], gradient: &mut [f64]) {
        let d = self.problem.dimensions().actions;
        let layers = model.layers();
        for (step, weight) in self.steps.iter_mut().zip(weights.chunks_exact(d)) {
            mlp::backward(
                &layers,
                &model.weights,
                &mut step.activations.slots,
                weight,
                gradient,
            );
        }
    }

    /// How many steps of the last episode could not be paid as they were wanted.
    #[cfg(test)]
    pub(crate) fn cuts(&self) -> usize {
        match &self.projector {
            Some(projector) => projector.cuts(),
            None => self.steps.iter().filter(|step| step.cut.is_some()).count(),
        }
    }

    /// How many steps of the last episode, of a single action each, wanted an action at or beyond a bound.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.steps.iter().filter(|step| !step.free).count()
    }

    /// Makes the wanted action of a step payable from `in_remaining`.
    fn make_payable(&mut self, t: usize, step: &mut Step, context: &[f64]) -> Result<(), Error> {
        let Some(projector) = &mut self.projector else {
            self.cut(step, context);
            return Ok(());
        };
        // The reserve has paid for the lower corner: rounding must not take it away.
        let lower = self.problem.lower();
        self.problem.usage(lower, context, &mut self.usage);
        for (available, least) in self.in_remaining.iter_mut().zip(&self.usage) {
            *available = available.max(*least);
        }
        projector.project(t, context, &self.in_remaining, &mut step.action)?;
        Ok(())
    }

    /// Cuts a single action to what can be paid.
    fn cut(&mut self, step: &mut Step, context: &[f64]) {
        let (lower, upper) = (self.problem.lower()[0], self.problem.upper()[0]);
        let raw = step.action[0];
        step.wanted = raw.clamp(lower, upper) - lower;
        step.free = raw > lower && raw < upper;
        (step.action[0], step.cut) = cut(
            self.problem,
            context,
            step.wanted,
            &self.in_remaining,
            &mut self.usage,
            &mut self.jacobian,
        );
    }
}

/// Whether a usage can be paid, but for rounding.
pub(crate) fn is_payable(usage: f64, available: f64) -> bool {
    usage - available <= PAYABLE * available.abs()
}

/// Cuts a single action, `wanted` above its lower bound, to what can be paid; also returns the share that is left of `wanted` and
/// the budget that says so. Leaves the usage behind.
///
/// Every usage is convex: Newton from the wanted action comes down to the largest payable share of it.
pub(crate) fn cut(
    problem: &dyn SmoothProblem,
    context: &[f64],
    wanted: f64,
    available: &[f64],
    usage: &mut [f64],
    jacobian: &mut [f64],
) -> (f64, Option<(f64, usize)>) {
    const MOST_ITERATIONS: usize = 60;
    let lower = problem.lower()[0];
    let (mut share, mut cut) = (1.0_f64, None);
    let mut action = [lower + wanted];
    for _ in 0..MOST_ITERATIONS {
        action[0] = lower + share * wanted;
        problem.usage(&action, context, usage);
        let payable = (usage.iter().zip(available)).all(|(usage, available)| is_payable(*usage, *available));
        if share <= 0.0 || payable {
            break;
        }
        problem.usage_jacobian(&action, context, jacobian);
        let mut next = share;
        for k in 0..available.len() {
            let over = usage[k] - available[k];
            if over > 0.0 {
                let along = jacobian[k] * wanted;
                let to = if along > 0.0 {
                    (share - over / along).max(0.0)
                } else {
                    0.0
                };
                if to < next {
                    next = to;
                    cut = Some((next, k));
                }
            }
        }
        share = next;
    }
    (action[0], cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rl::network::{initial, layers};
    use laau_core::Nearest;
    use laau_core::problems::{LogUtility, VmAllocation, WeightedFairness, Wireless};
    use laau_kkt::{InteriorPoint, Options};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::sync::Arc;

    fn model(problem: &dyn SmoothProblem, rng: &mut ChaCha8Rng, share: &[f64], scale: f64) -> RlParameters {
        let Dimensions {
            actions,
            budgets,
            context,
        } = problem.dimensions();
        let mut weights = initial(&layers(budgets + context + 1, 6, actions), rng, 0.5);
        for weight in &mut weights {
            *weight += rng.random_range(-0.3..0.3);
        }
        RlParameters {
            hidden: 6,
            weights,
            budget_scale: share.iter().map(|b| b * 5.0).collect(),
            action_scale: vec![scale; actions],
        }
    }

    /// Compares the derivative over a whole episode with central differences; returns how often a budget cut the action.
    fn check(problem: &Arc<dyn SmoothProblem>, share: &[f64], scale: f64, seed: u64) -> usize {
        const HORIZON: usize = 7;
        const DIFFERENCE: f64 = 1e-6;
        let nearest = Arc::new(Nearest::new(Arc::clone(problem)));
        let projector = InteriorPoint::new(nearest, Options::default()).unwrap();
        let several = problem.dimensions().actions > 1;
        let problem = &**problem;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut model = model(problem, &mut rng, share, scale);
        let contexts: Vec<f64> = (0..HORIZON * problem.dimensions().context)
            .map(|_| rng.random_range(0.1..1.0))
            .collect();
        let budgets: Vec<f64> = share.iter().map(|b| b * HORIZON as f64).collect();
        let episode = Episode::new(&contexts, problem.dimensions().context, &budgets).unwrap();
        let projector: Option<&dyn Differentiate> = if several { Some(&projector) } else { None };
        let mut unroll = Unroll::new(problem, projector, HORIZON);
        unroll.play(&model, &episode, None).unwrap();
        let cuts = unroll.cuts();
        let mut gradient = vec![0.0; model.weights.len()];
        unroll.backward(&model, &episode, 1.0, &mut gradient).unwrap();
        for i in 0..gradient.len() {
            let kept = model.weights[i];
            let mut cost_at = |value: f64| {
                model.weights[i] = value;
                unroll.play(&model, &episode, None).unwrap()
            };
            let difference = (cost_at(kept + DIFFERENCE) - cost_at(kept - DIFFERENCE)) / (2.0 * DIFFERENCE);
            model.weights[i] = kept;
            assert!(
                (difference - gradient[i]).abs() <= 1e-6 * (1.0 + difference.abs()),
                "seed {seed}, weight {i}: {} against {difference}",
                gradient[i]
            );
        }
        cuts
    }

    #[test]
    fn the_gradient_is_that_of_differences_over_whole_episodes() {
        let matrix = vec![1.0, 0.5, 0.0, 0.2, 0.7, 1.0];
        let fairness: Arc<dyn SmoothProblem> = Arc::new(WeightedFairness::paper());
        let several: Arc<dyn SmoothProblem> = Arc::new(LogUtility::new(3, 2, matrix, 0.1, 10.0).unwrap());
        let bundle: Arc<dyn SmoothProblem> = Arc::new(VmAllocation::server());
        let bent: Arc<dyn SmoothProblem> = Arc::new(Wireless::new(3, 1.0, 8.0).unwrap());
        let (mut cut, mut uncut) = (0, 0);
        for seed in 0..12 {
            for scale in [0.3, 1.0, 2.5] {
                for cuts in [
                    check(&fairness, &[9.0], 9.0 * scale, seed),
                    check(&several, &[3.0, 3.0], 2.0 * scale, seed),
                    check(&bundle, &[9.0; 4], 9.0 * scale, seed),
                    check(&bent, &vec![2.0; bent.dimensions().budgets], 1.5 * scale, seed),
                ] {
                    cut += cuts;
                    uncut += 7 - cuts;
                }
            }
        }
        // Both ways through the projection were taken often.
        assert!(cut > 50 && uncut > 50, "{cut} cut, {uncut} not");
    }
}
