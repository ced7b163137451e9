//! Dense symmetric factorisations without allocation: plain loops for small sizes, faer above.
//!
//! The plain Cholesky is not that of `laau_core::numerics`: it keeps inverse pivots and adds in four sums at once, which the
//! inner loop of the interior point is measured by.
//!
//! [`Dense::factorise`] and [`Dense::solve`] are the only place that knows which of the two is used. Where they cross is
//! measured by `cargo bench -p laau-benches --bench dense`. Its minima, in nanoseconds for a factorisation and a solve:
//!
//! | rows | 3 | 8 | 12 | 16 | 24 | 32 | 48 |
//! |---|---|---|---|---|---|---|---|
//! | Cholesky, plain | 44 | 278 | 617 | 1112 | 2510 | 4499 | 10621 |
//! | Cholesky, faer | 107 | 315 | 574 | 840 | 1893 | 2694 | 6073 |
//! | LU, plain | 96 | 428 | 892 | 1486 | 3215 | 5914 | 14710 |
//! | LU, faer | 196 | 677 | 1231 | 1949 | 3604 | 5883 | 12700 |

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::cholesky::llt::{self, factor::LltRegularization};
use faer::linalg::evd::{self, ComputeEigenvectors};
use faer::linalg::lu::partial_pivoting as lu;
use faer::perm::PermRef;
use faer::{Conj, MatMut, MatRef, Par, Spec};

/// Up to which size plain loops are used, for a Cholesky factorisation and for an LU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crossing {
    pub(crate) cholesky: usize,
    pub(crate) lu: usize,
}

/// The measured sizes.
pub(crate) const CROSSING: Crossing = Crossing { cholesky: 10, lu: 28 };

/// How a symmetric matrix is to be factorised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Cholesky.
    PositiveDefinite,
    /// LU with partial pivoting.
    Indefinite,
    /// Pseudo-inverse by an eigendecomposition; never singular.
    Pseudo,
}

/// A pivot was zero to the rank tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Singular {
    /// The row of the pivot.
    pub(crate) row: usize,
}

/// A symmetric matrix of at most a given size, its factors and the scratch memory for them.
pub(crate) struct Dense {
    largest: usize,
    crossing: Crossing,
    size: usize,
    kind: Kind,
    matrix: Vec<f64>,
    diagonal: Vec<f64>,
    vectors: Vec<f64>,
    rhs: Vec<f64>,
    permutation: Vec<usize>,
    inverse_permutation: Vec<usize>,
    scratch: MemBuffer,
}

impl Dense {
    /// Room for matrices of up to `largest` rows, factorised by plain loops up to [`CROSSING`].
    pub(crate) fn new(largest: usize) -> Self {
        Self::with_crossing(largest, CROSSING)
    }

    /// The same with another crossing from plain loops to faer.
    pub(crate) fn with_crossing(largest: usize, crossing: Crossing) -> Self {
        // faer cannot size an empty eigendecomposition.
        let at_least_one = largest.max(1);
        let requirement = StackReq::any_of(&[
            llt::factor::cholesky_in_place_scratch::<f64>(largest, Par::Seq, Spec::default()),
            lu::factor::lu_in_place_scratch::<usize, f64>(largest, largest, Par::Seq, Spec::default()),
            lu::solve::solve_in_place_scratch::<usize, f64>(largest, 1, Par::Seq),
            evd::self_adjoint_evd_scratch::<f64>(
                at_least_one,
                ComputeEigenvectors::Yes,
                Par::Seq,
                Spec::default(),
            ),
        ]);
        Self {
            largest,
            crossing,
            size: 0,
            kind: Kind::PositiveDefinite,
            matrix: vec![0.0; largest * largest],
            diagonal: vec![0.0; largest],
            vectors: vec![0.0; largest * largest],
            rhs: vec![0.0; largest],
            permutation: vec![0; largest],
            inverse_permutation: vec![0; largest],
            scratch: MemBuffer::new(requirement),
        }
    }

    /// Room for matrices of so many rows, too.
    pub(crate) fn make_room(&mut self, size: usize) {
        if size > self.largest {
            *self = Self::with_crossing(size, self.crossing);
        }
    }

