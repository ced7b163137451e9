//! Real data of every problem, from a folder that is given: carbon intensities, radio links, prices, requests.
//!
//! | name | for | file | an episode | kept apart by default |
//! |---|---|---|---|---|
//! | `carbon` | power | `carbon/carbon_intensity.csv.gz` | a day of a grid, by hours | other grids and another year are tested |
//! | `radio` | wireless | `radio/snr_5g.csv.gz` | three users, each from another drive, second by second | other drives |
//! | `prices` | trading | `prices/sp500_daily.csv.gz` | a stock, by days | later years |
//! | `llm` | llm-tokens | `llm/azure_llm_conv.csv.gz` | a service, by seconds | later minutes |
//!
//! So training and test differ as they do in practice. `NAME-same` mixes the same data instead: blocks of all series and times are dealt at
//! random, and the difference between the two is what the real shift costs.
//!
//! Every episode knows its series: the grid, the group of drives, the stock, the block of two minutes.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use laau_core::{Episodes, Sets};

use crate::error::{Error, invalid};
use crate::load::series::{hash_text, mix};
use crate::load::trace::{Order, Trace as _};
use crate::load::{Irregular, Table, TableOptions};
use crate::synthetic::Requests;
use crate::windows::import::draw_budgets;
use crate::windows::options::Split;

/// A set of real data, and whether training and test are of different series and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dataset {
    kind: Kind,
    same: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Carbon,
    Radio,
    Prices,
    Llm,
}

/// What is asked of a data set.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetOptions {
    /// Steps of an episode.
    pub horizon: usize,
    /// Episodes of each set at most; real data may have fewer.
    pub split: Split,
    /// Per budget the least and the greatest of a step; the data set's own if not given.
    pub budgets: Option<Vec<(f64, f64)>>,
    /// Seed of splits, orders and budgets.
    pub seed: u64,
}

/// Far more steps than any of the data have, and few enough to be multiplied.
const LONGEST_HORIZON: usize = 1 << 32;

const KINDS: [(&str, Kind); 4] = [
    ("carbon", Kind::Carbon),
    ("radio", Kind::Radio),
    ("prices", Kind::Prices),
    ("llm", Kind::Llm),
];

/// Percents of series, or of blocks, for training and validation; the rest is for tests.
const SHARES: [usize; 2] = [60, 15];

/// Hours of 2020, the first year of the grids.
const FIRST_YEAR: i64 = 366 * 24;

/// Trading days for training and before the tests: the first twenty years, and four more.
const TRADING_YEARS: [i64; 2] = [5040, 6048];

/// Seconds of a block of requests: five episodes of 24.
const BLOCK: usize = 120;

impl FromStr for Dataset {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let (stem, same) = match name.strip_suffix("-same") {
            Some(stem) => (stem, true),
            None => (name, false),
        };
        let found = KINDS.into_iter().find(|(known, _)| *known == stem);
        let (_, kind) = found.ok_or_else(|| {
            let known = KINDS.map(|(name, _)| name).join(", ");
            invalid(
                "data set",
                format!("expected one of {known}, or one of them with -same, found `{name}`"),
            )
        })?;
        Ok(Self { kind, same })
    }
}

