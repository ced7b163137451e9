//! What is kept of many episodes is a few numbers each.

use std::io::Read as _;
use std::process::Stdio;

use laau::core::conformance::skipped;

use crate::support::{Bench, command};

/// The most memory that a run had, in megabytes, read while it waits for its output to be taken; nothing where the system
/// does not say.
fn peak(bench: &Bench, arguments: &str) -> Option<u64> {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let mut child = command(bench.path(), &arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut most = None;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        most = most.max(kilobytes.map(|kilobytes| kilobytes / 1024));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success(), "laau {arguments:?}");
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(text.starts_with("policy,"), "{text}");
    most
}

#[test]
fn many_episodes_take_little_memory_with_every_step_written() {
    let bench = Bench::new();
    bench.stdout("generate --horizon 20 --split 100,50,100000 --seed 1 -o sets", "");
    let compare = "compare --train sets/train.parquet --validation sets/validation.parquet --test sets/test.parquet \
                   --policies opt,dgd --quiet --format csv";
    let evaluate = "evaluate --test sets/test.parquet --policy-file report/dgd.policy --quiet --format csv -o again --steps";
    let Some(compared) = peak(&bench, &format!("{compare} -o report")) else {
        skipped("many_episodes_take_little_memory", "the system has no /proc");
        return;
    };
    let evaluated = peak(&bench, evaluate).unwrap();
    // Every step of a policy in memory would be 100 megabytes, and several times that as columns.
    assert!(compared <= 300, "compare: {compared} MB");
    assert!(evaluated <= 300, "evaluate: {evaluated} MB");
}
