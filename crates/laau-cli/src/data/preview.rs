//! `laau import --dry-run`: what was understood of a trace, before anything is written.

use laau::core::{Episodes, four_digits};
use laau::data::{EpisodeOptions, Gap, Imported, Normalisation, OutOfRange, Split, SplitBy, TimeUnit, Trace};

use super::import::{failure, warn};
use super::inspect::{facts, normalisation};
use crate::failure::Failure;
use crate::output;

/// Contexts of an episode that are shown.
const SHOWN: usize = 10;

/// Imports a trace, and prints what came of it.
pub(super) fn print(trace: &dyn Trace, options: &EpisodeOptions) -> Result<(), Failure> {
    let statistics = laau::data::inspect_trace(trace, Normalisation::None, OutOfRange::Error)?;
    let mut rows = trace.describe();
    // Numbers that are times since 1970 are hard to read.
    let epoch = statistics
        .times
        .filter(|(first, _)| trace.show_time(*first) == first.to_string())
        .and_then(|(first, last)| TimeUnit::since_1970(first, last));
    let time = |time: i64| match epoch {
        Some(unit) => format!("{time} ({})", unit.stamp(time)),
        None => trace.show_time(time),
    };
    if let Some((first, last)) = statistics.times {
        rows.push(("times", format!("{} to {}", time(first), time(last))));
    }
    let counts = &statistics.counts;
    let unit = statistics
        .times
        .and_then(|(first, last)| trace.time_unit(first, last));
    let in_units = |count: i64| match unit {
        Some(unit) => format!("{count} {}", unit.name()),
        None => format!("{count}, of a unit that is not known"),
    };
    rows.push(("step", statistics.step.map_or("-".to_owned(), in_units)));
    rows.push(("readings", counts.readings.to_string()));
    rows.push(("series", counts.series.to_string()));
    rows.push((
        "gaps",
        match counts.irregular {
            0 => counts.gaps.to_string(),
            irregular => format!(
                "{}, and {irregular} distances that are no multiple of the step",
                counts.gaps
            ),
        },
    ));
    // What was understood is of use where there is too little of it, too.
    let Imported { sets, report } = match laau::data::import(trace, options) {
        Ok(imported) => imported,
        Err(error) => {
            output::print(facts(&rows))?;
            return Err(failure(error, options));
        }
    };
    rows.push((
        "normalisation",
        sets.train.scaling().map_or("-".to_owned(), normalisation),
    ));
    rows.push(("horizon", options.horizon.to_string()));
    if options.split_by != SplitBy::Series {
        let gap = match (options.gap, unit) {
            (Gap::Seconds(seconds), Some(unit)) => in_units(unit.count(seconds)),
            (Gap::Seconds(seconds), None) => format!("{seconds} seconds"),
            (Gap::Steps(steps), _) => format!("{steps} steps"),
        };
        rows.push(("gap", gap));
    }
    rows.push(("episodes in all", report.available.to_string()));
    rows.push((
        "left out",
        format!("{} readings, {} series", report.unused, report.unused_series),
    ));
    let sets = [&sets.train, &sets.validation, &sets.test];
    for (number, set) in sets.iter().enumerate() {
        let period = report.periods.map_or(String::new(), |periods| {
            let (from, until) = periods[number];
            format!(", from {} to before {}", time(from), time(until))
        });
        let words = format!(
            "{} episodes, drawn from {} series{period}",
            set.len(),
            report.series[number]
        );
        rows.push((Split::NAMES[number], words));
    }
    let mut text = facts(&rows) + "\n";
    for (name, set) in Split::NAMES.iter().zip(sets) {
        if !set.is_empty() {
            text += &first_episode(name, set);
        }
    }
    output::print(text + "\nnothing was written\n")?;
    warn(&report, options);
    Ok(())
}

fn first_episode(name: &str, set: &Episodes) -> String {
    let episode = set.get(0);
    let numbers = |values: &[f64]| {
        let words: Vec<String> = values.iter().map(|value| four_digits(*value)).collect();
        words.join(" ")
    };
    let contexts: Vec<String> = (0..episode.horizon().min(SHOWN))
        .map(|step| numbers(episode.context(step)))
        .collect();
    let more = if episode.horizon() > SHOWN { ", …" } else { "" };
    format!(
        "first of {name}: budgets {}; contexts {}{more}\n",
        numbers(episode.budgets()),
        contexts.join(", ")
    )
}
