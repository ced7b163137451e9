//! The region of the optimum: the slack of the budgets above the lower corners, and the reachable range of each action.

use laau_core::{Dimensions, Episode, Error, SmoothProblem};

use super::fine::NARROW;
use super::sum::Sum;

/// Share of the way to the limits at which the iteration starts.
const START: f64 = 0.5;
/// Share of every room that the start leaves where usage is not affine.
const KEPT: f64 = 0.1;
/// How far beyond an action's reach its bound is put. An optimum that reaches to the end is then not at the bound too.
const MARGIN: f64 = 2.0;

/// The part of the box and of the limits that matters to an episode, measured from the lower corners.
///
/// The box may be far wider than what the budgets pay, and its width must then not matter. By convexity
/// `g(x) ≥ g(lower) + ∇g(lower)(x − lower)`; where no entry of `∇g(lower)` is negative, no action can rise further than the
/// room of a budget over its own entry. Nor does an action rise beyond the point where its own cost starts to grow.
///
/// A limit without room, but for rounding, leaves no inside. It is dropped, and the actions that use it are held at
/// their lower bounds: that is what the limit says. Unless usage falls before it rises: there is room above the lower
/// corners then, and the iteration starts in it.
pub(super) struct Region {
    /// What is left of each limit at the lower corners, `N × M`; infinite where there is no limit, or a dropped one.
    pub(super) room: Vec<f64>,
    /// How far each action may rise, `N × d`; zero for an action that is held.
    pub(super) width: Vec<f64>,
    /// How much of a limit at the end of the horizon was dropped with it, per budget; zero where none was.
    pub(super) dropped: Vec<Option<f64>>,
    /// `∇g` at the lower corners, `N × M × d`.
    pub(super) jacobian: Vec<f64>,
    /// Budgets of curved usage with so little room that it is measured from the lower corners.
    pub(super) narrow: Vec<bool>,
    /// Entries of `width` that were narrowed for one action alone, with the width before.
    narrowed: Vec<(usize, f64)>,
    /// Limits without room at the lower corners that are kept, as usage falls above them, per budget.
    falls: Vec<bool>,
}

impl Region {
    /// Looks at an episode with limits on what is used up to each step, `N × M`, infinite where there is none.
    ///
    /// `rounding` is the share of a budget that is beneath what its sums resolve.
    pub(super) fn new(
        problem: &dyn SmoothProblem,
        episode: &Episode<'_>,
        limits: &[f64],
        rounding: f64,
    ) -> Result<Self, Error> {
        let Dimensions {
            actions: d,
            budgets: m,
            ..
        } = problem.dimensions();
        let n = episode.horizon();
        let (lower, upper) = (problem.lower(), problem.upper());
        let mut region = Self {
            room: vec![f64::INFINITY; n * m],
            width: vec![0.0; n * d],
            dropped: vec![None; m],
            jacobian: vec![0.0; n * m * d],
            narrow: vec![false; m],
            narrowed: Vec::new(),
            falls: vec![false; m],
        };
        for (at, width) in region.width.iter_mut().enumerate() {
            *width = upper[at % d] - lower[at % d];
        }
        let mut usage = vec![0.0; m];
        let mut used = vec![Sum::default(); m];
        for step in 0..n {
            let context = episode.context(step);
            problem.usage(lower, context, &mut usage);
            problem.usage_jacobian(lower, context, &mut region.jacobian[step * m * d..][..m * d]);
            for k in 0..m {
                used[k].add(usage[k]);
                let at = step * m + k;
                if limits[at].is_infinite() {
                    continue;
                }
                region.room[at] = used[k].below(limits[at]);
                let budget = episode.budgets()[k];
                if region.room[at] < -rounding * budget {
                    return Err(Error::BudgetTooSmall {
                        budget: k,
                        given: budget,
                        least: budget - region.room[at],
                        horizon: n,
                    });
                }
            }
        }
        region.find_falls(problem, episode, limits, rounding);
        region.hold(problem, episode, rounding);
        region.bound_by_budgets(m, d);
        if !problem.structure().affine_usage {
            region.bound_by_usage(problem, episode);
        }
        region.bound_by_costs(problem, episode);
        if !problem.structure().affine_usage {
            for (at, room) in region.room.iter().enumerate() {
                region.narrow[at % m] |= *room < NARROW * episode.budgets()[at % m];
            }
        }
        Ok(region)
    }

