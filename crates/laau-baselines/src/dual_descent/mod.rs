//! Dual mirror descent (Balseiro, Lu, Mirrokni): prices that learn from what was used.

mod tuning;

use laau_core::{Agent, Differentiate, Error, Observation, Policy, StepSolver, Task, expect_option};
use serde::{Deserialize, Serialize};

use crate::shared::check_prices;
use crate::shared::{Layer, share};

pub use tuning::DualDescentOptions;

/// The geometry in which the prices move.
///
/// With `ρ = B/N`, the untruncated action `x̃` and the relative saving `s = 1 − g(x̃)/ρ`, in units of a price scale `σ`
/// (so that `ν = μ/σ` and the step `η` have no dimension):
///
/// | mirror | name | update |
/// |---|---|---|
/// | `Euclidean` | `dgd` | `ν ← max(ν − η s, 0)` |
/// | `Entropic` | `mw` | `ν ← ν exp(−η s)` |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mirror {
    /// Dual gradient descent. Lyapunov optimisation is the same policy in other words: a virtual queue `Q ← max(Q − s, 0)`
    /// with the price `ν = Q/V` and the weight `V = 1/η` of the penalty.
    Euclidean,
    /// Multiplicative weights.
    Entropic,
}

impl Mirror {
    /// The policy's name in tables and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Euclidean => "dgd",
            Self::Entropic => "mw",
        }
    }
}

/// In what the prices are measured; it makes step size and start free of the units of costs and budgets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriceScale {
    /// One positive scale per budget, for example the average multiplier of a training set.
    Given(Vec<f64>),
    /// The shadow price of the share `B/N` at the first step that has one; until then a step takes its share.
    FirstStep,
}

/// Where the prices start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// At this multiple of the price scale.
    Scaled(f64),
    /// At these multipliers, one per budget.
    At(Vec<f64>),
}

/// The parameters of dual mirror descent.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `step_size` | 1 | `η √N`: the step of an episode of `N` steps is `step_size / √N` | positive |
/// | `start` | `Scaled(1)` | the prices at the first step | at least 0, for `mw` above 0 |
/// | `scale` | `FirstStep` | the unit of the prices | positive |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DualDescentParameters {
    /// `η √N`.
    pub step_size: f64,
    /// The prices at the first step.
    pub start: Start,
    /// The unit of the prices.
    pub scale: PriceScale,
}

impl Default for DualDescentParameters {
    fn default() -> Self {
        Self {
            step_size: 1.0,
            start: Start::Scaled(1.0),
            scale: PriceScale::FirstStep,
        }
    }
}

/// Dual mirror descent with the paper's change: the last step takes all it can use, `min(b_N, x_max)`.
///
/// A step plays the *untruncated* action, the layer's answer at the price when it may use whatever it wants. Where that
/// cannot be paid it plays the layer's answer at the same price within what is available, and counts a projection. The price
/// moves by what the untruncated action would have used, either way.
///
/// This is not what the sources do. Balseiro, Lu and Mirrokni play the null action where the untruncated one cannot be
/// paid, and the LAAU paper projects it. For one action the layer's answer is the projection; for several it is the
/// kindest reading, since a budget that is used up then holds back only the actions that use it.
#[derive(Clone)]
pub struct DualDescent {
    mirror: Mirror,
    solver: Box<dyn Differentiate>,
    parameters: DualDescentParameters,
}

impl DualDescent {
    /// The policy with given parameters. The defaults need no data.
    ///
    /// # Errors
    /// For parameters outside their ranges.
    pub fn new(task: &Task, mirror: Mirror, parameters: DualDescentParameters) -> Result<Self, Error> {
        let name = mirror.name();
        let positive = |option, value: f64| {
            let good = value > 0.0 && value.is_finite();
            expect_option(good, name, option, "a positive value", value)
        };
        positive("step_size", parameters.step_size)?;
        if let PriceScale::Given(scale) = &parameters.scale {
            check_prices(task, "the price scale", scale)?;
            scale.iter().try_for_each(|scale| positive("scale", *scale))?;
        }
        let starts = match &parameters.start {
            Start::Scaled(multiple) => std::slice::from_ref(multiple),
            Start::At(prices) => {
                check_prices(task, "the first multiplier", prices)?;
                prices
            }
        };
        for &start in starts {
            match mirror {
                Mirror::Entropic => positive("start", start)?,
                Mirror::Euclidean => {
                    let good = start >= 0.0 && start.is_finite();
                    expect_option(good, name, "start", "a non-negative value", start)?;
                }
            }
        }
        Ok(Self {
            mirror,
            solver: task.solver.clone(),
            parameters,
        })
    }
}

