//! The sections of `laau import`.

use clap::Args;
use laau::data::{
    AzureFunctionsOptions, AzureVmOptions, Construction, CpuReading, EpisodeOptions, Gap, Irregular,
    Normalisation, OutOfRange, SplitBy, TableOptions, VmProperty, VmTableOptions,
};
use serde::{Deserialize, Serialize};

use super::values::{name, rows, rows_like, sizes, word};
use super::{Section, Sizes};

/// How episodes are made of a trace.
#[derive(Debug, Clone, PartialEq, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "episodes")]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct EpisodesSection {
    /// steps of an episode
    #[arg(long, value_name = "N")]
    horizon: Option<usize>,
    /// readings from one window's start to the next; the horizon if not given
    #[arg(long, value_name = "N")]
    stride: Option<usize>,
    /// consecutive: readings of one series; interleaved: each step another series, if there is one
    #[arg(long, value_name = "NAME", value_parser = word::<Construction>)]
    construction: Option<Construction>,
    /// how readings become contexts: percent, series-max, min-max or none
    #[arg(long, value_name = "NAME", value_parser = word::<Normalisation>)]
    normalisation: Option<Normalisation>,
    /// what becomes of a reading outside the range of the normalisation: error or clamp
    #[arg(long, value_name = "NAME", value_parser = word::<OutOfRange>)]
    out_of_range: Option<OutOfRange>,
    /// the least context; smaller ones are raised to it
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    floor: Option<f64>,
    /// the least and the greatest budget of a step, times the horizon, or one such pair per budget: 10,15 or 10:15,2:4
    #[arg(long, alias = "budgets", value_name = "ROWS", value_parser = ranges)]
    budget: Option<Ranges>,
    /// episodes for training, validation and test
    #[arg(long, value_name = "N,N,N", value_parser = sizes)]
    split: Option<Sizes>,
    /// what keeps these sets apart: series, time (train before validation before test) or both
    #[arg(long, value_name = "NAME", value_parser = word::<SplitBy>)]
    split_by: Option<SplitBy>,
    /// what is left out between two sets of a split by time: steps, or a duration such as 30m, 6h or 1d
    #[arg(long, value_name = "GAP", value_parser = word::<Gap>)]
    gap: Option<Gap>,
    /// the seed of every draw
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

type Ranges = Vec<(f64, f64)>;
type Range = (f64, f64);

/// One range, `10,15`, as `laau generate --budget` takes it, or one per budget, `10:15,2:4`.
fn ranges(text: &str) -> Result<Ranges, String> {
    rows::<Range>(text)
        .map(|range| vec![range])
        .or_else(|_| rows_like::<Ranges>(text, "a range, 10,15, or one per budget, 10:15,2:4"))
}

impl Section for EpisodesSection {
    const NAME: &'static str = "episodes";
    const HELP: &'static str = "How `laau import` makes episodes of a trace.";

    fn defaults() -> Self {
        let stock = EpisodeOptions::default();
        Self {
            horizon: Some(stock.horizon),
            stride: stock.stride,
            construction: Some(stock.construction),
            normalisation: Some(stock.normalisation),
            out_of_range: Some(stock.out_of_range),
            floor: Some(stock.floor),
            budget: Some(stock.budgets),
            split: Some(stock.split.into()),
            split_by: Some(stock.split_by),
            gap: Some(stock.gap),
            seed: Some(stock.seed),
        }
    }

    fn examples() -> Self {
        Self {
            stride: Some(20),
            ..Self::default()
        }
    }
}

impl EpisodesSection {
    pub(crate) fn options(&self) -> EpisodeOptions {
        let stock = EpisodeOptions::default();
        EpisodeOptions {
            horizon: self.horizon.unwrap_or(stock.horizon),
            stride: self.stride.or(stock.stride),
            construction: self.construction.unwrap_or(stock.construction),
            normalisation: self.normalisation.unwrap_or(stock.normalisation),
            out_of_range: self.out_of_range.unwrap_or(stock.out_of_range),
            floor: self.floor.unwrap_or(stock.floor),
            budgets: self.budget.clone().unwrap_or(stock.budgets),
            split: self.split.map_or(stock.split, Into::into),
            split_by: self.split_by.unwrap_or(stock.split_by),
            gap: self.gap.unwrap_or(stock.gap),
            seed: self.seed.unwrap_or(stock.seed),
        }
    }
}

