//! AVG-LT: one constant price, right on average over the training set.

use std::sync::Arc;

use laau_core::{
    Agent, Constant, Differentiate, Episodes, Error, Fit, FitObserver, FitSets, Fitted, Policy,
    SmoothProblem, Task, Unrolled, expect_option,
};
use serde::{Deserialize, Serialize};

use crate::Stored;
use crate::opt::{HorizonOptimum, HorizonOptions};
use crate::shared::check_prices;

const NAME: &str = "avg-lt";

/// How the average multiplier is found.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `horizon` | [`HorizonOptions::default`] | the interior point that finds it | see there |
/// | `negligible` | `1e-8` | a price counts as zero when the whole budget at that price is worth less than this share of the cost | `[0, 1)` |
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AvgLtOptions {
    /// The interior point that finds the multiplier.
    pub horizon: HorizonOptions,
    /// The share of the cost below which a budget's value counts as zero.
    pub negligible: f64,
}

impl Default for AvgLtOptions {
    fn default() -> Self {
        Self {
            horizon: HorizonOptions::default(),
            negligible: 1e-8,
        }
    }
}

impl AvgLtOptions {
    /// The price `λ ≥ 0` of each budget with `E[Σ_t g(x(λ, c_t), c_t)] = E[B]`, or zero where even a free budget is not
    /// used up on average.
    ///
    /// This is the multiplier of the problem that the paper relaxes to, `max E[Σ utility]` subject to
    /// `E[Σ usage] ≤ E[B]`: an offline optimum over all steps of the training set at once, with all its budgets
    /// together. It is found as one, for any number of budgets, at a cost linear in the size of the set.
    ///
    /// # Errors
    /// For options outside their ranges, and for episodes that do not fit the problem.
    pub fn average_multiplier(&self, task: &Task, train: &Episodes) -> Result<Vec<f64>, Error> {
        expect_option(
            self.negligible >= 0.0 && self.negligible < 1.0,
            NAME,
            "negligible",
            "a value in [0, 1)",
            self.negligible,
        )?;
        task.check_episodes("training episode", train)?;
        let mut budgets = vec![0.0; train.budget_len()];
        for episode in train.iter() {
            for (sum, budget) in budgets.iter_mut().zip(episode.budgets()) {
                *sum += budget;
            }
        }
        let problem = Arc::<dyn SmoothProblem>::clone(&task.problem);
        let relaxed = HorizonOptimum::new(problem, self.horizon)?.solve(train.contexts(), &budgets)?;
        let mut multiplier = relaxed.multipliers;
        for (price, budget) in multiplier.iter_mut().zip(&budgets) {
            if *price * budget <= self.negligible * relaxed.cost.abs() {
                *price = 0.0;
            }
        }
        Ok(multiplier)
    }
}

/// The price is the average multiplier of the training set; the validation set is not used.
impl Fit for AvgLtOptions {
    fn fit(&self, task: &Task, sets: FitSets<'_>, _: u64, _: &mut dyn FitObserver) -> Result<Fitted, Error> {
        let multiplier = self.average_multiplier(task, sets.train)?;
        let policy = AvgLt::new(task, multiplier.clone())?;
        Ok(Fitted::new(policy)
            .with("multiplier", &multiplier[..])
            .with_document(Stored::AvgLt { multiplier }.document()))
    }
}

/// One price per budget for every step: each step, the last included, is the layer's answer at that price to what is
/// available.
#[derive(Clone)]
pub struct AvgLt(Unrolled<Constant, Box<dyn Differentiate>>);

impl AvgLt {
    /// The policy with a given price per budget.
    ///
    /// # Errors
    /// [`Error::WrongLength`], [`Error::NotFinite`] or [`Error::Negative`] for the prices.
    pub fn new(task: &Task, multiplier: Vec<f64>) -> Result<Self, Error> {
        check_prices(task, "the multiplier", &multiplier)?;
        let policy = Unrolled::new(NAME, Constant(multiplier), task.solver.clone())?;
        Ok(Self(policy.priced_to_the_end()))
    }
}

impl Policy for AvgLt {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        self.0.begin()
    }
}
