//! The checks: each draws a case from a generator and says what is wrong with it.

mod adversary;
mod derivative;
mod differences;
mod engines;
mod guard;
mod kinks;
mod layer;
mod ledger;
mod policies;
mod training;

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use laau_core::Problem;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::shrink::{Shrink, shrink};

/// What is wrong with a case.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// A word for the kind of failure; a shrunk case fails with the same.
    pub kind: String,
    /// What was found, with the numbers.
    pub message: String,
}

impl Failure {
    /// A failure with a message.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            message: message.into(),
        }
    }

    /// The same failure, told apart by the problem.
    fn of(self, problem: &dyn Problem) -> Self {
        Self {
            kind: format!("{}, {}", self.kind, problem.name()),
            ..self
        }
    }
}

/// What a case that passed has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Gradients that were looked at.
    pub gradients: u64,
    /// Those of them that were flagged as approximate.
    pub approximate: u64,
    /// Cases that a constructor or a check of contexts refused, so that there was nothing to check.
    pub refused: u64,
    /// Episodes that were played behind a guard and held against its promise.
    pub episodes: u64,
}

impl Tally {
    /// A case that was refused.
    pub(crate) const REFUSED: Self = Self {
        gradients: 0,
        approximate: 0,
        refused: 1,
        episodes: 0,
    };

    /// Adds what another case has seen.
    pub(crate) fn add(&mut self, other: Self) {
        self.gradients += other.gradients;
        self.approximate += other.approximate;
        self.refused += other.refused;
        self.episodes += other.episodes;
    }
}

/// Draws cases and checks them.
pub trait Audit {
    /// What is drawn.
    type Case: Shrink;
    /// Draws a case; the same generator gives the same case.
    fn draw(rng: &mut ChaCha8Rng) -> Self::Case;
    /// Checks a case.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(case: &Self::Case) -> Result<Tally, Failure>;
}

/// A check by its name.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// The name on the command line.
    pub name: &'static str,
    /// How many cases of this check there are for every 100 of the count asked for: checks differ in cost.
    pub per_hundred: usize,
    run: fn(u64) -> Result<Tally, Failure>,
    text: fn(u64) -> String,
    shrunk: fn(u64, &Failure, Duration) -> (String, Failure),
}

impl Check {
    const fn of<A: Audit>(name: &'static str, per_hundred: usize) -> Self {
        Self {
            name,
            per_hundred,
            run: run::<A>,
            text: |seed| A::draw(&mut ChaCha8Rng::seed_from_u64(seed)).text(),
            shrunk: shrunk::<A>,
        }
    }

    /// Runs the case of a seed. A panic is a failure.
    ///
    /// # Errors
    /// What is wrong with the case.
    pub fn run(&self, seed: u64) -> Result<Tally, Failure> {
        (self.run)(seed)
    }

    /// The case of a seed as text.
    #[must_use]
    pub fn text(&self, seed: u64) -> String {
        (self.text)(seed)
    }

    /// The smallest case found that fails as the case of a seed does, as text, and its failure.
    #[must_use]
    pub fn shrunk(&self, seed: u64, failure: &Failure, patience: Duration) -> (String, Failure) {
        (self.shrunk)(seed, failure, patience)
    }
}

/// All checks, in the order of the table.
pub const CHECKS: [Check; 8] = [
    Check::of::<layer::Layer>("layer", 100),
    Check::of::<derivative::Derivative>("derivative", 50),
    Check::of::<engines::Engines>("engines", 30),
    Check::of::<policies::Policies>("policies", 10),
    Check::of::<guard::Guards>("guard", 40),
    Check::of::<adversary::Adversary>("adversary", 20),
    Check::of::<training::Trainings>("training", 20),
    Check::of::<ledger::Ledgers>("ledger", 100),
];

fn run<A: Audit>(seed: u64) -> Result<Tally, Failure> {
    guarded(|| A::check(&A::draw(&mut ChaCha8Rng::seed_from_u64(seed))))
}

fn shrunk<A: Audit>(seed: u64, failure: &Failure, patience: Duration) -> (String, Failure) {
    let case = A::draw(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut last = failure.clone();
    let smallest = shrink(&case, patience, |candidate| {
        match guarded(|| A::check(candidate)) {
            Err(found) if found.kind == failure.kind => {
                last = found;
                true
            }
            _ => false,
        }
    });
    (smallest.text(), last)
}

thread_local! {
    static PANICKED_AT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps panics quiet from here on: they are failures that are reported, with the place where they happened.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let place = if place.contains(OURS) {
            place
        } else {
            caller().unwrap_or(place)
        };
        PANICKED_AT.with(|at| *at.borrow_mut() = place);
    }));
}

/// What the path of a library of ours has in it.
const OURS: &str = "crates/laau";

/// Where our code called what panicked, for example in the standard library.
fn caller() -> Option<String> {
    let trace = Backtrace::force_capture().to_string();
    let line = trace.lines().find(|line| line.contains(OURS))?;
    let start = line.find(OURS)?;
    Some(line[start..].to_owned())
}

/// Turns a panic into a failure.
fn guarded(check: impl FnOnce() -> Result<Tally, Failure>) -> Result<Tally, Failure> {
    PANICKED_AT.with(|at| at.borrow_mut().clear());
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|payload| {
        let place = PANICKED_AT.with(|at| at.borrow().clone());
        Err(Failure::new(
            "panic",
            format!("panic at {place}: {}", words(&*payload)),
        ))
    })
}

fn words(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "without words".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure_with_its_words() {
        let failure = guarded(|| panic!("out of {}", "paper")).unwrap_err();
        assert_eq!(failure.kind, "panic");
        assert!(failure.message.ends_with("out of paper"), "{}", failure.message);
    }

    #[test]
    fn the_same_seed_draws_the_same_case_and_another_seed_another() {
        for check in CHECKS {
            assert_eq!(check.text(7), check.text(7), "{}", check.name);
            assert_ne!(check.text(7), check.text(8), "{}", check.name);
        }
    }
}
