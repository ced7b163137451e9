//! How far an answer of the layer is from the optimum, at most; computed from the problem's functions alone.
//!
//! The layer is `min P(x) = l(x) + λᵀg(x)` over `g(x) ≤ b`, `x` in the box. For any `μ ≥ 0` and any box `X` that holds all
//! feasible points, weak duality bounds the optimum from below by `min_X L − μᵀb`, `L = l + (λ + μ)ᵀg`. Hence at a
//! feasible answer `x̂`
//!
//! ```text
//!     P(x̂) − optimum  ≤  Σ_m μ_m (b_m − g_m(x̂))  +  [L(x̂) − min_X L]
//! ```
//!
//! and every term on the right is non-negative, so that nothing cancels. `X` is the box, cut for each action at what
//! the budgets allow while all other actions are at their lower bounds (where no usage falls in any action). The bracket is bounded
//! from above through first derivatives and convexity, by the shape of the problem: see [`Shape`].
//!
//! The gap is relative to `|l(x̂)| + Σ_i |x̂_i ∂_i l(x̂)| + Σ_m (λ_m + μ_m) |g_m(x̂)|`: what the terms of the priced cost weigh,
//! wherever the cost happens to have its zero; plus 1e-20 of what they weigh across the box, for optima at zero.

use laau_core::{Dimensions, Query, SmoothProblem};

/// What is known about the Lagrangian of a problem.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// A sum over the actions: each is minimised on its own, by bisection on its derivative, and the bracket is bounded
    /// by upper sums of that derivative between the minimiser and the answer.
    Separable,
    /// At least as curved as `½ Σ w_i x_i²`: the bracket is at most that of the separable minorant
    /// `∇L(x̂)ᵀ(x − x̂) + ½ Σ w_i (x_i − x̂_i)²`.
    Curved(Vec<f64>),
    /// A homogeneous concave utility and linear usage on positive actions: the minorant is a mean of the tangent planes
    /// at `x̂` and at `2 x̂`; the second rises where the first is level, however wide the box is.
    Homogeneous,
}

/// An upper bound on the distance from the optimum, and what it is measured by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Certificate {
    /// What budgets with a price leave unused, times that price.
    pub slackness: f64,
    /// How far the answer is from the least of the Lagrangian.
    pub stationarity: f64,
    /// The weight of the terms.
    pub scale: f64,
}

impl Certificate {
    /// The relative gap.
    #[must_use]
    pub fn relative(&self) -> f64 {
        let gap = self.slackness + self.stationarity;
        if gap == 0.0 { 0.0 } else { gap / self.scale }
    }
}

/// Halvings of an interval; each bracket ends at the last digits of its scale.
const HALVINGS: usize = 120;
/// The share of what the terms weigh across the whole box that is added to the scale: an optimum at zero has no size of its own,
/// and a bisection ends somewhere.
const RESOLUTION: f64 = 1e-20;
/// Pieces of the upper sum.
const PIECES: usize = 32;
/// Pieces of the lower sum of what an action uses.
const LOWER_PIECES: usize = 4;
/// Sweeps of the fallback that looks for a better point before a bound is believed.
const SWEEPS: usize = 60;
/// Below this the fallback is not needed.
const SMALL: f64 = 1e-8;