impl Dataset {
    /// Its file in the folder of data sets.
    #[must_use]
    pub fn file(self) -> &'static str {
        match self.kind {
            Kind::Carbon => "carbon/carbon_intensity.csv.gz",
            Kind::Radio => "radio/snr_5g.csv.gz",
            Kind::Prices => "prices/sp500_daily.csv.gz",
            Kind::Llm => "llm/azure_llm_conv.csv.gz",
        }
    }

    /// Per budget the least and the greatest of a step. Chosen from formula and units before any policy was run: half of what
    /// would be used without a budget (for radio, the workload's), and a fifth to either side.
    #[must_use]
    pub fn budgets(self) -> Vec<(f64, f64)> {
        match self.kind {
            // Of at most 6 servers; at the mean intensity of 0.68 of the greatest.
            Kind::Carbon => vec![(2.4, 3.6), (1.65, 2.45)],
            Kind::Radio => vec![(3.0, 7.0), (3.0, 5.0)],
            Kind::Prices => vec![(2.0, 4.0)],
            Kind::Llm => vec![Requests::default().tokens, Requests::default().spend],
        }
    }

    /// Reads the data and makes episodes of them.
    ///
    /// # Errors
    /// A file that is not there or not as expected, or [`Error::TooShort`] where a set would be empty.
    pub fn sets(self, folder: &Path, options: &DatasetOptions) -> Result<Sets, Error> {
        if options.horizon == 0 {
            return Err(invalid("horizon", "expected at least 1 step, found 0"));
        }
        if options.horizon > LONGEST_HORIZON {
            let reason = format!(
                "expected at most {LONGEST_HORIZON} steps, found {}",
                options.horizon
            );
            return Err(invalid("horizon", reason));
        }
        let path = folder.join(self.file()).display().to_string();
        let (width, stride, pieces) = match self.kind {
            Kind::Carbon => (2, options.horizon, self.carbon(path, options.seed)?),
            Kind::Radio => (4, 10, self.radio(path, options)?),
            Kind::Prices => (1, 5, self.prices(path, options)?),
            Kind::Llm => (4, 3, self.requests(path, options.seed)?),
        };
        let ranges = options.budgets.clone().unwrap_or_else(|| self.budgets());
        let make = |set: usize| -> Result<Episodes, Error> {
            // Windows of training may overlap; those that are judged do not.
            let stride = if set == 0 { stride } else { options.horizon };
            let mut windows = Vec::new();
            for (index, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.set == set) {
                let steps = piece.contexts.len() / width;
                let starts = (0..)
                    .map(|n| n * stride)
                    .take_while(|start| start + options.horizon <= steps);
                windows.extend(
                    starts.map(|start| (mix(&[options.seed, index as u64, start as u64]), index, start)),
                );
            }
            windows.sort_unstable();
            windows.truncate(options.split.sizes()[set]);
            if windows.is_empty() {
                return Err(Error::TooShort {
                    set: Split::NAMES[set],
                    wanted: options.split.sizes()[set],
                    available: 0,
                    series: pieces.iter().filter(|piece| piece.set == set).count(),
                    all_available: 0,
                    all_series: pieces.len(),
                });
            }
            let mut contexts = Vec::with_capacity(windows.len() * options.horizon * width);
            let mut names = Vec::with_capacity(windows.len());
            for &(_, index, start) in &windows {
                let piece = &pieces[index];
                contexts.extend_from_slice(&piece.contexts[start * width..][..options.horizon * width]);
                names.push(Arc::clone(&piece.name));
            }
            let budgets = draw_budgets(&ranges, options.horizon, windows.len(), options.seed, set as u64);
            Ok(Episodes::new(options.horizon, width, ranges.len(), contexts, budgets)?.with_series(names)?)
        };
        Ok(Sets {
            train: make(0)?,
            validation: make(1)?,
            test: make(2)?,
        })
    }

    /// Load (generation) and carbon intensity by hours, each over the grid's greatest of 2020, which is known before 2021.
    fn carbon(self, path: String, seed: u64) -> Result<Vec<Piece>, Error> {
        let grids = series(path, "grid", "hour", &["generation_mw", "carbon_intensity"])?;
        let sets = deal(grids.keys().map(String::as_str), seed);
        let mut pieces = Vec::new();
        for (grid, rows) in &grids {
            let first = rows.first().map_or(0, |(hour, _)| *hour);
            let is_early = |hour: i64| hour < first + FIRST_YEAR;
            let most = |column: usize| {
                let early = rows.iter().filter(|(hour, _)| is_early(*hour));
                early.map(|(_, values)| values[column]).fold(0.0, f64::max)
            };
            let most = [most(0), most(1)];
            let contexts = |rows: &[(i64, Vec<f64>)]| -> Vec<f64> {
                rows.iter()
                    .flat_map(|(_, values)| [values[0] / most[0], values[1] / most[1]])
                    .collect()
            };
            if self.same {
                // Four weeks to a block.
                pieces.extend(
                    rows.chunks(28 * 24)
                        .enumerate()
                        .map(|(block, rows)| Piece::new(grid, at_random(seed, grid, block), contexts(rows))),
                );
                continue;
            }
            // Training and validation are of the first year, tests of the second.
            let set = sets[grid.as_str()];
            let year: Vec<_> = rows
                .iter()
                .filter(|(hour, _)| is_early(*hour) == (set < 2))
                .cloned()
                .collect();
            pieces.push(Piece::new(grid, set, contexts(&year)));
        }
        Ok(pieces)
    }

    /// A priority of 1 and the gains `10^(dB/10)` of three users, each on a drive of its own; samples of 5G and LTE alike.
    fn radio(self, path: String, options: &DatasetOptions) -> Result<Vec<Piece>, Error> {
        let drives = series(path, "drive", "sample", &["snr_db"])?;
        // The same groups under every seed: a group is a series, and what seeds share is known by its name.
        let mut names: Vec<&str> = drives.keys().map(String::as_str).collect();
        names.sort_by_key(|name| mix(&[7, hash_text(name)]));
        let groups: Vec<(String, &[&str])> = names
            .chunks_exact(3)
            .map(|group| (group.join("+"), group))
            .collect();
        let sets = deal(groups.iter().map(|(name, _)| name.as_str()), options.seed);
        let mut pieces = Vec::new();
        for (name, group) in &groups {
            let gains: Vec<Vec<f64>> = group
                .iter()
                .map(|drive| {
                    drives[*drive]
                        .iter()
                        .map(|(_, snr)| 10_f64.powf(snr[0] / 10.0))
                        .collect()
                })
                .collect();
            let steps = gains.iter().map(Vec::len).min().unwrap_or(0);
            let contexts: Vec<f64> = (0..steps)
                .flat_map(|step| [1.0, gains[0][step], gains[1][step], gains[2][step]])
                .collect();
            if self.same {
                // Drives that are mixed share blocks of samples, not whole drives.
                let blocks = contexts.chunks(5 * options.horizon * 4).enumerate();
                pieces.extend(blocks.map(|(block, contexts)| {
                    Piece::new(name, at_random(options.seed, name, block), contexts.to_vec())
                }));
            } else {
                pieces.push(Piece::new(name, sets[name.as_str()], contexts));
            }
        }
        Ok(pieces)
    }

    /// Prices over that of the day before the piece begins.
    fn prices(self, path: String, options: &DatasetOptions) -> Result<Vec<Piece>, Error> {
        let stocks = series(path, "stock", "day", &["price"])?;
        let mut pieces = Vec::new();
        for (stock, rows) in &stocks {
            for (block, days) in rows.windows(options.horizon + 1).step_by(5).enumerate() {
                let (day, before) = (days[0].0, days[0].1[0]);
                let last = days.last().map_or(day, |(day, _)| *day);
                let set = if self.same {
                    // Half a year to a block; an episode that would be in two is left out.
                    let of =
                        |day: i64| at_random(options.seed, stock, usize::try_from(day / 126).unwrap_or(0));
                    if of(day) != of(last) {
                        continue;
                    }
                    of(day)
                } else {
                    match TRADING_YEARS.map(|end| (day >= end, last >= end)) {
                        [(false, false), _] => 0,
                        [(true, _), (false, false)] => 1,
                        [_, (true, _)] => 2,
                        _ => continue,
                    }
                };
                // Training takes every fifth day as a start, tests a start after the last episode's end.
                if set > 0 && (block * 5) % (options.horizon.div_ceil(5) * 5) != 0 {
                    continue;
                }
                let relative = days[1..].iter().map(|(_, price)| price[0] / before).collect();
                pieces.push(Piece::new(stock, set, relative));
            }
        }
        Ok(pieces)
    }

    /// Thousands of tokens that short and long requests ask for in every second, and the prompts' shares of them.
    fn requests(self, path: String, seed: u64) -> Result<Vec<Piece>, Error> {
        let requests = series(path, "", "millisecond", &["context_tokens", "generated_tokens"])?;
        let rows = requests.into_values().next().unwrap_or_default();
        let seconds = rows.last().map_or(0, |(time, _)| time / 1000);
        let blocks = usize::try_from(seconds).unwrap_or(0) / BLOCK;
        let mut prompts = vec![[0.0; 2]; blocks * BLOCK];
        let mut outputs = prompts.clone();
        for (time, tokens) in &rows {
            let second = usize::try_from(time / 1000).unwrap_or(usize::MAX);
            if let (Some(prompt), Some(output)) = (prompts.get_mut(second), outputs.get_mut(second)) {
                let class = usize::from(tokens[1] > Requests::LONG);
                prompt[class] += tokens[0] / 1000.0;
                output[class] += tokens[1] / 1000.0;
            }
        }
        let contexts: Vec<f64> = prompts
            .iter()
            .zip(&outputs)
            .flat_map(|(prompt, output)| {
                let asked = [prompt[0] + output[0], prompt[1] + output[1]];
                let share = |class: usize| match asked[class] {
                    0.0 => Requests::NO_REQUESTS,
                    asked => prompt[class] / asked,
                };
                [asked[0], asked[1], share(0), share(1)]
            })
            .collect();
        let ends = [SHARES[0], SHARES[0] + SHARES[1]].map(|share| (share * blocks + 50) / 100);
        Ok(contexts
            .chunks_exact(4 * BLOCK)
            .enumerate()
            .map(|(block, contexts)| {
                let name = format!("minutes {} to {}", 2 * block, 2 * block + 2);
                let set = if self.same {
                    at_random(seed, &name, block)
                } else {
                    ends.iter().filter(|end| block >= **end).count()
                };
                Piece::new(&name, set, contexts.to_vec())
            })
            .collect())
    }
}

