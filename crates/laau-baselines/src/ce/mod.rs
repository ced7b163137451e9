//! Certainty-equivalent re-solve: at every step, solve the rest of the episode with predicted contexts.

mod predictor;

use laau_core::{
    Agent, Differentiate, Dimensions, Episodes, Error, Fit, FitObserver, FitSets, Fitted, Multiplier,
    Observation, Parameter, Policy, Pricer, Task, Unrolled, expect_length, expect_option,
};

pub use self::predictor::{FEATURES, Predictor, Rule};
use crate::Stored;
use crate::shared::FairnessBounds;
use crate::shared::History;
use crate::shared::{ShadowPrice, ShadowPriceOptions, Steps};

const NAME: &str = "ce";

/// What a fit found, by name.
type Found = Vec<(&'static str, Parameter)>;

/// Which predictor is fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prediction {
    /// The mean of the training set.
    Prior,
    /// The running mean, shrunk to the prior; the strength is fitted on the training set.
    ShrunkMean,
    /// A ridge regression on the history; per step or pooled, and its ridge, by validation utility.
    Regression,
    /// Whichever of the three has the largest utility on the validation set.
    #[default]
    Best,
}

/// Options of the re-solve.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `prediction` | best | which predictor | |
/// | `ridges` | 1e-4, 1e-2 | ridges to try, relative to the features' variance | at least one, none negative |
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CeOptions {
    /// Which predictor.
    pub prediction: Prediction,
    /// The ridges to try for a regression.
    pub ridges: Vec<f64>,
}

impl Default for CeOptions {
    fn default() -> Self {
        Self {
            prediction: Prediction::default(),
            ridges: vec![1e-4, 1e-2],
        }
    }
}

/// The predictor is fitted on the training set; what is left open is chosen by utility on the validation set.
impl Fit for CeOptions {
    fn fit(&self, task: &Task, sets: FitSets<'_>, _: u64, _: &mut dyn FitObserver) -> Result<Fitted, Error> {
        let (predictor, parameters) = self.fit_predictor(task, sets.train, sets.validation)?;
        let stored = Stored::Ce {
            predictor: predictor.clone(),
        };
        let mut fitted = Fitted::new(Resolve::new(task, predictor)?).with_document(stored.document());
        for (name, value) in parameters {
            fitted = fitted.with(name, value);
        }
        Ok(fitted)
    }
}

impl CeOptions {
    /// The predictor, and what was found, by name.
    fn fit_predictor(
        &self,
        task: &Task,
        train: &Episodes,
        validation: &Episodes,
    ) -> Result<(Predictor, Found), Error> {
        let worst = self.ridges.iter().copied().fold(f64::INFINITY, f64::min);
        let good = worst >= 0.0 && worst.is_finite();
        expect_option(good, NAME, "ridges", "at least one, none negative", worst)?;
        task.check_episodes("training episode", train)?;
        task.check_episodes("validation episode", validation)?;
        let mut candidates = Vec::new();
        if matches!(self.prediction, Prediction::Prior | Prediction::Best) {
            candidates.push((Predictor::prior(train), vec![]));
        }
        if matches!(self.prediction, Prediction::ShrunkMean | Prediction::Best) {
            let predictor = Predictor::shrunk_mean(train);
            let strength = match predictor.rule {
                Rule::ShrunkMean { strength } => vec![("strength", strength.into())],
                Rule::Prior | Rule::Regression { .. } => vec![],
            };
            candidates.push((predictor, strength));
        }
        if matches!(self.prediction, Prediction::Regression | Prediction::Best) {
            for per_step in [true, false] {
                for &ridge in &self.ridges {
                    let found = vec![
                        ("ridge", ridge.into()),
                        ("per_step", if per_step { "yes" } else { "no" }.into()),
                    ];
                    candidates.push((Predictor::regression(train, per_step, ridge), found));
                }
            }
        }
        let mut best: Option<(f64, Predictor, Found)> = None;
        let alone = candidates.len() == 1;
        for (predictor, found) in candidates {
            let utility = if alone {
                0.0
            } else {
                let policy = Resolve::new(task, predictor.clone())?;
                task.mean_utility(&policy, validation)?
            };
            if best.as_ref().is_none_or(|(least, ..)| utility > *least) {
                best = Some((utility, predictor, found));
            }
        }
        let Some((utility, predictor, mut found)) = best else {
            return Err(Error::Policy {
                policy: NAME.to_owned(),
                reason: "expected a candidate predictor".to_owned(),
            });
        };
        found.push((
            "rule",
            match predictor.rule {
                Rule::Prior => "prior",
                Rule::ShrunkMean { .. } => "shrunk-mean",
                Rule::Regression { .. } => "regression",
            }
            .into(),
        ));
        if !alone {
            found.push(("validation_utility", utility.into()));
        }
        Ok((predictor, found))
    }
}

