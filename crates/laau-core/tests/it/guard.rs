//! The guard, with policies that need no solver. `cargo xtask audit` plays it with every policy there is.

use std::sync::Arc;

use laau_core::problems::{
    LlmTokens, LogUtility, PowerProvisioning, Trading, VmAllocation, WeightedFairness, Wireless,
};
use laau_core::{
    Agent, Certificate, Dimensions, Episode, EpisodeRun, Episodes, Error, Form, Guarded, Observation, Policy,
    Problem, Projection, Rollout, rollout_all,
};
use num_bigint::BigInt;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::ledger::exact;

/// Writes an action, or has no idea.
type Decide = fn(&dyn Problem, &Observation<'_>, &mut [f64]) -> bool;

/// A policy from a function; what it wants is made payable unless it is raw.
struct Policies {
    problem: Arc<dyn Problem>,
    decide: Decide,
    raw: bool,
}

impl Policy for Policies {
    fn name(&self) -> &'static str {
        "function"
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(self)
    }
}

impl Agent for &Policies {
    fn decide(&mut self, seen: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        if !(self.decide)(&*self.problem, seen, action) {
            return Err(Error::Empty { what: "idea" });
        }
        if !self.raw {
            Projection::new(&*self.problem).apply(&*self.problem, seen.context(), seen.available, action);
        }
        Ok(())
    }
}

/// A tenth of the box a step.
fn steady(problem: &dyn Problem, _: &Observation<'_>, action: &mut [f64]) -> bool {
    for (i, x) in action.iter_mut().enumerate() {
        *x = problem.lower()[i] + 0.1 * (problem.upper()[i] - problem.lower()[i]);
    }
    true
}

/// More in contexts that are worth more.
fn eager(problem: &dyn Problem, seen: &Observation<'_>, action: &mut [f64]) -> bool {
    for (i, x) in action.iter_mut().enumerate() {
        *x = problem.lower()[i] + 0.3 * seen.context()[0] * (problem.upper()[i] - problem.lower()[i]);
    }
    true
}

/// Anything in the box, as chance has it.
fn erratic(problem: &dyn Problem, seen: &Observation<'_>, action: &mut [f64]) -> bool {
    let mut rng = ChaCha8Rng::seed_from_u64(seen.context()[0].to_bits());
    for (i, x) in action.iter_mut().enumerate() {
        let share = rng.random_range(0.0..=1.0_f64).powi(2);
        *x = problem.lower()[i] + share * (problem.upper()[i] - problem.lower()[i]);
    }
    true
}

fn everything(problem: &dyn Problem, _: &Observation<'_>, action: &mut [f64]) -> bool {
    action.copy_from_slice(problem.upper());
    true
}

fn nothing(_: &dyn Problem, _: &Observation<'_>, action: &mut [f64]) -> bool {
    action.fill(f64::NAN);
    true
}

fn fails(_: &dyn Problem, _: &Observation<'_>, _: &mut [f64]) -> bool {
    false
}

/// Episodes that are played with every pair.
const EPISODES: usize = 20;

/// Every problem of the core.
fn every_problem() -> Vec<Arc<dyn Problem>> {
    let mut all = problems().to_vec();
    all.push(Arc::new(VmAllocation::server()));
    all.push(Arc::new(Wireless::three_channels()));
    all.push(Arc::new(PowerProvisioning::two_loads()));
    all.push(Arc::new(LlmTokens::two_classes()));
    all
}

fn problems() -> [Arc<dyn Problem>; 3] {
    [
        Arc::new(WeightedFairness::paper()),
        Arc::new(LogUtility::new(3, 2, vec![1.0, 0.5, 0.0, 0.2, 0.7, 1.0], 0.1, 10.0).expect("valid")),
        Arc::new(Trading::inventory()),
    ]
}

fn episodes(problem: &dyn Problem, count: usize) -> Episodes {
    let (horizon, dimensions) = (12, problem.dimensions());
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let contexts = (0..count * horizon * dimensions.context)
        .map(|_| rng.random_range(0.05..1.0))
        .collect();
    let mut least = vec![0.0; dimensions.budgets];
    problem.reserve(horizon, &mut least);
    let budgets = (0..count)
        .flat_map(|_| {
            least
                .iter()
                .map(|least| least + rng.random_range(5.0..60.0))
                .collect::<Vec<_>>()
        })
        .collect();
    Episodes::new(horizon, dimensions.context, dimensions.budgets, contexts, budgets).expect("valid")
}

