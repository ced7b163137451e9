//! `authority`: every route with every key. A key of one account reads and spends nothing of another.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http::{Client, Request};
use crate::say;
use crate::server::{Node, PATIENCE, make_key};

/// What `authority` is asked: nothing.
#[derive(Args)]
pub(crate) struct AuthorityArgs {}

/// What a key may do, from the least to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Read,
    Decide,
    Admin,
}

const SCOPES: [(Scope, &str); 3] = [
    (Scope::Read, "read"),
    (Scope::Decide, "decide"),
    (Scope::Admin, "admin"),
];

/// What a route needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// This scope on the account of the path.
    OnAccount(Scope),
    /// This scope on all accounts.
    OnAll(Scope),
    /// Any key: the answer itself is limited to what the key may see.
    AnyKey,
}

/// Method, path with `{a}` and `{d}`, body, what it needs.
type Route = (&'static str, &'static str, Option<&'static str>, Needs);

/// Routes that destroy come last.
const ROUTES: &[Route] = &[
    ("GET", "/healthz", None, Needs::Nothing),
    ("GET", "/readyz", None, Needs::Nothing),
    ("GET", "/openapi.json", None, Needs::Nothing),
    ("GET", "/", None, Needs::Nothing),
    ("GET", "/metrics", None, Needs::OnAll(Scope::Read)),
    ("GET", "/v1/accounts", None, Needs::AnyKey),
    (
        "POST",
        "/v1/accounts",
        Some(r#"{"name":"x"}"#),
        Needs::OnAll(Scope::Admin),
    ),
    ("GET", "/v1/accounts/{a}", None, Needs::OnAccount(Scope::Read)),
    (
        "GET",
        "/v1/accounts/{a}/periods/0/entries",
        None,
        Needs::OnAccount(Scope::Read),
    ),
    (
        "GET",
        "/v1/accounts/{a}/events",
        None,
        Needs::OnAccount(Scope::Read),
    ),
    (
        "POST",
        "/v1/accounts/{a}/decisions",
        Some(r#"{"context":[0.5]}"#),
        Needs::OnAccount(Scope::Decide),
    ),
    (
        "POST",
        "/v1/accounts/{a}/decisions/{d}/settlement",
        Some(r#"{"usage":[0]}"#),
        Needs::OnAccount(Scope::Decide),
    ),
    (
        "POST",
        "/v1/accounts/{a}/skip",
        Some(r#"{"steps":1}"#),
        Needs::OnAccount(Scope::Decide),
    ),
    (
        "POST",
        "/v1/accounts/{a}/decisions/{d}/release",
        None,
        Needs::OnAccount(Scope::Admin),
    ),
    (
        "POST",
        "/v1/accounts/{a}/periods",
        None,
        Needs::OnAccount(Scope::Admin),
    ),
    ("GET", "/v1/keys", None, Needs::OnAll(Scope::Admin)),
    (
        "POST",
        "/v1/keys",
        Some(r#"{"scope":"none"}"#),
        Needs::OnAll(Scope::Admin),
    ),
    (
        "DELETE",
        "/v1/keys/0000000000000000",
        None,
        Needs::OnAll(Scope::Admin),
    ),
    ("DELETE", "/v1/accounts/{a}", None, Needs::OnAccount(Scope::Admin)),
];

/// A key, and what it should be good for: nothing, or a scope on one account or all.
struct Key {
    name: String,
    token: Option<String>,
    /// The account it is tried on as its own: routes that close an account come last.
    mine: String,
    good_for: Option<(Scope, Bound)>,
}

/// Which accounts a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    All,
    Mine,
}

/// Tries every route with every key.
pub(crate) async fn run(_: &AuthorityArgs, laau: &Path) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let store = folder.path().join("store.redb").display().to_string();
    let admin = make_key(laau, &store, "admin", None)?;
    let mut node = Node::new(laau, &store, folder.path(), "authority")?.with_all_logs();
    node.up().await?;
    let mut bench = Bench {
        client: Client::new(node.address, PATIENCE),
        number: 0,
        admin,
    };
    let keys = bench.keys().await?;
    let mut tried = 0;
    for key in &keys {
        for route in ROUTES {
            tried += bench.try_route(&node, key, route).await?;
        }
    }
    bench.revoke_at_once().await?;
    let admin = bench.admin.clone();
    let tokens = keys.iter().filter_map(|key| key.token.as_deref());
    let secrets: Vec<&str> = tokens
        .filter(|token| token.len() > 40)
        .chain([admin.as_str()])
        .collect();
    let lines = no_secret_in(&node.output(), &secrets)?;
    let listed = bench.ask(&Request::get("/v1/keys"), Some(&admin)).await?;
    no_secret_in(&listed.1, &secrets)?;
    node.check_panics()?;
    say(&format!(
        "authority: {tried} pairs of route and key ({} routes, {} keys, on their own account, another and none); a revoked key \
         stops at once; no secret of {} in {lines} lines of log",
        ROUTES.len(),
        keys.len(),
        secrets.len()
    ));
    Ok(())
}

/// Fails if a secret, or the secret part of one, stands in a text; gives its number of lines.
fn no_secret_in(text: &str, secrets: &[&str]) -> anyhow::Result<usize> {
    for secret in secrets {
        let part = secret.rsplit('_').next().unwrap_or(secret);
        if let Some(line) = text.lines().find(|line| line.contains(part)) {
            bail!("a secret was printed: {line}");
        }
    }
    Ok(text.lines().count())
}

struct Bench {
    client: Client,
    number: u64,
    admin: String,
}

impl Bench {
    async fn ask(&mut self, request: &Request, token: Option<&str>) -> anyhow::Result<(u16, String)> {
        let mut request = request.clone();
        request.secret = token.map(str::to_owned);
        if request.method == "POST" {
            self.number += 1;
            request.key = Some(format!("authority-{}", self.number));
        }
        let response = self.client.send(&request).await?;
        Ok((response.status, response.text()))
    }

    async fn as_admin(&mut self, request: &Request) -> anyhow::Result<Value> {
        let admin = self.admin.clone();
        let (status, body) = self.ask(request, Some(&admin)).await?;
        ensure!(
            status < 300,
            "{} {}: {status} {body}",
            request.method,
            request.path
        );
        Ok(serde_json::from_str(&body).unwrap_or_default())
    }

    async fn make(&mut self, scope: &str, account: Option<&str>) -> anyhow::Result<(String, String)> {
        let mut body = json!({"scope": scope});
        if let Some(account) = account {
            body["account"] = account.into();
        }
        let made = self
            .as_admin(&Request::post("/v1/keys", body.to_string()))
            .await?;
        let text = |name: &str| {
            made[name]
                .as_str()
                .map(str::to_owned)
                .context("a key without its token")
        };
        Ok((text("id")?, text("token")?))
    }

    /// One key of each kind, and some of no use.
    async fn keys(&mut self) -> anyhow::Result<Vec<Key>> {
        let mut keys = Vec::new();
        for (scope, name) in SCOPES {
            for bound in [Bound::All, Bound::Mine] {
                let mine = format!("mine-{}", keys.len());
                let account = (bound == Bound::Mine).then_some(mine.as_str());
                let (_, token) = self.make(name, account).await?;
                keys.push(Key {
                    name: format!("{name} on {bound:?}"),
                    token: Some(token),
                    mine,
                    good_for: Some((scope, bound)),
                });
            }
        }
        let (id, revoked) = self.make("admin", None).await?;
        let admin = self.admin.clone();
        let (status, body) = self
            .ask(&Request::delete(format!("/v1/keys/{id}")), Some(&admin))
            .await?;
        ensure!(status < 300, "revoking: {status} {body}");
        let mut wrong = self.admin.clone();
        let last = if wrong.pop() == Some('0') { '1' } else { '0' };
        wrong.push(last);
        let (shown, other) = (self.admin.rsplit_once('_'), revoked.rsplit_once('_'));
        let crossed = shown
            .zip(other)
            .map(|((id, _), (_, secret))| format!("{id}_{secret}"));
        for (name, token) in [
            ("none", None),
            ("revoked", Some(revoked)),
            ("wrong in its last digit", Some(wrong)),
            ("of one key's name and another's secret", crossed),
            ("empty", Some(String::new())),
            ("garbage", Some("laau_%00_../../x".to_owned())),
        ] {
            keys.push(Key {
                name: name.to_owned(),
                token,
                mine: format!("mine-{}", keys.len()),
                good_for: None,
            });
        }
        Ok(keys)
    }

    /// One route with one key on its own account, another one, and one that does not exist.
    async fn try_route(&mut self, node: &Node, key: &Key, route: &Route) -> anyhow::Result<usize> {
        let (method, path, body, needs) = *route;
        let mut of_others = BTreeMap::new();
        let path_names_account = path.contains("{a}");
        let accounts: &[&str] = if path_names_account {
            &["mine", "theirs", "nobodys"]
        } else {
            &["mine"]
        };
        for account in accounts {
            // Each pair has fresh accounts: what one route closes, another would not find.
            let suffix = self.number;
            let real = |account: &str| match account {
                "mine" => key.mine.clone(),
                other => format!("{other}-{suffix}"),
            };
            let name = real(account);
            let exists = *account != "nobodys";
            let decision = if exists {
                self.prepare(&name).await?
            } else {
                "0-0".to_owned()
            };
            let before = self.state(&name, exists).await?;
            let path = path.replace("{a}", &name).replace("{d}", &decision);
            let mut request = Request::get(path);
            request.method = method;
            request.body = body.map(str::to_owned);
            let status = if request.path.ends_with("/events") {
                status_of_stream(node, &request, key.token.as_deref()).await?
            } else {
                self.ask(&request, key.token.as_deref()).await?.0
            };
            let own = |bound: Bound| bound == Bound::All || *account == "mine";
            let allowed = match (needs, key.good_for) {
                (Needs::Nothing, _) | (Needs::AnyKey, Some(_)) => true,
                (_, None) => false,
                (Needs::OnAccount(needed), Some((scope, bound))) => scope >= needed && own(bound),
                (Needs::OnAll(needed), Some((scope, bound))) => scope >= needed && bound == Bound::All,
            };
            let what = format!("{method} {} with a key {}: {status}", request.path, key.name);
            match (allowed, key.good_for) {
                (true, _) => ensure!(
                    !matches!(status, 401 | 403 | 500..),
                    "{what}, expected to be allowed"
                ),
                (false, None) => ensure!(status == 401, "{what}, expected 401"),
                // Somebody else's account is not there, for all that the key can tell.
                (false, Some((_, bound))) if path_names_account && !own(bound) => {
                    ensure!(status == 404, "{what}, expected 404");
                }
                (false, Some(_)) => ensure!(status == 403, "{what}, expected 403"),
            }
            if !allowed {
                ensure!(
                    before == self.state(&name, exists).await?,
                    "{what}, and yet something changed"
                );
                of_others.insert(*account, status);
            }
        }
        // Whether somebody else's account exists is nobody's business.
        if let (Some(one), Some(other)) = (of_others.get("theirs"), of_others.get("nobodys")) {
            ensure!(
                one == other,
                "{method} {path}: {one} and {other} tell which accounts exist"
            );
        }
        Ok(accounts.len())
    }

    /// An account with an open decision.
    async fn prepare(&mut self, name: &str) -> anyhow::Result<String> {
        let admin = self.admin.clone();
        let (status, body) = self
            .ask(&Request::get(format!("/v1/accounts/{name}")), Some(&admin))
            .await?;
        let closed = serde_json::from_str::<Value>(&body).is_ok_and(|view| view["closed"] == true);
        ensure!(!closed, "{name} was closed by a key that may not");
        if status != 200 {
            let spec = json!({"name": name, "policy": {"name": "equal"}, "budgets": [1e6], "horizon": 100_000,
                              "problem": {"name": "weighted-fairness"}});
            self.as_admin(&Request::post("/v1/accounts", spec.to_string()))
                .await?;
        }
        let path = format!("/v1/accounts/{name}/decisions");
        let decision = self
            .as_admin(&Request::post(path, r#"{"context":[0.5]}"#))
            .await?;
        Ok(decision["decision"]
            .as_str()
            .context("a decision without a name")?
            .to_owned())
    }

    async fn state(&mut self, name: &str, exists: bool) -> anyhow::Result<String> {
        if !exists {
            return Ok(String::new());
        }
        Ok(self
            .as_admin(&Request::get(format!("/v1/accounts/{name}")))
            .await?
            .to_string())
    }

    /// After the answer to a revocation nobody gets in with the key any more.
    async fn revoke_at_once(&mut self) -> anyhow::Result<()> {
        for _ in 0..20 {
            let (id, token) = self.make("read", None).await?;
            let list = Request::get("/v1/accounts").by(&token);
            let mut others: Vec<Client> = (0..4)
                .map(|_| Client::new(self.client.address, PATIENCE))
                .collect();
            for other in &mut others {
                ensure!(other.send(&list).await?.status == 200, "a fresh key is refused");
            }
            let admin = self.admin.clone();
            self.ask(&Request::delete(format!("/v1/keys/{id}")), Some(&admin))
                .await?;
            for other in &mut others {
                let status = other.send(&list).await?.status;
                ensure!(status == 401, "a revoked key is answered {status}");
            }
        }
        Ok(())
    }
}

/// The status of an answer without end.
async fn status_of_stream(node: &Node, request: &Request, token: Option<&str>) -> anyhow::Result<u16> {
    let mut request = request.clone();
    request.secret = token.map(str::to_owned);
    let mut stream = TcpStream::connect(node.address).await?;
    stream.write_all(&request.bytes()).await?;
    let mut buffer = Vec::new();
    while buffer.len() < 12 {
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read_buf(&mut buffer)).await??;
        ensure!(read > 0, "no answer");
    }
    let status = std::str::from_utf8(&buffer[9..12])
        .ok()
        .and_then(|status| status.parse().ok());
    status.context("no status")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_in_a_log_is_found_even_without_its_name() {
        let secret = "laau_0011_abcdef";
        assert_eq!(no_secret_in("one\ntwo", &[secret]).unwrap(), 2);
        assert!(no_secret_in("header: Bearer laau_0011_abcdef", &[secret]).is_err());
        assert!(no_secret_in("key abcdef was used", &[secret]).is_err());
    }
}
