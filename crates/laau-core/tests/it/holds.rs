//! Holds against a model in exact rationals: random sequences of everything that an episode can be asked for, good and bad,
//! with crashes in between from which it is rebuilt by its journal.

use laau_core::problems::WeightedFairness;
use laau_core::{Dimensions, EpisodeRun, Error, HoldId, Problem};
use num_bigint::BigInt;
use proptest::prelude::*;

use crate::ledger::{at_most, exact};

/// Two budgets and an action for each; a context scales what they use.
struct Metered {
    lower: [f64; 2],
    upper: [f64; 2],
}

impl Problem for Metered {
    fn name(&self) -> &'static str {
        "metered"
    }

    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: 2,
            budgets: 2,
            context: 1,
        }
    }

    fn lower(&self) -> &[f64] {
        &self.lower
    }

    fn upper(&self) -> &[f64] {
        &self.upper
    }

    fn cost(&self, _: &[f64], _: &[f64]) -> f64 {
        0.0
    }

    fn usage(&self, action: &[f64], context: &[f64], out: &mut [f64]) {
        for (out, x) in out.iter_mut().zip(action) {
            *out = x * context[0];
        }
    }

    fn least_usage(&self, out: &mut [f64]) {
        out.copy_from_slice(&self.lower);
    }

    fn check_context(&self, context: &[f64]) -> Result<(), Error> {
        if (0.0..=1.0).contains(&context[0]) {
            return Ok(());
        }
        Err(Error::OutsideDomain {
            what: "context",
            index: 0,
            value: context[0],
            expected: "a scale in [0, 1]",
        })
    }
}

/// How much is asked for of what there is.
#[derive(Debug, Clone, Copy)]
enum Amount {
    Least,
    Part(f64),
    AllButOneBit,
    All,
    OneBitMore,
    Tiny,
}

impl Amount {
    fn of(self, least: f64, all: f64) -> f64 {
        match self {
            Self::Least => least,
            Self::Part(part) => part * all,
            Self::AllButOneBit => all.next_down().max(0.0),
            Self::All => all,
            Self::OneBitMore => all.next_up(),
            Self::Tiny => f64::from_bits(1),
        }
    }
}

/// What is asked of a run. A hold is chosen among all that were ever made, and one more.
#[derive(Debug, Clone)]
enum Call {
    /// Reveals a context and drops the step.
    Look(f64),
    Pay(f64, [Amount; 2]),
    Hold(f64, [Amount; 2]),
    Settle(prop::sample::Index, [Amount; 2]),
    SettleBy(prop::sample::Index, Vec<f64>),
    Release(prop::sample::Index),
    Skip(usize),
    Grant(f64),
    /// Everything in memory is lost; the journal is played again.
    Crash,
}

/// What a journal keeps: the calls that succeeded, in their values.
#[derive(Debug, Clone)]
enum Entry {
    Paid(f64, Vec<f64>),
    Held(f64, Vec<f64>),
    Settled(HoldId, Vec<f64>),
    Released(HoldId),
    Skipped(usize),
    Granted(f64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Hold {
    Open([f64; 2]),
    Settled([f64; 2]),
    Released,
}

/// The run, and beside it what it must be: every amount ever paid and every hold, summed up anew at each look.
struct Audit<'a> {
    problem: &'a Metered,
    budgets: [f64; 2],
    planned: usize,
    run: EpisodeRun<'a>,
    journal: Vec<Entry>,
    paid: Vec<[f64; 2]>,
    holds: Vec<Hold>,
    steps: usize,
    horizon: usize,
}

impl<'a> Audit<'a> {
    fn new(problem: &'a Metered, horizon: usize, budgets: [f64; 2]) -> Self {
        Self {
            problem,
            budgets,
            planned: horizon,
            run: EpisodeRun::new(problem, horizon, &budgets).expect("budgets above the least"),
            journal: Vec::new(),
            paid: Vec::new(),
            holds: Vec::new(),
            steps: 0,
            horizon,
        }
    }

