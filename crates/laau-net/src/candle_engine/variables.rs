//! The variables of a network: how they are found, drawn and laid out among a model's parameters.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Result, Shape, Tensor};
use candle_nn::Init;
use candle_nn::init::NormalOrUniform;
use candle_nn::var_builder::SimpleBackend;
use laau_core::numerics::normal_pair;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::spec::{ModelSpec, Network};

/// A variable of a custom network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// The name, with the prefixes of the `VarBuilder`.
    pub name: String,
    /// The shape.
    pub shape: Vec<usize>,
}

impl Variable {
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// What a constructor asked for, by name.
pub(super) type Asked = BTreeMap<String, (Shape, Init)>;

/// Gives zeros, and remembers what was asked for.
#[derive(Clone, Default)]
pub(super) struct Recorder(Arc<Mutex<Asked>>);

impl Recorder {
    /// The most values that all variables may have, as in a file.
    const MOST_VALUES: usize = 1 << 25;

    pub(super) fn take(&self) -> Asked {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimpleBackend for Recorder {
    fn get(&self, shape: Shape, name: &str, init: Init, dtype: DType, device: &Device) -> Result<Tensor> {
        let mut asked = self.lock();
        let (first, _) = asked
            .entry(name.to_owned())
            .or_insert_with(|| (shape.clone(), init));
        if *first != shape {
            let reason = format!("expected variable `{name}` in one shape, found {first:?} and {shape:?}");
            return Err(candle_core::Error::msg(reason));
        }
        let values: usize = asked.values().map(|(shape, _)| shape.elem_count()).sum();
        if values > Self::MOST_VALUES {
            let most = Self::MOST_VALUES;
            let reason = format!("expected variables of at most {most} values, found {values}");
            return Err(candle_core::Error::msg(reason));
        }
        Tensor::zeros(shape, dtype, device)
    }

    fn get_unchecked(&self, name: &str, _: DType, _: &Device) -> Result<Tensor> {
        let reason = format!("expected variable `{name}` to be asked for with its shape");
        Err(candle_core::Error::msg(reason))
    }

    fn contains_tensor(&self, name: &str) -> bool {
        self.lock().contains_key(name)
    }
}

/// The first values of variables, in the order of their names.
pub(super) fn draw(asked: Asked, seed: u64) -> Vec<f64> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let mut values = Vec::new();
    for (shape, init) in asked.into_values() {
        let (is_normal, center, width) = distribution(init, &shape);
        values.extend((0..shape.elem_count()).map(|_| {
            let unit = if is_normal {
                normal(&mut generator)
            } else {
                2.0 * generator.random::<f64>() - 1.0
            };
            center + width * unit
        }));
    }
    values
}

/// What an `Init` draws: whether it is normal, the mean, and the standard deviation or half the width.
fn distribution(init: Init, shape: &Shape) -> (bool, f64, f64) {
    match init {
        Init::Const(value) => (false, value, 0.0),
        Init::Randn { mean, stdev } => (true, mean, stdev),
        Init::Uniform { lo, up } => (false, f64::midpoint(lo, up), 0.5 * (up - lo)),
        Init::Kaiming {
            dist,
            fan,
            non_linearity,
        } => {
            let deviation = non_linearity.gain() / (fan.for_shape(shape) as f64).sqrt();
            match dist {
                NormalOrUniform::Normal => (true, 0.0, deviation),
                NormalOrUniform::Uniform => (false, 0.0, 3_f64.sqrt() * deviation),
            }
        }
    }
}

/// A standard normal number.
fn normal(generator: &mut ChaCha8Rng) -> f64 {
    normal_pair(1.0 - generator.random::<f64>(), generator.random()).0
}

/// A variable's place among the flat parameters of a model.
pub(super) struct Slot {
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    /// Whether the flat values are those of the transposed matrix.
    transposed: bool,
}

impl Slot {
    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    pub(super) fn read_flat(&self, flat: &[f64]) -> Vec<f64> {
        match self.shape[..] {
            [rows, columns] if self.transposed => transpose(flat, columns, rows),
            _ => flat.to_vec(),
        }
    }

    pub(super) fn write_flat(&self, values: &[f64], flat: &mut [f64]) {
        match self.shape[..] {
            [rows, columns] if self.transposed => flat.copy_from_slice(&transpose(values, rows, columns)),
            _ => flat.copy_from_slice(values),
        }
    }
}

fn transpose(values: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let entries = (0..columns).flat_map(|j| (0..rows).map(move |i| i * columns + j));
    entries.map(|index| values[index]).collect()
}

/// The variables of any model, in the order of its parameters. Candle's matrices are `outputs × inputs`, ours the other way.
pub(super) fn slots(spec: &ModelSpec) -> Vec<Slot> {
    let slot = |name, shape, transposed| Slot {
        name,
        shape,
        transposed,
    };
    if let Network::Custom(custom) = &spec.network {
        let variables = custom.variables().iter();
        return variables
            .map(|v| slot(v.name.clone(), v.shape.clone(), false))
            .collect();
    }
    let layers = spec.layers().into_iter().enumerate();
    layers
        .flat_map(|(index, (inputs, outputs))| {
            [
                slot(format!("layers.{index}.weight"), vec![outputs, inputs], true),
                slot(format!("layers.{index}.bias"), vec![outputs], false),
            ]
        })
        .collect()
}
