//! A blocking client: no runtime, safe to repeat.
//!
//! Every change is sent under an idempotency key, and sent again under the same key when the connection breaks or the service is
//! busy: it is carried out once.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::Agent;
use ureq::http::{Method, Request, Response};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use crate::account::{AccountSpec, AccountView, PeriodView};
use crate::answer::{Decision, Settled};
use crate::authority::{DecisionRequest, Settlement};
use crate::entry::DecisionId;
use crate::http::{AccountList, EntryList, Problem, SkipRequest};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The service refused it.
    #[error("{} ({}): {}", .0.title, .0.status, .0.detail)]
    Refused(Box<Problem>),
    /// No answer, also after several attempts. A change may have been carried out: the same key tells.
    #[error("no answer from {url}: {reason}")]
    NoAnswer {
        /// The address.
        url: String,
        /// The last reason.
        reason: String,
    },
    /// An answer that this client does not understand.
    #[error("expected an answer of laau serve from {url}: {reason}")]
    Strange {
        /// The address.
        url: String,
        /// What is strange.
        reason: String,
    },
    /// A URL, certificate or name that cannot be used.
    #[error("{0}")]
    Setting(String),
    /// The system gives no random numbers for a key.
    #[error("the system gives no random numbers")]
    Random,
}

impl ClientError {
    /// The stable name of the problem, if the service refused the request: `exhausted`, `unknown-account`, …
    #[must_use]
    pub fn kind(&self) -> Option<&str> {
        match self {
            Self::Refused(problem) => Some(&problem.kind),
            _ => None,
        }
    }
}

/// How long and how often.
///
/// | field | default | purpose |
/// |---|---|---|
/// | `timeout` | 30 s | of one attempt |
/// | `patience` | 60 s | of all attempts of a request together |
/// | `pause` | 50 ms | before the second attempt; it doubles from there, and is at least what the service asks for |
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the table above has them")]
pub struct Patience {
    pub timeout: Duration,
    pub patience: Duration,
    pub pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            patience: Duration::from_mins(1),
            pause: Duration::from_millis(50),
        }
    }
}

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Nodes that may send a request on, one after the other.
const MOST_MOVES: usize = 4;

/// Bytes of the longest answer.
const LONGEST_ANSWER: u64 = 64 << 20;

/// A client of one service. It is cheap to clone, and keeps its connections.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    base: String,
    authorization: Option<String>,
    patience: Patience,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

/// One request, which may be sent several times.
struct Sent<'a> {
    method: Method,
    path: &'a str,
    key: Option<&'a str>,
    body: Option<Vec<u8>>,
}

impl Client {
    /// A client of the service at a base URL, for example `http://127.0.0.1:7171`, with an API key.
    ///
    /// # Errors
    /// [`ClientError::Setting`].
    pub fn new(base: &str, key: Option<&str>) -> Result<Self, ClientError> {
        Self::with(base, key, Patience::default(), None)
    }

