//! The ledger: the only place where budget is spent.

use crate::error::{Error, expect_finite, expect_length};
use crate::exact::{Exact, Product};
use crate::hold::{HoldId, Holds};

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
///
/// A usage that is known only afterwards is *held* first and settled later: [`Ledger::hold`] pays the most that it can be,
/// [`Ledger::settle`] returns what it was less, once. A hold that nobody settles stays spent. So the guarantee is the same
/// with holds: what is spent, settled and still held never exceeds the budget.
///
/// A ledger is its budgets and what was done with them: the same calls in the same order give an equal ledger, bit for
/// bit, and calls that were refused need not be among them.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    accounts: Vec<Exact>,
    remaining: Vec<f64>,
    /// None before the first hold: an episode without any pays nothing for them.
    holds: Option<Box<Holds>>,
}

impl Ledger {
    /// Opens an account per budget.
    ///
    /// # Errors
    /// [`Error::NotFinite`] or [`Error::Negative`].
    pub fn new(budgets: &[f64]) -> Result<Self, Error> {
        let mut ledger = Self {
            accounts: Vec::new(),
            remaining: Vec::new(),
            holds: None,
        };
        ledger.reopen(budgets)?;
        Ok(ledger)
    }

    /// Opens the accounts anew, as [`Ledger::new`] does, in the memory of the old ones.
    pub(crate) fn reopen(&mut self, budgets: &[f64]) -> Result<(), Error> {
        check_budgets(budgets)?;
        self.accounts.clear();
        self.accounts.extend(budgets.iter().map(|&b| Exact::new(b)));
        self.remaining.clear();
        self.remaining.extend_from_slice(budgets);
        self.holds = None;
        Ok(())
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
            // False for NaN; and what is at most available is finite.
            if !(0.0..=available).contains(&asked) {
                return Err(refusal(budget, asked, available));
            }
        }
        for ((account, remaining), &paid) in self.accounts.iter_mut().zip(&mut self.remaining).zip(usage) {
            account.subtract(Product::new(paid, 1));
            *remaining = account.floor();
        }
        Ok(())
    }

    /// Pays a usage that may turn out to be less, all of it or, with an error, nothing.
    ///
    /// Until it is settled or released, a hold counts as spent; there is no expiry, since one that comes before the usage
    /// is known would let the budget be spent twice.
    ///
    /// ```
    /// use laau_core::Ledger;
    ///
    /// let mut ledger = Ledger::new(&[10.0])?;
    /// let hold = ledger.hold(&[8.0])?;
    /// assert_eq!((ledger.remaining(), ledger.held(hold)?), (&[2.0][..], &[8.0][..]));
    /// assert!(ledger.spend(&[3.0]).is_err());
    /// ledger.settle(hold, &[5.0])?;
    /// ledger.spend(&[3.0])?;
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Ledger::spend`].
    pub fn hold(&mut self, usage: &[f64]) -> Result<HoldId, Error> {
        self.spend(usage)?;
        Ok(self.holds.get_or_insert_default().open(usage))
    }

    /// Settles a hold by the usage that really happened, at most what was held: the exact difference returns to the
    /// budgets. Holds may be settled in any order.
    ///
    /// ```
    /// use laau_core::{Error, Ledger};
    ///
    /// let mut ledger = Ledger::new(&[1.0])?;
    /// let hold = ledger.hold(&[0.5])?;
    /// assert!(ledger.settle(hold, &[0.6]).is_err());
    /// ledger.settle(hold, &[0.25])?;
    /// assert_eq!(ledger.remaining(), [0.75]);
    /// assert_eq!(ledger.settle(hold, &[0.25]), Err(Error::HoldClosed { hold }));
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownHold`] or [`Error::HoldClosed`] when there is nothing to settle; [`Error::AboveHold`] when more was
    /// used than held; [`Error::WrongLength`], [`Error::NotFinite`] or [`Error::Negative`] when it is no usage. Nothing has
    /// then changed, and an open hold stays open.
    pub fn settle(&mut self, hold: HoldId, usage: &[f64]) -> Result<(), Error> {
        let holds = self.holds.as_mut().ok_or(Error::UnknownHold { hold })?;
        holds.check(hold, usage)?;
        let held = holds.close(hold)?;
        for (account, (&held, &used)) in self.accounts.iter_mut().zip(held.iter().zip(usage)) {
            // First back, then off again: the sum in between is at most the budget, and nothing is rounded.
            account.add(Product::new(held, 1));
            account.subtract(Product::new(used, 1));
        }
        self.round_down();
        Ok(())
    }

    /// Returns a whole hold to the budgets: nothing was used.
    ///
    /// ```
    /// use laau_core::Ledger;
    ///
    /// let mut ledger = Ledger::new(&[0.3])?;
    /// let hold = ledger.hold(&[0.1])?;
    /// ledger.release(hold)?;
    /// assert_eq!(ledger.remaining(), [0.3]); // to the last bit
    /// assert!(ledger.release(hold).is_err());
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownHold`] or [`Error::HoldClosed`] when there is nothing to release: nothing has then changed.
    pub fn release(&mut self, hold: HoldId) -> Result<(), Error> {
        let holds = self.holds.as_mut().ok_or(Error::UnknownHold { hold })?;
        let held = holds.close(hold)?;
        for (account, &held) in self.accounts.iter_mut().zip(&held) {
            account.add(Product::new(held, 1));
        }
        self.round_down();
        Ok(())
    }

    /// What an open hold has of each budget: the most that it can be settled by.
    ///
    /// ```
    /// use laau_core::Ledger;
    ///
    /// let mut ledger = Ledger::new(&[10.0])?;
    /// let hold = ledger.hold(&[8.0])?;
    /// assert_eq!(ledger.held(hold)?, [8.0]);
    /// ledger.release(hold)?;
    /// assert!(ledger.held(hold).is_err());
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownHold`] or [`Error::HoldClosed`].
    pub fn held(&self, hold: HoldId) -> Result<&[f64], Error> {
        let holds = self.holds.as_ref().ok_or(Error::UnknownHold { hold })?;
        holds.get(hold)
    }

    /// The open holds and what each has, in the order in which they were made.
    ///
    /// ```
    /// use laau_core::Ledger;
    ///
    /// let mut ledger = Ledger::new(&[10.0])?;
    /// let (first, second) = (ledger.hold(&[2.0])?, ledger.hold(&[3.0])?);
    /// ledger.settle(first, &[2.0])?;
    /// assert!(ledger.holds().eq([(second, &[3.0][..])]));
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    pub fn holds(&self) -> impl Iterator<Item = (HoldId, &[f64])> {
        self.holds.iter().flat_map(|holds| holds.iter())
    }

    /// The number of open holds.
    ///
    /// ```
    /// use laau_core::Ledger;
    ///
    /// let mut ledger = Ledger::new(&[10.0])?;
    /// let hold = ledger.hold(&[8.0])?;
    /// assert_eq!(ledger.open_holds(), 1);
    /// ledger.release(hold)?;
    /// assert_eq!(ledger.open_holds(), 0);
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    #[must_use]
    pub fn open_holds(&self) -> usize {
        self.holds.as_ref().map_or(0, |holds| holds.len())
    }

    /// What all open holds have of each budget: the exact sum, rounded down.
    ///
    /// ```
    /// use laau_core::Ledger;
    ///
    /// let mut ledger = Ledger::new(&[10.0])?;
    /// let first = ledger.hold(&[2.0])?;
    /// ledger.hold(&[3.0])?;
    /// assert_eq!(ledger.held_in_all(), [5.0]);
    /// ledger.settle(first, &[1.0])?;
    /// assert_eq!(ledger.held_in_all(), [3.0]);
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    #[must_use]
    pub fn held_in_all(&self) -> Vec<f64> {
        match &self.holds {
            Some(holds) => holds.sums().iter().map(Exact::floor).collect(),
            None => vec![0.0; self.remaining.len()],
        }
    }

    /// The budgets of an episode that follows this one: so many times `budgets` and what remains here, added exactly and
    /// rounded down, at most the greatest float.
    ///
    /// No carrying over, however often repeated, makes more of a budget than there is.
    ///
    /// ```
    /// use laau_core::Ledger;
    ///
    /// let mut ledger = Ledger::new(&[1.0])?;
    /// ledger.spend(&[0.75])?;
    /// assert_eq!(ledger.carried_over(&[1.0], 1), [1.25]);
    /// assert_eq!(ledger.carried_over(&[1.0], 3), [3.25]); // two episodes in between were not played
    /// ledger.spend(&[1e-30])?;
    /// assert_eq!(ledger.carried_over(&[1.0], 1), [1.25_f64.next_down()]);
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    #[must_use]
    pub fn carried_over(&self, budgets: &[f64], times: usize) -> Vec<f64> {
        let sum = |(account, budget): (&Exact, &f64)| {
            let mut sum = account.clone();
            sum.add(Product::new(*budget, times));
            sum.floor().min(f64::MAX)
        };
        self.accounts.iter().zip(budgets).map(sum).collect()
    }

    fn round_down(&mut self) {
        for (remaining, account) in self.remaining.iter_mut().zip(&self.accounts) {
            *remaining = account.floor();
        }
    }
}