    /// The matrix of `size` rows that is factorised next, row-major, to be filled entirely.
    pub(crate) fn matrix(&mut self, size: usize) -> &mut [f64] {
        self.size = size;
        &mut self.matrix[..size * size]
    }

    /// Factorises the matrix in place.
    pub(crate) fn factorise(&mut self, kind: Kind, rank_tolerance: f64) -> Result<(), Singular> {
        self.kind = kind;
        let n = self.size;
        match kind {
            Kind::PositiveDefinite if n <= self.crossing.cholesky => {
                plain_cholesky(n, &mut self.matrix, &mut self.diagonal, rank_tolerance)
            }
            Kind::PositiveDefinite => self.faer_cholesky(rank_tolerance),
            Kind::Indefinite if n <= self.crossing.lu => {
                plain_lu(n, &mut self.matrix, &mut self.permutation, rank_tolerance)
            }
            Kind::Indefinite => self.faer_lu(rank_tolerance),
            Kind::Pseudo => {
                self.eigen(rank_tolerance);
                Ok(())
            }
        }
    }

    /// Solves with the factors, in place.
    pub(crate) fn solve(&mut self, rhs: &mut [f64]) {
        let n = self.size;
        match self.kind {
            Kind::PositiveDefinite if n <= self.crossing.cholesky => {
                plain_cholesky_solve(n, &self.matrix, &self.diagonal, rhs);
            }
            Kind::PositiveDefinite => {
                let factor = MatRef::from_column_major_slice(&self.matrix[..n * n], n, n);
                let stack = MemStack::new(&mut self.scratch);
                let rhs = MatMut::from_column_major_slice_mut(rhs, n, 1);
                llt::solve::solve_in_place_with_conj(factor, Conj::No, rhs, Par::Seq, stack);
            }
            Kind::Indefinite if n <= self.crossing.lu => {
                plain_lu_solve(n, &self.matrix, &self.permutation, rhs, &mut self.rhs);
            }
            Kind::Indefinite => {
                let factor = MatRef::from_column_major_slice(&self.matrix[..n * n], n, n);
                let stack = MemStack::new(&mut self.scratch);
                let permutation =
                    PermRef::new_checked(&self.permutation[..n], &self.inverse_permutation[..n], n);
                let rhs = MatMut::from_column_major_slice_mut(rhs, n, 1);
                lu::solve::solve_in_place_with_conj(
                    factor,
                    factor,
                    permutation,
                    Conj::No,
                    rhs,
                    Par::Seq,
                    stack,
                );
            }
            Kind::Pseudo => {
                let projected = &mut self.rhs[..n];
                for (k, value) in projected.iter_mut().enumerate() {
                    let vector = &self.vectors[k * n..][..n];
                    *value = self.diagonal[k] * dot(vector, rhs);
                }
                rhs.fill(0.0);
                for (k, value) in projected.iter().enumerate() {
                    for (out, v) in rhs.iter_mut().zip(&self.vectors[k * n..][..n]) {
                        *out += value * v;
                    }
                }
            }
        }
    }

    fn faer_cholesky(&mut self, rank_tolerance: f64) -> Result<(), Singular> {
        let n = self.size;
        for i in 0..n {
            self.diagonal[i] = self.matrix[i * n + i];
        }
        let matrix = MatMut::from_column_major_slice_mut(&mut self.matrix[..n * n], n, n);
        let stack = MemStack::new(&mut self.scratch);
        llt::factor::cholesky_in_place(
            matrix,
            LltRegularization::default(),
            Par::Seq,
            stack,
            Spec::default(),
        )
        .map_err(|llt::factor::LltError::NonPositivePivot { index }| Singular {
            row: index.min(n - 1),
        })?;
        let small = |i: &usize| {
            let pivot = self.matrix[i * n + i];
            !exceeds(pivot * pivot, rank_tolerance * self.diagonal[*i])
        };
        match (0..n).find(small) {
            Some(row) => Err(Singular { row }),
            None => Ok(()),
        }
    }

    fn faer_lu(&mut self, rank_tolerance: f64) -> Result<(), Singular> {
        let n = self.size;
        let largest = largest_entry(&self.matrix[..n * n]);
        let matrix = MatMut::from_column_major_slice_mut(&mut self.matrix[..n * n], n, n);
        let stack = MemStack::new(&mut self.scratch);
        lu::factor::lu_in_place(
            matrix,
            &mut self.permutation[..n],
            &mut self.inverse_permutation[..n],
            Par::Seq,
            stack,
            Spec::default(),
        );
        match (0..n).find(|i| !exceeds(self.matrix[i * n + i].abs(), rank_tolerance * largest)) {
            Some(row) => Err(Singular { row }),
            None => Ok(()),
        }
    }

