//! The ledger against exact rational arithmetic.
//!
//! Every finite `f64` is a whole number of 2^-1074, so that integers of that unit are exact rationals.

use laau_core::{Error, Ledger};
use num_bigint::BigInt;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The exact value of a float in units of 2^-1074.
pub(crate) fn exact(value: f64) -> BigInt {
    let bits = value.to_bits();
    let exponent = (bits >> 52) & 0x7ff;
    let fraction = bits & ((1 << 52) - 1);
    let magnitude = if exponent == 0 {
        BigInt::from(fraction)
    } else {
        BigInt::from(fraction | (1 << 52)) << (exponent - 1)
    };
    if value.is_sign_negative() {
        -magnitude
    } else {
        magnitude
    }
}

/// A ledger and the exact remainder beside it.
struct Audit {
    ledger: Ledger,
    remainder: BigInt,
}

impl Audit {
    fn new(budget: f64) -> Self {
        Self {
            ledger: Ledger::new(&[budget]).expect("a valid budget"),
            remainder: exact(budget),
        }
    }

    /// Spends and checks the whole contract: paid if and only if the exact remainder covers it; the remaining budget
    /// is the exact remainder, rounded down.
    fn spend(&mut self, usage: f64) -> bool {
        let asked = exact(usage);
        let paid = match self.ledger.spend(&[usage]) {
            Ok(()) => {
                assert!(
                    asked <= self.remainder,
                    "{usage:e} was paid beyond the exact remainder"
                );
                self.remainder -= asked;
                true
            }
            Err(Error::Overspend { .. }) => {
                assert!(
                    asked > self.remainder,
                    "{usage:e} was refused although the exact remainder covers it"
                );
                false
            }
            Err(other) => panic!("{other}"),
        };
        let remaining = self.ledger.remaining()[0];
        assert!(
            exact(remaining) <= self.remainder,
            "remaining {remaining:e} is above the exact remainder"
        );
        assert!(
            exact(remaining.next_up()) > self.remainder,
            "remaining {remaining:e} is not the remainder rounded down"
        );
        paid
    }
}

/// Draws a usage of one of the kinds that break floating sums.
fn draw(rng: &mut ChaCha8Rng, audit: &Audit, budget: f64) -> f64 {
    let remaining = audit.ledger.remaining()[0];
    match rng.random_range(0..10) {
        0 => f64::from_bits(rng.random_range(0..1 << 52)), // subnormal
        1 => remaining,                                    // all of it
        2 => remaining.next_up(),                          // one bit too much
        3 => remaining.next_down().max(0.0),               // one bit less
        4 => budget * 2f64.powi(-rng.random_range(0..60)), // halves of the budget
        5 => remaining * 2f64.powi(-rng.random_range(1..60)), // parts of what is left
        6 => f64::from_bits(rng.random_range(0..0x7fef_ffff_ffff_ffff)), // any finite float
        7 => budget / 3.0,
        8 => remaining * rng.random_range(0.0..1e-3),
        _ => 0.1 * budget * rng.random_range(0.0..1e-2),
    }
}

#[test]
fn two_million_random_spends_never_exceed_the_budget_in_exact_arithmetic() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut spends, mut paid, mut refused) = (0_u64, 0_u64, 0_u64);
    while spends < 2_000_000 {
        let budget = match rng.random_range(0..5) {
            0 => f64::from_bits(rng.random_range(0..1 << 54)),
            1 => f64::MAX,
            2 => rng.random_range(0.0..1e3),
            3 => 250.0,
            _ => f64::from_bits(rng.random_range(0..0x7fef_ffff_ffff_ffff)),
        };
        let mut audit = Audit::new(budget);
        for _ in 0..rng.random_range(20..2000) {
            let usage = draw(&mut rng, &audit, budget);
            if usage.is_finite() {
                spends += 1;
                *(if audit.spend(usage) {
                    &mut paid
                } else {
                    &mut refused
                }) += 1;
            }
        }
    }
    assert!(
        paid > 200_000 && refused > 200_000,
        "{paid} paid, {refused} refused: one side is hardly tested"
    );
}

