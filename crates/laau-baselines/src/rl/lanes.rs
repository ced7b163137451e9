//! Episodes of one action and one budget played side by side: what [`Unroll`](super::unroll::Unroll) does, several at once.
#![expect(
    clippy::inline_always,
    reason = "compiled for the instruction set that is dispatched to"
)]

use laau_core::numerics::softplus;
use laau_core::{Dimensions, Episode, Episodes, SmoothProblem};
use pulp::{Arch, Simd, WithSimd};
use rayon::prelude::*;

use super::RlParameters;
use super::unroll::{cut, is_payable};

/// How many episodes are played at once.
pub(crate) const LANES: usize = 4;

/// One number of each episode.
type Lane = [f64; LANES];

/// Sums that stay in registers at once.
const TILE: usize = 5;

/// Plays episodes in plain floats, and remembers each step.
///
/// Every episode is computed as if it were alone, with plain products and sums in a fixed order: instruction sets differ in how
/// many lanes they take at once, not in the result.
#[derive(Clone)]
pub(crate) struct Lanes<'a> {
    problem: &'a dyn SmoothProblem,
    arch: Arch,
    steps: Vec<Step>,
    /// Of each step: the inputs, then the two hidden layers.
    units: Vec<Lane>,
    /// Of each step: the contexts of the episodes.
    contexts: Vec<f64>,
    /// The reserve for every number of steps to come.
    reserves: Vec<f64>,
    /// The gradients in the hidden units.
    hidden: Vec<Lane>,
    /// The gradient in the parameters.
    gradient: Vec<Lane>,
    scratch: Vec<f64>,
}

/// One step as it was played.
#[derive(Debug, Clone, Default)]
struct Step {
    action: Lane,
    /// The actions in the box, less their lower bound, before they were made payable.
    wanted: Lane,
    /// The derivatives of the actions in the network's outputs; zero where a bound holds.
    slope: Lane,
    /// The shares of `wanted` that the budget leaves.
    share: [Option<f64>; LANES],
}

