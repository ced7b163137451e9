//! Figures of Section 6: gap and bound, and the rates of online learning.

use std::path::Path;

use kuva::prelude::*;

use super::policies::band;
use super::style::{data_name, dress, log_ticks, mark_few, save};
use super::tables::{Spread, distinct};
use crate::reproduce::theory::{decays, gap_curves};
use laau_core::tables::{GapRow, RateRow, TermRow};

/// What a logarithmic axis begins with: means at or below zero are drawn there.
const FLOOR: f64 = 1e-6;

const COLOURS: [&str; 6] = ["#D55E00", "#0072B2", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"];

/// Theorem 6.1: the gap to the best model and the bound on it, in one figure per data set and horizon.
pub(super) fn gap_and_bound(gaps: &[GapRow], terms: &[TermRow], folder: &Path) -> anyhow::Result<()> {
    let curves = gap_curves(gaps, terms);
    for (data, horizon) in distinct(&curves, |curve| (curve.data.clone(), curve.horizon)) {
        let mut plots: Vec<Plot> = Vec::new();
        let (mut least, mut most, mut numbers) = (f64::INFINITY, FLOOR, 0);
        let of = curves
            .iter()
            .filter(|curve| curve.data == data && curve.horizon == horizon);
        for (index, curve) in of.enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            numbers = numbers.max(curve.points.len());
            let exponent = curve.exponent().map_or_else(
                |_| String::new(),
                |exponent| {
                    let (low, high) = exponent.at_95();
                    format!(", exponent {:.2} [{low:.2}, {high:.2}]", exponent.estimate)
                },
            );
            let gap = curve.points.iter().filter_map(|point| {
                Some((
                    point.episodes as f64,
                    held(Spread::of(point.gap.iter().copied())?),
                ))
            });
            let gap: Vec<(f64, Spread)> = gap.collect();
            plots.extend(band(&gap, &format!("gap, {}{exponent}", curve.model), colour));
            least = gap.iter().map(|(_, spread)| spread.least).fold(least, f64::min);
            let mut line = |values: Vec<(f64, f64)>, name: String, shade: &str| {
                most = values.iter().map(|(_, value)| *value).fold(most, f64::max);
                if !values.is_empty() {
                    plots.push(Plot::Line(
                        LinePlot::new()
                            .with_data(values)
                            .with_color(shade)
                            .with_dashed()
                            .with_legend(name),
                    ));
                }
            };
            let mean = |values: &[f64]| (values.iter().sum::<f64>() / values.len() as f64).max(FLOOR);
            let by_signs = curve
                .points
                .iter()
                .map(|point| (point.episodes as f64, mean(&point.by_signs)))
                .collect();
            line(
                by_signs,
                format!("bound, {}, R_n by random signs", curve.model),
                colour,
            );
            let by_norms = curve
                .points
                .iter()
                .filter_map(|point| Some((point.episodes as f64, mean(point.by_norms.as_ref()?))));
            line(
                by_norms.collect(),
                format!("bound, {}, R_n by Prop. 6.2", curve.model),
                "#000000",
            );
        }
        let layout = dress(Layout::auto_from_plots(&plots))
            .with_title(format!(
                "Gap to the best model and bound, N = {horizon}, {}",
                data_name(&data)
            ))
            .with_x_label("training episodes n")
            .with_y_label("loss of an episode")
            .with_log_scale()
            .with_width(1000.0)
            .with_x_tick_format(log_ticks(10.0, 1e5))
            .with_y_tick_format(log_ticks(least.max(FLOOR), most));
        let layout = mark_few(layout, numbers);
        save(
            &render_multiple(plots, layout),
            folder,
            &format!("generalisation_{data}_{horizon}"),
        )?;
    }
    Ok(())
}

fn held(spread: Spread) -> Spread {
    Spread {
        mean: spread.mean.max(FLOOR),
        least: spread.least.max(FLOOR),
        most: spread.most.max(FLOOR),
    }
}

/// Proposition 6.3: the loss of a round by step size, and what was fitted.
pub(super) fn online_rates(rows: &[RateRow], folder: &Path) -> anyhow::Result<()> {
    let fits = decays(rows);
    for data in distinct(rows, |row| row.data.clone()) {
        let of: Vec<&RateRow> = rows.iter().filter(|row| row.data == data).collect();
        let mut plots: Vec<Plot> = Vec::new();
        let mut rounds = 1.0_f64;
        for (index, step_size) in distinct(&of, |row| row.learning_rate).into_iter().enumerate() {
            let points: Vec<(f64, Spread)> = distinct(&of, |row| row.last_round)
                .into_iter()
                .filter_map(|last| {
                    let losses = of
                        .iter()
                        .filter(|row| row.learning_rate == step_size && row.last_round == last);
                    Some((last as f64, Spread::of(losses.map(|row| row.loss))?))
                })
                .collect();
            rounds = points.iter().map(|(last, _)| *last).fold(rounds, f64::max);
            let fit = fits
                .iter()
                .find(|fit| fit.data == data && fit.step_size == step_size);
            let fit = fit.map_or(String::new(), |fit| {
                let edge = if fit.at_edge { " or beyond" } else { "" };
                format!(
                    ", floor {:.4}, rate {:.1e}{edge} a round",
                    fit.floor.estimate,
                    10_f64.powf(fit.rate.estimate)
                )
            });
            plots.extend(band(
                &points,
                &format!("step size {step_size}{fit}"),
                COLOURS[index % COLOURS.len()],
            ));
        }
        let layout = dress(Layout::auto_from_plots(&plots))
            .with_title(format!(
                "Online learning: loss of a round by step size, {}",
                data_name(&data)
            ))
            .with_x_label("round")
            .with_y_label("loss per step against the model trained before")
            .with_log_x()
            .with_width(1000.0)
            .with_x_tick_format(log_ticks(1.0, rounds));
        save(
            &render_multiple(plots, layout),
            folder,
            &format!("online_rates_{data}"),
        )?;
    }
    Ok(())
}
