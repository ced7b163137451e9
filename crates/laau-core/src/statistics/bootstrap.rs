//! The hierarchical bootstrap: seeds, then series, then episodes; and where seeds share series, what each series is worth.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::error::{Error, expect_finite, expect_length};

/// Values of the test episodes of one seed: one row per episode, one column per quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct SeedSample {
    /// The seed.
    pub seed: u64,
    /// The series of each episode, by a number that is the same wherever the series occurs.
    pub series: Vec<u64>,
    /// Episode × column.
    pub values: Vec<f64>,
}

/// A figure of the episodes of a seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// The mean of a column.
    Mean(usize),
    /// The value that a share of a column's episodes stay at or below.
    Quantile(usize, f64),
}

impl Measure {
    fn column(self) -> usize {
        match self {
            Self::Mean(column) | Self::Quantile(column, _) => column,
        }
    }
}

/// How episodes are drawn again.
///
/// | field | default | purpose |
/// |---|---|---|
/// | `replicates` | 2000 | draws; the quantile at 95 % of their statistics rests on a twentieth of them |
/// | `seed` | 0 | of every draw |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bootstrap {
    /// Number of draws.
    pub replicates: usize,
    /// Seed of every draw.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self {
            replicates: 2000,
            seed: 0,
        }
    }
}

/// The measures of every seed as they were observed, and as often as asked drawn again.
#[derive(Debug, Clone, PartialEq)]
pub struct Resampled {
    pub(super) seeds: Vec<u64>,
    /// Different series over all seeds.
    pub(super) series: usize,
    /// If some series occurs under several seeds: the measures of a seed, by its place, without one of its series. A seed with one series
    /// has none.
    pub(super) without: Option<BTreeMap<(u64, usize), Vec<f64>>>,
    pub(super) measures: usize,
    /// Seeds that were drawn in each replicate, each counted once.
    pub(super) different: Vec<usize>,
    /// Seed × measure.
    pub(super) observed: Vec<f64>,
    /// Replicate × slot × measure; a slot is a seed that was drawn. Empty if seeds share series.
    pub(super) draws: Vec<f64>,
}

impl Bootstrap {
    /// Draws again: seeds with replacement, and for each that is drawn series and then episodes by Poisson weights of mean 1.
    ///
    /// Every weight is a hash of what it is for, so that it does not depend on any order: two samples of the same seeds draw
    /// the same seeds, and a series that occurs in several samples has the same weight in all of them. Differences between
    /// columns, and between samples, are paired that way. Where seeds share series, nothing is drawn; every series is left out once.
    ///
    /// # Errors
    /// [`Error::Empty`] without seeds, episodes or replicates; [`Error::WrongLength`] or [`Error::NotFinite`].
    pub fn draw(self, seeds: &[SeedSample], measures: &[Measure]) -> Result<Resampled, Error> {
        for (what, empty) in [
            ("seed", seeds.is_empty()),
            ("measure", measures.is_empty()),
            ("replicate", self.replicates == 0),
        ] {
            if empty {
                return Err(Error::Empty { what });
            }
        }
        let prepared: Vec<Prepared> = seeds
            .iter()
            .map(|sample| Prepared::new(sample, measures))
            .collect::<Result<_, Error>>()?;
        let mut owners: Vec<(u64, usize)> = prepared
            .iter()
            .enumerate()
            .flat_map(|(seed, sample)| sample.groups.iter().map(move |group| (group.series, seed)))
            .collect();
        owners.sort_unstable();
        let shares_series = owners.windows(2).any(|pair| pair[0].0 == pair[1].0);
        owners.dedup_by_key(|(series, _)| *series);
        let mut observed = vec![0.0; seeds.len() * measures.len()];
        for (sample, out) in prepared.iter().zip(observed.chunks_exact_mut(measures.len())) {
            sample.measure(&vec![1.0; sample.episodes], measures, out);
        }
        let without = shares_series.then(|| {
            let of = |(place, sample): (usize, &Prepared)| sample.without_each(place, measures);
            prepared.iter().enumerate().flat_map(of).collect()
        });
        let replicates = if shares_series { 0 } else { self.replicates };
        let drawn_seed = |replicate: u64, slot: usize| below(mix(replicate, slot as u64), seeds.len());
        let different = (0..replicates)
            .map(|replicate| {
                let replicate = mix(self.seed, replicate as u64);
                let mut drawn: Vec<usize> =
                    (0..seeds.len()).map(|slot| drawn_seed(replicate, slot)).collect();
                drawn.sort_unstable();
                drawn.dedup();
                drawn.len()
            })
            .collect();
        let mut draws = vec![0.0; replicates * observed.len()];
        draws
            .par_chunks_mut(observed.len())
            .enumerate()
            .for_each(|(replicate, out)| {
                let replicate = mix(self.seed, replicate as u64);
                let mut weights = Vec::new();
                for (slot, out) in out.chunks_exact_mut(measures.len()).enumerate() {
                    let drawn = mix(replicate, slot as u64);
                    let sample = &prepared[drawn_seed(replicate, slot)];
                    sample.weigh(drawn, &mut weights);
                    sample.measure(&weights, measures, out);
                }
            });
        Ok(Resampled {
            seeds: seeds.iter().map(|sample| sample.seed).collect(),
            series: owners.len(),
            without,
            measures: measures.len(),
            different,
            observed,
            draws,
        })
    }
}

