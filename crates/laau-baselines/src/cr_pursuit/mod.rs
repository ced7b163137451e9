//! Competitive-ratio pursuit: each step earns a fixed share of the growth of the offline optimum so far.

mod division;
mod pursuit;
mod water;
mod worst_case;

use laau_core::{
    Agent, Episode, EpisodeRun, Episodes, Error, Fit, FitObserver, FitSets, Fitted, Observation, Policy,
    Projection, Task, expect_option,
};
use rayon::prelude::*;

use self::pursuit::{CheapestAction, Growth, PricedOptimum};
use self::water::WaterLevel;
use self::worst_case::worst_case;
use crate::Stored;
use crate::shared::FairnessBounds;

const NAME: &str = "cr-pursuit";

/// How the competitive ratio `π` is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ratio {
    /// The smallest ratio with which no training episode runs out of budget.
    #[default]
    Calibrated,
    /// `ln θ + 1`, where `θ` is the largest marginal utility of a budget over the smallest, in the contexts of the
    /// training set: safe against every order of such contexts. With several budgets, the largest over them.
    ///
    /// For a separable cost, affine usage of one budget per action, and a lower corner that uses the same in every
    /// context; [`Error::NotApplicable`] for anything else.
    WorstCase,
    /// A given ratio, at least 1.
    Fixed(f64),
}

/// Options of CR-Pursuit.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `ratio` | calibrated | how `π` is chosen | a fixed one is at least 1 |
/// | `tolerance` | 1e-6 | relative width of the bisection for a calibrated ratio | (0, 1) |
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CrPursuitOptions {
    /// How the competitive ratio is chosen.
    pub ratio: Ratio,
    /// The relative width at which the bisection for a calibrated ratio stops.
    pub tolerance: f64,
}

impl Default for CrPursuitOptions {
    fn default() -> Self {
        Self {
            ratio: Ratio::Calibrated,
            tolerance: 1e-6,
        }
    }
}

/// The ratio is found on the training set; the validation set is not needed. Not applicable when the worst-case ratio is
/// not known for the problem.
impl Fit for CrPursuitOptions {
    fn fit(&self, task: &Task, sets: FitSets<'_>, _: u64, _: &mut dyn FitObserver) -> Result<Fitted, Error> {
        let train = sets.train;
        let good = self.tolerance > 0.0 && self.tolerance < 1.0;
        expect_option(
            good,
            NAME,
            "tolerance",
            "more than 0 and less than 1",
            self.tolerance,
        )?;
        let ratio = match self.ratio {
            Ratio::Fixed(ratio) => ratio,
            Ratio::WorstCase => {
                task.check_episodes("training episode", train)?;
                worst_case(task, train)?
            }
            Ratio::Calibrated => {
                task.check_episodes("training episode", train)?;
                calibrated(task, train, self.tolerance)?
            }
        };
        Ok(Fitted::new(CrPursuit::new(task, ratio)?)
            .with("ratio", ratio)
            .with_document(Stored::CrPursuit { ratio }.document()))
    }
}

/// CR-Pursuit (Lin et al. 2019) with a given competitive ratio `π`.
///
/// Utility is counted from the box's lower corner. With `η_t` the best utility of the revealed steps, each step takes
/// the cheapest action that earns `(η_t − η_{t−1}) / π`. As long as that can be paid, the utility is exactly the
/// offline optimum's over `π` on every episode: this is its guarantee. Where it cannot be paid, the action is cut
/// to what is available, and counted as a projection.
///
/// - Weighted fairness: a water level kept in two heaps, amortised `O(log t)` per step.
/// - Any other problem: the pseudo-optimum through its prices, started at those of the step before.
/// - Several budgets (inventories) that no action connects, with a separable cost: divide and conquer. The pseudo-optimum is
///   the sum of one per inventory. Each is pursued on its own, with its own growth and its own allowance of the step, as
///   if it were alone, so that none is drained for what another should earn. What is feasible for each is feasible for
///   all, and so the largest `ln θ + 1` is.
/// - Budgets that actions or the cost connect: the guarantee stays (an episode that is never cut earns the optimum over `π`), but no
///   ratio is known that is always feasible. The action is the one with the smallest `max_m g_m / b_m` that
///   earns the utility asked for; a heuristic. Parts that are not connected are divided all the same.
#[derive(Clone)]
pub struct CrPursuit {
    task: Task,
    ratio: f64,
    fair: Option<FairnessBounds>,
}

impl CrPursuit {
    /// A policy with a given ratio.
    ///
    /// # Errors
    /// Unless the ratio is finite and at least 1.
    pub fn new(task: &Task, ratio: f64) -> Result<Self, Error> {
        let good = ratio.is_finite() && ratio >= 1.0;
        expect_option(good, NAME, "ratio", "a finite number of at least 1", ratio)?;
        Ok(Self {
            task: task.clone(),
            ratio,
            fair: FairnessBounds::of(&*task.problem),
        })
    }
}

impl Policy for CrPursuit {
    fn name(&self) -> &str {
        NAME
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        match self.fair {
            Some(fair) => Box::new(FairAgent {
                task: &self.task,
                ratio: self.ratio,
                fair,
                water: None,
                projection: Projection::new(&*self.task.problem),
                cuts: 0,
            }),
            None => Box::new(PricedAgent {
                ratio: self.ratio,
                source: Source::Found(Box::new(PricedOptimum::new(&*self.task.solver))),
                cheapest: CheapestAction::new(&*self.task.solver),
                cuts: 0,
            }),
        }
    }
}

