//! A linear layer with its activation as one operation.

use candle_core::{CpuStorage, CustomOp3, Layout, Module, Result, Shape, Tensor};
use candle_nn::Linear;

use super::ops::{like, stored, to_vec};

/// A [`Linear`] layer with a bias, and rectified linear units after it if wanted, as a single operation for `rows × inputs`.
///
/// Our own networks are made of it, and yours may be. It differs from `Linear` and `Activation::Relu` in two points:
/// candle's matrix product parses `/proc/cpuinfo` at every call, unless `RAYON_NUM_THREADS` or `CANDLE_CPU_MASK` is set,
/// which takes ten times as long as a small product; and candle's `relu` has slope 1 at 0, here it is 0: a unit is at 0
/// exactly whenever no unit of the layer below is active and its bias is still 0.
pub struct Dense {
    weight: Tensor,
    bias: Tensor,
    relu: bool,
}

impl Dense {
    /// The same layer, without an activation.
    ///
    /// # Errors
    /// When it has no bias.
    pub fn new(linear: &Linear) -> Result<Self> {
        let bias = linear
            .bias()
            .ok_or_else(|| candle_core::Error::msg("expected a layer with a bias"))?;
        Ok(Self {
            weight: linear.weight().clone(),
            bias: bias.clone(),
            relu: false,
        })
    }

    /// Adds rectified linear units.
    #[must_use]
    pub fn with_relu(self) -> Self {
        Self { relu: true, ..self }
    }
}

impl Module for Dense {
    fn forward(&self, inputs: &Tensor) -> Result<Tensor> {
        inputs.apply_op3(&self.weight, &self.bias, DenseOp { relu: self.relu })
    }
}

/// `x Wᵀ + b` and its positive part: `x` is `rows × inputs`, `W` is `outputs × inputs`.
struct DenseOp {
    relu: bool,
}

impl CustomOp3 for DenseOp {
    fn name(&self) -> &'static str {
        "laau-dense"
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
        let ((rows, inputs), (outputs, expected)) = (l1.shape().dims2()?, l2.shape().dims2()?);
        if inputs != expected {
            let reason = format!("expected {expected} inputs, found {inputs}");
            return Err(candle_core::Error::msg(reason));
        }
        let (x, weight, bias) = (stored(s1, l1)?, stored(s2, l2)?, stored(s3, l3)?);
        let mut sums = Vec::with_capacity(rows * outputs);
        for x in x.chunks_exact(inputs) {
            sums.extend(weight.chunks_exact(inputs).zip(&*bias).map(|(weight, bias)| {
                let sum = x.iter().zip(weight).fold(*bias, |sum, (x, w)| sum + x * w);
                // A NaN stays.
                if self.relu && sum <= 0.0 { 0.0 } else { sum }
            }));
        }
        Ok((CpuStorage::F64(sums), Shape::from((rows, outputs))))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Tensor,
        res: &Tensor,
        grad_res: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (outputs, inputs) = weight.dims2()?;
        let (values, weights, mut upstream) = (to_vec(x)?, to_vec(weight)?, to_vec(grad_res)?);
        if self.relu {
            for (upstream, sum) in upstream.iter_mut().zip(to_vec(res)?) {
                *upstream = if sum <= 0.0 { 0.0 } else { *upstream };
            }
        }
        let (mut of_x, mut of_weight) = (vec![0.0; values.len()], vec![0.0; weights.len()]);
        let mut of_bias = vec![0.0; outputs];
        let rows = values.chunks_exact(inputs).zip(of_x.chunks_exact_mut(inputs));
        for ((x, of_x), upstream) in rows.zip(upstream.chunks_exact(outputs)) {
            for (o, upstream) in upstream.iter().enumerate() {
                let row = o * inputs..(o + 1) * inputs;
                for (of_x, weight) in of_x.iter_mut().zip(&weights[row.clone()]) {
                    *of_x += upstream * weight;
                }
                for (of_weight, x) in of_weight[row].iter_mut().zip(x) {
                    *of_weight += upstream * x;
                }
                of_bias[o] += upstream;
            }
        }
        Ok((
            Some(like(of_x, x)?),
            Some(like(of_weight, weight)?),
            Some(like(of_bias, bias)?),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn a_dense_layer_equals_candles_own_with_its_gradients() {
        let var = |count: usize, shape: (usize, usize)| {
            let values: Vec<f64> = (0..count).map(|i| (i as f64 + 0.3).sin()).collect();
            Var::from_vec(values, shape, &Device::Cpu).unwrap()
        };
        let (x, weight) = (var(12, (4, 3)), var(6, (2, 3)));
        let bias = Var::from_vec(vec![0.1, -0.2], 2, &Device::Cpu).unwrap();
        let linear = Linear::new(weight.as_tensor().clone(), Some(bias.as_tensor().clone()));
        let ours = Dense::new(&linear).unwrap().with_relu().forward(&x).unwrap();
        let candles = linear.forward(&x).unwrap().relu().unwrap();
        let [ours, candles] = [ours, candles].map(|y| {
            let gradients = y.sqr().unwrap().sum_all().unwrap().backward().unwrap();
            let mut all = to_vec(&y).unwrap();
            for var in [&x, &weight, &bias] {
                all.extend(to_vec(gradients.get(var).unwrap()).unwrap());
            }
            all
        });
        for (ours, candles) in ours.iter().zip(&candles) {
            assert!((ours - candles).abs() < 1e-14, "{ours} against {candles}");
        }
    }

    #[test]
    fn a_unit_at_zero_passes_no_gradient() {
        let weight = Tensor::from_vec(vec![1.0], (1, 1), &Device::Cpu).unwrap();
        let bias = Tensor::from_vec(vec![0.0], 1, &Device::Cpu).unwrap();
        let dense = Dense::new(&Linear::new(weight, Some(bias))).unwrap().with_relu();
        let z = Var::from_vec(vec![-1.0, 0.0, 2.0], (3, 1), &Device::Cpu).unwrap();
        let y = dense.forward(&z).unwrap();
        let gradient = y.sum_all().unwrap().backward().unwrap();
        assert_eq!(to_vec(&y).unwrap(), [0.0, 0.0, 2.0]);
        assert_eq!(to_vec(gradient.get(&z).unwrap()).unwrap(), [0.0, 0.0, 1.0]);
    }
}