/// Checks that these are budgets.
pub(crate) fn check_budgets(budgets: &[f64]) -> Result<(), Error> {
    expect_finite("budgets", budgets)?;
    match budgets.iter().position(|b| *b < 0.0) {
        Some(index) => Err(Error::Negative {
            what: "budgets",
            index,
            value: budgets[index],
        }),
        None => Ok(()),
    }
}

/// Why a usage is not paid.
#[cold]
fn refusal(budget: usize, asked: f64, available: f64) -> Error {
    let (what, index, value) = ("usage", budget, asked);
    if !asked.is_finite() {
        Error::NotFinite { what, index, value }
    } else if asked < 0.0 {
        Error::Negative { what, index, value }
    } else {
        Error::Overspend {
            budget,
            asked,
            available,
        }
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

    #[test]
    fn a_refused_settlement_changes_nothing() {
        let mut ledger = Ledger::new(&[1.0, 2.0]).unwrap();
        let hold = ledger.hold(&[0.5, 1.5]).unwrap();
        let settled = ledger.hold(&[0.1, 0.1]).unwrap();
        ledger.settle(settled, &[0.1, 0.0]).unwrap();
        let released = ledger.hold(&[0.1, 0.1]).unwrap();
        ledger.release(released).unwrap();
        let before = ledger.clone();
        let what = "the settlement";
        let is_refused = |ledger: &mut Ledger, hold, usage: &[f64], expected: &Error| {
            assert_eq!(ledger.settle(hold, usage).as_ref(), Err(expected));
            assert_eq!(*ledger, before);
        };
        for (bad, expected) in [
            (
                1.5_f64.next_up(),
                Error::AboveHold {
                    budget: 1,
                    asked: 1.5_f64.next_up(),
                    held: 1.5,
                },
            ),
            (
                f64::INFINITY,
                Error::NotFinite {
                    what,
                    index: 1,
                    value: f64::INFINITY,
                },
            ),
            (
                -0.1,
                Error::Negative {
                    what,
                    index: 1,
                    value: -0.1,
                },
            ),
            (
                -f64::from_bits(1),
                Error::Negative {
                    what,
                    index: 1,
                    value: -f64::from_bits(1),
                },
            ),
        ] {
            is_refused(&mut ledger, hold, &[0.25, bad], &expected);
        }
        let nan = ledger.settle(hold, &[0.25, f64::NAN]);
        assert!(matches!(nan, Err(Error::NotFinite { index: 1, value, .. }) if value.is_nan()));
        assert_eq!(ledger, before);
        for usage in [&[][..], &[0.1], &[0.1, 0.1, 0.1]] {
            let found = usage.len();
            is_refused(
                &mut ledger,
                hold,
                usage,
                &Error::WrongLength {
                    what,
                    expected: 2,
                    found,
                },
            );
        }
        for hold in [settled, released] {
            is_refused(&mut ledger, hold, &[0.0, 0.0], &Error::HoldClosed { hold });
            assert_eq!(ledger.release(hold), Err(Error::HoldClosed { hold }));
            assert_eq!(ledger.held(hold), Err(Error::HoldClosed { hold }));
        }
        for hold in [HoldId::new(3), HoldId::new(u64::MAX)] {
            is_refused(&mut ledger, hold, &[0.0, 0.0], &Error::UnknownHold { hold });
            assert_eq!(ledger.release(hold), Err(Error::UnknownHold { hold }));
            assert_eq!(ledger.held(hold), Err(Error::UnknownHold { hold }));
        }
        // A refused hold takes no number.
        assert!(ledger.hold(&[0.5, 2.0]).is_err() && ledger.hold(&[f64::NAN, 0.0]).is_err());
        assert_eq!(ledger, before);
        assert_eq!(ledger.hold(&[0.1, 0.1]), Ok(HoldId::new(3)));
    }

    #[test]
    fn what_was_held_comes_back_to_the_last_bit_in_any_order() {
        let tiny = f64::from_bits(1);
        let budgets = [1e300, 0.3];
        let mut ledger = Ledger::new(&budgets).unwrap();
        let holds = [[tiny, 0.1], [1e299, 0.1], [1.0, tiny]].map(|usage| ledger.hold(&usage).unwrap());
        for hold in [holds[1], holds[0], holds[2]] {
            ledger.release(hold).unwrap();
        }
        assert_eq!(ledger.remaining(), budgets);
        ledger.spend(&budgets).unwrap();
        assert_eq!(ledger.remaining(), [0.0, 0.0]);
    }
}
