//! Figures 3 and 4 of the paper, online learning, generalisation and gradients.

use std::collections::BTreeMap;
use std::path::Path;

use kuva::prelude::*;
use kuva::render::figure::Figure;

use super::policies::band;
use super::style::{data_name, dress, log_ticks, mark_few, policy_colour, policy_name, save};
use super::tables::{Spread, distinct};
use laau_core::tables::{GradientRow, PointRow, RoundRow, ShiftRow};

/// Figure 3: tested on the default, trained on data shifted by a Wasserstein distance; as utility, and as a fraction of OPT,
/// which takes out how much there is to earn on the data of a seed.
pub(super) fn ood(rows: &[ShiftRow], folder: &Path) -> anyhow::Result<()> {
    by_distance(rows, |row| row.utility, "utility per step", folder, "ood")?;
    by_distance(
        rows,
        |row| row.fraction_of_opt,
        "fraction of OPT",
        folder,
        "ood_fraction",
    )
}

fn by_distance(
    rows: &[ShiftRow],
    value: fn(&ShiftRow) -> f64,
    label: &str,
    folder: &Path,
    name: &str,
) -> anyhow::Result<()> {
    for data in distinct(rows, |row| row.data.clone()) {
        let of_data: Vec<&ShiftRow> = rows.iter().filter(|row| row.data == data).collect();
        let plots: Vec<Plot> = distinct(&of_data, |row| row.policy.clone())
            .iter()
            .flat_map(|policy| {
                let points: Vec<(f64, Spread)> = distinct(&of_data, |row| row.target)
                    .into_iter()
                    .filter_map(|target| {
                        let of = of_data
                            .iter()
                            .filter(|row| row.policy == *policy && row.target == target);
                        Spread::of(of.map(|row| value(row))).map(|spread| (target, spread))
                    })
                    .collect();
                band(&points, policy_name(policy), policy_colour(policy))
            })
            .collect();
        let layout = dress(Layout::auto_from_plots(&plots))
            .with_title(format!("Trained on shifted data, N = 20, {}", data_name(&data)))
            .with_x_label("Wasserstein distance of the training contexts")
            .with_y_label(label);
        let layout = mark_few(layout, distinct(&of_data, |row| row.target).len());
        save(&render_multiple(plots, layout), folder, &format!("{name}_{data}"))?;
    }
    Ok(())
}

/// Figure 4: training against testing episodes, embedded in the plane.
pub(super) fn tsne(rows: &[PointRow], folder: &Path) -> anyhow::Result<()> {
    for data in distinct(rows, |row| row.data.clone()) {
        let of_data: Vec<&PointRow> = rows.iter().filter(|row| row.data == data).collect();
        let mut plots = Vec::new();
        let mut layouts = Vec::new();
        for target in distinct(&of_data, |row| row.target) {
            let cell: Vec<Plot> = [("test", "testing", "#0072B2"), ("train", "training", "#E69F00")]
                .into_iter()
                .map(|(set, name, colour)| {
                    let points = of_data
                        .iter()
                        .filter(|row| row.target == target && row.set == set);
                    Plot::Scatter(
                        ScatterPlot::new()
                            .with_data(points.map(|row| (row.x, row.y)))
                            .with_color(colour)
                            .with_size(2.0)
                            .with_marker_opacity(0.6)
                            .with_legend(name),
                    )
                })
                .collect();
            let title = if target == 0.0 {
                "default".to_owned()
            } else {
                format!("d_W = {target:.2}")
            };
            layouts.push(dress(Layout::auto_from_plots(&cell)).with_title(title));
            plots.push(cell);
        }
        let rows_of_panels = plots.len().div_ceil(3);
        let figure = Figure::new(rows_of_panels, 3)
            .with_title(format!("t-SNE of episodes, {}", data_name(&data)))
            .with_title_size(16)
            .with_plots(plots)
            .with_layouts(layouts)
            .with_cell_size(330.0, 300.0)
            .with_shared_legend_bottom();
        save(&figure.render(), folder, &format!("tsne_{data}"))?;
    }
    Ok(())
}

/// Algorithm 2: the average utility up to each round, over that of OPT: episodes differ far more than policies do.
pub(super) fn online_learning(rows: &[RoundRow], folder: &Path) -> anyhow::Result<()> {
    for data in distinct(rows, |row| row.data.clone()) {
        let of_data: Vec<&RoundRow> = rows.iter().filter(|row| row.data == data).collect();
        let colours = [
            "#D55E00", "#0072B2", "#009E73", "#000000", "#E69F00", "#56B4E9", "#CC79A7", "#777777",
        ];
        let best: BTreeMap<(u64, usize), f64> = of_data
            .iter()
            .filter(|row| row.method == "opt")
            .map(|row| ((row.seed, row.round), row.utility))
            .collect();
        let plots: Vec<Plot> = distinct(&of_data, |row| row.method.clone())
            .iter()
            .filter(|method| *method != "opt")
            .zip(colours.into_iter().cycle())
            .flat_map(|(method, colour)| {
                let of_method: Vec<_> = of_data.iter().filter(|row| row.method == *method).collect();
                let points: Vec<(f64, Spread)> = distinct(&of_method, |row| row.round)
                    .into_iter()
                    .filter_map(|round| {
                        let of = of_method.iter().filter(|row| row.round == round);
                        let fractions =
                            of.filter_map(|row| Some(row.utility / best.get(&(row.seed, round))?));
                        Spread::of(fractions).map(|spread| (round as f64, spread))
                    })
                    .collect();
                let name = match method.as_str() {
                    "laau" => "LAAU, trained offline",
                    other => policy_name(other),
                };
                band(&points, name, colour)
            })
            .collect();
        let layout = dress(Layout::auto_from_plots(&plots))
            .with_title(format!("Online learning from a cold start, {}", data_name(&data)))
            .with_x_label("round (episodes seen)")
            .with_y_label("average utility up to the round, fraction of OPT")
            .with_log_x()
            .with_x_tick_format(log_ticks(1.0, 1e5));
        save(
            &render_multiple(plots, layout),
            folder,
            &format!("online_learning_{data}"),
        )?;
    }
    Ok(())
}

/// Section 5: accuracy and cost of KKT differentiation and of zero-order estimates.
pub(super) fn gradients(rows: &[GradientRow], folder: &Path) -> anyhow::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let colours = ["#D55E00", "#0072B2", "#009E73", "#E69F00"];
    let plots: Vec<Plot> = distinct(rows, |row| row.method.clone())
        .iter()
        .zip(colours.into_iter().cycle())
        .map(|(method, colour)| {
            let points = rows.iter().filter(|row| row.method == *method);
            Plot::Scatter(
                ScatterPlot::new()
                    .with_data(points.map(|row| (row.solves as f64, row.relative_error.max(1e-16))))
                    .with_color(colour)
                    .with_size(6.0)
                    .with_legend(method.as_str()),
            )
        })
        .collect();
    let layout = dress(Layout::auto_from_plots(&plots))
        .with_title("Gradient of an episode: accuracy and cost")
        .with_x_label("cost in solves of the layer")
        .with_y_label("relative error")
        .with_log_scale()
        .with_x_tick_format(log_ticks(1.0, 1e6))
        .with_y_tick_format(log_ticks(1e-16, 1.0));
    save(&render_multiple(plots, layout), folder, "gradients")
}
