//! One look for all figures: names, colours, sizes, files.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use kuva::backend::png::PngBackend;
use kuva::backend::svg::SvgBackend;
use kuva::prelude::*;
use kuva::render::layout::TickFormat;
use kuva::render::render::Scene;

/// Name in figures and colour of every policy. The colours are Okabe and Ito's, safe for colour-blind readers; rivals
/// that need no colour of their own are grey.
const POLICIES: &[(&str, &str, &str)] = &[
    ("opt", "OPT (offline)", "#000000"),
    ("dp", "DP", "#555555"),
    ("equal", "Equal", "#56B4E9"),
    ("avg-lt", "AVG-LT", "#999999"),
    ("dgd", "DGD", "#CC79A7"),
    ("mw", "MW", "#E69F00"),
    ("cr-pursuit", "CR-Pursuit", "#777777"),
    ("cr-pursuit-guaranteed", "CR-Pursuit, guaranteed", "#BBBBBB"),
    ("rl", "RL", "#882255"),
    ("ce", "CE re-solve", "#009E73"),
    ("laau", "LAAU", "#D55E00"),
    ("laau-history", "LAAU+ history", "#0072B2"),
    ("laau-residual", "LAAU+ residual", "#3C4FA0"),
    ("laau-guarded", "LAAU, MW guard", "#A33B00"),
    ("laau-residual-guarded", "LAAU+ residual, MW guard", "#7A88D0"),
    ("laau-guarded-by-equal", "LAAU, Equal guard", "#F0A070"),
    (
        "laau-residual-guarded-by-equal",
        "LAAU+ residual, Equal guard",
        "#A9C4E8",
    ),
];

/// The name of a policy in figures and tables.
pub(crate) fn policy_name(policy: &str) -> &str {
    POLICIES
        .iter()
        .find(|(key, ..)| *key == policy)
        .map_or(policy, |(_, name, _)| name)
}

/// Its colour.
pub(crate) fn policy_colour(policy: &str) -> &'static str {
    POLICIES
        .iter()
        .find(|(key, ..)| *key == policy)
        .map_or("#444444", |(.., colour)| colour)
}

/// The name of a data set in figures and tables.
pub(crate) fn data_name(data: &str) -> String {
    match data.split_once('-') {
        Some(("synthetic", construction)) => format!("synthetic workload, {construction}"),
        Some(("trace", construction)) => format!("trace, {construction}"),
        _ => data.to_owned(),
    }
}

/// Sizes that stay readable in print.
pub(crate) fn dress(layout: Layout) -> Layout {
    layout
        .with_title_size(16)
        .with_label_size(14)
        .with_tick_size(12)
        .with_body_size(12)
}

/// One format for all ticks of a logarithmic axis: plain numbers, or powers of ten where those would be long. Of many powers only
/// some are labelled, so that no label stands on another.
pub(crate) fn log_ticks(least: f64, most: f64) -> TickFormat {
    /// Labels of an axis, at most.
    const MOST: f64 = 14.0;
    let is_plain = least >= 1e-4 && most <= 1e6;
    let every = ((most / least).log10() / MOST).ceil().max(1.0);
    TickFormat::Custom(Arc::new(move |value| {
        if is_plain {
            // Through nine digits, so that 0.30000000000000004 is 0.3.
            let short: f64 = format!("{value:.8e}").parse().unwrap_or(value);
            short.to_string()
        } else if value.log10().round() % every == 0.0 {
            format!("{value:.0e}")
        } else {
            String::new()
        }
    }))
}

/// Marks a figure whose curves have two points or fewer: a quick run draws them, and nothing can be read from them.
pub(crate) fn mark_few(layout: Layout, points: usize) -> Layout {
    match points {
        0..=2 => layout
            .with_subtitle(format!(
                "{points} points a curve (quick run): a line through them says nothing"
            ))
            .with_subtitle_size(11),
        _ => layout,
    }
}

/// Writes a figure as SVG and PNG.
pub(crate) fn save(scene: &Scene, folder: &Path, name: &str) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    write(
        &folder.join(format!("{name}.svg")),
        SvgBackend.render_scene(scene).as_bytes(),
    )?;
    let png = PngBackend::new()
        .render_scene(scene)
        .map_err(|reason| anyhow!("{name}.png: {reason}"))?;
    write(&folder.join(format!("{name}.png")), &png)
}

/// Writes beside and renames, so that nothing is left half-written.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let beside = path.with_extension("part");
    std::fs::write(&beside, bytes).with_context(|| format!("cannot write {}", beside.display()))?;
    std::fs::rename(&beside, path).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_of_many_decades_labels_some_of_them() {
        let label = |ticks: &TickFormat, value| match ticks {
            TickFormat::Custom(format) => format(value),
            _ => unreachable!(),
        };
        let short = log_ticks(1e-8, 1.0);
        assert!((-8..=0).all(|power| !label(&short, 10_f64.powi(power)).is_empty()));
        let long = log_ticks(1e-6, 1e75);
        let labels: Vec<String> = (-6..=75).map(|power| label(&long, 10_f64.powi(power))).collect();
        assert_eq!(labels.iter().filter(|label| !label.is_empty()).count(), 14);
        assert_eq!(labels[6], "1e0");
    }
}
