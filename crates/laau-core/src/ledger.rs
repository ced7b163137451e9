//! The ledger: the only place where budget is spent.

use crate::error::{Error, expect_finite, expect_length};
use crate::exact::{Exact, Product};

/// Pays usage out of budgets, exactly.
///
/// Each remaining budget is kept as a whole number of 2^-1074, the unit of which every float is a multiple, so that
/// nothing is ever rounded; it has a fixed size, whatever is spent. Hence the guarantee, for any number of spends and any
/// finite values: *the exact real-number sum of all usage never exceeds the budget*, and no part of a budget is lost
/// to rounding either. There is no epsilon.
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
    accounts: Vec<Exact>,
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
            accounts: budgets.iter().map(|&b| Exact::new(b)).collect(),
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

    /// What remains of each budget less the reserve of `steps_left` further steps, `steps_left × least`, exactly, then
    /// rounded down: the most that this step may use if the reserve is to stay.
    ///
    /// `least` is [`crate::Problem::least_usage`]: finite and not negative. The result is negative where the reserve is
    /// already broken.
    pub fn available(&self, least: &[f64], steps_left: usize, out: &mut [f64]) {
        let reserves = least.iter().map(|least| Product::new(*least, steps_left));
        for (((account, remaining), reserve), out) in
            self.accounts.iter().zip(&self.remaining).zip(reserves).zip(out)
        {
            *out = if reserve.is_zero() {
                *remaining
            } else {
                account.floor_less(reserve)
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
        for (budget, (&asked, &available)) in usage.iter().zip(&self.remaining).enumerate() {
            if asked > available && asked.is_finite() {
                return Err(Error::Overspend {
                    budget,
                    asked,
                    available,
                });
            }
            if !asked.is_finite() {
                return Err(Error::NotFinite {
                    what: "usage",
                    index: budget,
                    value: asked,
                });
            }
            if asked < 0.0 {
                return Err(Error::Negative {
                    what: "usage",
                    index: budget,
                    value: asked,
                });
            }
        }
        for ((account, remaining), &paid) in self.accounts.iter_mut().zip(&mut self.remaining).zip(usage) {
            account.subtract(Product::new(paid, 1));
            *remaining = account.floor();
        }
        Ok(())
    }
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
                budget: 1,
                asked: 2.5,
                available: 2.0
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
        ledger.available(&[0.5], 4, &mut available);
        assert_eq!(available, [1.0_f64.next_down()]);
    }
}
