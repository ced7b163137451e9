//! `laau serve` as an operator runs it.

use std::io::Read as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use laau_serve::client::{Client, ClientError, Patience};
use serde_json::Value;

use crate::support::{Bench, command, run_command};

const SPEC: &str = r#"{"name":"shop","problem":{"name":"weighted-fairness"},"policy":{"name":"equal"},"budgets":[100],"horizon":4}"#;

/// A running service; it does not outlive the test.
struct Service {
    child: Child,
    url: String,
    /// What it said until it listened.
    said: String,
}

impl Service {
    /// Starts, on a port that the system chooses.
    fn start(folder: &Path, arguments: &str) -> Self {
        let arguments = format!("serve --listen 127.0.0.1:0 {arguments}");
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        Self::run(command(folder, &arguments).env_remove("RUST_LOG"))
    }

    /// Starts a command, and waits until it listens.
    fn run(command: &mut Command) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut service = Self {
            child: child.unwrap(),
            said: String::new(),
            url: String::new(),
        };
        let mut errors = service.child.stderr.take().unwrap();
        // Byte by byte, so that the rest is there for the end.
        let mut line = Vec::new();
        let mut byte = [0];
        while service.url.is_empty() {
            assert_eq!(errors.read(&mut byte).unwrap(), 1, "it ended: {}", service.said);
            line.push(byte[0]);
            if byte == *b"\n" {
                let text = String::from_utf8(std::mem::take(&mut line)).unwrap();
                if let Some(rest) = text.strip_prefix("listening on ") {
                    service.url.push_str(rest.split(';').next().unwrap());
                }
                service.said += &text;
            }
        }
        service.child.stderr = Some(errors);
        service
    }

    fn client(&self, key: Option<&str>) -> Client {
        Client::new(&self.url, key).unwrap()
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    }

    /// Waits for the end; gives the status and all that was said.
    fn end(mut self) -> (Option<i32>, String) {
        let mut said = std::mem::take(&mut self.said);
        let mut errors = self.child.stderr.take().unwrap();
        errors.read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // SIGKILL, unless it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn key(bench: &Bench, arguments: &str) -> String {
    let printed = bench.stdout(&format!("serve key --store s.laau {arguments}"), "");
    let token = printed.trim_end().to_owned();
    assert!(
        token.starts_with("laau_") && !token.contains(char::is_whitespace),
        "{token}"
    );
    token
}

#[test]
fn a_store_is_served_stopped_and_served_again() {
    let bench = Bench::new();
    let (admin, reader) = (
        key(&bench, "--scope admin"),
        key(&bench, "--scope read --account shop"),
    );
    let service = Service::start(bench.path(), "--store s.laau --log json");
    let client = service.client(Some(&admin));
    client.create(&serde_json::from_str(SPEC).unwrap()).unwrap();
    let decision = client.decide_as("shop", "order-1", &[0.5]).unwrap();
    assert_eq!(decision.held, [25.0]);
    let looks = service.client(Some(&reader));
    assert_eq!(looks.account("shop").unwrap().period.unwrap().remaining, [75.0]);
    assert_eq!(
        looks.decide("shop", &[0.5]).unwrap_err().kind(),
        Some("forbidden")
    );
    service.signal("-TERM");
    let (status, said) = service.end();
    assert_eq!(status, Some(0), "{said}");
    // One line per change, in JSON, with the decision and without a secret.
    let lines: Vec<Value> = said
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let told = lines.iter().find(|line| line["message"] == "changed").unwrap();
    assert_eq!(
        (&told["account"], &told["decision"], &told["change"]),
        (&"shop".into(), &"0-0".into(), &"decide".into())
    );
    assert!(told["latency_us"].is_u64() && told["status"] == 200, "{told}");
    assert!(
        lines.iter().any(|line| line["message"] == "account made"),
        "{said}"
    );
    for token in [&admin, &reader] {
        assert!(!said.contains(token.rsplit('_').next().unwrap()), "{said}");
    }
    let service = Service::start(bench.path(), "--store s.laau");
    let client = service.client(Some(&admin));
    assert_eq!(client.decide_as("shop", "order-1", &[0.5]).unwrap(), decision);
    assert_eq!(client.account("shop").unwrap().period.unwrap().remaining, [75.0]);
    // Ctrl-C ends it as well.
    service.signal("-INT");
    assert_eq!(service.end().0, Some(0));
}