/// The rollouts of the guarded policy, of the advice and of the incumbent. Raw advice may be what cannot be paid.
fn play(
    problem: &Arc<dyn Problem>,
    (advice, raw): (Decide, bool),
    incumbent: Decide,
    level: f64,
) -> [Vec<Rollout>; 3] {
    let policy = |decide, raw| Policies {
        problem: Arc::clone(problem),
        decide,
        raw,
    };
    let episodes = episodes(&**problem, EPISODES);
    let (alone, beside) = (policy(advice, false), policy(incumbent, false));
    let played = [&alone, &beside].map(|policy| rollout_all(&**problem, policy, &episodes).expect("valid"));
    let guarded = Guarded::new(
        "guarded",
        Arc::new(policy(advice, raw)),
        Arc::new(beside),
        Arc::clone(problem),
        level,
    )
    .expect("valid");
    assert_eq!(guarded.form(), Form::Segment);
    let [alone, beside] = played;
    [
        rollout_all(&**problem, &guarded, &episodes).expect("valid"),
        alone,
        beside,
    ]
}

fn certificates(rollouts: &[Rollout]) -> impl Iterator<Item = Certificate> {
    rollouts.iter().map(|rollout| {
        assert_eq!((rollout.violations, rollout.failures), (0, 0));
        rollout.certificate.expect("a guarded policy has one")
    })
}

/// The guarded rollout of one episode and its incumbent's, in exact integers: the promise after every step, the certificate's
/// margin, and the budgets. Nothing that the guard or the ledger says of itself is relied on.
fn hold_to_the_promise(problem: &dyn Problem, episode: &Episode<'_>, ours: &Rollout, theirs: &Rollout) {
    let certificate = ours.certificate.expect("a guarded policy has one");
    let Dimensions {
        actions: d,
        budgets: m,
        ..
    } = problem.dimensions();
    let (unit, level) = (exact(1.0), exact(certificate.level));
    let mut left: Vec<BigInt> = episode.budgets().iter().map(|budget| exact(*budget)).collect();
    let (mut lead, mut leads, mut largest) = (BigInt::ZERO, Vec::new(), 0.0_f64);
    let mut usage = vec![0.0; m];
    for step in 0..episode.horizon() {
        let context = episode.context(step);
        let [mine, other] = [ours, theirs].map(|rollout| &rollout.actions[step * d..][..d]);
        for ((x, lower), upper) in mine.iter().zip(problem.lower()).zip(problem.upper()) {
            assert!((lower..=upper).contains(&x), "{mine:?} is outside of its box");
        }
        let corner = exact(problem.cost(problem.lower(), context));
        let gain = |action: &[f64]| &corner - exact(problem.cost(action, context));
        lead += gain(mine) * &unit - gain(other) * &level;
        leads.push(lead.clone());
        for action in [problem.lower(), problem.upper(), mine] {
            largest = largest.max(problem.cost(action, context).abs());
        }
        problem.usage(mine, context, &mut usage);
        for (left, used) in left.iter_mut().zip(&usage) {
            *left -= exact(*used);
        }
    }
    assert!(
        left.iter().all(|left| *left >= BigInt::ZERO),
        "{:?} is overspent",
        episode.budgets()
    );
    let least = leads.into_iter().min().expect("a step");
    assert!(least >= -exact(certificate.allowance) * &unit, "{certificate:?}");
    assert!(exact(certificate.margin) * &unit <= least, "{certificate:?}");
    assert!(
        exact(certificate.margin.next_up()) * &unit > least,
        "{certificate:?}"
    );
    // Each rounded step may take a few roundings of what it costs, and no other any.
    assert!(
        certificate.rounded > 0 || certificate.allowance == 0.0,
        "{certificate:?}"
    );
    assert!(
        certificate.allowance <= 1e-13 * largest * episode.horizon() as f64,
        "{certificate:?}"
    );
}

/// 14,000 episodes.
#[test]
fn no_advice_brings_the_gain_below_the_level() {
    let mut acted = 0;
    for problem in every_problem() {
        let set = episodes(&*problem, EPISODES);
        for advice in [everything, nothing, fails, eager, erratic] as [Decide; 5] {
            for incumbent in [steady, eager, erratic, everything, fails] as [Decide; 5] {
                for level in [0.0, 0.5, 0.95, 1.0] {
                    let [guarded, _, alone] = play(&problem, (advice, true), incumbent, level);
                    acted += certificates(&guarded).map(|kept| kept.acted).sum::<usize>();
                    for (index, (ours, theirs)) in guarded.iter().zip(&alone).enumerate() {
                        hold_to_the_promise(&*problem, &set.get(index), ours, theirs);
                    }
                }
            }
        }
    }
    assert!(acted > 10_000, "the guard acted {acted} times only");
}

#[test]
fn the_incumbent_as_advice_is_left_alone() {
    for problem in problems() {
        for level in [0.3, 0.95, 1.0] {
            let [guarded, alone, _] = play(&problem, (steady, false), steady, level);
            for (certificate, (ours, theirs)) in certificates(&guarded).zip(guarded.iter().zip(&alone)) {
                assert_eq!(ours.actions, theirs.actions);
                assert_eq!((certificate.acted, certificate.rounded), (0, 0));
                assert!(
                    certificate
                        .share()
                        .is_none_or(|share| (share - 1.0).abs() < 1e-12)
                );
            }
        }
    }
}