    /// Keeps limits without room where there is an inside above the lower corners.
    fn find_falls(
        &mut self,
        problem: &dyn SmoothProblem,
        episode: &Episode<'_>,
        limits: &[f64],
        rounding: f64,
    ) {
        let d = problem.lower().len();
        let m = self.dropped.len();
        if problem.structure().affine_usage || self.jacobian.iter().all(|j| *j >= 0.0) {
            return;
        }
        let n = episode.horizon();
        for k in 0..m {
            let tight = |step: usize| self.room[step * m + k] <= rounding * episode.budgets()[k];
            let falling =
                |at: usize| self.width[at] > 0.0 && self.jacobian[(at / d * m + k) * d + at % d] < 0.0;
            self.falls[k] = (0..n).any(tight) && (0..n * d).any(falling);
        }
        if !self.falls.contains(&true) {
            return;
        }
        // Other budgets without room may hold what would have to rise.
        let mut usage = vec![0.0; m];
        let start = self.start(false, |rise| {
            let mut used = vec![Sum::default(); m];
            let mut left = vec![f64::INFINITY; n * m];
            for (step, rise) in rise.chunks_exact(d).enumerate() {
                let x: Vec<f64> = (0..d).map(|i| raise(problem, i, rise[i])).collect();
                problem.usage(&x, episode.context(step), &mut usage);
                for k in 0..m {
                    used[k].add(usage[k]);
                    let tight = self.room[step * m + k] <= rounding * episode.budgets()[k];
                    if self.room[step * m + k].is_finite() && (self.falls[k] || !tight) {
                        left[step * m + k] = used[k].below(limits[step * m + k]);
                    }
                }
            }
            left
        });
        let inside = (0..n * d).all(|at| self.width[at] == 0.0 || start[at] > 0.0);
        if !inside {
            self.falls.fill(false);
        }
    }

    /// Drops the limits without room, and holds the actions that use them.
    fn hold(&mut self, problem: &dyn SmoothProblem, episode: &Episode<'_>, rounding: f64) {
        let m = self.dropped.len();
        let n = self.room.len() / m;
        let mut held = vec![false; m];
        for step in (0..n).rev() {
            for k in 0..m {
                let at = step * m + k;
                if !self.falls[k] && self.room[at] <= rounding * episode.budgets()[k] {
                    if step + 1 == n {
                        self.dropped[k] = Some(self.room[at].max(0.0));
                    }
                    held[k] = true;
                }
                if held[k] {
                    // Earlier limits hold by themselves: all that could break them is held.
                    self.room[at] = f64::INFINITY;
                    self.hold_users(problem, episode.context(step), step, k);
                }
            }
        }
    }

    /// Holds the actions of a step that use a budget.
    fn hold_users(&mut self, problem: &dyn SmoothProblem, context: &[f64], step: usize, k: usize) {
        let m = self.dropped.len();
        let (lower, upper) = (problem.lower(), problem.upper());
        let d = lower.len();
        for i in 0..d {
            let mut uses = self.jacobian[(step * m + k) * d + i] > 0.0;
            if !uses && !problem.structure().affine_usage {
                // Usage may start flat and still grow.
                let (mut usage, mut raised) = (vec![0.0; m], lower.to_vec());
                problem.usage(&raised, context, &mut usage);
                let least = usage[k];
                raised[i] = upper[i];
                problem.usage(&raised, context, &mut usage);
                uses = usage[k] > least;
            }
            if uses {
                self.width[step * d + i] = 0.0;
            }
        }
    }

