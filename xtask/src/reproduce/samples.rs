//! The single test episodes of a reproduction, and paired differences between policies on them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Context, bail, ensure};
use laau_core::statistics::{Bootstrap, Difference, Measure, Resampled, SeedSample};
use laau_core::tables::{EPISODE_KEYS, EPISODES_FILE};

/// All cells whose single episodes were exported.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<Cell>);

/// The episodes of one data set, horizon and distance of the training data, under every seed.
#[derive(Debug)]
pub(crate) struct Cell {
    /// The experiment that made it.
    pub(crate) experiment: String,
    /// Source and construction, or problem and data.
    pub(crate) data: String,
    /// The distance of the training data.
    pub(crate) target: f64,
    /// Steps of an episode.
    pub(crate) horizon: usize,
    columns: Vec<String>,
    seeds: Vec<SeedSample>,
    drawn: OnceLock<Option<Resampled>>,
}

/// A hundredth of OPT.
const POINTS: f64 = 100.0;

impl Samples {
    /// Reads every `episodes.csv` of a reproduction; there may be none.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let mut cells = Vec::new();
        for source in sorted(&folder.join("tables"))? {
            for experiment in sorted(&source)? {
                let path = experiment.join(EPISODES_FILE);
                if path.is_file() {
                    let name = experiment
                        .file_name()
                        .unwrap_or_default()
                        .to_string_lossy()
                        .into_owned();
                    let text = std::fs::read_to_string(&path)
                        .with_context(|| format!("cannot read {}", path.display()))?;
                    let found =
                        parse(&name, &text).with_context(|| format!("{} is damaged", path.display()))?;
                    cells.extend(found);
                }
            }
        }
        Ok(Self(cells))
    }

    /// A cell.
    pub(crate) fn cell(&self, experiment: &str, data: &str, horizon: usize, target: f64) -> Option<&Cell> {
        self.0.iter().find(|cell| {
            cell.experiment == experiment
                && cell.data == data
                && cell.horizon == horizon
                && cell.target == target
        })
    }

    /// All cells.
    pub(crate) fn cells(&self) -> &[Cell] {
        &self.0
    }
}

impl Cell {
    /// The policies there are, OPT included.
    pub(crate) fn policies(&self) -> impl Iterator<Item = &str> {
        self.columns
            .iter()
            .map(String::as_str)
            .filter(|name| !name.ends_with(" left"))
    }

    fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// The values of a column for every episode of every seed, in order.
    pub(crate) fn values(&self, name: &str) -> Option<Vec<f64>> {
        let column = self.column(name)?;
        let width = self.columns.len();
        let of = |sample: &SeedSample| -> Vec<f64> {
            sample
                .values
                .iter()
                .skip(column)
                .step_by(width)
                .copied()
                .collect()
        };
        Some(self.seeds.iter().flat_map(of).collect())
    }

    /// Means of every column, then the lower quartile and the median of every one.
    fn resampled(&self) -> Option<&Resampled> {
        let count = self.columns.len();
        let quantiles = [0.25, 0.5]
            .into_iter()
            .flat_map(|share| (0..count).map(move |c| Measure::Quantile(c, share)));
        // Quantiles are asked for at one horizon, and cost as much as all means.
        let with_quantiles = self.experiment == "policies" && self.horizon == 20;
        self.drawn
            .get_or_init(|| {
                let measures: Vec<Measure> = (0..count)
                    .map(Measure::Mean)
                    .chain(quantiles.filter(|_| with_quantiles))
                    .collect();
                Bootstrap::default().draw(&self.seeds, &measures).ok()
            })
            .as_ref()
    }

    /// The lead of one policy over another, in points of OPT.
    pub(crate) fn lead(&self, one: &str, other: &str) -> Option<Difference> {
        let [a, b, opt] = [self.column(one)?, self.column(other)?, self.column("opt")?];
        Difference::between(&[self.resampled()?], |rows| {
            POINTS * (rows[0][a] - rows[0][b]) / rows[0][opt].abs()
        })
    }

    /// The lead in the lower quartile or the median over episodes, in points of the mean of OPT.
    pub(crate) fn quantile_lead(&self, one: &str, other: &str, median: bool) -> Option<Difference> {
        let [a, b, opt] = [self.column(one)?, self.column(other)?, self.column("opt")?];
        let skip = self.columns.len() * if median { 2 } else { 1 };
        let drawn = self.resampled()?;
        if drawn.measures() <= skip {
            return None;
        }
        Difference::between(&[drawn], |rows| {
            POINTS * (rows[0][skip + a] - rows[0][skip + b]) / rows[0][opt].abs()
        })
    }

    /// How much more of the first budget one policy leaves than another, in percent of the budget.
    pub(crate) fn leaves_more(&self, one: &str, other: &str) -> Option<Difference> {
        let [a, b] = [
            self.column(&format!("{one} left"))?,
            self.column(&format!("{other} left"))?,
        ];
        Difference::between(&[self.resampled()?], |rows| rows[0][a] - rows[0][b])
    }

    /// How far what a policy leaves is below a bound, in percent of the budget.
    pub(crate) fn leaves_less_than(&self, policy: &str, bound: f64) -> Option<Difference> {
        let column = self.column(&format!("{policy} left"))?;
        Difference::between(&[self.resampled()?], |rows| bound - rows[0][column])
    }

