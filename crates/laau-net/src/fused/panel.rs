//! The weight gradients of a wide layer, some steps at a time.
//!
//! A narrow layer's gradient fits into a few tiles of registers, each of which goes over all steps and lanes once. A wide layer's has
//! so many tiles that the tables, read once for each, would come out of the second-level cache more slowly than they are multiplied.
//! So a few steps, a panel, are contracted with all tiles while they are in the first-level cache, and the sums wait in memory. They
//! are the gradient itself and not vectors still to be reduced, because the vectors of a tile are columns and not lanes: the deltas are
//! transposed first, once for all rows.

use crate::lanes::{Lanes, Real};

/// Some values of every block of a table: those from `first` on.
pub(super) struct Blocks<'a, T> {
    pub(super) table: &'a [T],
    /// Values of a block.
    pub(super) stride: usize,
    pub(super) first: usize,
}

/// Vectors of columns in a tile.
const WIDE: usize = 2;

/// Writes deltas (`block × column × lane`) tile by tile, each `lane × column`, and adds those of each column to the bias. The columns
/// that a last tile has too many are left as they are: their sums go nowhere.
#[inline(always)]
pub(super) fn transpose<'a, S: Lanes, const B: usize>(
    blocks: impl Iterator<Item = &'a [S::Real]>,
    columns: usize,
    count: usize,
    out: &mut [S::Real],
    bias: &mut [f64],
) {
    let (lanes, of_tile) = (B * S::COUNT, WIDE * S::COUNT);
    let tile = count * lanes * of_tile;
    for (index, block) in blocks.enumerate() {
        for (j, row) in block.chunks_exact(lanes).take(columns).enumerate() {
            let first = j / of_tile * tile + index * lanes * of_tile + j % of_tile;
            // With lengths that the compiler knows, nothing is checked value by value.
            let (row, out) = (&row[..lanes], &mut out[first..][..=(lanes - 1) * of_tile]);
            let mut total = S::Real::default();
            for l in 0..lanes {
                out[l * of_tile] = row[l];
                total += row[l];
            }
            bias[j] += total.double();
        }
    }
}

/// Adds `Σ x[i] · y[j]` over all lanes of some blocks to the sums, which are `tile × row × column of the tile`.
#[inline(always)]
pub(super) fn panel<S: Lanes, const B: usize>(
    simd: S,
    x: &Blocks<'_, S::Real>,
    transposed: &[S::Real],
    (inputs, outputs, count): (usize, usize, usize),
    sums: &mut [S::Real],
) {
    let y = S::vectors(transposed).as_chunks::<WIDE>().0;
    let sums = S::vectors_mut(sums).as_chunks_mut::<WIDE>().0;
    let lanes = count * B * S::COUNT;
    let tiles = outputs.div_ceil(WIDE * S::COUNT);
    for (y, sums) in y
        .chunks_exact(lanes)
        .zip(sums.chunks_exact_mut(inputs))
        .take(tiles)
    {
        let (fives, rest) = sums.as_chunks_mut::<5>();
        for (index, sums) in fives.iter_mut().enumerate() {
            tile::<S, B, 5>(simd, x, 5 * index, y, sums);
        }
        let (threes, rest) = rest.as_chunks_mut::<3>();
        let mut i = 5 * fives.len();
        for sums in threes {
            tile::<S, B, 3>(simd, x, i, y, sums);
            i += 3;
        }
        for sums in rest {
            tile::<S, B, 1>(simd, x, i, y, std::array::from_mut(sums));
            i += 1;
        }
    }
}

/// Adds to `I` rows of a tile, from row `i` on.
#[inline(always)]
fn tile<S: Lanes, const B: usize, const I: usize>(
    simd: S,
    x: &Blocks<'_, S::Real>,
    i: usize,
    y: &[[S::Vector; WIDE]],
    sums: &mut [[S::Vector; WIDE]; I],
) {
    let lanes = B * S::COUNT;
    let mut held = *sums;
    let blocks = x.table[x.first + i * lanes..].chunks(x.stride);
    for (x, y) in blocks.zip(y.chunks_exact(lanes)) {
        let x = &x[..I * lanes];
        for l in 0..lanes {
            for a in 0..I {
                let value = simd.splat(x[a * lanes + l]);
                for b in 0..WIDE {
                    held[a][b] = simd.mul_add(value, y[l][b], held[a][b]);
                }
            }
        }
    }
    *sums = held;
}

/// Writes sums, which are `tile × row × column of the tile`, as a matrix.
#[inline(always)]
pub(super) fn untile<S: Lanes>(sums: &[S::Real], outputs: usize, matrix: &mut [f64]) {
    let of_tile = WIDE * S::COUNT;
    let inputs = matrix.len() / outputs;
    for (i, row) in matrix.chunks_exact_mut(outputs).enumerate() {
        for (index, out) in row.chunks_mut(of_tile).enumerate() {
            let first = (index * inputs + i) * of_tile;
            Real::widen(&sums[first..first + out.len()], out);
        }
    }
}
