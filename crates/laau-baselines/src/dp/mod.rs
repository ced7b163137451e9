//! Stochastic dynamic programming: near-optimal among online policies if the estimated contexts are the true ones.

mod chain;
mod step;
mod table;

use std::sync::Arc;

use laau_core::{
    Agent, Dimensions, Error, Fit, FitObserver, FitSets, Fitted, Observation, Policy, Projection,
    SmoothProblem, Task, expect_option,
};

pub use self::chain::Chain;
use self::step::ScalarStep;
use self::table::PriceTable;
use crate::Stored;
use crate::shared::History;

pub(crate) const NAME: &str = "dp";

/// What the policy remembers of an episode, besides the remaining budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// Nothing: contexts are independent.
    Independent,
    /// The context of the step before.
    Markov,
    /// The mean of the contexts so far.
    RunningMean,
    /// Whichever of the three has the largest utility on the validation set.
    #[default]
    Best,
}

/// Options of the dynamic program.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `memory` | best | what is remembered | |
/// | `atoms` | 48 | parts of the distribution of a context | 1 to 4096 |
/// | `states` | 16 | remembered contexts or running means | 2 to 4096 |
/// | `points` | 96 | points of the budget grid | 2 to 65,536 |
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DpOptions {
    /// What is remembered.
    pub memory: Memory,
    /// Parts of the distribution of a context.
    pub atoms: usize,
    /// Remembered contexts or running means.
    pub states: usize,
    /// Points of the budget grid.
    pub points: usize,
}

impl Default for DpOptions {
    fn default() -> Self {
        Self {
            memory: Memory::default(),
            atoms: 48,
            states: 16,
            points: 96,
        }
    }
}

/// Estimates the contexts' distribution on the training set and solves the recursion; what is to be remembered is chosen
/// by utility on the validation set unless it is given. Applicable to one action, one budget and a scalar context.
impl Fit for DpOptions {
    fn fit(&self, task: &Task, sets: FitSets<'_>, _: u64, _: &mut dyn FitObserver) -> Result<Fitted, Error> {
        let FitSets { train, validation } = sets;
        applicable(&*task.problem)?;
        task.check_episodes("training episode", train)?;
        let in_range = |option, value: usize, least: usize, most: usize, expected| {
            expect_option(
                (least..=most).contains(&value),
                NAME,
                option,
                expected,
                value as f64,
            )
        };
        in_range("atoms", self.atoms, 1, 4096, "1 to 4096")?;
        in_range("states", self.states, 2, 4096, "2 to 4096")?;
        in_range("points", self.points, 2, 65_536, "2 to 65536")?;
        let memories = match self.memory {
            Memory::Best => {
                task.check_episodes("validation episode", validation)?;
                vec![Memory::Independent, Memory::Markov, Memory::RunningMean]
            }
            one => vec![one],
        };
        let mut best: Option<(f64, &str, Stored, DynamicProgram)> = None;
        for memory in &memories {
            let (kind, chain) = match memory {
                Memory::Independent | Memory::Best => ("independent", Chain::independent(train, self.atoms)),
                Memory::Markov => ("markov", Chain::markov(train, self.states)),
                Memory::RunningMean => (
                    "running-mean",
                    Chain::running_mean(train, self.states, self.atoms),
                ),
            };
            let stored = Stored::Dp {
                chain: chain.clone(),
                horizon: train.horizon(),
                points: self.points,
            };
            let policy = DynamicProgram::new(task, chain, train.horizon(), self.points)?;
            let utility = if memories.len() == 1 {
                0.0
            } else {
                task.mean_utility(&policy, validation)?
            };
            if best.as_ref().is_none_or(|(most, ..)| utility > *most) {
                best = Some((utility, kind, stored, policy));
            }
        }
        match best {
            Some((utility, kind, stored, policy)) => {
                let fitted = Fitted::new(policy)
                    .with_document(stored.document())
                    .with("memory", kind)
                    .with("atoms", self.atoms)
                    .with("points", self.points);
                Ok(if memories.len() == 1 {
                    fitted
                } else {
                    fitted.with("validation_utility", utility)
                })
            }
            None => Err(Error::Policy {
                policy: NAME.to_owned(),
                reason: "expected something to remember".to_owned(),
            }),
        }
    }
}

