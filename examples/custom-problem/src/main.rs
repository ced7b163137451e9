//! Trains and compares, and prints a table: `cargo run --release -p custom-problem`.
#![expect(clippy::print_stdout, reason = "an example prints what it found")]

use custom_problem::{Sizes, compare};

fn main() -> anyhow::Result<()> {
    let sizes = match std::env::args().nth(1).as_deref() {
        None => Sizes::default(),
        Some("--small") => Sizes::small(),
        Some(other) => anyhow::bail!("expected nothing or --small, found {other}"),
    };
    let report = compare(sizes, 1)?;
    println!(
        "{} campaigns of {} hours; utility per hour\n",
        report.episodes, report.horizon
    );
    print!("{report}");
    if let Some(gradients) = report.policies.iter().find_map(|policy| policy.gradients) {
        println!(
            "\nlaau was trained with {} exact and {} approximate gradients of the layer",
            gradients.exact, gradients.approximate
        );
    }
    Ok(())
}
