//! A few episodes of one problem as plain data.

use std::fmt::Write as _;
use std::sync::Arc;

use laau_core::{Differentiate, Episodes, Query, SmoothProblem};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::certificate::Lagrangian;
use crate::draw::{self, Size};
use crate::query::{Corner, Level};
use crate::recipe::Recipe;
use crate::shrink::{Shrink, rounder};

/// One episode: a context per step, a level per budget.
#[derive(Debug, Clone, PartialEq)]
pub struct Course {
    /// The contexts, step by step.
    pub contexts: Vec<Vec<f64>>,
    /// Where the budgets of the whole episode sit.
    pub levels: Vec<Level>,
}

/// Episodes of one problem, and a seed for what is drawn beside them.
#[derive(Debug, Clone, PartialEq)]
pub struct EpisodeCase {
    /// The problem.
    pub recipe: Recipe,
    /// The episodes, all of one horizon.
    pub courses: Vec<Course>,
    /// For weights and choices.
    pub seed: u64,
}

/// Episodes with their numbers worked out.
pub struct Played {
    /// The problem.
    pub problem: Arc<dyn SmoothProblem>,
    /// A layer for it: the closed form where there is one.
    pub layer: Box<dyn Differentiate>,
    /// The episodes.
    pub episodes: Episodes,
}

impl EpisodeCase {
    /// Draws episodes of a problem.
    #[must_use]
    pub fn draw(recipe: Recipe, rng: &mut ChaCha8Rng, size: Size, horizon: usize, count: usize) -> Self {
        let courses = (0..count)
            .map(|_| Course {
                contexts: (0..horizon)
                    .map(|_| draw::context(&recipe, rng, 0.2 * size.wild))
                    .collect(),
                levels: (0..recipe.budgets).map(|_| Level::draw(rng, size.wild)).collect(),
            })
            .collect();
        Self {
            recipe,
            courses,
            seed: rng.random(),
        }
    }

    /// Number of steps.
    #[must_use]
    pub fn horizon(&self) -> usize {
        self.courses[0].contexts.len()
    }

    /// Works the numbers out.
    ///
    /// # Errors
    /// When problem, contexts or budgets are refused.
    pub fn resolve(&self) -> Result<Played, String> {
        let problem = self.recipe.build().map_err(|error| error.to_string())?;
        let layer: Box<dyn Differentiate> = match self.recipe.closed_form() {
            Some(closed) => Box::new(closed),
            None => Box::new(self.recipe.solver()?),
        };
        let (mut contexts, mut budgets) = (Vec::new(), Vec::new());
        for course in &self.courses {
            contexts.extend(course.contexts.concat());
            budgets.extend(self.budgets(&*problem, course));
        }
        let dimensions = problem.dimensions();
        let episodes = Episodes::new(
            self.horizon(),
            dimensions.context,
            dimensions.budgets,
            contexts,
            budgets,
        )
        .map_err(|error| error.to_string())?;
        episodes.check(&*problem).map_err(|error| error.to_string())?;
        Ok(Played {
            problem,
            layer,
            episodes,
        })
    }

    /// The budgets of an episode, never below the reserve.
    fn budgets(&self, problem: &dyn SmoothProblem, course: &Course) -> Vec<f64> {
        let m = self.recipe.budgets;
        let zero = vec![0.0; m];
        let mut reserve = vec![0.0; m];
        problem.reserve(course.contexts.len(), &mut reserve);
        let (mut spread, mut upper, mut free) = (zero.clone(), zero.clone(), zero.clone());
        let [mut low, mut high, mut best] = [zero.clone(), zero.clone(), zero.clone()];
        for context in &course.contexts {
            let query = Query {
                context,
                multiplier: &zero,
                available: &zero,
            };
            let least = Lagrangian::new(problem, query, &zero).least(&self.recipe.shape());
            problem.usage(problem.lower(), context, &mut low);
            problem.usage(problem.upper(), context, &mut high);
            problem.usage(&least, context, &mut best);
            for row in 0..m {
                spread[row] += (high[row] - low[row]).abs();
                upper[row] += high[row].max(low[row]);
                free[row] += best[row];
            }
        }
        course
            .levels
            .iter()
            .enumerate()
            .map(|(row, level)| {
                let wanted = match level {
                    Level::Above(value) => reserve[row] + value,
                    Level::Share(share) => reserve[row] + share * spread[row],
                    Level::Kink { corner, offset } => {
                        let usage = match corner {
                            Corner::Lower => reserve[row],
                            Corner::Upper => upper[row],
                            Corner::Free | Corner::Others => free[row],
                        };
                        usage * (1.0 + offset)
                    }
                };
                wanted.max(reserve[row])
            })
            .collect()
    }

    fn numbers_mut(&mut self) -> Vec<&mut f64> {
        let mut numbers = self.recipe.numbers_mut();
        for course in &mut self.courses {
            numbers.extend(course.contexts.iter_mut().flatten());
            numbers.extend(course.levels.iter_mut().map(Level::number_mut));
        }
        numbers
    }

    fn each(&self, change: impl Fn(&mut Course)) -> Self {
        let mut changed = self.clone();
        changed.courses.iter_mut().for_each(change);
        changed
    }
}

impl Shrink for EpisodeCase {
    fn smaller(&self) -> Vec<Self> {
        let mut candidates = Vec::new();
        for index in (0..self.courses.len()).filter(|_| self.courses.len() > 1) {
            let mut fewer = self.clone();
            fewer.courses.remove(index);
            candidates.push(fewer);
        }
        let horizon = self.horizon();
        if horizon > 1 {
            candidates.push(self.each(|course| course.contexts.truncate(horizon / 2)));
            for step in (0..horizon).take(20) {
                candidates.push(self.each(|course| {
                    course.contexts.remove(step);
                }));
            }
        }
        for action in 0..self.recipe.actions() {
            if let Some(recipe) = self.recipe.without_action(action) {
                let budget = recipe.budgets < self.recipe.budgets;
                let mut smaller = self.each(|course| {
                    for context in &mut course.contexts {
                        self.recipe.forget(action, context);
                    }
                    if budget {
                        course.levels.remove(action);
                    }
                });
                smaller.recipe = recipe;
                candidates.push(smaller);
            }
        }
        for budget in 0..self.recipe.budgets {
            if let Some(recipe) = self.recipe.without_budget(budget) {
                let mut smaller = self.each(|course| {
                    course.levels.remove(budget);
                });
                smaller.recipe = recipe;
                candidates.push(smaller);
            }
        }
        if horizon * self.courses.len() * self.recipe.actions() <= 200 {
            candidates.extend(rounder(self, Self::numbers_mut, |case| case.recipe.settle()));
        }
        candidates
    }

    fn text(&self) -> String {
        let mut text = format!("{:?}\nseed: {}", self.recipe, self.seed);
        let budgets = self.resolve().map(|played| played.episodes.budgets().to_vec());
        let m = self.recipe.budgets;
        for (index, course) in self.courses.iter().enumerate() {
            let _ = write!(
                text,
                "\nepisode {index}: contexts: {:?}\n  levels: {:?}",
                course.contexts, course.levels
            );
            if let Ok(budgets) = &budgets {
                let _ = write!(text, "\n  budgets: {:?}", &budgets[index * m..][..m]);
            }
        }
        text
    }
}
