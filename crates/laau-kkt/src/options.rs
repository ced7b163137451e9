//! The tolerances of this crate, all in one place.

use crate::error::Error;

/// Declares [`Options`] row by row: what an option does, its name, type, default and range.
macro_rules! options {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:literal in $range:ident;)*) => {
        /// Tolerances and limits of [`crate::InteriorPoint`] and [`crate::Kkt`].
        ///
        /// | option | default | range | purpose |
        /// |---|---|---|---|
        $(#[doc = concat!(
            "| `", stringify!($name), "` | ", stringify!($default), " | ", range!($range), " |", $($doc,)+ " |"
        )])*
        /// | `kink` | `OneSided` | | the gradient exactly at a kink |
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct Options {
            $($(#[doc = $doc])+ pub $name: $type,)*
            /// The gradient exactly at a kink.
            pub kink: Kink,
        }

        impl Default for Options {
            fn default() -> Self {
                Self {
                    $($name: $default,)*
                    kink: Kink::OneSided,
                }
            }
        }

        impl Options {
            /// Checks every option against its range.
            pub(crate) fn check(&self) -> Result<(), Error> {
                $(
                    let found = f64::from(self.$name);
                    let fits = fits!($range, found);
                    if !fits {
                        return Err(Error::InvalidOption {
                            option: stringify!($name),
                            expected: range!($range),
                            found,
                        });
                    }
                )*
                match self.kink {
                    Kink::Smoothed { barrier } if !(barrier.is_finite() && barrier > 0.0) => Err(Error::InvalidOption {
                        option: "kink.barrier",
                        expected: "a positive, finite number",
                        found: barrier,
                    }),
                    _ => Ok(()),
                }
            }
        }
    };
}

macro_rules! range {
    (unit) => {
        "a number in (0, 1)"
    };
    (small) => {
        "a number in (0, 1e-3)"
    };
    (above_one) => {
        "a number above 1"
    };
    (count) => {
        "at least 1"
    };
}

macro_rules! fits {
    (unit, $value:expr) => {
        $value > 0.0 && $value < 1.0
    };
    (small, $value:expr) => {
        $value > 0.0 && $value < 1e-3
    };
    (above_one, $value:expr) => {
        $value > 1.0 && $value < f64::INFINITY
    };
    (count, $value:expr) => {
        $value >= 1.0
    };
}

