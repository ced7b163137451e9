//! `laau serve key`: API keys in a store that nobody serves, or in a database.

use clap::Args;
use laau_serve::store::{Batch, Write};
use laau_serve::{NewKey, Scope, StorePlace};

use super::store_told;
use crate::failure::{Failure, Hint as _};
use crate::output;

/// The arguments as they are typed.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  $ laau serve key --store budgets.laau --scope admin > admin.key
  $ laau serve key --store budgets.laau --scope decide --account gateway
  $ laau serve key --store budgets.laau --list
  $ laau serve key --store budgets.laau --revoke 1f0c9a7be2d44c03

The key is printed once; the store has its hash alone. A running service makes keys over HTTP: POST /v1/keys.")]
pub(super) struct KeyArgs {
    /// The store: a file, which is made with its first key, or the URL of a PostgreSQL database
    #[arg(long, value_name = "FILE|URL")]
    store: StorePlace,
    /// What the key allows: read, decide or admin; each includes those before it
    #[arg(long, value_name = "SCOPE", value_parser = scope, required_unless_present_any = ["list", "revoke"])]
    scope: Option<Scope>,
    /// The account that the key is for, which need not exist yet; all of them if not given
    #[arg(long, value_name = "NAME", requires = "scope")]
    account: Option<String>,
    /// Lists the keys: name, scope, account
    #[arg(long, conflicts_with_all = ["scope", "revoke"])]
    list: bool,
    /// Revokes a key by its name
    #[arg(long, value_name = "ID", conflicts_with = "scope")]
    revoke: Option<String>,
}

fn scope(text: &str) -> Result<Scope, String> {
    match text {
        "read" => Ok(Scope::Read),
        "decide" => Ok(Scope::Decide),
        "admin" => Ok(Scope::Admin),
        _ => Err("expected read, decide or admin".to_owned()),
    }
}

fn name(scope: Scope) -> &'static str {
    match scope {
        Scope::Read => "read",
        Scope::Decide => "decide",
        Scope::Admin => "admin",
    }
}

pub(super) fn run(arguments: &KeyArgs) -> Result<(), Failure> {
    let place = &arguments.store;
    // Only a new key makes a store: there is nothing to list or to revoke at a path that was mistyped.
    if arguments.scope.is_none()
        && let StorePlace::File(path) = place
    {
        std::fs::metadata(path)
            .map_err(|error| Failure::file(path, &error, "name the store that has the keys"))?;
    }
    // It owns no account: nobody looks for it at an address.
    let mut store = place
        .open("", std::time::Duration::from_secs(10))
        .map_err(|error| store_told(place, &error))?;
    let keys = store.keys().map_err(|error| store_told(place, &error))?;
    if arguments.list {
        let line = |key: &laau_serve::ApiKey| {
            let account = key.account.as_deref().unwrap_or("all accounts");
            format!("{}  {:6}  {account}\n", key.id, name(key.scope))
        };
        return output::print(keys.iter().map(line).collect::<String>());
    }
    let mut commit = |write| {
        let batch = Batch {
            writes: vec![write],
            ..Batch::default()
        };
        store.commit(&batch).map_err(|error| store_told(place, &error))
    };
    if let Some(id) = &arguments.revoke {
        if !keys.iter().any(|key| key.id == *id) {
            return Err(Failure::new(
                format_args!("{place}: no API key `{id}`"),
                "--list shows the names of all keys",
            ));
        }
        return commit(Write::RevokeKey { id: id.clone() });
    }
    let Some(scope) = arguments.scope else {
        return Err(Failure::new(
            "expected --scope, --list or --revoke",
            "see `laau serve key --help`",
        ));
    };
    let new = NewKey::generate(scope, arguments.account.clone())
        .hint("name the account as it will be called: lower-case letters, digits, `.`, `_` and `-`")?;
    commit(Write::Key(new.key.clone()))?;
    output::print(format!("{}\n", new.token()))
}
