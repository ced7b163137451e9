//! The guard: a policy that never gains less than a share of what another one would have gained.

mod balance;
mod document;
mod fit;
mod layer;
mod safe;
mod shadow;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use self::balance::Balance;
pub use self::document::GuardedDocument;
pub use self::fit::{Guard, Incumbent};
pub use self::layer::{Cap, CappedLayer};
use self::safe::{SafeSet, Scratch};
pub use self::shadow::{Shadow, ShadowEpisode, ShadowStep};
use crate::episode_run::EpisodeRun;
use crate::error::{Error, expect_finite, expect_option};
use crate::policy::{Agent, Observation, Policy};
use crate::problem::Problem;
use crate::projection::Projection;
use crate::solver::{Query, Solutions};
use crate::task::Task;

/// Any policy (the *advice*) behind a guard: on every input, whatever the advice, it gains at least a share `γ` (the
/// *level*) of what an *incumbent* would have gained with the same budgets.
///
/// The incumbent is played beside, on a ledger of its own. With `ℓ` the lower corner of the box, `gain(x) = cost(ℓ) − cost(x)`,
/// `G` the gain so far and `r` what remains of a budget less the reserve (with a dagger those of the incumbent), an action
/// `x` is *safe* if
///
/// ```text
///     G_{t−1} + gain_t(x) ≥ γ G†_t      and      r_{t−1} − (g(x, c_t) − least) ≥ γ r†_t   for every budget;
/// ```
///
/// at the last step the second condition is only `r_N ≥ 0`. By concavity of the gain, convexity of the usage and
/// induction, `ℓ + γ(x† − ℓ)` is always safe, so that there is a safe action at every step; and who is safe at the last
/// step has `G_N ≥ γ G†_N`. `docs/guard.md` has the proof, and says what is not promised.
///
/// Advice that is safe is played as it is. Otherwise the guard *acts*: see [`Form`].
///
/// Both conditions are kept as exact sums and compared without rounding. Only where no float is safe, because the safe
/// action lies between two of them, the promise is short by that rounding: [`Certificate::allowance`].
///
/// ```
/// use std::sync::Arc;
/// use laau_core::problems::WeightedFairness;
/// use laau_core::{Agent, Episodes, Error, Guarded, Observation, Policy, rollout};
///
/// struct Always(&'static str, f64);
/// impl Policy for Always {
///     fn name(&self) -> &str {
///         self.0
///     }
///     fn begin(&self) -> Box<dyn Agent + '_> {
///         Box::new(self)
///     }
/// }
/// impl Agent for &Always {
///     fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
///         action[0] = self.1.min(observation.available[0]);
///         Ok(())
///     }
/// }
///
/// let problem = Arc::new(WeightedFairness::paper());
/// let (spender, even) = (Arc::new(Always("spender", 40.0)), Arc::new(Always("even", 10.0)));
/// let guarded = Guarded::new("guarded", spender, even, problem.clone(), 0.9)?;
/// let episodes = Episodes::new(4, 1, 1, vec![0.1, 0.9, 0.5, 0.7], vec![40.0])?;
/// let played = rollout(&*problem, &guarded, &episodes.get(0))?;
/// let certificate = played.certificate.expect("a guarded policy has one");
/// assert!(certificate.margin >= 0.0 && certificate.gain >= 0.9 * certificate.incumbent_gain);
/// # Ok::<(), Error>(())
/// ```
pub struct Guarded {
    name: String,
    advice: Arc<dyn Policy>,
    incumbent: Arc<dyn Policy>,
    problem: Arc<dyn Problem>,
    level: f64,
    layer: Option<CappedLayer>,
}

/// How the guard changes advice that is not safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// The farthest safe action on the way from the incumbent's share, `ℓ + γ(x† − ℓ)`, to what was advised. For any advice.
    Segment,
    /// The layer decides again at the advised prices, with the safe actions as its constraints ([`CappedLayer`]). For advice
    /// that has prices; where it has none, or no safe action is found, the segment form stands in.
    Layer,
}

