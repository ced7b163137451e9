//! For those who run the service: whether it lives, whether it can work, and how it goes.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::openapi::Refusals;
use super::problem::Refusal;
use super::service::Service;
use crate::entry::Scope;

/// How long the store may take to show that it works.
const READY_WITHIN: Duration = Duration::from_secs(2);

/// That all is well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: String,
}

fn ok() -> Json<Health> {
    Json(Health {
        status: "ok".to_owned(),
    })
}

/// Says that the process lives. Needs no key.
#[utoipa::path(get, path = "/healthz", operation_id = "health", tag = "operation",
    responses((status = 200, description = "It lives", body = Health)))]
pub(super) async fn live() -> Json<Health> {
    ok()
}

/// Says whether the store answers. Needs no key.
#[utoipa::path(get, path = "/readyz", operation_id = "ready", tag = "operation",
    responses((status = 200, description = "The store answers", body = Health), Refusals))]
pub(super) async fn ready(State(service): State<Arc<Service>>) -> Result<Json<Health>, Refusal> {
    match tokio::time::timeout(READY_WITHIN, service.authority.keys()).await {
        Ok(Ok(_)) => Ok(ok()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Refusal::NoAnswer { within: READY_WITHIN }),
    }
}

/// Gives the metrics in the text format of Prometheus. Needs a key of scope `read` for all accounts, since it names them.
#[utoipa::path(get, path = "/metrics", operation_id = "metrics", tag = "operation",
    responses((status = 200, description = "The metrics", content_type = "text/plain", body = String), Refusals),
    security(("key" = [])))]
pub(super) async fn metrics(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, Refusal> {
    let caller = service.caller(request.uri(), request.headers()).await?;
    caller.on_all(Scope::Read)?;
    // What counts itself is shown also while the store is away.
    let accounts = match service.wait(service.authority.accounts()).await {
        Ok(accounts) => accounts,
        Err(refusal) => {
            tracing::warn!(kind = refusal.kind(), "metrics without accounts");
            Vec::new()
        }
    };
    let text = service.metrics.render(&accounts);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}