impl<'a> Lanes<'a> {
    /// Episodes of a problem with one action and one budget; `None` for any other.
    pub(crate) fn new(problem: &'a dyn SmoothProblem, horizon: usize) -> Option<Self> {
        let Dimensions {
            actions,
            budgets,
            context,
        } = problem.dimensions();
        if (actions, budgets) != (1, 1) {
            return None;
        }
        let mut reserves = vec![0.0; horizon];
        for (left, reserve) in reserves.iter_mut().enumerate() {
            problem.reserve(left, std::slice::from_mut(reserve));
        }
        Some(Self {
            problem,
            arch: Arch::new(),
            steps: vec![Step::default(); horizon],
            units: Vec::new(),
            contexts: vec![0.0; horizon * LANES * context],
            reserves,
            hidden: Vec::new(),
            gradient: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// The mean cost per step over episodes, in parallel; the same bits for any number of threads.
    pub(crate) fn mean_cost(&self, model: &RlParameters, episodes: &Episodes) -> f64 {
        let order: Vec<usize> = (0..episodes.len()).collect();
        let blocks: Vec<Lane> = order
            .par_chunks(LANES)
            .with_min_len(8)
            .map_init(
                || self.clone(),
                |lanes, block| lanes.play(model, episodes, block, true),
            )
            .collect();
        let costs = blocks.as_flattened()[..episodes.len()].iter();
        costs.sum::<f64>() / episodes.len() as f64
    }

    /// Adds the gradient of the mean cost per step over the episodes of a minibatch.
    pub(crate) fn differentiate(
        &mut self,
        model: &RlParameters,
        episodes: &Episodes,
        batch: &[usize],
        gradient: &mut [f64],
    ) {
        let scale = 1.0 / (batch.len() as f64 * episodes.horizon() as f64);
        self.gradient.clear();
        self.gradient.resize(gradient.len(), [0.0; LANES]);
        for block in batch.chunks(LANES) {
            self.play(model, episodes, block, false);
            self.arch.dispatch(Backward {
                lanes: self,
                model,
                count: block.len(),
                scale,
            });
        }
        for (sum, lanes) in gradient.iter_mut().zip(&self.gradient) {
            *sum += lanes.iter().sum::<f64>();
        }
    }

    /// Plays up to [`LANES`] episodes; lanes that are left over repeat the first. Returns the mean costs per step if they are
    /// asked for.
    fn play(&mut self, model: &RlParameters, episodes: &Episodes, block: &[usize], costs: bool) -> Lane {
        let lanes: [Episode<'_>; LANES] =
            std::array::from_fn(|lane| episodes.get(*block.get(lane).unwrap_or(&block[0])));
        let width = episodes.context_len();
        for (t, row) in self.contexts.chunks_exact_mut(LANES * width).enumerate() {
            for (context, episode) in row.chunks_exact_mut(width).zip(&lanes) {
                context.copy_from_slice(episode.context(t));
            }
        }
        let budgets = lanes.map(|episode| episode.budgets()[0]);
        self.arch.dispatch(Forward {
            lanes: self,
            model,
            budgets,
            costs,
        })
    }

    #[inline(always)]
    fn forward(&mut self, model: &RlParameters, budgets: Lane, costs: bool) -> Lane {
        let [first, second, last] = parts(model);
        let (hidden, horizon) = (model.hidden, self.steps.len());
        let inputs = first.len() / hidden - 1;
        let context_len = inputs - 2;
        let (lower, upper) = (self.problem.lower()[0], self.problem.upper()[0]);
        let (budget_scale, action_scale) = (model.budget_scale[0], model.action_scale[0]);
        let width = inputs + 2 * hidden;
        self.units.resize(horizon * width, [0.0; LANES]);
        let (mut remaining, mut total) = (budgets, [0.0; LANES]);
        let rows = self.units.chunks_exact_mut(width);
        let contexts = self.contexts.chunks_exact(LANES * context_len);
        for (t, ((step, units), contexts)) in self.steps.iter_mut().zip(rows).zip(contexts).enumerate() {
            let (features, units) = units.split_at_mut(inputs);
            let (one, two) = units.split_at_mut(hidden);
            features[0] = remaining.map(|b| b / budget_scale);
            for (k, feature) in features[1..=context_len].iter_mut().enumerate() {
                *feature = std::array::from_fn(|lane| contexts[lane * context_len + k]);
            }
            features[context_len + 1] = [(horizon - t) as f64 / horizon as f64; LANES];
            dense(features, first, one);
            dense(one, second, two);
            let mut output = [last[hidden]; LANES];
            for (units, weight) in two.iter().zip(last) {
                output = add_product(output, *units, [*weight; LANES]);
            }
            for lane in 0..LANES {
                let (value, slope) = softplus(output[lane]);
                let raw = action_scale * value;
                // As `clamp`, which asserts.
                let inside = if raw < lower { lower } else { raw };
                let inside = if inside > upper { upper } else { inside };
                step.wanted[lane] = inside - lower;
                step.action[lane] = lower + step.wanted[lane];
                step.slope[lane] = if raw > lower && raw < upper {
                    action_scale * slope
                } else {
                    0.0
                };
            }
            step.share = [None; LANES];
            let mut usage = [0.0; LANES];
            self.problem.usage_batch(&step.action, contexts, &mut usage);
            let available = remaining.map(|b| b - self.reserves[horizon - 1 - t]);
            for lane in 0..LANES {
                if !is_payable(usage[lane], available[lane]) {
                    let context = &contexts[lane * context_len..][..context_len];
                    let (available, mut used, mut jacobian) = ([available[lane]], [0.0], [0.0]);
                    let wanted = step.wanted[lane];
                    let (action, cut) = cut(
                        self.problem,
                        context,
                        wanted,
                        &available,
                        &mut used,
                        &mut jacobian,
                    );
                    step.action[lane] = action;
                    step.share[lane] = cut.map(|(share, _)| share);
                    usage[lane] = used[0];
                }
            }
            if costs {
                let mut cost = [0.0; LANES];
                self.problem.cost_batch(&step.action, contexts, &mut cost);
                for (total, cost) in total.iter_mut().zip(cost) {
                    *total += cost;
                }
            }
            for (remaining, usage) in remaining.iter_mut().zip(usage) {
                *remaining -= usage;
            }
        }
        total.map(|total| total / horizon as f64)
    }

    /// Adds the gradient of the costs of the first `count` episodes that were played last, times `scale`, by the chain rule of
    /// [`Unroll::backward`](super::unroll::Unroll::backward).
    #[inline(always)]
    fn backward(&mut self, model: &RlParameters, count: usize, scale: f64) {
        let [first, second, last] = parts(model);
        let hidden = model.hidden;
        let inputs = first.len() / hidden - 1;
        let width = inputs + 2 * hidden;
        let context_len = inputs - 2;
        self.hidden.resize(2 * hidden, [0.0; LANES]);
        let (in_one, in_two) = self.hidden.split_at_mut(hidden);
        let (in_first, rest) = self.gradient.split_at_mut(first.len());
        let (in_second, in_last) = rest.split_at_mut(second.len());
        let active: Lane = std::array::from_fn(|lane| if lane < count { 1.0 } else { 0.0 });
        let mut price = [0.0; LANES];
        let rows = self.units.chunks_exact(width);
        let contexts = self.contexts.chunks_exact(LANES * context_len);
        for ((step, units), contexts) in self.steps.iter().zip(rows).zip(contexts).rev() {
            let mut weight = [0.0; LANES];
            self.problem.step_pullback_batch(
                &step.action,
                contexts,
                &price,
                scale,
                &mut self.scratch,
                &mut weight,
            );
            for lane in 0..LANES {
                let Some(share) = step.share[lane] else { continue };
                let context = &contexts[lane * context_len..][..context_len];
                let mut slope = [0.0];
                self.problem
                    .usage_jacobian(&step.action[lane..=lane], context, &mut slope);
                let along = slope[0] * step.wanted[lane];
                // Where the wanted direction uses nothing there is nothing to cut.
                let rate = if along > 0.0 {
                    weight[lane] * step.wanted[lane] / along
                } else {
                    0.0
                };
                price[lane] += rate;
                weight[lane] = share * (weight[lane] - rate * slope[0]);
            }
            for ((weight, slope), active) in weight.iter_mut().zip(step.slope).zip(active) {
                *weight *= slope * active;
            }
            let (features, units) = units.split_at(inputs);
            let (one, two) = units.split_at(hidden);
            let upstream = [weight];
            pull_back(two, last, &upstream, in_two, in_last);
            pull_back(one, second, in_two, in_one, in_second);
            let in_budget = pull_back_first(features, first, in_one, in_first);
            for (price, slope) in price.iter_mut().zip(in_budget) {
                *price += slope / model.budget_scale[0];
            }
        }
    }
}

/// [`Lanes::forward`], compiled for each instruction set.
struct Forward<'l, 'a, 'm> {
    lanes: &'l mut Lanes<'a>,
    model: &'m RlParameters,
    budgets: Lane,
    costs: bool,
}

impl WithSimd for Forward<'_, '_, '_> {
    type Output = Lane;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Lane {
        self.lanes.forward(self.model, self.budgets, self.costs)
    }
}

/// [`Lanes::backward`], compiled for each instruction set.
struct Backward<'l, 'a, 'm> {
    lanes: &'l mut Lanes<'a>,
    model: &'m RlParameters,
    count: usize,
    scale: f64,
}

impl WithSimd for Backward<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.lanes.backward(self.model, self.count, self.scale);
    }
}