    /// The same, with other times, and with a certificate in PEM format to trust instead of those of the public authorities.
    ///
    /// # Errors
    /// [`ClientError::Setting`].
    pub fn with(
        base: &str,
        key: Option<&str>,
        patience: Patience,
        trusted: Option<&[u8]>,
    ) -> Result<Self, ClientError> {
        let base = base.trim_end_matches('/').to_owned();
        if !base.starts_with("http://") && !base.starts_with("https://") {
            return Err(ClientError::Setting(format!(
                "expected a URL such as http://127.0.0.1:7171, found `{base}`"
            )));
        }
        let mut tls = TlsConfig::builder();
        if let Some(pem) = trusted {
            let certificates: Vec<Certificate<'static>> = parse_pem(pem)
                .filter_map(|item| match item {
                    Ok(PemItem::Certificate(certificate)) => Some(certificate),
                    _ => None,
                })
                .collect();
            if certificates.is_empty() {
                return Err(ClientError::Setting(
                    "expected a certificate in PEM format".to_owned(),
                ));
            }
            tls = tls.root_certs(RootCerts::new_with_certs(&certificates));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            // Requests are sent on here, with their credentials, to nodes that the service names.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(patience.timeout))
            .user_agent(concat!("laau/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build())
            .build();
        Ok(Self {
            agent: config.new_agent(),
            base,
            authorization: key.map(|key| format!("Bearer {key}")),
            patience,
        })
    }

    /// Decides a step under a new key.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn decide(&self, account: &str, context: &[f64]) -> Result<Decision, ClientError> {
        self.decide_as(account, &new_key()?, context)
    }

    /// Decides a step under a key of the caller's own, such as the name of the job: a program that crashed and asks again gets the
    /// first answer.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn decide_as(&self, account: &str, key: &str, context: &[f64]) -> Result<Decision, ClientError> {
        let context = context.to_vec();
        self.post(
            &path(account, "/decisions")?,
            key,
            Some(&DecisionRequest { context }),
        )
    }

    /// Settles a decision by the usage that really happened.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn settle(&self, account: &str, decision: DecisionId, usage: &[f64]) -> Result<Settled, ClientError> {
        let path = path(account, &format!("/decisions/{decision}/settlement"))?;
        let usage = usage.to_vec();
        // One settlement per decision: its name is a key as good as any.
        self.post(&path, &format!("settle-{decision}"), Some(&Settlement { usage }))
    }

