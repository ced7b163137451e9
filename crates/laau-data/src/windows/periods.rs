//! Sets that are apart in time: train before validation before test, with a gap between them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::options::EpisodeOptions;
use crate::error::{Error, invalid};
use crate::load::checked::CheckedTrace;
use crate::load::trace::{Order, Trace};

/// What keeps the three sets apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SplitBy {
    /// No series is in two sets.
    #[default]
    Series,
    /// Train comes before validation, validation before test.
    Time,
    /// Both.
    Both,
}

/// What is left out between two sets of a split by time: `12` steps, or a duration, `90s`, `30m`, `6h` or `1d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Gap {
    /// So many steps of the trace.
    Steps(u32),
    /// So many seconds, for a trace whose times have a unit that is known ([`Trace::time_unit`]).
    Seconds(u32),
}

impl TryFrom<String> for Gap {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong =
            || format!("expected a number of steps or a duration such as 30m, 6h or 1d, found `{text}`");
        let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
        let unit = units.into_iter().find(|(letter, _)| text.ends_with(*letter));
        let Some((_, seconds)) = unit else {
            return text.parse().map(Self::Steps).map_err(|_| wrong());
        };
        let count: u32 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
        count.checked_mul(seconds).map(Self::Seconds).ok_or_else(wrong)
    }
}

impl From<Gap> for String {
    fn from(gap: Gap) -> Self {
        match gap {
            Gap::Steps(steps) => steps.to_string(),
            Gap::Seconds(seconds) => format!("{seconds}s"),
        }
    }
}

/// The time of each set, from its first to before its second number; or none, where all sets have all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Periods(pub(crate) Option<[(i64, i64); 3]>);

impl Periods {
    /// Finds the periods of a split, in a pass of its own over the trace if it is one by time.
    pub(crate) fn find(trace: &dyn Trace, options: &EpisodeOptions) -> Result<Self, Error> {
        if options.split_by == SplitBy::Series {
            return Ok(Self(None));
        }
        let mut readings: BTreeMap<i64, u64> = BTreeMap::new();
        let mut checked = CheckedTrace::new(trace, options.normalisation, options.out_of_range)?;
        checked.read(Order::Series, |reading| {
            *readings.entry(reading.time).or_default() += 1;
            Ok(())
        })?;
        let step = checked.step().unwrap_or(1);
        let gap = match options.gap {
            Gap::Steps(steps) => i64::from(steps).saturating_mul(step),
            Gap::Seconds(seconds) => in_units(trace, &readings, seconds)?,
        };
        Ok(Self(Some(divide(&readings, options.split.sizes(), gap, step))))
    }

    /// The set whose period a time is in; 0 if there is but one period.
    pub(crate) fn of(&self, time: i64) -> Option<usize> {
        match &self.0 {
            None => Some(0),
            Some(periods) => periods
                .iter()
                .position(|(from, until)| (*from..*until).contains(&time)),
        }
    }
}

/// A duration in the unit of the trace's times; to guess it would leave out too little, and sets would share what lasts longer.
fn in_units(trace: &dyn Trace, readings: &BTreeMap<i64, u64>, seconds: u32) -> Result<i64, Error> {
    let ends = readings.first_key_value().zip(readings.last_key_value());
    let Some(((&first, _), (&last, _))) = ends else {
        return Ok(0);
    };
    let unit = trace.time_unit(first, last).ok_or_else(|| {
        invalid(
            "gap",
            format!(
                "expected a number of steps, found a duration: the times, {first} to {last}, are neither stamps nor since 1970, and their unit is not known"
            ),
        )
    })?;
    Ok(unit.count(seconds))
}

/// Divides the readings, given by time, in proportion to the sizes of the sets.
fn divide(readings: &BTreeMap<i64, u64>, sizes: [usize; 3], gap: i64, step: i64) -> [(i64, i64); 3] {
    let ends = readings.first_key_value().zip(readings.last_key_value());
    let (mut from, last) = ends.map_or((0, 0), |((first, _), (last, _))| (*first, *last));
    let all: u128 = readings.values().map(|count| u128::from(*count)).sum();
    let total: u128 = sizes.iter().map(|size| *size as u128).sum();
    let sets = sizes.iter().filter(|size| **size > 0).count();
    let span = u128::from(last.abs_diff(from)) + u128::from(step.unsigned_abs());
    let gaps = u128::from(gap.unsigned_abs()) * (sets.max(1) - 1) as u128;
    let usable = all - all.min((all * gaps).div_ceil(span));
    let last_set = sizes.iter().rposition(|size| *size > 0);
    std::array::from_fn(|set| {
        if sizes[set] == 0 {
            return (from, from);
        }
        let wanted = (usable * sizes[set] as u128).div_ceil(total);
        let mut seen = 0;
        let end = readings.range(from..).find(|(_, count)| {
            let enough = seen >= wanted;
            seen += u128::from(**count);
            enough
        });
        let until = match end {
            Some((time, _)) if Some(set) != last_set => *time,
            _ => last.saturating_add(step).max(from),
        };
        let period = (from, until);
        from = until.saturating_add(gap);
        period
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every(step: i64, readings: i64) -> BTreeMap<i64, u64> {
        (0..readings).map(|number| (number * step, 1)).collect()
    }

    #[test]
    fn readings_are_divided_in_proportion_and_gaps_come_off_first() {
        assert_eq!(
            divide(&every(10, 100), [5, 3, 2], 0, 10),
            [(0, 500), (500, 800), (800, 1000)]
        );
        assert_eq!(
            divide(&every(10, 110), [5, 3, 2], 50, 10),
            [(0, 500), (550, 850), (900, 1100)]
        );
        // A set without episodes has no period, and no gap of its own.
        assert_eq!(
            divide(&every(1, 30), [2, 0, 1], 0, 1),
            [(0, 20), (20, 20), (20, 30)]
        );
    }

    #[test]
    fn a_gap_is_steps_or_a_duration() {
        let gap = |text: &str| Gap::try_from(text.to_owned());
        assert_eq!(gap("12"), Ok(Gap::Steps(12)));
        assert_eq!(gap("90s"), Ok(Gap::Seconds(90)));
        assert_eq!(gap("6h"), Ok(Gap::Seconds(21_600)));
        assert_eq!(String::from(Gap::Seconds(21_600)), "21600s");
        for bad in ["", "h", "-1", "1w", "1.5h", "99999999d"] {
            assert!(gap(bad).is_err(), "{bad}");
        }
    }
}
