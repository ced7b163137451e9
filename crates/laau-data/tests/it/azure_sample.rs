//! The real sample of 100 machines, if the environment variable `LAAU_AZURE_SAMPLE` names its folder.

use laau_data::{
    AzureVm, AzureVmOptions, Construction, EpisodeOptions, Normalisation, OutOfRange, import,
    inspect_episodes, inspect_trace,
};

#[test]
fn the_real_sample_has_the_statistics_that_its_source_tells() {
    let Ok(folder) = std::env::var("LAAU_AZURE_SAMPLE") else {
        laau_core::conformance::skipped(
            "the_real_sample_has_the_statistics_that_its_source_tells",
            "LAAU_AZURE_SAMPLE names no folder",
        );
        return;
    };
    let trace = AzureVm::open(AzureVmOptions {
        paths: vec![format!("{folder}/*.csv.gz")],
        ..AzureVmOptions::default()
    })
    .unwrap();
    let statistics = inspect_trace(&trace, Normalisation::Percent, OutOfRange::Error).unwrap();
    println!("{}", serde_json::to_string_pretty(&statistics).unwrap());
    assert_eq!(
        (
            statistics.counts.readings,
            statistics.counts.series,
            statistics.counts.gaps
        ),
        (800_400, 100, 0)
    );
    let cpu = &statistics.values[0];
    let near = |found: f64, expected: f64, tolerance: f64| {
        assert!((found - expected).abs() <= tolerance, "{found} for {expected}");
    };
    near(cpu.mean, 0.106, 0.0005);
    near(cpu.std, 0.124, 0.0005);
    near(cpu.min, 0.0027, 0.00005);
    near(cpu.max, 0.994, 0.0005);
    for (found, expected) in cpu.quantiles[1..6]
        .iter()
        .zip([0.019, 0.047, 0.067, 0.110, 0.335])
    {
        near(*found, expected, 0.0005);
    }
    // .92489 by two independent programs; the source rounds it up to .93
    near(cpu.autocorrelation, 0.925, 0.0005);
    near(cpu.autocorrelation_within, 0.80, 0.005);

    for construction in [Construction::Consecutive, Construction::Interleaved] {
        let options = EpisodeOptions {
            construction,
            ..EpisodeOptions::default()
        };
        let imported = import(&trace, &options).unwrap();
        println!("{}", serde_json::to_string_pretty(&imported.report).unwrap());
        println!("{:?}", inspect_episodes(&imported.sets.train).contexts);
        let sizes = [
            &imported.sets.train,
            &imported.sets.validation,
            &imported.sets.test,
        ]
        .map(laau_core::Episodes::len);
        assert_eq!(sizes, [5000, 1000, 2000]);
        assert_eq!(imported.sets.train.horizon(), 20);
        // 8004 readings of a machine are 400 windows; of 62 and 25 machines, three and one episodes can be made at each
        // time, and 13 machines go on at the next
        assert_eq!(imported.report.series, [62, 13, 25]);
        let available = match construction {
            Construction::Consecutive => 100 * 400,
            Construction::Interleaved => 3 * 8004 + 13 * 8004 / 20 + 8004,
        };
        assert_eq!(imported.report.available, available);
    }
}
