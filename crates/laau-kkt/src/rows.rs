//! Products with several rows of a matrix at once.
//!
//! A sum that waits for itself leaves most of a processor idle, and a pass over an action's values for each budget reads and writes them
//! as often. So up to four rows are taken together. Every value is the same as from one row after the other, to the last bit.

#![expect(
    clippy::inline_always,
    reason = "what is compiled for wide vectors is inlined there"
)]

use crate::dense::dot;
use crate::passes::wide;

/// `out += Σ_k factors_k rows_k`, one row after the other in every entry; `rows` are one behind the other.
pub(crate) fn add_rows(out: &mut [f64], rows: &[f64], factors: &[f64]) {
    #[inline(always)]
    fn pass(out: &mut [f64], rows: &[f64], factors: &[f64]) {
        let blocks = rows.chunks(4 * out.len());
        for (block, factors) in blocks.zip(factors.chunks(4)) {
            match *factors {
                [a, b, c, d] => add(out, block, [a, b, c, d]),
                [a, b, c] => add(out, block, [a, b, c]),
                [a, b] => add(out, block, [a, b]),
                [a] => add(out, block, [a]),
                _ => {}
            }
        }
    }
    wide!('a, out.len(), pass(out: &'a mut [f64], rows: &'a [f64], factors: &'a [f64]) -> ());
}

#[inline(always)]
fn add<const K: usize>(out: &mut [f64], rows: &[f64], factors: [f64; K]) {
    let d = out.len();
    let rows = split::<K>(rows, d);
    for i in 0..d {
        let mut sum = out[i];
        for k in 0..K {
            sum += factors[k] * rows[k][i];
        }
        out[i] = sum;
    }
}

/// `out += Σ_k factors_k rows_k` and `sizes += Σ_k |factors_k rows_k|`.
pub(crate) fn add_rows_and_sizes(out: &mut [f64], sizes: &mut [f64], rows: &[f64], factors: &[f64]) {
    #[inline(always)]
    fn pass(out: &mut [f64], sizes: &mut [f64], rows: &[f64], factors: &[f64]) {
        let blocks = rows.chunks(4 * out.len());
        for (block, factors) in blocks.zip(factors.chunks(4)) {
            match *factors {
                [a, b, c, d] => add_both(out, sizes, block, [a, b, c, d]),
                [a, b, c] => add_both(out, sizes, block, [a, b, c]),
                [a, b] => add_both(out, sizes, block, [a, b]),
                [a] => add_both(out, sizes, block, [a]),
                _ => {}
            }
        }
    }
    wide!('a, out.len(), pass(out: &'a mut [f64], sizes: &'a mut [f64], rows: &'a [f64], factors: &'a [f64]) -> ());
}

#[inline(always)]
fn add_both<const K: usize>(out: &mut [f64], sizes: &mut [f64], rows: &[f64], factors: [f64; K]) {
    let d = out.len();
    let (rows, sizes) = (split::<K>(rows, d), &mut sizes[..d]);
    for i in 0..d {
        let (mut sum, mut size) = (out[i], sizes[i]);
        for k in 0..K {
            let term = factors[k] * rows[k][i];
            sum += term;
            size += term.abs();
        }
        (out[i], sizes[i]) = (sum, size);
    }
}

/// `out_k = rows_kᵀ x`, each as [`dot`] gives it; `rows` are one behind the other.
pub(crate) fn multiply(rows: &[f64], x: &[f64], out: &mut [f64]) {
    #[inline(always)]
    fn pass(rows: &[f64], x: &[f64], out: &mut [f64]) {
        let blocks = rows.chunks(4 * x.len());
        for (block, out) in blocks.zip(out.chunks_mut(4)) {
            match out {
                [a, b, c, d] => [*a, *b, *c, *d] = dots(split(block, x.len()), [x; 4]),
                [a, b, c] => [*a, *b, *c] = dots(split(block, x.len()), [x; 3]),
                [a, b] => [*a, *b] = dots(split(block, x.len()), [x; 2]),
                [a] => *a = dot(&block[..x.len()], x),
                _ => {}
            }
        }
    }
    wide!('a, x.len(), pass(rows: &'a [f64], x: &'a [f64], out: &'a mut [f64]) -> ());
}

