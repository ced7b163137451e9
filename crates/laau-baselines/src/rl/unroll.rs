//! An episode played by the network, and the derivative of its cost through every step and through the budget.

use laau_core::{Dimensions, Episode, SmoothProblem};

use super::RlParameters;
use super::network::Activations;

/// How close to the budget the projection of the simulator comes, as a share of it.
const PAYABLE: f64 = 1e-13;

/// Plays episodes in plain floats (a ledger is exact, but has no derivative), and remembers each step.
pub(crate) struct Unroll<'a> {
    problem: &'a dyn SmoothProblem,
    steps: Vec<Step>,
    /// The reserve for every number of steps to come.
    reserves: Vec<f64>,
    usage: Vec<f64>,
    jacobian: Vec<f64>,
    weight: Vec<f64>,
    in_features: Vec<f64>,
    in_remaining: Vec<f64>,
}

/// A budget that is used up at a share of the way to what was wanted.
#[derive(Debug, Clone, Copy)]
struct Cut {
    share: f64,
    resource: usize,
}

/// One step as it was played.
#[derive(Debug, Clone, Default)]
struct Step {
    features: Vec<f64>,
    activations: Activations,
    /// The action in the box before it was made payable, less the lower corner.
    wanted: Vec<f64>,
    /// Whether each entry is strictly within its bounds.
    free: Vec<bool>,
    action: Vec<f64>,
    /// Where entries stopped before what was wanted, in order.
    cuts: Vec<Cut>,
    /// Which of the cuts stopped each entry, if any.
    cut_of: Vec<Option<usize>>,
    cost: f64,
}

impl<'a> Unroll<'a> {
    pub(crate) fn new(problem: &'a dyn SmoothProblem, horizon: usize) -> Self {
        let Dimensions {
            actions: d,
            budgets: m,
            context,
        } = problem.dimensions();
        let mut reserves = vec![0.0; horizon * m];
        for (left, reserve) in reserves.chunks_exact_mut(m).enumerate() {
            problem.reserve(left, reserve);
        }
        Self {
            problem,
            steps: vec![Step::default(); horizon],
            reserves,
            usage: vec![0.0; m],
            jacobian: vec![0.0; m * d],
            weight: vec![0.0; d],
            in_features: vec![0.0; m + context + 1],
            in_remaining: vec![0.0; m],
        }
    }

    /// Plays an episode, with `noise` (`N × d`, or nothing) added to the network's outputs. Returns the mean cost per step.
    pub(crate) fn play(&mut self, model: &RlParameters, episode: &Episode<'_>, noise: Option<&[f64]>) -> f64 {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.problem.dimensions();
        let horizon = episode.horizon();
        let mut remaining = episode.budgets().to_vec();
        let mut total = 0.0;
        for t in 0..horizon {
            let mut step = std::mem::take(&mut self.steps[t]);
            let context = episode.context(t);
            model.features(t, horizon, context, &remaining, &mut step.features);
            model
                .shape()
                .forward(&model.weights, &step.features, &mut step.activations);
            if let Some(noise) = noise {
                for (output, noise) in step.activations.outputs.iter_mut().zip(&noise[t * d..][..d]) {
                    *output += noise;
                }
            }
            step.wanted.clear();
            step.free.clear();
            for i in 0..d {
                let raw = model.action_scale[i] * softplus(step.activations.outputs[i]);
                let (lower, upper) = (self.problem.lower()[i], self.problem.upper()[i]);
                step.wanted.push(raw.clamp(lower, upper) - lower);
                step.free.push(raw > lower && raw < upper);
            }
            let reserve = &self.reserves[(horizon - 1 - t) * m..][..m];
            for i in 0..m {
                self.in_remaining[i] = remaining[i] - reserve[i];
            }
            self.make_payable(&mut step, context);
            step.cost = self.problem.cost(&step.action, context);
            total += step.cost;
            self.problem.usage(&step.action, context, &mut self.usage);
            for i in 0..m {
                remaining[i] -= self.usage[i];
            }
            self.steps[t] = step;
        }
        total / horizon as f64
    }

