//! t-SNE: episodes of two sets as points in the plane.

use bhtsne::{Neighbor, tSNE};
use laau_core::Episodes;
use rayon::prelude::*;

use crate::error::{Error, invalid, positive};
use crate::random::{Purpose, normal_pair, stream};

/// Options of [`tsne`].
///
/// | option | default | purpose | range |
/// |---|---|---|---|
/// | `per_set` | 500 | episodes taken from each set, evenly spread over it | ≥ 1 |
/// | `perplexity` | 30 | effective number of neighbours | ≥ 1, at most a third of the other points |
/// | `epochs` | 1000 | steps of gradient descent | ≥ 1 |
/// | `theta` | 0.5 | accuracy of Barnes and Hut's approximation, smaller is finer | > 0 |
/// | `seed` | 0 | of the first embedding | any |
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct TsneOptions {
    /// Episodes taken from each set, evenly spread over it; all, if it has fewer.
    pub per_set: usize,
    /// Effective number of neighbours.
    pub perplexity: f64,
    /// Steps of gradient descent.
    pub epochs: usize,
    /// Accuracy of the approximation, smaller is finer.
    pub theta: f64,
    /// Seed of the first embedding.
    pub seed: u64,
}

impl Default for TsneOptions {
    fn default() -> Self {
        Self {
            per_set: 500,
            perplexity: 30.0,
            epochs: 1000,
            theta: 0.5,
            seed: 0,
        }
    }
}

/// The set that an embedded episode is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EmbeddedSet {
    /// The training episodes.
    Training,
    /// The testing episodes.
    Testing,
}

/// An episode as a point in the plane.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct EmbeddedEpisode {
    /// The set it is from.
    pub set: EmbeddedSet,
    /// Its position in that set.
    pub episode: usize,
    /// First coordinate.
    pub x: f64,
    /// Second coordinate.
    pub y: f64,
}

/// Embeds training and testing episodes, each the vector of its contexts, in the plane: training episodes first, each set
/// in its order.
///
/// The same input gives the same bits on one machine: the first embedding comes from our seeded generator, neighbours
/// are found exactly and ties between them go to the earlier episode (the crate's own tree draws unseeded pivots), and
/// the descent runs in a pool of one thread (the crate's parallel sums depend on work stealing).
///
/// # Errors
/// [`Error::Invalid`] for an option outside its range, episodes of different shapes, or too few for the perplexity.
pub fn tsne(
    training: &Episodes,
    testing: &Episodes,
    options: &TsneOptions,
) -> Result<Vec<EmbeddedEpisode>, Error> {
    let chosen: Vec<(EmbeddedSet, usize)> =
        [(EmbeddedSet::Training, training), (EmbeddedSet::Testing, testing)]
            .into_iter()
            .flat_map(|(set, episodes)| {
                let (len, taken) = (episodes.len(), options.per_set.min(episodes.len()));
                (0..taken).map(move |k| (set, k * len / taken))
            })
            .collect();
    check(training, testing, chosen.len(), options)?;
    let points: Vec<&[f64]> = chosen
        .iter()
        .map(|&(set, episode)| match set {
            EmbeddedSet::Training => training.get(episode).contexts(),
            EmbeddedSet::Testing => testing.get(episode).contexts(),
        })
        .collect();
    let neighbours = nearest(&points, neighbour_count(options.perplexity));
    let start = first_embedding(points.len(), options.seed);

    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .map_err(|error| invalid("thread pool", format!("expected one more thread, found: {error}")))?;
    let embedding = pool.install(|| {
        tSNE::<f64, &[f64], 2>::new(&points)
            .perplexity(options.perplexity)
            .epochs(options.epochs)
            .initial_embedding(start)
            .barnes_hut_with_neighbors(options.theta, &neighbours)
            .embedding()
    });
    Ok(chosen
        .into_iter()
        .zip(embedding.chunks_exact(2))
        .map(|((set, episode), point)| EmbeddedEpisode {
            set,
            episode,
            x: point[0],
            y: point[1],
        })
        .collect())
}

/// Three times the perplexity, the usual cut-off: weights of more distant points are negligible.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the perplexity is at least 1 and at most a third of the points"
)]
fn neighbour_count(perplexity: f64) -> usize {
    (3.0 * perplexity) as usize
}

/// The `count` nearest points of each point, nearest first; of equally near ones the first.
fn nearest(points: &[&[f64]], count: usize) -> Vec<Vec<Neighbor<f64>>> {
    (0..points.len())
        .into_par_iter()
        .map(|this| {
            let mut others: Vec<Neighbor<f64>> = (0..points.len())
                .filter(|&other| other != this)
                .map(|index| Neighbor {
                    index,
                    distance: euclidean(points[this], points[index]),
                })
                .collect();
            let order = |a: &Neighbor<f64>, b: &Neighbor<f64>| {
                a.distance.total_cmp(&b.distance).then(a.index.cmp(&b.index))
            };
            if count < others.len() {
                others.select_nth_unstable_by(count, order);
                others.truncate(count);
            }
            others.sort_unstable_by(order);
            others
        })
        .collect()
}

fn euclidean(a: &[f64], b: &[f64]) -> f64 {
    let square: f64 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
    square.sqrt()
}

/// Normal draws of standard deviation 10⁻⁴, the usual start.
fn first_embedding(count: usize, seed: u64) -> Vec<f64> {
    let mut generator = stream(seed, Purpose::Embedding, 0);
    (0..count)
        .flat_map(|_| {
            let (x, y) = normal_pair(&mut generator);
            [1e-4 * x, 1e-4 * y]
        })
        .collect()
}

