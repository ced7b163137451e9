//! Random problems, contexts and scales. Everything comes from one seeded generator.

use std::sync::OnceLock;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::custom::Form;
use crate::recipe::{Kind, Recipe};

/// How large a drawn problem may be.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Most actions.
    pub actions: usize,
    /// Most budgets.
    pub budgets: usize,
    /// The share of numbers from 1e-9 to 1e12 instead of ordinary ones.
    pub wild: f64,
}

impl Size {
    /// Of a problem whose episodes are played many times over.
    pub(crate) const PLAYED: Self = Self {
        actions: 4,
        budgets: 3,
        wild: 0.05,
    };
}

/// All kinds of problem.
const KINDS: [Kind; 11] = [
    Kind::WeightedFairness,
    Kind::LogUtility,
    Kind::VmAllocation,
    Kind::Wireless,
    Kind::Trading,
    Kind::Power,
    Kind::LlmTokens,
    Kind::Custom(Form::Quadratic),
    Kind::Custom(Form::Exponential),
    Kind::Custom(Form::Softplus),
    Kind::Custom(Form::Valley),
];

/// The only kind that is drawn, if one was chosen.
static ONLY: OnceLock<Kind> = OnceLock::new();

/// Draws problems of one kind alone from here on; the first choice stands.
pub fn draw_only(kind: Kind) {
    ONLY.get_or_init(|| kind);
}

/// The kind that was chosen.
#[must_use]
pub fn only() -> Option<Kind> {
    ONLY.get().copied()
}

/// Finds a kind of problem by its name.
///
/// # Errors
/// The names there are.
pub fn kind_named(name: &str) -> Result<Kind, String> {
    KINDS.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
        let names = KINDS.map(Kind::name);
        format!("expected one of {}, found `{name}`", names.join(", "))
    })
}

/// `true` with a probability.
pub fn chance(rng: &mut ChaCha8Rng, share: f64) -> bool {
    rng.random_range(0.0..1.0) < share
}

/// A number between two powers of ten, uniform in its logarithm.
pub fn between_powers(rng: &mut ChaCha8Rng, low: f64, high: f64) -> f64 {
    10_f64.powf(rng.random_range(low..high))
}

/// A positive number: 0.1 to 30, or from 1e-9 to 1e12 in the given share of draws.
pub fn scale(rng: &mut ChaCha8Rng, wild: f64) -> f64 {
    if chance(rng, wild) {
        between_powers(rng, -9.0, 12.0)
    } else {
        between_powers(rng, -1.0, 1.5)
    }
}

/// A small count far more often than a large one.
pub fn count(rng: &mut ChaCha8Rng, most: usize) -> usize {
    let share: f64 = rng.random_range(0.0..1.0);
    let drawn = 1.0 + (most as f64 - 1.0) * share.powi(3) + rng.random_range(0.0..2.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 1 and a small count"
    )]
    let drawn = drawn as usize;
    drawn.clamp(1, most)
}

/// Draws a problem of any kind, or of the only one that was chosen.
#[must_use]
pub fn recipe(rng: &mut ChaCha8Rng, size: Size) -> Recipe {
    let kind = KINDS[rng.random_range(0..KINDS.len())];
    recipe_of(only().unwrap_or(kind), rng, size)
}

/// Draws a problem of one kind. What a constructor refuses (an empty box, while that is not legal) is widened.
#[must_use]
pub fn recipe_of(kind: Kind, rng: &mut ChaCha8Rng, size: Size) -> Recipe {
    let d = match kind {
        Kind::WeightedFairness | Kind::Trading => 1,
        _ => count(rng, size.actions),
    };
    let budgets = match kind {
        Kind::WeightedFairness | Kind::Trading => 1,
        Kind::VmAllocation => d,
        Kind::Wireless | Kind::Power | Kind::LlmTokens => 2,
        _ => count(rng, size.budgets),
    };
    let mut recipe = Recipe {
        kind,
        budgets,
        lower: vec![0.0; d],
        upper: vec![0.0; d],
        matrix: Vec::new(),
        weights: Vec::new(),
        parameter: 0.0,
        most: 0.0,
    };
    bounds(&mut recipe, rng, size.wild);
    if matches!(kind, Kind::LogUtility | Kind::Custom(_)) {
        recipe.matrix = matrix(rng, budgets, d, size.wild);
    }
    if matches!(kind, Kind::Power | Kind::Custom(_)) {
        let common = scale(rng, size.wild);
        recipe.weights = (0..d).map(|_| common * rng.random_range(0.2..2.0)).collect();
    }
    match kind {
        Kind::VmAllocation => {
            recipe.parameter = [0.3, 0.5, 1.0, 2.0, 3.5, 8.0][rng.random_range(0..6)];
        }
        Kind::Wireless => recipe.parameter = recipe.upper[0] / rng.random_range(0.5..20.0),
        Kind::Trading => recipe.parameter = scale(rng, size.wild),
        Kind::Power => {
            recipe.parameter = recipe.lower[0] * rng.random_range(0.3..0.999);
            recipe.most = scale(rng, size.wild);
        }
        Kind::LlmTokens => {
            recipe.parameter = scale(rng, size.wild);
            recipe.weights = vec![scale(rng, size.wild), scale(rng, size.wild)];
        }
        Kind::Custom(Form::Quadratic) if chance(rng, 0.5) => {
            recipe.parameter = between_powers(rng, -2.0, 2.0);
        }
        _ => {}
    }
    if recipe.build().is_err() {
        for i in 0..d {
            if recipe.upper[i] <= recipe.lower[i] {
                recipe.upper[i] = recipe.lower[i] + recipe.lower[i].abs().max(1.0);
            }
        }
    }
    recipe
}

