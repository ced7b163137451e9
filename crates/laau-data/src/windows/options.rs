//! Options for making episodes from a trace.

use laau_core::Affine;
use serde::{Deserialize, Serialize};

use super::periods::{Gap, SplitBy};
use crate::error::{Error, invalid};

/// Options for making episodes from a trace. The defaults are the paper's.
///
/// | field | default | purpose | range |
/// |---|---|---|---|
/// | `horizon` | 20 | steps of an episode, `N` | ≥ 1 |
/// | `stride` | the horizon | readings from one window's start to the next | ≥ 1 |
/// | `construction` | consecutive | which readings form an episode | |
/// | `normalisation` | percent | how readings become contexts | |
/// | `out_of_range` | error | handling of a reading outside the normalisation's range | |
/// | `floor` | 0 | least context; smaller ones are raised to it, and counted | ≥ 0 |
/// | `budgets` | [(10, 15)] | per resource: a budget is drawn from U[lo·N, hi·N] | 0 ≤ lo ≤ hi |
/// | `split` | 5000, 1000, 2000 | episodes for training, validation, test | not all 0 |
/// | `split_by` | series | what keeps the sets apart: series, time or both | |
/// | `gap` | 0 steps | what is left out between two sets of a split by time | |
/// | `seed` | 0 | of every draw | |
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct EpisodeOptions {
    /// Steps of an episode.
    pub horizon: usize,
    /// Readings from one window's start to the next; the horizon if not given, so that windows are disjoint.
    pub stride: Option<usize>,
    /// Which readings form an episode.
    pub construction: Construction,
    /// How readings become contexts.
    pub normalisation: Normalisation,
    /// Handling of a reading outside the range of the normalisation.
    pub out_of_range: OutOfRange,
    /// The least context.
    pub floor: f64,
    /// Per resource the minimum and maximum budget per step.
    pub budgets: Vec<(f64, f64)>,
    /// Number of episodes in each set.
    pub split: Split,
    /// What keeps the sets apart.
    pub split_by: SplitBy,
    /// What is left out between two sets of a split by time.
    pub gap: Gap,
    /// The seed.
    pub seed: u64,
}

impl Default for EpisodeOptions {
    fn default() -> Self {
        Self {
            horizon: 20,
            stride: None,
            construction: Construction::default(),
            normalisation: Normalisation::default(),
            out_of_range: OutOfRange::default(),
            floor: 0.0,
            budgets: vec![(10.0, 15.0)],
            split: Split::default(),
            split_by: SplitBy::default(),
            gap: Gap::Steps(0),
            seed: 0,
        }
    }
}

impl EpisodeOptions {
    /// The stride, with its default.
    pub(crate) fn stride(&self) -> usize {
        self.stride.unwrap_or(self.horizon)
    }

    /// The number of values in a window of readings with so many values each.
    ///
    /// # Errors
    /// More values than any memory can hold.
    pub(crate) fn window(&self, width: usize) -> Result<usize, Error> {
        const MOST: usize = isize::MAX.unsigned_abs() / size_of::<f64>();
        let values = self.horizon.checked_mul(width);
        values.filter(|values| *values <= MOST).ok_or_else(|| {
            invalid(
                "horizon",
                format!(
                    "expected a window of at most {MOST} values, found {} steps with {width} each",
                    self.horizon
                ),
            )
        })
    }

    /// Checks every option.
    ///
    /// # Errors
    /// [`Error::Invalid`] that names the option.
    pub fn validate(&self) -> Result<(), Error> {
        let refuse = |what, reason: String| Err(invalid(what, reason));
        if self.horizon == 0 {
            return refuse("horizon", "expected at least 1 step, found 0".to_owned());
        }
        if self.stride == Some(0) {
            return refuse("stride", "expected at least 1 reading, found 0".to_owned());
        }
        if self.construction == Construction::Interleaved && self.stride.is_some_and(|s| s != self.horizon) {
            return refuse("stride", "interleaved episodes are always disjoint".to_owned());
        }
        if !(self.floor >= 0.0 && self.floor.is_finite()) {
            return refuse("floor", format!("expected a number ≥ 0, found {}", self.floor));
        }
        if self.budgets.is_empty() {
            return refuse("budgets", "expected at least one range".to_owned());
        }
        for &(low, high) in &self.budgets {
            if !(0.0 <= low && low <= high && high.is_finite()) {
                return refuse(
                    "budgets",
                    format!("expected 0 ≤ lo ≤ hi, found lo = {low}, hi = {high}"),
                );
            }
        }
        if self.split_by == SplitBy::Series && self.gap != Gap::Steps(0) {
            return refuse(
                "gap",
                "expected a split by time or both: sets of series have no gap".to_owned(),
            );
        }
        if self.split_by != SplitBy::Series && self.split.train == 0 && self.normalisation.is_per_series() {
            return refuse(
                "split",
                format!(
                    "expected training episodes: `{}` takes its constants from their period",
                    self.normalisation.name()
                ),
            );
        }
        if self.split.total() == 0 {
            return refuse("split", "expected at least one episode".to_owned());
        }
        Ok(())
    }
}

/// Which readings form an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Construction {
    /// Consecutive readings of one series; a gap in time ends the window.
    #[default]
    Consecutive,
    /// Each step reads a different series at the same time, in a seeded order. A set with fewer series than steps continues
    /// at the next time, never with the same series twice in a row if there is another.
    Interleaved,
}