#[test]
fn level_zero_leaves_alone_what_gains_no_less_than_the_lower_corner() {
    // Fairness and log utility fall with every action: no advice gains less than the lower corner.
    for problem in &problems()[..2] {
        let [guarded, alone, _] = play(problem, (eager, false), steady, 0.0);
        for (ours, theirs) in guarded.iter().zip(&alone) {
            assert_eq!(
                ours.actions[..ours.actions.len() / 12],
                theirs.actions[..ours.actions.len() / 12]
            );
        }
        for certificate in certificates(&guarded) {
            assert_eq!(certificate.acted, 0);
        }
    }
}

#[test]
fn a_guard_that_need_not_act_costs_nothing_and_one_that_acts_says_so() {
    let problem: Arc<dyn Problem> = Arc::new(WeightedFairness::paper());
    let [guarded, _, _] = play(&problem, (eager, false), fails, 0.95);
    for certificate in certificates(&guarded) {
        // An incumbent that always fails takes the lower corner and gains nothing.
        assert_eq!(certificate.incumbent_failures, 12);
        assert_eq!((certificate.incumbent_gain, certificate.share()), (0.0, None));
    }
    let [guarded, _, _] = play(&problem, (nothing, true), steady, 0.95);
    for certificate in certificates(&guarded) {
        assert!(
            certificate.acted > 0 && certificate.advice_failures == 0,
            "{certificate:?}"
        );
    }
    let [guarded, _, _] = play(&problem, (fails, true), steady, 0.95);
    assert!(certificates(&guarded).all(|certificate| certificate.advice_failures == 12));
}

#[test]
fn a_level_that_is_no_share_is_refused() {
    let problem: Arc<dyn Problem> = Arc::new(WeightedFairness::paper());
    let policy = || Policies {
        problem: Arc::clone(&problem),
        decide: steady,
        raw: false,
    };
    for level in [-0.1, 1.1, f64::NAN] {
        let guarded = Guarded::new(
            "g",
            Arc::new(policy()),
            Arc::new(policy()),
            Arc::clone(&problem),
            level,
        );
        assert!(guarded.is_err_and(|error| error.to_string().contains("between 0 and 1")));
    }
}

/// The promise is against the incumbent with every hold spent: what comes back and what passes unused is on top.
#[test]
fn settled_holds_and_skipped_steps_do_not_break_the_promise() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut acted = 0;
    for problem in problems() {
        let set = episodes(&*problem, 60);
        for (advice, raw) in [
            (everything as Decide, true),
            (eager, false),
            (nothing, true),
            (fails, false),
        ] {
            let policy = |decide, raw| {
                let problem = Arc::clone(&problem);
                Arc::new(Policies { problem, decide, raw })
            };
            let beside = policy(steady, false);
            let guarded = Guarded::new("guarded", policy(advice, raw), beside, Arc::clone(&problem), 0.9);
            let guarded = guarded.expect("valid");
            for episode in (0..set.len()).map(|index| set.get(index)) {
                let mut run =
                    EpisodeRun::new(&*problem, episode.horizon(), episode.budgets()).expect("valid");
                let (mut agent, mut open) = (guarded.begin(), Vec::new());
                let mut action = problem.lower().to_vec();
                let mut gain = 0.0;
                while !run.is_over() {
                    let context = episode.context(run.step());
                    let step = run.reveal(context).expect("a valid context");
                    agent
                        .decide(&step.observation(), &mut action)
                        .expect("a decision");
                    gain += problem.cost(problem.lower(), context) - problem.cost(&action, context);
                    open.push(step.hold(&action).expect("a guarded action can be paid"));
                    if rng.random_bool(0.5) {
                        let hold = open.swap_remove(rng.random_range(0..open.len()));
                        let held = run.ledger().held(hold).expect("an open hold");
                        let used: Vec<_> = held
                            .iter()
                            .map(|held| held * rng.random_range(0.0..1.0))
                            .collect();
                        run.settle(hold, &used).expect("at most what was held");
                    }
                    if rng.random_bool(0.1) && !run.is_over() {
                        run.skip(1).expect("a step that is left");
                    }
                }
                let kept = agent.certificate().expect("a guard has one");
                assert!(kept.margin >= -kept.allowance, "{kept:?}");
                assert_eq!(kept.incumbent_failures, 0);
                assert!((kept.gain - gain).abs() <= 1e-9 * gain.abs().max(1.0));
                acted += kept.acted;
            }
        }
    }
    assert!(acted > 100, "the guard acted {acted} times only");
}
