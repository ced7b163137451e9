//! The best iterate so far: where constraints are nearly dependent, rounding can make late iterates worse.

use super::Barrier;

/// A copy of an iterate.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    /// The larger of its relative barrier and residual; infinite if there is none.
    merit: f64,
    product: f64,
    residual: f64,
    /// `x`, `u`, `v`, `z`, `y`, then `s`, `μ` and the excess.
    values: Vec<f64>,
}

impl Kept {
    pub(super) fn new(d: usize, m: usize) -> Self {
        Self {
            merit: f64::INFINITY,
            product: 0.0,
            residual: 0.0,
            values: vec![0.0; 5 * d + 3 * m],
        }
    }

    pub(super) fn forget(&mut self) {
        self.merit = f64::INFINITY;
    }
}

impl Barrier {
    /// Keeps an iterate that is the best so far.
    #[inline]
    pub(super) fn keep_the_best(&mut self) {
        let merit = (self.product / self.start).max(self.residual);
        if merit <= self.options.keep_at && merit < self.kept.merit {
            self.kept.merit = merit;
            self.kept.product = self.product;
            self.kept.residual = self.residual;
            let mut rest = &mut self.kept.values[..];
            for part in [
                &self.x,
                &self.u,
                &self.v,
                &self.z,
                &self.y,
                &self.s,
                &self.dual,
                &self.excess,
            ] {
                let (to, after) = rest.split_at_mut(part.len());
                to.copy_from_slice(part);
                rest = after;
            }
        }
    }

    /// Goes back to the best iterate; `false` if none was kept.
    pub(crate) fn restore(&mut self) -> bool {
        if self.kept.merit == f64::INFINITY {
            return false;
        }
        self.kept.merit = f64::INFINITY;
        self.product = self.kept.product;
        self.residual = self.kept.residual;
        let mut rest = &self.kept.values[..];
        for part in [
            &mut self.x,
            &mut self.u,
            &mut self.v,
            &mut self.z,
            &mut self.y,
            &mut self.s,
            &mut self.dual,
            &mut self.excess,
        ] {
            let (from, after) = rest.split_at(part.len());
            part.copy_from_slice(from);
            rest = after;
        }
        true
    }
}
