//! What checks have found, summed up.

use laau::kkt::gradcheck::{EpisodePlace, Gradcheck, LayerPlace, ProblemPlace};
use serde::Serialize;

use crate::failure::Failure;
use laau::core::four_digits;

/// The columns of the table.
pub(super) const HEADING: [&str; 9] = [
    "gradient",
    "compared",
    "kinks",
    "unsolved",
    "exact",
    "approximate",
    "worst error",
    "derivative",
    "difference",
];

/// Where a derivative stands, for people.
pub(super) trait Place {
    /// In words.
    fn words(&self) -> String;
}

impl Place for ProblemPlace {
    fn words(&self) -> String {
        format!("{:?}[{}][{}]", self.derivative, self.row, self.column)
    }
}

impl Place for LayerPlace {
    fn words(&self) -> String {
        format!("{}[{}]", self.input, self.index)
    }
}

impl Place for EpisodePlace {
    fn words(&self) -> String {
        match self {
            Self::Multiplier { step, budget } => format!("multiplier[{budget}] at step {step}"),
            Self::Budget { budget } => format!("budget[{budget}]"),
        }
    }
}

/// The findings of one kind of gradient.
#[derive(Debug, Serialize)]
pub(super) struct Tally {
    #[serde(skip)]
    name: &'static str,
    /// Derivatives that were compared.
    pub(super) compared: usize,
    /// Derivatives at kinks, which have no difference.
    pub(super) kinks: usize,
    /// Derivatives near which the function could not be evaluated.
    pub(super) unsolved: usize,
    /// Pullbacks of the layer behind the derivatives that were exact.
    exact: u64,
    /// Those that were not.
    approximate: u64,
    worst: Option<Worst>,
}

/// The derivative that is farthest off.
#[derive(Debug, Serialize)]
struct Worst {
    place: String,
    derivative: f64,
    difference: f64,
    relative_error: f64,
}

impl Tally {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            name,
            compared: 0,
            kinks: 0,
            unsolved: 0,
            exact: 0,
            approximate: 0,
            worst: None,
        }
    }

    /// Adds the findings of one point.
    pub(super) fn add<P: Place>(&mut self, found: &Gradcheck<P>) {
        self.compared += found.checked;
        self.kinks += found.kinks.len();
        self.unsolved += found.unsolved.len();
        self.exact += found.gradients.exact;
        self.approximate += found.gradients.approximate;
        if let Some(worst) = &found.worst {
            self.note(
                || worst.place.words(),
                worst.derivative,
                worst.difference,
                worst.relative_error,
            );
        }
    }

    /// Keeps what is worse than all before; a NaN is the worst of all.
    pub(super) fn note(
        &mut self,
        place: impl FnOnce() -> String,
        derivative: f64,
        difference: f64,
        relative_error: f64,
    ) {
        let is_worse = match &self.worst {
            None => true,
            Some(worst) if worst.relative_error.is_nan() => false,
            Some(worst) => relative_error.is_nan() || relative_error > worst.relative_error,
        };
        if is_worse {
            self.worst = Some(Worst {
                place: place(),
                derivative,
                difference,
                relative_error,
            });
        }
    }

    /// The row of the table.
    pub(super) fn row(&self) -> Vec<String> {
        let mut row = vec![self.name.to_owned()];
        row.extend([self.compared, self.kinks, self.unsolved].map(|count| count.to_string()));
        row.extend(match (self.exact, self.approximate) {
            // Not a matter of the layer alone.
            (0, 0) => ["-", "-"].map(str::to_owned),
            (exact, approximate) => [exact, approximate].map(|count| count.to_string()),
        });
        row.extend(match &self.worst {
            Some(worst) => [
                format!("{:.1e} ({})", worst.relative_error, worst.place),
                four_digits(worst.derivative),
                four_digits(worst.difference),
            ],
            None => ["-", "-", "-"].map(str::to_owned),
        });
        row
    }

    /// What is wrong, if anything is.
    pub(super) fn fault(&self, tolerance: f64) -> Option<Failure> {
        let hint = "a derivative of the problem, or its layer, is not right; see the row of the table";
        match &self.worst {
            None => Some(Failure::new(
                format_args!("{}: nothing could be compared", self.name),
                "draw more with --points, or choose a smoother problem",
            )),
            Some(worst) if worst.relative_error <= tolerance => None,
            Some(worst) => Some(Failure::new(
                format_args!(
                    "{}: {} is off by {:.1e}, more than the tolerance of {tolerance:e}",
                    self.name, worst.place, worst.relative_error
                ),
                hint,
            )),
        }
    }
}

/// All findings as JSON.
pub(super) fn json(problem: &str, tolerance: f64, tallies: &[Tally]) -> Result<String, Failure> {
    let gradients: Vec<_> = tallies
        .iter()
        .map(|tally| {
            let mut value = serde_json::to_value(tally)?;
            value["name"] = tally.name.into();
            Ok(value)
        })
        .collect::<Result<_, serde_json::Error>>()
        .map_err(|error| Failure::output(&error.into()))?;
    let all = serde_json::json!({"problem": problem, "tolerance": tolerance, "gradients": gradients});
    Ok(all.to_string() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gradient_that_is_off_or_nan_or_not_compared_is_a_fault() {
        let mut tally = Tally::new("weights");
        assert!(tally.fault(1e-5).is_some());
        tally.note(|| "weight[0]".to_owned(), 1.0, 1.0, 1e-7);
        assert!(tally.fault(1e-5).is_none());
        tally.note(|| "weight[1]".to_owned(), 1.0, 1.1, 0.09);
        tally.note(|| "weight[2]".to_owned(), 1.0, 1.0, 1e-9);
        assert_eq!(
            tally.fault(1e-5).map(|fault| fault.to_string()).unwrap(),
            "weights: weight[1] is off by 9.0e-2, more than the tolerance of 1e-5 (hint: a derivative of the problem, \
             or its layer, is not right; see the row of the table)"
        );
        tally.note(|| "weight[3]".to_owned(), f64::NAN, 1.0, f64::NAN);
        assert!(tally.fault(1.0).is_some());
    }
}
