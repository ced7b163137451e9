//! Makes a plan payable to the last bit, at a loss of the size of rounding.

use std::sync::Arc;

use laau_core::{Agent, Dimensions, Episode, Error, Observation, Policy, Problem, SmoothProblem, rollout};

use super::sum::Sum;

/// What is given back beyond an excess, as a share of the limit: the usage of each step is rounded once more after that.
const GIVEN_BACK: f64 = 4.0 * f64::EPSILON;
/// What may be left of a budget, as a share of it, for its rest to be rounding, which a step takes.
const REST: f64 = 16.0 * f64::EPSILON;

/// What may be used up to and including each step if the reserve is kept, `N × M`.
pub(super) fn reserve_limits(problem: &dyn Problem, episode: &Episode<'_>) -> Vec<f64> {
    let n = episode.horizon();
    let mut reserve = vec![0.0; episode.budgets().len()];
    let mut limits = Vec::with_capacity(n * reserve.len());
    for step in 0..n {
        problem.reserve(n - 1 - step, &mut reserve);
        let left = episode.budgets().iter().zip(&reserve);
        limits.extend(left.map(|(budget, reserve)| budget - reserve));
    }
    limits
}

/// Makes a plan payable in the ledger's exact arithmetic, with the reserve kept at every step.
///
/// An optimal plan spends a budget to the last bit, or a little more. Only the actions that use an exceeded limit give
/// something back, and all of them the same share of what they have above their lower bounds: each changes by rounding.
/// A plan that is then still not payable at some step is cut at that step. A step that leaves next to nothing takes the rest:
/// a little above the lower corners, a rounding of a budget is worth a lot. Replaying the result is never cut.
pub(super) fn make_payable(
    problem: &Arc<dyn SmoothProblem>,
    episode: &Episode<'_>,
    limits: &[f64],
    actions: &mut [f64],
) -> Result<(), Error> {
    for resource in 0..episode.budgets().len() {
        give_back(&**problem, episode, limits, resource, actions);
    }
    let cut = Cut {
        problem: &**problem,
        plan: actions,
        budgets: episode.budgets(),
    };
    let paid = rollout(&**problem, &cut, episode)?;
    if let Some(failure) = paid.first_failure {
        return Err(failure);
    }
    actions.copy_from_slice(&paid.actions);
    Ok(())
}

/// Brings the use of one budget back to its limits.
fn give_back(
    problem: &dyn SmoothProblem,
    episode: &Episode<'_>,
    limits: &[f64],
    resource: usize,
    actions: &mut [f64],
) {
    let Dimensions {
        actions: d,
        budgets: m,
        ..
    } = problem.dimensions();
    let limit = |step: usize| limits[step * m + resource];
    let mut usage = vec![0.0; m];
    let mut used = Sum::default();
    let excess: Vec<f64> = actions
        .chunks_exact(d)
        .enumerate()
        .map(|(step, action)| {
            problem.usage(action, episode.context(step), &mut usage);
            used.add(usage[resource]);
            -used.below(limit(step))
        })
        .collect();
    if excess.iter().all(|excess| *excess <= 0.0) {
        return;
    }
    // What the users have above their lower bounds: by convexity, a share of it less uses at least that share less.
    let mut users = Users::new(problem, resource);
    let mut owned = vec![0.0; excess.len()];
    let mut sum = 0.0;
    for (step, action) in actions.chunks_exact(d).enumerate() {
        sum += users.find(action, episode.context(step));
        owned[step] = sum;
    }
    let mut share = 0.0_f64;
    for (step, action) in actions.chunks_exact_mut(d).enumerate().rev() {
        if excess[step] > 0.0 && owned[step] > 0.0 {
            share = share.max((excess[step] + GIVEN_BACK * limit(step)) / owned[step]);
        }
        if share > 0.0 {
            users.find(action, episode.context(step));
            users.keep(1.0 - share.min(1.0), action);
        }
    }
}

/// The actions of a step that use a budget.
struct Users<'a> {
    problem: &'a dyn SmoothProblem,
    resource: usize,
    uses: Vec<bool>,
    jacobian: Vec<f64>,
    usage: Vec<f64>,
    without: Vec<f64>,
}

impl<'a> Users<'a> {
    fn new(problem: &'a dyn SmoothProblem, resource: usize) -> Self {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = problem.dimensions();
        Self {
            problem,
            resource,
            uses: vec![false; d],
            jacobian: vec![0.0; m * d],
            usage: vec![0.0; m],
            without: vec![0.0; d],
        }
    }

    /// Finds the users of the budget at an action; gives what they use above their lower bounds.
    fn find(&mut self, action: &[f64], context: &[f64]) -> f64 {
        let (d, lower) = (action.len(), self.problem.lower());
        self.problem.usage_jacobian(action, context, &mut self.jacobian);
        for i in 0..d {
            self.uses[i] = self.jacobian[self.resource * d + i] > 0.0;
            self.without[i] = if self.uses[i] { lower[i] } else { action[i] };
        }
        let with = self.used(action, context);
        let without = std::mem::take(&mut self.without);
        let rest = self.used(&without, context);
        self.without = without;
        (with - rest).max(0.0)
    }