/// A section that says what is taken of a trace.
pub(crate) trait TraceSection: Section {
    /// Files that are read besides the trace, by their flags: paths or patterns.
    fn further_files(&self) -> Vec<(&'static str, String)>;
}

/// What is taken of the Azure VM trace.
#[derive(Debug, Clone, PartialEq, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "azure-vm")]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct AzureVmSection {
    /// the CPU reading that is the context: minimum, maximum or average
    #[arg(long, value_name = "NAME", value_parser = word::<CpuReading>)]
    reading: Option<CpuReading>,
    /// what a distance in time that is no multiple of 300 s means: error or gap
    #[arg(long, value_name = "NAME", value_parser = word::<Irregular>)]
    irregular: Option<Irregular>,
    /// the table of machines, to choose by
    #[arg(long, value_name = "FILE")]
    vm_table: Option<String>,
    /// take machines of these categories
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    categories: Option<Vec<String>>,
    /// take machines with cores in this range
    #[arg(long, value_name = "LEAST,MOST", value_parser = rows::<Range>)]
    cores: Option<Range>,
    /// take machines with memory in this range, in GB
    #[arg(long, value_name = "LEAST,MOST", value_parser = rows::<Range>)]
    memory: Option<Range>,
    /// properties that each context gets: cores, memory
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = word::<VmProperty>)]
    properties: Option<Vec<VmProperty>>,
}

impl Section for AzureVmSection {
    const NAME: &'static str = "azure-vm";
    const HELP: &'static str = "What `laau import azure-vm` takes of the trace.";

    fn defaults() -> Self {
        let stock = AzureVmOptions::default();
        Self {
            reading: Some(stock.reading),
            irregular: Some(stock.irregular),
            ..Self::default()
        }
    }

    fn examples() -> Self {
        Self {
            vm_table: Some("vmtable.csv.gz".to_owned()),
            categories: Some(vec!["Interactive".to_owned()]),
            cores: Some((1.0, 8.0)),
            memory: Some((1.0, 64.0)),
            properties: Some(vec![VmProperty::Cores]),
            ..Self::default()
        }
    }
}

impl TraceSection for AzureVmSection {
    fn further_files(&self) -> Vec<(&'static str, String)> {
        self.vm_table
            .iter()
            .map(|path| ("--vm-table", path.clone()))
            .collect()
    }
}

impl AzureVmSection {
    pub(crate) fn options(&self, paths: &[String]) -> AzureVmOptions {
        let stock = AzureVmOptions::default();
        let range = |range: Option<Range>| (range.map(|(least, _)| least), range.map(|(_, most)| most));
        AzureVmOptions {
            paths: paths.to_vec(),
            reading: self.reading.unwrap_or(stock.reading),
            irregular: self.irregular.unwrap_or(stock.irregular),
            vm_table: self.vm_table.clone().map(|path| VmTableOptions {
                path,
                categories: self.categories.clone().unwrap_or_default(),
                cores: range(self.cores),
                memory: range(self.memory),
                contexts: self.properties.clone().unwrap_or_default(),
            }),
        }
    }
}

/// What is taken of the Azure Functions trace.
#[derive(Debug, Clone, PartialEq, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "azure-functions")]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct AzureFunctionsSection {
    /// each context gets the function's mean duration
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    durations: Option<Vec<String>>,
    /// each context gets the app's mean memory
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    app_memory: Option<Vec<String>>,
}

impl Section for AzureFunctionsSection {
    const NAME: &'static str = "azure-functions";
    const HELP: &'static str = "What `laau import azure-functions` takes of the trace.";

    fn defaults() -> Self {
        Self::default()
    }

    fn examples() -> Self {
        Self {
            durations: Some(vec!["function_durations_percentiles.anon.d*.csv".to_owned()]),
            app_memory: Some(vec!["app_memory_percentiles.anon.d*.csv".to_owned()]),
        }
    }
}