/// Successive contexts of one series, all for one set.
struct Piece {
    name: Arc<str>,
    set: usize,
    contexts: Vec<f64>,
}

impl Piece {
    fn new(name: &str, set: usize, contexts: Vec<f64>) -> Self {
        Self {
            name: name.into(),
            set,
            contexts,
        }
    }
}

type Series = BTreeMap<String, Vec<(i64, Vec<f64>)>>;

/// All readings of a table, by series and in order.
fn series(path: String, series: &str, time: &str, values: &[&str]) -> Result<Series, Error> {
    let table = Table::open(TableOptions {
        paths: vec![path],
        series: series.to_owned(),
        time: time.to_owned(),
        values: values.iter().map(|name| (*name).to_owned()).collect(),
        step: Some(1),
        irregular: Irregular::Gap,
        ..TableOptions::default()
    })?;
    let mut found = Series::new();
    table.read(Order::Series, &mut |readings| {
        for run in readings.runs() {
            let rows = run.times.iter().copied();
            let rows = rows.zip(run.values.chunks_exact(values.len()).map(<[f64]>::to_vec));
            found.entry(run.series.to_owned()).or_default().extend(rows);
        }
        Ok(())
    })?;
    Ok(found)
}

/// Which set each series is for, in a seeded order: at least one for each.
fn deal<'a>(names: impl Iterator<Item = &'a str>, seed: u64) -> BTreeMap<&'a str, usize> {
    let mut order: Vec<&str> = names.collect();
    order.sort_by_key(|name| mix(&[seed, hash_text(name)]));
    let count = order.len();
    let train = SHARES[0] * count / 100;
    let validation = train + ((SHARES[1] * count + 50) / 100).max(1);
    let set = |index: usize| usize::from(index >= train) + usize::from(index >= validation);
    order
        .into_iter()
        .enumerate()
        .map(|(index, name)| (name, set(index)))
        .collect()
}

