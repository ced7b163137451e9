//! Training at every size: laau and JAX side by side, with what the machine could do at best.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::page::{short, times};
use super::targets::Target;
use super::{Case, Comparison, Timed};
use crate::bench::growth::parse;

/// The work of the cases of a grid begins with this.
pub(super) const GRID: &str = "grid/";

/// The work that does nothing but multiply-adds on registers.
pub(super) const PEAK: &str = "peak";

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
    /// Ours in f32.
    ours_in_single: Option<f64>,
    /// JAX in f64 and in f32.
    double: Option<f64>,
    single: Option<f64>,
    /// On two threads, in whichever precision is faster: ours, and JAX.
    two: Option<f64>,
    theirs_on_two: Option<f64>,
}

impl Point {
    fn against_double(&self) -> Option<f64> {
        Some(self.double? / self.ours)
    }

    fn against_single(&self) -> Option<f64> {
        Some(self.single? / self.ours_in_single?)
    }

    fn on_two(&self) -> Option<f64> {
        Some(self.theirs_on_two? / self.two?)
    }

    /// As [`RATIO`] and [`SHARE`] say: one is enough, but only both can miss.
    fn is_fast(&self) -> Option<bool> {
        let (ratio, share) = (self.against_double(), self.share);
        let met = ratio.is_some_and(|r| r >= RATIO) || share.is_some_and(|s| s >= SHARE);
        (met || (ratio.is_some() && share.is_some())).then_some(met)
    }

    fn name(&self) -> String {
        format!("N = {}, batch {}, width {}", self.steps, self.batch, self.width)
    }
}

/// Billions of floating-point operations that one core does in a second at best.
pub(super) fn peak(found: &Comparison) -> Option<f64> {
    let case = found.cases.iter().find(|case| case.case.work == PEAK)?;
    Some(PEAK_UNIT / case.least * 1e-3)
}

/// Those of a minibatch of the paper's network: products by weights forward, to deltas and to weight gradients.
fn operations(steps: f64, batch: f64, width: f64) -> f64 {
    2.0 * (steps - 1.0) * batch * (3.0 * width * width + 10.0 * width)
}

/// After the first round: which cases are slower by so much than another form of the same peer, precision and number of threads that
/// more rounds would not make them the fastest.
pub(super) fn outdone(cases: &[&(usize, Case)], samples: &[Vec<f64>]) -> Vec<bool> {
    const FAR: f64 = 2.0;
    // A worker of the grid has one precision and one number of threads; ours has both of each.
    let kind = |index: usize| {
        let (worker, case) = cases[index];
        (*worker, &case.precision, case.variant.ends_with("2 threads"))
    };
    let least = |index: usize| samples[index].iter().copied().fold(f64::INFINITY, f64::min);
    let is_outdone = |index: usize| {
        let mut others = (0..cases.len()).filter(|other| kind(*other) == kind(index));
        others.any(|other| least(index) > FAR * least(other))
    };
    (0..cases.len()).map(is_outdone).collect()
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
                ours_in_single: least(&|case| is(case, "laau", "f32")),
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
             as sums or as matrix products) in the same precision. The share is that of the {peak:.0} GFLOP/s that multiply-adds of doubles on\n\
             registers alone reached on one core in the same run, by the operations of the network in f64 without padding, problem and layer.\n\
             On two threads either side is in whichever precision is faster.\n"
        )?;
    }
    writeln!(
        out,
        "| N | batch | width | laau, f64 | share of the peak | JAX, f64 | laau, f32 | JAX, f32 | laau, 2 threads | JAX, 2 threads | wanted |\n\
         |---|---|---|---|---|---|---|---|---|---|---|"
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
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {fast} |",
            point.steps,
            point.batch,
            point.width,
            short(point.ours),
            point.share.map_or(String::new(), |share| format!("{share:.2}")),
            ratio(point.against_double()),
            point.ours_in_single.map_or(String::new(), short),
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
    // A size that was not measured may be the worst.
    let missing = |count: usize| match count {
        0 => String::new(),
        count => format!("; {count} of {} sizes not measured", points.len()),
    };
    let ahead = |what: &str, of: fn(&Point) -> Option<f64>| {
        let worst = worst(of);
        let absent = points.iter().filter(|point| of(point).is_none()).count();
        Target {
            what: what.to_owned(),
            wanted: "> 1× everywhere".to_owned(),
            found: worst.map_or_else(
                || "not measured".to_owned(),
                |(ratio, point)| format!("{} at {}{}", times(ratio), point.name(), missing(absent)),
            ),
            met: match worst {
                Some((ratio, _)) if ratio <= 1.0 => Some(false),
                Some(_) if absent == 0 => Some(true),
                _ => None,
            },
        }
    };
    let fast: Vec<bool> = points.iter().filter_map(Point::is_fast).collect();
    let met = fast.iter().filter(|is| **is).count();
    let absent = points.len() - fast.len();
    vec![
        Target {
            what: "training at every size, against JAX in f64 or the peak".to_owned(),
            wanted: format!("≥ {RATIO}× or ≥ {SHARE} of the peak"),
            found: format!("{met} of {} sizes{}", points.len(), missing(absent)),
            met: if met < fast.len() {
                Some(false)
            } else {
                (absent == 0).then_some(true)
            },
        },
        ahead(
            "training at every size in f32, against JAX in f32",
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
            timed("laau", small, "fused engine", 8.0, 0.0),
            timed("laau", large, "fused engine, 2 threads", 1000.0, 0.0),
        ];
        for case in &mut cases[8..] {
            case.case.precision = "f32".to_owned();
        }
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
            "| 20 | 10 | 10 | 10.0 | 0.30 | 3.9× | 8.00 | 1.1× |  |  | MISSED |",
            "| 21 | 100 | 80 | 2000 | 0.80 | 2.0× |  |  | 1000 | 2.2× | met |",
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
                (
                    "1.1× at N = 20, batch 10, width 10; 1 of 2 sizes not measured",
                    None
                ),
                (
                    "2.2× at N = 21, batch 100, width 80; 1 of 2 sizes not measured",
                    None
                ),
            ]
        );
    }

    #[test]
    fn a_size_without_a_peer_is_neither_met_nor_missed() {
        let mut found = comparison();
        found.cases.retain(|case| case.case.peer == "laau");
        let verdicts: Vec<Option<bool>> = points(&found).iter().map(Point::is_fast).collect();
        assert_eq!(verdicts, [None, Some(true)]);
        let target = &targets(&found)[0];
        assert_eq!(
            (&*target.found, target.met),
            ("1 of 2 sizes; 1 of 2 sizes not measured", None)
        );
    }

    #[test]
    fn a_form_that_is_far_behind_is_measured_once() {
        let mut cases: Vec<(usize, Case)> = [
            (0, "fused"),
            (0, "fused, 2 threads"),
            (1, "sum"),
            (1, "dot"),
            (2, "sum"),
            (0, "fused"),
        ]
        .map(|(worker, variant)| (worker, timed("p", "grid/N=2", variant, 0.0, 0.0).case))
        .into();
        cases[5].1.precision = "f32".to_owned();
        let cases: Vec<&(usize, Case)> = cases.iter().collect();
        let samples = [
            vec![5.0],
            vec![1.0],
            vec![9.0, 2.1],
            vec![1.0, 3.0],
            vec![9.0],
            vec![2.0],
        ];
        assert_eq!(
            outdone(&cases, &samples),
            [false, false, true, false, false, false]
        );
    }
}