impl TraceSection for AzureFunctionsSection {
    fn further_files(&self) -> Vec<(&'static str, String)> {
        let all = [
            ("--durations", &self.durations),
            ("--app-memory", &self.app_memory),
        ];
        all.into_iter()
            .flat_map(|(flag, paths)| paths.iter().flatten().map(move |path| (flag, path.clone())))
            .collect()
    }
}

impl AzureFunctionsSection {
    pub(crate) fn options(&self, paths: &[String]) -> AzureFunctionsOptions {
        AzureFunctionsOptions {
            invocations: paths.to_vec(),
            durations: self.durations.clone().unwrap_or_default(),
            memory: self.app_memory.clone().unwrap_or_default(),
        }
    }
}

/// What the columns of a table mean.
#[derive(Debug, Clone, PartialEq, Default, Args, Serialize, Deserialize)]
#[command(next_help_heading = "table")]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TableSection {
    /// whether CSV files begin with a header; without one, columns are 1, 2, …
    #[arg(long, value_name = "BOOL")]
    header: Option<bool>,
    /// the column that names the series; '' if the table is one series
    #[arg(long, value_name = "COLUMN")]
    series: Option<String>,
    /// the column of times: whole numbers, or ISO 8601 in whole seconds, which becomes seconds since 1970
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,
    /// the columns of values
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',', value_parser = name)]
    values: Option<Vec<String>>,
    /// distance in time of two readings of a series; the first one seen if not given
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    step: Option<i64>,
    /// what a distance that is no multiple of a given step means: error or gap
    #[arg(long, value_name = "NAME", value_parser = word::<Irregular>)]
    irregular_times: Option<Irregular>,
    /// sort by time in memory, for tables in another order
    #[arg(long, value_name = "BOOL")]
    sort: Option<bool>,
}

impl Section for TableSection {
    const NAME: &'static str = "table";
    const HELP: &'static str =
        "What the columns of a table mean, for `laau import table` and `laau inspect`.";

    fn defaults() -> Self {
        let stock = TableOptions::default();
        Self {
            header: Some(stock.header),
            series: Some(stock.series),
            time: Some(stock.time),
            values: Some(stock.values),
            step: stock.step,
            irregular_times: Some(stock.irregular),
            sort: Some(stock.sort),
        }
    }

    fn examples() -> Self {
        Self {
            step: Some(300),
            ..Self::default()
        }
    }
}

impl TraceSection for TableSection {
    fn further_files(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl TableSection {
    pub(crate) fn options(&self, paths: &[String]) -> TableOptions {
        let stock = TableOptions::default();
        TableOptions {
            paths: paths.to_vec(),
            header: self.header.unwrap_or(stock.header),
            series: self.series.clone().unwrap_or(stock.series),
            time: self.time.clone().unwrap_or(stock.time),
            values: self.values.clone().unwrap_or(stock.values),
            step: self.step.or(stock.step),
            irregular: self.irregular_times.unwrap_or(stock.irregular),
            sort: self.sort.unwrap_or(stock.sort),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_one_range_or_several_as_the_workload_takes_them() {
        for one in ["10,15", "10:15", "[10, 15]", "[[10, 15]]"] {
            assert_eq!(ranges(one), Ok(vec![(10.0, 15.0)]), "{one}");
        }
        assert_eq!(ranges("10:15,2:4"), Ok(vec![(10.0, 15.0), (2.0, 4.0)]));
        for bad in ["10", "10,15,20", "ten,15"] {
            assert!(ranges(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_defaults_are_those_of_the_library() {
        assert_eq!(EpisodesSection::default().options(), EpisodeOptions::default());
        assert_eq!(EpisodesSection::defaults().options(), EpisodeOptions::default());
        assert_eq!(AzureVmSection::defaults().options(&[]), AzureVmOptions::default());
        assert_eq!(
            AzureFunctionsSection::defaults().options(&[]),
            AzureFunctionsOptions::default()
        );
        assert_eq!(TableSection::defaults().options(&[]), TableOptions::default());
    }
}
