//! How readings became contexts, and the range of the contexts that a policy was fitted on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::episode::Episodes;
use crate::error::{Error, expect_finite, expect_length};

/// How the readings of a trace became the contexts of episodes: whoever deploys a policy must do the same.
///
/// ```
/// use laau_core::{Affine, Constants, ScaledColumn, Scaling};
///
/// let percent = Scaling {
///     kind: "percent".to_owned(),
///     columns: vec![ScaledColumn::new("cpu")],
///     constants: Constants::Shared(vec![Affine { offset: 0.0, scale: 100.0 }]),
/// };
/// assert_eq!(percent.contexts(None, &[35.0])?, [0.35]);
/// # Ok::<(), laau_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scaling {
    /// A word for it: percent, series-max, min-max, none.
    pub kind: String,
    /// The columns of a reading, one per context entry.
    pub columns: Vec<ScaledColumn>,
    /// The constants of the columns.
    pub constants: Constants,
}

/// A column of readings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScaledColumn {
    /// Its name.
    pub name: String,
    /// The least and the greatest reading that were accepted: others are refused.
    #[serde(default, skip_serializing_if = "is_unbounded")]
    pub accepted: [Option<f64>; 2],
    /// The reading that smaller ones are raised to.
    pub least: Option<f64>,
    /// The reading that greater ones are lowered to.
    pub greatest: Option<f64>,
    /// The context that smaller ones are raised to.
    pub floor: Option<f64>,
    /// The least context of the training that was raised to one of these bounds, and the greatest that was lowered, as they would be
    /// without them: what was seen is not odd.
    #[serde(default, skip_serializing_if = "is_unbounded")]
    pub moved: [Option<f64>; 2],
}

impl ScaledColumn {
    /// A column without bounds.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            accepted: [None; 2],
            least: None,
            greatest: None,
            floor: None,
            moved: [None; 2],
        }
    }
}

/// Files that were written before the bounds were stored have none.
fn is_unbounded(accepted: &[Option<f64>; 2]) -> bool {
    *accepted == [None; 2]
}

/// The constants of every column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Constants {
    /// The same for every series.
    Shared(Vec<Affine>),
    /// Those of each series, by its name.
    PerSeries(BTreeMap<String, Vec<Affine>>),
}

/// `(reading − offset) / scale`; 0 where the scale is 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Affine {
    /// What is taken off.
    pub offset: f64,
    /// What the rest is divided by.
    pub scale: f64,
}

impl Affine {
    /// Leaves a reading as it is.
    pub const IDENTITY: Self = Self {
        offset: 0.0,
        scale: 1.0,
    };

    /// A context from a reading.
    #[must_use]
    pub fn apply(self, reading: f64) -> f64 {
        if self.scale == 0.0 {
            return 0.0;
        }
        (reading - self.offset) / self.scale
    }
}

impl Scaling {
    /// The context of a reading, of a series if constants are those of series.
    ///
    /// # Errors
    /// [`Error::Reading`] for a series that is unknown or not named, [`Error::WrongLength`], [`Error::NotFinite`].
    pub fn contexts(&self, series: Option<&str>, readings: &[f64]) -> Result<Vec<f64>, Error> {
        let constants = self.constants_of(series, readings)?;
        let columns = self.columns.iter().zip(constants).zip(readings);
        let contexts: Vec<f64> = columns
            .map(|((column, constants), &reading)| {
                let reading = column.least.map_or(reading, |least| reading.max(least));
                let reading = column.greatest.map_or(reading, |most| reading.min(most));
                let context = constants.apply(reading);
                column.floor.filter(|floor| context < *floor).unwrap_or(context)
            })
            .collect();
        expect_finite("the context", &contexts)?;
        Ok(contexts)
    }

    /// The contexts that readings would be if none were raised or lowered further than those of the import: these say how far a
    /// reading is outside.
    ///
    /// # Errors
    /// As [`Scaling::contexts`].
    pub fn unbounded(&self, series: Option<&str>, readings: &[f64]) -> Result<Vec<f64>, Error> {
        let constants = self.constants_of(series, readings)?;
        let mut contexts = self.contexts(series, readings)?;
        let columns = self.columns.iter().zip(constants).zip(readings);
        for (context, ((column, constants), &reading)) in contexts.iter_mut().zip(columns) {
            let free = match constants.scale {
                // All readings of the training were one. A width that is not known counts as large as the value.
                0.0 if reading == constants.offset => *context,
                0.0 => (reading - constants.offset) / constants.offset.abs(),
                _ => constants.apply(reading),
            };
            let [raised, lowered] = column.moved;
            let was_seen = if free < *context {
                raised.is_some_and(|least| least <= free)
            } else {
                lowered.is_some_and(|most| free <= most)
            };
            if !was_seen {
                *context = free;
            }
        }
        Ok(contexts)
    }

