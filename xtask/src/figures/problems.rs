//! A solved episode of every problem that is not the paper's: what came, what was done, what was left.

use std::path::Path;

use kuva::prelude::*;
use kuva::render::figure::Figure;
use laau_core::tables::StepRow;

use super::style::{dress, policy_name, save};
use super::tables::distinct;

/// What the entries of a problem are called.
pub(crate) struct Names {
    problem: &'static str,
    pub(crate) title: &'static str,
    contexts: &'static [&'static str],
    actions: &'static [&'static str],
    pub(crate) budgets: &'static [&'static str],
    action: &'static str,
}

const NAMES: &[Names] = &[
    Names {
        problem: "vm-allocation",
        title: "VM allocation",
        contexts: &[
            "weight",
            "needs CPU",
            "needs memory",
            "needs I/O",
            "needs storage",
        ],
        actions: &["CPU", "memory", "I/O", "storage"],
        budgets: &["CPU", "memory", "I/O", "storage"],
        action: "units given",
    },
    Names {
        problem: "wireless",
        title: "Wireless rates",
        contexts: &["priority", "gain 1", "gain 2", "gain 3"],
        actions: &["rate 1", "rate 2", "rate 3"],
        budgets: &["energy", "spectrum"],
        action: "rate",
    },
    Names {
        problem: "trading",
        title: "One-way trading",
        contexts: &["price"],
        actions: &["sale"],
        budgets: &["inventory"],
        action: "units sold",
    },
    Names {
        problem: "power",
        title: "Power provisioning",
        contexts: &["interactive load", "batch load", "carbon intensity"],
        actions: &["interactive", "batch"],
        budgets: &["energy", "carbon"],
        action: "servers",
    },
    Names {
        problem: "llm-tokens",
        title: "Token budget",
        contexts: &[
            "short: tokens asked for",
            "long: tokens asked for",
            "short: prompt share",
            "long: prompt share",
        ],
        actions: &["short", "long"],
        budgets: &["tokens", "spend"],
        action: "thousands of tokens granted",
    },
];

/// The names of a problem, if it has any here.
pub(crate) fn names(problem: &str) -> Option<&'static Names> {
    NAMES.iter().find(|names| names.problem == problem)
}

/// One colour per entry, safe for colour-blind readers (Okabe and Ito).
const COLOURS: &[&str] = &["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7"];

/// Draws `episode_PROBLEM`: contexts, the actions of the offline optimum and of LAAU, and what remains of each budget.
pub(super) fn episodes(rows: &[StepRow], folder: &Path) -> anyhow::Result<()> {
    let rows: Vec<&StepRow> = rows.iter().filter(|row| row.data == "workload").collect();
    for problem in distinct(&rows, |row| row.problem.clone()) {
        let Some(names) = names(&problem) else { continue };
        let of: Vec<&StepRow> = rows
            .iter()
            .copied()
            .filter(|row| row.problem == problem)
            .collect();
        let contexts = Lines::new(&of, "opt", "context", names.contexts);
        // Where the context has one entry, so that colours agree: the first one is black.
        let offset = usize::from(names.contexts.len() > names.actions.len());
        let mut panels = vec![panel("what comes", "context", &[(contexts, 0, false)])];
        for policy in ["opt", "laau"] {
            let actions = Lines::new(&of, policy, "action", names.actions);
            panels.push(panel(
                policy_name(policy),
                names.action,
                &[(actions, offset, false)],
            ));
        }
        let colour = usize::from(names.budgets.len() > 1);
        let remaining: Vec<_> = ["laau", "opt"]
            .into_iter()
            .map(|policy| {
                let labels: Vec<String> = names
                    .budgets
                    .iter()
                    .map(|budget| format!("{budget}, {}", policy_name(policy)))
                    .collect();
                let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
                let lines = Lines::new(&of, policy, "remaining_percent", &labels);
                (lines, colour, policy == "opt")
            })
            .collect();
        panels.push(panel("what remains", "% of the budget", &remaining));
        let (plots, layouts): (Vec<Vec<Plot>>, Vec<Layout>) = panels.into_iter().unzip();
        let figure = Figure::new(2, 2)
            .with_title(format!("{}: one test episode", names.title))
            .with_title_size(16)
            .with_plots(plots)
            .with_layouts(layouts)
            .with_cell_size(560.0, 320.0);
        save(&figure.render(), folder, &format!("episode_{problem}"))?;
    }
    Ok(())
}

/// Values by step, one line per entry.
struct Lines(Vec<(String, Vec<(f64, f64)>)>);

impl Lines {
    fn new(rows: &[&StepRow], policy: &str, quantity: &str, labels: &[&str]) -> Self {
        let line = |(index, label): (usize, &&str)| {
            let of = rows
                .iter()
                .filter(|row| row.policy == policy && row.quantity == quantity && row.index == index);
            let points = of.map(|row| ((row.step + 1) as f64, row.value)).collect();
            ((*label).to_owned(), points)
        };
        Self(labels.iter().enumerate().map(line).collect())
    }
}

fn panel(title: &str, label: &str, groups: &[(Lines, usize, bool)]) -> (Vec<Plot>, Layout) {
    let mut plots = Vec::new();
    for (lines, offset, dashed) in groups {
        for (index, (name, points)) in lines.0.iter().enumerate() {
            let line = LinePlot::new()
                .with_data(points.iter().copied())
                .with_color(COLOURS[(index + offset) % COLOURS.len()])
                .with_stroke_width(2.0)
                .with_legend(name.as_str());
            plots.push(Plot::Line(if *dashed { line.with_dashed() } else { line }));
        }
    }
    let layout = dress(Layout::auto_from_plots(&plots))
        .with_title(title)
        .with_x_label("step")
        .with_y_label(label)
        .with_y_axis_min(0.0);
    (plots, layout)
}
