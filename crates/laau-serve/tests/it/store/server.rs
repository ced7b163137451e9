//! A PostgreSQL of the tests' own: in a temporary folder, on a Unix socket, with its syncs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// A server that can be stopped, killed and started again.
pub(crate) struct Server {
    folder: PathBuf,
    programs: PathBuf,
    /// What the server is told besides.
    settings: Vec<String>,
    /// Runs as long as the server; the server ends with the standard input that this process holds, even if it is killed.
    child: Option<Child>,
}

/// The folder of PostgreSQL's programs: the newest of Debian's, or wherever `pg_config` says.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let newest = versions
        .filter_map(|version| Some((version.file_name().to_str()?.parse::<u32>().ok()?, version.path())))
        .max();
    let asked = || {
        let output = Command::new("pg_config").arg("--bindir").output().ok()?;
        Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim()))
    };
    let folder = newest.map(|(_, path)| path.join("bin")).or_else(asked)?;
    folder.join("initdb").exists().then_some(folder)
}

/// Whether the tests run as root, which PostgreSQL refuses.
fn root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout == b"0\n")
}

/// A command as a user whom PostgreSQL accepts.
fn command(program: &Path) -> Command {
    if !root() {
        return Command::new(program);
    }
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).arg(program);
    command
}

impl Server {
    /// A new server, running; none where PostgreSQL is not installed.
    pub(crate) fn new() -> Option<Self> {
        let programs = programs()?;
        // Short, since the path of a socket has at most 107 bytes; removed by the server's own shell.
        let folder = tempfile::Builder::new()
            .prefix("laau-pg")
            .tempdir()
            .expect("a temporary folder")
            .keep();
        if root() {
            run(Command::new("chown").arg("postgres").arg(&folder));
        }
        let mut initdb = command(&programs.join("initdb"));
        initdb.args([
            "--no-sync",
            "--auth=trust",
            "--username=laau",
            "--encoding=UTF8",
            "--locale=C",
            "-D",
        ]);
        run(initdb.arg(folder.join("data")));
        let mut server = Self {
            folder,
            programs,
            settings: Vec::new(),
            child: None,
        };
        server.start();
        Some(server)
    }

    /// Starts anew with a certificate in PEM format, and lets in over TCP only who encrypts; gives the port.
    pub(crate) fn encrypt(&mut self, certificate: &str, key: &str) -> u16 {
        self.stop();
        let data = self.folder.join("data");
        for (name, content) in [
            ("server.crt", certificate),
            ("server.key", key),
            (
                "pg_hba.conf",
                "local all all trust\nhostssl all all 127.0.0.1/32 trust\n",
            ),
        ] {
            let path = data.join(name);
            std::fs::write(&path, content).expect("the folder can be written");
            run(Command::new("chmod").arg("600").arg(&path));
            if root() {
                run(Command::new("chown").arg("postgres").arg(&path));
            }
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        self.settings = ["listen_addresses=127.0.0.1", "ssl=on", &format!("port={port}")]
            .iter()
            .flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()])
            .collect();
        self.start();
        port
    }

    /// One server for all tests that leave it as they find it.
    pub(crate) fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<Server>> = OnceLock::new();
        SHARED.get_or_init(Self::new).as_ref()
    }

    /// Starts the server and waits until it answers.
    pub(crate) fn start(&mut self) {
        let script = r#"
            programs=$1 folder=$2
            shift 2
            "$programs"/postgres -D "$folder"/data -k "$folder" -c listen_addresses= -c fsync=on \
                -c max_connections=50 -c shared_buffers=32MB "$@" >> "$folder"/log 2>&1 &
            server=$!
            exec 3<&0
            ( read -r _ <&3; kill -INT $server ) &
            watch=$!
            wait $server
            kill $watch 2> /dev/null
            [ -e "$folder"/keep ] || rm -rf "$folder""#;
        for _ in 0..100 {
            let mut shell = command(Path::new("/bin/sh"));
            shell
                .args(["-c", script, "sh"])
                .arg(&self.programs)
                .arg(&self.folder)
                .args(&self.settings)
                .stdin(Stdio::piped())
                .stderr(Stdio::null());
            std::fs::write(self.folder.join("keep"), "").expect("the folder can be written");
            let mut child = shell.spawn().expect("the shell starts");
            while child.try_wait().expect("the child can be asked").is_none() {
                if self.answers() {
                    std::fs::remove_file(self.folder.join("keep")).expect("the folder can be written");
                    self.child = Some(child);
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            // After a kill the memory of the old server may be in use a little longer.
            std::thread::sleep(Duration::from_millis(100));
        }
        let log = std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        panic!("the server does not start: {log}");
    }

    fn answers(&self) -> bool {
        let mut ready = command(&self.programs.join("pg_isready"));
        let status = ready
            .arg("-q")
            .arg("-h")
            .arg(&self.folder)
            .args(self.port())
            .status();
        status.is_ok_and(|status| status.success())
    }

    /// Where PostgreSQL's programs find the server, if not at its usual port.
    fn port(&self) -> Option<String> {
        let port = self
            .settings
            .iter()
            .find_map(|setting| setting.strip_prefix("port="));
        port.map(|port| format!("--port={port}"))
    }

    /// Ends the server at once, without a word to anybody.
    pub(crate) fn kill(&mut self) {
        self.end("KILL");
    }

    /// Ends the server in order: sessions are cut, files closed.
    pub(crate) fn stop(&mut self) {
        self.end("INT");
    }

    fn end(&mut self, signal: &str) {
        std::fs::write(self.folder.join("keep"), "").expect("the folder can be written");
        self.signal(signal);
        if let Some(mut child) = self.child.take() {
            child.wait().expect("the shell ends with the server");
        }
    }

    /// Sends the server's first process a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).expect("the server runs");
        let pid = pid.lines().next().expect("a line").to_owned();
        run(Command::new("kill").args([format!("-{signal}"), pid]));
    }

    /// Makes a database; gives its URL.
    pub(crate) fn database(&self, name: &str) -> String {
        let mut createdb = command(&self.programs.join("createdb"));
        run(createdb
            .args(["-U", "laau", "-T", "template0", name, "-h"])
            .arg(&self.folder));
        self.url(name)
    }

    /// The URL of a database.
    pub(crate) fn url(&self, name: &str) -> String {
        let folder = self
            .folder
            .to_str()
            .expect("a temporary folder's name")
            .replace('/', "%2F");
        format!("postgres://laau@{folder}/{name}")
    }

    /// Runs SQL.
    pub(crate) fn sql(&self, database: &str, sql: &str) -> String {
        let mut psql = command(&self.programs.join("psql"));
        psql.args([
            "-U",
            "laau",
            "-qAt",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
            sql,
            "-d",
            database,
            "-h",
        ]);
        run(psql.arg(&self.folder))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.stdin.take());
            // Its folder is in nobody's way if it does not end.
            let _ = child.wait();
        }
    }
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
