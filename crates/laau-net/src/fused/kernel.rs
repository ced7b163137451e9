//! The two products of a dense layer, vectorised across lanes (the episodes of a batch).
//!
//! All tables are `row × step × lane`, a row per unit of a layer. Sums are kept in registers by tiles of rows and
//! vectors; tile sizes are constants, so that the compiler unrolls them.

use pulp::Simd;

/// The part of a table that belongs to one step: row `i` has its vectors at `i · stride + start`.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    /// Vectors from one row to the next: steps × vectors per step.
    pub(super) stride: usize,
    /// The step's first vector in a row.
    pub(super) start: usize,
}

/// A matrix whose rows are inputs of a product and whose columns are outputs.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) values: &'a [f64],
    pub(super) rows: usize,
    pub(super) columns: usize,
}

/// Runs `$call` with the tile size as a constant, for consecutive tiles of `$count` items.
macro_rules! tiles {
    ($count:expr, $largest:expr, |$start:ident, $SIZE:ident| $call:expr) => {{
        let (count, largest) = ($count, $largest);
        let mut $start = 0;
        while $start < count {
            let left = count - $start;
            if left >= 5 && largest >= 5 {
                const $SIZE: usize = 5;
                $call;
                $start += $SIZE;
            } else if left >= 4 && largest >= 4 {
                const $SIZE: usize = 4;
                $call;
                $start += $SIZE;
            } else if left >= 3 && largest >= 3 {
                const $SIZE: usize = 3;
                $call;
                $start += $SIZE;
            } else if left >= 2 {
                const $SIZE: usize = 2;
                $call;
                $start += $SIZE;
            } else {
                const $SIZE: usize = 1;
                $call;
                $start += $SIZE;
            }
        }
    }};
}

/// Whether there are enough registers for the large tiles.
const fn many_registers<S: Simd>() -> bool {
    S::REGISTER_COUNT >= 32
}

/// `out[j] = finish(j, init[j] + Σ_i matrix[i][j] x[i])` for one step; `finish` also gets the vector's position in `out`.
#[inline(always)]
pub(super) fn product<S: Simd>(
    simd: S,
    matrix: Matrix<'_>,
    init: Option<&[f64]>,
    vectors: usize,
    (x, from): (&[S::f64s], Slot),
    (out, to): (&mut [S::f64s], Slot),
    finish: impl Fn(usize, S::f64s) -> S::f64s,
) {
    let most = if many_registers::<S>() { 5 } else { 4 };
    tiles!(vectors, 3, |v, B| tiles!(matrix.columns, most, |j, J| {
        let mut sums = [[simd.splat_f64s(0.0); B]; J];
        if let Some(init) = init {
            let init = &init[j..][..J];
            for a in 0..J {
                sums[a] = [simd.splat_f64s(init[a]); B];
            }
        }
        for i in 0..matrix.rows {
            let at = i * from.stride + from.start + v;
            let values = &x[at..][..B];
            let at = i * matrix.columns + j;
            let weights = &matrix.values[at..][..J];
            for a in 0..J {
                let weight = simd.splat_f64s(weights[a]);
                for b in 0..B {
                    sums[a][b] = simd.mul_add_e_f64s(weight, values[b], sums[a][b]);
                }
            }
        }
        for a in 0..J {
            let at = (j + a) * to.stride + to.start + v;
            let out = &mut out[at..][..B];
            for b in 0..B {
                out[b] = finish(at + b, sums[a][b]);
            }
        }
    }));
}

/// `out[i][j] = Σ x[i] · y[j]` over all steps and lanes, and `sums[j] = Σ y[j]`: the gradients of a layer's matrix and
/// bias. Rows of `x` and `y` have `length` vectors.
#[inline(always)]
pub(super) fn contraction<S: Simd>(
    simd: S,
    x: &[S::f64s],
    y: &[S::f64s],
    length: usize,
    out: &mut [f64],
    sums: &mut [f64],
) {
    let columns = sums.len();
    let rows = out.len() / columns;
    let most = if many_registers::<S>() { 5 } else { 3 };
    tiles!(rows, most, |i, I| tiles!(columns, most, |j, J| {
        let xs: [&[S::f64s]; I] = std::array::from_fn(|a| &x[(i + a) * length..][..length]);
        let ys: [&[S::f64s]; J] = std::array::from_fn(|a| &y[(j + a) * length..][..length]);
        let mut products = [[simd.splat_f64s(0.0); J]; I];
        for k in 0..length {
            let y: [S::f64s; J] = std::array::from_fn(|b| ys[b][k]);
            for a in 0..I {
                let x = xs[a][k];
                for b in 0..J {
                    products[a][b] = simd.mul_add_e_f64s(x, y[b], products[a][b]);
                }
            }
        }
        for a in 0..I {
            for b in 0..J {
                out[(i + a) * columns + j + b] = simd.reduce_sum_f64s(products[a][b]);
            }
        }
    }));
    tiles!(columns, most, |j, J| {
        let ys: [&[S::f64s]; J] = std::array::from_fn(|a| &y[(j + a) * length..][..length]);
        let mut totals = [simd.splat_f64s(0.0); J];
        for k in 0..length {
            for b in 0..J {
                totals[b] = simd.add_f64s(totals[b], ys[b][k]);
            }
        }
        for b in 0..J {
            sums[j + b] = simd.reduce_sum_f64s(totals[b]);
        }
    });
}

/// Writes the transpose of a matrix.
#[inline(always)]
pub(super) fn transpose(matrix: Matrix<'_>, out: &mut [f64]) {
    for i in 0..matrix.rows {
        for j in 0..matrix.columns {
            out[j * matrix.rows + i] = matrix.values[i * matrix.columns + j];
        }
    }
}
