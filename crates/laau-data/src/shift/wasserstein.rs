//! Distances between distributions: Wasserstein-1 on the line, and sliced in several dimensions.
//!
//! | function | between | cost |
//! |---|---|---|
//! | [`wasserstein`] | two samples of numbers, of any sizes | exact, `n log n` |
//! | [`pooled_wasserstein`] | all contexts of two sets of episodes, as numbers: the `d_W` of the experiments | exact, `n log n` |
//! | [`sliced_wasserstein`] | two sets of episodes, each a point in `N · context` dimensions | a seeded average over directions |

use laau_core::Episodes;
use rayon::prelude::*;

use crate::error::{Error, invalid};
use crate::random::{Purpose, normal_pair, stream};

/// The Wasserstein-1 distance between two samples of numbers, of any sizes: `∫ |F⁻¹(u) − G⁻¹(u)| du`, by sorting.
///
/// The masses are whole numbers, so the only error is the rounding of the sum.
///
/// ```
/// use laau_data::wasserstein::wasserstein;
///
/// assert_eq!(wasserstein(&[0.0, 1.0], &[3.0, 2.0])?, 2.0);
/// assert_eq!(wasserstein(&[0.0], &[0.0, 1.0, 2.0])?, 1.0);
/// # Ok::<(), laau_data::Error>(())
/// ```
///
/// # Errors
/// [`Error::Invalid`] for an empty sample or one that is not finite.
pub fn wasserstein(first: &[f64], second: &[f64]) -> Result<f64, Error> {
    Ok(between_sorted(&sorted(first)?, &sorted(second)?))
}

/// The Wasserstein-1 distance between all contexts of two sets of episodes, taken as plain numbers.
///
/// # Errors
/// [`Error::Invalid`] for an empty set.
pub fn pooled_wasserstein(first: &Episodes, second: &Episodes) -> Result<f64, Error> {
    wasserstein(first.contexts(), second.contexts())
}

/// Options of [`sliced_wasserstein`].
///
/// | option | default | purpose | range |
/// |---|---|---|---|
/// | `directions` | 200 | directions that the average is over | ≥ 1 |
/// | `seed` | 0 | of the directions | any |
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Slices {
    /// Directions that the average is over.
    pub directions: usize,
    /// The seed of the directions.
    pub seed: u64,
}

impl Default for Slices {
    fn default() -> Self {
        Self {
            directions: 200,
            seed: 0,
        }
    }
}

/// The sliced Wasserstein-1 distance between two sets of episodes: the mean, over seeded directions of unit length, of the
/// distance between the two projected samples.
///
/// A projection shortens distances, so this is at most the exact distance between the sets; in one dimension they are
/// equal. Sets that differ by a constant vector `v` are at `|v| · E|θ_1|` on average, with `θ` uniform on the
/// sphere.
///
/// # Errors
/// [`Error::Invalid`] for an empty set, no directions, or episodes of different shapes.
pub fn sliced_wasserstein(first: &Episodes, second: &Episodes, slices: &Slices) -> Result<f64, Error> {
    let dimension = common_dimension(first, second)?;
    if slices.directions == 0 {
        return Err(invalid("directions", "expected at least one, found none"));
    }
    let distances: Vec<f64> = (0..slices.directions as u64)
        .into_par_iter()
        .map(|index| {
            let direction = unit_vector(dimension, slices.seed, index);
            let project = |set: &Episodes| {
                let mut values: Vec<f64> = set
                    .contexts()
                    .chunks_exact(dimension)
                    .map(|point| point.iter().zip(&direction).map(|(p, d)| p * d).sum())
                    .collect();
                values.sort_unstable_by(f64::total_cmp);
                values
            };
            between_sorted(&project(first), &project(second))
        })
        .collect();
    Ok(distances.iter().sum::<f64>() / slices.directions as f64)
}