    /// What is left of a budget: all of it less what was paid, settled and is still held.
    fn left(&self, budget: usize) -> BigInt {
        let held = self.holds.iter().map(|hold| match hold {
            Hold::Open(held) => exact(held[budget]),
            Hold::Settled(used) => exact(used[budget]),
            Hold::Released => BigInt::ZERO,
        });
        let paid = self.paid.iter().map(|paid| exact(paid[budget]));
        exact(self.budgets[budget]) - paid.chain(held).sum::<BigInt>()
    }

    /// What is left less the reserve of a number of steps.
    fn net(&self, budget: usize, steps: usize) -> BigInt {
        self.left(budget) - exact(self.problem.lower[budget]) * steps
    }

    fn is_over(&self) -> bool {
        self.steps == self.horizon
    }

    /// The whole contract of what can be seen of a run between two calls.
    fn check(&self) {
        for (budget, &remaining) in self.run.remaining().iter().enumerate() {
            let left = self.left(budget);
            assert!(left >= BigInt::ZERO, "budget {budget} is overspent");
            assert!(
                self.net(budget, self.horizon - self.steps) >= BigInt::ZERO,
                "the reserve of budget {budget} is broken"
            );
            is_floor(remaining, &left);
        }
        assert_eq!(
            (self.run.step(), self.run.horizon(), self.run.is_over()),
            (self.steps, self.horizon, self.is_over())
        );
        let open = self
            .holds
            .iter()
            .enumerate()
            .filter_map(|(number, hold)| match hold {
                Hold::Open(held) => Some((HoldId::new(number as u64), &held[..])),
                _ => None,
            });
        assert!(self.run.ledger().holds().eq(open));
    }

    /// A run that knows only the journal.
    fn rebuilt(&self) -> Result<EpisodeRun<'a>, Error> {
        let mut run = EpisodeRun::new(self.problem, self.planned, &self.budgets)?;
        for entry in &self.journal {
            match entry {
                Entry::Paid(context, action) => {
                    run.reveal(&[*context])?.pay(action)?;
                }
                Entry::Held(context, action) => {
                    run.reveal(&[*context])?.hold(action)?;
                }
                Entry::Settled(hold, usage) => run.settle(*hold, usage)?,
                Entry::Released(hold) => run.release(*hold)?,
                Entry::Skipped(steps) => run.skip(*steps)?,
                Entry::Granted(context) => {
                    run.grant(&[*context])?;
                }
            }
        }
        Ok(run)
    }

    fn call(&mut self, call: &Call) {
        match call {
            Call::Look(context) => self.look(*context),
            Call::Pay(context, amounts) => self.take(*context, *amounts, false),
            Call::Hold(context, amounts) => self.take(*context, *amounts, true),
            Call::Settle(index, amounts) => {
                let hold = index.index(self.holds.len() + 1);
                let held = match self.holds.get(hold) {
                    Some(Hold::Open(held) | Hold::Settled(held)) => *held,
                    _ => [0.0; 2],
                };
                let usage = [0, 1].map(|budget| amounts[budget].of(0.0, held[budget]));
                self.settle(hold, &usage);
            }
            Call::SettleBy(index, usage) => self.settle(index.index(self.holds.len() + 1), usage),
            Call::Release(index) => self.release(index.index(self.holds.len() + 1)),
            Call::Skip(steps) => self.skip(*steps),
            Call::Grant(context) => self.grant(*context),
            Call::Crash => {
                let rebuilt = self.rebuilt().expect("it was done before");
                assert_eq!(rebuilt.ledger(), self.run.ledger());
                assert_eq!(rebuilt.usage(), self.run.usage());
                self.run = rebuilt;
            }
        }
        self.check();
    }

