//! The convex layer, the cost and the usage as operations of candle's graph.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{CpuStorage, CustomOp1, CustomOp2, CustomOp3, Device, Layout, Result, Shape, Tensor};
use laau_core::{Differentiate, Dimensions, Error, GradientCounts, Gradients, Queries, Solutions, Status};

/// The layer that all operations of a graph share, and what they have to say.
pub(super) struct Shared {
    dimensions: Dimensions,
    workspace: Mutex<Workspace>,
}

pub(super) struct Workspace {
    pub(super) layer: Box<dyn Differentiate>,
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
                counts: GradientCounts::default(),
                failure: None,
            }),
        }
    }

    pub(super) fn dimensions(&self) -> Dimensions {
        self.dimensions
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

/// The action of the layer for multipliers (`rows × M`), remaining budgets less the reserve (`rows × M`) and contexts.
///
/// It is made for one application: the backward pass uses the solutions of its forward pass.
pub(super) struct LayerOp {
    shared: Arc<Shared>,
    step: usize,
    solved: Mutex<Option<Solved>>,
}

struct Solved {
    solutions: Solutions,
    available: Vec<f64>,
}

impl LayerOp {
    pub(super) fn new(shared: Arc<Shared>, step: usize) -> Self {
        Self {
            shared,
            step,
            solved: Mutex::new(None),
        }
    }

    fn solved(&self) -> MutexGuard<'_, Option<Solved>> {
        self.solved.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CustomOp3 for LayerOp {
    fn name(&self) -> &'static str {
        "laau-layer"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let Dimensions { actions, budgets, .. } = self.shared.dimensions;
        let (multipliers, mut available) = (stored(s1, l1)?, stored(s2, l2)?);
        let contexts = stored(s3, l3)?;
        let rows = multipliers.len() / budgets;
        let workspace = &mut *self.shared.lock();
        let mut least = vec![0.0; budgets];
        workspace.layer.problem().least_usage(&mut least);
        for row in available.chunks_exact_mut(budgets) {
            for (value, least) in row.iter_mut().zip(&least) {
                // Plain floats may fall short of the least usage by a last bit; only a ledger is exact.
                *value = value.max(*least);
            }
        }
        let mut solutions = Solutions::new(self.shared.dimensions, rows);
        let queries = Queries {
            contexts: &contexts,
            multipliers: &multipliers,
            available: &available,
        };
        if let Err(error) = workspace.layer.solve_batch(queries, &mut solutions) {
            return Err(workspace.fail(error));
        }
        let feasible = |status: &Status| status.expect_feasible(self.step);
        if let Err(error) = solutions.statuses().iter().try_for_each(feasible) {
            return Err(workspace.fail(error));
        }
        let result = CpuStorage::F64(solutions.actions().to_vec());
        *self.solved() = Some(Solved { solutions, available });
        Ok((result, Shape::from((rows, actions))))
    }

    fn bwd(
        &self,
        multiplier: &Tensor,
        available: &Tensor,
        context: &Tensor,
        _: &Tensor,
        grad_res: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let solved = self.solved();
        let Some(solved) = &*solved else {
            return Err(candle_core::Error::msg("the layer has not been solved"));
        };
        let (multipliers, contexts, upstream) = (to_vec(multiplier)?, to_vec(context)?, to_vec(grad_res)?);
        let rows = solved.solutions.rows();
        let mut gradients = if context.track_op() {
            Gradients::with_contexts(self.shared.dimensions, rows)
        } else {
            Gradients::new(self.shared.dimensions, rows)
        };
        let queries = Queries {
            contexts: &contexts,
            multipliers: &multipliers,
            available: &solved.available,
        };
        let workspace = &mut *self.shared.lock();
        if let Err(error) =
            workspace
                .layer
                .pullback_batch(queries, &solved.solutions, &upstream, &mut gradients)
        {
            return Err(workspace.fail(error));
        }
        for exactness in &gradients.exactness {
            workspace.counts.add(*exactness);
        }
        Ok((
            Some(like(gradients.multipliers, multiplier)?),
            Some(like(gradients.available, available)?),
            context
                .track_op()
                .then(|| like(gradients.contexts, context))
                .transpose()?,
        ))
    }
}

/// The cost of actions (`rows × d`) in contexts: `rows` values.
pub(super) struct CostOp(pub(super) Arc<Shared>);

impl CustomOp2 for CostOp {
    fn name(&self) -> &'static str {
        "laau-cost"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (actions, contexts) = (stored(s1, l1)?, stored(s2, l2)?);
        let mut costs = vec![0.0; actions.len() / self.0.dimensions.actions];
        let rows = costs.len();
        self.0
            .lock()
            .layer
            .problem()
            .cost_batch(&actions, &contexts, &mut costs);
        Ok((CpuStorage::F64(costs), Shape::from(rows)))
    }

    fn bwd(
        &self,
        action: &Tensor,
        context: &Tensor,
        _: &Tensor,
        grad_res: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let Dimensions {
            actions: d,
            context: width,
            ..
        } = self.0.dimensions;
        let (actions, contexts, upstream) = (to_vec(action)?, to_vec(context)?, to_vec(grad_res)?);
        let mut action_gradient = vec![0.0; actions.len()];
        let mut context_gradient = vec![0.0; contexts.len()];
        let workspace = self.0.lock();
        for (row, upstream) in upstream.iter().enumerate() {
            let (x, c) = (&actions[row * d..][..d], &contexts[row * width..][..width]);
            let out = &mut action_gradient[row * d..][..d];
            workspace.layer.problem().cost_gradient(x, c, out);
            scale(out, *upstream);
            if context.track_op() {
                let out = &mut context_gradient[row * width..][..width];
                workspace.layer.problem().cost_context_gradient(x, c, out);
                scale(out, *upstream);
            }
        }
        Ok((
            Some(like(action_gradient, action)?),
            context
                .track_op()
                .then(|| like(context_gradient, context))
                .transpose()?,
        ))
    }
}

