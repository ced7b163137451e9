//! The small network: two hidden layers of rectified units, with its derivative written out.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// The sizes of a network with two hidden layers of equal width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) inputs: usize,
    pub(crate) hidden: usize,
    pub(crate) outputs: usize,
}

/// What a forward pass leaves for the backward pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activations {
    first: Vec<f64>,
    second: Vec<f64>,
    pub(crate) outputs: Vec<f64>,
}

impl Shape {
    /// Number of parameters: the weights of each layer row by row, then its biases.
    pub(crate) fn parameters(self) -> usize {
        let Self {
            inputs,
            hidden,
            outputs,
        } = self;
        hidden * (inputs + 1) + hidden * (hidden + 1) + outputs * (hidden + 1)
    }

    /// Random parameters: weights uniform within `±√(6 / fan-in)` (the last layer a tenth of it), biases zero but for
    /// the outputs'.
    pub(crate) fn initial(self, rng: &mut ChaCha8Rng, output_bias: f64) -> Vec<f64> {
        const LAST_SCALE: f64 = 0.1;
        let mut parameters = Vec::with_capacity(self.parameters());
        for (fan_in, rows, scale, bias) in [
            (self.inputs, self.hidden, 1.0, 0.0),
            (self.hidden, self.hidden, 1.0, 0.0),
            (self.hidden, self.outputs, LAST_SCALE, output_bias),
        ] {
            let reach = scale * (6.0 / fan_in as f64).sqrt();
            parameters.extend((0..rows * fan_in).map(|_| rng.random_range(-reach..reach)));
            parameters.extend(std::iter::repeat_n(bias, rows));
        }
        parameters
    }

    /// The layers' parameters: three times weights and biases.
    fn split(self, parameters: &[f64]) -> [(&[f64], &[f64]); 3] {
        let Self {
            inputs,
            hidden,
            outputs,
        } = self;
        let (first, rest) = parameters.split_at(hidden * (inputs + 1));
        let (second, third) = rest.split_at(hidden * (hidden + 1));
        [
            first.split_at(hidden * inputs),
            second.split_at(hidden * hidden),
            third.split_at(outputs * hidden),
        ]
    }

    /// Computes the outputs.
    pub(crate) fn forward(self, parameters: &[f64], input: &[f64], out: &mut Activations) {
        let [first, second, third] = self.split(parameters);
        affine(first, input, &mut out.first, true);
        affine(second, &out.first, &mut out.second, true);
        affine(third, &out.second, &mut out.outputs, false);
    }

    /// Adds the gradient of `upstreamᵀ outputs` in the parameters, and writes the one in the input.
    pub(crate) fn backward(
        self,
        parameters: &[f64],
        input: &[f64],
        activations: &Activations,
        upstream: &[f64],
        gradient: &mut [f64],
        in_input: &mut [f64],
    ) {
        let Self {
            inputs,
            hidden,
            outputs,
        } = self;
        let [first, second, third] = self.split(parameters);
        let (first_gradient, rest) = gradient.split_at_mut(hidden * (inputs + 1));
        let (second_gradient, third_gradient) = rest.split_at_mut(hidden * (hidden + 1));
        let mut in_second = vec![0.0; hidden];
        pull(
            third.0,
            &activations.second,
            upstream,
            third_gradient.split_at_mut(outputs * hidden),
            &mut in_second,
        );
        rectify(&mut in_second, &activations.second);
        let mut in_first = vec![0.0; hidden];
        pull(
            second.0,
            &activations.first,
            &in_second,
            second_gradient.split_at_mut(hidden * hidden),
            &mut in_first,
        );
        rectify(&mut in_first, &activations.first);
        pull(
            first.0,
            input,
            &in_first,
            first_gradient.split_at_mut(hidden * inputs),
            in_input,
        );
    }
}

/// `W v + b`, rectified on request.
fn affine((weights, biases): (&[f64], &[f64]), input: &[f64], out: &mut Vec<f64>, rectified: bool) {
    out.clear();
    for (row, bias) in weights.chunks_exact(input.len()).zip(biases) {
        let sum: f64 = row.iter().zip(input).map(|(w, v)| w * v).sum();
        out.push(if rectified {
            (sum + bias).max(0.0)
        } else {
            sum + bias
        });
    }
}

/// The derivative of [`affine`] without its rectifier.
fn pull(
    weights: &[f64],
    input: &[f64],
    upstream: &[f64],
    (in_weights, in_biases): (&mut [f64], &mut [f64]),
    in_input: &mut [f64],
) {
    let n = input.len();
    in_input.fill(0.0);
    for (row, up) in upstream.iter().enumerate() {
        in_biases[row] += up;
        let (from, to) = (&weights[row * n..][..n], &mut in_weights[row * n..][..n]);
        for i in 0..n {
            to[i] += up * input[i];
            in_input[i] += up * from[i];
        }
    }
}

/// Zero where a unit is off.
fn rectify(gradient: &mut [f64], values: &[f64]) {
    for (gradient, value) in gradient.iter_mut().zip(values) {
        if *value <= 0.0 {
            *gradient = 0.0;
        }
    }
}
