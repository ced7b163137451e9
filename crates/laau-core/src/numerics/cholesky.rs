//! The Cholesky factorisation of small dense matrices, in place.

/// Factors the lower triangle of a symmetric positive semidefinite matrix (row-major, `n × n`) in place.
///
/// A pivot of at most `smallest_pivot` times its diagonal entry is rounding, not information: its row is locked, and
/// solutions are zero there. Returns the number of locked rows, which is 0 for a positive definite matrix.
pub fn factor(matrix: &mut [f64], n: usize, smallest_pivot: f64) -> usize {
    let mut locked = 0;
    for j in 0..n {
        let diagonal = matrix[j * n + j];
        let mut pivot = diagonal;
        for k in 0..j {
            pivot -= matrix[j * n + k] * matrix[j * n + k];
        }
        let root = if pivot > smallest_pivot * diagonal && pivot.is_finite() {
            pivot.sqrt()
        } else {
            locked += 1;
            f64::INFINITY
        };
        matrix[j * n + j] = root;
        for i in j + 1..n {
            let mut sum = matrix[i * n + j];
            for k in 0..j {
                sum -= matrix[i * n + k] * matrix[j * n + k];
            }
            matrix[i * n + j] = sum / root;
        }
    }
    locked
}

/// Solves with a factor made by [`factor`], in place.
pub fn solve(factor: &[f64], n: usize, vector: &mut [f64]) {
    for i in 0..n {
        let mut sum = vector[i];
        for k in 0..i {
            sum -= factor[i * n + k] * vector[k];
        }
        vector[i] = sum / factor[i * n + i];
    }
    for i in (0..n).rev() {
        let mut sum = vector[i];
        for k in i + 1..n {
            sum -= factor[k * n + i] * vector[k];
        }
        vector[i] = sum / factor[i * n + i];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_solves_its_matrix() {
        let matrix = [4.0, 2.0, 0.4, 2.0, 5.0, -1.0, 0.4, -1.0, 3.0];
        let wanted = [1.0, -2.0, 0.5];
        let mut vector: Vec<f64> = matrix
            .chunks_exact(3)
            .map(|row| row.iter().zip(&wanted).map(|(a, x)| a * x).sum())
            .collect();
        let mut factored = matrix;
        assert_eq!(factor(&mut factored, 3, 0.0), 0);
        solve(&factored, 3, &mut vector);
        for (found, wanted) in vector.iter().zip(&wanted) {
            assert!((found - wanted).abs() < 1e-14, "{found} is not {wanted}");
        }
    }

    #[test]
    fn a_singular_direction_is_locked() {
        let mut twice = [1.0, 1.0, 1.0, 1.0];
        assert_eq!(factor(&mut twice, 2, 1e-15), 1);
        let mut vector = [3.0, 3.0];
        solve(&twice, 2, &mut vector);
        assert_eq!(vector, [3.0, 0.0]);
    }
}
