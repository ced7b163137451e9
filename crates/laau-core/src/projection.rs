//! The projection of an action onto the payable ones.

use crate::problem::Problem;

/// Pulls an action in until it is payable: into the box, then towards the box's lower corner, each entry no further than
/// the budgets that it uses ask for.
///
/// All entries set out from the lower corner, which is payable, straight for what was wanted, at the same pace. Where a
/// budget is used up, the entries that use it stop; the others go on, and those that use no exceeded budget arrive.
/// Usage is convex, so that the payable part of each way is one piece; each stop is its far end, to the last bit. For
/// one action this is `min(x, what can be paid)`; for one budget that all actions use, it is the far payable end of the
/// straight line from the lower corner.
#[derive(Debug, Clone)]
pub struct Projection {
    usage: Vec<f64>,
    /// The usage where the entries have stopped, and which budgets keep them from going on.
    stopped_usage: Vec<f64>,
    exceeded: Vec<bool>,
    wanted: Vec<f64>,
    moving: Vec<bool>,
}

/// A problem in a context, and what may be used there.
#[derive(Clone, Copy)]
struct Limits<'a> {
    problem: &'a dyn Problem,
    context: &'a [f64],
    available: &'a [f64],
}

impl Projection {
    /// A projection for actions and budgets of a problem's sizes.
    #[must_use]
    pub fn new(problem: &dyn Problem) -> Self {
        let dimensions = problem.dimensions();
        Self {
            usage: vec![0.0; dimensions.budgets],
            stopped_usage: vec![0.0; dimensions.budgets],
            exceeded: vec![false; dimensions.budgets],
            wanted: vec![0.0; dimensions.actions],
            moving: vec![false; dimensions.actions],
        }
    }