#[test]
fn what_cannot_be_served_is_told_with_a_hint() {
    let bench = Bench::new();
    let fails = |arguments: &str, words: &str| {
        let run = bench.run(arguments, "");
        assert_eq!(run.status, Some(1), "laau {arguments}: {}", run.stderr);
        assert!(
            run.stderr.contains(words) && run.stderr.contains("\nhint: "),
            "laau {arguments}: {}",
            run.stderr
        );
    };
    fails("serve --store s.laau", "no API key");
    fails("serve key --store s.laau --list", "s.laau: no such file");
    fails(
        "serve key --store s.laau --revoke 1f0c9a7be2d44c03",
        "s.laau: no such file",
    );
    assert!(
        !bench.path().join("s.laau").exists(),
        "a mistyped path makes no store"
    );
    key(&bench, "--scope admin");
    bench.write(
        "text",
        "this is no store, but a text that is long enough to be taken for one by mistake",
    );
    fails("serve --store text --insecure-loopback", "text: ");
    fails("serve --store none/s.laau --insecure-loopback", "none/s.laau");
    fails("serve --store . --insecure-loopback", ".: ");
    fails(
        "serve --store s.laau --insecure-loopback --listen 0.0.0.0:0",
        "loopback",
    );
    fails("serve --store s.laau --listen 192.0.2.1:7171", "192.0.2.1:7171");
    fails("serve --store s.laau --policies none", "none: expected a folder");
    fails(
        "serve --store s.laau --tls-cert none.pem --tls-key none.pem",
        "none.pem: ",
    );
    fails(
        "serve --store s.laau --tls-cert text --tls-key text",
        "text: expected a certificate in PEM format",
    );
    fails(
        "serve --store postgres://laau:hidden@127.0.0.1:1/laau --listen 127.0.0.1:7 --insecure-loopback",
        "127.0.0.1:1/laau",
    );
    assert!(
        !bench
            .run(
                "serve --store postgres://laau:hidden@127.0.0.1:1/laau --insecure-loopback",
                ""
            )
            .stderr
            .contains("hidden")
    );
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    fails(
        &format!("serve --store s.laau --listen {}", taken.local_addr().unwrap()),
        "address already in use",
    );
    let _service = Service::start(bench.path(), "--store s.laau");
    fails(
        "serve --store s.laau --listen 127.0.0.1:0",
        "in use by another process",
    );
    fails(
        "serve key --store s.laau --scope admin",
        "in use by another process",
    );
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let bench = Bench::new();
    for arguments in [
        "serve",
        "serve --demo --store s.laau",
        "serve --store s.laau --listen nowhere",
        "serve --store s.laau --tls-cert cert.pem",
        "serve --store s.laau --rate 0",
        "serve --store s.laau --advertise elsewhere",
        "serve --store s.laau --log xml",
        "serve key",
        "serve key --store s.laau",
        "serve key --store s.laau --scope all",
        "serve key --store s.laau --list --scope read",
    ] {
        let run = bench.run(arguments, "");
        assert_eq!(
            (run.status, run.stdout.as_str()),
            (Some(2), ""),
            "laau {arguments}: {}",
            run.stderr
        );
    }
    assert!(!bench.path().join("s.laau").exists());
    let run = bench.run("serve key --store s.laau --scope read --account ../x", "");
    assert!(
        run.status == Some(1) && run.stderr.contains("lower-case letters"),
        "{}",
        run.stderr
    );
}