/// The parameters of the three layers.
fn parts(model: &RlParameters) -> [&[f64]; 3] {
    let hidden = model.hidden;
    let (first, others) = (model.weights).split_at(model.weights.len() - (hidden + 1) * (hidden + 1));
    let (second, last) = others.split_at(hidden * (hidden + 1));
    [first, second, last]
}

/// A rectified layer.
#[inline(always)]
fn dense(inputs: &[Lane], layer: &[f64], outputs: &mut [Lane]) {
    let width = outputs.len();
    let (matrix, bias) = layer.split_at(inputs.len() * width);
    let mut start = 0;
    while start + TILE <= width {
        tile::<TILE>(inputs, matrix, width, start, bias, outputs);
        start += TILE;
    }
    while start < width {
        tile::<1>(inputs, matrix, width, start, bias, outputs);
        start += 1;
    }
}

/// Some units of a rectified layer.
#[inline(always)]
fn tile<const UNITS: usize>(
    inputs: &[Lane],
    matrix: &[f64],
    width: usize,
    start: usize,
    bias: &[f64],
    outputs: &mut [Lane],
) {
    let mut sums: [Lane; UNITS] = std::array::from_fn(|k| [bias[start + k]; LANES]);
    for (input, row) in inputs.iter().zip(matrix.chunks_exact(width)) {
        for (sum, weight) in sums.iter_mut().zip(&row[start..][..UNITS]) {
            *sum = add_product(*sum, *input, [*weight; LANES]);
        }
    }
    for (output, sum) in outputs[start..].iter_mut().zip(sums) {
        *output = sum.map(|sum| if sum > 0.0 { sum } else { 0.0 });
    }
}

