//! Who kept the budgets: the exact sum of what was used, against what there was.

use super::Strictness;
use super::worker::Played;

/// Counts episodes that overspent in exact arithmetic, and those that were given up.
pub(super) fn judge(played: &Played) -> Strictness {
    let mut strictness = Strictness {
        peer: played.peer.clone(),
        variant: played.variant.clone(),
        episodes: played.episodes.len(),
        overspent: 0,
        worst: 0.0,
        aborted: 0,
        reason: None,
    };
    for episode in &played.episodes {
        let mut over: f64 = 0.0;
        for (resource, budget) in episode.budgets.iter().enumerate() {
            let usages = episode.usages.iter().map(|usage| usage[resource]);
            over = over.max(exact_sum(usages.chain([-budget])));
        }
        if over > 0.0 {
            strictness.overspent += 1;
            strictness.worst = strictness.worst.max(over);
        }
        if let Some(reason) = &episode.aborted {
            strictness.aborted += 1;
            strictness.reason.get_or_insert_with(|| reason.clone());
        }
    }
    strictness
}

/// The sum of floats without an error but the last rounding (Shewchuk's expansions): its sign is that of the true sum.
fn exact_sum(terms: impl Iterator<Item = f64>) -> f64 {
    let mut partials: Vec<f64> = Vec::new();
    for mut x in terms {
        let mut kept = 0;
        for index in 0..partials.len() {
            let mut y = partials[index];
            if x.abs() < y.abs() {
                (x, y) = (y, x);
            }
            let high = x + y;
            let low = y - (high - x);
            if low != 0.0 {
                partials[kept] = low;
                kept += 1;
            }
            x = high;
        }
        partials.truncate(kept);
        partials.push(x);
    }
    // Partials do not overlap and ascend: added from the largest down, nothing but the last bit can be lost.
    partials.iter().rev().sum()
}

#[cfg(test)]
mod tests {
    use super::super::worker::PlayedEpisode;
    use super::*;

    #[test]
    fn a_sum_sees_the_last_bit() {
        assert_eq!(
            exact_sum([0.1; 10].into_iter().chain([-1.0])),
            5.551_115_123_125_783e-17
        );
        assert_eq!(exact_sum([1e300, 1.0, -1e300, -1.0].into_iter()), 0.0);
        assert_eq!(exact_sum([1.0, 1e-30, -1.0].into_iter()), 1e-30);
    }

    #[test]
    fn numbers_are_read_to_the_last_bit() {
        for k in 1..2000_u32 {
            let number = f64::from(k).sqrt() * f64::from(k).ln_1p();
            let read: f64 = serde_json::from_str(&serde_json::to_string(&number).unwrap()).unwrap();
            assert_eq!(read.to_bits(), number.to_bits());
        }
    }

    #[test]
    fn episodes_are_judged_exactly() {
        let episode = |usages: &[f64], aborted: Option<&str>| PlayedEpisode {
            budgets: vec![1.0],
            usages: usages.iter().map(|usage| vec![*usage]).collect(),
            aborted: aborted.map(str::to_owned),
        };
        let strictness = judge(&Played {
            peer: "p".to_owned(),
            variant: "v".to_owned(),
            episodes: vec![
                episode(&[0.5, 0.5], None),
                episode(&[0.1; 10], None),
                episode(&[0.5], Some("infeasible")),
            ],
        });
        assert_eq!(
            (strictness.episodes, strictness.overspent, strictness.aborted),
            (3, 1, 1)
        );
        assert!(strictness.worst > 0.0 && strictness.worst < 1e-16);
        assert_eq!(strictness.reason.as_deref(), Some("infeasible"));
    }
}