/// The usage of actions (`rows × d`) in contexts: `rows × M` values.
pub(super) struct UsageOp(pub(super) Arc<Shared>);

impl CustomOp2 for UsageOp {
    fn name(&self) -> &'static str {
        "laau-usage"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let Dimensions { actions, budgets, .. } = self.0.dimensions;
        let (x, contexts) = (stored(s1, l1)?, stored(s2, l2)?);
        let rows = x.len() / actions;
        let mut usages = vec![0.0; rows * budgets];
        self.0
            .lock()
            .layer
            .problem()
            .usage_batch(&x, &contexts, &mut usages);
        Ok((CpuStorage::F64(usages), Shape::from((rows, budgets))))
    }

    fn bwd(
        &self,
        action: &Tensor,
        context: &Tensor,
        _: &Tensor,
        grad_res: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let Dimensions {
            actions: d,
            budgets: m,
            context: width,
        } = self.0.dimensions;
        let (actions, contexts, upstream) = (to_vec(action)?, to_vec(context)?, to_vec(grad_res)?);
        let mut action_gradient = vec![0.0; actions.len()];
        let mut context_gradient = vec![0.0; contexts.len()];
        let mut jacobian = vec![0.0; m * d.max(width)];
        let workspace = self.0.lock();
        let problem = workspace.layer.problem();
        for (row, upstream) in upstream.chunks_exact(m).enumerate() {
            let (x, c) = (&actions[row * d..][..d], &contexts[row * width..][..width]);
            problem.usage_jacobian(x, c, &mut jacobian[..m * d]);
            add_transposed(&jacobian, upstream, &mut action_gradient[row * d..][..d]);
            if context.track_op() {
                problem.usage_context_jacobian(x, c, &mut jacobian[..m * width]);
                add_transposed(&jacobian, upstream, &mut context_gradient[row * width..][..width]);
            }
        }
        Ok((
            Some(like(action_gradient, action)?),
            context
                .track_op()
                .then(|| like(context_gradient, context))
                .transpose()?,
        ))
    }
}

/// `ln(1 + e^z)`, exact at both ends, with the sigmoid as its derivative everywhere.
pub(super) struct SoftplusOp;

impl CustomOp1 for SoftplusOp {
    fn name(&self) -> &'static str {
        "laau-softplus"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut values = stored(storage, layout)?;
        for z in &mut values {
            *z = z.max(0.0) + (-z.abs()).exp().ln_1p() + if z.is_nan() { f64::NAN } else { 0.0 };
        }
        Ok((CpuStorage::F64(values), layout.shape().clone()))
    }

    fn bwd(&self, arg: &Tensor, _: &Tensor, grad_res: &Tensor) -> Result<Option<Tensor>> {
        let mut gradient = to_vec(grad_res)?;
        for (gradient, z) in gradient.iter_mut().zip(to_vec(arg)?) {
            *gradient /= 1.0 + (-z).exp();
        }
        Ok(Some(like(gradient, arg)?))
    }
}

/// `max(z, 0)`, with slope 0 at 0. Candle's own has slope 1 there, and a unit is at 0 exactly whenever no unit of the
/// layer below is active and its bias is still 0.
pub(super) struct ReluOp;

