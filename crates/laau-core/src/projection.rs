//! The one named way to make an action payable.

use std::sync::Arc;

use crate::error::Error;
use crate::policy::{Agent, Observation, Policy};
use crate::problem::Problem;

/// Pulls an action in until it is payable: into the box, then along the straight line to the box's lower corner.
///
/// Usage is convex, and the lower corner is payable, so that the payable part of the line is one piece; the
/// result is its far end, to the last bit. For one action this is `min(x, what can be paid)`.
#[derive(Debug, Clone)]
pub struct Projection {
    usage: Vec<f64>,
    wanted: Vec<f64>,
}

impl Projection {
    /// A projection for actions and budgets of a problem's sizes.
    #[must_use]
    pub fn new(problem: &dyn Problem) -> Self {
        let dimensions = problem.dimensions();
        Self {
            usage: vec![0.0; dimensions.budgets],
            wanted: vec![0.0; dimensions.actions],
        }
    }

    /// Makes `action` payable from `available`; says whether it had to change it. A NaN becomes the lower bound.
    pub fn apply(
        &mut self,
        problem: &dyn Problem,
        context: &[f64],
        available: &[f64],
        action: &mut [f64],
    ) -> bool {
        let mut changed = false;
        for ((x, &lower), &upper) in action.iter_mut().zip(problem.lower()).zip(problem.upper()) {
            let inside = if x.is_nan() { lower } else { x.clamp(lower, upper) };
            changed |= inside != *x;
            *x = inside;
        }
        if self.payable(problem, context, available, action) {
            return changed;
        }
        self.wanted.copy_from_slice(action);
        // `low` is payable (the lower corner), `high` is not; halve until the two are neighbours.
        let (mut low, mut high) = (0.0_f64, 1.0_f64);
        loop {
            let middle = low + 0.5 * (high - low);
            if middle <= low || middle >= high || high - low < 1e-17 {
                break;
            }
            self.place(problem, middle, action);
            if self.payable(problem, context, available, action) {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.place(problem, low, action);
        self.fill_last_bits(problem, context, available, action);
        true
    }

    /// Puts `action` at `share` of the way from the lower corner to the wanted action.
    fn place(&self, problem: &dyn Problem, share: f64, action: &mut [f64]) {
        for ((x, &wanted), &lower) in action.iter_mut().zip(&self.wanted).zip(problem.lower()) {
            *x = (share * (wanted - lower) + lower).min(wanted);
        }
    }

    /// Rounding on the line may leave some last bits of a scalar action unused: take them while they can be paid.
    fn fill_last_bits(
        &mut self,
        problem: &dyn Problem,
        context: &[f64],
        available: &[f64],
        action: &mut [f64],
    ) {
        const MOST_BITS: usize = 64;
        for i in 0..action.len() {
            for _ in 0..MOST_BITS {
                let kept = action[i];
                if kept >= self.wanted[i] {
                    break;
                }
                action[i] = kept.next_up();
                if !self.payable(problem, context, available, action) {
                    action[i] = kept;
                    break;
                }
            }
        }
    }

    fn payable(&mut self, problem: &dyn Problem, context: &[f64], available: &[f64], action: &[f64]) -> bool {
        problem.usage(action, context, &mut self.usage);
        self.usage
            .iter()
            .zip(available)
            .all(|(used, available)| used <= available)
    }
}

/// A policy that may ask for more than it can pay, behind the projection; the report counts how often it acted.
pub struct Projected<P> {
    inner: P,
    problem: Arc<dyn Problem>,
}

impl<P: Policy> Projected<P> {
    /// Puts a policy behind the projection.
    #[must_use]
    pub fn new(inner: P, problem: Arc<dyn Problem>) -> Self {
        Self { inner, problem }
    }
}

impl<P: Policy> Policy for Projected<P> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(ProjectedAgent {
            inner: self.inner.begin(),
            problem: &*self.problem,
            projection: Projection::new(&*self.problem),
            count: 0,
        })
    }
}

struct ProjectedAgent<'a> {
    inner: Box<dyn Agent + 'a>,
    problem: &'a dyn Problem,
    projection: Projection,
    count: usize,
}

impl Agent for ProjectedAgent<'_> {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        self.inner.decide(observation, action)?;
        let changed =
            self.projection
                .apply(self.problem, observation.context(), observation.available, action);
        self.count += usize::from(changed);
        Ok(())
    }

    fn multiplier(&self) -> Option<&[f64]> {
        self.inner.multiplier()
    }

    fn projections(&self) -> usize {
        self.count + self.inner.projections()
    }

    fn unconverged(&self) -> usize {
        self.inner.unconverged()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::{LogUtility, WeightedFairness};

    #[test]
    fn a_scalar_action_becomes_the_least_of_wanted_upper_and_available() {
        let problem = WeightedFairness::paper();
        let mut projection = Projection::new(&problem);
        for (wanted, available, expected) in [
            (5.0, 7.3, 5.0),
            (9.0, 7.3, 7.3),
            (50.0, 60.0, 40.0),
            (0.0, 7.0, 1.0),
            (f64::NAN, 7.0, 1.0),
            (9.0, 1.0, 1.0),
        ] {
            let mut action = [wanted];
            let changed = projection.apply(&problem, &[0.3], &[available], &mut action);
            assert_eq!(
                (action[0], changed),
                (expected, wanted != expected),
                "wanted {wanted} of {available}"
            );
        }
    }

    #[test]
    fn several_budgets_are_all_respected_and_one_is_used_up() {
        let problem = LogUtility::new(3, 2, vec![1.0, 0.5, 0.0, 0.2, 0.7, 1.0], 0.1, 10.0).unwrap();
        let mut action = [9.0, 8.0, 7.0];
        assert!(Projection::new(&problem).apply(&problem, &[1.0; 3], &[4.0, 5.0], &mut action));
        let mut usage = [0.0; 2];
        problem.usage(&action, &[1.0; 3], &mut usage);
        assert!(usage[0] <= 4.0 && usage[1] <= 5.0);
        assert!(usage[0] > 4.0 - 1e-12 || usage[1] > 5.0 - 1e-12, "{usage:?}");
    }
}
