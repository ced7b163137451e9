//! Training at every size: laau and JAX side by side, with what the machine could do at best.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::page::{short, times};
use super::targets::Target;
use super::{Comparison, Timed};
use crate::bench::growth::parse;

/// The work of the cases of a grid begins with this.
pub(super) const GRID: &str = "grid/";

/// The work that does nothing but multiply-adds on registers.
const PEAK: &str = "peak";

/// What the unit of that work is, in floating-point operations.
const PEAK_UNIT: f64 = 1e3;

/// What is wanted of a point: so many times the fastest JAX in f64, or such a share of the peak.
const RATIO: f64 = 4.0;
const SHARE: f64 = 0.6;

/// What was found at one size, in microseconds; the fastest form of each.
#[derive(Debug, Clone, PartialEq)]
struct Point {
    steps: f64,
    batch: f64,
    width: f64,
    ours: f64,
    /// Of the operations that one core does at best.
    share: Option<f64>,
    double: Option<f64>,
    single: Option<f64>,
    /// On two threads: ours, and the fastest JAX of either precision.
    two: Option<f64>,
    theirs_on_two: Option<f64>,
}

impl Point {
    fn against_double(&self) -> Option<f64> {
        Some(self.double? / self.ours)
    }

    fn against_single(&self) -> Option<f64> {
        Some(self.single? / self.ours)
    }

    fn on_two(&self) -> Option<f64> {
        Some(self.theirs_on_two? / self.two?)
    }

    /// As [`RATIO`] and [`SHARE`] say.
    fn is_fast(&self) -> Option<bool> {
        match (self.against_double(), self.share) {
            (None, None) => None,
            (ratio, share) => Some(ratio.is_some_and(|r| r >= RATIO) || share.is_some_and(|s| s >= SHARE)),
        }
    }

    fn name(&self) -> String {
        format!("N = {}, batch {}, width {}", self.steps, self.batch, self.width)
    }
}

/// Billions of floating-point operations that one core does in a second at best.
fn peak(found: &Comparison) -> Option<f64> {
    let case = found.cases.iter().find(|case| case.case.work == PEAK)?;
    Some(PEAK_UNIT / case.least * 1e-3)
}

/// Those of a minibatch of the paper's network: products by weights forward, to deltas and to weight gradients.
fn operations(steps: f64, batch: f64, width: f64) -> f64 {
    2.0 * (steps - 1.0) * batch * (3.0 * width * width + 10.0 * width)
}

fn points(found: &Comparison) -> Vec<Point> {
    let mut works: BTreeMap<&str, Vec<&Timed>> = BTreeMap::new();
    for case in &found.cases {
        if case.case.work.starts_with(GRID) {
            works.entry(&case.case.work).or_default().push(case);
        }
    }
    let peak = peak(found);
    let mut points: Vec<Point> = works
        .into_iter()
        .filter_map(|(work, cases)| {
            let (_, sizes) = parse(work);
            let (steps, batch, width) = (*sizes.get("N")?, *sizes.get("batch")?, *sizes.get("width")?);
            let least = |is: &dyn Fn(&Timed) -> bool| {
                let times = cases.iter().filter(|case| is(case)).map(|case| case.least);
                times.min_by(f64::total_cmp)
            };
            let on_two = |case: &Timed| case.case.variant.ends_with("2 threads");
            let is = |case: &Timed, peer: &str, precision: &str| {
                case.case.peer == peer && case.case.precision == precision && !on_two(case)
            };
            let ours = least(&|case| is(case, "laau", "f64"))?;
            Some(Point {
                steps,
                batch,
                width,
                ours,
                share: peak.map(|peak| operations(steps, batch, width) / (ours * 1e3) / peak),
                double: least(&|case| is(case, "jax", "f64")),
                single: least(&|case| is(case, "jax", "f32")),
                two: least(&|case| case.case.peer == "laau" && on_two(case)),
                theirs_on_two: least(&|case| case.case.peer == "jax" && on_two(case)),
            })
        })
        .collect();
    points.sort_by(|a, b| {
        [a.steps, a.batch, a.width]
            .partial_cmp(&[b.steps, b.batch, b.width])
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    points
}

/// The whole grid as a table; nothing, if it was not measured.
pub(super) fn table(out: &mut String, found: &Comparison) -> std::fmt::Result {
    let points = points(found);
    if points.is_empty() {
        return Ok(());
    }
    writeln!(out, "## Training at every size\n")?;
    if let Some(peak) = peak(found) {
        writeln!(
            out,
            "Microseconds a minibatch, least, and how many times that goes into the time of the fastest form of JAX (adjoint by hand, products\n\
             as sums or as matrix products). The share is that of the {peak:.0} GFLOP/s that multiply-adds on registers alone reached on one core\n\
             in the same run, by the operations of the network without padding, problem and layer. On two threads ours is held against the\n\
             faster of JAX in f64 and in f32.\n"
        )?;
    }
    writeln!(
        out,
        "| N | batch | width | laau, f64 | share of the peak | JAX, f64 | JAX, f32 | laau, 2 threads | JAX, 2 threads | wanted |\n\
         |---|---|---|---|---|---|---|---|---|---|"
    )?;
    let ratio = |ratio: Option<f64>| ratio.map_or(String::new(), times);
    for point in points {
        let fast = match point.is_fast() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "not measured",
        };
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {fast} |",
            point.steps,
            point.batch,
            point.width,
            short(point.ours),
            point.share.map_or(String::new(), |share| format!("{share:.2}")),
            ratio(point.against_double()),
            ratio(point.against_single()),
            point.two.map_or(String::new(), short),
            ratio(point.on_two()),
        )?;
    }
    writeln!(out)
}

