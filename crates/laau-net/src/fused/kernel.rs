//! The products of a dense layer, vectorised across lanes (the episodes of a batch).
//!
//! Lanes come in blocks of `B` vectors, and a table is `step × block × row`, a row of `B` vectors per unit of a layer.
//! All rows of a block at a step lie side by side, weights are packed in the order in which they are used, and tile sizes are
//! constants: so the inner loops have nothing to check and keep their sums in registers.

use pulp::Simd;

/// One row of a block: `B` vectors.
pub(super) type Row<S, const B: usize> = [<S as Simd>::f64s; B];

/// The rows of a table.
#[inline(always)]
pub(super) fn rows<S: Simd, const B: usize>(table: &[f64]) -> &[Row<S, B>] {
    S::as_simd_f64s(table).0.as_chunks::<B>().0
}

/// The rows of a table, to be written.
#[inline(always)]
pub(super) fn rows_mut<S: Simd, const B: usize>(table: &mut [f64]) -> &mut [Row<S, B>] {
    S::as_mut_simd_f64s(table).0.as_chunks_mut::<B>().0
}

/// A row of a slice that may end before it does; what is missing is zero.
#[inline(always)]
pub(super) fn partial_row<S: Simd, const B: usize>(simd: S, values: &[f64]) -> Row<S, B> {
    let (full, rest) = S::as_simd_f64s(values);
    let mut row = [simd.splat_f64s(0.0); B];
    for b in 0..B {
        row[b] = match full.get(b) {
            Some(vector) => *vector,
            None if b == full.len() => simd.partial_load_f64s(rest),
            None => row[b],
        };
    }
    row
}

/// The largest tile of a product whose sums fit into the registers beside a row, a weight and one to spare.
const fn largest_tile<S: Simd, const B: usize>() -> usize {
    match (S::REGISTER_COUNT - 2 - B) / B {
        10.. => 10,
        5.. => 5,
        fewer => fewer,
    }
}

/// Runs `$call` for consecutive tiles of `$count` columns, with the size as a constant: as many of the largest as there
/// are, of five after ten, and one of what is left.
macro_rules! tiles {
    ($count:expr, $largest:expr, |$SIZE:ident, $tiles:ident| $call:expr) => {
        let mut left = $count;
        let largest = $largest;
        tiles!(@full left, largest == 10, 10, $SIZE, $tiles, $call);
        tiles!(@full left, largest >= 5, 5, $SIZE, $tiles, $call);
        tiles!(@full left, largest >= 4 || left == 4, 4, $SIZE, $tiles, $call);
        tiles!(@full left, true, 3, $SIZE, $tiles, $call);
        tiles!(@full left, true, 2, $SIZE, $tiles, $call);
        if left == 1 {
            const $SIZE: usize = 1;
            let $tiles = 1;
            $call;
        }
    };
    (@full $left:ident, $wanted:expr, $size:literal, $SIZE:ident, $tiles:ident, $call:expr) => {
        if $wanted && $left >= $size {
            const $SIZE: usize = $size;
            let $tiles = $left / $SIZE;
            $left %= $SIZE;
            $call;
        }
    };
}

/// Packs a matrix for [`product`], tile after tile of its columns, each row by row. Element `(i, j)` is at `i · strides.0 + j ·
/// strides.1`.
#[inline(always)]
pub(super) fn pack<S: Simd, const B: usize>(
    (inputs, outputs): (usize, usize),
    strides: (usize, usize),
    matrix: &[f64],
    packed: &mut [f64],
) {
    let (mut first, mut rest) = (0, packed);
    tiles!(outputs, const { largest_tile::<S, B>() }, |J, count| {
        let (tiles, after) = rest.split_at_mut(count * J * inputs);
        for tile in tiles.chunks_exact_mut(J * inputs) {
            for (i, row) in tile.as_chunks_mut::<J>().0.iter_mut().enumerate() {
                let at = i * strides.0 + first * strides.1;
                let values = &matrix[at..=at + (J - 1) * strides.1];
                for a in 0..J {
                    row[a] = values[a * strides.1];
                }
            }
            first += J;
        }
        rest = after;
    });
    debug_assert_eq!((first, rest.len()), (outputs, 0), "all columns are packed");
}