impl CustomOp1 for ReluOp {
    fn name(&self) -> &'static str {
        "laau-relu"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut values = stored(storage, layout)?;
        for z in &mut values {
            *z = if *z <= 0.0 { 0.0 } else { *z };
        }
        Ok((CpuStorage::F64(values), layout.shape().clone()))
    }

    fn bwd(&self, arg: &Tensor, _: &Tensor, grad_res: &Tensor) -> Result<Option<Tensor>> {
        let mut gradient = to_vec(grad_res)?;
        for (gradient, z) in gradient.iter_mut().zip(to_vec(arg)?) {
            *gradient = if z <= 0.0 { 0.0 } else { *gradient };
        }
        Ok(Some(like(gradient, arg)?))
    }
}

fn scale(values: &mut [f64], factor: f64) {
    for value in values {
        *value *= factor;
    }
}

/// `out += jacobianᵀ upstream`, the Jacobian `upstream × out`, row-major.
fn add_transposed(jacobian: &[f64], upstream: &[f64], out: &mut [f64]) {
    for (row, upstream) in jacobian.chunks_exact(out.len()).zip(upstream) {
        for (out, value) in out.iter_mut().zip(row) {
            *out += value * upstream;
        }
    }
}

fn like(values: Vec<f64>, tensor: &Tensor) -> Result<Tensor> {
    Tensor::from_vec(values, tensor.shape(), &Device::Cpu)
}

/// The values of a tensor, row-major, whatever its strides.
pub(super) fn to_vec(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.flatten_all()?.to_vec1()
}

/// The values of a stored tensor, row-major, whatever its offset and strides.
fn stored(storage: &CpuStorage, layout: &Layout) -> Result<Vec<f64>> {
    let CpuStorage::F64(values) = storage else {
        return Err(candle_core::Error::msg("expected a tensor of f64 values"));
    };
    if let Some((start, end)) = layout.contiguous_offsets() {
        return Ok(values[start..end].to_vec());
    }
    let (dims, strides) = (layout.dims(), layout.stride());
    let count = dims.iter().product();
    let mut index = vec![0_usize; dims.len()];
    let mut gathered = Vec::with_capacity(count);
    for _ in 0..count {
        let position: usize = index.iter().zip(strides).map(|(i, stride)| i * stride).sum();
        gathered.push(values[layout.start_offset() + position]);
        for (i, dim) in index.iter_mut().zip(dims).rev() {
            *i += 1;
            if *i < *dim {
                break;
            }
            *i = 0;
        }
    }
    Ok(gathered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_read_transposed_and_shifted_tensors_in_row_order() {
        let table = Tensor::from_vec(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0_f64], (2, 3), &Device::Cpu).unwrap();
        let plain = |tensor: &Tensor| {
            let softplus = to_vec(&tensor.apply_op1(SoftplusOp).unwrap()).unwrap();
            softplus.iter().map(|y| y.exp_m1().ln()).collect::<Vec<_>>()
        };
        let check = |tensor: Tensor, expected: &[f64]| {
            for (found, expected) in plain(&tensor).iter().zip(expected) {
                assert!((found - expected).abs() < 1e-12, "{found} against {expected}");
            }
        };
        check(table.t().unwrap(), &[1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        check(table.narrow(1, 1, 2).unwrap(), &[2.0, 3.0, 5.0, 6.0]);
        check(table.narrow(1, 1, 2).unwrap().t().unwrap(), &[2.0, 5.0, 3.0, 6.0]);
        check(table.get(1).unwrap(), &[4.0, 5.0, 6.0]);
    }

    #[test]
    fn a_unit_at_zero_passes_no_gradient() {
        let z = candle_core::Var::from_vec(vec![-1.0, 0.0, 2.0], 3, &Device::Cpu).unwrap();
        let y = z.apply_op1(ReluOp).unwrap();
        let gradient = y.sum_all().unwrap().backward().unwrap();
        assert_eq!(to_vec(&y).unwrap(), [0.0, 0.0, 2.0]);
        assert_eq!(to_vec(gradient.get(&z).unwrap()).unwrap(), [0.0, 0.0, 1.0]);
    }

    #[test]
    fn softplus_and_its_slope_hold_at_both_ends_and_at_zero() {
        for (z, value, slope) in [
            (-800.0, 0.0, 0.0),
            (-40.0, (-40.0_f64).exp(), (-40.0_f64).exp()),
            (0.0, std::f64::consts::LN_2, 0.5),
            (800.0, 800.0, 1.0),
        ] {
            let z = candle_core::Var::from_vec(vec![z], 1, &Device::Cpu).unwrap();
            let y = z.apply_op1(SoftplusOp).unwrap();
            let gradient = y.sum_all().unwrap().backward().unwrap();
            let found = (
                to_vec(&y).unwrap()[0],
                to_vec(gradient.get(&z).unwrap()).unwrap()[0],
            );
            assert!((found.0 - value).abs() <= 1e-15 * value.abs(), "{found:?}");
            assert!((found.1 - slope).abs() <= 1e-15 * slope.abs(), "{found:?}");
        }
    }
}
