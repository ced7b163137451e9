//! The KKT system on an active set, which both polishing and differentiation solve.
//!
//! With `F` the actions off their bounds, `A` the active budgets, `H` the Hessian of the Lagrangian and `J = ∇g`,
//!
//! ```text
//!     | H_FF   J_AFᵀ | | p |   | r_F |
//!     | J_AF   0     | | q | = | r_A |          p_i = 0 off F,  q_m = 0 off A
//! ```
//!
//! is symmetric, so that its transpose needs no second factorisation. When `H_FF` is positive definite it is eliminated
//! and only the Schur complement `J_AF H_FF⁻¹ J_AFᵀ` is factorised; otherwise the whole matrix is, and when that is
//! singular its pseudo-inverse takes its place. No barrier enters, so no digits are lost to one.

use laau_core::Inexact;

use crate::dense::{Dense, Kind};
use crate::evaluations::Evaluations;
use crate::passes::invert;
use crate::rows::{add_rows, fill_gram, multiply};

/// From more actions than this on, what is quadratic in them is not made before it is needed.
pub(crate) const LARGE: usize = 64;

/// Where an action stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Off its bounds.
    Free,
    /// On its lower bound.
    Lower,
    /// On its upper bound.
    Upper,
}

/// Which constraints hold with equality.
#[derive(Debug, Clone)]
pub(crate) struct ActiveSet {
    pub(crate) bounds: Vec<Bound>,
    /// The active budgets in order; its capacity is all of them.
    pub(crate) budgets: Vec<usize>,
}

impl ActiveSet {
    pub(crate) fn new(d: usize, m: usize) -> Self {
        Self {
            bounds: vec![Bound::Free; d],
            budgets: Vec::with_capacity(m),
        }
    }

    pub(crate) fn free(&self) -> usize {
        self.bounds.iter().filter(|bound| **bound == Bound::Free).count()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `H_FF` eliminated.
    Schur,
    /// The whole matrix.
    Whole,
}

/// The factorised system.
#[derive(Debug, Clone)]
pub(crate) struct System {
    form: Form,
    /// `H⁻¹` on the free actions, if diagonal, else 0.
    inverse: Vec<f64>,
    /// Factors of `H_FF` (identity off `F`), if not diagonal.
    hessian: Dense,
    /// Factors of the Schur complement, or of the whole matrix.
    outer: Dense,
    /// `H_FF⁻¹ J_AFᵀ`, a row per active budget.
    solved: Vec<f64>,
    right: Vec<f64>,
    free: Vec<usize>,
    /// Whether there are as many active budgets as free actions, none of them soft.
    square: bool,
}

impl System {
    pub(crate) fn new(d: usize, m: usize, diagonal: bool) -> Self {
        Self {
            form: Form::Schur,
            inverse: vec![0.0; d],
            hessian: Dense::new(if diagonal { 0 } else { d }),
            // The whole matrix is for systems that are singular; a large one is made when it is met.
            outer: Dense::new(if diagonal && d > LARGE { m } else { d + m }),
            solved: vec![0.0; d * m],
            right: vec![0.0; d + m],
            free: Vec::with_capacity(d),
            square: false,
        }
    }

    /// How much larger the active budget of a row would have to be for its dual to vanish, the others as active as they are:
    /// `μ / (S⁻¹)_rr` with the Schur complement `S`. Not known where the Hessian was not eliminated.
    pub(crate) fn idle_distance(&mut self, set: &ActiveSet, row: usize, dual: f64) -> Option<f64> {
        if self.form != Form::Schur {
            return None;
        }
        let unit = &mut self.right[..set.budgets.len()];
        unit.fill(0.0);
        unit[row] = 1.0;
        self.outer.solve(unit);
        Some(dual / unit[row])
    }