/// What a guard kept of its promise in an episode.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Certificate {
    /// The level `γ`.
    pub level: f64,
    /// How the guard acts.
    pub form: Form,
    /// The least of `G_t − γ G†_t` over the steps so far, rounded down: not below zero but for [`Certificate::allowance`].
    pub margin: f64,
    /// `G_t − γ G†_t` after the last step, rounded down.
    pub lead: f64,
    /// The gain over the lower corner, `G_N`.
    pub gain: f64,
    /// What the incumbent gained beside, `G†_N`.
    pub incumbent_gain: f64,
    /// Steps in which the advice was not safe, and was changed.
    pub acted: usize,
    /// Steps in which no float was safe, and the nearest to the incumbent's share was taken.
    pub rounded: usize,
    /// How far below zero those steps may bring the margin: each by what a few floats more or less of its action cost, and
    /// 1,024 units in the last place of its largest cost, a 10^-12th part of it at most. Zero if there were no such steps:
    /// the promise is then kept exactly.
    pub allowance: f64,
    /// Steps in which the advice was an error; the incumbent's share was taken.
    pub advice_failures: usize,
    /// Steps in which the incumbent was an error, or could not be paid; it took the lower corner.
    pub incumbent_failures: usize,
}

impl Certificate {
    /// The gain as a share of the incumbent's, where that is above the allowance.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        // In this order a lead that is not negative is never rounded below the level.
        (self.incumbent_gain > self.allowance).then(|| self.level + self.lead / self.incumbent_gain)
    }
}

impl Guarded {
    /// Puts advice behind a guard, in the segment form.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] unless the level is in `[0, 1]`.
    pub fn new(
        name: impl Into<String>,
        advice: Arc<dyn Policy>,
        incumbent: Arc<dyn Policy>,
        problem: Arc<dyn Problem>,
        level: f64,
    ) -> Result<Self, Error> {
        expect_level(level)?;
        Ok(Self {
            name: name.into(),
            advice,
            incumbent,
            problem,
            level,
            layer: None,
        })
    }

    /// Lets the task's layer decide where the guard acts: see [`Form::Layer`].
    #[must_use]
    pub fn in_layer(mut self, task: &Task) -> Self {
        self.layer = Some(CappedLayer::new(task.solver.clone()));
        self
    }

    /// Lets the guard act in the given form.
    #[must_use]
    pub fn in_form(self, form: Form, task: &Task) -> Self {
        match form {
            Form::Layer => self.in_layer(task),
            Form::Segment => Self { layer: None, ..self },
        }
    }

    /// How the guard acts.
    #[must_use]
    pub fn form(&self) -> Form {
        if self.layer.is_some() {
            Form::Layer
        } else {
            Form::Segment
        }
    }
}

fn expect_level(level: f64) -> Result<(), Error> {
    expect_option(
        (0.0..=1.0).contains(&level),
        "guard",
        "level",
        "between 0 and 1",
        level,
    )
}

impl Policy for Guarded {
    fn name(&self) -> &str {
        &self.name
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        let dimensions = self.problem.dimensions();
        let zeros = |count| vec![0.0; count];
        Box::new(GuardedAgent {
            problem: &*self.problem,
            advice: self.advice.begin(),
            incumbent: self.incumbent.begin(),
            layer: self.layer.clone(),
            play: None,
            shadow_action: zeros(dimensions.actions),
            share: zeros(dimensions.actions),
            usage: zeros(dimensions.budgets),
            solution: Solutions::new(dimensions, 1),
            scratch: Scratch::new(&*self.problem),
            projection: Projection::new(&*self.problem),
            certificate: Certificate {
                level: self.level,
                form: self.form(),
                margin: f64::INFINITY,
                lead: 0.0,
                gain: 0.0,
                incumbent_gain: 0.0,
                acted: 0,
                rounded: 0,
                allowance: 0.0,
                advice_failures: 0,
                incumbent_failures: 0,
            },
            last_acted: false,
            unconverged: 0,
        })
    }
}