    /// Eigenvectors as columns of a column-major matrix, and the inverses of the eigenvalues that are not zero.
    fn eigen(&mut self, rank_tolerance: f64) {
        let n = self.size;
        let matrix = MatRef::from_column_major_slice(&self.matrix[..n * n], n, n);
        let vectors = MatMut::from_column_major_slice_mut(&mut self.vectors[..n * n], n, n);
        let stack = MemStack::new(&mut self.scratch);
        let decomposed = evd::self_adjoint_evd(
            matrix,
            DiagMut::from_slice_mut(&mut self.diagonal[..n]),
            Some(vectors),
            Par::Seq,
            stack,
            Spec::default(),
        );
        if decomposed.is_err() {
            self.diagonal[..n].fill(0.0);
            self.vectors[..n * n].fill(0.0);
        }
        let largest = largest_entry(&self.diagonal[..n]);
        for value in &mut self.diagonal[..n] {
            *value = if value.abs() > rank_tolerance * largest {
                1.0 / *value
            } else {
                0.0
            };
        }
    }
}

impl Clone for Dense {
    /// Another workspace of the same size; factors are not carried over.
    fn clone(&self) -> Self {
        Self::with_crossing(self.largest, self.crossing)
    }
}

impl std::fmt::Debug for Dense {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dense")
            .field("largest", &self.largest)
            .finish_non_exhaustive()
    }
}

