//! The targets, decided by what was measured.

use super::page::ahead;
use super::{Comparison, Timed, grid};

/// A target, what was found, and whether that is enough.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Target {
    pub(super) what: String,
    pub(super) wanted: String,
    pub(super) found: String,
    /// `None` if it could not be measured.
    pub(super) met: Option<bool>,
}

/// All targets, in the order of the page.
pub(super) fn targets(found: &Comparison) -> Vec<Target> {
    let hand = |case: &Timed| case.case.peer == "jax" && case.case.precision == "f64";
    let mut targets = vec![
        ratio(
            "training, against the fastest JAX in f64",
            5.0,
            fastest(found, "train", hand),
            ours(found, "train"),
        ),
        ratio(
            "training, against plain jax.grad in f64",
            10.0,
            fastest(found, "train", |case| {
                hand(case) && case.case.variant == "jax.grad"
            }),
            ours(found, "train"),
        ),
        ratio(
            "layer d=8, M=3, against the fastest JAX",
            3.0,
            fastest(found, "layer-8x3", |case| case.case.peer.starts_with("jax")),
            ours(found, "layer-8x3"),
        ),
        ratio(
            "layer d=8, M=3, against the fastest Moreau",
            20.0,
            fastest(found, "layer-8x3", |case| case.case.peer == "moreau"),
            ours(found, "layer-8x3"),
        ),
        ratio(
            "layer d=8, M=3, against cvxpylayers by default",
            400.0,
            fastest(found, "layer-8x3", default_of_cvxpylayers),
            ours(found, "layer-8x3"),
        ),
        digits(found),
        count(found, "strict budgets: episodes overspent", |strict| {
            strict.overspent
        }),
        count(found, "strict budgets: episodes aborted", |strict| strict.aborted),
        import(found, "import/files=10", "ten files"),
        import(found, "import/files=1", "one file"),
    ];
    for (work, size) in SIZES {
        let Some(ours) = ours(found, work) else {
            continue;
        };
        for (peer, is) in [
            ("Moreau at its tightest", tightest_moreau as fn(&Timed) -> bool),
            (
                "Clarabel at its tightest, which has no gradient",
                |case: &Timed| case.case.peer == "clarabel",
            ),
        ] {
            let what = format!("layer {size}, against {peer}");
            targets.push(ratio(&what, 10.0, fastest(found, work, is), Some(ours)));
        }
        targets.push(reduced(found, work, size, ours));
    }
    targets.extend(grid::targets(found));
    targets
}

/// The works whose layers are held against the same peers at every size, and the sizes.
const SIZES: [(&str, &str); 4] = [
    ("layer-8x3", "d=8, M=3"),
    ("wide/d=64,M=4", "d=64, M=4"),
    ("wide/d=256,M=4", "d=256, M=4"),
    ("wide/d=1024,M=4", "d=1,024, M=4"),
];

/// What is wanted of a layer: so many times JAX with the same reduction, or such a share of the peak.
const REDUCED: f64 = 4.0;
const SHARE: f64 = 0.4;

/// A layer against JAX with systems of one row per budget, or against what the core could do.
fn reduced(found: &Comparison, work: &str, size: &str, ours: &Timed) -> Target {
    let jax = fastest(found, work, |case| case.case.variant == "interior point, M × M");
    let ratio = jax.map(|jax| jax.least / ours.least);
    let share = ours
        .case
        .operations
        .zip(grid::peak(found))
        .map(|(operations, peak)| operations / (ours.least * 1e3) / peak);
    let told: Vec<String> = ratio
        .map(|ratio| format!("{ratio:.1}×"))
        .into_iter()
        .chain(share.map(|share| format!("{share:.2} of the peak")))
        .collect();
    let met = ratio.is_some_and(|ratio| ratio >= REDUCED) || share.is_some_and(|share| share >= SHARE);
    Target {
        what: format!("layer {size}, against JAX with M × M systems or the peak"),
        wanted: format!("≥ {REDUCED}× or ≥ {SHARE} of the peak"),
        found: if told.is_empty() {
            "not measured".to_owned()
        } else {
            told.join(", ")
        },
        met: (met || (ratio.is_some() && share.is_some())).then_some(met),
    }
}

/// An import from start to end against polars' streaming reader, which only groups what it reads.
fn import(found: &Comparison, work: &str, files: &str) -> Target {
    let polars = fastest(found, work, |case| case.case.peer == "polars");
    let what = format!("import of 16 million readings in {files}, against polars' streaming reader");
    ratio(&what, 1.0, polars, ours(found, work))
}

fn tightest_moreau(case: &Timed) -> bool {
    case.case.peer == "moreau" && case.case.variant.starts_with("tolerances")
}

fn default_of_cvxpylayers(case: &Timed) -> bool {
    case.case.peer == "cvxpylayers" && case.case.variant.starts_with("default")
}

/// The fastest of ours.
pub(super) fn ours<'a>(found: &'a Comparison, work: &str) -> Option<&'a Timed> {
    fastest(found, work, |case| case.case.peer == "laau")
}

fn fastest<'a>(found: &'a Comparison, work: &str, is: impl Fn(&Timed) -> bool) -> Option<&'a Timed> {
    found
        .cases
        .iter()
        .filter(|case| case.case.work == work && is(case))
        .min_by(|a, b| a.least.total_cmp(&b.least))
}

