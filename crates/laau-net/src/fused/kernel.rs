//! The products of a dense layer, vectorised across lanes (the episodes of a batch).
//!
//! Lanes come in blocks of `B` vectors, and a table is `step × block × row`, a row of `B` vectors per unit of a layer.
//! All rows of a block at a step lie side by side, weights are packed in the order in which they are used, and tile sizes are
//! constants: so the inner loops have nothing to check and keep their sums in registers.

use crate::lanes::{Lanes, Real};

/// One row of a block: `B` vectors.
pub(super) type Row<S, const B: usize> = [<S as Lanes>::Vector; B];

/// The rows of a table.
#[inline(always)]
pub(super) fn rows<S: Lanes, const B: usize>(table: &[S::Real]) -> &[Row<S, B>] {
    S::vectors(table).as_chunks::<B>().0
}

/// The rows of a table, to be written.
#[inline(always)]
pub(super) fn rows_mut<S: Lanes, const B: usize>(table: &mut [S::Real]) -> &mut [Row<S, B>] {
    S::vectors_mut(table).as_chunks_mut::<B>().0
}

/// The widths of tiles; a product takes as many of each as there are columns for, the widest first.
const TILES: [usize; 6] = [10, 5, 4, 3, 2, 1];

/// The widest tile whose sums fit into the registers beside a row, a weight and one to spare. (Without the spare one, sums
/// are put aside and fetched again: a minibatch took an eighth longer.)
const fn widest_tile<S: Lanes, const B: usize>() -> usize {
    (S::REGISTERS - 2 - B) / B
}

/// Instead of a number of rows: not known before the program runs.
const ANY: usize = 0;

/// The number of rows as the compiler knows it: `N`, or as many as there are.
#[inline(always)]
fn known<const N: usize, T>(rows: &[T]) -> &[T] {
    if N == ANY { rows } else { &rows[..N] }
}

/// Packs a matrix for [`product`], tile after tile of its columns, each row by row. Element `(i, j)` is at `i · strides.0 + j ·
/// strides.1`.
#[inline(always)]
pub(super) fn pack<S: Lanes, const B: usize>(
    (inputs, outputs): (usize, usize),
    strides: (usize, usize),
    matrix: &[f64],
    packed: &mut [S::Real],
) {
    let (mut first, mut rest) = (0, packed);
    for width in TILES {
        while width <= const { widest_tile::<S, B>() } && first + width <= outputs {
            let (tile, after) = rest.split_at_mut(inputs * width);
            for (i, row) in tile.chunks_exact_mut(width).enumerate() {
                let at = i * strides.0 + first * strides.1;
                for (a, weight) in row.iter_mut().enumerate() {
                    *weight = Real::of(matrix[at + a * strides.1]);
                }
            }
            first += width;
            rest = after;
        }
    }
}

/// `out[j] = finish(begin(before[j]) + Σ_i weights[i][j] x[i], before[j], v)` for each vector `v` of one block at one step.
///
/// The paper's sizes, ten rows and `FEW` rows, have loops of their own, whose ends the compiler knows.
#[inline(always)]
pub(super) fn product<S: Lanes, const B: usize, const FEW: usize, T>(
    simd: S,
    packed: &[S::Real],
    x: &[Row<S, B>],
    before: &[T],
    out: &mut [Row<S, B>],
    begin: impl Fn(&T) -> S::Vector,
    finish: impl Fn(S::Vector, &T, usize) -> S::Vector,
) {
    let columns = Columns {
        simd,
        packed,
        x,
        before,
        out,
    };
    if x.len() == 10 {
        columns.add_all::<10>(begin, finish);
    } else if x.len() == FEW {
        columns.add_all::<FEW>(begin, finish);
    } else {
        columns.add_all::<ANY>(begin, finish);
    }
}

/// The columns of a product that are still to be done.
struct Columns<'a, S: Lanes, const B: usize, T> {
    simd: S,
    packed: &'a [S::Real],
    x: &'a [Row<S, B>],
    before: &'a [T],
    out: &'a mut [Row<S, B>],
}

impl<S: Lanes, const B: usize, T> Columns<'_, S, B, T> {
    /// Does all columns, for `I` rows.
    #[inline(always)]
    fn add_all<const I: usize>(
        mut self,
        begin: impl Fn(&T) -> S::Vector,
        finish: impl Fn(S::Vector, &T, usize) -> S::Vector,
    ) {
        self.add::<I, 10>(&begin, &finish);
        self.add::<I, 5>(&begin, &finish);
        self.add::<I, 4>(&begin, &finish);
        self.add::<I, 3>(&begin, &finish);
        self.add::<I, 2>(&begin, &finish);
        self.add::<I, 1>(&begin, &finish);
    }

    /// Does tiles of `J` columns as long as there are so many.
    #[inline(always)]
    fn add<const I: usize, const J: usize>(
        &mut self,
        begin: &impl Fn(&T) -> S::Vector,
        finish: &impl Fn(S::Vector, &T, usize) -> S::Vector,
    ) {
        while J <= const { widest_tile::<S, B>() } && self.out.len() >= J {
            let (weights, packed) = self.packed.split_at(J * known::<I, _>(self.x).len());
            let (before, later) = self.before.split_at(J);
            let (out, rest) = std::mem::take(&mut self.out).split_at_mut(J);
            (self.packed, self.before, self.out) = (packed, later, rest);
            let mut sums = [[self.simd.constant(0.0); B]; J];
            for a in 0..J {
                sums[a] = [begin(&before[a]); B];
            }
            tile::<S, B, I, J>(self.simd, weights, self.x, &mut sums);
            for a in 0..J {
                for v in 0..B {
                    out[a][v] = finish(sums[a][v], &before[a], v);
                }
            }
        }
    }
}

