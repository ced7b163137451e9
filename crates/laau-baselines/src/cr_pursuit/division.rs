//! Divide and conquer: budgets that no action connects are pursued each on their own.

use laau_core::{Dimensions, SmoothProblem};

/// A partition of budgets and actions into parts that share nothing but the step.
///
/// A part is a set of budgets (inventories) that actions connect, with those actions. An action that has used nothing so
/// far belongs to no part: it is free.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Division {
    pub(crate) parts: usize,
    /// The part of each budget.
    pub(crate) of_budget: Vec<usize>,
    /// The part of each action.
    pub(crate) of_action: Vec<Option<usize>>,
}

impl Division {
    /// Everything in one part.
    pub(crate) fn joint(dimensions: Dimensions) -> Self {
        Self {
            parts: 1,
            of_budget: vec![0; dimensions.budgets],
            of_action: vec![Some(0); dimensions.actions],
        }
    }

    /// Whether everything is in one part.
    pub(crate) fn is_joint(&self) -> bool {
        self.parts == 1 && !self.has_free_actions()
    }

    pub(crate) fn has_free_actions(&self) -> bool {
        self.of_action.contains(&None)
    }

    /// What the actions of each part gain over the lower corner. The cost of a divided problem is a sum over actions.
    pub(crate) fn gains(
        &self,
        problem: &dyn SmoothProblem,
        context: &[f64],
        action: &[f64],
        gains: &mut [f64],
    ) {
        let lower_cost = problem.cost(problem.lower(), context);
        if self.is_joint() {
            gains[0] = lower_cost - problem.cost(action, context);
            return;
        }
        let mut moved = problem.lower().to_vec();
        for (part, gain) in gains.iter_mut().enumerate() {
            moved.copy_from_slice(problem.lower());
            self.copy_part(part, action, &mut moved);
            *gain = lower_cost - problem.cost(&moved, context);
        }
    }

    /// Copies the actions of one part.
    pub(crate) fn copy_part(&self, part: usize, from: &[f64], to: &mut [f64]) {
        for ((to, from), of) in to.iter_mut().zip(from).zip(&self.of_action) {
            if *of == Some(part) {
                *to = *from;
            }
        }
    }

    /// Sums a figure of each action and of each budget over every part.
    pub(crate) fn sums(&self, of_actions: &[f64], of_budgets: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.parts];
        for (value, part) in of_actions.iter().zip(&self.of_action) {
            if let Some(part) = part {
                sums[*part] += value;
            }
        }
        for (value, part) in of_budgets.iter().zip(&self.of_budget) {
            sums[*part] += value;
        }
        sums
    }
}

/// Which actions have used which budgets in the steps seen so far.
///
/// Parts can only grow together: the division of `t` steps is one of `t − 1` steps, too.
#[derive(Debug, Clone)]
pub(crate) struct Links {
    dimensions: Dimensions,
    /// The root of each budget's part is itself a budget.
    parent: Vec<usize>,
    /// A budget that the action uses.
    used_by: Vec<Option<usize>>,
    jacobian: Vec<f64>,
}

impl Links {
    /// No steps yet. None for a problem that cannot be divided: one budget, a cost that is not a sum over actions, or
    /// usage that is not affine.
    pub(crate) fn new(problem: &dyn SmoothProblem) -> Option<Self> {
        let dimensions = problem.dimensions();
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = dimensions;
        let structure = problem.structure();
        let separable = m > 1 && structure.diagonal_hessian && structure.affine_usage;
        separable.then(|| Self {
            dimensions,
            parent: (0..m).collect(),
            used_by: vec![None; d],
            jacobian: vec![0.0; m * d],
        })
    }

    /// Adds what the actions use in one more context.
    pub(crate) fn see(&mut self, problem: &dyn SmoothProblem, context: &[f64]) {
        let d = self.dimensions.actions;
        problem.usage_jacobian(problem.lower(), context, &mut self.jacobian);
        for at in 0..self.jacobian.len() {
            if self.jacobian[at] != 0.0 {
                let (budget, action) = (at / d, at % d);
                let other = *self.used_by[action].get_or_insert(budget);
                let (a, b) = (self.root(budget), self.root(other));
                self.parent[a.max(b)] = a.min(b);
            }
        }
    }

    /// The division of all that was seen.
    pub(crate) fn division(&self) -> Division {
        let m = self.dimensions.budgets;
        let roots: Vec<usize> = (0..m).filter(|budget| self.parent[*budget] == *budget).collect();
        let part = |budget: usize| {
            let root = self.root(budget);
            roots.partition_point(|other| *other < root)
        };
        Division {
            parts: roots.len(),
            of_budget: (0..m).map(part).collect(),
            of_action: self.used_by.iter().map(|budget| budget.map(part)).collect(),
        }
    }

    fn root(&self, mut budget: usize) -> usize {
        while self.parent[budget] != budget {
            budget = self.parent[budget];
        }
        budget
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laau_core::problems::{LogUtility, VmAllocation, WeightedFairness, Wireless};

    fn divided(actions: usize, matrix: &[f64]) -> Division {
        let budgets = matrix.len() / actions;
        let problem = LogUtility::new(actions, budgets, matrix.to_vec(), 0.1, 9.0).unwrap();
        let mut links = Links::new(&problem).unwrap();
        links.see(&problem, &vec![0.5; actions]);
        links.division()
    }

    #[test]
    fn budgets_that_share_no_action_are_parts() {
        let division = divided(4, &[1.0, 0.0, 2.0, 0.0, 0.0, 3.0, 0.0, 0.0]);
        assert_eq!((division.parts, &division.of_budget[..]), (2, &[0, 1][..]));
        assert_eq!(division.of_action, [Some(0), Some(1), Some(0), None]);
    }

    #[test]
    fn an_action_that_uses_two_budgets_connects_them() {
        let division = divided(3, &[1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 4.0, 0.0, 0.0]);
        assert_eq!((division.parts, &division.of_budget[..]), (2, &[0, 1, 1, 0][..]));
        assert_eq!(division.of_action, [Some(0), Some(1), Some(1)]);
        assert!(divided(2, &[1.0, 1.0, 0.0, 1.0]).is_joint());
    }

    #[test]
    fn a_coupled_cost_a_curved_usage_and_a_single_budget_are_not_divided() {
        assert!(Links::new(&VmAllocation::server()).is_none());
        assert!(Links::new(&Wireless::three_channels()).is_none());
        assert!(Links::new(&WeightedFairness::paper()).is_none());
        assert!(Links::new(&VmAllocation::new(1.0, vec![1.0; 3], vec![9.0; 3]).unwrap()).is_some());
    }
}
