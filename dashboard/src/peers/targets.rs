//! The targets, decided by what was measured.

use super::{Comparison, Timed, grid};

/// A target, what was found, and whether that is enough.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Target {
    pub(super) what: &'static str,
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
    ];
    targets.extend(grid::targets(found));
    targets
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

fn ratio(what: &'static str, least: f64, theirs: Option<&Timed>, ours: Option<&Timed>) -> Target {
    let measured = theirs.zip(ours).map(|(theirs, ours)| theirs.least / ours.least);
    Target {
        what,
        wanted: format!("≥ {least}×"),
        found: measured.map_or_else(|| "not measured".to_owned(), |ratio| format!("{ratio:.1}×")),
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
        what: "layer d=8, M=3, accuracy against cvxpylayers by default",
        wanted: "≥ 6 digits better".to_owned(),
        found: measured.map_or_else(
            || "not measured".to_owned(),
            |digits| format!("{digits:.1} digits"),
        ),
        met: measured.map(|digits| digits >= 6.0),
    }
}

fn count(found: &Comparison, what: &'static str, of: fn(&super::Strictness) -> usize) -> Target {
    let measured = found.strict.iter().find(|strict| strict.peer == "laau");
    Target {
        what,
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
        ];
        assert_eq!(met, expected);
        assert_eq!(targets(&comparison())[0].found, "4.9×");
        assert_eq!(targets(&comparison())[3].found, "not measured");
        assert_eq!(targets(&comparison())[5].found, "12.0 digits");
    }
}