    /// How the contexts of another trace differ in meaning, in words; nothing if a policy for one can play the other. The values of the
    /// constants may differ: they belong to the series.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        let names = |scaling: &Self| -> Vec<String> {
            let columns = scaling.columns.iter();
            columns.map(|column| column.name.clone()).collect()
        };
        let (ours, theirs) = (names(self), names(other));
        let sorted = |names: &[String]| {
            let mut names = names.to_vec();
            names.sort_unstable();
            names
        };
        if self.kind != other.kind {
            Some(format!("normalisation `{}` and `{}`", self.kind, other.kind))
        } else if ours != theirs && sorted(&ours) == sorted(&theirs) {
            Some(format!("columns {} and {}", ours.join(", "), theirs.join(", ")))
        } else {
            None
        }
    }

    /// The constants of a series, for readings that are accepted.
    fn constants_of(&self, series: Option<&str>, readings: &[f64]) -> Result<&[Affine], Error> {
        let refuse = |reason| Err(Error::Reading { reason });
        // One series need not be named.
        let only = match &self.constants {
            Constants::PerSeries(known) if known.len() == 1 => known.keys().next().map(String::as_str),
            _ => None,
        };
        let constants = match (&self.constants, series.or(only)) {
            (Constants::Shared(constants), _) => constants,
            (Constants::PerSeries(known), Some(series)) => match known.get(series) {
                Some(constants) => constants,
                None => {
                    return refuse(format!(
                        "series `{series}` was not in the training, or did not vary in it"
                    ));
                }
            },
            (Constants::PerSeries(_), None) => {
                return refuse(format!(
                    "the constants of `{}` are those of a series, and none is named",
                    self.kind
                ));
            }
        };
        expect_length("the reading", readings, self.columns.len())?;
        expect_length("the constants", constants, self.columns.len())?;
        expect_finite("the reading", readings)?;
        for (column, &reading) in self.columns.iter().zip(readings) {
            let [least, greatest] = column.accepted;
            let expected = match (least, greatest) {
                (Some(least), _) if reading < least => format!("at least {least}"),
                (_, Some(greatest)) if reading > greatest => format!("at most {greatest}"),
                _ => continue,
            };
            let (name, kind) = (&column.name, &self.kind);
            return refuse(format!("`{name}` is {reading}, and `{kind}` takes {expected}"));
        }
        Ok(constants)
    }
}

/// What is known of the episodes that a policy was fitted on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainedOn {
    /// How their contexts came about, if they were made of readings.
    pub scaling: Option<Scaling>,
    /// The range of each context entry.
    pub contexts: Vec<ValueRange>,
    /// The range of each budget, per step of an episode; nothing in files of before it was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<ValueRange>,
}

/// The values of a context entry, or of a budget per step, in the training episodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueRange {
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation.
    pub std: f64,
}

impl TrainedOn {
    /// Measures a training set of at least one episode.
    #[must_use]
    pub fn of(train: &Episodes) -> Self {
        let steps = train.horizon() as f64;
        let contexts = train.contexts().iter().copied();
        // By the same division as a budget that is judged: what was seen in training is inside to the last bit.
        let budgets = train.budgets().iter().map(|budget| budget / steps);
        Self {
            scaling: train.scaling().cloned(),
            contexts: ranges(&contexts, train.context_len()),
            budgets: ranges(&budgets, train.budget_len()),
        }
    }

    /// The first entry of a context that lies more than `factor` widths of its training range outside of that range, in words.
    ///
    /// A range without a width counts as wide as its value is large.
    #[must_use]
    pub fn outside(&self, context: &[f64], factor: f64) -> Option<String> {
        let (entry, value, range) = far(&self.contexts, context, factor)?;
        Some(format!(
            "context[{entry}] is {value}, far outside the training range [{}, {}]",
            range.min, range.max
        ))
    }

    /// The same for the budgets of an episode, per step: a policy knows as little of other budgets as of other contexts.
    #[must_use]
    pub fn budget_outside(&self, budgets: &[f64], horizon: usize, factor: f64) -> Option<String> {
        let per_step: Vec<f64> = budgets.iter().map(|budget| budget / horizon as f64).collect();
        let (budget, value, range) = far(&self.budgets, &per_step, factor)?;
        Some(format!(
            "budget {budget} is {value} per step, far outside the training range [{}, {}]",
            range.min, range.max
        ))
    }
}

