//! Sums of many terms that are looked at in their last bits.

/// A sum with compensation (Neumaier): what is left of a budget is a small difference of large sums.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    total: f64,
    lost: f64,
}

impl Sum {
    pub(super) fn add(&mut self, term: f64) {
        let sum = self.total + term;
        self.lost += if self.total.abs() >= term.abs() {
            (self.total - sum) + term
        } else {
            (term - sum) + self.total
        };
        self.total = sum;
    }

    /// How far the sum is below a value.
    pub(super) fn below(&self, value: f64) -> f64 {
        (value - self.total) - self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_terms_beside_a_large_one_are_kept() {
        let mut sum = Sum::default();
        for term in [1.0, 1e-17, 1e-17, 1e-17] {
            sum.add(term);
        }
        assert!((sum.below(1.0) + 3e-17).abs() < 1e-30);
    }
}
