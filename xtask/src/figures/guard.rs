//! The value of a guard's level, from `guard.csv`.

use std::path::Path;

use kuva::prelude::*;

use super::policies::band;
use super::style::{data_name, dress, policy_colour, policy_name, save};
use super::tables::{Spread, distinct};
use laau_core::tables::GuardRow;

/// LAAU guarded at several levels, trained on the default data and on the most shifted, beside LAAU and the incumbents alone.
pub(super) fn value_of_level(rows: &[GuardRow], folder: &Path) -> anyhow::Result<()> {
    for data in distinct(rows, |row| row.data.clone()) {
        let of_data: Vec<&GuardRow> = rows
            .iter()
            .filter(|row| row.data == data && row.policy == "laau")
            .collect();
        let furthest = of_data.iter().map(|row| row.target).fold(0.0, f64::max);
        let mut plots: Vec<Plot> = Vec::new();
        let cases = [
            (0.0, "default data", ["#D55E00", "#0072B2"]),
            (furthest, "shifted data", ["#E69F00", "#56B4E9"]),
        ];
        for (target, trained, colours) in cases {
            for (incumbent, colour) in distinct(&of_data, |row| row.incumbent.clone())
                .iter()
                .zip(colours)
            {
                let of = |level: Option<f64>, value: fn(&GuardRow) -> f64| {
                    let rows = of_data.iter().filter(|row| {
                        row.target == target
                            && row.incumbent == *incumbent
                            && level.is_none_or(|level| row.level == level)
                    });
                    Spread::of(rows.map(|row| value(row)))
                };
                let points: Vec<(f64, Spread)> = distinct(&of_data, |row| row.level)
                    .into_iter()
                    .filter_map(|level| Some((level, of(Some(level), |row| row.fraction_of_opt)?)))
                    .collect();
                let name = format!("guarded by {}, trained on {trained}", policy_name(incumbent));
                plots.extend(band(&points, &name, colour));
            }
        }
        let levels = distinct(&of_data, |row| row.level);
        let ends = levels.first().copied().zip(levels.last().copied());
        let mut alone =
            |value: fn(&GuardRow) -> f64, target: f64, incumbent: Option<&str>, name: &str, colour: &str| {
                let rows = of_data.iter().filter(|row| {
                    row.target == target && incumbent.is_none_or(|incumbent| row.incumbent == incumbent)
                });
                if let (Some(spread), Some((first, last))) = (Spread::of(rows.map(|row| value(row))), ends) {
                    plots.push(Plot::Line(
                        LinePlot::new()
                            .with_data([(first, spread.mean), (last, spread.mean)])
                            .with_color(colour)
                            .with_dashed()
                            .with_legend(name),
                    ));
                }
            };
        alone(
            |row| row.advice_alone,
            0.0,
            None,
            "LAAU alone, default data",
            policy_colour("laau"),
        );
        alone(
            |row| row.advice_alone,
            furthest,
            None,
            "LAAU alone, shifted data",
            "#882255",
        );
        for incumbent in distinct(&of_data, |row| row.incumbent.clone()) {
            let name = format!("{} alone", policy_name(&incumbent));
            alone(
                |row| row.incumbent_alone,
                0.0,
                Some(&incumbent),
                &name,
                policy_colour(&incumbent),
            );
        }
        let layout = dress(Layout::auto_from_plots(&plots))
            .with_title(format!(
                "The value of a guard's level, N = 20, {}",
                data_name(&data)
            ))
            .with_x_label("level γ: the share of the incumbent's gain that is promised")
            .with_y_label("fraction of OPT");
        save(&render_multiple(plots, layout), folder, &format!("guard_{data}"))?;
    }
    Ok(())
}
