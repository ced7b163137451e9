//! `cargo xtask figures`: draws every figure again from the exported tables.

mod architecture;
mod guard;
mod learning;
mod losses;
mod policies;
pub(crate) mod problems;
pub(crate) mod style;
pub(crate) mod tables;
mod theory;

use std::path::Path;

use crate::reproduce::samples::Samples;

/// Draws the figures of all tables in a folder into its `figures` folder; a table that is not there is passed over.
pub(crate) fn run(folder: &Path) -> anyhow::Result<()> {
    anyhow::ensure!(
        folder.is_dir(),
        "{} is not there: run `cargo xtask reproduce` first",
        folder.display()
    );
    let figures = folder.join("figures");
    architecture::draw(&figures)?;
    let policies_table = tables::read(folder)?;
    policies::utility_by_horizon(&policies_table, &figures)?;
    policies::remaining_budget(&policies_table, &figures)?;
    policies::rl_vs_laau(&policies_table, &figures)?;
    policies::distribution(&tables::read(folder)?, &figures)?;
    losses::paired(&Samples::read(folder)?, &figures)?;
    learning::ood(&tables::read(folder)?, &figures)?;
    guard::value_of_level(&tables::read(folder)?, &figures)?;
    learning::tsne(&tables::read(folder)?, &figures)?;
    learning::online_learning(&tables::read(folder)?, &figures)?;
    theory::online_rates(&tables::read(folder)?, &figures)?;
    theory::gap_and_bound(&tables::read(folder)?, &tables::read(folder)?, &figures)?;
    learning::gradients(&tables::read(folder)?, &figures)?;
    problems::episodes(&tables::read(folder)?, &figures)
}
