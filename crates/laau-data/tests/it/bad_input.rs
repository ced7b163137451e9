//! Every bad input has its message, with file, row and column.

use laau_data::{
    AzureVm, AzureVmOptions, EpisodeOptions, Error, Imported, Normalisation, OutOfRange, Split, Table, TableOptions,
    import,
};

use crate::files::{Folder, gzip};

fn options() -> EpisodeOptions {
    EpisodeOptions {
        horizon: 2,
        split: Split {
            train: 1,
            validation: 0,
            test: 0,
        },
        ..EpisodeOptions::default()
    }
}

fn import_azure(path: String, options: &EpisodeOptions) -> Result<Imported, Error> {
    let trace = AzureVm::open(AzureVmOptions {
        paths: vec![path],
        ..AzureVmOptions::default()
    })?;
    import(&trace, options)
}

/// The message of an Azure readings file with the given content.
fn azure(name: &str, content: impl AsRef<[u8]>) -> String {
    let folder = Folder::new();
    let path = folder.write(name, content);
    match import_azure(path, &options()) {
        Ok(imported) => format!("{:?}", imported.report),
        Err(error) => folder.strip(&error),
    }
}

#[test]
fn probe() {
    for (name, content) in [
        ("a.csv", ""),
        ("a.csv.gz", ""),
        ("a.csv", "\n"),
        ("a.csv", "0,a,,,5\n\n300,a,,,6\n"),
        ("a.csv", "0,a,,,5\n\n\n300,a,,,x\n"),
        ("a.csv", "0,a,,,5\r\n300,a,,,6\r\n"),
        ("a.csv", "0,a,,,5\n300,a,,,6"),
        ("a.csv", "0,a,,,5\n300,a\n"),
        ("a.csv", "0,a\n300,a\n"),
        ("a.csv", "0,a,,,5\n300,a,,,6,7\n"),
        ("a.csv", "0,a,,,5\n300,a,,,6,7,8,9\n"),
        ("a.csv", "0,a,,,5\n300,a,,,6,\n"),
        ("a.csv", "timestamp,vmid,mincpu,maxcpu,avgcpu\n0,a,,,5\n300,a,,,6\n"),
        ("a.csv", "0,a,,,5\n300,a,,,six\n"),
        ("a.csv", "0,a,,,5\n300,a,,,NaN\n"),
        ("a.csv", "0,a,,,5\n300,a,,,inf\n"),
        ("a.csv", "0,a,,,5\n300,a,,,-1\n"),
        ("a.csv", "0,a,,,5\n300,a,,,100.5\n"),
        ("a.csv", "0,a,,,5\n0,a,,,6\n"),
        ("a.csv", "300,a,,,5\n0,a,,,6\n"),
        ("a.csv", "0,a,,,5\n300,,,,6\n"),
        ("a.csv", "0.5,a,,,5\n300,,,,6\n"),
        ("a.csv", "0,\"a,,,5\n300,\"a,,,6\n"),
    ] {
        println!("{name} {content:?}: {}", azure(name, content));
    }
    println!("{}", azure("a.csv", b"0,a,,,5\n300,\xff\xfe,,,6\n"));
    println!("{}", azure("a.csv", b"0,a,,,5\n300,b,,\xff,6\n"));
    let long: String = (0..200_000).map(|i| format!("{},vm{},,,{}\n", i / 10 * 300, i % 10, i % 100)).collect();
    let zipped = gzip(long.as_bytes());
    println!("{}", azure("a.csv", &zipped[..zipped.len() / 2]));
    println!("{}", azure("a.csv", &zipped[..zipped.len() - 4]));
    println!("{}", azure("a.csv", &zipped));
    println!("{}", azure("a.csv", &zipped[..12]));
    let mut two = zipped.clone();
    two.extend(gzip(b"6000000,vm0,,,5\n"));
    println!("{}", azure("a.csv", &two));
    let mut garbled = zipped.clone();
    let middle = garbled.len() / 2;
    garbled[middle] ^= 0x55;
    println!("{}", azure("a.csv", &garbled));
}