impl Policy for DualDescent {
    fn name(&self) -> &'static str {
        self.mirror.name()
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        let budgets = self.solver.problem().dimensions().budgets;
        Box::new(DualDescentAgent {
            mirror: self.mirror,
            parameters: &self.parameters,
            layer: Layer::new(&*self.solver),
            scale: vec![0.0; budgets],
            is_open: false,
            relative: vec![0.0; budgets],
            prices: vec![0.0; budgets],
            share: vec![0.0; budgets],
            cuts: 0,
        })
    }
}

struct DualDescentAgent<'a> {
    mirror: Mirror,
    parameters: &'a DualDescentParameters,
    layer: Layer,
    /// `σ`, once it is known.
    scale: Vec<f64>,
    /// Whether it is.
    is_open: bool,
    /// `ν = μ/σ`.
    relative: Vec<f64>,
    /// `μ`, the prices behind the last decision.
    prices: Vec<f64>,
    /// `ρ = B/N`.
    share: Vec<f64>,
    /// How often the untruncated action could not be paid.
    cuts: usize,
}

impl Agent for DualDescentAgent<'_> {
    fn decide(&mut self, seen: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        if seen.is_last() {
            self.prices.fill(0.0);
            self.layer.within(seen, seen.available, action)?;
            return Ok(());
        }
        let eta = self.parameters.step_size / (seen.horizon as f64).sqrt();
        share(seen, &mut self.share);
        if !self.is_open && !self.open(seen, action)? {
            return Ok(());
        }
        for ((price, scale), nu) in self.prices.iter_mut().zip(&self.scale).zip(&self.relative) {
            *price = scale * nu;
        }
        self.layer.untruncated(seen, &self.prices, action)?;
        let used = self.layer.usage(seen, action);
        for m in 0..self.share.len() {
            // A budget of zero cannot be used: its price does not matter, and stays.
            let saving = if self.share[m] > 0.0 {
                1.0 - used[m] / self.share[m]
            } else {
                0.0
            };
            let nu = &mut self.relative[m];
            *nu = match self.mirror {
                Mirror::Euclidean => (*nu - eta * saving).clamp(0.0, LARGEST_PRICE),
                Mirror::Entropic => (*nu * (-eta * saving).exp()).clamp(SMALLEST_WEIGHT, LARGEST_PRICE),
            };
        }
        if used
            .iter()
            .zip(seen.available)
            .any(|(used, available)| used > available)
        {
            self.cuts += 1;
            self.layer.truncated(seen, &self.prices, action)?;
        }
        Ok(())
    }

    fn restart(&mut self) -> bool {
        self.is_open = false;
        self.prices.fill(0.0);
        self.layer.unconverged = 0;
        self.cuts = 0;
        true
    }

    fn unconverged(&self) -> usize {
        self.layer.unconverged
    }

    fn multiplier(&self) -> Option<&[f64]> {
        Some(&self.prices)
    }

    fn projections(&self) -> usize {
        self.cuts
    }
}

/// Prices stay within a million of their unit, either way: beyond, they change no action worth speaking of, but strain
/// every layer; and weights that underflow to zero would never leave it.
const SMALLEST_WEIGHT: f64 = 1e-6;
const LARGEST_PRICE: f64 = 1e6;

impl DualDescentAgent<'_> {
    /// Finds the price scale and starts the prices. `false` when the step shows no price: the action is then the one
    /// that its share buys.
    fn open(&mut self, seen: &Observation<'_>, action: &mut [f64]) -> Result<bool, Error> {
        match &self.parameters.scale {
            PriceScale::Given(scale) => self.scale.copy_from_slice(scale),
            PriceScale::FirstStep => {
                let shadow = self.layer.within(seen, &self.share, action)?;
                match price_scale(shadow, &self.share) {
                    Some(scale) => self.scale.copy_from_slice(&scale),
                    None => return Ok(false),
                }
            }
        }
        for (m, (nu, scale)) in self.relative.iter_mut().zip(&self.scale).enumerate() {
            *nu = match &self.parameters.start {
                Start::Scaled(multiple) => *multiple,
                Start::At(prices) => prices[m] / scale,
            };
        }
        self.is_open = true;
        Ok(true)
    }
}

/// A positive unit for the price of each budget: the price itself, or, for a budget whose price is (nearly) zero, the
/// price at which its share would be worth a hundredth of what all shares are worth. `None` when nothing has a price.
pub(crate) fn price_scale(prices: &[f64], share: &[f64]) -> Option<Vec<f64>> {
    const LEAST_WORTH: f64 = 0.01;
    let worth: f64 = prices.iter().zip(share).map(|(price, share)| price * share).sum();
    (worth > 0.0 && worth.is_finite()).then(|| {
        prices
            .iter()
            .zip(share)
            .map(|(&price, &share)| {
                if share > 0.0 {
                    price.max(LEAST_WORTH * worth / share)
                } else {
                    price.max(1.0)
                }
            })
            .collect()
    })
}
