//! API keys: how they are made, and how one that is shown is found.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use laau::registry::digest;
use subtle::ConstantTimeEq as _;
use tokio::sync::Mutex;

use crate::account::check_name;
use crate::authority::Authority;
use crate::entry::{ApiKey, Scope};
use crate::error::Error;

/// What every key begins with, so that scanners find one that leaked.
const PREFIX: &str = "laau_";

/// Random bytes in the public name of a key.
const ID_BYTES: usize = 8;

/// Random bytes in its secret part: nobody guesses 256 bits.
const SECRET_BYTES: usize = 32;

/// A new key with its secret, which is shown once and stored nowhere.
pub struct NewKey {
    /// What is stored.
    pub key: ApiKey,
    secret: String,
}

impl NewKey {
    /// Makes a key from the system's random numbers.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an account that cannot be, or when the system has no random numbers, which does not happen on one
    /// that has booted.
    pub fn generate(scope: Scope, account: Option<String>) -> Result<Self, Error> {
        if let Some(name) = &account {
            check_name(name)?;
        }
        let mut random = [0; ID_BYTES + SECRET_BYTES];
        getrandom::fill(&mut random).map_err(|error| Error::Invalid {
            reason: format!("the system gives no random numbers: {error}"),
        })?;
        let (id, secret) = random.split_at(ID_BYTES);
        let (id, secret) = (hexadecimal(id), hexadecimal(secret));
        let created = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
        Ok(Self {
            key: ApiKey {
                hash: hash(&secret),
                id,
                scope,
                account,
                created,
            },
            secret,
        })
    }

    /// What is put into the `Authorization` header after `Bearer`.
    #[must_use]
    pub fn token(&self) -> String {
        format!("{PREFIX}{}_{}", self.key.id, self.secret)
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey")
            .field("id", &self.key.id)
            .field("scope", &self.key.scope)
            .field("account", &self.key.account)
            .finish_non_exhaustive()
    }
}

/// A key as somebody shows it. It has no `Debug`: a secret is not to be printed.
pub(crate) struct Token<'a> {
    id: &'a str,
    secret: &'a str,
}

impl<'a> Token<'a> {
    /// Reads `laau_<id>_<secret>`.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let digits = |text: &str, bytes: usize| {
            text.len() == 2 * bytes
                && text
                    .bytes()
                    .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        };
        (digits(id, ID_BYTES) && digits(secret, SECRET_BYTES)).then_some(Self { id, secret })
    }

    /// Whether this is the secret of a key: as many instructions for a wrong one as for the right one.
    fn opens(&self, hash_of_key: &str) -> bool {
        hash(self.secret).as_bytes().ct_eq(hash_of_key.as_bytes()).into()
    }
}

fn hash(secret: &str) -> String {
    digest(secret.as_bytes())
}

fn hexadecimal(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// When the keys are read again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Freshness {
    /// Keys that other nodes have made or revoked are known after this time.
    pub(crate) age: Duration,
    /// After a key that is unknown, the store is asked again, but not more often than this.
    pub(crate) between_misses: Duration,
}

impl Default for Freshness {
    fn default() -> Self {
        Self {
            age: Duration::from_secs(3),
            between_misses: Duration::from_secs(1),
        }
    }
}

/// The keys of the store, kept in memory.
pub(crate) struct Keyring {
    authority: Authority,
    freshness: Freshness,
    keys: RwLock<Kept>,
    /// One refresh at a time; others go on with what is known.
    refreshing: Mutex<()>,
}

#[derive(Clone, Default)]
struct Kept {
    keys: Arc<BTreeMap<String, Arc<ApiKey>>>,
    read: Option<Instant>,
}

impl Keyring {
    pub(crate) fn new(authority: Authority, freshness: Freshness) -> Self {
        Self {
            authority,
            freshness,
            keys: RwLock::default(),
            refreshing: Mutex::new(()),
        }
    }

    /// The key that somebody shows, if there is one.
    ///
    /// While the store does not answer, the keys that are known are good.
    ///
    /// # Errors
    /// [`Error::Unauthorized`], or that of the store when no keys were ever read.
    pub(crate) async fn find(&self, token: &Token<'_>) -> Result<Arc<ApiKey>, Error> {
        let kept = self.kept();
        let stale = kept.read.is_none_or(|read| read.elapsed() >= self.freshness.age);
        let kept = if stale { self.refreshed(kept).await? } else { kept };
        if let Some(key) = Self::look(&kept, token) {
            return Ok(key);
        }
        // It may have been made by another node a moment ago.
        let wait = self.freshness.between_misses;
        if kept.read.is_some_and(|read| read.elapsed() < wait) {
            return Err(Error::Unauthorized);
        }
        let kept = self.refreshed(kept).await?;
        Self::look(&kept, token).ok_or(Error::Unauthorized)
    }

    /// Whether a key is still there.
    pub(crate) async fn holds(&self, id: &str) -> bool {
        let kept = self.kept();
        let stale = kept.read.is_none_or(|read| read.elapsed() >= self.freshness.age);
        let kept = if stale {
            self.refreshed(kept.clone()).await.unwrap_or(kept)
        } else {
            kept
        };
        kept.keys.contains_key(id)
    }

    /// Reads the keys after one was made or revoked here.
    pub(crate) async fn refresh(&self) -> Result<(), Error> {
        let _alone = self.refreshing.lock().await;
        self.read().await.map(drop)
    }

