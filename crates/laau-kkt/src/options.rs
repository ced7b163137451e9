//! The tolerances of the interior-point solver, all in one place.

use crate::error::Error;

/// Tolerances and limits of [`crate::InteriorPoint`].
///
/// | option | default | purpose | range |
/// |---|---|---|---|
/// | `tolerance` | 1e-9 | largest relative KKT residual of a solved query | (0, 1) |
/// | `max_iterations` | 300 | interior-point and Newton steps together before a query counts as not converged | ≥ 1 |
/// | `active_tolerance` | 1e-12 | a relative slack or dual below this is zero; both zero: a kink | (0, 1e-3) |
/// | `exhausted_tolerance` | 1e-14 | a budget with less than this share of itself left at the lower corner pins the actions that use it | (0, 1e-3) |
/// | `polish_at` | 3e-2 | relative barrier at which the active set is guessed for the first time | (0, 1) |
/// | `rank_tolerance` | 1e-12 | a relative pivot or singular value below this is zero | (0, 1e-3) |
/// | `near_tolerance` | 1e-6 | a relative slack below this may be that of an active constraint, where a solver gives no duals | (0, 1e-3) |
/// | `kink` | `OneSided` | the gradient exactly at a kink | |
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Largest relative KKT residual of a solved query.
    pub tolerance: f64,
    /// Interior-point and Newton steps together before a query counts as not converged.
    pub max_iterations: u32,
    /// A relative slack or dual below this counts as zero.
    pub active_tolerance: f64,
    /// A budget with less than this share of itself left at the lower corner pins the actions that use it.
    pub exhausted_tolerance: f64,
    /// Relative barrier at which the active set is guessed for the first time; later guesses follow at a
    /// thousandth of the one before.
    pub polish_at: f64,
    /// A relative pivot or singular value below this counts as zero.
    pub rank_tolerance: f64,
    /// A relative slack below this may be that of an active constraint, where the solver of a [`crate::Kkt`] gives no
    /// duals.
    pub near_tolerance: f64,
    /// The gradient exactly at a kink.
    pub kink: Kink,
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

impl Default for Options {
    fn default() -> Self {
        Self {
            tolerance: 1e-9,
            max_iterations: 300,
            active_tolerance: 1e-12,
            exhausted_tolerance: 1e-14,
            polish_at: 3e-2,
            rank_tolerance: 1e-12,
            near_tolerance: 1e-6,
            kink: Kink::OneSided,
        }
    }
}

impl Options {
    /// Checks every option against its range.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let within = |option, expected, found: f64, fits: bool| {
            if fits {
                Ok(())
            } else {
                Err(Error::InvalidOption {
                    option,
                    expected,
                    found,
                })
            }
        };
        let open = |value: f64, end: f64| value > 0.0 && value < end;
        let unit = "a number in (0, 1)";
        let small = "a number in (0, 1e-3)";
        within("tolerance", unit, self.tolerance, open(self.tolerance, 1.0))?;
        within("polish_at", unit, self.polish_at, open(self.polish_at, 1.0))?;
        within(
            "active_tolerance",
            small,
            self.active_tolerance,
            open(self.active_tolerance, 1e-3),
        )?;
        within(
            "exhausted_tolerance",
            small,
            self.exhausted_tolerance,
            open(self.exhausted_tolerance, 1e-3),
        )?;
        within(
            "rank_tolerance",
            small,
            self.rank_tolerance,
            open(self.rank_tolerance, 1e-3),
        )?;
        within("max_iterations", "at least 1", 0.0, self.max_iterations > 0)?;
        if let Kink::Smoothed { barrier } = self.kink {
            let fits = barrier.is_finite() && barrier > 0.0;
            within("kink.barrier", "a positive, finite number", barrier, fits)?;
        }
        Ok(())
    }
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