/// `out[j] = finish(bias[j] + Σ_i weights[i][j] x[i])` for one block at one step.
#[inline(always)]
pub(super) fn product<S: Simd, const B: usize>(
    simd: S,
    packed: &[f64],
    bias: &[f64],
    x: &[Row<S, B>],
    out: &mut [Row<S, B>],
    finish: impl Fn(S::f64s) -> S::f64s,
) {
    let (mut packed, mut bias, mut out) = (packed, bias, out);
    tiles!(out.len(), const { largest_tile::<S, B>() }, |J, count| {
        let (tiles, other_tiles) = packed.split_at(count * J * x.len());
        let (biases, other_biases) = bias.split_at(count * J);
        let (outs, other_outs) = std::mem::take(&mut out).split_at_mut(count * J);
        (packed, bias, out) = (other_tiles, other_biases, other_outs);
        let biases = biases.as_chunks::<J>().0;
        let outs = outs.as_chunks_mut::<J>().0;
        for ((weights, bias), out) in tiles.chunks_exact(J * x.len()).zip(biases).zip(outs) {
            let mut sums = [[simd.splat_f64s(0.0); B]; J];
            for a in 0..J {
                sums[a] = [simd.splat_f64s(bias[a]); B];
            }
            tile::<S, B, J>(simd, weights, x, &mut sums);
            for a in 0..J {
                for b in 0..B {
                    out[a][b] = finish(sums[a][b]);
                }
            }
        }
    });
    debug_assert!(
        packed.is_empty() && bias.is_empty() && out.is_empty(),
        "all columns are done"
    );
}

/// `out[j] = Σ_i weights[i][j] x[i]` where `active[j]` is positive, else zero, for one block at one step.
#[inline(always)]
pub(super) fn masked_product<S: Simd, const B: usize>(
    simd: S,
    packed: &[f64],
    x: &[Row<S, B>],
    active: &[Row<S, B>],
    out: &mut [Row<S, B>],
) {
    let zero = simd.splat_f64s(0.0);
    if let [x] = x {
        // With one input the packed weights are in order.
        for ((weight, active), out) in packed.iter().zip(active).zip(out) {
            let weight = simd.splat_f64s(*weight);
            for b in 0..B {
                let positive = simd.greater_than_f64s(active[b], zero);
                out[b] = simd.select_f64s(positive, simd.mul_f64s(weight, x[b]), zero);
            }
        }
        return;
    }
    let (mut packed, mut active, mut out) = (packed, active, out);
    tiles!(out.len(), const { largest_tile::<S, B>() }, |J, count| {
        let (tiles, other_tiles) = packed.split_at(count * J * x.len());
        let (actives, other_actives) = active.split_at(count * J);
        let (outs, other_outs) = std::mem::take(&mut out).split_at_mut(count * J);
        (packed, active, out) = (other_tiles, other_actives, other_outs);
        let actives = actives.as_chunks::<J>().0;
        let outs = outs.as_chunks_mut::<J>().0;
        for ((weights, active), out) in tiles.chunks_exact(J * x.len()).zip(actives).zip(outs) {
            let mut sums = [[zero; B]; J];
            tile::<S, B, J>(simd, weights, x, &mut sums);
            for a in 0..J {
                for b in 0..B {
                    let positive = simd.greater_than_f64s(active[a][b], zero);
                    out[a][b] = simd.select_f64s(positive, sums[a][b], zero);
                }
            }
        }
    });
    debug_assert!(
        packed.is_empty() && active.is_empty() && out.is_empty(),
        "all columns are done"
    );
}

/// `bias + Σ_i weights[i] x[i]`, one column.
#[inline(always)]
pub(super) fn column<S: Simd, const B: usize>(
    simd: S,
    weights: &[f64],
    bias: f64,
    x: &[Row<S, B>],
) -> Row<S, B> {
    let mut sums = [[simd.splat_f64s(bias); B]; 1];
    tile::<S, B, 1>(simd, weights, x, &mut sums);
    sums[0]
}

/// Adds up one tile. A small one has two of each sum, so that none waits for the last.
#[inline(always)]
fn tile<S: Simd, const B: usize, const J: usize>(
    simd: S,
    weights: &[f64],
    x: &[Row<S, B>],
    sums: &mut [Row<S, B>; J],
) {
    let weights = weights.as_chunks::<J>().0;
    if J * B > 6 {
        let (weight_pairs, last_weights) = weights.as_chunks::<2>();
        let (x_pairs, last_x) = x.as_chunks::<2>();
        for (weights, x) in weight_pairs.iter().zip(x_pairs) {
            accumulate(simd, &weights[0], &x[0], sums);
            accumulate(simd, &weights[1], &x[1], sums);
        }
        for (weights, x) in last_weights.iter().zip(last_x) {
            accumulate(simd, weights, x, sums);
        }
        return;
    }
    let mut others = [[simd.splat_f64s(0.0); B]; J];
    let (weight_pairs, last_weights) = weights.as_chunks::<2>();
    let (x_pairs, last_x) = x.as_chunks::<2>();
    for (weights, x) in weight_pairs.iter().zip(x_pairs) {
        accumulate(simd, &weights[0], &x[0], sums);
        accumulate(simd, &weights[1], &x[1], &mut others);
    }
    for (weights, x) in last_weights.iter().zip(last_x) {
        accumulate(simd, weights, x, sums);
    }
    for a in 0..J {
        for b in 0..B {
            sums[a][b] = simd.add_f64s(sums[a][b], others[a][b]);
        }
    }
}