    /// Narrows the widths to what each budget allows one action alone.
    fn bound_by_budgets(&mut self, m: usize, d: usize) {
        let n = self.room.len() / m;
        for k in 0..m {
            let row = |step: usize| (step * m + k) * d;
            let rising = |step: usize| self.jacobian[row(step)..][..d].iter().all(|j| *j >= 0.0);
            if !(0..n).all(rising) {
                continue;
            }
            let mut room = f64::INFINITY;
            for step in (0..n).rev() {
                room = room.min(self.room[step * m + k]);
                for i in 0..d {
                    let (width, jacobian) = (&mut self.width[step * d + i], self.jacobian[row(step) + i]);
                    if jacobian * *width > MARGIN * room {
                        *width = MARGIN * room / jacobian;
                    }
                }
            }
        }
    }

    /// Narrows widths that are far beyond what the budgets pay one action alone, the others being at their lower bounds: where
    /// usage starts flat, its slope there says nothing.
    fn bound_by_usage(&mut self, problem: &dyn SmoothProblem, episode: &Episode<'_>) {
        const FAR: f64 = 1e3;
        let lower = problem.lower();
        let (d, m) = (lower.len(), self.dropped.len());
        let (mut raised, mut usage, mut least) = (lower.to_vec(), vec![0.0; m], vec![0.0; m]);
        // Where usage falls, others may free what one action uses.
        let falls: Vec<bool> = (0..m)
            .map(|k| {
                let mut rows = self.jacobian.chunks_exact(d).skip(k).step_by(m);
                rows.any(|row| row.iter().any(|j| *j < 0.0))
            })
            .collect();
        let mut room = vec![f64::INFINITY; m];
        for step in (0..episode.horizon()).rev() {
            let context = episode.context(step);
            problem.usage(lower, context, &mut least);
            for k in (0..m).filter(|k| !falls[*k]) {
                room[k] = room[k].min(self.room[step * m + k]);
            }
            for i in 0..d {
                let before = self.width[step * d + i];
                let mut narrow = before;
                loop {
                    raised[i] = raise(problem, i, narrow / MARGIN);
                    problem.usage(&raised, context, &mut usage);
                    if (0..m).all(|k| usage[k] - least[k] <= room[k]) || raised[i] <= lower[i] {
                        break;
                    }
                    narrow /= MARGIN;
                }
                raised[i] = lower[i];
                if FAR * narrow < before {
                    self.width[step * d + i] = MARGIN * narrow;
                    self.narrowed.push((step * d + i, before));
                }
            }
        }
    }

    /// Narrows the widths to where each action's own cost grows, the others being at their lower bounds. An action that
    /// gains nothing by rising at all, and uses budgets for it if anything, is held.
    fn bound_by_costs(&mut self, problem: &dyn SmoothProblem, episode: &Episode<'_>) {
        let lower = problem.lower();
        let (d, m) = (lower.len(), self.dropped.len());
        let (mut raised, mut gradient) = (lower.to_vec(), vec![0.0; d]);
        let mut grows = vec![false; d];
        for step in 0..episode.horizon() {
            let context = episode.context(step);
            let width = &mut self.width[step * d..][..d];
            for i in 0..d {
                raised[i] = raise(problem, i, width[i]);
            }
            problem.cost_gradient(&raised, context, &mut gradient);
            raised.copy_from_slice(lower);
            if gradient.iter().all(|slope| *slope < 0.0) {
                continue;
            }
            for (grows, slope) in grows.iter_mut().zip(&gradient) {
                *grows = *slope >= 0.0;
            }
            problem.cost_gradient(lower, context, &mut gradient);
            let least = gradient.clone();
            for i in (0..d).filter(|i| grows[*i]) {
                let before = width[i];
                let mut narrow = before;
                let jacobian = |k: usize| self.jacobian[(step * m + k) * d + i];
                if least[i] >= 0.0 {
                    narrow = if (0..m).all(|k| jacobian(k) >= 0.0 || !self.falls[k]) {
                        0.0
                    } else {
                        before
                    };
                } else {
                    loop {
                        raised[i] = raise(problem, i, narrow / MARGIN);
                        problem.cost_gradient(&raised, context, &mut gradient);
                        if gradient[i] < 0.0 || raised[i] <= lower[i] {
                            break;
                        }
                        narrow /= MARGIN;
                    }
                    raised[i] = lower[i];
                }
                if MARGIN * narrow < before {
                    width[i] = MARGIN * narrow;
                    self.narrowed.push((step * d + i, before));
                }
            }
        }
    }

