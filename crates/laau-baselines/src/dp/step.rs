//! One step of the recursion: a scalar action now against the value of what is left.

use laau_core::SmoothProblem;

/// The largest number of evaluations, and the relative width of the bracket, of the search for the action.
const MOST_EVALUATIONS: usize = 60;
const WIDTH: f64 = 1e-12;
/// The search stops when marginal utility and price agree to this share of the price.
const AGREEMENT: f64 = 1e-10;

/// A problem with one action, one budget and a scalar context.
#[derive(Clone, Copy)]
pub(crate) struct ScalarStep<'a> {
    problem: &'a dyn SmoothProblem,
    lower: f64,
    upper: f64,
}

/// The best action of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Best {
    pub(crate) action: f64,
    /// The value of one more unit of budget at this step.
    pub(crate) price: f64,
}

impl<'a> ScalarStep<'a> {
    pub(crate) fn new(problem: &'a dyn SmoothProblem) -> Self {
        Self {
            problem,
            lower: problem.lower()[0],
            upper: problem.upper()[0],
        }
    }

    pub(crate) fn usage(&self, x: f64, c: f64) -> f64 {
        let mut usage = [0.0];
        self.problem.usage(&[x], &[c], &mut usage);
        usage[0]
    }

    /// `−l'(x)` and `g'(x)`.
    fn slopes(&self, x: f64, c: f64) -> (f64, f64) {
        let (mut cost, mut usage) = ([0.0], [0.0]);
        self.problem.cost_gradient(&[x], &[c], &mut cost);
        self.problem.usage_jacobian(&[x], &[c], &mut usage);
        (-cost[0], usage[0])
    }

    /// Minimises `l(x, c) − V(available − g(x, c))` over the box and `g(x, c) ≤ available`, where `price` is the slope of
    /// the concave `V` and does not rise.
    pub(crate) fn best(&self, c: f64, available: f64, price: impl Fn(f64) -> f64) -> Best {
        let rest = |x: f64| (available - self.usage(x, c)).max(0.0);
        // Marginal utility per usage, and the price it is compared with.
        let sides = |x: f64| {
            let (utility, usage) = self.slopes(x, c);
            let marginal = if usage > 0.0 {
                utility / usage
            } else {
                f64::INFINITY * utility.signum()
            };
            (marginal, price(rest(x)))
        };
        let (marginal, rate) = sides(self.lower);
        if marginal <= rate {
            return Best {
                action: self.lower,
                price: rate,
            };
        }
        let cap = self.payable(c, available);
        let (cap_marginal, cap_rate) = sides(cap);
        if cap_marginal >= cap_rate {
            let price = if cap < self.upper { cap_marginal } else { cap_rate };
            return Best {
                action: cap,
                price: if price.is_finite() { price } else { cap_rate },
            };
        }
        // Inverse prices are nearly straight in the action, so that a secant arrives at once.
        let gap = |(marginal, rate): (f64, f64)| 1.0 / marginal.max(0.0) - 1.0 / rate;
        let (mut low, mut high) = (self.lower, cap);
        let (mut low_gap, mut high_gap) = (gap((marginal, rate)), gap((cap_marginal, cap_rate)));
        let mut side = 0_i32;
        let mut x = 0.5 * (low + high);
        let mut found = rate;
        for _ in 0..MOST_EVALUATIONS {
            let secant = low - low_gap * (high - low) / (high_gap - low_gap);
            x = if secant > low && secant < high {
                secant
            } else {
                0.5 * (low + high)
            };
            let here = sides(x);
            // Inside the box the marginal utility is the price, also where the value has a kink and no slope.
            found = here.0;
            if (here.0 - here.1).abs() <= AGREEMENT * here.1 || high - low <= WIDTH * high {
                break;
            }
            // Illinois: an end that stays twice counts half.
            if here.0 > here.1 {
                low = x;
                low_gap = gap(here);
                if side > 0 {
                    high_gap *= 0.5;
                }
                side = 1;
            } else {
                high = x;
                high_gap = gap(here);
                if side < 0 {
                    low_gap *= 0.5;
                }
                side = -1;
            }
        }
        Best {
            action: x,
            price: found,
        }
    }

    /// The largest action that can be paid; usage is convex and payable at the lower bound.
    fn payable(&self, c: f64, available: f64) -> f64 {
        if self.usage(self.upper, c) <= available {
            return self.upper;
        }
        // Newton from the far side stays there: every tangent of a convex usage lies below it.
        let mut x = self.upper;
        for _ in 0..MOST_EVALUATIONS {
            let over = self.usage(x, c) - available;
            let slope = self.slopes(x, c).1;
            if over <= 0.0 || slope <= 0.0 {
                break;
            }
            let next = (x - over / slope).max(self.lower);
            if next >= x {
                break;
            }
            x = next;
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laau_core::problems::WeightedFairness;

    #[test]
    fn the_best_action_is_the_best_of_a_fine_grid() {
        let problem = WeightedFairness::paper();
        let step = ScalarStep::new(&problem);
        // V(e) = 2 ln(5 + e), whose slope is 2 / (5 + e).
        for c in [0.0, 0.05, 0.3, 1.0, 20.0] {
            for available in [1.0, 2.0, 15.0, 100.0] {
                let best = step.best(c, available, |e| 2.0 / (5.0 + e));
                let value = |x: f64| c * x.ln() + 2.0 * (5.0 + available - x).ln();
                let most = available.min(40.0);
                let grid = (0..=10_000)
                    .map(|i| value(1.0 + (most - 1.0) * f64::from(i) / 10_000.0))
                    .fold(f64::NEG_INFINITY, f64::max);
                assert!(
                    value(best.action) >= grid - 1e-12,
                    "c {c}, available {available}: {best:?}, {} below {grid}",
                    value(best.action)
                );
                assert!(best.action >= 1.0 && best.action <= most);
            }
        }
    }

    #[test]
    fn without_a_future_everything_is_taken() {
        let problem = WeightedFairness::paper();
        let step = ScalarStep::new(&problem);
        assert_eq!(step.best(0.3, 12.5, |_| 0.0).action, 12.5);
        assert_eq!(step.best(0.3, 80.0, |_| 0.0).action, 40.0);
    }
}
