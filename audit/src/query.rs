//! One query of the layer as plain data, with budgets that sit at the kinks.

use std::fmt::Write as _;
use std::sync::Arc;

use laau_core::{Dimensions, Query, SmoothProblem, Solutions, StepSolver};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::certificate::Lagrangian;
use crate::draw::{self, Size, between_powers, chance};
use crate::recipe::Recipe;
use crate::shrink::{Shrink, rounder};

/// Where a budget sits.
#[derive(Debug, Clone, PartialEq)]
pub enum Level {
    /// So much above what the lower corner uses.
    Above(f64),
    /// This share of the way from the usage of the lower corner to that of the upper.
    Share(f64),
    /// The usage of a corner times `1 + offset`.
    Kink {
        /// Which usage.
        corner: Corner,
        /// 0, or 1e-14 to 1e-6 in size.
        offset: f64,
    },
}

/// A usage at which the solution has a kink in the budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corner {
    /// Of the box's lower corner: just feasible.
    Lower,
    /// Of the box's upper corner: just not binding.
    Upper,
    /// Of the least priced cost over the box: budgets begin to bind.
    Free,
    /// Of the optimum under all other budgets: this budget begins to bind.
    Others,
}

impl Level {
    /// Draws a level.
    pub fn draw(rng: &mut ChaCha8Rng, wild: f64) -> Self {
        if chance(rng, 0.4) {
            let corner = [Corner::Lower, Corner::Upper, Corner::Free, Corner::Others][rng.random_range(0..4)];
            let size = if chance(rng, 0.4) {
                0.0
            } else {
                between_powers(rng, -14.0, -6.0)
            };
            let sign = if chance(rng, 0.3) { -1.0 } else { 1.0 };
            Self::Kink {
                corner,
                offset: size * sign,
            }
        } else if chance(rng, wild) {
            Self::Above(between_powers(rng, -9.0, 12.0))
        } else {
            Self::Share(rng.random_range(0.0..1.2))
        }
    }

    /// The numbers in it.
    pub fn number_mut(&mut self) -> &mut f64 {
        match self {
            Self::Above(value) | Self::Share(value) | Self::Kink { offset: value, .. } => value,
        }
    }
}

/// One query of the layer of one problem.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerCase {
    /// The problem.
    pub recipe: Recipe,
    /// The context.
    pub context: Vec<f64>,
    /// The prices.
    pub multiplier: Vec<f64>,
    /// The budgets, by where they sit.
    pub levels: Vec<Level>,
}

/// A query with its numbers worked out.
pub struct Resolved {
    /// The problem.
    pub problem: Arc<dyn SmoothProblem>,
    /// The context.
    pub context: Vec<f64>,
    /// The prices.
    pub multiplier: Vec<f64>,
    /// The budgets.
    pub available: Vec<f64>,
}

impl Resolved {
    /// The query.
    #[must_use]
    pub fn query(&self) -> Query<'_> {
        Query {
            context: &self.context,
            multiplier: &self.multiplier,
            available: &self.available,
        }
    }

    /// What a unit of each budget costs: its price and its dual.
    #[must_use]
    pub fn weights(&self, duals: &[f64]) -> Vec<f64> {
        self.multiplier
            .iter()
            .zip(duals)
            .map(|(price, dual)| price + dual)
            .collect()
    }

    /// The usage of an action.
    #[must_use]
    pub fn usage(&self, action: &[f64]) -> Vec<f64> {
        let mut usage = vec![0.0; self.available.len()];
        self.problem.usage(action, &self.context, &mut usage);
        usage
    }
}

impl LayerCase {
    /// Draws a problem, and a query of it.
    #[must_use]
    pub fn draw(rng: &mut ChaCha8Rng, size: Size) -> Self {
        let recipe = draw::recipe(rng, size);
        let context = draw::context(&recipe, rng, size.wild);
        let multiplier = prices(&recipe, &context, rng, size.wild);
        let levels = (0..recipe.budgets).map(|_| Level::draw(rng, size.wild)).collect();
        Self {
            recipe,
            context,
            multiplier,
            levels,
        }
    }

    /// Works the numbers out.
    ///
    /// # Errors
    /// When the problem or the context is refused.
    pub fn resolve(&self) -> Result<Resolved, String> {
        let problem = self.recipe.build().map_err(|error| error.to_string())?;
        problem
            .check_context(&self.context)
            .map_err(|error| error.to_string())?;
        let m = self.recipe.budgets;
        let mut resolved = Resolved {
            problem,
            context: self.context.clone(),
            multiplier: self.multiplier.clone(),
            available: vec![0.0; m],
        };
        let lower = resolved.usage(resolved.problem.lower());
        let upper = resolved.usage(resolved.problem.upper());
        let others = |level: &Level| {
            matches!(
                level,
                Level::Kink {
                    corner: Corner::Others,
                    ..
                }
            )
        };
        let free = {
            let lagrangian = Lagrangian::new(&*resolved.problem, resolved.query(), &vec![0.0; m]);
            let point = lagrangian.least(&self.recipe.shape());
            resolved.usage(&point)
        };
        for (row, level) in self.levels.iter().enumerate() {
            resolved.available[row] = match level {
                Level::Above(value) => lower[row] + value,
                Level::Share(share) => lower[row] + share * (upper[row] - lower[row]).abs(),
                Level::Kink { corner, offset } => {
                    let usage = match corner {
                        Corner::Lower => lower[row],
                        Corner::Upper => upper[row].max(lower[row]),
                        Corner::Free | Corner::Others => free[row],
                    };
                    usage * (1.0 + offset)
                }
            };
        }
        for row in 0..m {
            if others(&self.levels[row])
                && m > 1
                && let Some(usage) = self.usage_without(&resolved, row, upper[row].max(lower[row]))
                && let Level::Kink { offset, .. } = self.levels[row]
            {
                resolved.available[row] = usage * (1.0 + offset);
            }
        }
        Ok(resolved)
    }

