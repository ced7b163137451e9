//! Same seed, same episodes: whatever the order of the files, the threads, and how many candidates are kept.

use std::fmt::Write as _;

use laau_data::{AzureVm, AzureVmOptions, Construction, EpisodeOptions, Imported, Split, import};
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::files::Folder;

/// A trace in shards: machines that come and go, with gaps.
fn shards(folder: &Folder, machines: usize, positions: usize, shards: usize) -> Vec<String> {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    (0..shards)
        .map(|shard| {
            let mut text = String::new();
            for position in shard * positions / shards..(shard + 1) * positions / shards {
                for machine in 0..machines {
                    // machine 0 is always there, the others sometimes not
                    if machine == 0 || rng.random::<f64>() < 0.98 {
                        let cpu = 100.0 * rng.random::<f64>();
                        writeln!(text, "{},vm/{machine}+,,,{cpu:.3}", position * 300).unwrap();
                    }
                }
            }
            folder.write(&format!("vm_cpu_readings-file-{shard}-of-{shards}.csv.gz"), text)
        })
        .collect()
}

fn imported(paths: &[String], options: &EpisodeOptions) -> Imported {
    let trace = AzureVm::open(AzureVmOptions {
        paths: paths.to_vec(),
        ..AzureVmOptions::default()
    })
    .unwrap();
    import(&trace, options).unwrap()
}

#[test]
fn the_order_of_the_files_does_not_matter() {
    let folder = Folder::new();
    let mut paths = shards(&folder, 30, 300, 12);
    for construction in [Construction::Consecutive, Construction::Interleaved] {
        let options = EpisodeOptions {
            horizon: 10,
            construction,
            split: Split {
                train: 50,
                validation: 10,
                test: 20,
            },
            ..EpisodeOptions::default()
        };
        let first = imported(&paths, &options);
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..3 {
            paths.shuffle(&mut rng);
            assert_eq!(imported(&paths, &options), first);
        }
        let other = imported(&paths, &EpisodeOptions { seed: 1, ..options });
        assert_ne!(other.sets.train, first.sets.train);
    }
}

#[test]
fn a_second_pass_finds_what_the_first_did_not_keep() {
    // one machine has most of the windows, and a set without it needs windows that are not among the best of all
    let folder = Folder::new();
    let mut text = String::new();
    for position in 0..4000 {
        writeln!(text, "{},long,,,{}", position * 300, position % 100).unwrap();
        if position < 40 {
            writeln!(text, "{},short,,,{}", position * 300, position % 100).unwrap();
        }
    }
    let path = folder.write("a.csv", text);
    let options = EpisodeOptions {
        horizon: 2,
        split: Split {
            train: 20,
            validation: 20,
            test: 0,
        },
        ..EpisodeOptions::default()
    };
    let found = imported(std::slice::from_ref(&path), &options);
    assert_eq!((found.report.passes, found.report.available), (2, 2020));
    // either set is the whole short series
    let mut short: Vec<f64> = [&found.sets.train, &found.sets.validation]
        .into_iter()
        .filter(|set| set.contexts().iter().all(|c| *c < 0.4))
        .flat_map(|set| set.contexts().to_vec())
        .collect();
    short.sort_by(f64::total_cmp);
    assert_eq!(short, (0..40).map(|i| f64::from(i) / 100.0).collect::<Vec<_>>());
    // asked for everything at once, the first pass keeps all of the candidates, and the best of the long series agree
    let more = EpisodeOptions {
        split: Split {
            train: 0,
            validation: 0,
            test: 2020,
        },
        ..options
    };
    let all = imported(&[path], &more);
    assert_eq!(all.report.passes, 1);
    let long = [&found.sets.train, &found.sets.validation]
        .into_iter()
        .find(|set| set.contexts().iter().any(|c| *c >= 0.4))
        .unwrap();
    let mut rest = all.sets.test.iter();
    for episode in long.iter() {
        assert!(
            rest.any(|other| other.contexts() == episode.contexts()),
            "in order of priority"
        );
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    if std::env::var("LAAU_TEST_CHILD").is_ok() {
        let folder = Folder::new();
        let paths = shards(&folder, 40, 400, 4);
        let options = EpisodeOptions {
            horizon: 10,
            split: Split {
                train: 50,
                validation: 10,
                test: 20,
            },
            ..EpisodeOptions::default()
        };
        let set = imported(&paths, &options);
        println!("EPISODES {:?} {:?}", set.sets.train, set.sets.test);
        return;
    }
    // polars makes its threads once per process
    let run = |threads: &str| {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "determinism::the_number_of_threads_does_not_matter",
                "--nocapture",
            ])
            .env("LAAU_TEST_CHILD", "1")
            .env("POLARS_MAX_THREADS", threads)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.contains("EPISODES")).unwrap();
        line[line.find("EPISODES").unwrap()..].to_owned()
    };
    let one = run("1");
    assert!(one.len() > 5000);
    assert_eq!(one, run("4"));
}