#[inline(always)]
fn accumulate<S: Simd, const B: usize, const J: usize>(
    simd: S,
    weights: &[f64; J],
    x: &Row<S, B>,
    sums: &mut [Row<S, B>; J],
) {
    for a in 0..J {
        let weight = simd.splat_f64s(weights[a]);
        for b in 0..B {
            sums[a][b] = simd.mul_add_e_f64s(weight, x[b], sums[a][b]);
        }
    }
}

/// `matrix[i][j] = Σ x[i] · y[j]` over all steps and lanes, and `bias[j] = Σ y[j]`: the gradients of a layer.
///
/// A tile has about ten sums, so that none waits for the last: several rows by five columns, one row by ten, or more rows by
/// the columns that are left.
#[inline(always)]
pub(super) fn contraction<S: Simd, const B: usize>(
    simd: S,
    x: &[Row<S, B>],
    y: &[Row<S, B>],
    matrix: &mut [f64],
    bias: &mut [f64],
) {
    let outputs = bias.len();
    let inputs = matrix.len() / outputs;
    let mut sums = Sums {
        simd,
        x,
        y,
        inputs,
        outputs,
        matrix,
    };
    let fives = outputs - outputs % 5;
    let mut i = 0;
    while const { S::REGISTER_COUNT >= 32 } && i + 5 <= inputs {
        for j in (0..fives).step_by(5) {
            sums.add::<5, 5>(i, j);
        }
        i += 5;
    }
    while i + 2 <= inputs {
        for j in (0..fives).step_by(5) {
            sums.add::<2, 5>(i, j);
        }
        i += 2;
    }
    if i < inputs {
        let mut j = 0;
        while j + 10 <= fives {
            sums.add::<1, 10>(i, j);
            j += 10;
        }
        if j < fives {
            sums.add::<1, 5>(i, j);
        }
    }
    match outputs - fives {
        1 => sums.add_columns::<10, 1>(fives),
        2 => sums.add_columns::<5, 2>(fives),
        3 => sums.add_columns::<3, 3>(fives),
        4 => sums.add_columns::<2, 4>(fives),
        _ => {}
    }
    let mut j = 0;
    while j + 10 <= outputs {
        totals::<S, B, 10>(simd, y, outputs, j, bias);
        j += 10;
    }
    while j + 2 <= outputs {
        totals::<S, B, 2>(simd, y, outputs, j, bias);
        j += 2;
    }
    if j < outputs {
        totals::<S, B, 1>(simd, y, outputs, j, bias);
    }
}

/// The sums of a contraction.
struct Sums<'a, S: Simd, const B: usize> {
    simd: S,
    x: &'a [Row<S, B>],
    y: &'a [Row<S, B>],
    inputs: usize,
    outputs: usize,
    matrix: &'a mut [f64],
}

impl<S: Simd, const B: usize> Sums<'_, S, B> {
    /// Fills `J` columns of the matrix from column `j` on, `I` rows at a time.
    #[inline(always)]
    fn add_columns<const I: usize, const J: usize>(&mut self, j: usize) {
        let mut i = 0;
        while i + I <= self.inputs {
            self.add::<I, J>(i, j);
            i += I;
        }
        while i + 2 <= self.inputs {
            self.add::<2, J>(i, j);
            i += 2;
        }
        if i < self.inputs {
            self.add::<1, J>(i, j);
        }
    }

    /// Fills `I` rows and `J` columns of the matrix, from row `i` and column `j` on.
    #[inline(always)]
    fn add<const I: usize, const J: usize>(&mut self, i: usize, j: usize) {
        let simd = self.simd;
        let mut sums = [[simd.splat_f64s(0.0); J]; I];
        let steps = self
            .x
            .chunks_exact(self.inputs)
            .zip(self.y.chunks_exact(self.outputs));
        for (x, y) in steps {
            let (x, y) = (&x[i..][..I], &y[j..][..J]);
            for v in 0..B {
                for a in 0..I {
                    for b in 0..J {
                        sums[a][b] = simd.mul_add_e_f64s(x[a][v], y[b][v], sums[a][b]);
                    }
                }
            }
        }
        for a in 0..I {
            let out = &mut self.matrix[(i + a) * self.outputs + j..][..J];
            for b in 0..J {
                out[b] = simd.reduce_sum_f64s(sums[a][b]);
            }
        }
    }
}

/// Fills `J` entries of the bias, from `j` on.
#[inline(always)]
fn totals<S: Simd, const B: usize, const J: usize>(
    simd: S,
    y: &[Row<S, B>],
    outputs: usize,
    j: usize,
    bias: &mut [f64],
) {
    let mut sums = [simd.splat_f64s(0.0); J];
    for y in y.chunks_exact(outputs) {
        let y = &y[j..][..J];
        for v in 0..B {
            for b in 0..J {
                sums[b] = simd.add_f64s(sums[b], y[b][v]);
            }
        }
    }
    for b in 0..J {
        bias[j + b] = simd.reduce_sum_f64s(sums[b]);
    }
}