    /// Reveals a context and checks what a policy would see.
    fn look(&mut self, context: f64) {
        let (steps, horizon) = (self.steps, self.horizon);
        let to_come = (horizon - steps).saturating_sub(1);
        let net = [0, 1].map(|budget| self.net(budget, to_come));
        let left = [0, 1].map(|budget| self.left(budget));
        match self.run.reveal(&[context]) {
            Ok(step) => {
                let seen = step.observation();
                assert_eq!((seen.step, seen.horizon), (steps, horizon));
                assert_eq!(seen.context(), [context]);
                assert_eq!(seen.contexts.len(), steps + 1);
                for budget in [0, 1] {
                    is_floor(seen.remaining[budget], &left[budget]);
                    is_floor(seen.available[budget], &net[budget]);
                    assert!(seen.available[budget] >= self.problem.lower[budget]);
                }
            }
            Err(error) => assert_eq!((error, steps), (Error::EpisodeOver { horizon }, horizon)),
        }
    }

    /// Pays or holds a step; a refused one takes the lower corner, which must always be there.
    fn take(&mut self, context: f64, amounts: [Amount; 2], hold: bool) {
        self.look(context);
        if self.is_over() {
            return;
        }
        let net = [0, 1].map(|budget| self.net(budget, self.horizon - self.steps - 1));
        let (lower, upper) = (self.problem.lower, self.problem.upper);
        let step = self.run.reveal(&[context]).expect("just looked at");
        let available = step.observation().available;
        let mut action = [0, 1].map(|i| amounts[i].of(lower[i], available[i]).clamp(lower[i], upper[i]));
        let mut usage = action.map(|x| x * context);
        let numbered = HoldId::new(self.holds.len() as u64);
        let covered = |usage: [f64; 2]| (0..2).all(|budget| exact(usage[budget]) <= net[budget]);
        let step = if covered(usage) {
            step
        } else {
            let refused = if hold {
                step.hold(&action).expect_err("beyond what is available")
            } else {
                step.pay(&action).expect_err("beyond what is available")
            };
            assert!(matches!(refused.error, Error::Overspend { .. }));
            action = lower;
            usage = lower.map(|x| x * context);
            refused.step
        };
        if hold {
            assert_eq!(step.hold(&action).expect("there is enough"), numbered);
            self.holds.push(Hold::Open(usage));
            self.journal.push(Entry::Held(context, action.to_vec()));
        } else {
            step.pay(&action).expect("there is enough");
            self.paid.push(usage);
            self.journal.push(Entry::Paid(context, action.to_vec()));
        }
        assert_eq!(self.run.usage(), usage);
        self.steps += 1;
    }

    fn settle(&mut self, number: usize, usage: &[f64]) {
        let hold = HoldId::new(number as u64);
        let result = self.run.settle(hold, usage);
        match self.holds.get(number) {
            None => assert_eq!(result, Err(Error::UnknownHold { hold })),
            Some(Hold::Settled(_) | Hold::Released) => assert_eq!(result, Err(Error::HoldClosed { hold })),
            Some(Hold::Open(held)) => {
                let fits = |(used, held): (&f64, &f64)| used.is_finite() && *used >= 0.0 && used <= held;
                if usage.len() != 2 {
                    assert!(matches!(result, Err(Error::WrongLength { expected: 2, .. })));
                } else if usage.iter().zip(held).all(fits) {
                    assert_eq!(result, Ok(()));
                    self.holds[number] = Hold::Settled([usage[0], usage[1]]);
                    self.journal.push(Entry::Settled(hold, usage.to_vec()));
                } else {
                    let first = usize::from(fits((&usage[0], &held[0])));
                    let bad = usage[first];
                    let right = match result {
                        Err(Error::NotFinite { index, .. }) => index == first && !bad.is_finite(),
                        Err(Error::Negative { index, .. }) => index == first && bad < 0.0,
                        Err(Error::AboveHold { budget, .. }) => budget == first && bad > held[first],
                        _ => false,
                    };
                    assert!(right, "{usage:?} of {held:?}: {result:?}");
                }
            }
        }
    }

    fn release(&mut self, number: usize) {
        let hold = HoldId::new(number as u64);
        let result = self.run.release(hold);
        match self.holds.get_mut(number) {
            None => assert_eq!(result, Err(Error::UnknownHold { hold })),
            Some(open @ Hold::Open(_)) => {
                assert_eq!(result, Ok(()));
                *open = Hold::Released;
                self.journal.push(Entry::Released(hold));
            }
            Some(_) => assert_eq!(result, Err(Error::HoldClosed { hold })),
        }
    }

