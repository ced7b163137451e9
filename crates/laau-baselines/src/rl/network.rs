//! The small network: two hidden layers of equal width.

use laau_core::numerics::mlp;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// The sizes `(inputs, outputs)` of the layers.
pub(crate) type Layers = [(usize, usize); 3];

/// The layers of a network with two hidden layers.
pub(crate) fn layers(inputs: usize, hidden: usize, outputs: usize) -> Layers {
    [(inputs, hidden), (hidden, hidden), (hidden, outputs)]
}

/// What a forward pass leaves for the backward pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activations {
    pub(crate) slots: Vec<f64>,
    pub(crate) outputs: Vec<f64>,
}

impl Activations {
    /// Computes the outputs.
    pub(crate) fn evaluate(&mut self, layers: &Layers, parameters: &[f64], input: &[f64]) {
        self.slots
            .resize((layers.len() + 1) * mlp::slot_width(layers), 0.0);
        self.outputs.resize(layers[2].1, 0.0);
        mlp::forward(layers, parameters, input, &mut self.slots, &mut self.outputs);
    }
}

/// Random parameters: weights uniform within `±√(6 / fan-in)` (the last layer a tenth of it), biases zero but for the
/// outputs'.
pub(crate) fn initial(layers: &Layers, rng: &mut ChaCha8Rng, output_bias: f64) -> Vec<f64> {
    let mut parameters = Vec::with_capacity(mlp::parameter_len(layers));
    for (&(inputs, outputs), (scale, bias)) in layers.iter().zip([(1.0, 0.0), (1.0, 0.0), (0.1, output_bias)])
    {
        let reach = scale * (6.0 / inputs as f64).sqrt();
        // Drawn unit by unit, stored input by input.
        let units: Vec<f64> = (0..inputs * outputs)
            .map(|_| rng.random_range(-reach..reach))
            .collect();
        parameters.extend((0..inputs * outputs).map(|k| units[k % outputs * inputs + k / outputs]));
        parameters.extend(std::iter::repeat_n(bias, outputs));
    }
    parameters
}