/// The optimal policy for contexts that follow a [`Chain`], up to the grid.
///
/// With `V_k(e, s)` the expected utility of the `k` steps to come, which have the excess budget `e` (what remains less
/// their reserve) when `s` is remembered, a step takes the action that minimises
/// `l(x, c) − V_k(available − g(x, c), s)`. Only the slope of `V_k` in `e` matters, the price of the budget; by the
/// envelope theorem it follows its own recursion: the price of a state is the mean, over the next context, of the price at
/// the best action there.
///
/// One budget, one action and a scalar context. With more steps to come than the table has, at most 256, the longest table is
/// taken at the same excess per step.
pub struct DynamicProgram {
    problem: Arc<dyn SmoothProblem>,
    chain: Chain,
    table: PriceTable,
}

impl DynamicProgram {
    /// Solves the recursion for a chain, for horizons up to the given one, on a budget grid of `points` points.
    ///
    /// # Errors
    /// [`Error::NotApplicable`] unless the problem has one action, one budget and a scalar context; or for a chain whose
    /// tables do not fit each other.
    pub fn new(task: &Task, chain: Chain, horizon: usize, points: usize) -> Result<Self, Error> {
        applicable(&*task.problem)?;
        chain.check()?;
        expect_option(points >= 2, NAME, "points", "at least 2", points as f64)?;
        let levels = match &chain {
            Chain::RunningMean { steps, .. } => *steps,
            Chain::Independent { .. } | Chain::Markov { .. } => horizon.saturating_sub(1),
        };
        let table = PriceTable::solve(&*task.problem, &chain, levels, points);
        Ok(Self {
            problem: Arc::clone(&task.problem),
            chain,
            table,
        })
    }
}

impl Policy for DynamicProgram {
    fn name(&self) -> &str {
        NAME
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(DpAgent {
            program: self,
            history: History::default(),
            price: [0.0],
            projection: Projection::new(&*self.problem),
            projections: 0,
        })
    }
}

struct DpAgent<'a> {
    program: &'a DynamicProgram,
    history: History,
    price: [f64; 1],
    projection: Projection,
    projections: usize,
}

impl Agent for DpAgent<'_> {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        let DynamicProgram {
            problem,
            chain,
            table,
        } = self.program;
        self.history.see(observation);
        let position = chain.locate(self.history.entry(0));
        let left = observation.steps_left();
        let best =
            ScalarStep::new(&**problem).best(observation.context()[0], observation.available[0], |rest| {
                table.price(left, position, rest)
            });
        action[0] = best.action;
        self.price[0] = best.price;
        // Rounding may overspend by a last bit.
        let (context, available) = (observation.context(), observation.available);
        let moved = self.projection.apply(&**problem, context, available, action);
        self.projections += usize::from(moved);
        Ok(())
    }

    /// The history reads another episode from its start.
    fn restart(&mut self) -> bool {
        self.price = [0.0];
        self.projections = 0;
        true
    }

    fn multiplier(&self) -> Option<&[f64]> {
        Some(&self.price)
    }

    fn projections(&self) -> usize {
        self.projections
    }
}

fn applicable(problem: &dyn SmoothProblem) -> Result<(), Error> {
    let Dimensions {
        actions,
        budgets,
        context,
    } = problem.dimensions();
    if (actions, budgets, context) == (1, 1, 1) {
        Ok(())
    } else {
        Err(Error::NotApplicable {
            policy: NAME.to_owned(),
            reason: format!(
                "expected one action, one budget and a scalar context, found {actions}, {budgets} and {context}"
            ),
        })
    }
}