    /// Returns the whole hold of a decision that was never carried out. Needs a key of scope `admin`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn release(&self, account: &str, decision: DecisionId) -> Result<Settled, ClientError> {
        let path = path(account, &format!("/decisions/{decision}/release"))?;
        self.post::<(), _>(&path, &format!("release-{decision}"), None)
    }

    /// Lets steps pass unused.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn skip(&self, account: &str, steps: usize) -> Result<PeriodView, ClientError> {
        self.post(
            &path(account, "/skip")?,
            &new_key()?,
            Some(&SkipRequest { steps }),
        )
    }

    /// Begins the next period. Needs a key of scope `admin`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn open(&self, account: &str) -> Result<PeriodView, ClientError> {
        self.post::<(), _>(&path(account, "/periods")?, &new_key()?, None)
    }

    /// Makes an account; the same settings once more are no error. Needs a key of scope `admin`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn create(&self, spec: &AccountSpec) -> Result<AccountView, ClientError> {
        self.send(&Sent {
            method: Method::POST,
            path: "/v1/accounts",
            key: None,
            body: Some(json(spec)?),
        })
    }

    /// One account.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn account(&self, account: &str) -> Result<AccountView, ClientError> {
        self.get(&path(account, "")?)
    }

    /// The accounts that the key may see.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn accounts(&self) -> Result<Vec<AccountView>, ClientError> {
        self.get::<AccountList>("/v1/accounts").map(|list| list.accounts)
    }

    /// A part of the log of a period.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn entries(&self, account: &str, period: u64, from: u64) -> Result<EntryList, ClientError> {
        self.get(&path(account, &format!("/periods/{period}/entries?from={from}"))?)
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.send(&Sent {
            method: Method::GET,
            path,
            key: None,
            body: None,
        })
    }

    fn post<B: Serialize, T: DeserializeOwned>(
        &self,
        path: &str,
        key: &str,
        body: Option<&B>,
    ) -> Result<T, ClientError> {
        self.send(&Sent {
            method: Method::POST,
            path,
            key: Some(key),
            body: body.map(json).transpose()?,
        })
    }

    /// Sends until there is an answer that stays.
    fn send<T: DeserializeOwned>(&self, sent: &Sent<'_>) -> Result<T, ClientError> {
        let began = Instant::now();
        let mut base = self.base.clone();
        let mut moves = 0;
        let mut pause = self.patience.pause;
        loop {
            let url = format!("{base}{}", sent.path);
            let (failure, wait) = match self.attempt(&url, sent) {
                Ok(Heard::Answer(bytes)) => {
                    return serde_json::from_slice(&bytes).map_err(|error| ClientError::Strange {
                        url,
                        reason: error.to_string(),
                    });
                }
                Ok(Heard::Elsewhere(owner)) if moves < MOST_MOVES => {
                    moves += 1;
                    base = self.trusted(&owner, &url)?;
                    continue;
                }
                Ok(Heard::Elsewhere(owner)) => {
                    let reason = format!("the account moves from node to node, last to {owner}");
                    (ClientError::NoAnswer { url, reason }, None)
                }
                Ok(Heard::Later(problem, wait)) => (ClientError::Refused(problem), wait),
                Err(error @ ClientError::NoAnswer { .. }) => (error, None),
                Err(error) => return Err(error),
            };
            let rest = pause.max(wait.unwrap_or_default());
            if began.elapsed() + rest > self.patience.patience {
                return Err(failure);
            }
            sleep(rest);
            pause = (2 * pause).min(LONGEST_PAUSE);
            // A node that is gone may have left the account to the one that was asked first.
            base.clone_from(&self.base);
            moves = 0;
        }
    }

    /// Credentials go on to a node that the service names, but never out of TLS.
    fn trusted(&self, owner: &str, url: &str) -> Result<String, ClientError> {
        let is_less = self.base.starts_with("https://") && !owner.starts_with("https://");
        if is_less {
            return Err(ClientError::Strange {
                url: url.to_owned(),
                reason: format!("it sends on to {owner}, without TLS"),
            });
        }
        Ok(owner.trim_end_matches('/').to_owned())
    }

    fn attempt(&self, url: &str, sent: &Sent<'_>) -> Result<Heard, ClientError> {
        let no_answer = |reason: String| ClientError::NoAnswer {
            url: url.to_owned(),
            reason,
        };
        let mut request = Request::builder().method(sent.method.clone()).uri(url);
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        if let Some(key) = sent.key {
            request = request.header("idempotency-key", key);
        }
        if sent.body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let request = request
            .body(sent.body.clone().unwrap_or_default())
            .map_err(|error| ClientError::Setting(error.to_string()))?;
        let mut response = self
            .agent
            .run(request)
            .map_err(|error| no_answer(error.to_string()))?;
        let bytes = response
            .body_mut()
            .with_config()
            .limit(LONGEST_ANSWER)
            .read_to_vec()
            .map_err(|error| no_answer(error.to_string()))?;
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(Heard::Answer(bytes));
        }
        let problem: Problem = serde_json::from_slice(&bytes).map_err(|_| ClientError::Strange {
            url: url.to_owned(),
            reason: format!("status {status} without a problem document"),
        })?;
        match (status, problem.address.clone()) {
            (307, Some(owner)) => Ok(Heard::Elsewhere(owner)),
            (503 | 429 | 408, _) => Ok(Heard::Later(Box::new(problem), retry_after(&response))),
            _ => Err(ClientError::Refused(Box::new(problem))),
        }
    }
}

/// What the service said.
enum Heard {
    Answer(Vec<u8>),
    Elsewhere(String),
    Later(Box<Problem>, Option<Duration>),
}

fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let seconds = response
        .headers()
        .get("retry-after")?
        .to_str()
        .ok()?
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds))
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, ClientError> {
    serde_json::to_vec(value).map_err(|error| ClientError::Setting(error.to_string()))
}

/// The path of an account. A name that is none would be a path of its own.
fn path(account: &str, rest: &str) -> Result<String, ClientError> {
    let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
    if account.is_empty() || account.starts_with('.') || !account.bytes().all(plain) {
        return Err(ClientError::Setting(format!(
            "`{account}` is no name of an account"
        )));
    }
    Ok(format!("/v1/accounts/{account}{rest}"))
}

/// A key that nobody has used.
fn new_key() -> Result<String, ClientError> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| ClientError::Random)?;
    Ok(format!("{:032x}", u128::from_le_bytes(random)))
}
