//! Points, queries and episodes at which gradients are checked.

use laau::core::{Dimensions, Episodes, Query, SmoothProblem};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::failure::Failure;

/// So often smaller contexts are tried before a problem is given up.
const TRIES: usize = 60;

/// Draws from a seed.
pub(super) struct Draw<'a> {
    problem: &'a dyn SmoothProblem,
    rng: ChaCha8Rng,
    /// Contexts up to this size are in the problem's domain.
    scale: f64,
}

/// A point of a problem, which is also a query of its layer.
pub(super) struct Point {
    pub(super) context: Vec<f64>,
    /// Inside the box.
    pub(super) action: Vec<f64>,
    pub(super) multiplier: Vec<f64>,
    remaining: Vec<f64>,
    /// A gradient in the action.
    pub(super) upstream: Vec<f64>,
}

impl Point {
    pub(super) fn query(&self) -> Query<'_> {
        Query {
            context: &self.context,
            multiplier: &self.multiplier,
            available: &self.remaining,
        }
    }
}

impl<'a> Draw<'a> {
    pub(super) fn new(problem: &'a dyn SmoothProblem, seed: u64) -> Result<Self, Failure> {
        let mut draw = Self {
            problem,
            rng: ChaCha8Rng::seed_from_u64(seed),
            scale: 1.0,
        };
        for _ in 0..TRIES {
            let width = problem.dimensions().context;
            match problem.check_context(&vec![draw.scale; width]) {
                Ok(()) => return Ok(draw),
                Err(_) => draw.scale /= 2.0,
            }
        }
        problem.check_context(&vec![draw.scale; problem.dimensions().context])?;
        Ok(draw)
    }

    fn uniform(&mut self, count: usize, low: f64, high: f64) -> Vec<f64> {
        (0..count).map(|_| self.rng.random_range(low..high)).collect()
    }

    fn context(&mut self) -> Vec<f64> {
        let scale = self.scale;
        self.uniform(self.problem.dimensions().context, 0.1 * scale, 0.95 * scale)
    }

    fn action(&mut self) -> Vec<f64> {
        let shares = self.uniform(self.problem.dimensions().actions, 0.1, 0.7);
        let bounds = self.problem.lower().iter().zip(self.problem.upper());
        shares
            .iter()
            .zip(bounds)
            .map(|(share, (lower, upper))| lower + share * (upper - lower))
            .collect()
    }

    fn usage(&self, action: &[f64], context: &[f64]) -> Vec<f64> {
        let mut usage = vec![0.0; self.problem.dimensions().budgets];
        self.problem.usage(action, context, &mut usage);
        usage
    }

    /// Prices about those that make an action the best one: some queries then end on their budget, others inside.
    fn prices_about(&mut self, action: &[f64], context: &[f64]) -> Vec<f64> {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = self.problem.dimensions();
        let (mut gradient, mut jacobian) = (vec![0.0; d], vec![0.0; m * d]);
        self.problem.cost_gradient(action, context, &mut gradient);
        self.problem.usage_jacobian(action, context, &mut jacobian);
        let slope = |column: usize| (0..m).map(|row| jacobian[row * d + column].abs()).sum::<f64>();
        let price = (0..d)
            .map(|j| gradient[j].abs() / slope(j).max(1e-9))
            .sum::<f64>()
            / d as f64;
        self.uniform(m, 0.3, 2.0)
            .iter()
            .map(|factor| factor * price.max(1e-6))
            .collect()
    }

    /// A point, with a budget for a query that binds at about every second one.
    pub(super) fn point(&mut self) -> Result<Point, Failure> {
        let context = self.context();
        self.problem.check_context(&context)?;
        let (action, other) = (self.action(), self.action());
        let Dimensions { actions: d, .. } = self.problem.dimensions();
        Ok(Point {
            multiplier: self.prices_about(&action, &context),
            remaining: self.usage(&other, &context),
            upstream: self.uniform(d, -1.0, 1.0),
            action,
            context,
        })
    }

    /// The contexts and the budgets of an episode.
    pub(super) fn episode(&mut self, horizon: usize) -> Result<(Vec<f64>, Vec<f64>), Failure> {
        let m = self.problem.dimensions().budgets;
        let mut contexts = Vec::new();
        let mut budgets = vec![0.0; m];
        for _ in 0..horizon {
            let (context, action) = (self.context(), self.action());
            self.problem.check_context(&context)?;
            for (budget, usage) in budgets.iter_mut().zip(self.usage(&action, &context)) {
                *budget += usage;
            }
            contexts.extend(context);
        }
        // What is drawn pays the lower corner in its own contexts; the reserve is for all contexts.
        let mut reserve = vec![0.0; m];
        self.problem.reserve(horizon, &mut reserve);
        for (budget, least) in budgets.iter_mut().zip(&reserve) {
            *budget = budget.max(1.5 * least);
        }
        Ok((contexts, budgets))
    }

    /// A price for every step and budget of an episode.
    pub(super) fn prices(&mut self, contexts: &[f64]) -> Vec<f64> {
        let width = self.problem.dimensions().context;
        let mut prices = Vec::new();
        for context in contexts.chunks_exact(width) {
            let action = self.action();
            prices.extend(self.prices_about(&action, context));
        }
        prices
    }

    /// Several episodes.
    pub(super) fn set(&mut self, count: usize, horizon: usize) -> Result<Episodes, Failure> {
        let Dimensions {
            budgets: m, context, ..
        } = self.problem.dimensions();
        let (mut contexts, mut budgets) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let episode = self.episode(horizon)?;
            contexts.extend(episode.0);
            budgets.extend(episode.1);
        }
        Ok(Episodes::new(horizon, context, m, contexts, budgets)?)
    }
}