/// A sorted copy of a finite, non-empty sample.
pub(crate) fn sorted(sample: &[f64]) -> Result<Vec<f64>, Error> {
    if sample.is_empty() {
        return Err(invalid("sample", "expected at least one value, found none"));
    }
    if let Some(value) = sample.iter().find(|value| !value.is_finite()) {
        return Err(invalid(
            "sample",
            format!("expected finite values, found {value}"),
        ));
    }
    let mut sample = sample.to_vec();
    sample.par_sort_unstable_by(f64::total_cmp);
    Ok(sample)
}

/// The distance between two sorted samples. Each of the `n` values on the left holds `m` units of mass, each of the `m`
/// on the right `n`; the units are moved in order.
pub(crate) fn between_sorted(left: &[f64], right: &[f64]) -> f64 {
    let (n, m) = (left.len() as u64, right.len() as u64);
    let (mut i, mut j) = (0, 0);
    let (mut left_mass, mut right_mass) = (m, n);
    let mut total = 0.0;
    while i < left.len() && j < right.len() {
        let moved = left_mass.min(right_mass);
        total += (left[i] - right[j]).abs() * moved as f64;
        left_mass -= moved;
        right_mass -= moved;
        if left_mass == 0 {
            i += 1;
            left_mass = m;
        }
        if right_mass == 0 {
            j += 1;
            right_mass = n;
        }
    }
    total / n as f64 / m as f64
}

fn common_dimension(first: &Episodes, second: &Episodes) -> Result<usize, Error> {
    let dimension = |set: &Episodes| set.horizon() * set.context_len();
    if first.is_empty() || second.is_empty() {
        return Err(invalid(
            "sets of episodes",
            format!(
                "expected at least one episode in each, found {} and {}",
                first.len(),
                second.len()
            ),
        ));
    }
    if dimension(first) != dimension(second) {
        return Err(invalid(
            "sets of episodes",
            format!(
                "expected episodes of one shape, found {} and {} context values in each",
                dimension(first),
                dimension(second)
            ),
        ));
    }
    Ok(dimension(first))
}