    /// Eliminates the Hessian, with `ridge` added to its diagonal, and factorises the Schur complement, with
    /// `softness` added to that of each budget.
    ///
    /// A dependent budget is an error that carries its position in the active set.
    #[inline]
    pub(crate) fn eliminate(
        &mut self,
        evaluations: &Evaluations,
        set: &ActiveSet,
        ridge: Option<&[f64]>,
        softness: Option<&[f64]>,
        rank_tolerance: f64,
    ) -> Result<(), Failure> {
        let d = evaluations.d;
        self.form = Form::Schur;
        let a = set.budgets.len();
        self.square = softness.is_none() && a == set.free();
        if evaluations.structure.diagonal_hessian {
            if !invert(&mut self.inverse, &evaluations.hessian, ridge, &set.bounds) {
                return Err(Failure::Hessian);
            }
            let inverse = &self.inverse[..d];
            for (row, &m) in set.budgets.iter().enumerate() {
                let jacobian = &evaluations.jacobian[m * d..][..d];
                let solved = &mut self.solved[row * d..][..d];
                for i in 0..d {
                    solved[i] = jacobian[i] * inverse[i];
                }
            }
        } else {
            let h = self.hessian.matrix(d);
            h.copy_from_slice(&evaluations.hessian);
            for i in 0..d {
                if let Some(ridge) = ridge {
                    h[i * d + i] += ridge[i];
                }
                if set.bounds[i] != Bound::Free {
                    for j in 0..d {
                        h[i * d + j] = 0.0;
                        h[j * d + i] = 0.0;
                    }
                    h[i * d + i] = 1.0;
                }
            }
            self.hessian
                .factorise(Kind::PositiveDefinite, rank_tolerance)
                .map_err(|_| Failure::Hessian)?;
            for (row, &m) in set.budgets.iter().enumerate() {
                let solved = &mut self.solved[row * d..][..d];
                for i in 0..d {
                    solved[i] = if set.bounds[i] == Bound::Free {
                        evaluations.jacobian[m * d + i]
                    } else {
                        0.0
                    };
                }
                self.hessian.solve(solved);
            }
        }
        let schur = self.outer.matrix(a);
        // `solved` is zero off the free actions.
        let jacobian = |row: usize| &evaluations.jacobian[set.budgets[row] * d..][..d];
        let solved = &self.solved;
        fill_gram(schur, a, jacobian, |row| &solved[row * d..][..d]);
        if let Some(softness) = softness {
            for (row, &m) in set.budgets.iter().enumerate() {
                schur[row * a + row] += softness[m];
            }
        }
        self.outer
            .factorise(Kind::PositiveDefinite, rank_tolerance)
            .map_err(|singular| Failure::Dependent { row: singular.row })
    }

    /// Factorises for differentiation: exactly where there is a derivative, else by pseudo-inverse with the reason.
    pub(crate) fn factorise(
        &mut self,
        evaluations: &Evaluations,
        set: &ActiveSet,
        rank_tolerance: f64,
    ) -> Option<Inexact> {
        let too_many = set.budgets.len() > set.free();
        if !too_many {
            match self.eliminate(evaluations, set, None, None, rank_tolerance) {
                Ok(()) => return None,
                Err(Failure::Hessian) => {
                    // A Hessian that is singular may still be definite where the active budgets leave freedom.
                    self.fill_whole(evaluations, set);
                    if self.outer.factorise(Kind::Indefinite, rank_tolerance).is_ok() {
                        return None;
                    }
                }
                Err(Failure::Dependent { .. }) => {}
            }
        }
        let dependent = too_many || self.dependent(evaluations, set, rank_tolerance);
        self.fill_whole(evaluations, set);
        // A pseudo-inverse is never singular.
        let _ = self.outer.factorise(Kind::Pseudo, rank_tolerance);
        Some(match (too_many, dependent) {
            (true, _) => Inexact::TooManyActive,
            (false, true) => Inexact::DependentConstraints,
            (false, false) => Inexact::SingularHessian,
        })
    }

    /// Factorises the system of a barrier problem, whose budgets give way by `softness`; it is never singular.
    pub(crate) fn smooth(&mut self, evaluations: &Evaluations, set: &ActiveSet, softness: &[f64]) {
        let _ = self.eliminate(evaluations, set, None, Some(softness), 0.0);
    }