/// What is wanted of all points together.
pub(super) fn targets(found: &Comparison) -> Vec<Target> {
    let points = points(found);
    if points.is_empty() {
        return Vec::new();
    }
    let worst = |of: fn(&Point) -> Option<f64>| {
        let measured = points.iter().filter_map(|point| Some((of(point)?, point)));
        measured.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    let ahead = |what, of| {
        let worst = worst(of);
        Target {
            what,
            wanted: "> 1× everywhere".to_owned(),
            found: worst.map_or_else(
                || "not measured".to_owned(),
                |(ratio, point)| format!("{} at {}", times(ratio), point.name()),
            ),
            met: worst.map(|(ratio, _)| ratio > 1.0),
        }
    };
    let fast: Vec<bool> = points.iter().filter_map(Point::is_fast).collect();
    let met = fast.iter().filter(|is| **is).count();
    vec![
        Target {
            what: "training at every size, against JAX in f64 or the peak",
            wanted: format!("≥ {RATIO}× or ≥ {SHARE} of the peak"),
            found: format!("{met} of {} sizes", fast.len()),
            met: (!fast.is_empty()).then_some(met == fast.len()),
        },
        ahead(
            "training at every size, against JAX in f32",
            Point::against_single,
        ),
        ahead("training at every size, two threads against two", Point::on_two),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::targets::tests::timed;
    use super::*;

    fn comparison() -> Comparison {
        let small = "grid/N=20,batch=10,width=10";
        let large = "grid/N=21,batch=100,width=80";
        let mut cases = vec![
            // 50 GFLOP/s.
            timed("laau", "peak", "multiply-adds", 0.02, 0.0),
            timed("laau", large, "fused engine", 2000.0, 0.0),
            timed("laau", large, "fused engine, 2 threads", 1100.0, 0.0),
            timed("jax", large, "hand-written adjoint, sum", 9000.0, 0.0),
            timed("jax", large, "hand-written adjoint, dot", 4000.0, 0.0),
            timed("jax", large, "hand-written adjoint, dot, 2 threads", 2200.0, 0.0),
            timed("laau", small, "fused engine", 10.0, 0.0),
            timed("jax", small, "hand-written adjoint, sum", 39.0, 0.0),
            timed("jax", small, "hand-written adjoint, sum", 9.0, 0.0),
        ];
        cases[8].case.precision = "f32".to_owned();
        Comparison {
            cases,
            ..Comparison::default()
        }
    }

    #[test]
    fn a_point_has_its_share_and_the_fastest_of_each_peer() {
        let mut out = String::new();
        table(&mut out, &comparison()).unwrap();
        for line in [
            "| 20 | 10 | 10 | 10.0 | 0.30 | 3.9× | 0.9× |  |  | MISSED |",
            "| 21 | 100 | 80 | 2000 | 0.80 | 2.0× |  | 1100 | 2.0× | met |",
        ] {
            assert!(out.contains(line), "{line}\n{out}");
        }
        let mut nothing = String::new();
        table(&mut nothing, &Comparison::default()).unwrap();
        assert_eq!(nothing, "");
    }

    #[test]
    fn targets_name_the_worst_size() {
        let targets = targets(&comparison());
        let found: Vec<(&str, Option<bool>)> = targets.iter().map(|t| (&*t.found, t.met)).collect();
        assert_eq!(
            found,
            [
                ("1 of 2 sizes", Some(false)),
                ("0.9× at N = 20, batch 10, width 10", Some(false)),
                ("2.0× at N = 21, batch 100, width 80", Some(true)),
            ]
        );
    }
}
