//! How a time grows with a size: names such as `opt/interior-point/d=4,M=2,N=20` end with their sizes.

use std::collections::BTreeMap;

use super::history::{Figure, Measure};

/// A name without its sizes, and the sizes.
pub(crate) fn parse(id: &str) -> (&str, BTreeMap<&str, f64>) {
    let Some((name, sizes)) = id.rsplit_once('/') else {
        return (id, BTreeMap::new());
    };
    let pairs: Option<BTreeMap<&str, f64>> = sizes
        .split(',')
        .map(|pair| {
            let (key, value) = pair.split_once('=')?;
            Some((key, value.parse().ok()?))
        })
        .collect();
    pairs.map_or((id, BTreeMap::new()), |sizes| (name, sizes))
}

/// The longest curve of a name in one size, all other sizes equal: (size, least time), by size.
pub(crate) fn curve(figures: &[Figure], name: &str, size: &str, measure: Measure) -> Vec<(f64, f64)> {
    let mut curves: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for figure in figures.iter().filter(|figure| figure.measure == measure) {
        let (found, mut sizes) = parse(&figure.id);
        if found == name
            && let Some(value) = sizes.remove(size)
        {
            curves
                .entry(format!("{sizes:?}"))
                .or_default()
                .push((value, figure.low));
        }
    }
    let mut longest = curves.into_values().max_by_key(Vec::len).unwrap_or_default();
    longest.sort_by(|a, b| a.0.total_cmp(&b.0));
    longest
}

/// The exponent of a curve between its middle and its end, where constant costs have faded; `None` below three points.
pub(crate) fn exponent(curve: &[(f64, f64)]) -> Option<f64> {
    if curve.len() < 3 {
        return None;
    }
    let (from, to) = (
        curve[curve.len() / 2 - usize::from(curve.len() == 3)],
        curve[curve.len() - 1],
    );
    Some((to.1 / from.1).ln() / (to.0 / from.0).ln())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_with_their_sizes() {
        let (name, sizes) = parse("opt/interior-point/d=4,M=2,N=20");
        assert_eq!(name, "opt/interior-point");
        assert_eq!(sizes, [("M", 2.0), ("N", 20.0), ("d", 4.0)].into());
        assert_eq!(parse("a/b"), ("a/b", BTreeMap::new()));
    }

    #[test]
    fn a_curve_varies_one_size_alone_and_has_an_exponent() {
        let figures: Vec<Figure> = [
            ("o/d=2,N=1", 8.0),
            ("o/d=4,N=1", 64.0),
            ("o/d=8,N=1", 512.0),
            ("o/d=8,N=2", 1000.0),
            ("p/d=16,N=1", 1.0),
        ]
        .into_iter()
        .map(|(id, low)| Figure {
            id: id.to_owned(),
            measure: Measure::Latency,
            value: low,
            low,
            high: low,
        })
        .collect();
        let by_d = curve(&figures, "o", "d", Measure::Latency);
        assert_eq!(by_d, [(2.0, 8.0), (4.0, 64.0), (8.0, 512.0)]);
        assert!((exponent(&by_d).unwrap() - 3.0).abs() < 1e-12);
        assert_eq!(exponent(&curve(&figures, "o", "N", Measure::Latency)), None);
    }
}