    /// The cost of each step of the episode that was played last.
    pub(crate) fn costs(&self) -> impl Iterator<Item = f64> + '_ {
        self.steps.iter().map(|step| step.cost)
    }

    /// Adds the gradient of the last episode's mean cost, times `scale`, by the chain rule through the simulator:
    ///
    /// ```text
    ///     q_t = ∂l/∂x_t − (∂g/∂x_t)ᵀ p_{t+1}                             p_t = dL/db_t,  p_{N+1} = 0
    ///     x   = lower + s w for the entries S that a budget m stops, g_m(x) = a_m:
    ///           ds = (da_m − s ∇_S g_mᵀ dw − ∇_R g_mᵀ dx) / ∇_S g_mᵀ w           R: the entries that stopped before
    ///     p_t = p_{t+1} + (∂x_t/∂b_t)ᵀ q_t                               through a = b − reserve and through the features
    /// ```
    pub(crate) fn backward(
        &mut self,
        model: &RlParameters,
        episode: &Episode<'_>,
        scale: f64,
        gradient: &mut [f64],
    ) {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.problem.dimensions();
        let scale = scale / episode.horizon() as f64;
        let mut price = vec![0.0; m];
        for t in (0..episode.horizon()).rev() {
            let step = &self.steps[t];
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
            // A cut depends on those before it, by the entries that they stopped.
            for (k, cut) in step.cuts.iter().enumerate().rev() {
                let row = &self.jacobian[cut.resource * d..][..d];
                let stopped = |i: &usize| step.cut_of[*i] == Some(k);
                let along: f64 = (0..d).filter(stopped).map(|i| row[i] * step.wanted[i]).sum();
                let pull: f64 = (0..d)
                    .filter(stopped)
                    .map(|i| self.weight[i] * step.wanted[i])
                    .sum();
                // Where the wanted direction uses nothing there is nothing to cut.
                let rate = if along > 0.0 { pull / along } else { 0.0 };
                self.in_remaining[cut.resource] += rate;
                for i in 0..d {
                    if step.cut_of[i].is_some_and(|of| of <= k) {
                        self.weight[i] -= rate * row[i];
                    }
                    if stopped(&i) {
                        self.weight[i] *= cut.share;
                    }
                }
            }
            for i in 0..d {
                self.weight[i] *= if step.free[i] {
                    model.action_scale[i] * sigmoid(step.activations.outputs[i])
                } else {
                    0.0
                };
            }
            model.shape().backward(
                &model.weights,
                &step.features,
                &step.activations,
                &self.weight,
                gradient,
                &mut self.in_features,
            );
            for k in 0..m {
                price[k] = self.in_remaining[k] + self.in_features[k] / model.budget_scale[k];
            }
        }
    }

    /// Adds the score-function gradient of the last episode: `Σ_t weights_tᵀ ∂outputs_t`, with `weights` of `N × d`.
    pub(crate) fn score(&mut self, model: &RlParameters, weights: &[f64], gradient: &mut [f64]) {
        let d = self.problem.dimensions().actions;
        for (step, weight) in self.steps.iter().zip(weights.chunks_exact(d)) {
            model.shape().backward(
                &model.weights,
                &step.features,
                &step.activations,
                weight,
                gradient,
                &mut self.in_features,
            );
        }
    }

    /// Makes the wanted action payable from `in_remaining` as the named projection does: all entries set out from the lower
    /// corner together, and those that use a budget stop where it is used up.
    fn make_payable(&mut self, step: &mut Step, context: &[f64]) {
        let d = self.problem.dimensions().actions;
        step.cuts.clear();
        step.cut_of.clear();
        step.cut_of.resize(d, None);
        while let Some(cut) = self.next_cut(step, context) {
            let row = &self.jacobian[cut.resource * d..][..d];
            let moving = |of: &Option<usize>| of.is_none();
            let uses = row
                .iter()
                .zip(&step.cut_of)
                .any(|(j, of)| *j != 0.0 && moving(of));
            for (of, slope) in step.cut_of.iter_mut().zip(row) {
                // Where no entry uses the budget to first order, all stop.
                if moving(of) && (*slope != 0.0 || !uses) {
                    *of = Some(step.cuts.len());
                }
            }
            step.cuts.push(cut);
        }
    }

    /// Moves the entries that have not stopped as far as can be paid; the budget that stops them, if one does, with the
    /// Jacobian there.
    ///
    /// Every usage is convex along the line: Newton from the far end comes down to the largest payable share.
    fn next_cut(&mut self, step: &mut Step, context: &[f64]) -> Option<Cut> {
        const MOST_ITERATIONS: usize = 60;
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.problem.dimensions();
        let from = step.cuts.last().map_or(0.0, |cut| cut.share);
        let (mut share, mut found) = (1.0_f64, None);
        for _ in 0..MOST_ITERATIONS {
            step.action.clear();
            step.action.extend((0..d).map(|i| {
                let share = step.cut_of[i].map_or(share, |of| step.cuts[of].share);
                self.problem.lower()[i] + share * step.wanted[i]
            }));
            self.problem.usage(&step.action, context, &mut self.usage);
            let over = |usage: &[f64], k: usize| usage[k] - self.in_remaining[k];
            if share <= from
                || !step.cut_of.contains(&None)
                || (0..m).all(|k| over(&self.usage, k) <= PAYABLE * self.in_remaining[k].abs())
            {
                break;
            }
            self.problem
                .usage_jacobian(&step.action, context, &mut self.jacobian);
            let mut next = share;
            for k in 0..m {
                let over = over(&self.usage, k);
                if over > 0.0 {
                    let along: f64 = (0..d)
                        .filter(|i| step.cut_of[*i].is_none())
                        .map(|i| self.jacobian[k * d + i] * step.wanted[i])
                        .sum();
                    // A budget that is used up already is over by a rounding; what does not use it goes on.
                    let to = if along > 0.0 {
                        (share - over / along).max(from)
                    } else if over > PAYABLE * self.in_remaining[k].abs() {
                        from
                    } else {
                        share
                    };
                    if to < next {
                        next = to;
                        found = Some(Cut {
                            share: next,
                            resource: k,
                        });
                    }
                }
            }
            share = next;
        }
        found
    }
}