    fn skip(&mut self, steps: usize) {
        let horizon = self.horizon;
        let result = self.run.skip(steps);
        if steps <= horizon - self.steps {
            assert_eq!(result, Ok(()));
            self.horizon -= steps;
            self.journal.push(Entry::Skipped(steps));
        } else {
            assert_eq!(result, Err(Error::EpisodeOver { horizon }));
        }
    }

    fn grant(&mut self, context: f64) {
        let usage = self.problem.lower.map(|x| x * context);
        let steps_left = self.horizon - self.steps;
        let covered = (0..2).all(|budget| exact(usage[budget]) <= self.left(budget));
        match self.run.grant(&[context]) {
            Ok(hold) => {
                assert!(covered && steps_left == 0);
                assert_eq!(hold, HoldId::new(self.holds.len() as u64));
                assert_eq!(self.run.usage(), usage);
                self.holds.push(Hold::Open(usage));
                self.journal.push(Entry::Granted(context));
            }
            Err(Error::Overspend { .. }) => assert!(!covered && steps_left == 0),
            Err(error) => assert!(error == Error::EpisodeOpen { steps_left } && steps_left > 0),
        }
    }
}

/// A float must be an exact number, rounded down.
fn is_floor(value: f64, number: &BigInt) {
    assert!(at_most(value, number), "{value:e} is above the exact number");
    assert!(
        !at_most(value.next_up(), number),
        "{value:e} is not it rounded down"
    );
}

fn amount() -> impl Strategy<Value = Amount> {
    prop_oneof![
        Just(Amount::Least),
        (0.0..1.0).prop_map(Amount::Part),
        (0.0..0.2).prop_map(Amount::Part),
        Just(Amount::AllButOneBit),
        Just(Amount::All),
        Just(Amount::OneBitMore),
        Just(Amount::Tiny),
    ]
}

fn amounts() -> impl Strategy<Value = [Amount; 2]> {
    [amount(), amount()]
}

/// Half of them 1, in which an action is its usage.
fn context() -> impl Strategy<Value = f64> {
    prop_oneof![Just(1.0), 0.0..1.0, Just(0.0), Just(1.0)]
}

fn call() -> impl Strategy<Value = Call> {
    let bad = prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(-f64::from_bits(1)),
        Just(-1.0),
        Just(0.0),
        Just(-0.0),
        Just(f64::MAX)
    ];
    let index = any::<prop::sample::Index>;
    prop_oneof![
        1 => context().prop_map(Call::Look),
        3 => (context(), amounts()).prop_map(|(context, amounts)| Call::Pay(context, amounts)),
        8 => (context(), amounts()).prop_map(|(context, amounts)| Call::Hold(context, amounts)),
        6 => (index(), amounts()).prop_map(|(index, amounts)| Call::Settle(index, amounts)),
        2 => (index(), prop::collection::vec(bad, 0..4)).prop_map(|(index, usage)| Call::SettleBy(index, usage)),
        2 => index().prop_map(Call::Release),
        1 => (0..4_usize).prop_map(Call::Skip),
        2 => context().prop_map(Call::Grant),
        1 => Just(Call::Crash),
    ]
}