fn bounds(recipe: &mut Recipe, rng: &mut ChaCha8Rng, wild: f64) {
    let d = recipe.actions();
    let positive = matches!(
        recipe.kind,
        Kind::WeightedFairness | Kind::LogUtility | Kind::VmAllocation | Kind::Power
    );
    let zero = matches!(recipe.kind, Kind::Wireless | Kind::Trading | Kind::LlmTokens);
    let common = scale(rng, wild);
    for i in 0..d {
        let unit = if chance(rng, 0.9) {
            common
        } else {
            scale(rng, wild)
        };
        recipe.lower[i] = if zero || (!positive && chance(rng, 0.5)) {
            0.0
        } else if recipe.kind == Kind::Custom(Form::Valley) && chance(rng, 0.5) {
            -unit
        } else {
            unit * rng.random_range(0.05..1.0)
        };
        let width = if chance(rng, wild) {
            unit * between_powers(rng, -6.0, 9.0)
        } else {
            unit * between_powers(rng, 0.0, 1.7)
        };
        recipe.upper[i] = if !zero && chance(rng, 0.04) {
            recipe.lower[i]
        } else {
            recipe.lower[i] + width
        };
    }
    recipe.settle();
}

/// A non-negative matrix with zeros, zero rows, and rows that are multiples of others.
fn matrix(rng: &mut ChaCha8Rng, rows: usize, columns: usize, wild: f64) -> Vec<f64> {
    let mut matrix: Vec<f64> = Vec::with_capacity(rows * columns);
    for row in 0..rows {
        let unit = scale(rng, wild);
        if row > 0 && chance(rng, 0.15) {
            let other = rng.random_range(0..row);
            let multiple = if chance(rng, 0.5) { 1.0 } else { unit };
            for column in 0..columns {
                matrix.push(multiple * matrix[other * columns + column]);
            }
        } else {
            let zero = chance(rng, 0.04);
            for _ in 0..columns {
                let entry = if zero || chance(rng, 0.15) {
                    0.0
                } else {
                    unit * rng.random_range(0.1..2.0)
                };
                matrix.push(entry);
            }
        }
    }
    matrix
}

/// Draws a context that the problem is defined in.
#[must_use]
pub fn context(recipe: &Recipe, rng: &mut ChaCha8Rng, wild: f64) -> Vec<f64> {
    let d = recipe.actions();
    let unit = scale(rng, wild);
    let weight = |rng: &mut ChaCha8Rng| {
        if chance(rng, 0.06) {
            0.0
        } else {
            unit * rng.random_range(0.02..1.0)
        }
    };
    match recipe.kind {
        Kind::WeightedFairness | Kind::LogUtility => (0..d).map(|_| weight(rng)).collect(),
        Kind::Trading => vec![if chance(rng, 0.7) {
            recipe.parameter * recipe.upper[0] * rng.random_range(0.0..1.5)
        } else {
            weight(rng)
        }],
        Kind::VmAllocation => {
            let mut context = vec![weight(rng)];
            context.extend((0..d).map(|_| {
                if chance(rng, 0.06) {
                    0.0
                } else {
                    rng.random_range(0.05..1.0_f64)
                }
            }));
            let sum: f64 = context[1..].iter().sum::<f64>().max(0.05);
            let total = if chance(rng, 0.8) { 1.0 } else { 0.7 };
            for share in &mut context[1..] {
                *share *= total / sum;
            }
            context
        }
        Kind::Wireless => {
            let mut context = vec![weight(rng)];
            let gain = scale(rng, wild);
            context.extend((0..d).map(|_| (gain * rng.random_range(0.02..1.0)).max(1e-9)));
            context
        }
        Kind::Power => {
            let load = |rng: &mut ChaCha8Rng, most: f64| {
                if chance(rng, 0.06) {
                    0.0
                } else {
                    most * rng.random_range(0.01..1.0)
                }
            };
            let mut context: Vec<f64> = (0..d).map(|_| load(rng, recipe.parameter)).collect();
            context.push(load(rng, recipe.most));
            context
        }
        Kind::LlmTokens => {
            // Around what can be granted, so that some ask for more and some for next to nothing.
            let unit = if chance(rng, 0.7) { recipe.upper[0] } else { unit };
            let mut context: Vec<f64> = (0..d)
                .map(|_| {
                    if chance(rng, 0.06) {
                        0.0
                    } else {
                        unit * rng.random_range(0.02..1.5)
                    }
                })
                .collect();
            context.extend((0..d).map(|_| match rng.random_range(0..10) {
                0 => 0.0,
                1 => 1.0,
                _ => rng.random_range(0.0..1.0),
            }));
            context
        }
        Kind::Custom(form) => {
            let mut context: Vec<f64> = (0..d)
                .map(|i| {
                    let (lower, upper) = (recipe.lower[i], recipe.upper[i]);
                    let wish = lower + (upper - lower) * rng.random_range(-0.2..1.3);
                    let c = match form {
                        Form::Quadratic | Form::Valley => recipe.weights[i] * wish,
                        Form::Exponential => rng.random_range(0.0..15.0),
                        Form::Softplus => wish,
                    };
                    if chance(rng, 0.05) { 0.0 } else { c.max(0.0) }
                })
                .collect();
            if form == Form::Exponential {
                context.push(if chance(rng, 0.2) {
                    1.0
                } else {
                    rng.random_range(0.0..1.0)
                });
            }
            context
        }
    }
}
