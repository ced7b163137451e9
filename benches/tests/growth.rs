//! What a decision costs does not depend on when it is made, counted in instructions.

#![expect(clippy::unwrap_used, reason = "a test whose setting fails has failed")]

use std::process::Command;

use laau_core::conformance::skipped;

/// Instructions of a kernel; nothing without valgrind.
fn instructions(name: &str) -> Option<u64> {
    let folder = tempfile::tempdir().unwrap();
    let profile = folder.path().join("callgrind");
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*counted_kernel*"])
        .arg(format!("--callgrind-out-file={}", profile.display()))
        .arg(env!("CARGO_BIN_EXE_laau-counts"))
        .args(["run", name])
        .output()
        .ok()?;
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let profile = std::fs::read_to_string(&profile).unwrap();
    let totals = profile.lines().find_map(|line| line.strip_prefix("totals:"));
    Some(totals.unwrap().trim().parse().unwrap())
}

#[test]
fn a_decision_costs_the_same_at_step_100000_as_at_the_start() {
    let policies = ["dgd", "ce", "dp-coarse", "laau-residual"];
    let counts = std::thread::scope(|scope| {
        let runs = policies.map(|policy| {
            scope.spawn(move || {
                ["10", "100000"].map(|step| instructions(&format!("decisions/{policy}/step={step}")))
            })
        });
        runs.map(|run| run.join().unwrap())
    });
    for (policy, counts) in policies.into_iter().zip(counts) {
        let [Some(early), Some(late)] = counts else {
            skipped(
                "a_decision_costs_the_same_at_step_100000",
                "valgrind is not installed",
            );
            return;
        };
        // Searches differ by an iteration or two; to read the past once would be a factor of thousands.
        assert!(
            late < 2 * early,
            "{policy}: {early} instructions early, {late} late"
        );
    }
}