/// A lower bound of any scale, or none.
fn least() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(0.1),
        Just(1.0 / 3.0),
        Just(f64::from_bits(1)),
        Just(1e-300),
        Just(1e300),
        1e-3..1e3,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_sequence_of_calls_and_crashes_is_that_of_exact_rationals(
        lower in [least(), least()],
        horizon in 1..24_usize,
        plenty in [prop_oneof![Just(0.0), 0.0..4.0], prop_oneof![Just(0.0), 0.0..4.0]],
        calls in prop::collection::vec(call(), 1..120),
    ) {
        let upper = lower.map(|lower| if lower == 0.0 { 3.0 } else { lower * 9.0 });
        let problem = Metered { lower, upper };
        let mut budgets = [0.0; 2];
        problem.reserve(horizon, &mut budgets);
        for ((budget, plenty), upper) in budgets.iter_mut().zip(plenty).zip(upper) {
            *budget += plenty * upper;
        }
        let mut audit = Audit::new(&problem, horizon, budgets);
        for call in &calls {
            audit.call(call);
        }
        audit.call(&Call::Crash);
        // What was never settled counts as spent; once it is released, only what was used is gone.
        for number in 0..audit.holds.len() {
            if matches!(audit.holds[number], Hold::Open(_)) {
                audit.release(number);
                audit.check();
            }
        }
    }
}

#[test]
fn a_hold_is_settled_after_later_steps_and_after_the_last() {
    let problem = WeightedFairness::paper();
    let mut run = EpisodeRun::new(&problem, 3, &[10.0]).unwrap();
    let first = run.reveal(&[0.2]).unwrap().hold(&[8.0]).unwrap();
    let second = run.reveal(&[0.2]).unwrap().hold(&[1.0]).unwrap();
    run.settle(first, &[3.0]).unwrap();
    let step = run.reveal(&[0.2]).unwrap();
    assert_eq!(step.observation().available, [6.0]);
    let third = step.hold(&[6.0]).unwrap();
    assert!(run.is_over());
    run.release(third).unwrap();
    run.settle(second, &[0.25]).unwrap();
    assert_eq!(run.remaining(), [6.75]);
}

#[test]
fn a_hold_that_is_never_settled_is_spent() {
    let problem = WeightedFairness::paper();
    let mut run = EpisodeRun::new(&problem, 2, &[10.0]).unwrap();
    run.reveal(&[0.2]).unwrap().hold(&[9.0]).unwrap();
    let refused = run.reveal(&[0.2]).unwrap().pay(&[1.5]).unwrap_err();
    refused.step.pay(&[1.0]).unwrap();
    assert_eq!(run.remaining(), [0.0]);
    assert!(matches!(
        run.grant(&[0.2]),
        Err(Error::Overspend { available: 0.0, .. })
    ));
}

#[test]
fn a_refused_hold_gives_the_step_back_and_leaves_the_last_usage() {
    let problem = WeightedFairness::paper();
    let mut run = EpisodeRun::new(&problem, 3, &[10.0]).unwrap();
    run.reveal(&[0.2]).unwrap().pay(&[2.0]).unwrap();
    let before = run.ledger().clone();
    let mut step = run.reveal(&[0.2]).unwrap();
    for bad in [&[7.5][..], &[41.0], &[0.5], &[f64::NAN], &[]] {
        step = step.hold(bad).unwrap_err().step;
    }
    assert_eq!(step.observation().available, [7.0]);
    assert_eq!((run.usage(), run.ledger()), (&[2.0][..], &before));
    assert_eq!(run.reveal(&[0.2]).unwrap().hold(&[7.0]).unwrap(), HoldId::new(0));
}

#[test]
fn what_is_beyond_the_horizon_is_refused_before_it() {
    let problem = WeightedFairness::paper();
    let mut run = EpisodeRun::new(&problem, 3, &[10.0]).unwrap();
    assert_eq!(run.grant(&[0.2]), Err(Error::EpisodeOpen { steps_left: 3 }));
    assert_eq!(run.skip(4), Err(Error::EpisodeOver { horizon: 3 }));
    run.skip(3).unwrap();
    assert!(run.is_over() && run.reveal(&[0.2]).is_err());
    for bad in [&[f64::NAN][..], &[-0.5], &[]] {
        assert!(run.grant(bad).is_err());
    }
    // Ten times the least, and not once more.
    let granted: Vec<_> = (0..12).map_while(|_| run.grant(&[0.2]).ok()).collect();
    assert_eq!((granted.len(), run.remaining()), (10, &[0.0][..]));
    run.settle(granted[4], &[0.0]).unwrap();
    run.grant(&[0.2]).unwrap();
}