fn ratio(what: &str, least: f64, theirs: Option<&Timed>, ours: Option<&Timed>) -> Target {
    let measured = theirs.zip(ours).map(|(theirs, ours)| theirs.least / ours.least);
    Target {
        what: what.to_owned(),
        wanted: format!("≥ {least}×"),
        found: measured.map_or_else(|| "not measured".to_owned(), ahead),
        met: measured.map(|ratio| ratio >= least),
    }
}

/// How many digits better than cvxpylayers' default, in actions and gradients, whichever is worse.
fn digits(found: &Comparison) -> Target {
    // Less than half a last bit cannot be told apart from it.
    let digits = |of: fn(&Timed) -> Option<f64>| {
        let theirs = of(fastest(found, "layer-8x3", default_of_cvxpylayers)?)?;
        let ours = of(ours(found, "layer-8x3")?)?;
        Some((theirs / ours.max(1e-17)).log10())
    };
    let measured = digits(|case| case.case.error_action)
        .zip(digits(|case| case.case.error_gradient))
        .map(|(action, gradient)| action.min(gradient));
    Target {
        what: "layer d=8, M=3, accuracy against cvxpylayers by default".to_owned(),
        wanted: "≥ 6 digits better".to_owned(),
        found: measured.map_or_else(
            || "not measured".to_owned(),
            |digits| format!("{digits:.1} digits"),
        ),
        met: measured.map(|digits| digits >= 6.0),
    }
}

fn count(found: &Comparison, what: &str, of: fn(&super::Strictness) -> usize) -> Target {
    let measured = found.strict.iter().find(|strict| strict.peer == "laau");
    Target {
        what: what.to_owned(),
        wanted: "0".to_owned(),
        found: measured.map_or_else(
            || "not measured".to_owned(),
            |strict| format!("{} of {}", of(strict), strict.episodes),
        ),
        met: measured.map(|strict| of(strict) == 0),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::super::{Case, Failure, Strictness};
    use super::*;

    pub(crate) fn timed(peer: &str, work: &str, variant: &str, least: f64, error: f64) -> Timed {
        Timed {
            case: Case {
                id: 0,
                peer: peer.to_owned(),
                work: work.to_owned(),
                variant: variant.to_owned(),
                precision: "f64".to_owned(),
                error_action: Some(error),
                error_gradient: Some(error),
                violation: Some(0.0),
                utility: None,
                megabytes: None,
                operations: None,
            },
            least,
            median: 1.1 * least,
            samples: 7,
        }
    }

    pub(crate) fn comparison() -> Comparison {
        Comparison {
            versions: [("jax".to_owned(), "0.1".to_owned())].into(),
            cases: vec![
                timed("laau", "train", "fused engine", 10.0, 0.0),
                timed("jax", "train", "hand-written adjoint", 49.0, 0.0),
                timed("jax", "train", "jax.grad", 120.0, 0.0),
                timed("laau", "layer-8x3", "interior point", 5.0, 1e-15),
                timed("jaxopt", "layer-8x3", "custom_root", 20.0, 1e-9),
                timed("cvxpylayers", "layer-8x3", "default (diffcp, SCS)", 4000.0, 1e-3),
            ],
            strict: vec![Strictness {
                peer: "laau".to_owned(),
                variant: "interior point".to_owned(),
                episodes: 30,
                overspent: 0,
                worst: 0.0,
                aborted: 0,
                reason: None,
            }],
            failures: vec![Failure {
                peer: "moreau".to_owned(),
                work: "installation".to_owned(),
                variant: String::new(),
                reason: "no matching distribution".to_owned(),
                commit: String::new(),
            }],
        }
    }

    #[test]
    fn targets_are_decided_by_what_was_measured() {
        let met: Vec<Option<bool>> = targets(&comparison()).iter().map(|target| target.met).collect();
        let expected = [
            Some(false),
            Some(true),
            Some(true),
            None,
            Some(true),
            Some(true),
            Some(true),
            Some(true),
            None,
            None,
            None,
            None,
            None,
        ];
        assert_eq!(met, expected);
        assert_eq!(targets(&comparison())[0].found, "4.9×");
        assert_eq!(targets(&comparison())[3].found, "not measured");
        assert_eq!(targets(&comparison())[5].found, "12.0 digits");
    }

    #[test]
    fn a_layer_may_miss_the_ratio_where_it_has_its_share_of_the_peak() {
        let work = "wide/d=64,M=4";
        let verdict = |operations: Option<f64>, jax: Option<f64>| {
            let mut ours = timed("laau", work, "interior point", 10.0, 0.0);
            ours.case.operations = operations;
            // 50 GFLOP/s, of which 10 µs have 500,000.
            let mut cases = vec![timed("laau", "peak", "multiply-adds", 0.02, 0.0), ours];
            cases.extend(jax.map(|least| timed("jax", work, "interior point, M × M", least, 0.0)));
            let found = Comparison {
                cases,
                ..Comparison::default()
            };
            let target = targets(&found)
                .into_iter()
                .find(|target| target.what.contains("or the peak"));
            let target = target.unwrap();
            (target.found, target.met)
        };
        let told = |words: &str, met| (words.to_owned(), met);
        assert_eq!(verdict(None, Some(50.0)), told("5.0×", Some(true)));
        assert_eq!(verdict(None, Some(30.0)), told("3.0×", None));
        assert_eq!(
            verdict(Some(250e3), Some(30.0)),
            told("3.0×, 0.50 of the peak", Some(true))
        );
        assert_eq!(
            verdict(Some(150e3), Some(30.0)),
            told("3.0×, 0.30 of the peak", Some(false))
        );
        assert_eq!(verdict(None, None), told("not measured", None));
    }
}