    /// By how much the lead of one policy over another is larger here than in another cell, in points of OPT. The other policy
    /// may be the offline optimum, of which a policy has no lead: then it is the change of the policy itself.
    pub(crate) fn lead_beyond(&self, before: &Self, one: &str, other: &str) -> Option<Difference> {
        let columns = |cell: &Self| Some([cell.column(one)?, cell.column(other)?, cell.column("opt")?]);
        let (here, there) = (columns(self)?, columns(before)?);
        let lead = |row: &[f64], [a, b, opt]: [usize; 3]| POINTS * (row[a] - row[b]) / row[opt].abs();
        Difference::between(&[self.resampled()?, before.resampled()?], |rows| {
            lead(rows[0], here) - lead(rows[1], there)
        })
    }
}

fn sorted(folder: &Path) -> anyhow::Result<Vec<std::path::PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        found.push(entry?.path());
    }
    found.sort();
    Ok(found)
}

fn parse(experiment: &str, text: &str) -> anyhow::Result<Vec<Cell>> {
    let mut lines = text.lines();
    let heading: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let keys = EPISODE_KEYS.len();
    ensure!(
        heading.len() > keys && heading[..keys] == EPISODE_KEYS,
        "other columns than expected"
    );
    let columns: Vec<String> = heading[keys..].iter().map(|name| (*name).to_owned()).collect();
    let mut cells: Vec<Cell> = Vec::new();
    let mut places: BTreeMap<(String, String, String), usize> = BTreeMap::new();
    for line in lines {
        let mut fields = line.split(',');
        let mut next = || fields.next().context("a line is too short");
        let (data, target, horizon) = (next()?.to_owned(), next()?.to_owned(), next()?.to_owned());
        let (seed, series, _): (u64, &str, &str) = (next()?.parse()?, next()?, next()?);
        let key = (data.clone(), target.clone(), horizon.clone());
        let place = if let Some(place) = places.get(&key) {
            *place
        } else {
            cells.push(Cell {
                experiment: experiment.to_owned(),
                data,
                target: target.parse()?,
                horizon: horizon.parse()?,
                columns: columns.clone(),
                seeds: Vec::new(),
                drawn: OnceLock::new(),
            });
            places.insert(key, cells.len() - 1);
            cells.len() - 1
        };
        let seeds = &mut cells[place].seeds;
        if seeds.last().is_none_or(|sample| sample.seed != seed) {
            ensure!(
                seeds.iter().all(|sample| sample.seed != seed),
                "seed {seed} comes twice"
            );
            seeds.push(SeedSample {
                seed,
                series: Vec::new(),
                values: Vec::new(),
            });
        }
        let Some(sample) = seeds.last_mut() else {
            bail!("no seed");
        };
        sample.series.push(hash(series));
        for field in fields {
            sample.values.push(
                field
                    .parse()
                    .with_context(|| format!("`{field}` is not a number"))?,
            );
        }
        ensure!(
            sample.values.len() == sample.series.len() * columns.len(),
            "a line has another length"
        );
    }
    Ok(cells)
}

/// The number of a series: FNV-1a of its name, the same in every run.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fmt::Write as _;

    /// Cells of one data set: per horizon the leads of policies over `mw`, which has .95 of OPT, in points; with a small spread.
    pub(crate) fn planted(data: &str, seeds: u64, cells: &[(usize, &[(&str, f64)])]) -> Samples {
        let mut found = Vec::new();
        for (horizon, leads) in cells {
            let names: Vec<&str> = leads.iter().map(|(name, _)| *name).collect();
            let left: Vec<String> = names.iter().map(|name| format!("{name} left")).collect();
            let mut text = format!(
                "{},opt,mw,{},opt left,mw left,{}\n",
                EPISODE_KEYS.join(","),
                names.join(","),
                left.join(",")
            );
            for seed in 0..seeds {
                for episode in 0..20_u64 {
                    let noise = 0.001 * ((seed * 7 + episode * 13) % 11) as f64 - 0.005;
                    let _ = write!(
                        text,
                        "{data},0,{horizon},{seed},{seed}:{episode},{episode},1,0.95"
                    );
                    for (index, (_, lead)) in leads.iter().enumerate() {
                        let own = 0.002 * ((seed * 5 + episode * 3 + index as u64) % 7) as f64 - 0.006;
                        let _ = write!(text, ",{}", 0.95 + lead / 100.0 + noise * 0.1 + own * 0.1);
                    }
                    text += ",0,0.2";
                    for (index, _) in leads.iter().enumerate() {
                        let _ = write!(text, ",{}", 0.1 * index as f64 + 10.0 * noise.abs());
                    }
                    text.push('\n');
                }
            }
            found.extend(parse("policies", &text).unwrap());
        }
        Samples(found)
    }

    #[test]
    fn a_lead_is_found_in_points_of_the_optimum() {
        let samples = planted("synthetic-consecutive", 10, &[(10, &[("laau", 1.0)])]);
        let cell = samples
            .cell("policies", "synthetic-consecutive", 10, 0.0)
            .unwrap();
        let lead = cell.lead("laau", "mw").unwrap();
        let (low, high) = lead.at_95();
        assert!(
            (lead.estimate - 1.0).abs() < 0.02 && low > 0.95 && high < 1.05,
            "{lead:?}"
        );
        assert_eq!(cell.policies().collect::<Vec<_>>(), ["opt", "mw", "laau"]);
        assert!(cell.lead("laau", "rl").is_none());
    }

    #[test]
    fn a_damaged_table_is_refused() {
        let heading = format!("{},opt\n", EPISODE_KEYS.join(","));
        for line in ["a,0,10,0,s", "a,0,10,0,s,0,x", "a,0,10,0,s,0,1,2"] {
            assert!(
                parse("policies", &format!("{heading}{line}\n")).is_err(),
                "{line}"
            );
        }
        assert!(parse("policies", "a,b\n").is_err());
    }
}