    /// What the optimum uses of a budget that does not bind. The solver under audit only places the budget here.
    fn usage_without(&self, resolved: &Resolved, row: usize, upper: f64) -> Option<f64> {
        let mut available = resolved.available.clone();
        available[row] = 2.0 * upper + 1.0;
        let mut solver = self.recipe.solver().ok()?;
        let mut solutions = Solutions::new(resolved.problem.dimensions(), 1);
        let query = Query {
            available: &available,
            ..resolved.query()
        };
        solver.solve(query, solutions.row_mut(0)).ok()?;
        let solution = solutions.row(0);
        solution
            .status
            .is_solved()
            .then(|| resolved.usage(solution.action)[row])
    }

    fn numbers_mut(&mut self) -> Vec<&mut f64> {
        let mut numbers = self.recipe.numbers_mut();
        numbers.extend(&mut self.context);
        numbers.extend(&mut self.multiplier);
        numbers.extend(self.levels.iter_mut().map(Level::number_mut));
        numbers
    }
}

/// Prices around those at which the middle of the box would be left alone; zero and wild ones among them.
fn prices(recipe: &Recipe, context: &[f64], rng: &mut ChaCha8Rng, wild: f64) -> Vec<f64> {
    let typical = typical_prices(recipe, context);
    let level = between_powers(rng, -2.0, 1.0);
    (0..recipe.budgets)
        .map(|row| {
            if chance(rng, 0.3) {
                0.0
            } else if chance(rng, 0.3 * wild) {
                between_powers(rng, -9.0, 12.0)
            } else {
                typical[row] * level * rng.random_range(0.2..2.0)
            }
        })
        .collect()
}

/// The largest `|∂l|` over `∂g` in the middle of the box, for each budget.
#[must_use]
pub fn typical_prices(recipe: &Recipe, context: &[f64]) -> Vec<f64> {
    let Ok(problem) = recipe.build() else {
        return vec![1.0; recipe.budgets];
    };
    let Dimensions {
        actions: d,
        budgets: m,
        ..
    } = problem.dimensions();
    let middle: Vec<f64> = problem
        .lower()
        .iter()
        .zip(problem.upper())
        .map(|(lower, upper)| lower + 0.3 * (upper - lower))
        .collect();
    let (mut slope, mut jacobian) = (vec![0.0; d], vec![0.0; m * d]);
    problem.cost_gradient(&middle, context, &mut slope);
    problem.usage_jacobian(&middle, context, &mut jacobian);
    jacobian
        .chunks_exact(d)
        .map(|row| {
            let ratio = |(s, g): (&f64, &f64)| if *g > 0.0 { s.abs() / g } else { 0.0 };
            let largest = slope.iter().zip(row).map(ratio).fold(0.0, f64::max);
            if largest.is_finite() && largest > 0.0 {
                largest
            } else {
                1.0
            }
        })
        .collect()
}

impl Shrink for LayerCase {
    fn smaller(&self) -> Vec<Self> {
        let mut candidates = Vec::new();
        for action in 0..self.recipe.actions() {
            if let Some(recipe) = self.recipe.without_action(action) {
                let mut smaller = self.clone();
                self.recipe.forget(action, &mut smaller.context);
                if recipe.budgets < self.recipe.budgets {
                    smaller.multiplier.remove(action);
                    smaller.levels.remove(action);
                }
                smaller.recipe = recipe;
                candidates.push(smaller);
            }
        }
        for budget in 0..self.recipe.budgets {
            if let Some(recipe) = self.recipe.without_budget(budget) {
                let mut smaller = self.clone();
                smaller.multiplier.remove(budget);
                smaller.levels.remove(budget);
                smaller.recipe = recipe;
                candidates.push(smaller);
            }
        }
        candidates.extend(rounder(self, Self::numbers_mut, |case| case.recipe.settle()));
        candidates
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{:?}\ncontext: {:?}\nmultiplier: {:?}\nlevels: {:?}",
            self.recipe, self.context, self.multiplier, self.levels
        );
        if let Ok(resolved) = self.resolve() {
            let _ = write!(text, "\navailable: {:?}", resolved.available);
        }
        text
    }
}