/// Certifies an answer.
#[must_use]
pub fn certify(
    problem: &dyn SmoothProblem,
    (shape, monotone): (&Shape, bool),
    query: Query<'_>,
    action: &[f64],
    duals: &[f64],
) -> Certificate {
    let lagrangian = Lagrangian::new(problem, query, duals);
    let Dimensions {
        actions: d,
        budgets: m,
        ..
    } = problem.dimensions();
    let mut usage = vec![0.0; m];
    problem.usage(action, query.context, &mut usage);
    let mut slope = vec![0.0; d];
    problem.cost_gradient(action, query.context, &mut slope);
    let mut scale = problem.cost(action, query.context).abs();
    scale += slope.iter().zip(action).map(|(s, x)| (s * x).abs()).sum::<f64>();
    let mut slackness = 0.0;
    for row in 0..m {
        scale += lagrangian.prices[row] * usage[row].abs();
        slackness += duals[row] * (query.available[row] - usage[row]).max(0.0);
    }
    let least = problem.lower().to_vec();
    let mut most = if monotone {
        most_allowed(problem, query)
    } else {
        problem.upper().to_vec()
    };
    for (most, x) in most.iter_mut().zip(action) {
        *most = most.max(*x);
    }
    let mut terms = vec![0.0; d];
    lagrangian.gradient_and_terms(action, &mut slope, &mut terms);
    // At the corners, too: where the optimum is at zero, so are the terms there.
    for corner in [problem.lower(), problem.upper()] {
        let (mut ends, mut end_terms) = (vec![0.0; d], vec![0.0; d]);
        lagrangian.gradient_and_terms(corner, &mut ends, &mut end_terms);
        for (term, end) in terms.iter_mut().zip(end_terms) {
            *term = if end.is_finite() { term.max(end) } else { *term };
        }
    }
    scale += RESOLUTION
        * (0..d)
            .map(|i| terms[i] * (problem.upper()[i] - least[i]))
            .sum::<f64>();
    let bounds = (&least[..], &most[..]);
    let mut stationarity = lagrangian.bracket(shape, action, bounds);
    if *shape != Shape::Separable && stationarity > SMALL * scale {
        // L(x̂) − L(y) ≤ ∇L(x̂)ᵀ(x̂ − y) for a better point y, and y has a bracket of its own.
        let better = lagrangian.descend(action, bounds);
        let way: f64 = (0..d).map(|i| slope[i] * (action[i] - better[i])).sum();
        stationarity = stationarity.min(way.max(0.0) + lagrangian.bracket(shape, &better, bounds));
    }
    Certificate {
        slackness,
        stationarity,
        scale,
    }
}

/// What each action can be at most while all others are at their lower bounds.
fn most_allowed(problem: &dyn SmoothProblem, query: Query<'_>) -> Vec<f64> {
    let (lower, upper) = (problem.lower(), problem.upper());
    let mut usage = vec![0.0; query.available.len()];
    problem.usage(lower, query.context, &mut usage);
    let slack: Vec<f64> = query
        .available
        .iter()
        .zip(&usage)
        .map(|(b, used)| b - used)
        .collect();
    let mut x = lower.to_vec();
    let mut payable = |x: &[f64]| {
        problem.usage(x, query.context, &mut usage);
        usage.iter().zip(query.available).all(|(used, b)| used <= b)
    };
    let mut most = upper.to_vec();
    for i in 0..lower.len() {
        x[i] = upper[i];
        if !payable(&x) {
            let mut low = lower[i];
            for _ in 0..HALVINGS {
                x[i] = 0.5 * (low + most[i]);
                if payable(&x) { low = x[i] } else { most[i] = x[i] }
            }
        }
        x[i] = lower[i];
    }
    let tight = |(slack, b): (&f64, &f64)| *slack <= 1e-9 * b.abs();
    if slack.iter().zip(query.available).any(tight) {
        narrow(problem, query.context, &slack, &mut most);
    }
    most
}

