//! `laau serve`: a budget authority that many programs share.

mod key;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use laau_serve::http::{Access, HttpOptions, Tls, TlsError};
use laau_serve::store::StoreError;
use laau_serve::{AuthorityOptions, LogFormat, ServeOptions, Serving, StartError, StorePlace, demo, logs};
use tempfile::TempDir;

use crate::failure::{Failure, Hint as _, reason};
use crate::output;

/// The arguments as they are typed.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Example:
  $ laau serve --demo
  $ laau serve key --store budgets.laau --scope admin > admin.key
  $ laau serve --store budgets.laau
  $ laau serve --store budgets.laau --listen 0.0.0.0:7171 --tls-cert cert.pem --tls-key key.pem
  $ laau serve --store postgres://laau@db/laau --listen 10.0.0.5:7171 --advertise http://10.0.0.5:7171

Then, with a key in $LAAU_KEY:
  $ curl -H \"Authorization: Bearer $LAAU_KEY\" http://127.0.0.1:7171/v1/accounts

/ is a page to look at, /openapi.json describes the API. SIGTERM and Ctrl-C finish the requests under way."
)]
pub(crate) struct ServeArgs {
    #[command(subcommand)]
    command: Option<ServeCommand>,
    /// The store: a file, which is made if it is not there, or the URL of a PostgreSQL database
    #[arg(
        long,
        value_name = "FILE|URL",
        required_unless_present = "demo",
        conflicts_with = "demo"
    )]
    store: Option<StorePlace>,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7171")]
    listen: SocketAddr,
    /// The base URL at which other nodes of the same database reach this one; that of --listen if not given
    #[arg(long, value_name = "URL", value_parser = base_url)]
    advertise: Option<String>,
    /// The folder of models and policy files that accounts may name
    #[arg(long, value_name = "DIR")]
    policies: Option<PathBuf>,
    /// A certificate in PEM format, for TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Answers requests without an API key, which may do everything; on a loopback address only
    #[arg(long)]
    insecure_loopback: bool,
    /// Makes a temporary store with an account on a synthetic workload, and plays it in real time; implies --insecure-loopback
    #[arg(long)]
    demo: bool,
    /// The format of the log on standard error: text or json; `RUST_LOG` chooses what is told
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log: LogFormat,
    /// The longest body of a request, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    body: usize,
    /// Connections at a time; more wait
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = positive)]
    connections: usize,
    /// Requests of an API key in a second; no limit if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
    /// Accounts that may be made
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    accounts: usize,
    /// Actions times budgets of an account that is made, at most: while one account decides, all others of the node wait
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = positive)]
    largest: usize,
    /// Seconds after which another node may take over the accounts of one that is gone
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=3600))]
    lease: u64,
    /// Seconds for requests under way when the service is asked to end
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    grace: u64,
}

#[derive(Debug, Subcommand)]
enum ServeCommand {
    /// Makes, lists or revokes API keys in the store
    Key(key::KeyArgs),
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("expected a positive number".to_owned()),
    }
}

fn base_url(text: &str) -> Result<String, String> {
    let host = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    match host {
        Some(host) if !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err("expected a URL such as http://10.0.0.5:7171".to_owned()),
    }
}

/// Serves until it is asked to end.
pub(crate) fn run(arguments: &ServeArgs) -> Result<(), Failure> {
    if let Some(ServeCommand::Key(arguments)) = &arguments.command {
        return key::run(arguments);
    }
    logs::to_standard_error(arguments.log);
    // It is removed when the service has ended.
    let folder = arguments.demo.then(temporary_folder).transpose()?;
    let store = match (&arguments.store, &folder) {
        (Some(store), _) => store.clone(),
        (None, Some(folder)) => StorePlace::File(folder.path().join("demo.laau")),
        (None, None) => {
            return Err(Failure::new(
                "expected --store or --demo",
                "see `laau serve --help`",
            ));
        }
    };
    let serving = Serving::start(options(arguments, store)?).map_err(|error| told(&error))?;
    if arguments.demo {
        let authority = serving.authority().clone();
        serving
            .block_on(authority.create(demo::account().hint("this is a mistake in laau itself")?))
            .hint("this is a mistake in laau itself: please report it")?;
        serving.beside(demo::play(authority));
    }
    let url = serving.url();
    output::talk(format_args!("listening on {url}; {url}/ is a page to look at"));
    if arguments.demo || arguments.insecure_loopback {
        output::talk("without API keys: every program on this machine may do everything");
    } else if arguments.tls_cert.is_none() && !arguments.listen.ip().is_loopback() {
        output::talk(
            "warning: without TLS, API keys can be read on the network; give --tls-cert, or let a proxy have it",
        );
    }
    serving
        .until_signal()
        .hint("what was answered is in the store; start the service again")
}

