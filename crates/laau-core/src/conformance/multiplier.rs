use crate::episode::Episodes;
use crate::policy::Observation;
use crate::problem::Problem;
use crate::unrolled::{Multiplier, Pricer};

/// Checks a multiplier: one finite, non-negative price per budget at every observation, whatever is left of the budget,
/// and the same price for the same observation, whatever was asked before, by a pricer that has read the episode step by
/// step and by one that is opened in the middle of it.
pub fn multiplier(problem: &dyn Problem, multiplier: &dyn Multiplier, episodes: &Episodes) {
    let m = problem.dimensions().budgets;
    assert!(
        multiplier.budgets() == m,
        "prices {} budgets, the problem has {m}",
        multiplier.budgets()
    );
    let mut asked: Vec<(usize, usize, Vec<f64>, Vec<f64>)> = Vec::new();
    for (index, episode) in episodes.iter().enumerate() {
        let mut pricer = multiplier.begin();
        for step in 0..episode.horizon() {
            for share in [1.0, 0.4, 0.0] {
                let left = share * (episode.horizon() - step) as f64 / episode.horizon() as f64;
                let mut reserve = vec![0.0; m];
                problem.reserve(episode.horizon() - step, &mut reserve);
                let remaining: Vec<f64> = episode
                    .budgets()
                    .iter()
                    .zip(&reserve)
                    .map(|(b, r)| (b * left).max(*r))
                    .collect();
                let price = ask(problem, &mut *pricer, episodes, (index, step), &remaining);
                assert!(
                    price.iter().all(|p| p.is_finite() && *p >= 0.0),
                    "episode {index}, step {step}, remaining {remaining:?}: prices {price:?}"
                );
                asked.push((index, step, remaining, price));
            }
        }
    }
    let mut reused = (usize::MAX, multiplier.begin());
    for (index, step, remaining, price) in asked.iter().rev() {
        if reused.0 != *index {
            reused = (*index, multiplier.begin());
        }
        for pricer in [&mut reused.1, &mut multiplier.begin()] {
            let again = ask(problem, &mut **pricer, episodes, (*index, *step), remaining);
            assert!(
                again == *price,
                "episode {index}, step {step}: {price:?} when asked first, {again:?} when asked again"
            );
        }
    }
}

fn ask(
    problem: &dyn Problem,
    pricer: &mut dyn Pricer,
    episodes: &Episodes,
    (index, step): (usize, usize),
    remaining: &[f64],
) -> Vec<f64> {
    let episode = episodes.get(index);
    let mut available = vec![0.0; remaining.len()];
    problem.reserve(episode.horizon() - 1 - step, &mut available);
    for (available, remaining) in available.iter_mut().zip(remaining) {
        *available = remaining - *available;
    }
    let observation = Observation {
        step,
        horizon: episode.horizon(),
        contexts: &episode.contexts()[..(step + 1) * episode.context_len()],
        context_len: episode.context_len(),
        budgets: episode.budgets(),
        remaining,
        available: &available,
    };
    let mut price = vec![f64::NAN; remaining.len()];
    if let Err(error) = pricer.price(&observation, &mut price) {
        panic!("episode {index}, step {step}: {error}");
    }
    price
}