/// The certainty-equivalent price: that of an episode whose remaining steps all have the predicted mean context `m̂`.
///
/// With `r` steps after this one and the remaining budget `b`, the price is the dual of
/// `min l(x, c_t) + r l(y, m̂)` subject to `g(x, c_t) + r g(y, m̂) ≤ b` and the box. For weighted fairness it is
/// `λ = (c_t + r m̂) / b` wherever no bound of the box is met; where one is, the water level of one step and `r` equal
/// ones in the box. Other problems find it by maximising the dual with the layer (see the crate's README).
///
/// It is also the base of a residual learned model.
#[derive(Clone)]
pub struct CertaintyEquivalent {
    predictor: Predictor,
    fair: Option<FairnessBounds>,
    prices: ShadowPrice,
    dimensions: Dimensions,
}

impl CertaintyEquivalent {
    /// A price with a given predictor.
    ///
    /// # Errors
    /// [`Error::WrongLength`] when the predictor is for contexts of another length.
    pub fn new(task: &Task, predictor: Predictor) -> Result<Self, Error> {
        let dimensions = task.problem.dimensions();
        expect_length("the predictor's mean", &predictor.mean, dimensions.context)?;
        Ok(Self {
            fair: FairnessBounds::of(&*task.problem),
            prices: ShadowPrice::new(task.solver.clone(), ShadowPriceOptions::default()),
            dimensions,
            predictor,
        })
    }
}

/// The certainty-equivalent re-solve: the layer's action at the certainty-equivalent price; the last step is free.
#[derive(Clone)]
pub struct Resolve(Unrolled<CertaintyEquivalent, Box<dyn Differentiate>>);

impl Resolve {
    /// The policy with a given predictor.
    ///
    /// # Errors
    /// As [`CertaintyEquivalent::new`].
    pub fn new(task: &Task, predictor: Predictor) -> Result<Self, Error> {
        let price = CertaintyEquivalent::new(task, predictor)?;
        Unrolled::new(NAME, price, task.solver.clone()).map(Self)
    }
}

impl Policy for Resolve {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        self.0.begin()
    }
}

impl Multiplier for CertaintyEquivalent {
    fn budgets(&self) -> usize {
        self.dimensions.budgets
    }

    fn begin(&self) -> Box<dyn Pricer + '_> {
        Box::new(CertaintyPricer {
            price: self,
            prices: self.prices.clone(),
            history: History::default(),
            contexts: vec![0.0; 2 * self.dimensions.context],
        })
    }
}

/// The price at work on one episode.
struct CertaintyPricer<'a> {
    price: &'a CertaintyEquivalent,
    prices: ShadowPrice,
    history: History,
    /// The context now, and the predicted one.
    contexts: Vec<f64>,
}

impl Pricer for CertaintyPricer<'_> {
    fn price(&mut self, observation: &Observation<'_>, multiplier: &mut [f64]) -> Result<(), Error> {
        self.history.see(observation);
        let len = self.price.dimensions.context;
        let (now, later) = self.contexts.split_at_mut(len);
        now.copy_from_slice(observation.context());
        self.price
            .predictor
            .predict_after(&self.history, observation, later)?;
        let left = observation.steps_left() as f64;
        if let Some(fair) = self.price.fair {
            multiplier[0] = fair_price(fair, now[0], left, later[0], observation.remaining[0]);
            return Ok(());
        }
        let copies = [1.0, left];
        let count = if left > 0.0 { 2 } else { 1 };
        let steps = Steps {
            contexts: &self.contexts[..count * len],
            copies: &copies[..count],
            cap: observation.available,
            budget: observation.remaining,
        };
        self.prices.start(steps, multiplier)?;
        self.prices.find(steps, multiplier)?;
        Ok(())
    }
}

