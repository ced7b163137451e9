//! What a command that is refused leaves as it was.

use crate::support::command;
use crate::tripped::{TRAIN, bench};

/// Lines of a log.
fn rows(log: &[u8]) -> usize {
    String::from_utf8_lossy(log).lines().count()
}

#[test]
fn a_resume_that_is_refused_leaves_the_log() {
    let bench = bench();
    let run = format!("{TRAIN} --phases 2:0.005 --log log.csv -o n");
    bench.stdout(&run, "");
    let log = bench.read("log.csv");
    // The checkpoint of another run.
    let run = format!("{TRAIN} --phases 1000000:0.005 --checkpoint c -o d");
    let mut other = command(bench.path(), &run.split(' ').collect::<Vec<_>>())
        .spawn()
        .unwrap();
    while !bench.path().join("c").exists() {
        assert!(other.try_wait().unwrap().is_none(), "the run has ended");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    other.kill().unwrap();
    other.wait().unwrap();
    for log in ["log.csv", "new.csv"] {
        let resumed = format!("{TRAIN} --phases 2:0.005 --log {log} --checkpoint c --resume -o n");
        let refused = bench.run(&resumed, "");
        assert_eq!(refused.status, Some(1), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("the checkpoint is of another run"),
            "{}",
            refused.stderr
        );
    }
    assert_eq!(bench.read("log.csv"), log);
    assert!(!bench.path().join("new.csv").exists());
    // A run that begins and learns nothing has a log without rows, not the rows of the run before.
    let diverged = bench.run(&format!("{TRAIN} --phases 2:1e30 --log log.csv -o d"), "");
    assert_eq!(diverged.status, Some(1), "{}", diverged.stderr);
    assert_eq!(rows(&bench.read("log.csv")), 1);
}

#[cfg(unix)]
#[test]
fn a_log_is_written_where_its_link_leads() {
    let bench = bench();
    std::fs::create_dir(bench.path().join("logs")).unwrap();
    let link = bench.path().join("log.csv");
    std::os::unix::fs::symlink("logs/run.csv", &link).unwrap();
    let run = format!("{TRAIN} --phases 2:0.005 --log log.csv -o n");
    // Refused before anything is written.
    assert_eq!(bench.run(&run.replace("-o n", "-o none/n"), "").status, Some(1));
    assert!(link.is_symlink() && !link.exists());
    bench.stdout(&run, "");
    assert!(link.is_symlink());
    assert_eq!(rows(&bench.read("logs/run.csv")), 3);
    // A device is written to as it is.
    bench.stdout(&run.replace("log.csv", "/dev/null"), "");
}

#[cfg(unix)]
#[test]
fn an_output_is_not_the_file_of_a_stream() {
    use std::process::Stdio;

    let bench = bench();
    let to = |name: &str| Stdio::from(std::fs::File::create(bench.path().join(name)).unwrap());
    for line in [
        format!("{TRAIN} --phases 1:0.01 --log all -o n"),
        format!("{TRAIN} --phases 1:0.01 -o all"),
        "learn --episodes sets/test.parquet -o all".to_owned(),
        "generate --episodes 5 -o all".to_owned(),
    ] {
        let arguments: Vec<_> = line.split(' ').collect();
        let mut run = command(bench.path(), &arguments);
        let status = run.stdout(to("all")).stderr(to("told")).status().unwrap();
        assert_eq!(status.code(), Some(1), "laau {line}");
        let told = String::from_utf8(bench.read("told")).unwrap();
        assert!(
            told.contains("all: ") && told.contains("would overwrite the file of standard output"),
            "laau {line}: {told}"
        );
    }
}

#[test]
fn an_experiment_leaves_what_is_not_its_own() {
    let bench = bench();
    std::fs::create_dir_all(bench.path().join("mine/cells")).unwrap();
    bench.write("mine/cells/thesis.txt", "years of work");
    bench.write("e.toml", include_str!("../../../../experiments/gradients.toml"));
    bench.check_failure(
        "experiment e.toml --quick -o mine",
        "",
        "error: mine/cells: here is something that no experiment left\n\
         hint: name another folder with -o, or move this one away\n",
    );
    bench.write("mine/cells/run.txt", "notes of a run");
    assert_eq!(bench.run("experiment e.toml --quick -o mine", "").status, Some(1));
    assert_eq!(bench.read("mine/cells/thesis.txt"), b"years of work");
    let missing = bench.run("experiment e.toml --quick --trace nothing.csv -o new", "");
    assert_eq!(missing.status, Some(1), "{}", missing.stderr);
    assert!(!bench.path().join("new").exists());
    // Nothing is done, so that there is nothing to go on from.
    bench.write(
        "policies.toml",
        include_str!("../../../../experiments/policies.toml"),
    );
    bench.write("no-trace.csv", "no,trace\n1,2\n");
    let refused = bench.run("experiment policies.toml --quick --trace no-trace.csv -o new", "");
    assert_eq!(refused.status, Some(1), "{}", refused.stderr);
    assert!(!bench.path().join("new/cells").exists());
}

#[test]
fn a_command_that_is_refused_leaves_no_folder() {
    let bench = bench();
    for command in [
        "compare --train sets/train.parquet --validation sets/validation.parquet --test sets/test.parquet \
         --policies dgd --guard m -o new/report",
        "evaluate --test sets/test.parquet --policy-file report/mw.policy --guard m -o new/report",
    ] {
        assert_eq!(bench.run(command, "").status, Some(1), "laau {command}");
        assert!(!bench.path().join("new").exists(), "laau {command}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_goes_into_the_pipe_that_standard_output_is() {
    let bench = bench();
    let told = bench.stdout(&format!("{TRAIN} --phases 2:0.005 --log /dev/stdout -o n"), "");
    assert!(told.contains("epoch,learning_rate,loss"), "{told}");
    assert!(bench.path().join("n").exists());
}