    /// Makes `action` payable from `available`; says whether it had to change it. A NaN becomes the lower bound.
    ///
    /// Where not even the lower corner is payable, the result is the lower corner.
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
        let limits = Limits {
            problem,
            context,
            available,
        };
        if self.payable(limits, action) {
            return changed;
        }
        self.wanted.copy_from_slice(action);
        for (moving, (wanted, lower)) in self
            .moving
            .iter_mut()
            .zip(self.wanted.iter().zip(problem.lower()))
        {
            *moving = wanted > lower;
        }
        action.copy_from_slice(problem.lower());
        if self.payable(limits, action) {
            let mut share = 0.0;
            while self.moving.contains(&true) {
                share = self.advance(limits, share, action);
            }
        }
        true
    }

    /// Moves on from a payable share of the way, as far as can be paid, and stops the entries that cannot go on; gives the
    /// share at which they stopped. At least one entry stops.
    fn advance(&mut self, limits: Limits<'_>, share: f64, action: &mut [f64]) -> f64 {
        self.place(limits.problem, 1.0, action);
        if self.payable(limits, action) {
            self.moving.fill(false);
            return 1.0;
        }
        // `low` is payable, `high` is not, until they or the entries there are neighbours: at most 62 halvings, since so
        // many bits tell the floats between 0 and 1 apart.
        let (mut low, mut high) = (share, 1.0);
        for guess in self.bracket(limits, share, action) {
            if low < guess && guess < high {
                self.place(limits.problem, guess, action);
                *(if self.payable(limits, action) {
                    &mut low
                } else {
                    &mut high
                }) = guess;
            }
        }
        while let Some(middle) = between(low, high).filter(|_| self.differ(limits.problem, low, high)) {
            self.place(limits.problem, middle, action);
            *(if self.payable(limits, action) {
                &mut low
            } else {
                &mut high
            }) = middle;
        }
        self.place(limits.problem, high, action);
        limits.problem.usage(action, limits.context, &mut self.usage);
        for ((exceeded, used), available) in self.exceeded.iter_mut().zip(&self.usage).zip(limits.available) {
            // A usage that is not a number keeps an entry from going on as well.
            *exceeded = *used > *available || used.is_nan();
        }
        self.place(limits.problem, low, action);
        self.stop(limits, high, action);
        low
    }

    /// Shares that enclose the far payable end if usage is affine, which saves nearly all of the halvings.
    ///
    /// The first two are for a share that is known to its last bits, the others for one that is small beside the rounding
    /// of the usage at the start.
    fn bracket(&mut self, limits: Limits<'_>, share: f64, action: &mut [f64]) -> [f64; 4] {
        /// Rounding errors of a share, in units of its last place, that are allowed for.
        const SLACK: f64 = 4.0 * f64::EPSILON;
        // Called with the usage of the far end at hand.
        std::mem::swap(&mut self.usage, &mut self.stopped_usage);
        self.place(limits.problem, share, action);
        limits.problem.usage(action, limits.context, &mut self.usage);
        let part = (self.usage.iter().zip(&self.stopped_usage))
            .zip(limits.available)
            .filter(|((_, end), available)| end > available)
            .map(|((start, end), available)| (available - start) / (end - start))
            .fold(1.0, f64::min);
        let guess = share + part * (1.0 - share);
        [
            guess * (1.0 - SLACK),
            guess * (1.0 + SLACK),
            guess - SLACK,
            guess + SLACK,
        ]
    }

    /// Stops the moving entries that use an exceeded budget, each at the last bit that can be paid before `beyond`.
    fn stop(&mut self, limits: Limits<'_>, beyond: f64, action: &mut [f64]) {
        let (mut any, alone) = (false, self.moving.iter().filter(|moving| **moving).count() == 1);
        limits
            .problem
            .usage(action, limits.context, &mut self.stopped_usage);
        for i in 0..action.len() {
            if self.moving[i] && (alone || self.uses_exceeded(limits, action, i)) {
                self.moving[i] = false;
                any = true;
                self.fill_last_bits(limits, beyond, action, i);
                limits
                    .problem
                    .usage(action, limits.context, &mut self.stopped_usage);
            }
        }
        if !any {
            // No entry alone changes the exceeded usage in floats, all together do.
            self.moving.fill(false);
        }
    }

    /// Whether the usage of an exceeded budget depends on an entry, between its lower bound and what was wanted.
    fn uses_exceeded(&mut self, limits: Limits<'_>, action: &mut [f64], i: usize) -> bool {
        let kept = action[i];
        let uses = [limits.problem.lower()[i], self.wanted[i]]
            .into_iter()
            .any(|end| {
                action[i] = end;
                limits.problem.usage(action, limits.context, &mut self.usage);
                (self.usage.iter().zip(&self.stopped_usage))
                    .zip(&self.exceeded)
                    .any(|((moved, stopped), exceeded)| *exceeded && moved != stopped)
            });
        action[i] = kept;
        uses
    }

    /// Rounding on the line may leave some last bits of an entry unused: take them while they can be paid.
    fn fill_last_bits(&mut self, limits: Limits<'_>, beyond: f64, action: &mut [f64], i: usize) {
        let (mut low, mut high) = (action[i], self.at(limits.problem, beyond, i));
        action[i] = high;
        if self.payable(limits, action) {
            return;
        }
        while let Some(middle) = between(low, high) {
            action[i] = middle;
            *(if self.payable(limits, action) {
                &mut low
            } else {
                &mut high
            }) = middle;
        }
        action[i] = low;
    }

    /// Whether there are floats between the places of a moving entry at two shares.
    fn differ(&self, problem: &dyn Problem, low: f64, high: f64) -> bool {
        (0..self.moving.len())
            .filter(|i| self.moving[*i])
            .any(|i| self.at(problem, low, i).next_up() < self.at(problem, high, i))
    }

    /// Puts the moving entries at `share` of their way.
    fn place(&self, problem: &dyn Problem, share: f64, action: &mut [f64]) {
        for (i, x) in action.iter_mut().enumerate() {
            if self.moving[i] {
                *x = self.at(problem, share, i);
            }
        }
    }

    /// An entry at `share` of its way from the lower bound to what was wanted.
    fn at(&self, problem: &dyn Problem, share: f64, i: usize) -> f64 {
        let (lower, wanted) = (problem.lower()[i], self.wanted[i]);
        if share < 1.0 {
            (share * (wanted - lower) + lower).min(wanted)
        } else {
            wanted
        }
    }

    fn payable(&mut self, limits: Limits<'_>, action: &[f64]) -> bool {
        limits.problem.usage(action, limits.context, &mut self.usage);
        self.usage
            .iter()
            .zip(limits.available)
            .all(|(used, available)| used <= available)
    }
}