/// The price of one step of weight `now` and `left` steps of weight `later` with the budget `remaining`:
/// `λ = 1/w` with `clip(now·w) + left·clip(later·w) = remaining`.
///
/// Zero when the budget covers every upper bound. When all weights are zero, the smallest positive
/// price, so that nothing is spent.
fn fair_price(fair: FairnessBounds, now: f64, left: f64, later: f64, remaining: f64) -> f64 {
    let FairnessBounds { lower, upper } = fair;
    let worth = now + left * later;
    if worth <= 0.0 {
        return f64::MIN_POSITIVE;
    }
    if remaining >= (1.0 + left) * upper {
        return 0.0;
    }
    // Without bounds first: most steps of most episodes end here.
    let free = remaining / worth;
    let inside = |weight: f64| weight * free >= lower && weight * free <= upper;
    if inside(now) && (left == 0.0 || inside(later)) {
        return worth / remaining;
    }
    let clip = |weight: f64, level: f64| (weight * level).clamp(lower, upper);
    let demand = |level: f64| {
        clip(now, level)
            + if left > 0.0 {
                left * clip(later, level)
            } else {
                0.0
            }
    };
    // The demand is piecewise linear in the level; walk its corners upwards.
    let mut corners = [lower / now, upper / now, lower / later, upper / later];
    corners.sort_by(f64::total_cmp);
    let mut below = 0.0;
    let mut level = 0.0;
    for corner in corners {
        if !(corner.is_finite() && corner > 0.0) {
            continue;
        }
        level = corner;
        let (at, before) = (demand(corner), demand(below));
        if at >= remaining {
            if at > before {
                level = below + (remaining - before).max(0.0) * (corner - below) / (at - before);
            }
            break;
        }
        below = corner;
    }
    if level > 0.0 { 1.0 / level } else { f64::MAX.sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PAPER: FairnessBounds = FairnessBounds {
        lower: 1.0,
        upper: 40.0,
    };

    #[test]
    fn without_bounds_the_price_is_the_weight_over_the_budget() {
        let price = fair_price(PAPER, 0.3, 9.0, 0.2, 100.0);
        assert!((price - (0.3 + 9.0 * 0.2) / 100.0).abs() < 1e-16);
    }

    #[test]
    fn plenty_is_free_and_nothing_is_spent_on_nothing() {
        assert_eq!(fair_price(PAPER, 0.3, 9.0, 0.2, 400.0), 0.0);
        assert!(fair_price(PAPER, 0.0, 9.0, 0.0, 100.0) > 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn the_action_and_the_plan_for_the_rest_use_the_budget_up(
            now in prop_oneof![Just(0.0), Just(1.0), 1e-3..1.0_f64],
            later in prop_oneof![Just(0.0), Just(0.5), 1e-3..1.0_f64],
            left in 1_u32..30,
            share in prop_oneof![Just(0.0), Just(1.0), 0.0..1.0_f64],
        ) {
            prop_assume!(now + later > 0.0);
            let left = f64::from(left);
            let remaining = (1.0 + left) * (1.0 + share * 39.0);
            let price = fair_price(PAPER, now, left, later, remaining);
            prop_assert!(price.is_finite() && price >= 0.0);
            let clip = |c: f64| if price == 0.0 { 40.0 } else { (c / price).clamp(1.0, 40.0) };
            let used = clip(now) + left * clip(later);
            // Steps without weight keep their lower bound, whatever the budget.
            let most = [(now, 1.0), (later, left)].iter().map(|(c, n)| if *c > 0.0 { 40.0 * n } else { *n }).sum::<f64>();
            if price > 0.0 {
                prop_assert!((used - remaining.min(most)).abs() < 1e-9 * remaining, "{} of {} at {}", used, remaining, price);
            }
        }
    }
}
