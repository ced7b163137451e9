//! `ledger`: hostile spends against exact integers.

use laau_core::{Error, Ledger};
use num_bigint::BigInt;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{Audit, Failure, Tally};
use crate::draw::{between_powers, chance, count};
use crate::exact::{floor, integer};
use crate::shrink::{Shrink, rounder};

/// What is asked of one budget.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ask {
    /// A given number.
    Value(f64),
    /// No number at all.
    Nan,
    /// A share of what remains.
    Share(f64),
    /// What remains, moved by so many last bits.
    Remaining(i32),
}

/// Budgets, a list of spends, and a reserve by its least usage and steps.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LedgerCase {
    budgets: Vec<f64>,
    spends: Vec<Vec<Ask>>,
    least: Vec<f64>,
    steps_left: usize,
}

pub(crate) struct Ledgers;

impl Audit for Ledgers {
    type Case = LedgerCase;

    fn draw(rng: &mut ChaCha8Rng) -> LedgerCase {
        let m = count(rng, 4);
        let steps = count(rng, 120);
        LedgerCase {
            budgets: (0..m).map(|_| amount(rng)).collect(),
            spends: (0..steps).map(|_| (0..m).map(|_| ask(rng)).collect()).collect(),
            least: (0..m).map(|_| amount(rng)).collect(),
            steps_left: [0, 1, 2, 3, 1000, 1 << 40][rng.random_range(0..6)],
        }
    }

    fn check(case: &LedgerCase) -> Result<Tally, Failure> {
        let mut ledger =
            Ledger::new(&case.budgets).map_err(|error| Failure::new("refused", error.to_string()))?;
        let mut exact: Vec<BigInt> = case.budgets.iter().map(|b| integer(*b)).collect();
        compare(case, &ledger, &exact, "at the start")?;
        for (step, asks) in case.spends.iter().enumerate() {
            let usage: Vec<f64> = asks
                .iter()
                .zip(ledger.remaining())
                .map(|(ask, remaining)| ask.resolve(*remaining))
                .collect();
            let usual = usage.iter().all(|u| u.is_finite() && *u >= 0.0);
            let covered = usual && usage.iter().zip(&exact).all(|(u, left)| integer(*u) <= *left);
            match ledger.spend(&usage) {
                Ok(()) if covered => {
                    for (left, paid) in exact.iter_mut().zip(&usage) {
                        *left -= integer(*paid);
                    }
                }
                Err(Error::Overspend { .. } | Error::NotFinite { .. } | Error::Negative { .. })
                    if !covered => {}
                result => {
                    return Err(Failure::new(
                        "spend",
                        format!("step {step}: {usage:?} gave {result:?}, covered: {covered}"),
                    ));
                }
            }
            compare(case, &ledger, &exact, &format!("after step {step} of {usage:?}"))?;
        }
        Ok(Tally::default())
    }
}

/// Remaining and available are the exact ones, rounded down.
fn compare(case: &LedgerCase, ledger: &Ledger, exact: &[BigInt], when: &str) -> Result<(), Failure> {
    let mut available = vec![0.0; exact.len()];
    ledger.available(&case.least, case.steps_left, &mut available);
    for (m, left) in exact.iter().enumerate() {
        let expected = floor(left);
        let found = ledger.remaining()[m];
        if found != expected {
            return Err(Failure::new(
                "remaining",
                format!("{when}: remaining[{m}] is {found:?}, exactly {expected:?}"),
            ));
        }
        let expected = floor(&(left - integer(case.least[m]) * case.steps_left));
        if available[m] != expected {
            return Err(Failure::new(
                "available",
                format!(
                    "{when}: available[{m}] is {:?}, exactly {expected:?}",
                    available[m]
                ),
            ));
        }
    }
    Ok(())
}

impl Ask {
    fn resolve(self, remaining: f64) -> f64 {
        match self {
            Self::Value(value) => value,
            Self::Nan => f64::NAN,
            Self::Share(share) => share * remaining,
            Self::Remaining(bits) => {
                let step = |value: f64| {
                    if bits < 0 {
                        value.next_down()
                    } else {
                        value.next_up()
                    }
                };
                (0..bits.abs()).fold(remaining, |value, _| step(value))
            }
        }
    }
}

/// Any non-negative float, from subnormal to the largest.
fn amount(rng: &mut ChaCha8Rng) -> f64 {
    match rng.random_range(0..10) {
        0 => 0.0,
        1 => f64::from_bits(rng.random_range(0..0x7ff0_0000_0000_0000)),
        2 => [5e-324, f64::MIN_POSITIVE, f64::MAX, f64::MAX / 2.0][rng.random_range(0..4)],
        3 => between_powers(rng, -9.0, 12.0),
        4 => 0.1,
        _ => between_powers(rng, -1.0, 2.0),
    }
}

fn ask(rng: &mut ChaCha8Rng) -> Ask {
    match rng.random_range(0..20) {
        0 if chance(rng, 0.2) => Ask::Nan,
        0 => Ask::Value([f64::INFINITY, -1.0, -0.0, -5e-324][rng.random_range(0..4)]),
        1..4 => Ask::Value(amount(rng)),
        4..6 => Ask::Remaining(rng.random_range(-2..=1)),
        6..9 => Ask::Value(if chance(rng, 0.5) { 0.1 } else { 5e-324 }),
        9..12 => Ask::Share(between_powers(rng, -16.0, 0.0)),
        _ => Ask::Share(rng.random_range(0.0..0.3)),
    }
}

impl Shrink for LedgerCase {
    fn smaller(&self) -> Vec<Self> {
        let mut candidates = Vec::new();
        for keep in [self.spends.len() / 2, self.spends.len().saturating_sub(1)] {
            candidates.push(Self {
                spends: self.spends[..keep].to_vec(),
                ..self.clone()
            });
        }
        for step in 0..self.spends.len() {
            let mut fewer = self.clone();
            fewer.spends.remove(step);
            candidates.push(fewer);
        }
        for m in (0..self.budgets.len()).filter(|_| self.budgets.len() > 1) {
            let mut fewer = self.clone();
            fewer.budgets.remove(m);
            fewer.least.remove(m);
            for asks in &mut fewer.spends {
                asks.remove(m);
            }
            candidates.push(fewer);
        }
        candidates.extend(rounder(
            self,
            |case| {
                let mut numbers: Vec<&mut f64> = case.budgets.iter_mut().collect();
                numbers.extend(&mut case.least);
                for ask in case.spends.iter_mut().flatten() {
                    if let Ask::Value(value) | Ask::Share(value) = ask {
                        numbers.push(value);
                    }
                }
                numbers
            },
            |_| (),
        ));
        candidates
    }

    fn text(&self) -> String {
        format!("{self:#?}").replace("\n    ", "\n  ")
    }
}
