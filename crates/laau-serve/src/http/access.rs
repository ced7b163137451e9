//! Who asks: the API key of a request, or a loopback address that was told to ask for none.

use std::net::IpAddr;
use std::time::Instant;

use axum::extract::FromRequestParts;
use axum::extract::rejection::PathRejection;
use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::uri::Authority as HostAndPort;
use axum::http::{HeaderMap, Uri};

use super::problem::Refusal;
use super::service::Service;
use crate::error::Error;
use crate::keys::{Grant, Token};

/// Whether requests without an API key are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Every request needs an API key.
    Keys,
    /// A request without a key may do everything. For loopback addresses, and refused on others.
    InsecureLoopback,
}

impl Service {
    /// What the sender of a request may do.
    pub(super) async fn caller(&self, uri: &Uri, headers: &HeaderMap) -> Result<Grant, Refusal> {
        let grant = match headers.get(AUTHORIZATION) {
            Some(value) => {
                let text = value.to_str().map_err(|_| Error::Unauthorized)?;
                let token = bearer(text).and_then(Token::parse).ok_or(Error::Unauthorized)?;
                Grant::of(&*self.keyring.find(&token).await?)
            }
            None => match self.options.access {
                Access::Keys => return Err(Error::Unauthorized.into()),
                Access::InsecureLoopback if is_local(uri, headers) => Grant::everything(),
                Access::InsecureLoopback => return Err(Refusal::Foreign),
            },
        };
        self.rates.take(grant.id.as_deref(), Instant::now())?;
        Ok(grant)
    }
}

/// The credentials of a `Bearer` header.
fn bearer(text: &str) -> Option<&str> {
    let (scheme, token) = text.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_start_matches(' '))
}

/// Whether a request without a key was meant for this machine, and comes from no page of another site.
///
/// A browser sends what any page asks for to a loopback address: under a name of that page's own, or with its origin.
fn is_local(uri: &Uri, headers: &HeaderMap) -> bool {
    let host = match uri.authority() {
        // HTTP/2 has it here.
        Some(host) => Some(host.clone()),
        None => headers
            .get(HOST)
            .and_then(|host| host.to_str().ok()?.parse().ok()),
    };
    let Some(host) = host.filter(is_loopback) else {
        return false;
    };
    match headers.get(ORIGIN) {
        None => true,
        Some(origin) => origin
            .to_str()
            .ok()
            .and_then(|origin| origin.parse::<Uri>().ok())
            .is_some_and(|origin| origin.authority() == Some(&host)),
    }
}

fn is_loopback(host: &HostAndPort) -> bool {
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The account that a path names.
#[derive(Debug)]
pub(super) struct AccountName(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for AccountName {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        #[derive(serde::Deserialize)]
        struct Named {
            account: String,
        }
        let axum::extract::Path(Named { account }) = axum::extract::Path::from_request_parts(parts, state)
            .await
            .map_err(|_: PathRejection| Refusal::NoRoute)?;
        if !may_be_a_name(&account) {
            // As much of it as a name may have.
            let account = account.chars().take(LONGEST_NAME).collect();
            return Err(Error::UnknownAccount { account }.into());
        }
        Ok(Self(account))
    }
}

const LONGEST_NAME: usize = 64;

fn may_be_a_name(name: &str) -> bool {
    (1..=LONGEST_NAME).contains(&name.len())
        && name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-'))
}

/// The key that makes a repeated request the same request.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<String, Refusal> {
    let mut values = headers.get_all("idempotency-key").iter();
    match (values.next(), values.next()) {
        (Some(key), None) => match key.to_str() {
            Ok(key) if (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()) => {
                Ok(key.to_owned())
            }
            _ => Err(Error::MissingKey.into()),
        },
        _ => Err(Error::MissingKey.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        is_local(&Uri::from_static("/v1/accounts"), &headers)
    }

    #[test]
    fn a_page_of_another_site_may_not_use_a_service_without_keys() {
        assert!(local("127.0.0.1:7171", None));
        assert!(local("localhost:7171", Some("http://localhost:7171")));
        assert!(local("[::1]:7171", Some("http://[::1]:7171")));
        assert!(!local("127.0.0.1:7171", Some("http://evil.example")));
        assert!(!local("127.0.0.1:7171", Some("http://127.0.0.1:8080")));
        assert!(!local("127.0.0.1:7171", Some("null")));
        assert!(
            !local("evil.example:7171", None),
            "a name that was bound to this address"
        );
    }

    #[test]
    fn an_idempotency_key_is_one_visible_word() {
        let key = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("idempotency-key", value.parse().unwrap());
            }
            idempotency_key(&headers).ok()
        };
        assert_eq!(key(&["order-17"]), Some("order-17".to_owned()));
        let long = "k".repeat(256);
        for bad in [&[][..], &[""], &["a b"], &["a", "b"], &["é"], &[&long]] {
            assert_eq!(key(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn the_scheme_of_the_credentials_is_bearer_in_any_case() {
        assert_eq!(bearer("Bearer x"), Some("x"));
        assert_eq!(bearer("bearer  x"), Some("x"));
        assert_eq!(bearer("Basic x"), None);
        assert_eq!(bearer("Bearer"), None);
    }
}
