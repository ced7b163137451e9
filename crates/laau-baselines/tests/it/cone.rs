//! The offline optimum of logarithmic utility as a conic program, solved by clarabel: the independent truth.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, SolverStatus, SupportedConeT};

/// `max Σ w_i ln x_i` subject to linear budgets, a box, and at most one bound on the sum of squares.
pub(crate) struct ConicProgram {
    pub(crate) weights: Vec<f64>,
    pub(crate) lower: f64,
    pub(crate) upper: f64,
    /// Rows of coefficients and their budgets.
    pub(crate) budgets: Vec<(Vec<f64>, f64)>,
    /// `Σ x² ≤` this.
    pub(crate) squares: Option<f64>,
}

impl ConicProgram {
    /// The largest utility.
    pub(crate) fn utility(&self) -> f64 {
        let count = self.weights.len();
        // Variables: x, then u with (u, 1, x) in the exponential cone, so that u ≤ ln x.
        let mut rows: Vec<Vec<f64>> = Vec::new();
        let mut right: Vec<f64> = Vec::new();
        let mut cones = Vec::new();
        let mut row = |entries: &[(usize, f64)], value: f64| {
            let mut dense = vec![0.0; 2 * count];
            for &(column, entry) in entries {
                dense[column] = entry;
            }
            rows.push(dense);
            right.push(value);
        };
        for i in 0..count {
            row(&[(i, 1.0)], self.upper);
            row(&[(i, -1.0)], -self.lower);
        }
        for (coefficients, budget) in &self.budgets {
            let entries: Vec<_> = coefficients.iter().copied().enumerate().collect();
            row(&entries, *budget);
        }
        cones.push(SupportedConeT::NonnegativeConeT(2 * count + self.budgets.len()));
        if let Some(squares) = self.squares {
            row(&[], squares.sqrt());
            for i in 0..count {
                row(&[(i, -1.0)], 0.0);
            }
            cones.push(SupportedConeT::SecondOrderConeT(count + 1));
        }
        for i in 0..count {
            row(&[(count + i, -1.0)], 0.0);
            row(&[], 1.0);
            row(&[(i, -1.0)], 0.0);
            cones.push(SupportedConeT::ExponentialConeT());
        }
        let mut cost = vec![0.0; 2 * count];
        for (cost, weight) in cost[count..].iter_mut().zip(&self.weights) {
            *cost = -weight;
        }
        let settings = DefaultSettings {
            verbose: false,
            tol_gap_abs: 1e-10,
            tol_gap_rel: 1e-10,
            tol_feas: 1e-10,
            ..DefaultSettings::default()
        };
        let quadratic = CscMatrix::zeros((2 * count, 2 * count));
        let mut solver = DefaultSolver::new(
            &quadratic,
            &cost,
            &sparse(&rows, 2 * count),
            &right,
            &cones,
            settings,
        )
        .unwrap();
        solver.solve();
        assert!(
            matches!(
                solver.solution.status,
                SolverStatus::Solved | SolverStatus::AlmostSolved
            ),
            "clarabel: {:?}",
            solver.solution.status
        );
        -solver.solution.obj_val
    }
}

fn sparse(rows: &[Vec<f64>], columns: usize) -> CscMatrix<f64> {
    let (mut starts, mut places, mut values) = (vec![0], Vec::new(), Vec::new());
    for column in 0..columns {
        for (place, row) in rows.iter().enumerate() {
            if row[column] != 0.0 {
                places.push(place);
                values.push(row[column]);
            }
        }
        starts.push(values.len());
    }
    CscMatrix::new(rows.len(), columns, starts, places, values)
}