fn options(arguments: &ServeArgs, store: StorePlace) -> Result<ServeOptions, Failure> {
    let is_open = arguments.demo || arguments.insecure_loopback;
    let tls = match (&arguments.tls_cert, &arguments.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(Tls::read(certificate, key).map_err(|error| certificate_told(&error))?)
        }
        _ => None,
    };
    if let Some(folder) = &arguments.policies
        && !folder.is_dir()
    {
        return Err(Failure::new(
            format_args!(
                "{}: expected a folder of models and policy files",
                folder.display()
            ),
            "name a folder with --policies, or leave it out",
        ));
    }
    Ok(ServeOptions {
        store,
        listen: arguments.listen,
        advertise: arguments.advertise.clone(),
        lease: Duration::from_secs(arguments.lease),
        authority: AuthorityOptions {
            policies: arguments.policies.clone(),
            most_accounts: arguments.accounts,
            largest: arguments.largest,
            ..AuthorityOptions::default()
        },
        http: HttpOptions {
            access: if is_open {
                Access::InsecureLoopback
            } else {
                Access::Keys
            },
            body: arguments.body,
            connections: arguments.connections,
            rate: arguments.rate,
            grace: Duration::from_secs(arguments.grace),
            ..HttpOptions::default()
        },
        tls,
    })
}

fn told(error: &StartError) -> Failure {
    match error {
        StartError::Store { place, source } => store_told(place, source),
        StartError::Listen { address, source } => Failure::new(
            format_args!("{address}: {}", reason(source)),
            match source.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "another program listens there; choose another with --listen"
                }
                std::io::ErrorKind::PermissionDenied => {
                    "ports below 1024 need permission; choose another with --listen"
                }
                _ => "choose an address of this machine with --listen",
            },
        ),
        StartError::NotLoopback { .. } => Failure::new(
            error,
            "listen on 127.0.0.1, or leave --insecure-loopback out and make keys with `laau serve key`",
        ),
        StartError::NoAddress { .. } => Failure::new(
            error,
            "give the URL of this node with --advertise, for example http://10.0.0.5:7171",
        ),
        StartError::NoKeys { place } => Failure::new(
            error,
            format_args!("make the first one with `laau serve key --store {place} --scope admin`"),
        ),
        _ => Failure::new(error, "see `laau serve --help`"),
    }
}

/// What is wrong with a store, and what to do.
fn store_told(place: &StorePlace, error: &StoreError) -> Failure {
    let hint = match (error, place) {
        (StoreError::Locked, _) => {
            "another `laau` serves it; while it runs, keys are made with POST /v1/keys"
        }
        (StoreError::Version { .. }, _) => "use the version of laau that made it, or name another store",
        (StoreError::Damaged { .. }, _) => "restore it from a backup; nothing of it was changed",
        (_, StorePlace::Postgres(_)) => "check the URL, and that the server runs and lets this user in",
        (_, StorePlace::File(_)) => "name a file that can be written in a folder that exists",
    };
    Failure::new(format_args!("{place}: {error}"), hint)
}

fn certificate_told(error: &TlsError) -> Failure {
    let hint = match error {
        TlsError::File { .. } => "check the path and its permissions",
        TlsError::Content { .. } => {
            "--tls-cert takes the certificate, with those between it and the root; --tls-key its key"
        }
        _ => "the certificate and the key must belong together",
    };
    Failure::new(error, hint)
}

/// A folder of a name that no other has; it is removed when it is dropped. The number of the process would not do: one that was
/// killed in a container leaves its folder to the next one of the same number.
fn temporary_folder() -> Result<TempDir, Failure> {
    let folder = tempfile::Builder::new().prefix("laau-demo-").tempdir();
    folder.map_err(|error| {
        Failure::file(
            &std::env::temp_dir(),
            &error,
            "a demonstration needs a temporary folder: set TMPDIR",
        )
    })
}