    /// Whether the ranges that were narrowed for one action alone are wide enough, where the actions have risen so far and have such
    /// reduced gradients: where other actions change the slope of an action's cost, they may not be.
    pub(super) fn contains(&self, rise: &[f64], reduced: impl Fn(usize) -> f64) -> bool {
        const NEAR: f64 = 0.75;
        self.narrowed.iter().all(|&(at, _)| {
            let width = self.width[at];
            (width > 0.0 && rise[at] <= NEAR * width) || (width == 0.0 && reduced(at) >= 0.0)
        })
    }

    /// Restores every range that was narrowed for one action alone.
    pub(super) fn widen(&mut self) {
        for (at, before) in self.narrowed.drain(..).rev() {
            self.width[at] = before;
        }
    }

    /// A start inside: every action at half its range, or at the share of it that leaves half of all room.
    ///
    /// `left` says what is left of the limits for given rises.
    pub(super) fn start(&self, affine: bool, mut left: impl FnMut(&[f64]) -> Vec<f64>) -> Vec<f64> {
        let m = self.dropped.len();
        let n = self.room.len() / m;
        let d = self.width.len() / n;
        let (mut most, mut freed) = (vec![0.0; n * m], vec![0.0; n * m]);
        for at in 0..n * m {
            let row = &self.jacobian[at * d..][..d];
            let widths = &self.width[at / m * d..][..d];
            let sum = |part: fn(f64) -> f64| row.iter().zip(widths).map(|(j, w)| part(*j) * w).sum::<f64>();
            most[at] = sum(|j| j.max(0.0)) + if at >= m { most[at - m] } else { 0.0 };
            freed[at] = sum(|j| (-j).max(0.0)) + if at >= m { freed[at - m] } else { 0.0 };
        }
        let mut rise = vec![0.0; n * d];
        let mut share = vec![f64::INFINITY; m];
        for step in (0..n).rev() {
            for k in 0..m {
                let at = step * m + k;
                if most[at] > 0.0 {
                    // Half of what falls, to first order, is left to rise.
                    let falls = if self.falls[k] { START * freed[at] } else { 0.0 };
                    share[k] = share[k].min(START * (self.room[at].max(0.0) + falls) / most[at]);
                }
            }
            for i in 0..d {
                let uses = |k: &usize| self.jacobian[(step * m + k) * d + i] > 0.0;
                let least = (0..m).filter(uses).fold(START, |least, k| least.min(share[k]));
                rise[step * d + i] = least * self.width[step * d + i];
            }
        }
        if affine {
            return rise;
        }
        let short = |(left, room): (&f64, &f64)| {
            let kept = *left > 0.0 && *left >= KEPT * room;
            room.is_finite() && !kept
        };
        // Terminates when no action rises any more, at the latest.
        while rise.iter().any(|rise| *rise > 0.0) && left(&rise).iter().zip(&self.room).any(short) {
            for rise in &mut rise {
                *rise *= 0.5;
            }
        }
        rise
    }
}

/// An action at a rise above its lower bound, inside the box.
pub(super) fn raise(problem: &dyn SmoothProblem, i: usize, rise: f64) -> f64 {
    (problem.lower()[i] + rise).min(problem.upper()[i])
}