    fn kept(&self) -> Kept {
        self.keys
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// The keys of the store, or those that are known if it does not answer or somebody else asks it already.
    async fn refreshed(&self, kept: Kept) -> Result<Kept, Error> {
        let first = kept.read.is_none();
        let _alone = match (self.refreshing.try_lock(), first) {
            (Ok(alone), _) => alone,
            (Err(_), false) => return Ok(kept),
            (Err(_), true) => self.refreshing.lock().await,
        };
        let now = self.kept();
        if now.read > kept.read {
            return Ok(now);
        }
        match self.read().await {
            Ok(kept) => Ok(kept),
            Err(error) if first => Err(error),
            Err(error) => {
                tracing::warn!(%error, "the API keys cannot be read; those known go on");
                Ok(kept)
            }
        }
    }

    async fn read(&self) -> Result<Kept, Error> {
        let asked = Instant::now();
        let keys = self.authority.keys().await?;
        let keys = keys.into_iter().map(|key| (key.id.clone(), Arc::new(key)));
        let kept = Kept {
            keys: Arc::new(keys.collect()),
            read: Some(asked),
        };
        *self
            .keys
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = kept.clone();
        Ok(kept)
    }

    fn look(kept: &Kept, token: &Token<'_>) -> Option<Arc<ApiKey>> {
        // An unknown name costs as much as a wrong secret.
        const NOBODY: &str = "0000000000000000000000000000000000000000000000000000000000000000";
        let key = kept.keys.get(token.id);
        let opens = token.opens(key.map_or(NOBODY, |key| &key.hash));
        key.filter(|_| opens).map(Arc::clone)
    }
}

/// What a caller may do: with a key what that allows, without one (loopback only) everything.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    /// The public name of the key.
    pub(crate) id: Option<String>,
    scope: Scope,
    account: Option<String>,
}

impl Grant {
    /// Everything: for a service on a loopback address that was told to ask for no keys.
    pub(crate) fn everything() -> Self {
        Self {
            id: None,
            scope: Scope::Admin,
            account: None,
        }
    }

    pub(crate) fn of(key: &ApiKey) -> Self {
        Self {
            id: Some(key.id.clone()),
            scope: key.scope,
            account: key.account.clone(),
        }
    }

    /// The account it is for, if not for all.
    pub(crate) fn own_account(&self) -> Option<&str> {
        self.account.as_deref()
    }

    /// Whether it allows so much on an account.
    ///
    /// # Errors
    /// [`Error::UnknownAccount`] for every account that it is not for, whether there is one or not; [`Error::Forbidden`].
    pub(crate) fn on(&self, account: &str, scope: Scope) -> Result<(), Error> {
        if self.own_account().is_some_and(|own| own != account) {
            return Err(Error::UnknownAccount {
                account: account.to_owned(),
            });
        }
        self.at_least(scope)
    }

    /// Whether it allows so much on some account.
    ///
    /// # Errors
    /// [`Error::Forbidden`].
    pub(crate) fn at_least(&self, scope: Scope) -> Result<(), Error> {
        if self.scope >= scope {
            Ok(())
        } else {
            Err(Error::Forbidden)
        }
    }

    /// Whether it allows so much on all accounts.
    ///
    /// # Errors
    /// [`Error::Forbidden`].
    pub(crate) fn on_all(&self, scope: Scope) -> Result<(), Error> {
        match self.account {
            None => self.at_least(scope),
            Some(_) => Err(Error::Forbidden),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_opens_with_its_own_secret_and_no_other() {
        let (one, other) = (
            NewKey::generate(Scope::Read, None).unwrap(),
            NewKey::generate(Scope::Read, None).unwrap(),
        );
        let token = one.token();
        let shown = Token::parse(&token).unwrap();
        assert_eq!(shown.id, one.key.id);
        assert!(shown.opens(&one.key.hash));
        assert!(!shown.opens(&other.key.hash));
        assert_ne!(one.key.hash, one.secret, "the secret itself is not stored");
    }

    #[test]
    fn a_secret_is_not_printed() {
        let new = NewKey::generate(Scope::Admin, Some("shop".to_owned())).unwrap();
        let text = format!("{new:?} {:?}", new.key);
        assert!(!text.contains(&new.secret), "{text}");
    }

    #[test]
    fn what_is_no_key_is_not_read_as_one() {
        let token = NewKey::generate(Scope::Admin, None).unwrap().token();
        let upper = token.to_uppercase();
        for text in [
            "",
            "laau_",
            "laau__",
            "laau_a_b",
            &token[1..],
            &token[..token.len() - 1],
            &upper,
        ] {
            assert!(Token::parse(text).is_none(), "{text}");
        }
        assert!(Token::parse(&format!("{token}0")).is_none());
    }

    #[test]
    fn a_key_of_one_account_sees_no_other() {
        let key = NewKey::generate(Scope::Admin, Some("shop".to_owned()))
            .unwrap()
            .key;
        let grant = Grant::of(&key);
        assert!(grant.on("shop", Scope::Admin).is_ok());
        assert!(matches!(
            grant.on("bank", Scope::Read),
            Err(Error::UnknownAccount { .. })
        ));
        assert!(matches!(grant.on_all(Scope::Read), Err(Error::Forbidden)));
    }

    #[test]
    fn a_scope_includes_the_smaller_ones() {
        for (scope, allowed) in [(Scope::Read, 1), (Scope::Decide, 2), (Scope::Admin, 3)] {
            let grant = Grant::of(&NewKey::generate(scope, None).unwrap().key);
            let scopes = [Scope::Read, Scope::Decide, Scope::Admin];
            let count = scopes
                .iter()
                .filter(|scope| grant.on("a", **scope).is_ok())
                .count();
            assert_eq!(count, allowed);
        }
    }
}
