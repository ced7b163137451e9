//! The safe actions of a step.

use crate::problem::Problem;

/// The safe actions of a step: in the box, at most so costly, and using at most so much. A convex set.
#[derive(Clone, Copy)]
pub(super) struct SafeSet<'a> {
    pub(super) problem: &'a dyn Problem,
    pub(super) context: &'a [f64],
    /// The most that the step may cost.
    pub(super) cost: f64,
    /// The most that it may use.
    pub(super) usage: &'a [f64],
}

/// Room to evaluate actions in, of a problem's sizes.
#[derive(Debug, Clone)]
pub(super) struct Scratch {
    trial: Point,
    low: Point,
    /// The safe end of the bracket before the present one.
    older: Point,
    high: Point,
    start: Vec<f64>,
}

/// A point of a line: its share of the way, its cost and its usages.
#[derive(Debug, Clone)]
struct Point {
    share: f64,
    rows: Vec<f64>,
}

impl Scratch {
    pub(super) fn new(problem: &dyn Problem) -> Self {
        let dimensions = problem.dimensions();
        let point = Point {
            share: 0.0,
            rows: vec![0.0; dimensions.budgets + 1],
        };
        Self {
            trial: point.clone(),
            low: point.clone(),
            older: point.clone(),
            high: point,
            start: vec![0.0; dimensions.actions],
        }
    }

    /// The cost of the action that was last asked about.
    pub(super) fn cost(&self) -> f64 {
        self.trial.rows[0]
    }

    /// The usage of the action that was last asked about.
    pub(super) fn usage(&self) -> &[f64] {
        &self.trial.rows[1..]
    }
}

/// How far the ends of a bracket may lie apart, as a share of the way.
const WIDTH: f64 = 1e-13;

/// A share of the way that is not worth going.
const NO_WAY: f64 = 1e-9;

/// Evaluations of a search along a line, at most; halving alone would need 44.
const MOST_EVALUATIONS: usize = 64;

impl SafeSet<'_> {
    /// Whether an action of the box is safe.
    pub(super) fn contains(&self, action: &[f64], scratch: &mut Scratch) -> bool {
        self.evaluate(action, &mut scratch.trial.rows)
    }

    /// Whether an action of the box uses no more than it may, whatever it costs.
    pub(super) fn affords(&self, action: &[f64], scratch: &mut Scratch) -> bool {
        self.evaluate(action, &mut scratch.trial.rows);
        (scratch.usage().iter().zip(self.usage)).all(|(used, most)| used <= most)
    }

    /// Writes cost and usage; says whether they are within their limits.
    fn evaluate(&self, action: &[f64], rows: &mut [f64]) -> bool {
        rows[0] = self.problem.cost(action, self.context);
        self.problem.usage(action, self.context, &mut rows[1..]);
        rows[0] <= self.cost && (rows[1..].iter().zip(self.usage)).all(|(used, most)| used <= most)
    }

    /// Moves `action`, which counts as safe, towards one that is not, as far as it stays safe.
    ///
    /// On the line every row is convex. A chord between a safe and an unsafe point lies above its row, so that it meets
    /// the limit before the row does; a line through two safe points lies below the row beyond them, so that it meets
    /// the limit after the row does. Taken in turns, they close in from both sides.
    pub(super) fn walk(&self, towards: &[f64], action: &mut [f64], scratch: &mut Scratch) {
        let Scratch {
            trial,
            low,
            older,
            high,
            start,
        } = scratch;
        start.copy_from_slice(action);
        (low.share, high.share) = (0.0, 1.0);
        self.evaluate(start, &mut low.rows);
        self.evaluate(towards, &mut high.rows);
        let (mut extrapolates, mut last_width) = (false, f64::INFINITY);
        for evaluation in 0..MOST_EVALUATIONS {
            let width = high.share - low.share;
            if width <= WIDTH * high.share {
                break;
            }
            let guess = if extrapolates && evaluation % 2 == 1 {
                self.meeting(low, older, high)
            } else {
                self.meeting(low, high, high)
            };
            let halve = width > 0.5 * last_width || !(low.share < guess && guess < high.share);
            trial.share = if halve { low.share + 0.5 * width } else { guess };
            // Often there is no room at all: the start lies on a limit, and the way leads out. One look shows it.
            let is_first = evaluation == 0 && guess <= 0.0;
            if is_first {
                trial.share = NO_WAY;
            }
            if evaluation % 2 == 1 {
                last_width = width;
            }
            place(start, towards, trial.share, action);
            if self.evaluate(action, &mut trial.rows) {
                std::mem::swap(low, older);
                std::mem::swap(trial, low);
                extrapolates = true;
            } else {
                std::mem::swap(trial, high);
                if is_first {
                    break;
                }
            }
        }
        place(start, towards, low.share, action);
        std::mem::swap(trial, low);
    }

    /// Where the line through two points first meets the limit of a row that is exceeded at `high`.
    fn meeting(&self, low: &Point, other: &Point, high: &Point) -> f64 {
        let limits = std::iter::once(&self.cost).chain(self.usage);
        (limits.zip(&high.rows).zip(low.rows.iter().zip(&other.rows)))
            .filter(|((limit, high), _)| high > limit)
            .map(|((limit, _), (at_low, at_other))| {
                low.share + (other.share - low.share) * ((limit - at_low) / (at_other - at_low))
            })
            .fold(f64::INFINITY, f64::min)
    }
}

/// Writes the point at a share of the way; the ends are met exactly.
fn place(from: &[f64], to: &[f64], share: f64, out: &mut [f64]) {
    for ((out, &from), &to) in out.iter_mut().zip(from).zip(to) {
        // Rounding must not lead out of the box, of which both ends are.
        *out = share.mul_add(to - from, from).clamp(from.min(to), from.max(to));
    }
}
