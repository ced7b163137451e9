//! The multilayer perceptron with rectified hidden units.
//!
//! Its layers are given by their sizes `(inputs, outputs)`; its parameters are those of one layer after the other: the
//! matrix row by row, one row per *input*, then the biases.
//!
//! The activations are kept in slots as wide as the widest layer: the input in slot 0, the outputs of layer `k` in slot
//! `k + 1`, counted round. Two slots are enough for the outputs; [`backward`] needs `layers + 1`.

/// The number of parameters.
#[must_use]
pub fn parameter_len(layers: &[(usize, usize)]) -> usize {
    layers
        .iter()
        .map(|(inputs, outputs)| (inputs + 1) * outputs)
        .sum()
}

/// The width of a slot.
#[must_use]
pub fn slot_width(layers: &[(usize, usize)]) -> usize {
    layers.iter().map(|(i, o)| *i.max(o)).max().unwrap_or(0)
}

/// Computes the outputs for an input; `activations` are two or more slots.
///
/// # Panics
/// When a slice is too short.
pub fn forward(
    layers: &[(usize, usize)],
    parameters: &[f64],
    input: &[f64],
    activations: &mut [f64],
    output: &mut [f64],
) {
    let width = slot_width(layers);
    let slots = activations.len() / width;
    assert!(slots > 1, "two slots of {width}, found {}", activations.len());
    activations[..input.len()].copy_from_slice(input);
    let (mut from, mut rest) = (0, parameters);
    for (index, &(inputs, outputs)) in layers.iter().enumerate() {
        let (layer, after) = rest.split_at((inputs + 1) * outputs);
        let (matrix, bias) = layer.split_at(inputs * outputs);
        let to = (from + 1) % slots;
        let (current, sums) = if to > from {
            let (before, after) = activations.split_at_mut(to * width);
            (&before[from * width..][..inputs], &mut after[..outputs])
        } else {
            let (before, after) = activations.split_at_mut(from * width);
            (&after[..inputs], &mut before[..outputs])
        };
        sums.copy_from_slice(bias);
        match outputs {
            USUAL => add_products::<USUAL>(current, matrix, sums),
            1 => add_products::<1>(current, matrix, sums),
            _ => {
                for (value, row) in current.iter().zip(matrix.chunks_exact(outputs)) {
                    for (sum, weight) in sums.iter_mut().zip(row) {
                        *sum += value * weight;
                    }
                }
            }
        }
        if index + 1 < layers.len() {
            for sum in sums {
                *sum = if *sum > 0.0 { *sum } else { 0.0 };
            }
        }
        (from, rest) = (to, after);
    }
    output.copy_from_slice(&activations[from * width..][..output.len()]);
}

/// Adds the gradient of `upstreamᵀ outputs` in the parameters, and writes the one in the input over the first slot.
///
/// The `layers + 1` slots of [`forward`] are overwritten.
///
/// # Panics
/// When a slice is too short.
pub fn backward(
    layers: &[(usize, usize)],
    parameters: &[f64],
    activations: &mut [f64],
    upstream: &[f64],
    gradient: &mut [f64],
) {
    let width = slot_width(layers);
    activations[layers.len() * width..][..upstream.len()].copy_from_slice(upstream);
    let mut end = parameter_len(layers);
    for (index, &(inputs, outputs)) in layers.iter().enumerate().rev() {
        let start = end - (inputs + 1) * outputs;
        let matrix = &parameters[start..end - outputs];
        let (in_matrix, in_bias) = gradient[start..end].split_at_mut(inputs * outputs);
        let (before, after) = activations.split_at_mut((index + 1) * width);
        let (values, upstream) = (&mut before[index * width..][..inputs], &after[..outputs]);
        for (sum, up) in in_bias.iter_mut().zip(upstream) {
            *sum += up;
        }
        match outputs {
            USUAL => pull_back(index > 0, USUAL, matrix, upstream, values, in_matrix),
            1 => pull_back(index > 0, 1, matrix, upstream, values, in_matrix),
            _ => pull_back(index > 0, outputs, matrix, upstream, values, in_matrix),
        }
        end = start;
    }
}

/// The paper's width. Where the compiler knows how many outputs there are, sums stay in registers; their order is the same.
const USUAL: usize = 10;

/// Adds the products of the inputs and a matrix.
#[inline]
fn add_products<const OUTPUTS: usize>(inputs: &[f64], matrix: &[f64], sums: &mut [f64]) {
    let (Some(sums), (rows, _)) = (sums.first_chunk_mut::<OUTPUTS>(), matrix.as_chunks::<OUTPUTS>()) else {
        return;
    };
    let mut kept = *sums;
    for (value, row) in inputs.iter().zip(rows) {
        for (sum, weight) in kept.iter_mut().zip(row) {
            *sum += value * weight;
        }
    }
    *sums = kept;
}

/// Adds the gradient in a matrix, and writes the one in its inputs over their values.
#[expect(
    clippy::inline_always,
    reason = "a call that says how many outputs there are is compiled for that number"
)]
#[inline(always)]
fn pull_back(
    is_hidden: bool,
    outputs: usize,
    matrix: &[f64],
    upstream: &[f64],
    values: &mut [f64],
    in_matrix: &mut [f64],
) {
    let upstream = &upstream[..outputs];
    let rows = matrix
        .chunks_exact(outputs)
        .zip(in_matrix.chunks_exact_mut(outputs));
    for (value, (row, in_row)) in values.iter_mut().zip(rows) {
        // A hidden unit that is off passes nothing on.
        let passes = !is_hidden || *value > 0.0;
        let mut sum = 0.0;
        for ((weight, in_weight), up) in row.iter().zip(in_row).zip(upstream) {
            *in_weight += up * *value;
            sum += up * weight;
        }
        *value = if passes { sum } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: [(usize, usize); 3] = [(2, 4), (4, 3), (3, 2)];

    fn evaluate(slots: usize, parameters: &[f64], input: &[f64]) -> (Vec<f64>, [f64; 2]) {
        let (mut activations, mut output) = (vec![0.0; slots * slot_width(&LAYERS)], [0.0; 2]);
        forward(&LAYERS, parameters, input, &mut activations, &mut output);
        (activations, output)
    }

    #[test]
    fn the_gradient_is_that_of_differences_and_two_slots_give_the_same_outputs() {
        let mut values: Vec<f64> = (0..parameter_len(&LAYERS) + 2)
            .map(|i| (i as f64).sin())
            .collect();
        let cost = |values: &[f64]| {
            let (input, parameters) = values.split_at(2);
            let [a, b] = evaluate(2, parameters, input).1;
            assert_eq!([a, b], evaluate(4, parameters, input).1);
            3.0 * a - b
        };
        let (input, parameters) = values.split_at(2);
        let mut activations = evaluate(4, parameters, input).0;
        let mut gradient = vec![0.0; parameters.len()];
        backward(&LAYERS, parameters, &mut activations, &[3.0, -1.0], &mut gradient);
        let expected = [&activations[..2], &gradient].concat();
        for (i, expected) in expected.into_iter().enumerate() {
            let kept = values[i];
            let [above, below] = [1e-6, -1e-6].map(|step| {
                values[i] = kept + step;
                cost(&values)
            });
            values[i] = kept;
            let difference = (above - below) / 2e-6;
            assert!(
                (difference - expected).abs() < 1e-8,
                "{i}: {expected}, not {difference}"
            );
        }
    }
}
