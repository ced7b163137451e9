//! The operations of candle's graph: features, price, and one step of an episode.
//!
//! Each does the work of several small tensor operations, whose allocation and bookkeeping would otherwise be most of a
//! minibatch.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Device, Layout, Result, Shape, Storage, Tensor};
use laau_core::{
    Cap, Differentiate, Dimensions, Error, GradientCounts, Gradients, Queries, Solutions, Status,
};
use pulp::Scalar;

use crate::guarded::GuardedLayer;
use crate::lanes::Doubles;
use crate::spec::Output;

/// The layer that all steps of a graph share, and what they report.
pub(super) struct Shared {
    pub(super) dimensions: Dimensions,
    workspace: Mutex<Workspace>,
}

pub(super) struct Workspace {
    pub(super) layer: Box<dyn Differentiate>,
    /// Takes the layer's place. What it keeps of a minibatch goes with the steps, forward and then backward.
    pub(super) guard: Option<GuardedLayer>,
    /// The costs of all steps of the minibatch.
    pub(super) cost: f64,
    pub(super) counts: GradientCounts,
    /// The first error of core; candle's errors carry only its text.
    pub(super) failure: Option<Error>,
}

impl Shared {
    pub(super) fn new(layer: Box<dyn Differentiate>) -> Self {
        Self {
            dimensions: layer.problem().dimensions(),
            workspace: Mutex::new(Workspace {
                layer,
                guard: None,
                cost: 0.0,
                counts: GradientCounts::default(),
                failure: None,
            }),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Workspace> {
        self.workspace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workspace {
    fn fail(&mut self, error: Error) -> candle_core::Error {
        let text = candle_core::Error::msg(&error);
        self.failure.get_or_insert(error);
        text
    }
}

/// One step of all episodes: multipliers and remaining budgets (both `rows × M`) to the budgets that remain after it.
///
/// The loss is the sum of all costs times a constant, so that each step adds the gradient of its own cost in the backward
/// pass: the graph needs no node for the loss, and its root is the last step. An operation is made for one application;
/// the backward pass uses the solutions of the forward pass.
pub(super) struct StepOp {
    shared: Arc<Shared>,
    step: usize,
    is_last: bool,
    /// The factor of each cost in the loss.
    weight: f64,
    contexts: Vec<f64>,
    /// What must stay for the steps to come.
    reserve: Vec<f64>,
    solved: Mutex<Option<Solved>>,
}

struct Solved {
    solutions: Solutions,
    available: Vec<f64>,
    caps: Vec<Cap>,
}

impl StepOp {
    pub(super) fn new(shared: &Arc<Shared>, step: usize, horizon: usize, contexts: Vec<f64>) -> Self {
        let rows = contexts.len() / shared.dimensions.context;
        let mut reserve = vec![0.0; shared.dimensions.budgets];
        let workspace = shared.lock();
        let problem = workspace.layer.problem();
        problem.reserve(horizon - 1 - step, &mut reserve);
        Self {
            shared: Arc::clone(shared),
            step,
            is_last: step + 1 == horizon,
            weight: 1.0 / (rows * horizon) as f64,
            contexts,
            reserve,
            solved: Mutex::new(None),
        }
    }

    fn solved(&self) -> MutexGuard<'_, Option<Solved>> {
        self.solved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CustomOp2 for StepOp {
    fn name(&self) -> &'static str {
        "laau-step"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let dimensions @ Dimensions { budgets, .. } = self.shared.dimensions;
        let (multipliers, mut remaining) = (stored(s1, l1)?, stored(s2, l2)?.into_owned());
        let rows = remaining.len() / budgets;
        let workspace = &mut *self.shared.lock();
        let mut least = vec![0.0; budgets];
        workspace.layer.problem().least_usage(&mut least);
        let mut available = remaining.clone();
        for row in available.chunks_exact_mut(budgets) {
            for ((value, reserve), least) in row.iter_mut().zip(&self.reserve).zip(&least) {
                // Plain floats may fall short of the least usage by a last bit; only a ledger is exact.
                *value = (*value - reserve).max(*least);
            }
        }
        if let Some(guard) = &workspace.guard {
            guard.keep(self.step, &mut available);
        }
        let mut solutions = Solutions::new(dimensions, rows);
        let mut caps = vec![Cap::Free; rows];
        let queries = Queries {
            contexts: &self.contexts,
            multipliers: &multipliers,
            available: &available,
        };
        let solved = match &mut workspace.guard {
            Some(guard) => guard.solve(self.step, queries, &mut solutions, &mut caps),
            None => workspace.layer.solve_batch(queries, &mut solutions),
        };
        if let Err(error) = solved {
            return Err(workspace.fail(error));
        }
        let feasible = |status: &Status| status.expect_feasible(self.step);
        if let Err(error) = solutions.statuses().iter().try_for_each(feasible) {
            return Err(workspace.fail(error));
        }
        let problem = workspace.layer.problem();
        let (mut costs, mut usages) = (vec![0.0; rows], vec![0.0; rows * budgets]);
        problem.cost_batch(solutions.actions(), &self.contexts, &mut costs);
        problem.usage_batch(solutions.actions(), &self.contexts, &mut usages);
        workspace.cost += costs.iter().sum::<f64>();
        if let Some(guard) = &mut workspace.guard {
            guard.pay(&costs);
        }
        for (remaining, usage) in remaining.iter_mut().zip(&usages) {
            *remaining -= usage;
        }
        *self.solved() = Some(Solved {
            solutions,
            available,
            caps,
        });
        Ok((CpuStorage::F64(remaining), Shape::from((rows, budgets))))
    }

    fn bwd(
        &self,
        multiplier: &Tensor,
        remaining: &Tensor,
        _: &Tensor,
        grad_res: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let Dimensions {
            actions: d,
            budgets: m,
            context: width,
        } = self.shared.dimensions;
        let solved = self.solved();
        let Some(Solved {
            solutions,
            available,
            caps,
        }) = &*solved
        else {
            return Err(candle_core::Error::msg("the layer has not been solved"));
        };
        let multipliers = to_vec(multiplier)?;
        let mut after = to_vec(grad_res)?;
        if self.is_last {
            // The loss does not depend on what is left in the end.
            after.fill(0.0);
        }
        let workspace = &mut *self.shared.lock();
        let problem = workspace.layer.problem();
        let mut upstream = vec![0.0; solutions.actions().len()];
        let mut jacobian = vec![0.0; m * d];
        if let Some(guard) = &workspace.guard {
            let weight = self.weight;
            guard.upstream(
                solutions,
                &self.contexts,
                &after,
                weight,
                &mut jacobian,
                &mut upstream,
            );
        } else {
            for (row, (after, out)) in after
                .chunks_exact(m)
                .zip(upstream.chunks_exact_mut(d))
                .enumerate()
            {
                let action = &solutions.actions()[row * d..][..d];
                let context = &self.contexts[row * width..][..width];
                problem.cost_gradient(action, context, out);
                for out in &mut *out {
                    *out *= self.weight;
                }
                problem.usage_jacobian(action, context, &mut jacobian);
                for (slopes, after) in jacobian.chunks_exact(d).zip(after) {
                    for (out, slope) in out.iter_mut().zip(slopes) {
                        *out -= slope * after;
                    }
                }
            }
        }
        let mut gradients = Gradients::new(self.shared.dimensions, solutions.rows());
        let queries = Queries {
            contexts: &self.contexts,
            multipliers: &multipliers,
            available,
        };
        let pulled = match &mut workspace.guard {
            Some(guard) => guard.pullback(queries, caps, solutions, &upstream, &mut gradients),
            None => (workspace.layer).pullback_batch(queries, solutions, &upstream, &mut gradients),
        };
        if let Err(error) = pulled {
            return Err(workspace.fail(error));
        }
        for exactness in &gradients.exactness {
            workspace.counts.add(*exactness);
        }
        for (before, after) in gradients.available.iter_mut().zip(&after) {
            *before += after;
        }
        Ok((
            Some(like(gradients.multipliers, multiplier)?),
            Some(like(gradients.available, remaining)?),
        ))
    }
}

/// The normalised features of a step (`rows × features`) from the remaining budgets (`rows × M`).
pub(super) struct FeatureOp {
    /// Slope and offset of each feature of the budgets; feature `j` is of budget `j mod M`.
    pub(super) of_budgets: Vec<(f64, f64)>,
    /// The features that follow from the contexts, `rows × others`.
    pub(super) known: Vec<f64>,
}

impl CustomOp1 for FeatureOp {
    fn name(&self) -> &'static str {
        "laau-features"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let remaining = stored(storage, layout)?;
        let (rows, budgets) = layout.shape().dims2()?;
        let width = self.of_budgets.len() + self.known.len() / rows;
        let mut features = Vec::with_capacity(rows * width);
        let known = self.known.chunks_exact(self.known.len() / rows);
        for (remaining, known) in remaining.chunks_exact(budgets).zip(known) {
            let of_budgets = self.of_budgets.iter().zip(remaining.iter().cycle());
            features.extend(of_budgets.map(|((slope, offset), b)| slope * b + offset));
            features.extend_from_slice(known);
        }
        Ok((CpuStorage::F64(features), Shape::from((rows, width))))
    }

    fn bwd(&self, remaining: &Tensor, _: &Tensor, grad_res: &Tensor) -> Result<Option<Tensor>> {
        let (rows, budgets) = remaining.dims2()?;
        let upstream = to_vec(grad_res)?;
        let mut gradient = vec![0.0; rows * budgets];
        let pairs = gradient
            .chunks_exact_mut(budgets)
            .zip(upstream.chunks_exact(upstream.len() / rows));
        for (gradient, upstream) in pairs {
            for (j, (slope, _)) in self.of_budgets.iter().enumerate() {
                gradient[j % budgets] += slope * upstream[j];
            }
        }
        Ok(Some(like(gradient, remaining)?))
    }
}

/// What an output is multiplied with.
pub(super) enum Base {
    /// One price per budget.
    Plain(Vec<f64>),
    /// Per budget the constant part and the smallest budget that it is divided by; per row the level to come.
    Residual {
        constants: Vec<(f64, f64)>,
        levels: Vec<f64>,
    },
}

impl Base {
    /// The base of a price, and its derivative in the remaining budget.
    fn at(&self, row: usize, budget: usize, remaining: f64) -> (f64, f64) {
        match self {
            Self::Plain(prices) => (prices[budget], 0.0),
            Self::Residual { constants, levels } => {
                let (constant, least) = constants[budget];
                let base = constant * levels[row] / remaining.max(least);
                let falling = if remaining > least { -base / remaining } else { 0.0 };
                (base, falling)
            }
        }
    }
}

/// The prices for a network's outputs and the remaining budgets, all `rows × M`.
pub(super) struct PriceOp {
    pub(super) output: Output,
    pub(super) base: Base,
}

impl CustomOp2 for PriceOp {
    fn name(&self) -> &'static str {
        "laau-price"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (mut prices, remaining) = (stored(s1, l1)?.into_owned(), stored(s2, l2)?);
        let budgets = l2.shape().dims2()?.1;
        for (i, (price, remaining)) in prices.iter_mut().zip(&*remaining).enumerate() {
            let (base, _) = self.base.at(i / budgets, i % budgets, *remaining);
            *price = base * self.output.apply(Doubles(Scalar::new()), *price).0;
        }
        Ok((CpuStorage::F64(prices), l1.shape().clone()))
    }

    fn bwd(
        &self,
        outputs: &Tensor,
        remaining: &Tensor,
        _: &Tensor,
        grad_res: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (mut z, mut b, upstream) = (to_vec(outputs)?, to_vec(remaining)?, to_vec(grad_res)?);
        let budgets = remaining.dims2()?.1;
        for (i, ((z, b), upstream)) in z.iter_mut().zip(&mut b).zip(upstream).enumerate() {
            let (base, falling) = self.base.at(i / budgets, i % budgets, *b);
            let (value, slope) = self.output.apply(Doubles(Scalar::new()), *z);
            (*z, *b) = (upstream * base * slope, upstream * falling * value);
        }
        Ok((Some(like(z, outputs)?), Some(like(b, remaining)?)))
    }
}

pub(super) fn like(values: Vec<f64>, tensor: &Tensor) -> Result<Tensor> {
    Tensor::from_vec(values, tensor.shape(), &Device::Cpu)
}

/// The values of a tensor, row-major, whatever its strides.
pub(super) fn to_vec(tensor: &Tensor) -> Result<Vec<f64>> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => Ok(stored(storage, layout)?.into_owned()),
        _ => Err(candle_core::Error::msg("expected a tensor on the CPU")),
    }
}