struct GuardedAgent<'a> {
    problem: &'a dyn Problem,
    advice: Box<dyn Agent + 'a>,
    incumbent: Box<dyn Agent + 'a>,
    layer: Option<CappedLayer>,
    /// The incumbent's episode and the lead over it, from the first step on.
    play: Option<(EpisodeRun<'a>, Balance)>,
    shadow_action: Vec<f64>,
    /// The incumbent's share, `ℓ + γ(x† − ℓ)`.
    share: Vec<f64>,
    usage: Vec<f64>,
    solution: Solutions,
    scratch: Scratch,
    projection: Projection,
    certificate: Certificate,
    last_acted: bool,
    /// Actions of its own layer that were short of its tolerance, and played as advised.
    unconverged: usize,
}

/// What came of asking for advice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Advice {
    /// Nothing: it was an error.
    Failed,
    /// An action, which may be safe.
    Action,
    /// An action that is safe.
    Safe,
    /// An action within the limits, which change it.
    Limited,
}

impl Agent for GuardedAgent<'_> {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        let context = observation.context();
        let lower_cost = self.problem.cost(self.problem.lower(), context);
        let incumbent_cost = self.shadow_step(observation)?;
        let finite = [lower_cost, incumbent_cost];
        expect_finite("the cost of the lower corner and of the incumbent", &finite)?;
        let (shadow, balance) = self.play.as_mut().expect("the shadow step has opened it");
        let cost = balance.limits(lower_cost, incumbent_cost, shadow.usage(), &mut self.usage);
        if observation.is_last() {
            // What is not used now is lost: all of it may go.
            self.usage.copy_from_slice(observation.available);
        }
        self.certificate.gain += lower_cost;
        self.certificate.incumbent_gain += lower_cost - incumbent_cost;

        let advice = self.consult(observation, cost, action);
        let advised = advice != Advice::Failed;
        let set = SafeSet {
            problem: self.problem,
            context,
            cost,
            usage: &self.usage,
        };
        self.last_acted = match advice {
            Advice::Safe => false,
            Advice::Action => !set.contains(action, &mut self.scratch),
            Advice::Limited | Advice::Failed => true,
        };
        self.certificate.acted += usize::from(self.last_acted);
        if self.last_acted && advice != Advice::Limited {
            for ((share, &lower), &played) in
                (self.share.iter_mut().zip(self.problem.lower())).zip(&self.shadow_action)
            {
                *share = (self.certificate.level.mul_add(played - lower, lower)).clamp(lower, played);
            }
            let found = advised
                && self.layer.as_mut().is_some_and(|layer| {
                    let Some(prices) = self.advice.multiplier() else {
                        return false;
                    };
                    let query = Query {
                        context,
                        multiplier: prices,
                        available: &self.usage,
                    };
                    let solved = layer.solve_near(query, action, cost, self.solution.row_mut(0));
                    let within =
                        solved.is_ok() && set.contains(self.solution.row(0).action, &mut self.scratch);
                    if within {
                        action.copy_from_slice(self.solution.row(0).action);
                    }
                    within
                });
            if !found {
                self.solution.columns_mut().actions.copy_from_slice(action);
                action.copy_from_slice(&self.share);
                if advised {
                    set.walk(self.solution.row(0).action, action, &mut self.scratch);
                }
                if !set.contains(action, &mut self.scratch) {
                    let allowance = settle(
                        &set,
                        observation.available,
                        action,
                        &mut self.share,
                        &mut self.scratch,
                        &mut self.projection,
                    );
                    self.certificate.rounded += usize::from(allowance > 0.0);
                    self.certificate.allowance += allowance;
                    // For its cost and usage alone.
                    set.contains(action, &mut self.scratch);
                }
            }
        }
        // What is played is what the set was last asked about, whichever way it was found.
        let played_cost = self.scratch.cost();
        let (_, balance) = self.play.as_mut().expect("the shadow step has opened it");
        balance.pay(played_cost, self.scratch.usage());
        self.certificate.gain -= played_cost;
        self.certificate.lead = balance.lead();
        self.certificate.margin = self.certificate.margin.min(self.certificate.lead);
        Ok(())
    }

    fn multiplier(&self) -> Option<&[f64]> {
        self.advice.multiplier()
    }

    fn projections(&self) -> usize {
        self.advice.projections()
    }

    fn unconverged(&self) -> usize {
        self.advice.unconverged() + self.unconverged
    }

    fn certificate(&self) -> Option<Certificate> {
        Some(self.certificate)
    }

    fn guarded(&self) -> bool {
        self.last_acted
    }
}

