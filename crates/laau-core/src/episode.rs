//! Contexts and budgets of episodes.

use std::sync::Arc;

use crate::error::{Error, expect_finite, expect_length};
use crate::ledger::check_budgets;
use crate::problem::{Dimensions, Problem, least_budgets};
use crate::scaling::Scaling;

/// One episode: the contexts of its steps and its budgets, borrowed from an [`Episodes`] set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Episode<'a> {
    context_len: usize,
    contexts: &'a [f64],
    budgets: &'a [f64],
}

impl<'a> Episode<'a> {
    /// An episode of `contexts.len() / context_len` steps.
    ///
    /// # Errors
    /// [`Error::WrongLength`] for no steps or an incomplete last one, [`Error::NotFinite`], or [`Error::Negative`] for a
    /// budget.
    pub fn new(contexts: &'a [f64], context_len: usize, budgets: &'a [f64]) -> Result<Self, Error> {
        let steps = contexts.len().checked_div(context_len).unwrap_or(0).max(1);
        expect_length("contexts", contexts, steps * context_len.max(1))?;
        expect_finite("contexts", contexts)?;
        check_budgets(budgets)?;
        Ok(Self {
            context_len,
            contexts,
            budgets,
        })
    }

    /// Number of steps `N`.
    #[must_use]
    pub fn horizon(&self) -> usize {
        self.contexts.len() / self.context_len
    }

    /// The context of one step.
    #[must_use]
    pub fn context(&self, step: usize) -> &'a [f64] {
        &self.contexts[step * self.context_len..][..self.context_len]
    }

    /// The contexts of all steps, one after the other.
    #[must_use]
    pub fn contexts(&self) -> &'a [f64] {
        self.contexts
    }

    /// Length of one context.
    #[must_use]
    pub fn context_len(&self) -> usize {
        self.context_len
    }

    /// The budgets `B`.
    #[must_use]
    pub fn budgets(&self) -> &'a [f64] {
        self.budgets
    }
}

/// A set of episodes of one horizon, in two flat tables.
///
/// Two sets are equal if all that a policy can meet in them is; the series they come from and the problem they were made for are
/// not part of that.
#[derive(Debug, Clone)]
pub struct Episodes {
    horizon: usize,
    context_len: usize,
    budget_len: usize,
    contexts: Vec<f64>,
    budgets: Vec<f64>,
    scaling: Option<Arc<Scaling>>,
    series: Option<Vec<Arc<str>>>,
    problem: Option<Arc<str>>,
}

impl PartialEq for Episodes {
    fn eq(&self, other: &Self) -> bool {
        let sizes = |set: &Self| (set.horizon, set.context_len, set.budget_len);
        sizes(self) == sizes(other)
            && self.contexts == other.contexts
            && self.budgets == other.budgets
            && self.scaling == other.scaling
    }
}

impl Episodes {
    /// A set of episodes from flat tables: `contexts` is episode × step × context, `budgets` is episode × budget.
    ///
    /// # Errors
    /// [`Error::WrongLength`] when the tables do not fit each other, [`Error::NotFinite`], or [`Error::Negative`] for a
    /// budget.
    pub fn new(
        horizon: usize,
        context_len: usize,
        budget_len: usize,
        contexts: Vec<f64>,
        budgets: Vec<f64>,
    ) -> Result<Self, Error> {
        for (what, size) in [
            ("step", horizon),
            ("context entry", context_len),
            ("budget", budget_len),
        ] {
            if size == 0 {
                return Err(Error::Empty { what });
            }
        }
        let count = budgets.len() / budget_len;
        expect_length("budgets", &budgets, count * budget_len)?;
        expect_length("contexts", &contexts, count * horizon * context_len)?;
        expect_finite("contexts", &contexts)?;
        check_budgets(&budgets)?;
        Ok(Self {
            horizon,
            context_len,
            budget_len,
            contexts,
            budgets,
            scaling: None,
            series: None,
            problem: None,
        })
    }

    /// The same episodes, whose contexts were made of readings.
    ///
    /// # Errors
    /// [`Error::WrongLength`] unless there is one column per context entry.
    pub fn with_scaling(self, scaling: impl Into<Arc<Scaling>>) -> Result<Self, Error> {
        let scaling = scaling.into();
        expect_length("the columns of the scaling", &scaling.columns, self.context_len)?;
        Ok(Self {
            scaling: Some(scaling),
            ..self
        })
    }

    /// How readings became the contexts, if they were readings.
    #[must_use]
    pub fn scaling(&self) -> Option<&Scaling> {
        self.scaling.as_deref()
    }

