//! A problem as plain data: drawn, printed, made smaller.

use std::sync::Arc;

use laau_core::problems::{
    LlmTokens, LogUtility, PowerProvisioning, Trading, VmAllocation, WeightedFairness, Wireless,
};
use laau_core::{AutoDiff, Error, SmoothProblem};
use laau_kkt::{FairnessLayer, InteriorPoint, Options};

use crate::certificate::Shape;
use crate::custom::{Custom, Form};

/// Which problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// [`WeightedFairness`].
    WeightedFairness,
    /// [`LogUtility`].
    LogUtility,
    /// [`VmAllocation`].
    VmAllocation,
    /// [`Wireless`].
    Wireless,
    /// [`Trading`].
    Trading,
    /// [`PowerProvisioning`].
    Power,
    /// [`LlmTokens`].
    LlmTokens,
    /// A user-written one.
    Custom(Form),
}

impl Kind {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::WeightedFairness => "weighted-fairness",
            Self::LogUtility => "log-utility",
            Self::VmAllocation => "vm-allocation",
            Self::Wireless => "wireless",
            Self::Trading => "trading",
            Self::Power => "power",
            Self::LlmTokens => "llm-tokens",
            Self::Custom(Form::Quadratic) => "quadratic",
            Self::Custom(Form::Exponential) => "exponential",
            Self::Custom(Form::Softplus) => "softplus",
            Self::Custom(Form::Valley) => "valley",
        }
    }
}

/// The numbers of a problem, in the same layout for every kind; what a kind does not use is empty or zero.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Which problem.
    pub kind: Kind,
    /// Number of budgets.
    pub budgets: usize,
    /// Lower bounds, one per action. A kind with one box for all actions takes the first.
    pub lower: Vec<f64>,
    /// Upper bounds, likewise.
    pub upper: Vec<f64>,
    /// The usage matrix, row-major.
    pub matrix: Vec<f64>,
    /// One positive number per action: energies of `power`, weights of user-written problems. The two prices of `llm-tokens`.
    pub weights: Vec<f64>,
    /// `α`, bandwidth, impact, largest load, `κ`, or coupling.
    pub parameter: f64,
    /// The largest intensity of `power`.
    pub most: f64,
}

impl Recipe {
    /// Number of actions.
    #[must_use]
    pub fn actions(&self) -> usize {
        self.lower.len()
    }

    /// Whether the numbers keep the contract of [`laau_core::Problem`] where no constructor can check it: strict convexity.
    #[must_use]
    pub fn keeps_the_contract(&self) -> bool {
        match self.kind {
            Kind::VmAllocation => self.parameter >= 0.1,
            Kind::Custom(_) => self.weights.iter().all(|w| *w > 0.0) && self.parameter >= 0.0,
            _ => true,
        }
    }

    /// Builds the problem through its public constructor.
    ///
    /// # Errors
    /// Whatever the constructor has against the numbers.
    pub fn build(&self) -> Result<Arc<dyn SmoothProblem>, Error> {
        if !self.keeps_the_contract() {
            return Err(Error::InvalidProblem {
                problem: format!("{:?}", self.kind),
                reason: "expected strict convexity".to_owned(),
            });
        }
        let d = self.actions();
        let (lower, upper) = (self.lower[0], self.upper[0]);
        Ok(match self.kind {
            Kind::WeightedFairness => Arc::new(WeightedFairness::new(lower, upper)?),
            Kind::LogUtility => Arc::new(LogUtility::new(
                d,
                self.budgets,
                self.matrix.clone(),
                lower,
                upper,
            )?),
            Kind::VmAllocation => Arc::new(VmAllocation::new(
                self.parameter,
                self.lower.clone(),
                self.upper.clone(),
            )?),
            Kind::Wireless => Arc::new(Wireless::new(d, self.parameter, upper)?),
            Kind::Trading => Arc::new(Trading::new(self.parameter, upper)?),
            Kind::Power => Arc::new(PowerProvisioning::new(
                self.weights.clone(),
                self.parameter,
                self.most,
                lower,
                upper,
            )?),
            Kind::LlmTokens => Arc::new(LlmTokens::new(
                d,
                self.parameter,
                self.weights[0],
                self.weights[1],
                upper,
            )?),
            Kind::Custom(form) => Arc::new(AutoDiff::new(Custom {
                form,
                budgets: self.budgets,
                lower: self.lower.clone(),
                upper: self.upper.clone(),
                matrix: self.matrix.clone(),
                weights: self.weights.clone(),
                coupling: self.parameter,
            })?),
        })
    }