#[test]
fn keys_are_listed_and_revoked_in_the_store() {
    let bench = Bench::new();
    let admin = key(&bench, "--scope admin");
    let token = key(&bench, "--scope decide --account shop");
    let id = token.split('_').nth(1).unwrap();
    let list = bench.stdout("serve key --store s.laau --list", "");
    assert!(
        list.lines().any(|line| line == format!("{id}  decide  shop")),
        "{list}"
    );
    assert!(!list.contains(token.rsplit('_').next().unwrap()), "{list}");
    assert_eq!(
        bench.stdout(&format!("serve key --store s.laau --revoke {id}"), ""),
        ""
    );
    let again = bench.run(&format!("serve key --store s.laau --revoke {id}"), "");
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    let service = Service::start(bench.path(), "--store s.laau");
    let hasty = Patience {
        patience: std::time::Duration::ZERO,
        ..Patience::default()
    };
    let revoked = Client::with(&service.url, Some(&token), hasty, None).unwrap();
    assert_eq!(revoked.accounts().unwrap_err().kind(), Some("unauthorized"));
    assert!(service.client(Some(&admin)).accounts().unwrap().is_empty());
}

#[test]
fn the_demonstration_decides_and_settles_by_itself_and_leaves_nothing() {
    let bench = Bench::new();
    let temporary = bench.path().join("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let service = Service::run(
        command(bench.path(), &["serve", "--demo", "--listen", "127.0.0.1:0"]).env("TMPDIR", &temporary),
    );
    let client = service.client(None);
    let settled = || {
        let entries = client.entries("llm-gateway", 0, 0).unwrap().entries;
        entries
            .iter()
            .any(|entry| matches!(entry.event, laau_serve::Event::Settled { .. }))
    };
    while !settled() {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let period = client.account("llm-gateway").unwrap().period.unwrap();
    assert!(
        period.multiplier.is_some() && period.certificate.is_some() && period.holds > 0,
        "{period:?}"
    );
    assert!(matches!(
        client.decide("llm-gateway", &[1.0]),
        Err(ClientError::Refused(_))
    ));
    service.signal("-TERM");
    let (status, said) = service.end();
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

#[test]
fn a_demonstration_starts_beside_what_a_killed_one_of_the_same_process_number_left() {
    let bench = Bench::new();
    let mut shell = Command::new("sh");
    // The number of the shell is that of the program that takes its place.
    shell
        .args([
            "-c",
            r#"mkdir "laau-demo-$$" && exec "$0" serve --demo --listen 127.0.0.1:0"#,
            env!("CARGO_BIN_EXE_laau"),
        ])
        .current_dir(bench.path())
        .env("TMPDIR", bench.path());
    let service = Service::run(&mut shell);
    let accounts = service.client(None).accounts().unwrap();
    assert_eq!(accounts.len(), 1);
    let left = bench.path().join(format!("laau-demo-{}", service.child.id()));
    assert!(left.exists());
    service.signal("-TERM");
    assert_eq!(service.end().0, Some(0));
}

/// The README of laau-serve.
const README: &str = include_str!("../../../laau-serve/README.md");

#[test]
fn the_curl_lines_of_the_readme_run_and_print_what_is_shown() {
    let curl = Command::new("curl").arg("--version").output();
    if !curl.is_ok_and(|output| output.status.success()) {
        laau::core::conformance::skipped(
            "the_curl_lines_of_the_readme_run_and_print_what_is_shown",
            "curl is not installed",
        );
        return;
    }
    let block = README.split("## With curl").nth(1).unwrap();
    let block = block
        .split("```console\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let (mut script, mut expected, mut lines) = (String::new(), String::new(), 0);
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => {
                script += &[command, "\n"].concat();
                lines += 1;
            }
            None => expected += &[line, "\n"].concat(),
        }
    }
    assert!(lines > 8 && expected.lines().count() > 4, "{block}");
    // Port 7171 may be somebody else's.
    let script = format!("set -e\n{}", script.replace("127.0.0.1:7171", &free));
    let script = script.replace(
        "laau serve --store",
        &format!("laau serve --listen {free} --store"),
    );
    let bench = Bench::new();
    let binary = Path::new(env!("CARGO_BIN_EXE_laau")).parent().unwrap();
    let mut path = vec![binary.to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &script])
        .env("PATH", std::env::join_paths(path).unwrap())
        .current_dir(bench.path());
    let run = run_command(shell, "");
    assert_eq!(run.status, Some(0), "{}\n{}\n{script}", run.stdout, run.stderr);
    assert_eq!(run.stdout, expected, "{}", run.stderr);
}