/// A float halfway between two in the order of all floats, if they are not neighbours: halving a bracket so meets at
/// neighbours after at most 64 times, at any scale.
fn between(low: f64, high: f64) -> Option<f64> {
    /// The place of a float among all, or back: floats of one sign are ordered like their bits.
    fn place(bits: i64) -> i64 {
        bits ^ ((bits >> 63) & i64::MAX)
    }
    let [first, last] = [low, high].map(|x| place(x.to_bits().cast_signed()));
    let middle = i64::midpoint(first, last);
    (first < middle && middle < last).then(|| f64::from_bits(place(middle).cast_unsigned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::{LogUtility, Trading, VmAllocation, WeightedFairness, Wireless};

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

    fn usage_of(problem: &dyn Problem, action: &[f64], context: &[f64]) -> Vec<f64> {
        let mut usage = vec![0.0; problem.dimensions().budgets];
        problem.usage(action, context, &mut usage);
        usage
    }

    #[test]
    fn a_scalar_action_is_payable_to_the_last_bit_at_any_scale() {
        for (most, available) in [
            (1e9, 1e-9),
            (1e50, 1e-90),
            (1e9, 1e-300),
            (1e9, 3e-322),
            (10.0, 1.0 / 3.0),
            (1e9, 1e9_f64.next_down()),
        ] {
            let problem = Trading::new(1.0, most).unwrap();
            let mut action = [most];
            assert!(Projection::new(&problem).apply(&problem, &[1.0], &[available], &mut action));
            assert_eq!(action, [available], "{available:e} of {most:e}");
        }
    }

    #[test]
    fn an_action_that_uses_no_exceeded_budget_is_untouched() {
        let problem = VmAllocation::server();
        let context = [1.0, 0.25, 0.25, 0.25, 0.25];
        let mut action = [9.0, 8.1, 7.3, 6.7];
        let changed =
            Projection::new(&problem).apply(&problem, &context, &[20.0, 1.0, 2.3, 20.0], &mut action);
        assert!(changed);
        assert_eq!(action, [9.0, 1.0, 2.3, 6.7]);
    }

    #[test]
    fn entries_stop_at_the_budgets_they_use_and_the_others_go_on() {
        // Budget 0 is used by actions 0 and 1, budget 1 by actions 1 and 2, budget 2 by action 3.
        let matrix = vec![1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        let problem = LogUtility::new(4, 3, matrix, 1.0, 11.0).unwrap();
        let mut action = [11.0; 4];
        let available = [8.0, 4.0, 12.0];
        assert!(Projection::new(&problem).apply(&problem, &[1.0; 4], &available, &mut action));
        // Budget 1 is used up at 2 + 2; then action 0 alone takes what is left of budget 0.
        for (x, expected) in action.iter().zip([6.0, 2.0, 2.0]) {
            assert!((x - expected).abs() < 1e-15 * 4.0, "{action:?}");
        }
        assert_eq!(action[3], 11.0);
    }

    #[test]
    fn one_budget_that_all_actions_use_keeps_them_on_the_line_to_the_lower_corner() {
        let problem = LogUtility::new(3, 1, vec![1.0, 0.5, 2.0], 0.1, 10.0).unwrap();
        let (wanted, available) = ([9.0, 3.0, 5.0], 7.0);
        let mut action = wanted;
        assert!(Projection::new(&problem).apply(&problem, &[1.0; 3], &[available], &mut action));
        let shares: Vec<f64> = (0..3).map(|i| (action[i] - 0.1) / (wanted[i] - 0.1)).collect();
        assert!(shares.iter().all(|s| (s - shares[0]).abs() < 1e-13), "{shares:?}");
        let used = usage_of(&problem, &action, &[1.0; 3])[0];
        assert!(used <= available && used > available - 1e-14, "{used}");
    }

    #[test]
    fn any_action_becomes_payable_and_what_stops_it_is_used_up() {
        let problem = Wireless::three_channels();
        let mut projection = Projection::new(&problem);
        for k in 0..2000 {
            let draw = |i: i32| (f64::from(7 * k + i) * 0.618_034).fract();
            let context = [1.0, 0.2 + draw(1), 0.2 + draw(2), 0.2 + draw(3)];
            let wanted = [5.0 * draw(4) - 0.5, 5.0 * draw(5), 4.0 * draw(6)];
            let available = [12.0 * draw(7) * draw(8), 10.0 * draw(9)];
            let mut action = wanted;
            projection.apply(&problem, &context, &available, &mut action);
            let usage = usage_of(&problem, &action, &context);
            let full = |m: usize| usage[m] >= available[m] * (1.0 - 1e-14);
            for (i, x) in action.iter().enumerate() {
                let inside = wanted[i].clamp(0.0, 4.0);
                assert!((0.0..=inside).contains(x));
                assert!(
                    *x == inside || full(0) || full(1),
                    "{action:?} of {wanted:?} in {available:?}"
                );
            }
            assert!(usage[0] <= available[0] && usage[1] <= available[1]);
        }
    }

    #[test]
    fn a_lower_corner_that_is_not_payable_is_still_the_result() {
        let problem = WeightedFairness::paper();
        let mut action = [9.0];
        assert!(Projection::new(&problem).apply(&problem, &[0.3], &[0.5], &mut action));
        assert_eq!(action, [1.0]);
    }

    #[test]
    fn halving_in_the_order_of_floats_ends_at_neighbours() {
        for (low, high) in [
            (0.0, 1.0),
            (-1e300, 1e300),
            (-0.0, 5e-324),
            (1.0, 1.0_f64.next_up()),
        ] {
            let (mut a, b) = (low, high);
            let mut halvings = 0;
            while let Some(middle) = between(a, b) {
                assert!(a <= middle && middle < b);
                a = middle;
                halvings += 1;
            }
            assert!(halvings <= 64 && a.next_up() >= b, "{low} to {high}");
        }
    }
}
