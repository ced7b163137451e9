//! Figures 2, 5, 6 and 7 of the paper, from `policies.csv` and `distribution.csv`.

use std::path::Path;

use kuva::plot::ForestPlot;
use kuva::plot::forest::ForestRow;
use kuva::prelude::*;
use kuva::render::figure::Figure;

use super::style::{data_name, dress, log_ticks, mark_few, policy_colour, policy_name, save};
use super::tables::{Spread, distinct};
use laau_core::tables::{EpisodeRow, PolicyRow};

/// A utility this far below the best is off the axis, and named in the caption instead.
const OFF_THE_AXIS: f64 = 0.93;

/// Figure 2: mean utility per step by policy, one panel per horizon; and beside it the fraction of OPT, which takes out how
/// much there is to earn on the data of a seed.
pub(super) fn utility_by_horizon(rows: &[PolicyRow], folder: &Path) -> anyhow::Result<()> {
    best_first(
        rows,
        |row| row.utility,
        "utility per step",
        folder,
        "utility_by_horizon",
    )?;
    best_first(
        rows,
        |row| row.fraction_of_opt,
        "fraction of OPT",
        folder,
        "fraction_by_horizon",
    )
}

fn best_first(
    rows: &[PolicyRow],
    value: fn(&PolicyRow) -> f64,
    label: &str,
    folder: &Path,
    name: &str,
) -> anyhow::Result<()> {
    for data in distinct(rows, |row| row.data.clone()) {
        let of_data: Vec<&PolicyRow> = rows.iter().filter(|row| row.data == data).collect();
        let panels: Vec<Panel> = distinct(&of_data, |row| row.horizon)
            .into_iter()
            .map(|horizon| {
                let mut spreads = by_policy(&of_data, horizon, value);
                spreads.sort_by(|a, b| b.1.mean.total_cmp(&a.1.mean));
                let best = spreads.first().map_or(0.0, |(_, spread)| spread.mean);
                let (spreads, off): (Vec<_>, Vec<_>) = spreads
                    .into_iter()
                    .partition(|(_, spread)| spread.mean >= OFF_THE_AXIS * best);
                let off: Vec<String> = off
                    .iter()
                    .map(|(policy, s)| format!("{} {:.2}", policy_name(policy), s.mean))
                    .collect();
                let note = if off.is_empty() {
                    String::new()
                } else {
                    format!("off axis: {}", off.join(", "))
                };
                Panel {
                    horizon,
                    spreads,
                    note,
                }
            })
            .collect();
        let caption = format!("Mean {label}, {}", data_name(&data));
        forest(&panels, &caption, label, folder, &format!("{name}_{data}"))?;
    }
    Ok(())
}

/// Figure 7: what is left of the budget.
pub(super) fn remaining_budget(rows: &[PolicyRow], folder: &Path) -> anyhow::Result<()> {
    for data in distinct(rows, |row| row.data.clone()) {
        let of_data: Vec<&PolicyRow> = rows.iter().filter(|row| row.data == data).collect();
        let panels: Vec<Panel> = distinct(&of_data, |row| row.horizon)
            .into_iter()
            .map(|horizon| {
                let mut spreads = by_policy(&of_data, horizon, |row| row.remaining_percent);
                spreads.sort_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
                Panel {
                    horizon,
                    spreads,
                    note: String::new(),
                }
            })
            .collect();
        let caption = format!("Mean remaining budget, {}", data_name(&data));
        forest(
            &panels,
            &caption,
            "remaining budget in %",
            folder,
            &format!("remaining_budget_{data}"),
        )?;
    }
    Ok(())
}

/// Figure 6: LAAU and RL by horizon.
pub(super) fn rl_vs_laau(rows: &[PolicyRow], folder: &Path) -> anyhow::Result<()> {
    for data in distinct(rows, |row| row.data.clone()) {
        let mut plots: Vec<Plot> = Vec::new();
        for policy in ["laau-residual", "laau", "rl"] {
            let mut points = Vec::new();
            for horizon in distinct(rows, |row| row.horizon) {
                let of = rows
                    .iter()
                    .filter(|r| r.data == data && r.horizon == horizon && r.policy == policy);
                if let Some(spread) = Spread::of(of.map(|row| row.fraction_of_opt)) {
                    points.push((horizon as f64, spread));
                }
            }
            plots.extend(band(&points, policy_name(policy), policy_colour(policy)));
        }
        let layout = dress(Layout::auto_from_plots(&plots))
            .with_title(format!("RL and LAAU by horizon, {}", data_name(&data)))
            .with_x_label("horizon N (steps)")
            .with_y_label("fraction of OPT")
            .with_x_tick_step(10.0);
        let layout = mark_few(layout, distinct(rows, |row| row.horizon).len());
        save(
            &render_multiple(plots, layout),
            folder,
            &format!("rl_vs_laau_{data}"),
        )?;
    }
    Ok(())
}