#[test]
fn a_million_equal_shares_use_the_budget_up_and_not_a_bit_more() {
    let (budget, share) = (1.0, 1e-6);
    let mut audit = Audit::new(budget);
    let paid = (0..1_000_001).filter(|_| audit.spend(share)).count();
    // The float nearest to 1e-6 lies below it: a million shares fit, with a little left.
    assert_eq!(paid, 1_000_000);
    let rest = audit.ledger.remaining()[0];
    assert!(rest > 0.0 && rest < 1e-16, "{rest:e}");
    while audit.ledger.remaining()[0] > 0.0 {
        let rest = audit.ledger.remaining()[0];
        assert!(audit.spend(rest));
    }
    assert_eq!(audit.remainder, BigInt::ZERO);
}

proptest! {
    #[test]
    fn any_sequence_of_spends_is_exact(
        budget in prop::num::f64::POSITIVE | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO,
        usages in prop::collection::vec(prop::num::f64::POSITIVE | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO, 1..40),
    ) {
        let mut audit = Audit::new(budget.abs());
        for usage in usages {
            audit.spend(usage.abs());
        }
    }

    #[test]
    fn available_is_the_exact_difference_rounded_down(
        budget in 0.0..1e6f64,
        spent in 0.0..1.0f64,
        least in 0.0..1e6f64,
        steps in prop_oneof![0..10_usize, 0..1_usize << 53],
    ) {
        assert_available(budget, budget * spent, least, steps);
    }

    #[test]
    fn available_is_exact_at_any_scale(
        budget in prop::num::f64::POSITIVE | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO,
        spent in 0.0..1.0f64,
        least in prop::num::f64::POSITIVE | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO,
        steps in prop_oneof![0..10_usize, any::<usize>()],
    ) {
        assert_available(budget.abs(), budget.abs() * spent, least.abs(), steps);
    }
}

/// What is available must be the exact remainder less the exact reserve, rounded down.
fn assert_available(budget: f64, spent: f64, least: f64, steps: usize) {
    let mut ledger = Ledger::new(&[budget]).expect("a valid budget");
    ledger.spend(&[spent]).expect("a part of the budget");
    let mut available = [0.0];
    ledger.available(&[least], steps, &mut available);
    let reserve = exact(least) * steps;
    let difference = exact(budget) - exact(spent) - &reserve;
    let case = format!("{budget:e} less {spent:e} less {steps} × {least:e}: {available:?}");
    assert!(at_most(available[0], &difference), "{case}");
    assert!(!at_most(available[0].next_up(), &difference), "{case}");
}

/// Whether a float, which may be infinite, is at most an exact number.
pub(crate) fn at_most(value: f64, number: &BigInt) -> bool {
    if value.is_infinite() {
        value < 0.0
    } else {
        exact(value) <= *number
    }
}

/// Spends of every size from a large budget: their bits never overlap, so that an exact sum of floats grows and grows.
#[test]
fn spends_of_every_exponent_are_paid_without_end() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for (budget, exponents) in [
        (1e6, -300.0..-3.0),
        (f64::MAX, -323.0..300.0),
        (1e-200, -323.0..-210.0),
    ] {
        let mut audit = Audit::new(budget);
        for _ in 0..300_000 {
            assert!(audit.spend(10f64.powf(rng.random_range(exponents.clone()))));
        }
    }
}

#[test]
fn alternating_extremes_are_paid_without_end() {
    let tiny = f64::from_bits(1);
    for budget in [f64::MAX, 1e308, 1e300, 1.0] {
        let mut audit = Audit::new(budget);
        for k in 0..200_000 {
            let usage = match k % 4 {
                0 => tiny,
                1 => budget * 1e-7,
                2 => f64::MIN_POSITIVE,
                _ => budget * 1e-160,
            };
            assert!(audit.spend(usage));
        }
        // What is left goes in a few steps, since each takes 53 bits at least.
        while audit.ledger.remaining()[0] > 0.0 {
            let rest = audit.ledger.remaining()[0];
            assert!(audit.spend(rest));
        }
        assert_eq!(audit.remainder, BigInt::ZERO);
    }
}
