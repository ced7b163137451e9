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

/// The largest tile of a product whose sums fit into the registers beside a row, a weight and one to spare: ten, or at
/// most five.
const fn largest_tile<S: Simd, const B: usize>() -> usize {
    match (S::REGISTER_COUNT - 2 - B) / B {
        10.. => 10,
        5.. => 5,
        fewer => fewer,
    }
}

/// The next tile of a product with `left` columns to go: ten of them, or as many as there are up to five.
#[inline(always)]
fn next_tile(left: usize, largest: usize) -> usize {
    if largest == 10 && left >= 10 {
        10
    } else {
        left.min(largest).min(5)
    }
}

/// The next tile of a contraction: five, two or one.
#[inline(always)]
fn next_small_tile(left: usize, largest: usize) -> usize {
    match left.min(largest) {
        5.. => 5,
        2.. => 2,
        _ => 1,
    }
}

/// The largest tile of rows of a contraction, beside one of five columns.
const fn largest_height<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 5 } else { 2 }
}

/// Runs `$call` with a tile's size as a constant.
macro_rules! with_size {
    ($size:expr, |$SIZE:ident| $call:expr) => {
        match $size {
            10 => {
                const $SIZE: usize = 10;
                $call
            }
            5 => {
                const $SIZE: usize = 5;
                $call
            }
            4 => {
                const $SIZE: usize = 4;
                $call
            }
            3 => {
                const $SIZE: usize = 3;
                $call
            }
            2 => {
                const $SIZE: usize = 2;
                $call
            }
            _ => {
                const $SIZE: usize = 1;
                $call
            }
        }
    };
}

/// The same for the sizes of a contraction.
macro_rules! with_small_size {
    ($size:expr, |$SIZE:ident| $call:expr) => {
        match $size {
            5 => {
                const $SIZE: usize = 5;
                $call
            }
            2 => {
                const $SIZE: usize = 2;
                $call
            }
            _ => {
                const $SIZE: usize = 1;
                $call
            }
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
    while first < outputs {
        let size = next_tile(outputs - first, largest_tile::<S, B>());
        let (tile, after) = rest.split_at_mut(size * inputs);
        with_size!(size, |J| {
            for (i, row) in tile.as_chunks_mut::<J>().0.iter_mut().enumerate() {
                let at = i * strides.0 + first * strides.1;
                let values = &matrix[at..=at + (J - 1) * strides.1];
                for a in 0..J {
                    row[a] = values[a * strides.1];
                }
            }
        });
        first += size;
        rest = after;
    }
}

/// `out[j] = finish(init[j] + Σ_i weights[i][j] x[i], beside[j])` for one block at one step.
///
/// `beside` are rows that `finish` wants to see; its length, and `out`'s, is the number of outputs.
#[inline(always)]
pub(super) fn product<S: Simd, const B: usize>(
    simd: S,
    packed: &[f64],
    init: Option<&[f64]>,
    x: &[Row<S, B>],
    beside: Option<&[Row<S, B>]>,
    out: &mut [Row<S, B>],
    finish: impl Fn(S::f64s, S::f64s) -> S::f64s,
) {
    let outputs = out.len();
    let (mut first, mut rest) = (0, packed);
    while first < outputs {
        let size = next_tile(outputs - first, largest_tile::<S, B>());
        let (weights, after) = rest.split_at(size * x.len());
        with_size!(size, |J| {
            let mut sums = [[simd.splat_f64s(0.0); B]; J];
            if let Some(init) = init {
                let init = &init[first..][..J];
                for a in 0..J {
                    sums[a] = [simd.splat_f64s(init[a]); B];
                }
            }
            tile::<S, B, J>(simd, weights, x, &mut sums);
            let out = &mut out[first..][..J];
            match beside {
                Some(beside) => {
                    let beside = &beside[first..][..J];
                    for a in 0..J {
                        for b in 0..B {
                            out[a][b] = finish(sums[a][b], beside[a][b]);
                        }
                    }
                }
                None => {
                    for a in 0..J {
                        for b in 0..B {
                            out[a][b] = finish(sums[a][b], sums[a][b]);
                        }
                    }
                }
            }
        });
        first += size;
        rest = after;
    }
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
    if J * B > 4 {
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
    let mut j = 0;
    while j < outputs {
        let width = next_small_tile(outputs - j, 5);
        with_small_size!(width, |J| {
            let mut i = 0;
            while i < inputs {
                let height = next_small_tile(inputs - i, largest_height::<S>());
                with_small_size!(height, |I| {
                    let mut sums = [[simd.splat_f64s(0.0); J]; I];
                    for (x, y) in x.chunks_exact(inputs).zip(y.chunks_exact(outputs)) {
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
                        let out = &mut matrix[(i + a) * outputs + j..][..J];
                        for b in 0..J {
                            out[b] = simd.reduce_sum_f64s(sums[a][b]);
                        }
                    }
                });
                i += height;
            }
            let mut sums = [simd.splat_f64s(0.0); J];
            for y in y.chunks_exact(outputs) {
                let y = &y[j..][..J];
                for b in 0..J {
                    for v in 0..B {
                        sums[b] = simd.add_f64s(sums[b], y[b][v]);
                    }
                }
            }
            for b in 0..J {
                bias[j + b] = simd.reduce_sum_f64s(sums[b]);
            }
        });
        j += width;
    }
}
