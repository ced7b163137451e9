//! Conic programs for clarabel: the independent truth.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{DefaultSettings, DefaultSolver, IPSolver, SolverStatus, SupportedConeT};

/// An affine expression of the variables: terms `(variable, factor)` and a constant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Affine {
    terms: Vec<(usize, f64)>,
    constant: f64,
}

impl Affine {
    pub(crate) fn new(terms: &[(usize, f64)], constant: f64) -> Self {
        Self {
            terms: terms.to_vec(),
            constant,
        }
    }

    /// A variable itself.
    pub(crate) fn variable(variable: usize) -> Self {
        Self::new(&[(variable, 1.0)], 0.0)
    }

    pub(crate) fn constant(constant: f64) -> Self {
        Self::new(&[], constant)
    }
}

/// A convex program, built variable by variable and constraint by constraint.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// The linear and the (diagonal) quadratic cost of each variable: `a x + b x²/2`.
    costs: Vec<(f64, f64)>,
    /// Expressions that are at least zero.
    inequalities: Vec<Affine>,
    cones: Vec<(SupportedConeT<f64>, Vec<Affine>)>,
}

impl Program {
    /// A variable that costs `linear x + quadratic x²/2`.
    pub(crate) fn variable(&mut self, linear: f64, quadratic: f64) -> usize {
        self.costs.push((linear, quadratic));
        self.costs.len() - 1
    }

    /// A variable between two bounds.
    pub(crate) fn bounded(&mut self, (linear, quadratic): (f64, f64), lower: f64, upper: f64) -> usize {
        let x = self.variable(linear, quadratic);
        self.non_negative(Affine::new(&[(x, 1.0)], -lower));
        self.non_negative(Affine::new(&[(x, -1.0)], upper));
        x
    }

    /// `expression ≥ 0`.
    pub(crate) fn non_negative(&mut self, expression: Affine) {
        self.inequalities.push(expression);
    }

    /// `Σ factor · variable ≤ most`.
    pub(crate) fn at_most(&mut self, terms: &[(usize, f64)], most: f64) {
        let negated: Vec<_> = terms.iter().map(|(x, a)| (*x, -a)).collect();
        self.non_negative(Affine::new(&negated, most));
    }

    /// `lower ≤ ln upper`, as an exponential cone.
    pub(crate) fn at_most_logarithm(&mut self, lower: Affine, upper: Affine) {
        let rows = vec![lower, Affine::constant(1.0), upper];
        self.cones.push((SupportedConeT::ExponentialConeT(), rows));
    }

    /// A variable that costs `cost` and is at most the logarithm of an expression.
    pub(crate) fn logarithm(&mut self, cost: f64, of: Affine) -> usize {
        let u = self.variable(cost, 0.0);
        self.at_most_logarithm(Affine::variable(u), of);
        u
    }

    /// A variable that costs `cost` and is at most `base^exponent · other^{1 − exponent}`.
    pub(crate) fn power(&mut self, cost: f64, exponent: f64, base: usize, other: Affine) -> usize {
        let z = self.variable(cost, 0.0);
        let rows = vec![Affine::variable(base), other, Affine::variable(z)];
        self.cones.push((SupportedConeT::PowerConeT(exponent), rows));
        z
    }

    /// Expressions in any other cone.
    pub(crate) fn cone(&mut self, cone: SupportedConeT<f64>, rows: Vec<Affine>) {
        self.cones.push((cone, rows));
    }

    /// The least cost.
    pub(crate) fn solve(&self) -> f64 {
        let count = self.costs.len();
        let mut cones = vec![SupportedConeT::NonnegativeConeT(self.inequalities.len())];
        cones.extend(self.cones.iter().map(|(cone, _)| cone.clone()));
        let rows: Vec<&Affine> = self
            .inequalities
            .iter()
            .chain(self.cones.iter().flat_map(|(_, rows)| rows))
            .collect();
        // Clarabel's form is A x + s = b with s in the cones: s is the expression.
        let mut columns = vec![Vec::new(); count];
        for (place, row) in rows.iter().enumerate() {
            for (variable, factor) in &row.terms {
                columns[*variable].push((place, -factor));
            }
        }
        let matrix = sparse(rows.len(), &columns);
        let right: Vec<f64> = rows.iter().map(|row| row.constant).collect();
        // Costs of size one, since its tolerances are absolute for small ones; and short steps, without which its exponential
        // and power cones end early.
        let scale = self
            .costs
            .iter()
            .map(|(a, b)| a.abs().max(b.abs()))
            .fold(1e-300, f64::max);
        let diagonal: Vec<_> = (0..count).map(|i| vec![(i, self.costs[i].1 / scale)]).collect();
        let linear: Vec<f64> = self.costs.iter().map(|cost| cost.0 / scale).collect();
        let settings = DefaultSettings {
            verbose: false,
            tol_gap_abs: 1e-12,
            tol_gap_rel: 1e-12,
            tol_feas: 1e-12,
            max_step_fraction: 0.95,
            min_terminate_step_length: 1e-10,
            ..DefaultSettings::default()
        };
        let mut solver = DefaultSolver::new(
            &sparse(count, &diagonal),
            &linear,
            &matrix,
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
        scale * solver.solution.obj_val
    }
}

/// A sparse matrix from its columns of `(row, entry)`, in any order, zeros left out.
fn sparse(rows: usize, columns: &[Vec<(usize, f64)>]) -> CscMatrix<f64> {
    let (mut starts, mut places, mut values) = (vec![0], Vec::new(), Vec::new());
    for column in columns {
        let mut column: Vec<_> = column.iter().filter(|(_, entry)| *entry != 0.0).collect();
        column.sort_by_key(|(place, _)| *place);
        places.extend(column.iter().map(|(place, _)| *place));
        values.extend(column.iter().map(|(_, entry)| *entry));
        starts.push(values.len());
    }
    CscMatrix::new(rows, columns.len(), starts, places, values)
}

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
        let mut program = Program::default();
        for weight in &self.weights {
            let x = program.bounded((0.0, 0.0), self.lower, self.upper);
            program.logarithm(-weight, Affine::variable(x));
        }
        // Each x is followed by its logarithm.
        for (coefficients, budget) in &self.budgets {
            let terms: Vec<_> = coefficients
                .iter()
                .enumerate()
                .map(|(i, a)| (2 * i, *a))
                .collect();
            program.at_most(&terms, *budget);
        }
        if let Some(squares) = self.squares {
            let mut rows = vec![Affine::constant(squares.sqrt())];
            rows.extend((0..self.weights.len()).map(|i| Affine::variable(2 * i)));
            program.cone(SupportedConeT::SecondOrderConeT(rows.len()), rows);
        }
        -program.solve()
    }
}