/// `ln(1 + eᶻ)` without overflow.
pub(crate) fn softplus(z: f64) -> f64 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

fn sigmoid(z: f64) -> f64 {
    if z >= 0.0 {
        1.0 / (1.0 + (-z).exp())
    } else {
        let e = z.exp();
        e / (1.0 + e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rl::network::Shape;
    use laau_core::problems::{LogUtility, WeightedFairness, Wireless};
    use laau_core::{Problem, Projection};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn model(problem: &dyn SmoothProblem, rng: &mut ChaCha8Rng, share: &[f64], scale: f64) -> RlParameters {
        let Dimensions {
            actions,
            budgets,
            context,
        } = problem.dimensions();
        let shape = Shape {
            inputs: budgets + context + 1,
            hidden: 6,
            outputs: actions,
        };
        let mut weights = shape.initial(rng, 0.5);
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

    /// What is trained must be what is deployed: every action is the one to which the named projection pulls.
    fn assert_plays_the_projection(problem: &dyn SmoothProblem, unroll: &Unroll<'_>, episode: &Episode<'_>) {
        let mut projection = Projection::new(problem);
        let mut remaining = episode.budgets().to_vec();
        let (mut reserve, mut least) = (remaining.clone(), remaining.clone());
        problem.least_usage(&mut least);
        for (t, step) in unroll.steps.iter().enumerate() {
            problem.reserve(episode.horizon() - 1 - t, &mut reserve);
            // Plain floats may fall short of the least usage by a last bit; only a ledger is exact.
            let available: Vec<f64> = (0..least.len())
                .map(|k| (remaining[k] - reserve[k]).max(least[k]))
                .collect();
            let mut action: Vec<f64> = (problem.lower().iter().zip(&step.wanted))
                .map(|(l, w)| l + w)
                .collect();
            projection.apply(problem, episode.context(t), &available, &mut action);
            for (found, expected) in step.action.iter().zip(&action) {
                assert!(
                    (found - expected).abs() <= 1e-9 * (1.0 + expected.abs()),
                    "step {t}: {:?} in training, {action:?} in service",
                    step.action
                );
            }
            let mut usage = vec![0.0; remaining.len()];
            problem.usage(&step.action, episode.context(t), &mut usage);
            for (remaining, usage) in remaining.iter_mut().zip(usage) {
                *remaining -= usage;
            }
        }
    }

    /// Compares the derivative over a whole episode with central differences; returns how often a budget cut the action.
    fn check(problem: &dyn SmoothProblem, share: &[f64], scale: f64, seed: u64) -> usize {
        const HORIZON: usize = 7;
        const DIFFERENCE: f64 = 1e-6;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut model = model(problem, &mut rng, share, scale);
        let contexts: Vec<f64> = (0..HORIZON * problem.dimensions().context)
            .map(|_| rng.random_range(0.1..1.0))
            .collect();
        let budgets: Vec<f64> = share.iter().map(|b| b * HORIZON as f64).collect();
        let episode = Episode::new(&contexts, problem.dimensions().context, &budgets).unwrap();
        let mut unroll = Unroll::new(problem, HORIZON);
        unroll.play(&model, &episode, None);
        let cuts = unroll.steps.iter().filter(|step| !step.cuts.is_empty()).count();
        assert_plays_the_projection(problem, &unroll, &episode);
        let mut gradient = vec![0.0; model.weights.len()];
        unroll.backward(&model, &episode, 1.0, &mut gradient);
        for i in 0..gradient.len() {
            let kept = model.weights[i];
            let mut cost_at = |value: f64| {
                model.weights[i] = value;
                unroll.play(&model, &episode, None)
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
        let fairness = WeightedFairness::paper();
        let several = LogUtility::new(3, 2, vec![1.0, 0.5, 0.0, 0.2, 0.7, 1.0], 0.1, 10.0).unwrap();
        let matrix = vec![1.0, 1.0, 0.0, 0.0, 0.0, 0.7, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        let apart = LogUtility::new(4, 3, matrix, 0.1, 10.0).unwrap();
        let bent = Wireless::new(3, 1.0, 8.0).unwrap();
        let (mut cut, mut uncut) = (0, 0);
        for seed in 0..12 {
            for scale in [0.3, 1.0, 2.5] {
                for cuts in [
                    check(&fairness, &[9.0], 9.0 * scale, seed),
                    check(&several, &[3.0, 3.0], 2.0 * scale, seed),
                    check(&apart, &[2.0, 3.0, 1.5], 2.0 * scale, seed),
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