/// Weighted fairness: `x = lower · exp((η_t − η_{t−1}) / (π c))`.
struct FairAgent<'a> {
    task: &'a Task,
    ratio: f64,
    fair: FairnessBounds,
    water: Option<WaterLevel>,
    projection: Projection,
    cuts: usize,
}

impl Agent for FairAgent<'_> {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        let FairnessBounds { lower, .. } = self.fair;
        let context = observation.context();
        let excess = || observation.budgets[0] - observation.horizon as f64 * lower;
        let water = self
            .water
            .get_or_insert_with(|| WaterLevel::new(self.fair, excess()));
        let growth = water.reveal(context[0]);
        action[0] = fair_action(lower, context[0], growth, self.ratio);
        let cut = self
            .projection
            .apply(&*self.task.problem, context, observation.available, action);
        self.cuts += usize::from(cut);
        Ok(())
    }

    fn projections(&self) -> usize {
        self.cuts
    }
}

fn fair_action(lower: f64, weight: f64, growth: f64, ratio: f64) -> f64 {
    if weight > 0.0 {
        lower * (growth / (ratio * weight)).exp()
    } else {
        lower
    }
}

/// Where the growth of the pseudo-optimum comes from.
enum Source<'a> {
    Found(Box<PricedOptimum>),
    /// Per step, from an earlier pass over the same episode.
    Known(&'a [Growth]),
}

/// Any problem.
struct PricedAgent<'a> {
    ratio: f64,
    source: Source<'a>,
    cheapest: CheapestAction,
    cuts: usize,
}

impl Agent for PricedAgent<'_> {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        let found;
        let growth = match &mut self.source {
            Source::Found(optimum) => {
                found = optimum.reveal(observation)?;
                &found
            }
            Source::Known(growths) => &growths[observation.step],
        };
        let cut = self.cheapest.find(observation, growth, self.ratio, action)?;
        self.cuts += usize::from(cut);
        Ok(())
    }

    fn projections(&self) -> usize {
        self.cuts
    }
}

/// The smallest ratio with which no episode is cut.
///
/// The growth of the pseudo-optimum does not depend on the ratio, and is found once per episode. Going through the
/// episodes in order, only one that is cut with the ratio so far needs a bisection, so that a few do.
fn calibrated(task: &Task, train: &Episodes, tolerance: f64) -> Result<f64, Error> {
    if let Some(fair) = FairnessBounds::of(&*task.problem) {
        let needs = (0..train.len()).into_par_iter().map(|index| {
            let episode = train.get(index);
            let excess = episode.budgets()[0] - episode.horizon() as f64 * fair.lower;
            let mut water = WaterLevel::new(fair, excess);
            let growth: Vec<f64> = episode.contexts().iter().map(|c| water.reveal(*c)).collect();
            smallest_ratio(1.0, tolerance, |ratio| {
                let steps = episode.contexts().iter().zip(&growth);
                let used: f64 = steps
                    .map(|(c, g)| fair_action(fair.lower, *c, *g, ratio) - fair.lower)
                    .sum();
                Ok(used <= excess)
            })
        });
        return needs.try_reduce(|| 1.0, |a, b| Ok(a.max(b)));
    }
    let passes: Vec<Vec<Growth>> = (0..train.len())
        .into_par_iter()
        .map(|index| growth_of(task, &train.get(index)))
        .collect::<Result<_, _>>()?;
    let mut ratio = 1.0;
    for (episode, growths) in train.iter().zip(&passes) {
        ratio = smallest_ratio(ratio, tolerance, |ratio| {
            let mut agent = PricedAgent {
                ratio,
                source: Source::Known(growths),
                cheapest: CheapestAction::new(&*task.solver),
                cuts: 0,
            };
            play(task, &episode, &mut agent)?;
            Ok(agent.cuts == 0)
        })?;
    }
    Ok(ratio)
}

/// The smallest ratio from `least` on that is feasible, to a relative tolerance, from above.
fn smallest_ratio(
    least: f64,
    tolerance: f64,
    feasible: impl Fn(f64) -> Result<bool, Error>,
) -> Result<f64, Error> {
    const LARGEST: f64 = 1e9;
    if feasible(least)? {
        return Ok(least);
    }
    let (mut low, mut high) = (least, 2.0 * least);
    while high < LARGEST && !feasible(high)? {
        low = high;
        high *= 2.0;
    }
    while high - low > tolerance * low {
        let middle = 0.5 * (low + high);
        if feasible(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(high)
}

/// The growth of the pseudo-optimum at each step.
fn growth_of(task: &Task, episode: &Episode<'_>) -> Result<Vec<Growth>, Error> {
    struct Watcher {
        optimum: PricedOptimum,
        growths: Vec<Growth>,
    }
    impl Agent for Watcher {
        fn decide(&mut self, observation: &Observation<'_>, _: &mut [f64]) -> Result<(), Error> {
            self.growths.push(self.optimum.reveal(observation)?);
            Ok(())
        }
    }
    let mut watcher = Watcher {
        optimum: PricedOptimum::new(&*task.solver),
        growths: Vec::with_capacity(episode.horizon()),
    };
    play(task, episode, &mut watcher)?;
    Ok(watcher.growths)
}

/// Plays an episode; an action is the lower corner until the agent writes another.
fn play(task: &Task, episode: &Episode<'_>, agent: &mut dyn Agent) -> Result<(), Error> {
    let mut run = EpisodeRun::new(&*task.problem, episode.horizon(), episode.budgets())?;
    let mut action = task.problem.lower().to_vec();
    for step in 0..episode.horizon() {
        action.copy_from_slice(task.problem.lower());
        let step = run.reveal(episode.context(step))?;
        agent.decide(&step.observation(), &mut action)?;
        step.pay(&action)?;
    }
    Ok(())
}
