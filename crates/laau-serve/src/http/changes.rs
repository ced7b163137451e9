//! What changes an account, each under an idempotency key.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::access::{AccountName, idempotency_key};
use super::openapi::Refusals;
use super::problem::Refusal;
use super::service::Service;
use crate::account::PeriodView;
use crate::answer::{Decision, Settled};
use crate::authority::{Change, DecisionRequest, Settlement};
use crate::entry::{DecisionId, Scope};
use crate::keys::Grant;

/// The body of a request to let steps pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SkipRequest {
    /// How many.
    pub steps: usize,
}

/// Decides a step and holds its usage. The answer is durable. Needs scope `decide`.
#[utoipa::path(post, path = "/v1/accounts/{account}/decisions", operation_id = "decide", tag = "decisions",
    params(("account" = String, Path, description = "The account's name"),
           ("Idempotency-Key" = String, Header, description = "Names the request: a repetition gets the first answer")),
    request_body = DecisionRequest,
    responses((status = 200, description = "The decision", body = Decision,
               headers(("Idempotent-Replayed" = String, description = "`true` on an answer that was given before"))), Refusals),
    security(("key" = [])))]
pub(super) async fn decide(
    State(service): State<Arc<Service>>,
    AccountName(account): AccountName,
    request: Request,
) -> Result<Response, Refusal> {
    let asked = Asked::new(&service, account, request.uri(), request.headers(), Scope::Decide).await?;
    let body: DecisionRequest = service.taking().json(request).await?;
    asked.change(&service, Change::Decide(body)).await
}

/// Settles a decision by the usage that really happened, at most what was held: the difference returns to the budget, once.
/// Needs scope `decide`.
#[utoipa::path(post, path = "/v1/accounts/{account}/decisions/{decision}/settlement", operation_id = "settle", tag = "decisions",
    params(("account" = String, Path, description = "The account's name"),
           ("decision" = String, Path, description = "The decision, for example `0-17`"),
           ("Idempotency-Key" = String, Header, description = "Names the request: a repetition gets the first answer")),
    request_body = Settlement,
    responses((status = 200, description = "What was settled", body = Settled,
               headers(("Idempotent-Replayed" = String, description = "`true` on an answer that was given before"))), Refusals),
    security(("key" = [])))]
pub(super) async fn settle(
    State(service): State<Arc<Service>>,
    AccountName(account): AccountName,
    path: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let asked = Asked::new(&service, account, request.uri(), request.headers(), Scope::Decide).await?;
    let decision = decision(path)?;
    let Settlement { usage } = service.taking().json(request).await?;
    let decision = decision.to_string();
    asked.change(&service, Change::Settle { decision, usage }).await
}

/// Returns the whole hold of a decision that an operator knows was never carried out. Needs scope `admin`.
#[utoipa::path(post, path = "/v1/accounts/{account}/decisions/{decision}/release", operation_id = "release", tag = "decisions",
    params(("account" = String, Path, description = "The account's name"),
           ("decision" = String, Path, description = "The decision, for example `0-17`"),
           ("Idempotency-Key" = String, Header, description = "Names the request: a repetition gets the first answer")),
    responses((status = 200, description = "What was returned", body = Settled,
               headers(("Idempotent-Replayed" = String, description = "`true` on an answer that was given before"))), Refusals),
    security(("key" = [])))]
pub(super) async fn release(
    State(service): State<Arc<Service>>,
    AccountName(account): AccountName,
    path: Result<Path<(String, String)>, PathRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let asked = Asked::new(&service, account, request.uri(), request.headers(), Scope::Admin).await?;
    let decision = decision(path)?.to_string();
    service.taking().nothing(request).await?;
    asked.change(&service, Change::Release { decision }).await
}

/// Begins the next period. Needs scope `admin`.
#[utoipa::path(post, path = "/v1/accounts/{account}/periods", operation_id = "openPeriod", tag = "accounts",
    params(("account" = String, Path, description = "The account's name"),
           ("Idempotency-Key" = String, Header, description = "Names the request: a repetition gets the first answer")),
    responses((status = 200, description = "The period", body = PeriodView,
               headers(("Idempotent-Replayed" = String, description = "`true` on an answer that was given before"))), Refusals),
    security(("key" = [])))]