    fn used(&mut self, action: &[f64], context: &[f64]) -> f64 {
        self.problem.usage(action, context, &mut self.usage);
        self.usage[self.resource]
    }

    /// Leaves the users a share of what they have above their lower bounds.
    fn keep(&self, share: f64, action: &mut [f64]) {
        for ((x, lower), uses) in action.iter_mut().zip(self.problem.lower()).zip(&self.uses) {
            if *uses {
                *x = (lower + share * (*x - lower)).min(*x);
            }
        }
    }
}

/// Halvings until a share has no more bits.
const HALVINGS: usize = 64;

/// A plan whose steps are cut where they cannot be paid: the actions that use an exceeded budget, and only they. Where a
/// rounding of a budget is left, they take it.
struct Cut<'a> {
    problem: &'a dyn SmoothProblem,
    plan: &'a [f64],
    budgets: &'a [f64],
}

impl Policy for Cut<'_> {
    fn name(&self) -> &'static str {
        super::horizon::NAME
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(Cutting {
            cut: self,
            users: Users::new(self.problem, 0),
        })
    }
}

/// A [`Cut`] in an episode.
struct Cutting<'a> {
    cut: &'a Cut<'a>,
    users: Users<'a>,
}

impl Agent for Cutting<'_> {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        let d = action.len();
        action.copy_from_slice(&self.cut.plan[observation.step * d..][..d]);
        for resource in 0..observation.available.len() {
            self.users.resource = resource;
            self.cut(observation, action);
        }
        self.take_rest(observation, action);
        Ok(())
    }
}

impl Cutting<'_> {
    /// Cuts the users of one budget to what is available of it.
    fn cut(&mut self, observation: &Observation<'_>, action: &mut [f64]) {
        let (users, context) = (&mut self.users, observation.context());
        let available = observation.available[users.resource];
        if users.used(action, context) <= available {
            return;
        }
        users.find(action, context);
        let wanted = action.to_vec();
        let share = most(|share| {
            action.copy_from_slice(&wanted);
            users.keep(share, action);
            users.used(action, context) <= available
        });
        action.copy_from_slice(&wanted);
        users.keep(share, action);
    }

    /// Raises the actions that gain by it and use a budget of which only a rounding is left, all by the same share of what
    /// they have above their lower bounds, and uses no more than a rounding of any other budget.
    fn take_rest(&mut self, observation: &Observation<'_>, action: &mut [f64]) {
        let Users {
            problem,
            jacobian,
            usage,
            ..
        } = &mut self.users;
        let (d, context) = (action.len(), observation.context());
        problem.usage(action, context, usage);
        let budgets = self.cut.budgets;
        let ends = |usage: &[f64], k: usize| observation.available[k] - usage[k] <= REST * budgets[k];
        if !(0..budgets.len()).any(|k| ends(usage, k)) {
            return;
        }
        let mut gradient = vec![0.0; d];
        problem.usage_jacobian(action, context, jacobian);
        problem.cost_gradient(action, context, &mut gradient);
        let (lower, upper) = (problem.lower(), problem.upper());
        // How far an action may rise: by what it has, or, at a lower corner where usage has no slope yet, by all of its box. There
        // the root of a rounding is to be had for a rounding.
        let reach = |i: usize| {
            let slopes = (0..budgets.len())
                .filter(|k| ends(usage, *k))
                .map(|k| jacobian[k * d + i]);
            let steepest = slopes.fold(f64::NEG_INFINITY, f64::max);
            if gradient[i] >= 0.0 || steepest < 0.0 {
                0.0
            } else if action[i] > lower[i] {
                if steepest > 0.0 { action[i] - lower[i] } else { 0.0 }
            } else if steepest == 0.0 {
                upper[i] - lower[i]
            } else {
                0.0
            }
        };
        let rising: Vec<(usize, f64)> = (0..d)
            .map(|i| (i, reach(i)))
            .filter(|(_, reach)| *reach > 0.0)
            .collect();
        if rising.is_empty() {
            return;
        }
        let limits: Vec<f64> = (0..budgets.len())
            .map(|k| observation.available[k].min(usage[k] + REST * budgets[k]))
            .collect();
        let planned = action.to_vec();
        let raise = |share: f64, action: &mut [f64]| {
            for &(i, reach) in &rising {
                action[i] = (planned[i] + share * reach).min(upper[i]);
            }
        };
        let share = most(|share| {
            raise(share, action);
            problem.usage(action, context, usage);
            usage.iter().zip(&limits).all(|(used, limit)| used <= limit)
        });
        raise(share, action);
    }
}

/// The largest share for which a condition holds that holds for none, and not again once it does not.
fn most(mut holds: impl FnMut(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