/// A direction drawn uniformly from the unit sphere.
fn unit_vector(dimension: usize, seed: u64, index: u64) -> Vec<f64> {
    let mut generator = stream(seed, Purpose::Directions, index);
    loop {
        let mut vector = Vec::with_capacity(dimension + 1);
        while vector.len() < dimension {
            let (a, b) = normal_pair(&mut generator);
            vector.extend([a, b]);
        }
        vector.truncate(dimension);
        let length = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
        if length > 0.0 {
            return vector.iter().map(|v| v / length).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::normal;
    use proptest::prelude::*;

    fn points(count: usize, dimension: usize, seed: u64, shift: f64) -> Episodes {
        let mut generator = stream(seed, Purpose::Noise, 0);
        let contexts = (0..count * dimension)
            .map(|_| shift + normal(&mut generator))
            .collect();
        Episodes::new(dimension, 1, 1, contexts, vec![1.0; count]).unwrap()
    }

    /// The exact Wasserstein-1 distance between two sets of equal size: the cheapest assignment, by the Hungarian method.
    fn transport(first: &Episodes, second: &Episodes) -> f64 {
        let (n, dimension) = (first.len(), first.horizon() * first.context_len());
        let cost = |i: usize, j: usize| -> f64 {
            let (a, b) = (
                &first.contexts()[i * dimension..],
                &second.contexts()[j * dimension..],
            );
            let square: f64 = (0..dimension).map(|k| (a[k] - b[k]).powi(2)).sum();
            square.sqrt()
        };
        // Rows and columns count from 1; column 0 holds the row that is being assigned.
        let (mut u, mut v, mut row_of) = (vec![0.0; n + 1], vec![0.0; n + 1], vec![0; n + 1]);
        for row in 1..=n {
            let (mut least, mut done) = (vec![f64::INFINITY; n + 1], vec![false; n + 1]);
            let (mut before, mut column) = (vec![0; n + 1], 0);
            row_of[0] = row;
            while row_of[column] != 0 {
                done[column] = true;
                let (from, mut step, mut next) = (row_of[column], f64::INFINITY, 0);
                for j in (1..=n).filter(|&j| !done[j]) {
                    let reduced = cost(from - 1, j - 1) - u[from] - v[j];
                    if reduced < least[j] {
                        (least[j], before[j]) = (reduced, column);
                    }
                    if least[j] < step {
                        (step, next) = (least[j], j);
                    }
                }
                for j in 0..=n {
                    if done[j] {
                        u[row_of[j]] += step;
                        v[j] -= step;
                    } else {
                        least[j] -= step;
                    }
                }
                column = next;
            }
            while column != 0 {
                row_of[column] = row_of[before[column]];
                column = before[column];
            }
        }
        (1..=n).map(|j| cost(row_of[j] - 1, j - 1)).sum::<f64>() / n as f64
    }

    #[test]
    fn a_constant_shift_is_its_own_distance() {
        let sample: Vec<f64> = points(1000, 1, 1, 0.0).contexts().to_vec();
        for shift in [-2.0, 0.0, 0.125, 7.0] {
            let shifted: Vec<f64> = sample.iter().map(|x| x + shift).collect();
            let distance = wasserstein(&sample, &shifted).unwrap();
            assert!((distance - f64::abs(shift)).abs() < 1e-12, "{shift}: {distance}");
        }
    }

    #[test]
    fn gaussians_are_as_far_apart_as_their_means_or_deviations() {
        let normals = |seed, mean: f64, deviation: f64| -> Vec<f64> {
            let set = points(400_000, 1, seed, 0.0);
            set.contexts().iter().map(|z| mean + deviation * z).collect()
        };
        // N(0, 1) to N(3, 1) is 3; N(0, 1) to N(0, 2²) is E|z| = √(2/π).
        let one = normals(1, 0.0, 1.0);
        let moved = wasserstein(&one, &normals(2, 3.0, 1.0)).unwrap();
        assert!((moved - 3.0).abs() < 0.01, "{moved}");
        let widened = wasserstein(&one, &normals(3, 0.0, 2.0)).unwrap();
        assert!(
            (widened - std::f64::consts::FRAC_2_PI.sqrt()).abs() < 0.01,
            "{widened}"
        );
    }

    #[test]
    fn bad_samples_are_refused_with_a_word() {
        let check = |a: &[f64], b: &[f64], expected: &str| {
            assert_eq!(wasserstein(a, b).unwrap_err().to_string(), expected);
        };
        check(
            &[],
            &[1.0],
            "invalid sample: expected at least one value, found none",
        );
        check(
            &[1.0],
            &[f64::NAN],
            "invalid sample: expected finite values, found NaN",
        );
        let (two, three) = (points(4, 2, 1, 0.0), points(4, 3, 1, 0.0));
        assert_eq!(
            sliced_wasserstein(&two, &three, &Slices::default())
                .unwrap_err()
                .to_string(),
            "invalid sets of episodes: expected episodes of one shape, found 2 and 3 context values in each"
        );
    }

    #[test]
    fn in_one_dimension_all_three_distances_agree() {
        let (a, b) = (points(60, 1, 1, 0.0), points(60, 1, 2, 0.4));
        let line = pooled_wasserstein(&a, &b).unwrap();
        let sliced = sliced_wasserstein(&a, &b, &Slices::default()).unwrap();
        let exact = transport(&a, &b);
        assert!((line - exact).abs() < 1e-12, "{line} and {exact}");
        assert!((line - sliced).abs() < 1e-12, "{line} and {sliced}");
    }

    #[test]
    fn a_shifted_cloud_is_at_its_shift_and_slices_see_their_share_of_it() {
        let (count, dimension) = (200, 20);
        let cloud = points(count, dimension, 1, 0.0);
        let moved: Vec<f64> = cloud.contexts().iter().map(|x| x + 1.0).collect();
        let moved = Episodes::new(dimension, 1, 1, moved, vec![1.0; count]).unwrap();
        let exact = transport(&cloud, &moved);
        assert!((exact - 20f64.sqrt()).abs() < 1e-12, "{exact}");
        // E|θ_1| = Γ(n/2) / (√π Γ((n+1)/2)); for n = 20 it is 0.1802 (0.180159…, by the recursion from n = 2).
        let mut share = std::f64::consts::FRAC_2_PI;
        for n in (2..20).step_by(2) {
            share *= f64::from(n) / f64::from(n + 1);
        }
        let slices = Slices {
            directions: 4000,
            seed: 3,
        };
        let sliced = sliced_wasserstein(&cloud, &moved, &slices).unwrap();
        assert!(
            (sliced / (20f64.sqrt() * share) - 1.0).abs() < 0.05,
            "{sliced}, share {share}"
        );
    }

    #[test]
    fn slices_are_the_same_for_a_seed_and_any_number_of_threads() {
        let (a, b) = (points(300, 5, 1, 0.0), points(200, 5, 2, 0.3));
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let alone = one.install(|| sliced_wasserstein(&a, &b, &Slices::default()).unwrap());
        let together = sliced_wasserstein(&a, &b, &Slices::default()).unwrap();
        assert_eq!(alone.to_bits(), together.to_bits());
        let other = Slices {
            seed: 2,
            ..Slices::default()
        };
        assert_ne!(together, sliced_wasserstein(&a, &b, &other).unwrap());
    }

    fn sample(sizes: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(-10.0..10.0f64, sizes)
    }

    proptest! {
        #[test]
        fn different_sizes_equal_the_replicated_samples(a in sample(1..9), b in sample(1..9)) {
            // Brute force: copy both to the same size, then pair the sorted values.
            let copy = |s: &[f64], times: usize| {
                let mut copies: Vec<f64> = s.iter().flat_map(|x| vec![*x; times]).collect();
                copies.sort_by(f64::total_cmp);
                copies
            };
            let (left, right) = (copy(&a, b.len()), copy(&b, a.len()));
            let paired = left.iter().zip(&right).map(|(x, y)| (x - y).abs()).sum::<f64>() / left.len() as f64;
            prop_assert!((wasserstein(&a, &b).unwrap() - paired).abs() < 1e-12);
        }

        #[test]
        fn it_is_a_metric(a in sample(1..30), b in sample(1..30), c in sample(1..30)) {
            let d = |x: &[f64], y: &[f64]| wasserstein(x, y).unwrap();
            prop_assert_eq!(d(&a, &a), 0.0);
            prop_assert!((d(&a, &b) - d(&b, &a)).abs() < 1e-12);
            prop_assert!(d(&a, &c) <= d(&a, &b) + d(&b, &c) + 1e-12);
            let mean = |s: &[f64]| s.iter().sum::<f64>() / s.len() as f64;
            prop_assert!(d(&a, &b) + 1e-12 >= (mean(&a) - mean(&b)).abs());
        }

        #[test]
        fn it_scales_and_forgets_a_common_shift(a in sample(1..20), b in sample(1..20), k in -3.0..3.0f64) {
            let map = |s: &[f64]| s.iter().map(|x| k * x + 5.0).collect::<Vec<_>>();
            let expected = k.abs() * wasserstein(&a, &b).unwrap();
            prop_assert!((wasserstein(&map(&a), &map(&b)).unwrap() - expected).abs() < 1e-10);
        }

        #[test]
        fn slices_never_exceed_the_exact_distance(seed in 0u64..1000, dimension in 1usize..6, count in 1usize..25) {
            let (a, b) = (points(count, dimension, seed, 0.0), points(count, dimension, seed + 5000, 0.5));
            let slices = Slices { directions: 20, seed };
            let sliced = sliced_wasserstein(&a, &b, &slices).unwrap();
            let exact = transport(&a, &b);
            prop_assert!(sliced <= exact + 1e-12, "{} > {}", sliced, exact);
        }
    }
}
