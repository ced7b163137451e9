//! Targets of what has no peer: steps, the guard, a whole comparison; from times and instruction counts.

use super::targets::Target;
use crate::bench::COMPARED;
use crate::bench::history::{Figures, Measure};

/// The figure of a time, of how many units it is, the unit in words and in nanoseconds.
type Of = (&'static str, f64, (&'static str, f64));

/// Targets of a time: what, of which figure, and the most it may take.
const TIMES: &[(&str, Of, f64)] = &[
    (
        "a LAAU step, virtual machines, d=4, M=4",
        ("decision/vm-allocation/d=4,M=4", 1.0, ("µs", 1e3)),
        10.0,
    ),
    (
        "a LAAU step, log utility, d=4, M=4",
        ("decision/log-utility/d=4,M=4", 1.0, ("µs", 1e3)),
        10.0,
    ),
    // Twenty episodes of twenty steps.
    (
        "a guarded decision, weighted fairness, LAAU by MW",
        ("guard/fairness/laau-by-mw/N=20", 400.0, ("µs", 1e3)),
        2.0,
    ),
    (
        "`laau compare`, all policies, N = 40, 5,000/1,000/2,000 episodes, one seed",
        (COMPARED, 1.0, ("s", 1e9)),
        10.0,
    ),
];

/// The figures above and below the line.
type Pair = (&'static str, &'static str);

/// Targets of a ratio: what, by which times, by which instructions, and the most it may be.
const RATIOS: &[(&str, Pair, Pair, f64)] = &[
    (
        "a guarded decision against the unguarded one, d=4, M=4",
        (
            "guard/vm-allocation/laau-by-mw/d=4,M=4,N=20",
            "guard/vm-allocation/laau/d=4,M=4,N=20",
        ),
        (
            "guard/vm-allocation/laau-by-mw/d=4,M=4,N=20",
            "episode/forward/vm-allocation/d=4,M=4,N=20",
        ),
        3.0,
    ),
    (
        "guarded training against unguarded, weighted fairness",
        (
            "train/fused-guarded/N=20,batch=10,width=10",
            "train/fused-plain/N=20,batch=10,width=10",
        ),
        (
            "train/fused-guarded/N=20,batch=10,width=10",
            "train/fused/N=20,batch=10,width=10",
        ),
        2.0,
    ),
    (
        "guarded training against unguarded, d=4, M=4",
        (
            "train/fused-vm-guarded/N=20,batch=10,width=10",
            "train/fused-vm-plain/N=20,batch=10,width=10",
        ),
        (
            "train/fused-vm-guarded/N=20,batch=10,width=10",
            "train/fused-vm-plain/N=20,batch=10,width=10",
        ),
        2.0,
    ),
];

/// All of them; without figures none is measured.
pub(super) fn targets(figures: Option<&Figures>) -> Vec<Target> {
    let figure = |id: &str, measure| figures.and_then(|figures| figures.figure(id, measure));
    let mut targets = Vec::new();
    for (what, (id, units, (unit, size)), most) in TIMES {
        let found = figure(id, Measure::Latency);
        let scaled = |value: f64| value / units / size;
        targets.push(Target {
            what: (*what).to_owned(),
            wanted: format!("≤ {most} {unit}"),
            found: found.map_or_else(
                || "not measured".to_owned(),
                |figure| {
                    format!(
                        "{:.1} {unit}, median {:.1}",
                        scaled(figure.low),
                        scaled(figure.value)
                    )
                },
            ),
            met: found.map(|figure| scaled(figure.low) <= *most),
        });
    }
    for (what, times, counts, most) in RATIOS {
        for (how, (above, below), measure) in [
            ("time", times, Measure::Latency),
            ("instructions", counts, Measure::Instructions),
        ] {
            let ratio = figure(above, measure)
                .zip(figure(below, measure))
                .map(|(above, below)| above.low / below.low);
            targets.push(Target {
                what: format!("{what}, by {how}"),
                wanted: format!("≤ {most}×"),
                found: ratio.map_or_else(|| "not measured".to_owned(), |ratio| format!("{ratio:.2}×")),
                met: ratio.map(|ratio| ratio <= *most),
            });
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::bench::history::{Figure, Record};

    #[test]
    fn times_and_ratios_are_held_against_their_limits() {
        let mut record = Record::begin(Path::new("."), "full");
        for (id, measure, low) in [
            ("guard/fairness/laau-by-mw/N=20", Measure::Latency, 760e3),
            (COMPARED, Measure::Latency, 12.3e9),
            (
                "guard/vm-allocation/laau-by-mw/d=4,M=4,N=20",
                Measure::Instructions,
                27.0,
            ),
            (
                "episode/forward/vm-allocation/d=4,M=4,N=20",
                Measure::Instructions,
                10.0,
            ),
        ] {
            record.figures.push(Figure {
                id: id.to_owned(),
                measure,
                value: 2.0 * low,
                low,
                high: 3.0 * low,
            });
        }
        let figures = Figures::latest(&[record]);
        let told: Vec<(String, Option<bool>)> = targets(figures.as_ref())
            .into_iter()
            .map(|target| (target.found, target.met))
            .collect();
        let expected = [
            ("not measured", None),
            ("not measured", None),
            ("1.9 µs, median 3.8", Some(true)),
            ("12.3 s, median 24.6", Some(false)),
            ("not measured", None),
            ("2.70×", Some(true)),
        ];
        for (told, (found, met)) in told.iter().zip(expected) {
            assert_eq!((&*told.0, told.1), (found, met));
        }
        assert!(targets(None).iter().all(|target| target.met.is_none()));
    }
}
