//! `adversary`: searches for contexts, budgets, advice and an incumbent that break the guard's promise.

use std::sync::Arc;

use laau_core::{
    Agent, Episodes, Error, Guarded, Multiplier, Observation, Policy, Pricer, Problem, Projection, Task,
    Unrolled, rollout,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::guard::promise;
use super::policies::{honest, task};
use super::{Audit, Failure, Tally};
use crate::draw::{self, Size, between_powers, chance};
use crate::episodes::{EpisodeCase, Played};
use crate::query::typical_prices;

/// Evaluations of one climb.
const EVALUATIONS: usize = 500;

pub(crate) struct Adversary;

impl Audit for Adversary {
    type Case = EpisodeCase;

    fn draw(rng: &mut ChaCha8Rng) -> EpisodeCase {
        let size = Size {
            actions: 3,
            budgets: 3,
            wild: 0.02,
        };
        let recipe = draw::recipe(rng, size);
        let horizon = rng.random_range(1..=6);
        EpisodeCase::draw(recipe, rng, size, horizon, 1)
    }

    fn check(case: &EpisodeCase) -> Result<Tally, Failure> {
        let Ok(played) = case.resolve() else {
            return Ok(Tally::REFUSED);
        };
        let mut rng = ChaCha8Rng::seed_from_u64(case.seed);
        let task = task(&played).map_err(|error| Failure::new("task", error))?;
        let mut attack = Attack::new(case, &played, &mut rng);
        let mut best = attack.shortfall(&played, &task)?;
        let mut tally = Tally::default();
        for _ in 0..EVALUATIONS {
            let kept = attack.clone();
            attack.change(&mut rng);
            let found = attack.shortfall(&played, &task);
            // What the problem refuses was not played.
            tally.episodes += u64::from(matches!(found, Ok(Some(_))));
            match found {
                Ok(Some(shortfall)) if best.is_none_or(|best| shortfall >= best) => best = Some(shortfall),
                Ok(_) => attack = kept,
                Err(failure) => {
                    return Err(Failure::new(
                        failure.kind,
                        format!("{}: {attack:?}", failure.message),
                    ));
                }
            }
        }
        Ok(tally)
    }
}

/// All that an adversary may choose.
#[derive(Debug, Clone)]
struct Attack {
    horizon: usize,
    level: f64,
    /// Whether the layer decides where the guard acts, with advice that prices.
    layered: bool,
    contexts: Vec<f64>,
    budgets: Vec<f64>,
    /// Actions that are advised, `N × d`, whatever can be paid.
    advice: Vec<f64>,
    /// Prices that are advised instead in the layer form, `N × M`.
    prices: Vec<f64>,
    /// Actions that the incumbent wants; they are made payable.
    incumbent: Vec<f64>,
}

impl Attack {
    fn new(case: &EpisodeCase, played: &Played, rng: &mut ChaCha8Rng) -> Self {
        let (problem, episode) = (&*played.problem, played.episodes.get(0));
        let mut actions = || -> Vec<f64> {
            let bounds = || problem.lower().iter().zip(problem.upper());
            (0..episode.horizon())
                .flat_map(|_| bounds().collect::<Vec<_>>())
                .map(|(lower, upper)| lower + rng.random_range(0.0..=1.0) * (upper - lower))
                .collect()
        };
        let (advice, incumbent) = (actions(), actions());
        let prices = (0..episode.horizon())
            .flat_map(|step| typical_prices(&case.recipe, episode.context(step)))
            .map(|price| price * between_powers(rng, -1.5, 0.5))
            .collect();
        Self {
            horizon: episode.horizon(),
            level: rng.random_range(0.0..=1.0),
            layered: chance(rng, 0.5),
            contexts: episode.contexts().to_vec(),
            budgets: episode.budgets().to_vec(),
            advice,
            prices,
            incumbent,
        }
    }

    /// Changes one number: by a factor, a little, by last bits, or to zero.
    fn change(&mut self, rng: &mut ChaCha8Rng) {
        let tables = [
            &mut self.contexts,
            &mut self.budgets,
            if self.layered {
                &mut self.prices
            } else {
                &mut self.advice
            },
            &mut self.incumbent,
        ];
        let table = rng.random_range(0..=tables.len());
        let Some(table) = tables.into_iter().nth(table) else {
            self.level = match rng.random_range(0..3) {
                0 => rng.random_range(0.0..=1.0),
                1 => 1.0 - between_powers(rng, -16.0, -1.0),
                _ => 1.0,
            };
            return;
        };
        let index = rng.random_range(0..table.len());
        let value = &mut table[index];
        *value = match rng.random_range(0..5) {
            0 => *value * between_powers(rng, -2.0, 2.0),
            1 => *value * (1.0 + rng.random_range(-0.1..0.1)),
            2 => (0..rng.random_range(1..9)).fold(*value, |value, _| value.next_up()),
            3 => (0..rng.random_range(1..9)).fold(*value, |value, _| value.next_down()),
            _ => 0.0,
        };
    }

    /// `γ G† − G` at its largest over the steps; nothing where the problem refuses the numbers.
    fn shortfall(&self, played: &Played, task: &Task) -> Result<Option<f64>, Failure> {
        let problem = &played.problem;
        let dimensions = problem.dimensions();
        let Ok(episodes) = Episodes::new(
            self.horizon,
            dimensions.context,
            dimensions.budgets,
            self.contexts.clone(),
            self.budgets.clone(),
        ) else {
            return Ok(None);
        };
        if episodes.check(&**problem).is_err() {
            return Ok(None);
        }
        let plan = |actions: &[f64], payable| Plan {
            actions: actions.to_vec(),
            payable,
            problem: Arc::clone(problem) as Arc<_>,
        };
        let failed = |error: Error| Failure::new("rollout", error.to_string());
        let incumbent = Arc::new(plan(&self.incumbent, true));
        let advice: Arc<dyn Policy> = if self.layered {
            let prices = PlannedPrices {
                prices: self.prices.clone(),
                budgets: dimensions.budgets,
            };
            Arc::new(Unrolled::new("prices", prices, played.layer.fork()).map_err(failed)?)
        } else {
            Arc::new(plan(&self.advice, false))
        };
        let guarded = Guarded::new(
            "guarded",
            advice,
            Arc::clone(&incumbent) as Arc<_>,
            Arc::clone(problem) as Arc<_>,
            self.level,
        )
        .map_err(failed)?;
        let guarded = if self.layered {
            guarded.in_layer(task)
        } else {
            guarded
        };
        let episode = episodes.get(0);
        let ours = rollout(&**problem, &guarded, &episode).map_err(failed)?;
        let certificate = ours
            .certificate
            .ok_or_else(|| Failure::new("certificate", "none"))?;
        let theirs = rollout(&**problem, &*incumbent, &episode).map_err(failed)?;
        honest("guarded", &**problem, &episode, &ours)?;
        promise(&**problem, &episode, &ours, &theirs, self.level)
            .map_err(|word| Failure::new("promise", word))?;
        Ok(Some(-certificate.margin - certificate.allowance))
    }
}

/// Given prices.
struct PlannedPrices {
    prices: Vec<f64>,
    budgets: usize,
}

impl Multiplier for PlannedPrices {
    fn budgets(&self) -> usize {
        self.budgets
    }

    fn begin(&self) -> Box<dyn Pricer + '_> {
        Box::new(self)
    }
}

impl Pricer for &PlannedPrices {
    fn price(&mut self, observation: &Observation<'_>, multiplier: &mut [f64]) -> Result<(), Error> {
        multiplier.copy_from_slice(&self.prices[observation.step * self.budgets..][..self.budgets]);
        Ok(())
    }
}

/// Given actions, made payable on request.
struct Plan {
    actions: Vec<f64>,
    payable: bool,
    problem: Arc<dyn Problem>,
}

impl Policy for Plan {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(self)
    }
}

impl Agent for &Plan {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        let d = action.len();
        action.copy_from_slice(&self.actions[observation.step * d..][..d]);
        if self.payable {
            Projection::new(&*self.problem).apply(
                &*self.problem,
                observation.context(),
                observation.available,
                action,
            );
        }
        Ok(())
    }
}
