//! Whatever bytes a file holds, a parser returns and does not panic.

use laau_data::{
    AzureFunctions, AzureFunctionsOptions, AzureVm, AzureVmOptions, EpisodeOptions, Error, Normalisation,
    OutOfRange, Split, Table, TableOptions, VmTableOptions, import, inspect_trace, read_episodes,
};
use proptest::prelude::*;

use crate::azure_functions::invocations;
use crate::files::{Folder, gzip};

/// Bytes of any kind, and bytes that look like a table.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let cell = prop_oneof![
        "[0-9]{1,4}",
        "-?[0-9]{1,3}\\.[0-9]{0,3}",
        "[a-c/+=]{1,3}",
        Just(String::new()),
        Just("NaN".to_owned()),
        Just("1e400".to_owned()),
        Just(">24".to_owned()),
        Just("\"".to_owned()),
        "\\PC{0,4}",
    ];
    let row = prop::collection::vec(cell, 0..8).prop_map(|cells| cells.join(","));
    let ends = prop_oneof![Just("\n"), Just("\r\n"), Just("\n\n"), Just("\0"), Just("")];
    let table = prop::collection::vec((row, ends), 0..8)
        .prop_map(|rows| rows.into_iter().map(|(r, e)| r + e).collect::<String>());
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        table.clone().prop_map(String::into_bytes),
        (table.clone(), any::<prop::sample::Index>()).prop_map(|(table, cut)| {
            let mut zipped = gzip(table.as_bytes());
            zipped.truncate(cut.index(zipped.len()) + 1);
            zipped
        }),
        (table, any::<prop::sample::Index>(), any::<u8>()).prop_map(|(table, at, byte)| {
            let mut zipped = gzip(table.as_bytes());
            let at = at.index(zipped.len());
            zipped[at] = byte;
            zipped
        }),
    ]
}

fn options() -> EpisodeOptions {
    EpisodeOptions {
        horizon: 1,
        normalisation: Normalisation::None,
        split: Split {
            train: 1,
            validation: 0,
            test: 0,
        },
        ..EpisodeOptions::default()
    }
}

/// An error of a parser tells its file.
fn tells_its_file<T>(folder: &Folder, outcome: Result<T, Error>) {
    if let Err(error) = outcome {
        let text = error.to_string();
        let known = matches!(error, Error::TooShort { .. });
        assert!(
            known || text.contains(&folder.path().display().to_string()),
            "{text}"
        );
        assert!(!text.contains("gave up"), "polars panicked: {text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn azure_readings_of_any_bytes(bytes in bytes()) {
        let folder = Folder::new();
        let paths = vec![folder.write("a.csv", &bytes)];
        let trace = AzureVm::open(AzureVmOptions { paths, ..AzureVmOptions::default() });
        tells_its_file(&folder, trace.and_then(|trace| {
            inspect_trace(&trace, Normalisation::Percent, OutOfRange::Clamp)?;
            import(&trace, &options())
        }));
    }

    #[test]
    fn tables_of_any_bytes(bytes in bytes(), header: bool, sort: bool) {
        let folder = Folder::new();
        let table = Table::open(TableOptions {
            paths: vec![folder.write("a.csv", &bytes)],
            header,
            series: "2".to_owned(),
            time: "1".to_owned(),
            values: vec!["3".to_owned()],
            sort,
            ..TableOptions::default()
        });
        tells_its_file(&folder, table.and_then(|table| import(&table, &options())));
    }

    #[test]
    fn tables_with_a_good_header_and_any_rows(bytes in bytes()) {
        let folder = Folder::new();
        let content = [b"time,series,value\n0,a,1\n".as_slice(), &bytes].concat();
        let table = Table::open(TableOptions {
            paths: vec![folder.write("a.csv", content)],
            ..TableOptions::default()
        });
        tells_its_file(&folder, table.and_then(|table| import(&table, &options())));
    }

    #[test]
    fn episodes_tables_of_any_bytes(bytes in bytes()) {
        let folder = Folder::new();
        let path = folder.write("a.csv", [b"episode,step,context,budget\n".as_slice(), &bytes].concat());
        tells_its_file(&folder, read_episodes(path.as_ref()));
        let path = folder.write("b.csv", &bytes);
        tells_its_file(&folder, read_episodes(path.as_ref()));
    }

    #[test]
    fn parquet_of_any_bytes(bytes in bytes()) {
        let folder = Folder::new();
        let path = folder.write("a.parquet", &bytes);
        tells_its_file(&folder, read_episodes(path.as_ref()));
        let path = folder.write("b.parquet", [b"PAR1".as_slice(), &bytes, b"PAR1"].concat());
        tells_its_file(&folder, read_episodes(path.as_ref()));
    }

    #[test]
    fn tables_of_machines_of_any_bytes(bytes in bytes()) {
        let folder = Folder::new();
        let trace = AzureVm::open(AzureVmOptions {
            paths: vec![folder.write("a.csv", "0,a,,,5\n")],
            vm_table: Some(VmTableOptions { path: folder.write("v.csv", &bytes), ..VmTableOptions::default() }),
            ..AzureVmOptions::default()
        });
        tells_its_file(&folder, trace);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn functions_of_any_bytes(bytes in bytes()) {
        let folder = Folder::new();
        let header = invocations(&[]);
        let trace = AzureFunctions::open(&AzureFunctionsOptions {
            invocations: vec![folder.write("a.d01.csv", [header.as_bytes(), &bytes].concat())],
            ..AzureFunctionsOptions::default()
        });
        tells_its_file(&folder, trace.and_then(|trace| import(&trace, &options())));
        let trace = AzureFunctions::open(&AzureFunctionsOptions {
            invocations: vec![folder.write("b.d01.csv", &bytes)],
            ..AzureFunctionsOptions::default()
        });
        tells_its_file(&folder, trace);
    }
}