impl Resampled {
    /// Number of measures.
    #[must_use]
    pub fn measures(&self) -> usize {
        self.measures
    }
}

/// Episodes of one series, which stand together.
struct Group {
    series: u64,
    len: usize,
}

/// The episodes of a seed, series by series.
struct Prepared {
    groups: Vec<Group>,
    episodes: usize,
    columns: usize,
    values: Vec<f64>,
    /// For each measure that is a quantile, the episodes in the order of their values.
    orders: Vec<Vec<u32>>,
}

impl Prepared {
    fn new(sample: &SeedSample, measures: &[Measure]) -> Result<Self, Error> {
        let episodes = sample.series.len();
        if episodes == 0 {
            return Err(Error::Empty { what: "episode" });
        }
        let columns = sample.values.len() / episodes;
        expect_length("values of episodes", &sample.values, episodes * columns)?;
        expect_finite("values of episodes", &sample.values)?;
        let needed = measures.iter().map(|measure| measure.column() + 1).max();
        if needed.is_some_and(|needed| needed > columns) {
            return Err(Error::WrongLength {
                what: "the columns of episodes",
                expected: needed.unwrap_or_default(),
                found: columns,
            });
        }
        let mut order: Vec<usize> = (0..episodes).collect();
        order.sort_by_key(|&episode| sample.series[episode]);
        let mut values = Vec::with_capacity(sample.values.len());
        let mut groups: Vec<Group> = Vec::new();
        for &episode in &order {
            values.extend_from_slice(&sample.values[episode * columns..][..columns]);
            match groups.last_mut() {
                Some(group) if group.series == sample.series[episode] => group.len += 1,
                _ => groups.push(Group {
                    series: sample.series[episode],
                    len: 1,
                }),
            }
        }
        let orders = measures
            .iter()
            .map(|measure| match measure {
                Measure::Mean(_) => Vec::new(),
                Measure::Quantile(column, _) => {
                    let mut order: Vec<u32> = (0..u32::try_from(episodes).unwrap_or(u32::MAX)).collect();
                    let value = |episode: u32| values[episode as usize * columns + column];
                    order.sort_by(|a, b| value(*a).total_cmp(&value(*b)));
                    order
                }
            })
            .collect();
        Ok(Self {
            groups,
            episodes,
            columns,
            values,
            orders,
        })
    }

    /// The measures without each series, for a seed at this place.
    fn without_each(&self, place: usize, measures: &[Measure]) -> Vec<((u64, usize), Vec<f64>)> {
        let mut begin = 0;
        let mut found = Vec::new();
        for group in self.groups.iter().filter(|_| self.groups.len() > 1) {
            let mut weights = vec![1.0; self.episodes];
            weights[begin..begin + group.len].fill(0.0);
            begin += group.len;
            let mut out = vec![0.0; measures.len()];
            self.measure(&weights, measures, &mut out);
            found.push(((group.series, place), out));
        }
        found
    }

    /// Weights of the episodes in one draw.
    fn weigh(&self, drawn: u64, weights: &mut Vec<f64>) {
        // Of few series all may be drawn zero times; then they are drawn again.
        const TRIES: u64 = 50;
        for attempt in 0..TRIES {
            weights.clear();
            let mut any = false;
            for group in &self.groups {
                let weight = poisson(mix(mix(drawn, group.series), attempt));
                for episode in 0..group.len {
                    let within = match group.len {
                        1 => 1.0,
                        _ if weight == 0.0 => 0.0,
                        _ => poisson(mix(mix(drawn ^ EPISODES, group.series), episode as u64)),
                    };
                    any |= weight * within > 0.0;
                    weights.push(weight * within);
                }
            }
            if any {
                return;
            }
        }
        weights.clear();
        weights.resize(self.episodes, 1.0);
    }