/// `aᵀ b`, in four sums side by side, which the processor can add at once.
#[inline]
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a4, a_rest) = a.as_chunks::<4>();
    let (b4, b_rest) = b.as_chunks::<4>();
    let mut sums = [0.0; 4];
    for (a, b) in a4.iter().zip(b4) {
        for k in 0..4 {
            sums[k] += a[k] * b[k];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}

/// Whether a pivot is large enough; a NaN is not.
#[inline]
fn exceeds(pivot: f64, threshold: f64) -> bool {
    pivot > threshold
}

fn largest_entry(values: &[f64]) -> f64 {
    values.iter().fold(0.0_f64, |largest, v| largest.max(v.abs()))
}

/// `A = L Lᵀ` in the lower triangle; `inverse` holds the inverses of the diagonal of `L`.
#[inline]
fn plain_cholesky(n: usize, a: &mut [f64], inverse: &mut [f64], rank_tolerance: f64) -> Result<(), Singular> {
    let a = &mut a[..n * n];
    let inverse = &mut inverse[..n];
    for i in 0..n {
        let (done, rest) = a.split_at_mut(i * n);
        let row = &mut rest[..n];
        for j in 0..i {
            let other = &done[j * n..][..n];
            row[j] = (row[j] - dot(&row[..j], &other[..j])) * inverse[j];
        }
        let pivot = row[i] - dot(&row[..i], &row[..i]);
        if !exceeds(pivot, rank_tolerance * row[i]) {
            return Err(Singular { row: i });
        }
        inverse[i] = 1.0 / pivot.sqrt();
    }
    Ok(())
}

#[inline]
fn plain_cholesky_solve(n: usize, a: &[f64], inverse: &[f64], rhs: &mut [f64]) {
    let (a, inverse, rhs) = (&a[..n * n], &inverse[..n], &mut rhs[..n]);
    for i in 0..n {
        rhs[i] = (rhs[i] - dot(&a[i * n..][..i], &rhs[..i])) * inverse[i];
    }
    for i in (0..n).rev() {
        let value = rhs[i] * inverse[i];
        rhs[i] = value;
        for (r, l) in rhs[..i].iter_mut().zip(&a[i * n..][..i]) {
            *r -= value * l;
        }
    }
}

fn plain_lu(n: usize, a: &mut [f64], pivots: &mut [usize], rank_tolerance: f64) -> Result<(), Singular> {
    let a = &mut a[..n * n];
    let largest = largest_entry(a);
    for k in 0..n {
        let mut p = k;
        for i in k + 1..n {
            if a[i * n + k].abs() > a[p * n + k].abs() {
                p = i;
            }
        }
        pivots[k] = p;
        if !exceeds(a[p * n + k].abs(), rank_tolerance * largest) {
            return Err(Singular { row: k });
        }
        if p != k {
            for j in 0..n {
                a.swap(k * n + j, p * n + j);
            }
        }
        let inverse = 1.0 / a[k * n + k];
        let (above, below) = a.split_at_mut((k + 1) * n);
        let pivot_row = &above[k * n..];
        for row in below.chunks_exact_mut(n) {
            let factor = row[k] * inverse;
            row[k] = factor;
            for (value, pivot) in row[k + 1..].iter_mut().zip(&pivot_row[k + 1..]) {
                *value -= factor * pivot;
            }
        }
    }
    Ok(())
}

fn plain_lu_solve(n: usize, a: &[f64], pivots: &[usize], rhs: &mut [f64], scratch: &mut [f64]) {
    let x = &mut scratch[..n];
    x.copy_from_slice(&rhs[..n]);
    for k in 0..n {
        x.swap(k, pivots[k]);
    }
    for i in 0..n {
        x[i] -= dot(&a[i * n..][..i], &x[..i]);
    }
    for i in (0..n).rev() {
        x[i] = (x[i] - dot(&a[i * n + i + 1..(i + 1) * n], &x[i + 1..])) / a[i * n + i];
    }
    rhs[..n].copy_from_slice(x);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A symmetric matrix of numbers that look random, positive definite when asked.
    fn symmetric(n: usize, definite: bool) -> Vec<f64> {
        let mut a = vec![0.0; n * n];
        for i in 0..n {
            for j in 0..=i {
                let value = ((i * 31 + j * 17 + 7) as f64).sin();
                a[i * n + j] = value;
                a[j * n + i] = value;
            }
            if definite {
                a[i * n + i] = n as f64 + 1.0;
            }
        }
        a
    }

    #[test]
    fn every_kind_solves_small_and_large_systems() {
        for n in [
            1,
            2,
            5,
            CROSSING.cholesky,
            CROSSING.cholesky + 1,
            CROSSING.lu,
            CROSSING.lu + 1,
            40,
        ] {
            for kind in [Kind::PositiveDefinite, Kind::Indefinite, Kind::Pseudo] {
                let a = symmetric(n, kind == Kind::PositiveDefinite);
                let expected: Vec<f64> = (0..n).map(|i| (i as f64).cos()).collect();
                let mut rhs: Vec<f64> = a.chunks_exact(n).map(|row| dot(row, &expected)).collect();
                let mut dense = Dense::new(n + 3);
                dense.matrix(n).copy_from_slice(&a);
                dense.factorise(kind, 1e-13).unwrap();
                dense.solve(&mut rhs);
                for (found, expected) in rhs.iter().zip(&expected) {
                    assert!(
                        (found - expected).abs() < 1e-10,
                        "{kind:?} {n}: {found} {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn singular_matrices_are_found_and_pseudo_inverted() {
        for n in [3, CROSSING.lu + 2] {
            // The last row and column repeat the first.
            let mut a = symmetric(n, true);
            for j in 0..n {
                a[(n - 1) * n + j] = a[j];
            }
            for i in 0..n {
                a[i * n + n - 1] = a[i * n];
            }
            let mut dense = Dense::new(n);
            for kind in [Kind::PositiveDefinite, Kind::Indefinite] {
                dense.matrix(n).copy_from_slice(&a);
                assert!(dense.factorise(kind, 1e-12).is_err(), "{kind:?} {n}");
            }
            dense.matrix(n).copy_from_slice(&a);
            dense.factorise(Kind::Pseudo, 1e-12).unwrap();
            let ones = vec![1.0; n];
            let mut x: Vec<f64> = a.chunks_exact(n).map(|row| dot(row, &ones)).collect();
            let rhs = x.clone();
            dense.solve(&mut x);
            for (row, rhs) in a.chunks_exact(n).zip(&rhs) {
                assert!((dot(row, &x) - rhs).abs() < 1e-9);
            }
            assert!(
                (x[0] - x[n - 1]).abs() < 1e-9,
                "the shortest solution shares equally"
            );
        }
    }
}