/// Adds the gradient in a layer, and writes the one in its inputs, which are hidden units: one that is off passes nothing on.
#[inline(always)]
fn pull_back(
    inputs: &[Lane],
    layer: &[f64],
    upstream: &[Lane],
    in_inputs: &mut [Lane],
    in_layer: &mut [Lane],
) {
    let width = upstream.len();
    let (matrix, _) = layer.split_at(inputs.len() * width);
    let (in_matrix, in_bias) = in_layer.split_at_mut(inputs.len() * width);
    add(in_bias, upstream);
    let rows = matrix.chunks_exact(width).zip(in_matrix.chunks_exact_mut(width));
    for ((input, in_input), (row, in_row)) in inputs.iter().zip(in_inputs).zip(rows) {
        let sum = pull_back_row(input, row, upstream, in_row);
        *in_input = std::array::from_fn(|lane| if input[lane] > 0.0 { sum[lane] } else { 0.0 });
    }
}

/// Adds the gradient in the first layer, and returns the one in its first input.
#[inline(always)]
fn pull_back_first(inputs: &[Lane], layer: &[f64], upstream: &[Lane], in_layer: &mut [Lane]) -> Lane {
    let width = upstream.len();
    let (in_matrix, in_bias) = in_layer.split_at_mut(inputs.len() * width);
    add(in_bias, upstream);
    let (in_row, in_others) = in_matrix.split_at_mut(width);
    for (input, in_row) in inputs[1..].iter().zip(in_others.chunks_exact_mut(width)) {
        for (in_weight, up) in in_row.iter_mut().zip(upstream) {
            *in_weight = add_product(*in_weight, *up, *input);
        }
    }
    pull_back_row(&inputs[0], layer, upstream, in_row)
}

#[inline(always)]
fn pull_back_row(input: &Lane, row: &[f64], upstream: &[Lane], in_row: &mut [Lane]) -> Lane {
    let mut sum = [0.0; LANES];
    for ((weight, in_weight), up) in row.iter().zip(in_row).zip(upstream) {
        *in_weight = add_product(*in_weight, *up, *input);
        sum = add_product(sum, *up, [*weight; LANES]);
    }
    sum
}

#[inline(always)]
fn add(sums: &mut [Lane], values: &[Lane]) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = std::array::from_fn(|lane| sum[lane] + value[lane]);
    }
}