/// Figure 5: how the utility of episodes is distributed.
///
/// Episodes differ by far more than policies do: on a logarithmic axis the few with much to earn do not flatten the boxes. It
/// begins at a tenth of the lowest quartile; what is below is drawn there.
pub(super) fn distribution(rows: &[EpisodeRow], folder: &Path) -> anyhow::Result<()> {
    for data in distinct(rows, |row| row.data.clone()) {
        let of_data: Vec<&EpisodeRow> = rows.iter().filter(|row| row.data == data).collect();
        let groups: Vec<(String, Vec<f64>)> = distinct(&of_data, |row| row.policy.clone())
            .into_iter()
            .map(|policy| {
                let of_policy = of_data.iter().filter(|row| row.policy == policy);
                let mut values: Vec<f64> = of_policy.map(|row| row.utility).collect();
                values.sort_by(f64::total_cmp);
                (policy, values)
            })
            .collect();
        let quartiles = |values: &[f64]| (values[(values.len() - 1) / 4], values[(values.len() - 1) * 3 / 4]);
        let lowest = groups.iter().map(|(_, values)| quartiles(values).0);
        let floor = lowest.fold(f64::INFINITY, f64::min) / 10.0;
        let logarithmic = floor > 0.0;
        let mut plot = BoxPlot::new();
        let mut colours = Vec::new();
        let mut outliers: Vec<(f64, f64)> = Vec::new();
        let (mut below, mut most) = (0, 0.0_f64);
        for (index, (policy, values)) in groups.iter().enumerate() {
            let mut values = values.clone();
            if logarithmic {
                below += values.iter().filter(|value| **value < floor).count();
                for value in &mut values {
                    *value = value.max(floor);
                }
            }
            let (first, third) = quartiles(&values);
            let reach = 1.5 * (third - first);
            let (low, high) = (first - reach, third + reach);
            let beyond = values.iter().filter(|v| **v < low || **v > high);
            outliers.extend(beyond.map(|v| ((index + 1) as f64, *v)));
            most = values.last().copied().unwrap_or(0.0).max(most);
            plot = plot.with_group(policy_name(policy), values);
            colours.push(policy_colour(policy));
        }
        let plots: Vec<Plot> = vec![
            Plot::Box(plot.with_group_colors(colours)),
            Plot::Scatter(
                ScatterPlot::new()
                    .with_data(outliers)
                    .with_color("#333333")
                    .with_size(1.6)
                    .with_marker_opacity(0.5),
            ),
        ];
        let mut layout = dress(Layout::auto_from_plots(&plots))
            .with_title(format!("Utility of single episodes, {}", data_name(&data)))
            .with_y_label("utility per step")
            .with_x_tick_rotate(-35.0)
            .with_width(900.0);
        if logarithmic {
            layout = layout
                .with_log_y()
                .with_y_axis_min(floor)
                .with_y_axis_max(1.2 * most)
                .with_y_tick_format(log_ticks(floor, most));
        }
        if below > 0 {
            let all: usize = groups.iter().map(|(_, values)| values.len()).sum();
            let note = format!("{below} of {all} are below {floor:.3}, and drawn there");
            layout = layout.with_subtitle(note).with_subtitle_size(10);
        }
        save(
            &render_multiple(plots, layout),
            folder,
            &format!("distribution_{data}"),
        )?;
    }
    Ok(())
}

/// A line through means over a band from least to greatest.
pub(super) fn band(points: &[(f64, Spread)], name: &str, colour: &str) -> [Plot; 2] {
    let (x, mean): (Vec<f64>, Vec<f64>) = points.iter().map(|(x, spread)| (*x, spread.mean)).unzip();
    let (least, most): (Vec<f64>, Vec<f64>) = points.iter().map(|(_, s)| (s.least, s.most)).unzip();
    let line = LinePlot::new()
        .with_data(x.iter().copied().zip(mean))
        .with_color(colour)
        .with_stroke_width(2.5);
    [
        Plot::Band(
            BandPlot::new(x, least, most)
                .with_color(colour)
                .with_opacity(0.18),
        ),
        Plot::Line(line.with_legend(name)),
    ]
}

fn by_policy(rows: &[&PolicyRow], horizon: usize, value: fn(&PolicyRow) -> f64) -> Vec<(String, Spread)> {
    distinct(rows, |row| row.policy.clone())
        .into_iter()
        .filter_map(|policy| {
            let of = rows
                .iter()
                .filter(|row| row.horizon == horizon && row.policy == policy);
            Spread::of(of.map(|row| value(row))).map(|spread| (policy, spread))
        })
        .collect()
}

/// The policies of one horizon, and what is said beside them.
struct Panel {
    horizon: usize,
    spreads: Vec<(String, Spread)>,
    note: String,
}

/// One panel per horizon: a dot at the mean and a whisker over the seeds, labelled on the axis.
fn forest(panels: &[Panel], caption: &str, label: &str, folder: &Path, name: &str) -> anyhow::Result<()> {
    let mut plots = Vec::new();
    let mut layouts = Vec::new();
    for Panel {
        horizon,
        spreads,
        note,
    } in panels
    {
        let mut plot = ForestPlot::new();
        plot.show_null_line = false;
        plot.null_value = None;
        plot.cap_size = 4.0;
        for (policy, spread) in spreads {
            let mut row = ForestRow::new(policy_name(policy), spread.mean, spread.least, spread.most);
            row.color = Some(policy_colour(policy).to_owned());
            plot.rows.push(row);
        }
        let cell = vec![Plot::Forest(plot)];
        let layout = dress(Layout::auto_from_plots(&cell))
            .with_title(format!("N = {horizon}"))
            .with_x_label(label);
        layouts.push(if note.is_empty() {
            layout
        } else {
            layout.with_subtitle(note.as_str()).with_subtitle_size(10)
        });
        plots.push(cell);
    }
    let count = plots.len();
    let figure = Figure::new(1, count)
        .with_title(caption)
        .with_title_size(16)
        .with_plots(plots)
        .with_layouts(layouts)
        .with_cell_size(540.0, 420.0);
    save(&figure.render(), folder, name)
}