/// The symmetric matrix of `left_iᵀ right_j`, each as [`dot`] gives it, with `j ≤ i`.
#[inline]
pub(crate) fn fill_gram<'a>(
    matrix: &mut [f64],
    count: usize,
    left: impl Fn(usize) -> &'a [f64],
    right: impl Fn(usize) -> &'a [f64],
) {
    let mut put = |row: usize, column: usize, value: f64| {
        matrix[row * count + column] = value;
        matrix[column * count + row] = value;
    };
    let next = |(row, column): (usize, usize)| {
        if column < row {
            (row, column + 1)
        } else {
            (row + 1, 0)
        }
    };
    let mut at = (0, 0);
    let pairs = count * (count + 1) / 2;
    for _ in 0..pairs / 4 {
        let two = next(at);
        let three = next(two);
        let four = [at, two, three, next(three)];
        let values = four_dots(four.map(|pair| left(pair.0)), four.map(|pair| right(pair.1)));
        for (pair, value) in four.into_iter().zip(values) {
            put(pair.0, pair.1, value);
        }
        at = next(four[3]);
    }
    for _ in 0..pairs % 4 {
        put(at.0, at.1, dot(left(at.0), right(at.1)));
        at = next(at);
    }
}

fn four_dots(a: [&[f64]; 4], b: [&[f64]; 4]) -> [f64; 4] {
    wide!('a, a[0].len(), dots(a: [&'a [f64]; 4], b: [&'a [f64]; 4]) -> [f64; 4])
}

#[inline(always)]
fn split<const K: usize>(rows: &[f64], d: usize) -> [&[f64]; K] {
    std::array::from_fn(|k| &rows[k * d..][..d])
}

/// [`dot`] of several pairs.
#[inline(always)]
fn dots<const K: usize>(a: [&[f64]; K], b: [&[f64]; K]) -> [f64; K] {
    let d = a[0].len();
    let (fours, rest) = (
        a.map(|a| a[..d].as_chunks::<4>()),
        b.map(|b| b[..d].as_chunks::<4>()),
    );
    let mut sums = [[0.0; 4]; K];
    for i in 0..d / 4 {
        for k in 0..K {
            let (a, b) = (&fours[k].0[i], &rest[k].0[i]);
            for lane in 0..4 {
                sums[k][lane] += a[lane] * b[lane];
            }
        }
    }
    std::array::from_fn(|k| {
        let tail: f64 = (fours[k].1.iter().zip(rest[k].1)).map(|(a, b)| a * b).sum();
        let sums = sums[k];
        (sums[0] + sums[1]) + (sums[2] + sums[3]) + tail
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(count: usize, seed: f64) -> Vec<f64> {
        (0..count).map(|i| (seed + 1.7 * i as f64).sin()).collect()
    }

    #[test]
    fn several_rows_at_once_give_the_bits_of_one_after_the_other() {
        for d in [1, 3, 4, 7, 8, 29] {
            for m in 1..=9 {
                let (rows, other) = (values(m * d, 0.3), values(m * d, 0.9));
                let (x, factors) = (values(d, 0.5), values(m, 0.1));
                let row = |k: usize| &rows[k * d..][..d];

                let (mut sums, mut sizes) = (x.clone(), x.clone());
                for k in 0..m {
                    for i in 0..d {
                        sums[i] += factors[k] * row(k)[i];
                        sizes[i] += (factors[k] * row(k)[i]).abs();
                    }
                }
                let mut found = x.clone();
                add_rows(&mut found, &rows, &factors);
                assert_eq!(found, sums);
                let (mut found, mut found_sizes) = (x.clone(), x.clone());
                add_rows_and_sizes(&mut found, &mut found_sizes, &rows, &factors);
                assert_eq!((found, found_sizes), (sums, sizes));

                let mut found = vec![0.0; m];
                multiply(&rows, &x, &mut found);
                let expected: Vec<f64> = (0..m).map(|k| dot(row(k), &x)).collect();
                assert_eq!(found, expected);

                let mut gram = vec![0.0; m * m];
                fill_gram(&mut gram, m, row, |k| &other[k * d..][..d]);
                for i in 0..m {
                    for j in 0..=i {
                        let expected = dot(row(i), &other[j * d..][..d]);
                        assert_eq!((gram[i * m + j], gram[j * m + i]), (expected, expected));
                    }
                }
            }
        }
    }
}