/// The range of each of `width` values that take turns.
fn ranges(values: &(impl Iterator<Item = f64> + Clone), width: usize) -> Vec<ValueRange> {
    let column = |entry: usize| values.clone().skip(entry).step_by(width);
    let range = |entry: usize| {
        let count = column(entry).count() as f64;
        let mean = column(entry).map(|value| value / count).sum::<f64>();
        let variance = column(entry)
            .map(|value| (value - mean).powi(2) / count)
            .sum::<f64>();
        ValueRange {
            min: column(entry).fold(f64::INFINITY, f64::min),
            max: column(entry).fold(f64::NEG_INFINITY, f64::max),
            mean,
            std: variance.sqrt(),
        }
    };
    (0..width).map(range).collect()
}

/// The first value that is more than `factor` widths of its range outside of it.
fn far<'a>(ranges: &'a [ValueRange], values: &[f64], factor: f64) -> Option<(usize, f64, &'a ValueRange)> {
    let pairs = ranges.iter().zip(values).enumerate();
    pairs
        .map(|(entry, (range, &value))| (entry, value, range))
        .find(|(_, value, range)| {
            let width = match range.max - range.min {
                0.0 => range.max.abs(),
                width => width,
            };
            let outside = (range.min - value).max(value - range.max);
            outside > 0.0 && outside > factor * width
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_becomes_the_context_of_its_series() {
        let mut column = ScaledColumn::new("load");
        (column.greatest, column.floor) = (Some(40.0), Some(0.1));
        let affine = |offset, scale| vec![Affine { offset, scale }];
        let scaling = Scaling {
            kind: "min-max".to_owned(),
            columns: vec![column],
            constants: Constants::PerSeries(BTreeMap::from([
                ("a".to_owned(), affine(10.0, 20.0)),
                ("constant".to_owned(), affine(3.0, 0.0)),
            ])),
        };
        let context = |series, reading| scaling.contexts(series, &[reading]).map(|c| c[0]);
        assert_eq!(context(Some("a"), 15.0), Ok(0.25));
        assert_eq!(context(Some("a"), 60.0), Ok(1.5), "lowered to 40");
        assert_eq!(context(Some("a"), 10.0), Ok(0.1), "raised to the floor");
        assert_eq!(context(Some("constant"), 8.0), Ok(0.1));
        let told = |result: Result<f64, Error>| result.unwrap_err().to_string();
        assert_eq!(
            told(context(Some("b"), 1.0)),
            "the reading cannot become a context: series `b` was not in the training, or did not vary in it"
        );
        assert_eq!(
            told(context(None, 1.0)),
            "the reading cannot become a context: the constants of `min-max` are those of a series, and none is named"
        );
        assert_eq!(scaling.unbounded(Some("a"), &[60.0]), Ok(vec![2.5]));
        assert!(scaling.contexts(Some("a"), &[1.0, 2.0]).is_err());
        assert!(context(Some("a"), f64::NAN).is_err());
    }

    #[test]
    fn a_reading_that_the_import_refuses_becomes_no_context() {
        let mut column = ScaledColumn::new("cpu");
        (column.accepted, column.floor) = ([Some(0.0), Some(100.0)], Some(0.0));
        let scaling = Scaling {
            kind: "percent".to_owned(),
            columns: vec![column],
            constants: Constants::Shared(vec![Affine {
                offset: 0.0,
                scale: 100.0,
            }]),
        };
        assert_eq!(scaling.contexts(None, &[100.0]), Ok(vec![1.0]));
        for (reading, told) in [
            (-5.0, "`cpu` is -5, and `percent` takes at least 0"),
            (100.5, "`cpu` is 100.5, and `percent` takes at most 100"),
        ] {
            let error = scaling.contexts(None, &[reading]).unwrap_err().to_string();
            assert_eq!(error, format!("the reading cannot become a context: {told}"));
            assert!(scaling.unbounded(None, &[reading]).is_err());
        }
    }

    #[test]
    fn a_budget_far_outside_those_of_the_training_is_told() {
        let train = Episodes::new(2, 1, 2, vec![0.5; 4], vec![20.0, 8.0, 30.0, 8.0]).unwrap();
        let trained = TrainedOn::of(&train);
        assert_eq!((trained.budgets[0].min, trained.budgets[0].max), (10.0, 15.0));
        assert_eq!(trained.budget_outside(&[60.0, 24.0], 3, 1.0), None);
        assert_eq!(
            trained.budget_outside(&[63.0, 12.0], 3, 1.0).unwrap(),
            "budget 0 is 21 per step, far outside the training range [10, 15]"
        );
        assert!(trained.budget_outside(&[24.0, 30.0], 2, 1.0).is_some());
        // 49 · (1/49) is not 1.
        let train = Episodes::new(49, 1, 1, vec![0.5; 49], vec![49.0]).unwrap();
        assert_eq!(TrainedOn::of(&train).budget_outside(&[49.0], 49, 0.0), None);
    }

    #[test]
    fn a_reading_of_a_series_that_was_constant_is_outside_unless_it_is_the_same() {
        let scaling = |offset| Scaling {
            kind: "min-max".to_owned(),
            columns: vec![ScaledColumn::new("load")],
            constants: Constants::Shared(vec![Affine { offset, scale: 0.0 }]),
        };
        assert_eq!(scaling(0.0).unbounded(None, &[0.0]), Ok(vec![0.0]));
        assert_eq!(scaling(0.0).unbounded(None, &[80.0]), Ok(vec![f64::INFINITY]));
        assert_eq!(scaling(4.0).unbounded(None, &[5.0]), Ok(vec![0.25]));
        assert_eq!(scaling(-4.0).unbounded(None, &[-5.0]), Ok(vec![-0.25]));
        assert_eq!(scaling(4.0).contexts(None, &[5.0]), Ok(vec![0.0]));
    }

    #[test]
    fn a_reading_that_was_raised_or_lowered_in_the_import_is_not_odd() {
        let mut column = ScaledColumn::new("load");
        (column.floor, column.greatest) = (Some(0.5), Some(40.0));
        column.moved = [Some(0.2), Some(9.0)];
        let scaling = Scaling {
            kind: "none".to_owned(),
            columns: vec![column],
            constants: Constants::Shared(vec![Affine {
                offset: 0.0,
                scale: 10.0,
            }]),
        };
        for (reading, expected) in [(1.9, 0.19), (2.0, 0.5), (20.0, 2.0), (90.0, 4.0), (91.0, 9.1)] {
            assert_eq!(
                scaling.unbounded(None, &[reading]),
                Ok(vec![expected]),
                "{reading}"
            );
        }
    }

    #[test]
    fn scalings_that_give_contexts_another_meaning_are_told_apart() {
        let scaling = |kind: &str, names: &[&str]| Scaling {
            kind: kind.to_owned(),
            columns: names.iter().map(|name| ScaledColumn::new(*name)).collect(),
            constants: Constants::Shared(vec![Affine::IDENTITY; names.len()]),
        };
        let one = scaling("percent", &["cpu", "memory"]);
        assert_eq!(one.difference(&one), None);
        assert_eq!(
            one.difference(&scaling("percent", &["avgcpu", "avgmemory"])),
            None
        );
        assert_eq!(
            one.difference(&scaling("none", &["cpu", "memory"])).unwrap(),
            "normalisation `percent` and `none`"
        );
        assert_eq!(
            one.difference(&scaling("percent", &["memory", "cpu"])).unwrap(),
            "columns cpu, memory and memory, cpu"
        );
    }

    #[test]
    fn a_context_far_outside_the_training_range_is_told() {
        let train = Episodes::new(2, 2, 1, vec![0.2, 3.0, 0.6, 3.0], vec![9.0]).unwrap();
        let trained = TrainedOn::of(&train);
        assert_eq!((trained.contexts[0].min, trained.contexts[0].max), (0.2, 0.6));
        assert_eq!(trained.contexts[0].mean, 0.4);
        assert!((trained.contexts[0].std - 0.2).abs() < 1e-12);
        assert_eq!(trained.outside(&[0.99, 5.9], 1.0), None);
        assert_eq!(trained.outside(&[-0.19, 0.1], 1.0), None);
        assert_eq!(trained.outside(&[35.0, 3.0], 100.0), None);
        assert_eq!(
            trained.outside(&[35.0, 3.0], 1.0).unwrap(),
            "context[0] is 35, far outside the training range [0.2, 0.6]"
        );
        assert!(trained.outside(&[0.4, 6.1], 1.0).is_some());
        assert!(trained.outside(&[0.7, 3.0], 0.0).is_some());
        assert_eq!(trained.outside(&[0.2, 3.0], 0.0), None);
        assert_eq!(trained.outside(&[35.0, 9.0], f64::INFINITY), None);
        let zeros = TrainedOn::of(&Episodes::new(1, 1, 1, vec![0.0], vec![9.0]).unwrap());
        assert_eq!(zeros.outside(&[0.0], f64::INFINITY), None);
    }
}