/// The set of a block that is dealt at random.
fn at_random(seed: u64, name: &str, block: usize) -> usize {
    let percent = mix(&[seed, 11, hash_text(name), block as u64]) % 100;
    let ends = [SHARES[0], SHARES[0] + SHARES[1]];
    ends.iter().filter(|end| percent >= **end as u64).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fmt::Write as _;

    #[test]
    fn a_horizon_that_cannot_be_multiplied_is_refused() {
        let options = DatasetOptions {
            horizon: usize::MAX,
            split: Split::default(),
            budgets: None,
            seed: 0,
        };
        for (name, kind) in KINDS {
            let error = Dataset { kind, same: false }.sets(Path::new("."), &options);
            assert_eq!(
                error.unwrap_err().to_string(),
                "invalid horizon: expected at most 4294967296 steps, found 18446744073709551615",
                "{name}"
            );
        }
    }

    /// A small folder of data in the layout of the real ones.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: String| {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let mut carbon = String::from("grid,hour,carbon_intensity,generation_mw\n");
        let mut prices = String::from("stock,day,price\n");
        let mut radio = String::from("drive,sample,network,snr_db,cqi,moving\n");
        for name in 0..8 {
            for hour in 0..17_544 {
                let _ = writeln!(
                    carbon,
                    "g{name},{hour},{},{}",
                    100 + hour % 24,
                    50 + (hour + name) % 30
                );
            }
        }
        for name in 0..14 {
            for day in 0..8313 {
                let _ = writeln!(prices, "s{name},{day},{}", 10.0 + f64::from(day % 50) / 10.0);
            }
        }
        for name in 0..30 {
            for sample in 0..300 {
                let _ = writeln!(radio, "d{name},{sample},5G,{},7,1", sample % 20);
            }
        }
        let mut llm = String::from("millisecond,context_tokens,generated_tokens\n");
        for request in 0..3501 {
            let _ = writeln!(
                llm,
                "{},1000,{}",
                request * 1000,
                if request % 2 == 0 { 100 } else { 400 }
            );
        }
        // Plain CSV under the real names: what a file is called does not say how it is packed.
        write("carbon/carbon_intensity.csv.gz", carbon);
        write("prices/sp500_daily.csv.gz", prices);
        write("radio/snr_5g.csv.gz", radio);
        write("llm/azure_llm_conv.csv.gz", llm);
        folder
    }

    #[test]
    fn every_data_set_gives_three_sets_that_its_problem_can_play() {
        use laau_core::problems::{LlmTokens, PowerProvisioning, Trading, Wireless};
        let folder = folder();
        let problems: [(&str, usize, Box<dyn laau_core::Problem>); 4] = [
            (
                "carbon",
                24,
                Box::new(PowerProvisioning::new(vec![1.0], 1.2, 1.2, 1.3, 6.0).unwrap()),
            ),
            ("radio", 20, Box::new(Wireless::three_channels())),
            ("prices", 20, Box::new(Trading::new(0.005, 10.0).unwrap())),
            ("llm", 24, Box::new(LlmTokens::two_classes())),
        ];
        for (name, horizon, problem) in problems {
            for same in ["", "-same"] {
                let options = DatasetOptions {
                    horizon,
                    split: Split {
                        train: 200,
                        validation: 50,
                        test: 60,
                    },
                    budgets: None,
                    seed: 3,
                };
                let data: Dataset = format!("{name}{same}").parse().unwrap();
                let sets = data.sets(folder.path(), &options).unwrap();
                for set in [&sets.train, &sets.validation, &sets.test] {
                    set.check(&*problem).unwrap();
                    assert_eq!(set.series().unwrap().len(), set.len(), "{name}{same}");
                }
                assert_eq!(data.sets(folder.path(), &options).unwrap(), sets);
                if same.is_empty() && name != "prices" {
                    let of = |set: &Episodes| set.series().unwrap().iter().cloned().collect::<BTreeSet<_>>();
                    assert!(of(&sets.train).is_disjoint(&of(&sets.test)), "{name}");
                }
            }
        }
    }

    #[test]
    fn seeds_meet_the_same_groups_of_drives_in_other_sets() {
        let folder = folder();
        let tested = |seed: u64| -> BTreeSet<Arc<str>> {
            let options = DatasetOptions {
                horizon: 20,
                split: Split {
                    train: 200,
                    validation: 50,
                    test: 60,
                },
                budgets: None,
                seed,
            };
            let data: Dataset = "radio".parse().unwrap();
            let sets = data.sets(folder.path(), &options).unwrap();
            sets.test.series().unwrap().iter().cloned().collect()
        };
        let of_seeds: Vec<BTreeSet<Arc<str>>> = (0..10).map(tested).collect();
        let all: BTreeSet<Arc<str>> = of_seeds.iter().flatten().cloned().collect();
        // Thirty drives are ten groups, whatever the seed; ten seeds would have thirty of their own.
        assert!(all.len() <= 10, "{all:?}");
        assert!(of_seeds.iter().any(|of| *of != of_seeds[0]));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "carbn".parse::<Dataset>().unwrap_err().to_string();
        assert!(error.contains("carbon, radio, prices, llm"), "{error}");
    }
}