/// Lowers what is allowed where rounding of the usage hides what an action adds to it: `x²` vanishes beside 1 long before `x`
/// does. What is added is at least the lower sum of its derivative, which grows; usage is a sum over the actions.
fn narrow(problem: &dyn SmoothProblem, context: &[f64], slack: &[f64], most: &mut [f64]) {
    let d = most.len();
    let lower = problem.lower();
    let mut low = lower.to_vec();
    let mut high = most.to_vec();
    let (mut point, mut jacobian) = (vec![0.0; d], vec![0.0; slack.len() * d]);
    for halving in 0..HALVINGS {
        // The first round asks whether anything has to be lowered at all.
        let middle: Vec<f64> = (0..d)
            .map(|i| {
                if halving == 0 {
                    high[i]
                } else {
                    low[i] + 0.5 * (high[i] - low[i])
                }
            })
            .collect();
        let mut added = vec![0.0; slack.len() * d];
        for piece in 0..LOWER_PIECES {
            for i in 0..d {
                point[i] = lower[i] + piece as f64 / LOWER_PIECES as f64 * (middle[i] - lower[i]);
            }
            problem.usage_jacobian(&point, context, &mut jacobian);
            for (added, slope) in added.iter_mut().zip(&jacobian) {
                *added += slope / LOWER_PIECES as f64;
            }
        }
        for i in 0..d {
            let reach = middle[i] - lower[i];
            if (0..slack.len()).all(|row| added[row * d + i] * reach <= slack[row]) {
                low[i] = middle[i];
            } else {
                high[i] = middle[i];
            }
        }
    }
    most.copy_from_slice(&high);
}

/// `L = l + (λ + μ)ᵀ g` in one context.
pub struct Lagrangian<'a> {
    problem: &'a dyn SmoothProblem,
    context: &'a [f64],
    prices: Vec<f64>,
}

impl<'a> Lagrangian<'a> {
    /// The Lagrangian of a query and of duals.
    #[must_use]
    pub fn new(problem: &'a dyn SmoothProblem, query: Query<'a>, duals: &[f64]) -> Self {
        Self {
            problem,
            context: query.context,
            prices: query.multiplier.iter().zip(duals).map(|(l, m)| l + m).collect(),
        }
    }

    /// `∇L`.
    pub fn gradient(&self, x: &[f64], out: &mut [f64]) {
        let mut absolute = vec![0.0; x.len()];
        self.gradient_and_terms(x, out, &mut absolute);
    }

    /// `∇L`, and the sum of the absolute terms of each entry.
    pub fn gradient_and_terms(&self, x: &[f64], out: &mut [f64], terms: &mut [f64]) {
        let d = x.len();
        let mut jacobian = vec![0.0; self.prices.len() * d];
        self.problem.cost_gradient(x, self.context, out);
        self.problem.usage_jacobian(x, self.context, &mut jacobian);
        for i in 0..d {
            terms[i] = out[i].abs();
        }
        for (row, price) in jacobian.chunks_exact(d).zip(&self.prices) {
            for i in 0..d {
                out[i] += price * row[i];
                terms[i] += (price * row[i]).abs();
            }
        }
    }

    /// An upper bound of `L(x) − min L` over a box.
    fn bracket(&self, shape: &Shape, x: &[f64], bounds: (&[f64], &[f64])) -> f64 {
        match shape {
            Shape::Separable => self.separable(x, bounds),
            Shape::Curved(weights) => self.curved(weights, x, bounds),
            Shape::Homogeneous => self.homogeneous(x, bounds),
        }
    }

    /// The least of a separable Lagrangian over a box: brackets `(low, high)` of each minimiser.
    fn minimisers(&self, bounds: (&[f64], &[f64])) -> (Vec<f64>, Vec<f64>) {
        let d = bounds.0.len();
        let (mut low, mut high) = (bounds.0.to_vec(), bounds.1.to_vec());
        let mut slope = vec![0.0; d];
        self.gradient(&low, &mut slope);
        for i in 0..d {
            if slope[i] >= 0.0 {
                high[i] = low[i];
            }
        }
        self.gradient(&high, &mut slope);
        for i in 0..d {
            if slope[i] <= 0.0 {
                low[i] = high[i];
            }
        }
        let mut middle = vec![0.0; d];
        for _ in 0..HALVINGS {
            for i in 0..d {
                middle[i] = low[i] + 0.5 * (high[i] - low[i]);
            }
            self.gradient(&middle, &mut slope);
            for i in 0..d {
                if slope[i] > 0.0 {
                    high[i] = middle[i];
                } else {
                    low[i] = middle[i];
                }
            }
        }
        (low, high)
    }