    /// The same episodes, made for the problem of this name: [`Episodes::check`] refuses them for any other.
    #[must_use]
    pub fn made_for(self, problem: &str) -> Self {
        Self {
            problem: Some(Arc::from(problem)),
            ..self
        }
    }

    /// The name of the problem that the episodes were made for, if they say it.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// The same episodes with the name of the series (VM, day, stock) that each comes from: episodes of one series are alike,
    /// which the uncertainty of a comparison must know. Files of episodes do not keep it.
    ///
    /// # Errors
    /// [`Error::WrongLength`] unless there is one name per episode.
    pub fn with_series(self, series: Vec<Arc<str>>) -> Result<Self, Error> {
        if series.len() != self.len() {
            return Err(Error::WrongLength {
                what: "the series of episodes",
                expected: self.len(),
                found: series.len(),
            });
        }
        Ok(Self {
            series: Some(series),
            ..self
        })
    }

    /// The series of each episode, if they are known.
    #[must_use]
    pub fn series(&self) -> Option<&[Arc<str>]> {
        self.series.as_deref()
    }

    /// Number of episodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.budgets.len() / self.budget_len
    }

    /// Whether there is no episode.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.budgets.is_empty()
    }

    /// Number of steps of every episode.
    #[must_use]
    pub fn horizon(&self) -> usize {
        self.horizon
    }

    /// Length of one context.
    #[must_use]
    pub fn context_len(&self) -> usize {
        self.context_len
    }

    /// Number of budgets.
    #[must_use]
    pub fn budget_len(&self) -> usize {
        self.budget_len
    }

    /// All contexts, episode × step × context.
    #[must_use]
    pub fn contexts(&self) -> &[f64] {
        &self.contexts
    }

    /// All budgets, episode × budget.
    #[must_use]
    pub fn budgets(&self) -> &[f64] {
        &self.budgets
    }

    /// One episode.
    #[must_use]
    pub fn get(&self, index: usize) -> Episode<'_> {
        let width = self.horizon * self.context_len;
        Episode {
            context_len: self.context_len,
            contexts: &self.contexts[index * width..][..width],
            budgets: &self.budgets[index * self.budget_len..][..self.budget_len],
        }
    }

    /// All episodes in order.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Episode<'_>> + Clone {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The episodes at the given positions, in that order.
    #[must_use]
    pub fn select(&self, indices: &[usize]) -> Self {
        let mut contexts = Vec::with_capacity(indices.len() * self.horizon * self.context_len);
        let mut budgets = Vec::with_capacity(indices.len() * self.budget_len);
        for &index in indices {
            let episode = self.get(index);
            contexts.extend_from_slice(episode.contexts);
            budgets.extend_from_slice(episode.budgets);
        }
        Self {
            contexts,
            budgets,
            scaling: self.scaling.clone(),
            series: self.series_at(indices),
            problem: self.problem.clone(),
            ..*self
        }
    }

    /// The first `steps` steps of the episodes at the given positions, in that order, with budgets in proportion: `B n/N`, and
    /// never less than the problem's steps use at least. All steps, if there are fewer.
    #[must_use]
    pub fn cut(&self, steps: usize, indices: &[usize], problem: &dyn Problem) -> Self {
        let steps = steps.min(self.horizon);
        let mut least = vec![0.0; self.budget_len];
        problem.reserve(steps, &mut least);
        let mut contexts = Vec::with_capacity(indices.len() * steps * self.context_len);
        let mut budgets = Vec::with_capacity(indices.len() * self.budget_len);
        for &index in indices {
            let episode = self.get(index);
            contexts.extend_from_slice(&episode.contexts[..steps * self.context_len]);
            let share = steps as f64 / self.horizon as f64;
            budgets.extend(
                episode
                    .budgets
                    .iter()
                    .zip(&least)
                    .map(|(b, least)| (b * share).max(*least)),
            );
        }
        Self {
            contexts,
            budgets,
            horizon: steps,
            scaling: self.scaling.clone(),
            series: self.series_at(indices),
            problem: self.problem.clone(),
            ..*self
        }
    }

    fn series_at(&self, indices: &[usize]) -> Option<Vec<Arc<str>>> {
        let series = self.series.as_ref()?;
        Some(indices.iter().map(|&index| Arc::clone(&series[index])).collect())
    }

    /// Whether some budget cannot pay the greatest action at every step of its episode. Where none binds, every policy can do the same.
    #[must_use]
    pub fn any_budget_binds(&self, problem: &dyn Problem) -> bool {
        let mut usage = vec![0.0; self.budget_len];
        self.iter().any(|episode| {
            let mut left = episode.budgets().to_vec();
            (0..self.horizon).any(|step| {
                problem.usage(problem.upper(), episode.context(step), &mut usage);
                left.iter_mut().zip(&usage).any(|(left, used)| {
                    *left -= used;
                    *left < 0.0
                })
            })
        })
    }

    /// Checks that a problem can be played on these episodes: sizes fit, and every budget pays the lower bound of every
    /// step.
    ///
    /// # Errors
    /// [`Error::WrongLength`], [`Error::BudgetTooSmall`], or the problem's own about a context, with its episode and step.
    pub fn check(&self, problem: &dyn Problem) -> Result<(), Error> {
        if let Some(made_for) = self.problem().filter(|made_for| *made_for != problem.name()) {
            return Err(Error::OtherProblem {
                made_for: made_for.to_owned(),
                problem: problem.name().to_owned(),
            });
        }
        let Dimensions { budgets, context, .. } = problem.dimensions();
        if self.context_len != context {
            return Err(Error::WrongLength {
                what: "a context",
                expected: context,
                found: self.context_len,
            });
        }
        if self.budget_len != budgets {
            return Err(Error::WrongLength {
                what: "the budgets",
                expected: budgets,
                found: self.budget_len,
            });
        }
        let least = least_budgets(problem, self.horizon);
        for (index, &budget) in self.budgets.iter().enumerate() {
            let least = least[index % budgets];
            if budget < least {
                let error = Error::BudgetTooSmall {
                    budget: index % budgets,
                    given: budget,
                    least,
                    horizon: self.horizon,
                };
                return Err(error.in_episode(index / budgets));
            }
        }
        for (index, context) in self.contexts.chunks_exact(context).enumerate() {
            problem.check_context(context).map_err(|error| {
                error
                    .at_step(index % self.horizon)
                    .in_episode(index / self.horizon)
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::WeightedFairness;

    fn two_episodes(budgets: [f64; 2]) -> Result<Episodes, Error> {
        Episodes::new(3, 1, 1, vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6], budgets.to_vec())
    }

    #[test]
    fn a_set_gives_back_its_episodes() {
        let set = two_episodes([30.0, 40.0]).unwrap();
        assert_eq!(set.len(), 2);
        let second = set.get(1);
        assert_eq!(
            (second.horizon(), second.context(2), second.budgets()),
            (3, &[0.6][..], &[40.0][..])
        );
        assert_eq!(set.select(&[1, 1]).budgets(), [40.0, 40.0]);
    }

    #[test]
    fn bad_tables_are_refused_with_a_word() {
        let check = |result: Result<Episodes, Error>, expected: &str| {
            assert_eq!(result.unwrap_err().to_string(), expected);
        };
        check(
            two_episodes([30.0, -1.0]),
            "expected a non-negative value for budgets[1], found -1",
        );
        check(
            two_episodes([30.0, f64::NAN]),
            "expected a finite value for budgets[1], found NaN",
        );
        check(
            Episodes::new(3, 1, 1, vec![0.0; 5], vec![1.0; 2]),
            "expected 6 values for contexts, found 5",
        );
        check(
            Episodes::new(0, 1, 1, vec![], vec![]),
            "expected at least one step, found none",
        );
    }

    #[test]
    fn a_budget_below_the_least_is_refused() {
        let problem = WeightedFairness::paper();
        assert_eq!(two_episodes([3.0, 40.0]).unwrap().check(&problem), Ok(()));
        assert_eq!(
            two_episodes([40.0, 2.9])
                .unwrap()
                .check(&problem)
                .unwrap_err()
                .to_string(),
            "episode 1: budget 0 is 2.9, below 3, the least that 3 steps use"
        );
    }

    #[test]
    fn a_budget_is_accepted_if_and_only_if_it_covers_the_least_usage_exactly() {
        let problem = WeightedFairness::new(0.1, 7.0).unwrap();
        // Three times the float nearest to 0.1 lies between these two neighbours.
        let (below, above) = (0.3_f64.next_up().next_down(), 0.3_f64.next_up());
        assert_eq!(two_episodes([above, above]).unwrap().check(&problem), Ok(()));
        let error = two_episodes([above, below]).unwrap().check(&problem).unwrap_err();
        assert_eq!(
            error.root(),
            &Error::BudgetTooSmall {
                budget: 0,
                given: below,
                least: above,
                horizon: 3
            }
        );
    }

    #[test]
    fn a_refused_context_is_found_again_by_its_episode_and_step() {
        let set = Episodes::new(3, 1, 1, vec![0.1, 0.2, 0.3, 0.4, -0.5, 0.6], vec![30.0; 2]).unwrap();
        let error = set.check(&WeightedFairness::paper()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "episode 1: step 1: expected a non-negative value for context[0], found -0.5"
        );
        assert!(matches!(error.root(), Error::Negative { index: 0, .. }));
    }
}
