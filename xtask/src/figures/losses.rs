//! The loss of single episodes against OPT, from the tables of single episodes: where policies part.

use std::path::Path;

use kuva::prelude::*;

use super::style::{data_name, dress, log_ticks, policy_colour, policy_name, save};
use crate::reproduce::samples::Samples;

/// What is below this, in points of OPT, is drawn there: OPT itself is known to about as much.
const FLOOR: f64 = 1e-3;

/// Draws `loss_DATA` for every cell of the paper's policies at N = 20: one box per policy, the best median first.
///
/// The loss of an episode is paired with OPT's utility on the same episode, so that what episodes differ by is taken out.
pub(super) fn paired(samples: &Samples, folder: &Path) -> anyhow::Result<()> {
    let cells = samples.cells().iter();
    for cell in cells.filter(|cell| cell.experiment == "policies" && cell.horizon == 20) {
        let Some(best) = cell.values("opt") else { continue };
        let mut groups: Vec<(&str, Vec<f64>)> = cell
            .policies()
            .filter(|policy| *policy != "opt")
            .filter_map(|policy| {
                let own = cell.values(policy)?;
                let pairs = best.iter().zip(&own);
                let mut losses: Vec<f64> = pairs
                    .filter(|(best, _)| **best != 0.0)
                    .map(|(best, own)| 100.0 * (best - own) / best.abs())
                    .collect();
                losses.sort_by(f64::total_cmp);
                (!losses.is_empty()).then_some((policy, losses))
            })
            .collect();
        groups.sort_by(|a, b| a.1[a.1.len() / 2].total_cmp(&b.1[b.1.len() / 2]));
        let mut plot = BoxPlot::new();
        let mut colours = Vec::new();
        let (mut below, mut all, mut most) = (0, 0, 1.0_f64);
        for (policy, losses) in &groups {
            below += losses.iter().filter(|loss| **loss < FLOOR).count();
            all += losses.len();
            let held: Vec<f64> = losses.iter().map(|loss| loss.max(FLOOR)).collect();
            most = held.last().copied().unwrap_or(most).max(most);
            plot = plot.with_group(policy_name(policy), held);
            colours.push(policy_colour(policy));
        }
        let plots = vec![Plot::Box(plot.with_group_colors(colours))];
        let layout = dress(Layout::auto_from_plots(&plots))
            .with_title(format!(
                "Loss of single episodes against OPT, N = 20, {}",
                data_name(&cell.data)
            ))
            .with_subtitle(format!(
                "{below} of {all} are below {FLOOR} points, and drawn there"
            ))
            .with_subtitle_size(11)
            .with_y_label("loss in points of OPT's utility on the same episode")
            .with_x_tick_rotate(-35.0)
            .with_width(900.0)
            .with_log_y()
            .with_y_axis_min(FLOOR)
            .with_y_axis_max(1.2 * most)
            .with_y_tick_format(log_ticks(FLOOR, most));
        save(
            &render_multiple(plots, layout),
            folder,
            &format!("loss_{}", cell.data),
        )?;
    }
    Ok(())
}
