//! The commands of the README do what it says.

use std::fmt::Write as _;
use std::process::Command;

use crate::support::{Bench, contexts, run_command};

/// The README of this crate.
const CRATE: &str = include_str!("../../README.md");

/// The README of the project: the newcomer's path.
const PROJECT: &str = include_str!("../../../../README.md");

/// The page of the other problems.
const PROBLEMS: &str = include_str!("../../../../docs/problems/README.md");

/// The commands in a README's console blocks, each with the output that it shows.
fn examples(readme: &str) -> Vec<(String, String)> {
    let mut examples: Vec<(String, String)> = Vec::new();
    for block in readme.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        for line in block.lines() {
            match (line.strip_prefix("$ "), examples.last_mut()) {
                (Some(command), _) => examples.push((command.to_owned(), String::new())),
                (None, Some((_, output))) => *output += &[line, "\n"].concat(),
                (None, None) => panic!("output before any command: {line}"),
            }
        }
    }
    examples
}

#[test]
fn every_command_of_the_readme_runs_and_prints_what_is_shown() {
    check(CRATE, 9);
}

#[test]
fn the_newcomers_path_of_the_project_runs_line_by_line() {
    check(PROJECT, 4);
}

#[test]
fn the_path_of_another_problem_runs_line_by_line() {
    check(PROBLEMS, 4);
}

/// Runs the commands of a README in one folder; there are `least` of them or more.
fn check(readme: &str, least: usize) {
    let bench = Bench::new();
    bench.write("morning.jsonl", contexts(&[0.31]));
    bench.write("afternoon.jsonl", "");
    bench.write("mine.sh", "while read -r line; do echo '{\"action\":[12]}'; done");
    let mut rows = String::from("host,minute,cpu\n");
    let mut trace = String::new();
    for time in 0..2000 {
        for series in 0..6 {
            let load = (time * 7 + series * 31) % 100;
            writeln!(rows, "h{series},{time},{load}").unwrap();
            writeln!(trace, "{},v{series},,,{load}", time * 300).unwrap();
        }
    }
    bench.write("load.csv", rows);
    bench.write("vm_cpu_readings-1.csv.gz", trace);
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_laau")).parent().unwrap();
    let path = std::env::join_paths([folder.into()].into_iter().chain(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    )))
    .unwrap();
    let mut ran = 0;
    for (command, expected) in examples(readme) {
        // What cargo does is building, testing or installing the binary that is tested here.
        if command.starts_with("cargo ") {
            continue;
        }
        // The paper's sizes take minutes; the same commands on fewer episodes take seconds.
        let command = command
            .replace("5000,1000,2000", "60,20,20")
            .replace("1000,200,500", "60,20,20")
            .replace("100,20,20", "60,20,20");
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("{{ {command}; }} 2>&1")])
            .env("PATH", &path)
            .current_dir(bench.path());
        let run = run_command(shell, "");
        if expected.is_empty() {
            assert_eq!(run.status, Some(0), "{command}\n{}", run.stdout);
        } else {
            assert_eq!(run.stdout, expected, "{command}");
        }
        ran += 1;
    }
    assert!(ran >= least, "only {ran} commands were found");
}
