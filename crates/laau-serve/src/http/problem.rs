//! Refusals as RFC 9457 problem documents.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Error;

/// What the `type` of every problem document begins with; the kind follows.
pub(crate) const TYPE: &str = "urn:laau:problem:";

/// Why a request was refused: a problem document after RFC 9457.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// A name of the kind of problem: `urn:laau:problem:` and `kind`.
    #[serde(rename = "type")]
    pub r#type: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong with this request, in a sentence.
    pub detail: String,
    /// A stable name of the kind, for programs.
    pub kind: String,
    /// The base URL of the node that serves the account, with status 307.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
}

/// Why a request got no answer: what the authority refuses, and what HTTP does.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Authority(#[from] Error),
    #[error("nothing is at this address; GET /openapi.json describes what there is")]
    NoRoute,
    #[error("no API key of this name")]
    NoKey,
    #[error("this address does not take the method; the Allow header names those it takes")]
    Method,
    #[error("expected a body of at most {most} bytes")]
    TooLarge { most: usize },
    #[error("expected a body of Content-Type application/json")]
    NotJson,
    #[error("the body did not arrive within {} seconds", within.as_secs_f64())]
    Slow { within: Duration },
    #[error("the API key may send {rate} requests a second")]
    TooFast { rate: u32, after: Duration },
    #[error(
        "expected a page of this service's own: without API keys, a request must name a loopback address and come from none other"
    )]
    Foreign,
    #[error("the store has not answered within {} seconds; the Idempotency-Key tells whether the request was carried out", within.as_secs_f64())]
    NoAnswer { within: Duration },
    #[error("all {most} event streams are taken")]
    Streams { most: usize },
    #[error(
        "a mistake in the service itself; the request may have been carried out, and its Idempotency-Key tells"
    )]
    Broken,
}

impl Refusal {
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::Authority(Error::Invalid {
            reason: reason.into(),
        })
    }

    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Authority(error) => error.status(),
            Self::NoRoute | Self::NoKey => 404,
            Self::Method => 405,
            Self::TooLarge { .. } => 413,
            Self::NotJson => 415,
            Self::Slow { .. } => 408,
            Self::TooFast { .. } => 429,
            Self::Foreign => 403,
            Self::NoAnswer { .. } | Self::Streams { .. } => 503,
            Self::Broken => 500,
        }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Authority(error) => error.kind(),
            Self::NoRoute => "not-found",
            Self::NoKey => "unknown-key",
            Self::Method => "method-not-allowed",
            Self::TooLarge { .. } => "too-large",
            Self::NotJson => "not-json",
            Self::Slow { .. } => "too-slow",
            Self::TooFast { .. } => "too-fast",
            Self::Foreign => "foreign-origin",
            Self::NoAnswer { .. } => "no-answer",
            Self::Streams { .. } => "overloaded",
            Self::Broken => "broken",
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Authority(error) => error.retry_after(),
            Self::TooFast { after, .. } => Some(*after),
            Self::NoAnswer { .. } | Self::Streams { .. } => Some(Duration::from_secs(1)),
            _ => None,
        }
    }

    fn problem(&self) -> Problem {
        let kind = self.kind();
        Problem {
            r#type: format!("{TYPE}{kind}"),
            title: title(kind),
            status: self.status(),
            detail: self.detail(),
            kind: kind.to_owned(),
            address: match self {
                Self::Authority(Error::Elsewhere { address, .. }) => Some(address.clone()),
                _ => None,
            },
        }
    }

    /// The sentence, with the name that may have been meant. Other hints of the registry speak of the command line.
    fn detail(&self) -> String {
        use laau::registry::Error as Registry;
        match self {
            Self::Authority(Error::Registry(error @ Registry::Unknown { .. })) => {
                format!("{error}; {}", error.hint().unwrap_or_default())
            }
            other => other.to_string(),
        }
    }
}

/// The kind in words: `unknown-account` is "Unknown account".
fn title(kind: &str) -> String {
    let mut letters = kind.chars();
    letters.next().map_or_else(String::new, |first| {
        first
            .to_uppercase()
            .chain(letters)
            .collect::<String>()
            .replace('-', " ")
    })
}

/// What a layer further out has to know of a refusal.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    pub(crate) kind: &'static str,
    /// The base URL of the owner, for a request that belongs to another node.
    pub(crate) owner: Option<String>,
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let problem = self.problem();
        // Strings and a number: there is nothing in it that cannot be written.
        let body = serde_json::to_string(&problem).unwrap_or_default();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() =
            StatusCode::from_u16(problem.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(after) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds(after)));
        }
        if problem.status == 401 {
            headers.insert(
                WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"laau\""),
            );
        }
        response.extensions_mut().insert(Refused {
            kind: self.kind(),
            owner: problem.address,
        });
        response
    }
}

/// Whole seconds, rounded up: nobody comes back too early.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_title_in_words() {
        assert_eq!(title("unknown-account"), "Unknown account");
    }

    #[test]
    fn nobody_is_told_to_come_back_too_early() {
        assert_eq!(seconds(Duration::from_millis(1)), 1);
        assert_eq!(seconds(Duration::from_secs(2)), 2);
    }
}
