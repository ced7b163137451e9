//! The holds of a ledger: usage that was paid and may come back in part.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, expect_length};
use crate::exact::{Exact, Product};

/// The name of a hold in its [`crate::Ledger`]: 0 for the first, then one more for each.
///
/// A hold that is refused takes no number, so that a journal of what was done gives every hold its number again.
///
/// ```
/// use laau_core::{HoldId, Ledger};
///
/// let mut ledger = Ledger::new(&[5.0])?;
/// assert!(ledger.hold(&[6.0]).is_err());
/// let first = ledger.hold(&[2.0])?;
/// assert_eq!((first, first.number()), (HoldId::new(0), 0));
/// assert_eq!(ledger.hold(&[2.0])?.to_string(), "1");
/// # Ok::<(), laau_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HoldId(u64);

impl HoldId {
    /// The name that a journal or a request gives as a number; whether there is such a hold, its ledger knows.
    ///
    /// ```
    /// use laau_core::{Error, HoldId, Ledger};
    ///
    /// let hold = HoldId::new(7);
    /// assert_eq!(Ledger::new(&[5.0])?.release(hold), Err(Error::UnknownHold { hold }));
    /// # Ok::<(), laau_core::Error>(())
    /// ```
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, to be stored.
    ///
    /// ```
    /// assert_eq!(laau_core::HoldId::new(7).number(), 7);
    /// ```
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for HoldId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The open holds. Numbers only grow, so that a number below the next one that is not open must be closed: nothing has to
/// be kept of a closed hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Holds {
    open: BTreeMap<HoldId, Box<[f64]>>,
    next: u64,
    /// What they have of each budget, exactly: it can be told without a look at each.
    sums: Vec<Exact>,
}

impl Holds {
    /// Opens a hold of a usage that has been paid.
    pub(crate) fn open(&mut self, usage: &[f64]) -> HoldId {
        let hold = HoldId(self.next);
        self.next += 1;
        self.open.insert(hold, usage.into());
        self.sums.resize_with(usage.len(), || Exact::new(0.0));
        for (sum, &held) in self.sums.iter_mut().zip(usage) {
            sum.add(Product::new(held, 1));
        }
        hold
    }

    /// The number of open holds.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// What the open holds have of each budget.
    pub(crate) fn sums(&self) -> &[Exact] {
        &self.sums
    }

    /// What an open hold has of each budget.
    pub(crate) fn get(&self, hold: HoldId) -> Result<&[f64], Error> {
        self.open
            .get(&hold)
            .map(|held| &**held)
            .ok_or_else(|| self.missing(hold))
    }

    /// Closes a hold and gives what it had of each budget.
    pub(crate) fn close(&mut self, hold: HoldId) -> Result<Box<[f64]>, Error> {
        let held = self.open.remove(&hold).ok_or_else(|| self.missing(hold))?;
        for (sum, &held) in self.sums.iter_mut().zip(&held) {
            sum.subtract(Product::new(held, 1));
        }
        Ok(held)
    }

    /// The open holds in the order in which they were made.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (HoldId, &[f64])> {
        self.open.iter().map(|(hold, held)| (*hold, &**held))
    }

    /// Checks that a hold is open and covers a settlement.
    pub(crate) fn check(&self, hold: HoldId, usage: &[f64]) -> Result<(), Error> {
        let held = self.get(hold)?;
        expect_length("the settlement", usage, held.len())?;
        for (index, (&asked, &held)) in usage.iter().zip(held).enumerate() {
            let what = "the settlement";
            if !asked.is_finite() {
                let value = asked;
                return Err(Error::NotFinite { what, index, value });
            }
            if asked < 0.0 {
                let value = asked;
                return Err(Error::Negative { what, index, value });
            }
            if asked > held {
                let budget = index;
                return Err(Error::AboveHold { budget, asked, held });
            }
        }
        Ok(())
    }

    /// Why a hold is not among the open ones.
    fn missing(&self, hold: HoldId) -> Error {
        if hold.0 < self.next {
            Error::HoldClosed { hold }
        } else {
            Error::UnknownHold { hold }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_is_stored_as_its_number() {
        let hold = HoldId::new(u64::MAX);
        let stored = serde_json::to_string(&hold).unwrap();
        assert_eq!(stored, u64::MAX.to_string());
        assert_eq!(serde_json::from_str::<HoldId>(&stored).unwrap(), hold);
    }

    #[test]
    fn an_error_says_which_hold_it_is() {
        let mut holds = Holds::default();
        let hold = holds.open(&[2.0]);
        let said = |result: Result<(), Error>| result.unwrap_err().to_string();
        assert_eq!(said(holds.check(hold, &[2.5])), "budget 0: 2.5 settled, 2 held");
        assert_eq!(said(holds.check(HoldId::new(1), &[0.0])), "no hold 1 was made");
        holds.close(hold).unwrap();
        assert_eq!(
            said(holds.check(hold, &[0.0])),
            "hold 0 is closed: it was settled or released before"
        );
    }
}
