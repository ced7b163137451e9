//! The slope of the value function, for every number of steps to come.

use laau_core::SmoothProblem;
use rayon::prelude::*;

use super::chain::{Branch, Chain, Position};
use super::step::ScalarStep;

/// The largest number of steps to come that has a table of its own. With more, the price of a budget hardly depends on how many
/// there are, but on how much there is for each: it is that of this many steps.
pub(crate) const MOST_LEVELS: usize = 256;

/// The value of one more unit of budget with `k` steps to come, by state and by excess budget per step.
///
/// Kept as inverse prices, which are nearly straight in the budget (exactly so for logarithmic utility without bounds),
/// on a grid that is finer where little is left. Prices never rise with the budget: the value is concave.
#[derive(Debug, Clone)]
pub(crate) struct PriceTable {
    states: usize,
    points: usize,
    /// The largest excess usage of one step: beyond it a budget is worth nothing.
    width: f64,
    /// `levels × states × points`; level 0 is for one step to come.
    inverse: Vec<f64>,
}

impl PriceTable {
    /// Solves the recursion backwards for up to `levels` steps to come, as far as [`MOST_LEVELS`].
    pub(crate) fn solve(problem: &dyn SmoothProblem, chain: &Chain, levels: usize, points: usize) -> Self {
        Self::solve_all(problem, chain, levels.min(MOST_LEVELS), points)
    }

    fn solve_all(problem: &dyn SmoothProblem, chain: &Chain, levels: usize, points: usize) -> Self {
        let step = ScalarStep::new(problem);
        let mut least = [0.0];
        problem.least_usage(&mut least);
        let states = chain.states();
        let mut all = Vec::new();
        let mut width = 0.0_f64;
        for left in 1..=levels {
            for state in 0..states {
                chain.branches(left, state, &mut all);
                for branch in &all {
                    width = width.max(step.usage(problem.upper()[0], branch.context) - least[0]);
                }
            }
        }
        let mut table = Self {
            states,
            points,
            width,
            inverse: Vec::with_capacity(levels * states * points),
        };
        for left in 1..=levels {
            let branches: Vec<Vec<Branch>> = (0..states)
                .map(|state| {
                    chain.branches(left, state, &mut all);
                    all.clone()
                })
                .collect();
            let level: Vec<f64> = (0..states * points)
                .into_par_iter()
                .map(|index| {
                    // At the far end the price falls to zero at once: keep the one just before.
                    let end = index % points == points - 1;
                    let excess =
                        left as f64 * table.grid(index % points) * if end { 1.0 - 1e-9 } else { 1.0 };
                    let mut price = 0.0;
                    for branch in &branches[index / points] {
                        let available = least[0] + excess;
                        let later = |rest: f64| table.price(left - 1, branch.next, rest);
                        price += branch.probability * step.best(branch.context, available, later).price;
                    }
                    1.0 / price
                })
                .collect();
            table.inverse.extend_from_slice(&level);
            table.make_monotone(left);
        }
        table
    }

    /// Number of steps to come for which there is a table.
    pub(crate) fn levels(&self) -> usize {
        self.inverse.len() / (self.states * self.points)
    }

    /// The value of one more unit of excess budget for `left` steps to come, which have `excess` together.
    ///
    /// Beyond the tables the longest one is taken at the same excess per step.
    pub(crate) fn price(&self, left: usize, position: Position, excess: f64) -> f64 {
        let level = left.min(self.levels());
        if level == 0 {
            return 0.0;
        }
        let place = (excess / (left as f64 * self.width)).max(0.0).sqrt() * (self.points - 1) as f64;
        let Position { state, fraction } = position;
        let near = self.at(level, state, place);
        if fraction > 0.0 {
            near + fraction * (self.at(level, state + 1, place) - near)
        } else {
            near
        }
    }

    /// The excess per step at a point of the grid.
    fn grid(&self, point: usize) -> f64 {
        let share = point as f64 / (self.points - 1) as f64;
        self.width * share * share
    }

