//! Prints the noise that makes each distribution shift of the paper's out-of-distribution experiment, on the synthetic
//! workload: 5,000 training and 2,000 testing episodes of 20 steps, in both constructions.
//!
//! `cargo run --release -p laau-data --example shift`

#![expect(
    clippy::print_stdout,
    reason = "a table on standard output is what this program is for"
)]

use laau_data::shift::{Shift, shift};
use laau_data::synthetic::{GenerateOptions, Workload};
use laau_data::{Construction, Error, Split};

fn main() -> Result<(), Error> {
    println!("| construction | target d_W | d_W | sliced W1 | mean | deviation | truncated |");
    println!("|---|---|---|---|---|---|---|");
    for construction in [Construction::Consecutive, Construction::Interleaved] {
        let options = GenerateOptions {
            construction,
            ..GenerateOptions::default()
        };
        let sets = Workload::default().generate_split(Split::default(), &options)?;
        for target in [0.0, 0.05, 0.1, 0.15, 0.2, 0.25] {
            let shifted = shift(&sets.train, &sets.test, target, &Shift::default())?;
            println!(
                "| {construction:?} | {target:.2} | {:.4} | {:.4} | {:.4} | {:.4} | {:.2} % |",
                shifted.distance,
                shifted.sliced,
                shifted.mean,
                shifted.deviation,
                100.0 * shifted.truncated
            );
        }
    }
    Ok(())
}