    fn measure(&self, weights: &[f64], measures: &[Measure], out: &mut [f64]) {
        let total: f64 = weights.iter().sum();
        out.fill(0.0);
        for (row, &weight) in self.values.chunks_exact(self.columns).zip(weights) {
            if weight == 0.0 {
                continue;
            }
            for (out, measure) in out.iter_mut().zip(measures) {
                if let Measure::Mean(column) = measure {
                    *out += weight * row[*column];
                }
            }
        }
        for ((out, measure), order) in out.iter_mut().zip(measures).zip(&self.orders) {
            match measure {
                Measure::Mean(_) => *out /= total,
                Measure::Quantile(column, share) => {
                    let mut sum = 0.0;
                    let at = order.iter().find(|&&episode| {
                        sum += weights[episode as usize];
                        sum >= share * total
                    });
                    let at = at.or(order.last()).map_or(0, |episode| *episode as usize);
                    *out = self.values[at * self.columns + column];
                }
            }
        }
    }
}

/// Keeps the weights of episodes apart from those of series.
const EPISODES: u64 = 0x6570_6973_6f64_6573;

/// A well mixed number from two: the finaliser of `SplitMix64`.
fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.rotate_left(23)
        ^ b.wrapping_add(0x9e37_79b9_7f4a_7c15)
            .wrapping_mul(0xd6e8_feb8_6659_fd93);
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number below a bound from a uniform one.
#[expect(clippy::cast_possible_truncation, reason = "the product is below the bound")]
fn below(uniform: u64, bound: usize) -> usize {
    ((u128::from(uniform) * bound as u128) >> 64) as usize
}

/// A Poisson number of mean 1 from a uniform one, by its distribution function; more than seven comes once in 100,000 times.
fn poisson(uniform: u64) -> f64 {
    const CUMULATED: [f64; 8] = [
        0.367_879_441_171_442_33,
        0.735_758_882_342_884_6,
        0.919_698_602_928_605_8,
        0.981_011_843_123_846_2,
        0.996_340_153_172_656_3,
        0.999_405_815_182_418_3,
        0.999_916_758_850_712,
        0.999_989_750_803_325_3,
    ];
    let uniform = (uniform >> 11) as f64 / (1_u64 << 53) as f64;
    CUMULATED.iter().take_while(|bound| uniform >= **bound).count() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(seed: u64, series: &[u64], values: &[f64]) -> SeedSample {
        SeedSample {
            seed,
            series: series.to_vec(),
            values: values.to_vec(),
        }
    }

    #[test]
    fn weights_have_mean_and_variance_one() {
        let draws: Vec<f64> = (0..200_000).map(|index| poisson(mix(7, index))).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / draws.len() as f64;
        assert!(
            (mean - 1.0).abs() < 0.01 && (variance - 1.0).abs() < 0.02,
            "{mean} {variance}"
        );
    }

    #[test]
    fn what_was_observed_and_what_is_drawn_do_not_depend_on_the_order_of_episodes() {
        let bootstrap = Bootstrap {
            replicates: 50,
            seed: 3,
        };
        let measures = [Measure::Mean(0), Measure::Quantile(0, 0.5)];
        let one = [sample(0, &[5, 9, 7], &[1.0, 2.0, 6.0])];
        let other = [sample(0, &[7, 5, 9], &[6.0, 1.0, 2.0])];
        let drawn = bootstrap.draw(&one, &measures).unwrap();
        assert_eq!(drawn.observed, [3.0, 2.0]);
        assert_eq!(drawn, bootstrap.draw(&other, &measures).unwrap());
    }

    #[test]
    fn series_of_several_seeds_are_left_out_one_by_one() {
        let both = [sample(0, &[1, 2], &[0.0, 1.0]), sample(1, &[1, 2], &[4.0, 5.0])];
        let drawn = Bootstrap::default().draw(&both, &[Measure::Mean(0)]).unwrap();
        assert_eq!((drawn.series, drawn.draws.len()), (2, 0));
        let without = drawn.without.unwrap();
        let of = |series: u64, seed: usize| without[&(series, seed)][0];
        assert_eq!([of(1, 0), of(2, 0), of(1, 1), of(2, 1)], [1.0, 0.0, 5.0, 4.0]);
        let apart = [sample(0, &[1, 2], &[0.0, 1.0]), sample(1, &[3, 4], &[0.0, 1.0])];
        let drawn = Bootstrap::default().draw(&apart, &[Measure::Mean(0)]).unwrap();
        assert!(drawn.without.is_none());
        assert!(drawn.draws.chunks_exact(2).any(|slots| slots[0] != slots[1]));
    }

    #[test]
    fn bad_samples_are_refused() {
        let draw = |samples: &[SeedSample]| Bootstrap::default().draw(samples, &[Measure::Mean(1)]);
        assert!(draw(&[]).is_err());
        assert!(draw(&[sample(0, &[], &[])]).is_err());
        assert!(draw(&[sample(0, &[1], &[1.0])]).is_err());
        assert!(draw(&[sample(0, &[1], &[1.0, f64::NAN])]).is_err());
    }
}