/// `bias + Σ_i weights[i] x[i]`, one column.
#[inline(always)]
pub(super) fn column<S: Lanes, const B: usize>(
    simd: S,
    weights: &[S::Real],
    bias: S::Real,
    x: &[Row<S, B>],
) -> Row<S, B> {
    let mut sums = [[simd.splat(bias); B]; 1];
    if x.len() == 10 {
        tile::<S, B, 10, 1>(simd, weights, x, &mut sums);
    } else {
        tile::<S, B, ANY, 1>(simd, weights, x, &mut sums);
    }
    sums[0]
}

/// Adds up one tile. A small one has two of each sum, so that none waits for the last.
#[inline(always)]
fn tile<S: Lanes, const B: usize, const I: usize, const J: usize>(
    simd: S,
    weights: &[S::Real],
    x: &[Row<S, B>],
    sums: &mut [Row<S, B>; J],
) {
    let (weights, x) = (known::<I, _>(weights.as_chunks::<J>().0), known::<I, _>(x));
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
    let mut others = [[simd.constant(0.0); B]; J];
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
            sums[a][b] = simd.add(sums[a][b], others[a][b]);
        }
    }
}

#[inline(always)]
fn accumulate<S: Lanes, const B: usize, const J: usize>(
    simd: S,
    weights: &[S::Real; J],
    x: &Row<S, B>,
    sums: &mut [Row<S, B>; J],
) {
    for a in 0..J {
        let weight = simd.splat(weights[a]);
        for b in 0..B {
            sums[a][b] = simd.mul_add(weight, x[b], sums[a][b]);
        }
    }
}

/// Some rows of every step of a table.
pub(super) struct Rows<'a, S: Lanes, const B: usize> {
    pub(super) table: &'a [Row<S, B>],
    /// Rows of a step.
    pub(super) stride: usize,
    /// The first one wanted.
    pub(super) first: usize,
}

impl<S: Lanes, const B: usize> Rows<'_, S, B> {
    /// From the `i`-th wanted row on, step by step; of each step at least the rows that are left of it. (An episode of one step
    /// has no priced one.)
    #[inline(always)]
    fn from(&self, i: usize) -> impl Iterator<Item = &[Row<S, B>]> {
        let table = self.table.get(self.first + i..).unwrap_or_default();
        table.chunks(self.stride)
    }
}

/// `matrix[i][j] = Σ x[i] · y[j]` over all steps and lanes, and `bias[j] = Σ y[j]`: the gradients of a layer; or, with `ADD`, what
/// these steps add to them.
///
/// A tile has about ten sums, so that none waits for the last: several rows by five columns, one row by ten, or more rows by
/// the columns that are left.
#[inline(always)]
pub(super) fn contraction<S: Lanes, const B: usize, const ADD: bool>(
    simd: S,
    x: &Rows<'_, S, B>,
    y: &Rows<'_, S, B>,
    matrix: &mut [f64],
    bias: &mut [f64],
) {
    let outputs = bias.len();
    let inputs = matrix.len() / outputs;
    let mut sums = Sums::<_, B, ADD> {
        simd,
        x,
        y,
        inputs,
        outputs,
        matrix,
    };
    let fives = outputs - outputs % 5;
    let mut i = 0;
    while const { S::REGISTERS >= 32 } && i + 5 <= inputs {
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
        totals::<S, B, 10, ADD>(simd, y, j, bias);
        j += 10;
    }
    while j + 2 <= outputs {
        totals::<S, B, 2, ADD>(simd, y, j, bias);
        j += 2;
    }
    if j < outputs {
        totals::<S, B, 1, ADD>(simd, y, j, bias);
    }
}

/// The sums of a contraction.
struct Sums<'a, S: Lanes, const B: usize, const ADD: bool> {
    simd: S,
    x: &'a Rows<'a, S, B>,
    y: &'a Rows<'a, S, B>,
    inputs: usize,
    outputs: usize,
    matrix: &'a mut [f64],
}

impl<S: Lanes, const B: usize, const ADD: bool> Sums<'_, S, B, ADD> {
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
        let mut sums = [[simd.constant(0.0); J]; I];
        for (x, y) in self.x.from(i).zip(self.y.from(j)) {
            let (x, y) = (&x[..I], &y[..J]);
            for v in 0..B {
                for a in 0..I {
                    for b in 0..J {
                        sums[a][b] = simd.mul_add(x[a][v], y[b][v], sums[a][b]);
                    }
                }
            }
        }
        for a in 0..I {
            let out = &mut self.matrix[(i + a) * self.outputs + j..][..J];
            for b in 0..J {
                put::<ADD>(&mut out[b], simd.sum(sums[a][b]).double());
            }
        }
    }
}

/// Fills `J` entries of the bias, from `j` on.
#[inline(always)]
fn totals<S: Lanes, const B: usize, const J: usize, const ADD: bool>(
    simd: S,
    y: &Rows<'_, S, B>,
    j: usize,
    bias: &mut [f64],
) {
    let mut sums = [simd.constant(0.0); J];
    for y in y.from(j) {
        let y = &y[..J];
        for v in 0..B {
            for b in 0..J {
                sums[b] = simd.add(sums[b], y[b][v]);
            }
        }
    }
    for b in 0..J {
        put::<ADD>(&mut bias[j + b], simd.sum(sums[b]).double());
    }
}

#[inline(always)]
fn put<const ADD: bool>(place: &mut f64, value: f64) {
    if ADD {
        *place += value;
    } else {
        *place = value;
    }
}