impl GuardedAgent<'_> {
    /// Plays the incumbent's step on its own ledger; gives its cost.
    fn shadow_step(&mut self, observation: &Observation<'_>) -> Result<f64, Error> {
        let (problem, level) = (self.problem, self.certificate.level);
        if self.play.is_none() {
            let mut least = vec![0.0; observation.budgets.len()];
            problem.least_usage(&mut least);
            let run = EpisodeRun::new(problem, observation.horizon, observation.budgets)?;
            let balance = Balance::new(level, observation.budgets, least, observation.horizon);
            self.play = Some((run, balance));
        }
        let (run, _) = self.play.as_mut().expect("it has just been opened");
        let context = observation.context();
        let step = run.reveal(context)?;
        self.shadow_action.copy_from_slice(problem.lower());
        let decided = self
            .incumbent
            .decide(&step.observation(), &mut self.shadow_action);
        if decided.is_err() {
            self.certificate.incumbent_failures += 1;
            self.shadow_action.copy_from_slice(problem.lower());
        }
        if let Err(refused) = step.pay(&self.shadow_action) {
            self.certificate.incumbent_failures += 1;
            self.shadow_action.copy_from_slice(problem.lower());
            refused.step.pay(&self.shadow_action)?;
        }
        Ok(problem.cost(&self.shadow_action, context))
    }

    /// Asks for advice, and brings it into the box.
    ///
    /// A guard with a layer asks for the prices alone, where there are such: its own layer then decides for both, and a copy of the
    /// advice's is never made. A guard that acted at the step before will likely act again. It has the layer decide within the
    /// limits at once; only if it is not clear whether these matter does the layer decide without them.
    fn consult(&mut self, observation: &Observation<'_>, cost: f64, action: &mut [f64]) -> Advice {
        action.copy_from_slice(self.problem.lower());
        let priced = if self.layer.is_some() {
            self.advice.price(observation)
        } else {
            None
        };
        let decided = match priced {
            None => self.advice.decide(observation, action),
            Some(Err(error)) => Err(error),
            Some(Ok(())) => match self.try_limits(observation, cost) {
                Some(advice) => {
                    action.copy_from_slice(self.solution.row(0).action);
                    return advice;
                }
                None => self.decide_at_prices(observation, action),
            },
        };
        self.certificate.advice_failures += usize::from(decided.is_err());
        for ((x, &lower), &upper) in action
            .iter_mut()
            .zip(self.problem.lower())
            .zip(self.problem.upper())
        {
            *x = if x.is_nan() { lower } else { x.clamp(lower, upper) };
        }
        if decided.is_ok() {
            Advice::Action
        } else {
            Advice::Failed
        }
    }

    /// Where the guard expects to act, has the layer decide at the advised prices within the limits; what came of it, if that is
    /// safe and it is clear whether the limits changed it.
    ///
    /// By duality, the limits cost the layer's objective at most their duals times what they take from the budgets. Where that is
    /// nothing at all, the answer within the limits is the one without them.
    fn try_limits(&mut self, observation: &Observation<'_>, cost: f64) -> Option<Advice> {
        /// A loss that counts, relative to the objective: above the solvers' rounding.
        const LOSS: f64 = 1e-9;
        let (Some(layer), Some(prices), true) = (&mut self.layer, self.advice.multiplier(), self.last_acted)
        else {
            return None;
        };
        let query = Query {
            context: observation.context(),
            multiplier: prices,
            available: &self.usage,
        };
        let set = SafeSet {
            problem: self.problem,
            context: query.context,
            cost,
            usage: &self.usage,
        };
        let cap = layer.solve(query, cost, self.solution.row_mut(0)).ok()?;
        let solution = self.solution.row(0);
        if !solution.status.is_solved() || !set.contains(solution.action, &mut self.scratch) {
            return None;
        }
        let taken = observation.available.iter().zip(&self.usage);
        let loss: f64 = (solution.duals.iter().zip(taken))
            .map(|(dual, (available, most))| dual * (available - most).max(0.0))
            .sum();
        let paid: f64 = (prices.iter().zip(self.scratch.usage()))
            .map(|(price, used)| price * used)
            .sum();
        match cap {
            Cap::Binding { .. } => Some(Advice::Limited),
            _ if loss > LOSS * (self.scratch.cost().abs() + paid) => Some(Advice::Limited),
            Cap::Free if loss == 0.0 => Some(Advice::Safe),
            _ => None,
        }
    }

    /// What an agent that prices does with its prices.
    fn decide_at_prices(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        let (Some(layer), Some(prices)) = (&mut self.layer, self.advice.multiplier()) else {
            return Ok(());
        };
        let query = Query {
            context: observation.context(),
            multiplier: prices,
            available: observation.available,
        };
        layer.solve_unlimited(query, self.solution.row_mut(0))?;
        let solution = self.solution.row(0);
        action.copy_from_slice(solution.action);
        self.unconverged += usize::from(!solution.status.is_solved());
        solution.status.expect_feasible(observation.step)
    }
}