/// The values of a stored tensor, row-major, whatever its offset and strides.
pub(super) fn stored<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<Cow<'a, [f64]>> {
    let CpuStorage::F64(values) = storage else {
        return Err(candle_core::Error::msg("expected a tensor of f64 values"));
    };
    if let Some((start, end)) = layout.contiguous_offsets() {
        return Ok(Cow::Borrowed(&values[start..end]));
    }
    let at = |mut index: usize| {
        let axes = layout.dims().iter().zip(layout.stride()).rev();
        values[axes.fold(layout.start_offset(), |position, (dim, stride)| {
            let along = index % dim;
            index /= dim;
            position + along * stride
        })]
    };
    Ok((0..layout.shape().elem_count()).map(at).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_read_transposed_and_shifted_tensors_in_row_order() {
        let table = Tensor::from_vec(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0_f64], (2, 3), &Device::Cpu).unwrap();
        let check = |tensor: Tensor, expected: &[f64]| assert_eq!(to_vec(&tensor).unwrap(), expected);
        check(table.t().unwrap(), &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        check(table.narrow(1, 1, 2).unwrap(), &[2.0, 3.0, 5.0, 6.0]);
        check(table.narrow(1, 1, 2).unwrap().t().unwrap(), &[2.0, 5.0, 3.0, 6.0]);
        check(table.get(1).unwrap(), &[4.0, 5.0, 6.0]);
    }
}