    /// The closed form of the problem's layer, if there is one.
    #[must_use]
    pub fn closed_form(&self) -> Option<FairnessLayer> {
        if self.kind != Kind::WeightedFairness {
            return None;
        }
        WeightedFairness::new(self.lower[0], self.upper[0])
            .ok()
            .map(FairnessLayer::new)
    }

    /// The general solver of the problem's layer.
    ///
    /// # Errors
    /// When the problem is refused.
    pub fn solver(&self) -> Result<InteriorPoint, String> {
        let problem = self.build().map_err(|error| error.to_string())?;
        InteriorPoint::new(problem, Options::default()).map_err(|error| error.to_string())
    }

    /// What the certificate may rely on; of the mathematics, not of what the problem claims.
    #[must_use]
    pub fn shape(&self) -> Shape {
        match self.kind {
            Kind::VmAllocation if self.parameter != 1.0 && self.actions() > 1 => Shape::Homogeneous,
            Kind::Custom(Form::Quadratic) if self.parameter > 0.0 => Shape::Curved(self.weights.clone()),
            _ => Shape::Separable,
        }
    }

    /// Whether no usage falls when an action rises.
    #[must_use]
    pub fn monotone(&self) -> bool {
        self.kind != Kind::Custom(Form::Valley)
    }

    /// Whether all actions have the same box.
    #[must_use]
    pub fn one_box(&self) -> bool {
        matches!(
            self.kind,
            Kind::LogUtility | Kind::Wireless | Kind::Power | Kind::LlmTokens
        )
    }

    /// Takes out of a context what belongs to an action alone.
    pub fn forget(&self, action: usize, context: &mut Vec<f64>) {
        match self.kind {
            Kind::VmAllocation | Kind::Wireless => context.remove(action + 1),
            Kind::LlmTokens => {
                context.remove(self.actions() + action);
                context.remove(action)
            }
            _ => context.remove(action),
        };
    }

    /// The same problem without an action; the only one stays.
    #[must_use]
    pub fn without_action(&self, action: usize) -> Option<Self> {
        let d = self.actions();
        if d == 1 {
            return None;
        }
        let mut smaller = self.clone();
        smaller.lower.remove(action);
        smaller.upper.remove(action);
        if !smaller.weights.is_empty() && self.kind != Kind::LlmTokens {
            smaller.weights.remove(action);
        }
        if self.kind == Kind::VmAllocation {
            smaller.budgets -= 1;
        }
        let mut index = 0;
        smaller.matrix.retain(|_| {
            index += 1;
            (index - 1) % d != action
        });
        Some(smaller)
    }

    /// The same problem without a budget; the only one stays, and so do the budgets that a kind must have.
    #[must_use]
    pub fn without_budget(&self, budget: usize) -> Option<Self> {
        if self.budgets == 1 || self.matrix.is_empty() {
            return None;
        }
        let d = self.actions();
        let mut smaller = self.clone();
        smaller.budgets -= 1;
        smaller.matrix.drain(budget * d..(budget + 1) * d);
        Some(smaller)
    }

    /// Every number, to be made rounder.
    pub fn numbers_mut(&mut self) -> Vec<&mut f64> {
        let one_box = self.one_box();
        let bounds = if one_box { 1 } else { self.lower.len() };
        let mut numbers: Vec<&mut f64> = self.lower[..bounds].iter_mut().collect();
        numbers.extend(&mut self.upper[..bounds]);
        numbers.extend(&mut self.matrix);
        numbers.extend(&mut self.weights);
        numbers.push(&mut self.parameter);
        numbers.push(&mut self.most);
        numbers
    }

    /// Makes the bounds of all actions those of the first where the kind has one box.
    pub fn settle(&mut self) {
        if self.one_box() {
            let (lower, upper) = (self.lower[0], self.upper[0]);
            self.lower.fill(lower);
            self.upper.fill(upper);
        }
    }
}
