//! API keys over HTTP: made, listed and revoked by who may do everything.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::openapi::Refusals;
use super::problem::Refusal;
use super::service::Service;
use crate::entry::{ApiKey, Scope};
use crate::keys::NewKey;

/// What a new API key is to allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyRequest {
    /// What it allows.
    pub scope: Scope,
    /// The account it is for, which need not exist yet; all of them if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

/// An API key as it is shown: without its secret, which nobody has but its owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyView {
    /// Its public name.
    pub id: String,
    /// What it allows.
    pub scope: Scope,
    /// The account it is for; all of them if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// When it was made, in milliseconds since 1970.
    pub created: u64,
}

impl From<ApiKey> for KeyView {
    fn from(key: ApiKey) -> Self {
        Self {
            id: key.id,
            scope: key.scope,
            account: key.account,
            created: key.created,
        }
    }
}

/// A new API key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MadeKey {
    /// The key as it is shown from now on.
    #[serde(flatten)]
    pub key: KeyView,
    /// What goes into the `Authorization` header after `Bearer`. It is shown once.
    pub token: String,
}

/// All API keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyList {
    /// In the order of their names.
    pub keys: Vec<KeyView>,
}

/// Lists the API keys. Needs a key of scope `admin` for all accounts.
#[utoipa::path(get, path = "/v1/keys", operation_id = "listKeys", tag = "keys",
    responses((status = 200, description = "The keys, without their secrets", body = KeyList), Refusals),
    security(("key" = [])))]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Json<KeyList>, Refusal> {
    let caller = service.caller(request.uri(), request.headers()).await?;
    caller.on_all(Scope::Admin)?;
    let keys = service.wait(service.authority.keys()).await?;
    let keys = keys.into_iter().map(KeyView::from).collect();
    Ok(Json(KeyList { keys }))
}

/// Makes an API key. Needs a key of scope `admin` for all accounts.
#[utoipa::path(post, path = "/v1/keys", operation_id = "makeKey", tag = "keys",
    request_body = KeyRequest,
    responses((status = 201, description = "The key with its secret, which is shown once", body = MadeKey), Refusals),
    security(("key" = [])))]
pub(super) async fn make(State(service): State<Arc<Service>>, request: Request) -> Result<Response, Refusal> {
    let caller = service.caller(request.uri(), request.headers()).await?;
    caller.on_all(Scope::Admin)?;
    let KeyRequest { scope, account } = service.taking().json(request).await?;
    let new = NewKey::generate(scope, account)?;
    service.wait(service.authority.add_key(new.key.clone())).await?;
    service.wait(service.keyring.refresh()).await?;
    tracing::info!(made = new.key.id, key = caller.id, "API key made");
    let made = MadeKey {
        token: new.token(),
        key: new.key.into(),
    };
    Ok((StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(made)).into_response())
}

/// Revokes an API key, at once on this node and within seconds on others. Needs a key of scope `admin` for all accounts.
#[utoipa::path(delete, path = "/v1/keys/{id}", operation_id = "revokeKey", tag = "keys",
    params(("id" = String, Path, description = "The public name of the key")),
    responses((status = 204, description = "The key is revoked"), Refusals),
    security(("key" = [])))]
pub(super) async fn revoke(
    State(service): State<Arc<Service>>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<StatusCode, Refusal> {
    let caller = service.caller(request.uri(), request.headers()).await?;
    caller.on_all(Scope::Admin)?;
    let Path(id) = id.map_err(|_| Refusal::NoRoute)?;
    service.taking().nothing(request).await?;
    if !service.wait(service.authority.revoke_key(&id)).await? {
        return Err(Refusal::NoKey);
    }
    service.wait(service.keyring.refresh()).await?;
    tracing::info!(revoked = id, key = caller.id, "API key revoked");
    Ok(StatusCode::NO_CONTENT)
}