    /// Solves in place: `p` has an entry per action, `q` one per budget.
    #[inline]
    pub(crate) fn solve(&mut self, evaluations: &Evaluations, set: &ActiveSet, p: &mut [f64], q: &mut [f64]) {
        let d = evaluations.d;
        let a = set.budgets.len();
        if self.form == Form::Whole {
            let f = self.free.len();
            let right = &mut self.right[..f + a];
            for (r, &i) in right.iter_mut().zip(&self.free) {
                *r = p[i];
            }
            for (r, &m) in right[f..].iter_mut().zip(&set.budgets) {
                *r = q[m];
            }
            self.outer.solve(right);
            p.fill(0.0);
            q.fill(0.0);
            for (r, &i) in right.iter().zip(&self.free) {
                p[i] = *r;
            }
            for (r, &m) in right[f..].iter().zip(&set.budgets) {
                q[m] = *r;
            }
            return;
        }
        // S q = J H⁻¹ r_F − r_A,  p = H⁻¹ r_F − H⁻¹ Jᵀ q.
        for (p, bound) in p.iter_mut().zip(&set.bounds) {
            *p = if *bound == Bound::Free { *p } else { 0.0 };
        }
        let right = &mut self.right[..a];
        let solved = &self.solved[..a * d];
        multiply(solved, p, right);
        let mut pinned = self.square;
        for (right, &m) in right.iter_mut().zip(&set.budgets) {
            *right -= q[m];
            pinned &= q[m] == 0.0;
        }
        self.outer.solve(right);
        if evaluations.structure.diagonal_hessian {
            for (p, inverse) in p.iter_mut().zip(&self.inverse) {
                *p *= inverse;
            }
        } else {
            self.hessian.solve(p);
        }
        q.fill(0.0);
        for (right, &m) in right.iter_mut().zip(&set.budgets) {
            q[m] = *right;
            *right = -*right;
        }
        add_rows(p, solved, right);
        if pinned {
            // As many budgets as free actions hold them where they are: exactly, not to rounding.
            p.fill(0.0);
        }
    }

    /// Whether the gradients of the active budgets depend on each other on the free actions.
    fn dependent(&mut self, evaluations: &Evaluations, set: &ActiveSet, rank_tolerance: f64) -> bool {
        let (d, a) = (evaluations.d, set.budgets.len());
        let gram = self.outer.matrix(a);
        for (row, &m) in set.budgets.iter().enumerate() {
            for (column, &k) in set.budgets.iter().enumerate() {
                gram[row * a + column] = (0..d)
                    .filter(|i| set.bounds[*i] == Bound::Free)
                    .map(|i| evaluations.jacobian[m * d + i] * evaluations.jacobian[k * d + i])
                    .sum();
            }
        }
        self.outer
            .factorise(Kind::PositiveDefinite, rank_tolerance)
            .is_err()
    }

    fn fill_whole(&mut self, evaluations: &Evaluations, set: &ActiveSet) {
        let d = evaluations.d;
        self.form = Form::Whole;
        self.free.clear();
        self.free.extend((0..d).filter(|i| set.bounds[*i] == Bound::Free));
        let (f, n) = (self.free.len(), self.free.len() + set.budgets.len());
        self.outer.make_room(n);
        let matrix = self.outer.matrix(n);
        matrix.fill(0.0);
        for (row, &i) in self.free.iter().enumerate() {
            if evaluations.structure.diagonal_hessian {
                matrix[row * n + row] = evaluations.hessian[i];
            } else {
                for (column, &j) in self.free.iter().enumerate() {
                    matrix[row * n + column] = evaluations.hessian[i * d + j];
                }
            }
            for (column, &m) in set.budgets.iter().enumerate() {
                matrix[row * n + f + column] = evaluations.jacobian[m * d + i];
                matrix[(f + column) * n + row] = evaluations.jacobian[m * d + i];
            }
        }
    }
}

/// Why the Hessian could not be eliminated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It is singular on the free actions.
    Hessian,
    /// An active budget depends on those before it.
    Dependent {
        /// Its position in the active set.
        row: usize,
    },
}
