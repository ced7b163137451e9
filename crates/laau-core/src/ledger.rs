//! The only place where budget is spent.

use crate::error::{Error, expect_finite, expect_length};

/// Pays usage out of budgets, exactly.
///
/// Each remaining budget is kept as an unevaluated sum of floats that represents the real number without any rounding
/// (a non-overlapping expansion in the sense of Priest and Shewchuk). Hence the guarantee, for any number of steps
/// and any finite values: *the exact real-number sum of all usage never exceeds the budget*, and no part of a
/// budget is lost to rounding either. There is no epsilon.
///
/// ```
/// use laau_core::Ledger;
///
/// let mut ledger = Ledger::new(&[0.3])?;
/// for _ in 0..2 {
///     ledger.spend(&[0.1])?;
/// }
/// // Three times the float nearest to 0.1 is more than the float nearest to 0.3, by 2.8e-17:
/// // a running difference in floats would not notice.
/// assert!(ledger.spend(&[0.1]).is_err());
/// # Ok::<(), laau_core::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Ledger {
    accounts: Vec<Expansion>,
    remaining: Vec<f64>,
}

impl Ledger {
    /// Opens an account per budget.
    ///
    /// # Errors
    /// [`Error::NotFinite`] or [`Error::Negative`].
    pub fn new(budgets: &[f64]) -> Result<Self, Error> {
        expect_finite("budgets", budgets)?;
        if let Some(index) = budgets.iter().position(|b| *b < 0.0) {
            return Err(Error::Negative {
                what: "budgets",
                index,
                value: budgets[index],
            });
        }
        Ok(Self {
            accounts: budgets.iter().map(|&b| Expansion::new(b)).collect(),
            remaining: budgets.to_vec(),
        })
    }

    /// What remains of each budget: the largest float that is not above the exact remainder.
    ///
    /// A usage can be paid if and only if no entry of it is above the entry here.
    #[must_use]
    pub fn remaining(&self) -> &[f64] {
        &self.remaining
    }

    /// What remains of each budget less a reserve, rounded down: the most that this step may use if the reserve is to
    /// stay. Negative where the reserve is already broken.
    pub fn available(&self, reserve: &[f64], out: &mut [f64]) {
        for ((account, reserve), out) in self.accounts.iter().zip(reserve).zip(out) {
            *out = if *reserve == 0.0 {
                account.floor()
            } else {
                account.minus(*reserve).floor()
            };
        }
    }

    /// Pays a usage, all of it or, with an error, nothing.
    ///
    /// # Errors
    /// [`Error::Overspend`] when a budget does not cover it; [`Error::WrongLength`], [`Error::NotFinite`] or
    /// [`Error::Negative`] when it is no usage.
    pub fn spend(&mut self, usage: &[f64]) -> Result<(), Error> {
        expect_length("usage", usage, self.remaining.len())?;
        for (resource, (&asked, &remaining)) in usage.iter().zip(&self.remaining).enumerate() {
            if asked > remaining && asked.is_finite() {
                return Err(Error::Overspend {
                    resource,
                    asked,
                    remaining,
                });
            }
            if !asked.is_finite() {
                return Err(Error::NotFinite {
                    what: "usage",
                    index: resource,
                    value: asked,
                });
            }
            if asked < 0.0 {
                return Err(Error::Negative {
                    what: "usage",
                    index: resource,
                    value: asked,
                });
            }
        }
        for ((account, remaining), &paid) in self.accounts.iter_mut().zip(&mut self.remaining).zip(usage) {
            account.subtract(paid);
            *remaining = account.floor();
        }
        Ok(())
    }
}

/// An exact sum of floats: non-overlapping terms, non-zero, in increasing order of magnitude.
///
/// The exponents of `f64` span 2,098 bits, so that no more than 40 terms of 53 bits fit; two or three are usual.
#[derive(Debug, Clone)]
struct Expansion {
    terms: [f64; Self::MOST_TERMS],
    count: usize,
}

impl Expansion {
    const MOST_TERMS: usize = 40;

    fn new(value: f64) -> Self {
        let mut terms = [0.0; Self::MOST_TERMS];
        terms[0] = value;
        Self {
            terms,
            count: usize::from(value != 0.0),
        }
    }

    /// Shewchuk's GROW-EXPANSION with zero elimination, adding `-value`.
    fn subtract(&mut self, value: f64) {
        let mut carry = -value;
        let mut kept = 0;
        for i in 0..self.count {
            let (sum, error) = two_sum(carry, self.terms[i]);
            if error != 0.0 {
                self.terms[kept] = error;
                kept += 1;
            }
            carry = sum;
        }
        if carry != 0.0 {
            self.terms[kept] = carry;
            kept += 1;
        }
        self.count = kept;
    }

    fn minus(&self, value: f64) -> Self {
        let mut difference = self.clone();
        difference.subtract(value);
        difference
    }

    /// The largest float that is not above the exact sum.
    fn floor(&self) -> f64 {
        let mut high = 0.0;
        for &term in self.terms[..self.count].iter().rev() {
            let (sum, error) = two_sum(high, term);
            high = sum;
            if error != 0.0 {
                // The terms below `error` are smaller than its last bit: its sign decides.
                return if error < 0.0 { high.next_down() } else { high };
            }
        }
        high
    }
}

/// Knuth's exact sum: `a + b = sum + error`, without rounding, for any finite values that do not overflow.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_rounded = sum - a;
    let a_rounded = sum - b_rounded;
    (sum, (a - a_rounded) + (b - b_rounded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_spend_changes_nothing() {
        let mut ledger = Ledger::new(&[1.0, 2.0]).unwrap();
        assert_eq!(
            ledger.spend(&[0.5, 2.5]),
            Err(Error::Overspend {
                resource: 1,
                asked: 2.5,
                remaining: 2.0
            })
        );
        assert_eq!(ledger.remaining(), [1.0, 2.0]);
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0] {
            assert!(ledger.spend(&[0.5, bad]).is_err());
            assert_eq!(ledger.remaining(), [1.0, 2.0]);
        }
        assert!(ledger.spend(&[0.5]).is_err());
    }

    #[test]
    fn tiny_spends_from_a_huge_budget_are_not_forgotten() {
        let mut ledger = Ledger::new(&[1e300]).unwrap();
        ledger.spend(&[f64::from_bits(1)]).unwrap();
        assert_eq!(ledger.remaining(), [1e300_f64.next_down()]);
        assert!(ledger.spend(&[1e300]).is_err());
        ledger.spend(&[1e300_f64.next_down()]).unwrap();
        assert!(ledger.remaining()[0] > 0.0);
    }

    #[test]
    fn available_keeps_the_reserve_exactly() {
        let mut ledger = Ledger::new(&[3.0]).unwrap();
        ledger.spend(&[1e-20]).unwrap();
        let mut available = [0.0];
        ledger.available(&[2.0], &mut available);
        assert_eq!(available, [1.0_f64.next_down()]);
    }
}