/// How readings become contexts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalisation {
    /// Divided by 100; readings are in [0, 100].
    #[default]
    Percent,
    /// Divided by the greatest reading of the series; readings are ≥ 0. A series of zeros stays zero, or is left out of a split by
    /// time in which it is zero in the training alone.
    SeriesMax,
    /// From the least and the greatest reading of the series to [0, 1]. A constant series becomes zero, or is left out of a split by
    /// time in which it is constant in the training alone.
    MinMax,
    /// Unchanged.
    None,
}

impl Normalisation {
    /// The range that readings must be in.
    pub(crate) fn range(self) -> (f64, f64) {
        match self {
            Self::Percent => (0.0, 100.0),
            Self::SeriesMax => (0.0, f64::INFINITY),
            Self::MinMax | Self::None => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }

    /// What makes a context of a reading, given the least and greatest readings of its series.
    pub(crate) fn constants(self, (least, greatest): (f64, f64)) -> Affine {
        let (offset, scale) = match self {
            Self::Percent => (0.0, 100.0),
            Self::SeriesMax => (0.0, greatest.max(0.0)),
            Self::MinMax => (least, (greatest - least).max(0.0)),
            Self::None => (0.0, 1.0),
        };
        Affine { offset, scale }
    }

    /// Whether the constants are those of a series.
    pub(crate) fn is_per_series(self) -> bool {
        matches!(self, Self::SeriesMax | Self::MinMax)
    }

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Percent => "percent",
            Self::SeriesMax => "series-max",
            Self::MinMax => "min-max",
            Self::None => "none",
        }
    }
}

/// Handling of a reading outside the range of the normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OutOfRange {
    /// The trace is refused.
    #[default]
    Error,
    /// The reading is clamped to the nearest bound, and counted.
    Clamp,
}

/// Number of episodes in each set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// For training.
    pub train: usize,
    /// For choosing options.
    pub validation: usize,
    /// For the report.
    pub test: usize,
}

impl Default for Split {
    fn default() -> Self {
        Self {
            train: 5000,
            validation: 1000,
            test: 2000,
        }
    }
}

impl Split {
    /// The names of the sets, in order.
    pub const NAMES: [&'static str; 3] = ["train", "validation", "test"];

    /// The sizes of the sets, in order.
    #[must_use]
    pub fn sizes(&self) -> [usize; 3] {
        [self.train, self.validation, self.test]
    }

    /// All episodes together; the greatest number there is, where they are more.
    #[must_use]
    pub fn total(&self) -> usize {
        self.sizes().into_iter().fold(0, usize::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bad_option_is_named() {
        let check = |change: fn(&mut EpisodeOptions), expected: &str| {
            let mut options = EpisodeOptions::default();
            change(&mut options);
            assert_eq!(options.validate().unwrap_err().to_string(), expected);
        };
        assert!(EpisodeOptions::default().validate().is_ok());
        check(
            |o| o.horizon = 0,
            "invalid horizon: expected at least 1 step, found 0",
        );
        check(
            |o| o.stride = Some(0),
            "invalid stride: expected at least 1 reading, found 0",
        );
        check(
            |o| {
                o.stride = Some(1);
                o.construction = Construction::Interleaved;
            },
            "invalid stride: interleaved episodes are always disjoint",
        );
        check(
            |o| o.floor = f64::NAN,
            "invalid floor: expected a number ≥ 0, found NaN",
        );
        check(
            |o| o.budgets.clear(),
            "invalid budgets: expected at least one range",
        );
        check(
            |o| o.budgets = vec![(15.0, 10.0)],
            "invalid budgets: expected 0 ≤ lo ≤ hi, found lo = 15, hi = 10",
        );
        check(
            |o| {
                o.split = Split {
                    train: 0,
                    validation: 0,
                    test: 0,
                }
            },
            "invalid split: expected at least one episode",
        );
    }

    #[test]
    fn more_episodes_than_can_be_counted_are_the_most_that_can() {
        let split = Split {
            train: usize::MAX / 2,
            validation: usize::MAX / 2,
            test: usize::MAX / 2,
        };
        assert_eq!(split.total(), usize::MAX);
    }

    #[test]
    fn options_are_read_from_a_file_and_unknown_ones_refused() {
        let read = serde_json::from_str::<EpisodeOptions>;
        let text = r#"{"horizon": 10, "normalisation": "series-max", "out-of-range": "clamp",
            "construction": "interleaved", "budgets": [[2, 4]], "split": {"train": 1, "validation": 2, "test": 3}}"#;
        let expected = EpisodeOptions {
            horizon: 10,
            normalisation: Normalisation::SeriesMax,
            out_of_range: OutOfRange::Clamp,
            construction: Construction::Interleaved,
            budgets: vec![(2.0, 4.0)],
            split: Split {
                train: 1,
                validation: 2,
                test: 3,
            },
            ..EpisodeOptions::default()
        };
        assert_eq!(read(text).unwrap(), expected);
        assert!(read(r#"{"horizn": 10}"#).is_err());
    }

    #[test]
    fn readings_become_contexts_by_the_normalisation() {
        let context = |kind: Normalisation, reading: f64, series| kind.constants(series).apply(reading);
        let series = (2.0, 8.0);
        assert_eq!(context(Normalisation::Percent, 50.0, series), 0.5);
        assert_eq!(context(Normalisation::SeriesMax, 4.0, series), 0.5);
        assert_eq!(context(Normalisation::MinMax, 5.0, series), 0.5);
        assert_eq!(context(Normalisation::None, -5.0, series), -5.0);
        assert_eq!(context(Normalisation::SeriesMax, 0.0, (0.0, 0.0)), 0.0);
        assert_eq!(context(Normalisation::MinMax, 3.0, (3.0, 3.0)), 0.0);
    }
}