options! {
    /// The largest relative KKT residual of a solved query.
    tolerance: f64 = 1e-9 in unit;
    /// Interior-point and Newton steps together before a query counts as not converged.
    max_iterations: u32 = 300 in count;
    /// A relative slack or dual below this is zero; both zero: a kink.
    active_tolerance: f64 = 1e-12 in small;
    /// A relative pivot or singular value below this is zero.
    rank_tolerance: f64 = 1e-12 in small;
    /// A budget with less than this share of itself left at the lower corner pins the actions that use it.
    exhausted_tolerance: f64 = 1e-14 in small;
    /// An action that could still gain less than this share of the whole counts as optimal.
    negligible_gain: f64 = 1e-25 in small;
    /// A relative slack above this is that of an inactive constraint, whatever its dual; below it a constraint may be
    /// active, where the solver of a `Kkt` gives no duals.
    near_tolerance: f64 = 1e-6 in small;
    /// Relative distance from the central path at which a smoothed gradient is taken.
    smooth_tolerance: f64 = 1e-9 in small;

    /// Newton steps from a guess, without an interior point before them, until the guess counts as bad.
    max_direct_steps: u32 = 8 in count;
    /// Newton steps of a model's duals, at most.
    model_steps: u32 = 8 in count;
    /// Factor by which such a step changes a dual, at most.
    model_growth: f64 = 8.0 in above_one;
    /// An excess below this share of a budget ends them: it is only a guess.
    model_tolerance: f64 = 1e-3 in unit;

    /// Relative barrier at which the active set is guessed for the first time.
    polish_at: f64 = 3e-2 in unit;
    /// Each further guess comes at this share of the barrier of the one before.
    stage_factor: f64 = 1e-3 in unit;
    /// From this relative barrier on, the interior point is a solution where the active set does not settle.
    interior_at: f64 = 1e-10 in small;
    /// The relative barrier of the last stage.
    last_stage: f64 = 1e-80 in small;

    /// Share of the way to the budgets at which the interior point starts.
    start_share: f64 = 0.5 in unit;
    /// Share of every slack that the start leaves to curved budgets.
    start_slack: f64 = 0.1 in unit;
    /// Factor by which a start that is not inside is shortened.
    start_cut: f64 = 0.25 in unit;
    /// Only actions that use at least this share of the most that one uses are shortened.
    start_cut_share: f64 = 0.1 in unit;
    /// Cuts before the start is taken as it is: a hundred decades for each of several actions.
    max_start_cuts: u32 = 1000 in count;
    /// Halvings of a box before an action cannot rise at all.
    max_halvings: u32 = 100 in count;
    /// Rounding of a usage counts for no more than this share of its slack.
    noise_share: f64 = 0.1 in unit;

    /// How far a step goes towards the nearest constraint.
    boundary_fraction: f64 = 0.995 in unit;
    /// The least share of itself that a step lowers the barrier to.
    min_centring: f64 = 1e-8 in unit;
    /// No product of slack and dual falls below this share of their mean.
    min_product: f64 = 0.05 in unit;
    /// A step aims to raise no product by more than this factor: the linear model would not hold.
    max_growth: f64 = 10.0 in above_one;
    /// A step aims to lower no product below this share of itself and of the target.
    max_decay: f64 = 0.1 in unit;
    /// A step that curved budgets shorten below this has failed.
    min_step: f64 = 1e-12 in small;
    /// A relative residual of stationarity that rounding alone can leave.
    rounding_residual: f64 = 1e-14 in small;
    /// The barrier is held once it is below this share of where a stage ends, until the residual has followed.
    hold_at: f64 = 1e-3 in unit;
    /// Steps for which the barrier is held, at most, in one query.
    max_held: u32 = 20 in count;
    /// A relative residual below this holds no barrier.
    hold_residual: f64 = 1e-9 in small;
    /// A slack below this share of its first value is that of an active budget.
    vanished_slack: f64 = 1e-6 in small;
    /// The best iterate is kept from this relative barrier and residual on.
    keep_at: f64 = 1e-8 in small;
    /// Added to the diagonal of a Schur complement that cannot be factorised, relative to it.
    schur_ridge: f64 = 1e-14 in small;
    /// The same where that does not suffice.
    last_schur_ridge: f64 = 1e-10 in small;

    /// An action whose gradient is below this share of the dual of a bound, farther away than this share of its reach,
    /// is guessed to be free.
    centre_share: f64 = 0.1 in unit;
    /// Newton steps on a guessed active set before the guess counts as wrong.
    max_newton_steps: u32 = 12 in count;
    /// Newton steps after which the rounding of a usage is ignored: the others would have settled.
    exact_newton_steps: u32 = 6 in count;
    /// A Newton step this small, relative to the action, is the last: the next would be its square.
    last_newton_step: f64 = 1e-8 in small;
    /// A Newton step that ends this near to a bound, relative to where it began, ends on it. Where the gradient vanishes
    /// with the distance it would never arrive.
    onto_bound: f64 = 1e-10 in small;
    /// A residual on the active set that double precision cannot improve.
    newton_rounding: f64 = 1e-15 in small;
    /// Added to a Hessian, relative to its scale, so that flat directions stay put.
    ridge: f64 = 1e-13 in small;
    /// Factor of the ridge for a Hessian that is singular with it.
    ridge_growth: f64 = 1e6 in above_one;
}

/// What a pullback gives where a constraint is active with a zero dual, so that there is no derivative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kink {
    /// The derivative on the side where the weakly active constraints do not bind.
    ///
    /// This is also what Prop. 1 of the paper gives with a pseudo-inverse, since there the dual multiplies the
    /// constraint's row.
    OneSided,
    /// The derivative of the solution of the barrier problem, in which every product of slack and dual is `barrier`.
    Smoothed {
        /// The barrier, in units of the cost.
        barrier: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_outside_their_range_are_refused() {
        let check = |options: Options, expected: &str| {
            assert_eq!(options.check().unwrap_err().to_string(), expected);
        };
        let default = Options::default();
        assert_eq!(default.check(), Ok(()));
        check(
            Options {
                tolerance: 0.0,
                ..default
            },
            "option `tolerance`: expected a number in (0, 1), found 0",
        );
        check(
            Options {
                max_iterations: 0,
                ..default
            },
            "option `max_iterations`: expected at least 1, found 0",
        );
        check(
            Options {
                kink: Kink::Smoothed { barrier: f64::NAN },
                ..default
            },
            "option `kink.barrier`: expected a positive, finite number, found NaN",
        );
        check(
            Options {
                rank_tolerance: 0.5,
                ..default
            },
            "option `rank_tolerance`: expected a number in (0, 1e-3), found 0.5",
        );
    }
}
