//! The sections of `laau import`.

use laau_data::{
    AzureFunctionsOptions, AzureVmOptions, Construction, CpuReading, EpisodeOptions, Irregular,
    Normalisation, OutOfRange, Split, TableOptions, VmProperty, VmTableOptions,
};
use serde::{Deserialize, Serialize};

/// How episodes are made of a trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct EpisodesConfig {
    horizon: usize,
    stride: Option<usize>,
    construction: Construction,
    normalisation: Normalisation,
    out_of_range: OutOfRange,
    floor: f64,
    budgets: Vec<(f64, f64)>,
    split: [usize; 3],
    seed: u64,
}

impl EpisodesConfig {
    pub(crate) fn options(&self) -> EpisodeOptions {
        let [train, validation, test] = self.split;
        EpisodeOptions {
            horizon: self.horizon,
            stride: self.stride,
            construction: self.construction,
            normalisation: self.normalisation,
            out_of_range: self.out_of_range,
            floor: self.floor,
            budgets: self.budgets.clone(),
            split: Split {
                train,
                validation,
                test,
            },
            seed: self.seed,
        }
    }
}

/// What is taken of the Azure VM trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct AzureVmConfig {
    reading: CpuReading,
    irregular: Irregular,
    vm_table: Option<String>,
    #[serde(default)]
    categories: Vec<String>,
    cores: Option<(f64, f64)>,
    memory: Option<(f64, f64)>,
    #[serde(default)]
    properties: Vec<VmProperty>,
}

impl AzureVmConfig {
    pub(crate) fn options(&self, paths: &[String]) -> AzureVmOptions {
        let range = |range: Option<(f64, f64)>| (range.map(|(least, _)| least), range.map(|(_, most)| most));
        AzureVmOptions {
            paths: paths.to_vec(),
            reading: self.reading,
            irregular: self.irregular,
            vm_table: self.vm_table.clone().map(|path| VmTableOptions {
                path,
                categories: self.categories.clone(),
                cores: range(self.cores),
                memory: range(self.memory),
                contexts: self.properties.clone(),
            }),
        }
    }
}

/// What is taken of the Azure Functions trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct AzureFunctionsConfig {
    #[serde(default)]
    durations: Vec<String>,
    #[serde(default)]
    app_memory: Vec<String>,
}

impl AzureFunctionsConfig {
    pub(crate) fn options(&self, paths: &[String]) -> AzureFunctionsOptions {
        AzureFunctionsOptions {
            invocations: paths.to_vec(),
            durations: self.durations.clone(),
            memory: self.app_memory.clone(),
        }
    }
}

/// What the columns of a table mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TableConfig {
    header: bool,
    series: String,
    time: String,
    values: Vec<String>,
    step: Option<i64>,
    irregular_times: Irregular,
    sort: bool,
}

impl TableConfig {
    pub(crate) fn options(&self, paths: &[String]) -> TableOptions {
        TableOptions {
            paths: paths.to_vec(),
            header: self.header,
            series: self.series.clone(),
            time: self.time.clone(),
            values: self.values.clone(),
            step: self.step,
            irregular: self.irregular_times,
            sort: self.sort,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let config = Config::load(None, &[]).unwrap();
        assert_eq!(config.episodes.options(), EpisodeOptions::default());
        assert_eq!(config.azure_vm.options(&[]), AzureVmOptions::default());
        assert_eq!(
            config.azure_functions.options(&[]),
            AzureFunctionsOptions::default()
        );
        assert_eq!(config.table.options(&[]), TableOptions::default());
    }
}