    fn at(&self, level: usize, state: usize, place: f64) -> f64 {
        let last = self.points - 1;
        if place >= last as f64 || place.is_nan() {
            return 0.0;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a position on the grid"
        )]
        let point = place as usize;
        let start = ((level - 1) * self.states + state) * self.points + point;
        let (low, high) = (self.inverse[start], self.inverse[start + 1]);
        // The grid is quadratic in the place: interpolate in the budget itself.
        let (from, to) = (point as f64, point as f64 + 1.0);
        let share = (place * place - from * from) / (to * to - from * from);
        if high.is_finite() {
            1.0 / (low + share * (high - low))
        } else if low.is_finite() {
            (1.0 - share) / low
        } else {
            0.0
        }
    }

    /// Restores the order of neighbouring prices after rounding.
    fn make_monotone(&mut self, left: usize) {
        let size = self.states * self.points;
        for row in self.inverse[(left - 1) * size..].chunks_exact_mut(self.points) {
            for point in 1..row.len() {
                row[point] = row[point].max(row[point - 1]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use laau_core::problems::WeightedFairness;

    const ONLY: Position = Position {
        state: 0,
        fraction: 0.0,
    };

    #[test]
    fn with_one_context_the_price_is_that_of_the_equal_share() {
        let problem = WeightedFairness::paper();
        let chain = Chain::Independent { atoms: vec![0.4] };
        let table = PriceTable::solve(&problem, &chain, 12, 65);
        for left in [1, 2, 5, 12] {
            for share in [1.5, 4.0, 11.0, 30.0] {
                let price = table.price(left, ONLY, left as f64 * (share - 1.0));
                assert!(
                    (price - 0.4 / share).abs() < 1e-6,
                    "{left} steps with {share} each: {price}"
                );
            }
            assert_eq!(table.price(left, ONLY, left as f64 * 39.0), 0.0);
        }
    }

    #[test]
    fn a_long_horizon_has_a_table_of_bounded_size_and_nearly_the_same_prices() {
        let problem = WeightedFairness::paper();
        let chain = Chain::Independent {
            atoms: vec![0.05, 0.2, 0.4, 0.9],
        };
        let whole = PriceTable::solve_all(&problem, &chain, 2000, 96);
        let short = PriceTable::solve(&problem, &chain, 2000, 96);
        assert_eq!((whole.levels(), short.levels()), (2000, MOST_LEVELS));
        for left in [1, 100, 256, 257, 600, 1500, 2000] {
            for share in [1.5, 4.0, 11.0, 25.0] {
                let [exact, found] =
                    [&whole, &short].map(|table| table.price(left, ONLY, left as f64 * (share - 1.0)));
                assert!(
                    (found - exact).abs() <= 0.03 * exact,
                    "{left} steps with {share} each: {found} against {exact}"
                );
            }
        }
    }

    #[test]
    fn prices_agree_with_a_value_recursion_by_brute_force() {
        let problem = WeightedFairness::new(1.0, 10.0).unwrap();
        let atoms = vec![0.1, 0.3, 0.9];
        let table = PriceTable::solve(&problem, &Chain::Independent { atoms: atoms.clone() }, 2, 257);
        // V_1(e) = E[c] ln(1 + e), V_2(e) = E max_x c ln x + V_1(e + 1 − x), by a fine grid; its slope by differences.
        let one = |e: f64| atoms.iter().sum::<f64>() / 3.0 * (1.0 + e.min(9.0)).ln();
        let two = |e: f64| {
            let best = |c: f64| {
                (0..=100_000)
                    .map(|i| 1.0 + e.min(9.0) * f64::from(i) / 100_000.0)
                    // The kink, where the step to come is saturated.
                    .chain(std::iter::once((e - 8.0).clamp(1.0, 10.0)))
                    .map(|x| c * x.ln() + one(e + 1.0 - x))
                    .fold(f64::NEG_INFINITY, f64::max)
            };
            atoms.iter().map(|c| best(*c)).sum::<f64>() / 3.0
        };
        for e in [0.5, 2.0, 6.0, 12.0] {
            let slope = (two(e + 1e-3) - two(e - 1e-3)) / 2e-3;
            let price = table.price(2, ONLY, e);
            assert!(
                (price - slope).abs() < 2e-4 * slope,
                "excess {e}: {price} against {slope}"
            );
        }
    }
}