/// `sum + a b`, rounded twice, as everywhere.
#[inline(always)]
fn add_product(sum: Lane, a: Lane, b: Lane) -> Lane {
    std::array::from_fn(|lane| sum[lane] + a[lane] * b[lane])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rl::network::{initial, layers};
    use crate::rl::unroll::Unroll;
    use laau_core::problems::{LogUtility, Trading, WeightedFairness};
    use laau_core::{AutoDiff, Number, ProblemFunctions};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const HORIZON: usize = 9;

    /// Usage that is not affine, and depends on the context.
    struct Bent;

    impl ProblemFunctions for Bent {
        fn name(&self) -> &'static str {
            "bent"
        }
        fn dimensions(&self) -> Dimensions {
            Dimensions {
                actions: 1,
                budgets: 1,
                context: 2,
            }
        }
        fn lower(&self) -> &[f64] {
            &[0.1]
        }
        fn upper(&self) -> &[f64] {
            &[4.0]
        }
        fn cost<T: Number>(&self, x: &[T], c: &[T]) -> T {
            -c[0] * x[0].ln()
        }
        fn usage<T: Number>(&self, x: &[T], c: &[T], out: &mut [T]) {
            out[0] = x[0] + c[1] * x[0] * x[0];
        }
        fn least_usage(&self, out: &mut [f64]) {
            out[0] = 0.11;
        }
    }

    fn model(problem: &dyn SmoothProblem, hidden: usize, share: f64, rng: &mut ChaCha8Rng) -> RlParameters {
        let inputs = problem.dimensions().context + 2;
        let mut weights = initial(&layers(inputs, hidden, 1), rng, 0.5);
        for weight in &mut weights {
            *weight += rng.random_range(-0.3..0.3);
        }
        RlParameters {
            hidden,
            weights,
            budget_scale: vec![share * HORIZON as f64],
            action_scale: vec![share * rng.random_range(0.4..2.5)],
        }
    }

    fn episodes(problem: &dyn SmoothProblem, share: f64, count: usize, rng: &mut ChaCha8Rng) -> Episodes {
        let width = problem.dimensions().context;
        let mut draw =
            |count, low, high| -> Vec<f64> { (0..count).map(|_| rng.random_range(low..high)).collect() };
        let contexts = draw(count * HORIZON * width, 0.1, 1.0);
        let reach = share * HORIZON as f64;
        let budgets = draw(count, 0.6 * reach, 1.4 * reach);
        Episodes::new(HORIZON, width, 1, contexts, budgets).unwrap()
    }

    #[test]
    fn episodes_side_by_side_are_played_and_differentiated_as_if_alone() {
        let problems: [(&dyn SmoothProblem, f64); 4] = [
            (&WeightedFairness::paper(), 9.0),
            (&LogUtility::new(1, 1, vec![0.7], 0.1, 10.0).unwrap(), 2.0),
            (&Trading::inventory(), 3.0),
            (&AutoDiff::new(Bent).unwrap(), 2.0),
        ];
        let (mut cuts, mut held, mut steps, mut moved) = (0, 0, 0, 0);
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        for (problem, share) in problems {
            for (hidden, count) in [(10, 10), (10, 1), (3, 7), (5, 4), (17, 13), (1, 6)] {
                let model = model(problem, hidden, share, &mut rng);
                let set = episodes(problem, share, count, &mut rng);
                let batch: Vec<usize> = (0..count).rev().collect();
                let mut lanes = Lanes::new(problem, HORIZON).unwrap();
                let mut gradient = vec![0.0; model.weights.len()];
                lanes.differentiate(&model, &set, &batch, &mut gradient);
                let cost = lanes.mean_cost(&model, &set);

                let mut alone = Unroll::new(problem, None, HORIZON);
                let (mut expected, mut expected_cost) = (vec![0.0; gradient.len()], 0.0);
                for episode in set.iter() {
                    expected_cost += alone.play(&model, &episode, None).unwrap() / count as f64;
                    alone
                        .backward(&model, &episode, 1.0 / count as f64, &mut expected)
                        .unwrap();
                    cuts += alone.cuts();
                    held += alone.held();
                    steps += HORIZON;
                }
                let largest = expected.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
                moved += usize::from(largest > 0.0);
                for (found, expected) in gradient.iter().zip(&expected) {
                    assert!(
                        (found - expected).abs() <= 1e-12 * largest,
                        "{}, {hidden} units, {count} episodes: {found:e}, not {expected:e}",
                        problem.name()
                    );
                }
                assert!(
                    (cost - expected_cost).abs() <= 1e-13 * (1.0 + cost.abs()),
                    "{}: a cost of {cost}, not {expected_cost}",
                    problem.name()
                );
            }
        }
        // Every way through the step was taken often.
        assert!(
            cuts > 100 && held > 50 && cuts + held < steps && moved > 18,
            "{cuts} cut and {held} at a bound of {steps}; {moved} gradients"
        );
    }

    #[test]
    fn several_actions_or_budgets_are_not_for_lanes() {
        let two_actions = LogUtility::new(2, 1, vec![1.0, 1.0], 0.1, 10.0).unwrap();
        let two_budgets = LogUtility::new(1, 2, vec![1.0, 1.0], 0.1, 10.0).unwrap();
        assert!(Lanes::new(&two_actions, 3).is_none());
        assert!(Lanes::new(&two_budgets, 3).is_none());
    }
}