/// Finds an action next to the incumbent's share where that is not safe by rounding; gives the allowance that it takes, or
/// zero for a safe one.
///
/// The budgets come first: a budget that is short at the end would cost more than a rounding.
fn settle(
    set: &SafeSet<'_>,
    available: &[f64],
    action: &mut [f64],
    moved: &mut [f64],
    scratch: &mut Scratch,
    projection: &mut Projection,
) -> f64 {
    /// Floats to either side that are tried, as powers of two.
    const REACH: u32 = 5;
    /// Units in the last place that a cost may be off. A power of a large exponent is off by so many as that has digits to
    /// lose; no problem here by more than a tenth of these.
    const ROUNDINGS: f64 = 1024.0;
    let (lower, upper) = (set.problem.lower(), set.problem.upper());
    let steps = || (0..REACH).flat_map(|k| [1_i32 << k, -(1_i32 << k)]);
    let move_by = |floats: i32, action: &[f64], moved: &mut [f64]| {
        for (i, (moved, x)) in moved.iter_mut().zip(action).enumerate() {
            let next = if floats > 0 { f64::next_up } else { f64::next_down };
            let nudged = (0..floats.abs()).fold(*x, |x, _| next(x));
            *moved = nudged.clamp(lower[i], upper[i]);
        }
    };
    for floats in steps() {
        move_by(floats, action, moved);
        if set.contains(moved, scratch) {
            action.copy_from_slice(moved);
            return 0.0;
        }
    }
    // None is: take the nearest that keeps the budgets' lead, else one that can at least be paid.
    if !set.affords(action, scratch) {
        let afforded = steps().any(|floats| {
            move_by(floats, action, moved);
            set.affords(moved, scratch)
        });
        if afforded {
            action.copy_from_slice(moved);
        } else {
            projection.apply(set.problem, set.context, available, action);
        }
    }
    let cost = set.problem.cost(action, set.context);
    let unit = |value: f64| value.next_up() - value;
    let sensitivity = steps().fold(0.0, |most: f64, floats| {
        move_by(floats, action, moved);
        most.max((set.problem.cost(moved, set.context) - cost).abs())
    });
    let largest = cost
        .abs()
        .max(set.problem.cost(lower, set.context).abs())
        .max(set.cost.abs());
    ROUNDINGS * unit(largest) + 4.0 * sensitivity + f64::MIN_POSITIVE
}