pub(super) async fn open(
    State(service): State<Arc<Service>>,
    AccountName(account): AccountName,
    request: Request,
) -> Result<Response, Refusal> {
    let asked = Asked::new(&service, account, request.uri(), request.headers(), Scope::Admin).await?;
    service.taking().nothing(request).await?;
    asked.change(&service, Change::Open).await
}

/// Lets steps pass unused: what was kept for them is free again. Needs scope `decide`.
#[utoipa::path(post, path = "/v1/accounts/{account}/skip", operation_id = "skip", tag = "decisions",
    params(("account" = String, Path, description = "The account's name"),
           ("Idempotency-Key" = String, Header, description = "Names the request: a repetition gets the first answer")),
    request_body = SkipRequest,
    responses((status = 200, description = "The period", body = PeriodView,
               headers(("Idempotent-Replayed" = String, description = "`true` on an answer that was given before"))), Refusals),
    security(("key" = [])))]
pub(super) async fn skip(
    State(service): State<Arc<Service>>,
    AccountName(account): AccountName,
    request: Request,
) -> Result<Response, Refusal> {
    let asked = Asked::new(&service, account, request.uri(), request.headers(), Scope::Decide).await?;
    let SkipRequest { steps } = service.taking().json(request).await?;
    asked.change(&service, Change::Skip { steps }).await
}

fn decision(path: Result<Path<(String, String)>, PathRejection>) -> Result<DecisionId, Refusal> {
    let Path((_, decision)) = path.map_err(|_| Refusal::NoRoute)?;
    decision.parse().map_err(|reason: &str| Refusal::invalid(reason))
}

/// A change that its sender may ask for.
struct Asked {
    account: String,
    key: String,
    caller: Grant,
    since: Instant,
}

impl Asked {
    async fn new(
        service: &Service,
        account: String,
        uri: &Uri,
        headers: &HeaderMap,
        scope: Scope,
    ) -> Result<Self, Refusal> {
        let since = Instant::now();
        let caller = service.caller(uri, headers).await?;
        caller.on(&account, scope)?;
        let key = idempotency_key(headers)?;
        Ok(Self {
            account,
            key,
            caller,
            since,
        })
    }

    /// Asks the authority, and writes one line to the log.
    async fn change(self, service: &Service, change: Change) -> Result<Response, Refusal> {
        let word = word(&change);
        let answer = service
            .wait(service.authority.change(&self.account, &self.key, change))
            .await;
        let latency = self.since.elapsed();
        service.metrics.changed(word, latency, answer.as_ref().ok());
        let latency_us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let (account, key) = (self.account.as_str(), self.caller.id.as_deref());
        match &answer {
            Ok(answer) => tracing::info!(
                account,
                key,
                change = word,
                decision = decision_of(&answer.body),
                status = answer.status,
                repeated = answer.repeated,
                latency_us,
                "changed"
            ),
            Err(refusal) => tracing::info!(
                account,
                key,
                change = word,
                kind = refusal.kind(),
                status = refusal.status(),
                latency_us,
                "refused"
            ),
        }
        let answer = answer?;
        let mut response = Response::new(Body::from(answer.body));
        *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if answer.repeated {
            const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
            headers.insert(REPLAYED, HeaderValue::from_static("true"));
        }
        Ok(response)
    }
}

fn word(change: &Change) -> &'static str {
    match change {
        Change::Open => "open",
        Change::Decide(_) => "decide",
        Change::Settle { .. } => "settle",
        Change::Release { .. } => "release",
        Change::Skip { .. } => "skip",
    }
}

/// The name of the decision in an answer, for the log.
fn decision_of(body: &str) -> Option<&str> {
    let rest = body.strip_prefix("{\"decision\":\"")?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_names_the_decision_of_an_answer_that_has_one() {
        assert_eq!(decision_of(r#"{"decision":"3-17","period":3}"#), Some("3-17"));
        assert_eq!(decision_of(r#"{"number":3}"#), None);
    }
}