    fn separable(&self, x: &[f64], bounds: (&[f64], &[f64])) -> f64 {
        let d = x.len();
        let (low, high) = self.minimisers(bounds);
        let mut slope = vec![0.0; d];
        self.gradient(x, &mut slope);
        // The end of the bracket that is farther from x̂.
        let target: Vec<f64> = (0..d)
            .map(|i| {
                if slope[i] > 0.0 {
                    low[i].min(x[i])
                } else {
                    high[i].max(x[i])
                }
            })
            .collect();
        let mut sum = 0.0;
        let mut point = x.to_vec();
        for piece in 0..PIECES {
            // Derivatives are monotone: on each piece the largest is at the end nearer to x̂.
            let share = piece as f64 / PIECES as f64;
            for i in 0..d {
                point[i] = x[i] + share * (target[i] - x[i]);
            }
            self.gradient(&point, &mut slope);
            for i in 0..d {
                sum += (slope[i] * (x[i] - target[i])).max(0.0) / PIECES as f64;
            }
        }
        sum
    }

    fn curved(&self, weights: &[f64], x: &[f64], bounds: (&[f64], &[f64])) -> f64 {
        let mut slope = vec![0.0; x.len()];
        self.gradient(x, &mut slope);
        (0..x.len())
            .map(|i| {
                let step = (-slope[i] / weights[i]).clamp(bounds.0[i] - x[i], bounds.1[i] - x[i]);
                -(slope[i] * step + 0.5 * weights[i] * step * step)
            })
            .sum()
    }

    fn homogeneous(&self, x: &[f64], bounds: (&[f64], &[f64])) -> f64 {
        let d = x.len();
        let (mut near, mut far) = (vec![0.0; d], vec![0.0; d]);
        self.gradient(x, &mut near);
        let double: Vec<f64> = x.iter().map(|x| 2.0 * x).collect();
        self.gradient(&double, &mut far);
        // What the far plane lies below L at x̂: at most (∇L(2x̂) − ∇L(x̂))ᵀ x̂.
        let depth: f64 = (0..d).map(|i| (far[i] - near[i]) * x[i]).sum::<f64>().max(0.0);
        let shares = (0..=64).map(|k| {
            if k == 0 {
                0.0
            } else {
                10_f64.powf(-16.0 + 0.25 * f64::from(k - 1))
            }
        });
        shares
            .map(|share| {
                let planes: f64 = (0..d)
                    .map(|i| {
                        let slope = near[i] + share * (far[i] - near[i]);
                        (slope * (x[i] - bounds.0[i])).max(-slope * (bounds.1[i] - x[i]))
                    })
                    .sum();
                share * depth + planes
            })
            .fold(f64::INFINITY, f64::min)
    }

    /// The least over a box by one action at a time; exact for a separable Lagrangian, else as good as it gets.
    #[must_use]
    pub fn descend(&self, start: &[f64], bounds: (&[f64], &[f64])) -> Vec<f64> {
        let d = start.len();
        let mut x = start.to_vec();
        let mut slope = vec![0.0; d];
        for _ in 0..SWEEPS {
            let before = x.clone();
            for i in 0..d {
                let (mut low, mut high) = (bounds.0[i], bounds.1[i]);
                for _ in 0..HALVINGS / 2 {
                    x[i] = low + 0.5 * (high - low);
                    self.gradient(&x, &mut slope);
                    if slope[i] > 0.0 { high = x[i] } else { low = x[i] }
                }
                x[i] = if low == bounds.0[i] { low } else { high };
            }
            if x == before {
                break;
            }
        }
        x
    }

    /// The least of the Lagrangian over the problem's box.
    #[must_use]
    pub fn least(&self, shape: &Shape) -> Vec<f64> {
        let bounds = (self.problem.lower(), self.problem.upper());
        match shape {
            Shape::Separable => self.minimisers(bounds).0,
            _ => self.descend(bounds.0, bounds),
        }
    }
}