fn check(training: &Episodes, testing: &Episodes, points: usize, options: &TsneOptions) -> Result<(), Error> {
    let shape = |set: &Episodes| (set.horizon(), set.context_len());
    let &TsneOptions {
        perplexity,
        epochs,
        theta,
        ..
    } = options;
    if shape(training) != shape(testing) {
        return Err(invalid(
            "sets of episodes",
            format!(
                "expected one horizon and context length, found {:?} and {:?}",
                shape(training),
                shape(testing)
            ),
        ));
    }
    positive("theta", theta)?;
    if epochs == 0 {
        return Err(invalid("epochs", "expected at least one, found none"));
    }
    if !(perplexity >= 1.0 && 3.0 * perplexity <= points.saturating_sub(1) as f64) {
        return Err(invalid(
            "perplexity",
            format!(
                "expected a value from 1 to a third of the other points, {:.1}, found {perplexity}",
                points.saturating_sub(1) as f64 / 3.0
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two clouds of unit deviation in eight dimensions, `apart` between their centres.
    fn clouds(apart: f64) -> (Episodes, Episodes) {
        let cloud = |index, centre: f64| {
            let mut generator = stream(9, Purpose::Noise, index);
            let contexts = (0..80 * 8)
                .map(|k| normal_pair(&mut generator).0 + if k % 8 == 0 { centre } else { 0.0 })
                .collect();
            Episodes::new(8, 1, 1, contexts, vec![1.0; 80]).unwrap()
        };
        (cloud(0, 0.0), cloud(1, apart))
    }

    fn options() -> TsneOptions {
        TsneOptions {
            per_set: 60,
            perplexity: 15.0,
            epochs: 400,
            ..TsneOptions::default()
        }
    }

    /// The share of points whose nearest neighbour in the plane is of their own set.
    fn purity(points: &[EmbeddedEpisode]) -> f64 {
        let alike = points.iter().enumerate().filter(|(i, point)| {
            let nearest = points
                .iter()
                .enumerate()
                .filter(|(j, _)| j != i)
                .min_by(|(_, a), (_, b)| {
                    let square = |p: &EmbeddedEpisode| (p.x - point.x).powi(2) + (p.y - point.y).powi(2);
                    square(a).total_cmp(&square(b))
                });
            nearest.is_some_and(|(_, other)| other.set == point.set)
        });
        alike.count() as f64 / points.len() as f64
    }

    #[test]
    fn clouds_far_apart_separate_and_clouds_in_one_place_mix() {
        let (training, testing) = clouds(12.0);
        let points = tsne(&training, &testing, &options()).unwrap();
        assert_eq!(points.len(), 120);
        assert_eq!(purity(&points), 1.0);
        let (training, testing) = clouds(0.0);
        let mixed = purity(&tsne(&training, &testing, &options()).unwrap());
        assert!((0.3..0.7).contains(&mixed), "{mixed}");
    }

    #[test]
    fn one_seed_gives_the_same_bits_in_any_pool() {
        let (training, testing) = clouds(2.0);
        let bits = |seed| {
            let options = TsneOptions { seed, ..options() };
            let points = tsne(&training, &testing, &options).unwrap();
            points
                .iter()
                .flat_map(|p| [p.x.to_bits(), p.y.to_bits()])
                .collect::<Vec<_>>()
        };
        let first = bits(1);
        assert_eq!(first, bits(1));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
        assert_eq!(first, pool.install(|| bits(1)));
        assert_ne!(first, bits(2));
    }

    #[test]
    fn episodes_that_are_all_the_same_still_have_places() {
        let same = Episodes::new(3, 1, 1, vec![0.5; 3 * 40], vec![1.0; 40]).unwrap();
        let options = TsneOptions {
            perplexity: 5.0,
            ..options()
        };
        let points = tsne(&same, &same, &options).unwrap();
        assert!(points.iter().all(|p| p.x.is_finite() && p.y.is_finite()));
    }

    #[test]
    fn points_are_spread_over_their_set_and_know_their_episode() {
        let (training, testing) = clouds(1.0);
        let options = TsneOptions {
            per_set: 20,
            perplexity: 5.0,
            epochs: 10,
            ..options()
        };
        let points = tsne(&training, &testing, &options).unwrap();
        let expected: Vec<usize> = (0..20).map(|k| 4 * k).collect();
        for (half, set) in points
            .chunks(20)
            .zip([EmbeddedSet::Training, EmbeddedSet::Testing])
        {
            assert!(half.iter().all(|point| point.set == set));
            assert_eq!(
                half.iter().map(|point| point.episode).collect::<Vec<_>>(),
                expected
            );
        }
    }

    #[test]
    fn bad_options_are_refused_with_a_word() {
        let (training, testing) = clouds(1.0);
        let check = |options: TsneOptions, expected: &str| {
            let error = tsne(&training, &testing, &options).unwrap_err();
            assert_eq!(error.to_string(), expected);
        };
        check(
            TsneOptions {
                perplexity: 60.0,
                ..options()
            },
            "invalid perplexity: expected a value from 1 to a third of the other points, 39.7, found 60",
        );
        check(
            TsneOptions {
                theta: 0.0,
                ..options()
            },
            "invalid theta: expected a positive value, found 0",
        );
        check(
            TsneOptions {
                epochs: 0,
                ..options()
            },
            "invalid epochs: expected at least one, found none",
        );
        let short = Episodes::new(3, 1, 1, vec![0.5; 3 * 40], vec![1.0; 40]).unwrap();
        assert_eq!(
            tsne(&short, &testing, &options()).unwrap_err().to_string(),
            "invalid sets of episodes: expected one horizon and context length, found (3, 1) and (8, 1)"
        );
    }
}
