//! Makes a failing case smaller for as long as it fails in the same way.

use std::time::{Duration, Instant};

/// A case that can be made smaller and printed.
pub trait Shrink: Clone + PartialEq {
    /// Cases that are smaller or rounder than this one, those that save most first.
    fn smaller(&self) -> Vec<Self>;

    /// The case as text, close to Rust literals.
    fn text(&self) -> String;
}

/// Takes the first smaller case that still fails, again and again; `fails` says whether a case fails in the same way.
pub fn shrink<C: Shrink>(case: &C, patience: Duration, mut fails: impl FnMut(&C) -> bool) -> C {
    let start = Instant::now();
    let mut smallest = case.clone();
    'again: loop {
        for candidate in smallest.smaller() {
            if start.elapsed() > patience {
                return smallest;
            }
            if candidate != smallest && fails(&candidate) {
                smallest = candidate;
                continue 'again;
            }
        }
        return smallest;
    }
}

/// All cases in which one number is rounder: 0, 1, or fewer digits. Before them, all numbers at once.
pub fn rounder<C: Clone>(
    case: &C,
    numbers: impl Fn(&mut C) -> Vec<&mut f64>,
    settle: impl Fn(&mut C),
) -> Vec<C> {
    let mut candidates = Vec::new();
    for digits in [1, 2, 4] {
        let mut rounded = case.clone();
        for number in numbers(&mut rounded) {
            *number = significant(*number, digits);
        }
        settle(&mut rounded);
        candidates.push(rounded);
    }
    let count = numbers(&mut case.clone()).len();
    for index in 0..count {
        let value = *numbers(&mut case.clone())[index];
        let complexity = complexity(value);
        for better in [
            0.0,
            1.0,
            significant(value, 1),
            significant(value, 2),
            significant(value, 4),
        ] {
            if self::complexity(better) < complexity {
                let mut rounded = case.clone();
                *numbers(&mut rounded)[index] = better;
                settle(&mut rounded);
                candidates.push(rounded);
            }
        }
    }
    candidates
}

/// The order in which numbers are preferred: 0, 1, one digit of an ordinary size, …
fn complexity(value: f64) -> usize {
    if value == 0.0 {
        0
    } else if value == 1.0 {
        1
    } else {
        let digits = (1..17).find(|digits| significant(value, *digits) == value);
        1 + digits.unwrap_or(17)
    }
}

/// A number rounded to so many digits.
fn significant(value: f64, digits: usize) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.*e}", digits - 1).parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, Debug)]
    struct Fake(Vec<f64>);

    impl Shrink for Fake {
        fn smaller(&self) -> Vec<Self> {
            let dropped = (0..self.0.len()).map(|index| {
                let mut fewer = self.0.clone();
                fewer.remove(index);
                Self(fewer)
            });
            let rounded = rounder(self, |case| case.0.iter_mut().collect(), |_| ());
            dropped.chain(rounded).collect()
        }

        fn text(&self) -> String {
            format!("{:?}", self.0)
        }
    }

    #[test]
    fn a_fake_failure_is_shrunk_to_its_cause() {
        // Fails whenever an entry is above 3 and another below 0.5.
        let fails = |case: &Fake| case.0.iter().any(|v| *v > 3.0) && case.0.iter().any(|v| *v < 0.5);
        let case = Fake(vec![1.234, 0.123_456, 9.876_543, 2.2, 0.777, 5.4321]);
        let smallest = shrink(&case, Duration::from_secs(5), fails);
        assert_eq!(smallest, Fake(vec![0.0, 5.0]));
    }

    #[test]
    fn rounding_keeps_the_leading_digits() {
        assert_eq!(significant(1.2345e-7, 2), 1.2e-7);
        assert_eq!(significant(-98.76, 1), -100.0);
        assert_eq!(significant(0.0, 3), 0.0);
    }
}
