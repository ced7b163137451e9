//! Accounts and their logs.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::access::AccountName;
use super::openapi::Refusals;
use super::problem::Refusal;
use super::service::Service;
use crate::account::{AccountSpec, AccountView};
use crate::entry::{Entry, Scope};

/// Most entries of a log in one answer.
const MOST_ENTRIES: usize = 1000;

/// All accounts that the API key may see.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AccountList {
    /// In the order of their names.
    pub accounts: Vec<AccountView>,
}

/// A part of the log of a period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EntryList {
    /// In their order.
    pub entries: Vec<Entry>,
    /// Where to go on, if there may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// Lists the accounts that the key may see; those that another node serves, or that none has used yet, without their periods.
#[utoipa::path(get, path = "/v1/accounts", operation_id = "listAccounts", tag = "accounts",
    responses((status = 200, description = "The accounts", body = AccountList), Refusals),
    security(("key" = [])))]
pub(super) async fn list(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Json<AccountList>, Refusal> {
    let caller = service.caller(request.uri(), request.headers()).await?;
    caller.at_least(Scope::Read)?;
    let accounts = match caller.own_account() {
        None => service.wait(service.authority.accounts()).await?,
        // The key may be older than the account.
        Some(own) => service
            .wait(service.authority.listed(own))
            .await?
            .into_iter()
            .collect(),
    };
    Ok(Json(AccountList { accounts }))
}

/// Makes an account, and opens its first period. The same settings once more are answered alike; others under the same name get
/// 409. Needs a key of scope `admin` for all accounts.
#[utoipa::path(post, path = "/v1/accounts", operation_id = "createAccount", tag = "accounts",
    request_body = AccountSpec,
    responses((status = 201, description = "The account", body = AccountView,
               headers(("Location" = String, description = "Where the account is"))), Refusals),
    security(("key" = [])))]
pub(super) async fn create(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, Refusal> {
    let caller = service.caller(request.uri(), request.headers()).await?;
    caller.on_all(Scope::Admin)?;
    let spec: AccountSpec = service.taking().json(request).await?;
    let account = service.wait(service.authority.create(spec)).await?;
    tracing::info!(account = account.spec.name, key = caller.id, "account made");
    let place = format!("/v1/accounts/{}", account.spec.name);
    Ok((StatusCode::CREATED, [(LOCATION, place)], Json(account)).into_response())
}

/// Shows an account.
#[utoipa::path(get, path = "/v1/accounts/{account}", operation_id = "getAccount", tag = "accounts",
    params(("account" = String, Path, description = "The account's name")),
    responses((status = 200, description = "The account", body = AccountView), Refusals),
    security(("key" = [])))]
pub(super) async fn show(
    State(service): State<Arc<Service>>,
    AccountName(account): AccountName,
    request: Request,
) -> Result<Json<AccountView>, Refusal> {
    let caller = service.caller(request.uri(), request.headers()).await?;
    caller.on(&account, Scope::Read)?;
    Ok(Json(service.wait(service.authority.account(&account)).await?))
}

/// Closes an account for good: it decides nothing any more, and its name stays taken. What it holds can still be settled or
/// released. Needs scope `admin`.
#[utoipa::path(delete, path = "/v1/accounts/{account}", operation_id = "closeAccount", tag = "accounts",
    params(("account" = String, Path, description = "The account's name")),
    responses((status = 200, description = "The account as it was left", body = AccountView), Refusals),
    security(("key" = [])))]
pub(super) async fn close(
    State(service): State<Arc<Service>>,
    AccountName(account): AccountName,
    request: Request,
) -> Result<Json<AccountView>, Refusal> {
    let caller = service.caller(request.uri(), request.headers()).await?;
    caller.on(&account, Scope::Admin)?;
    service.taking().nothing(request).await?;
    let view = service.wait(service.authority.close(&account)).await?;
    tracing::info!(account, key = caller.id, "account closed");
    Ok(Json(view))
}

/// Which part of a log.
#[derive(Debug, Clone, Copy, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Part {
    /// The number of the first entry.
    #[serde(default)]
    #[param(required = false, minimum = 0, default = 0)]
    from: u64,
    /// How many entries at most: 1 to 1,000.
    #[serde(default = "most_entries")]
    #[param(required = false, minimum = 1, maximum = 1000, default = 1000)]
    most: usize,
}

fn most_entries() -> usize {
    MOST_ENTRIES
}

/// Shows the log of a period: this one or the one before.
#[utoipa::path(get, path = "/v1/accounts/{account}/periods/{period}/entries", operation_id = "listEntries", tag = "accounts",
    params(("account" = String, Path, description = "The account's name"),
           ("period" = u64, Path, description = "The number of the period"), Part),
    responses((status = 200, description = "Entries in their order", body = EntryList), Refusals),
    security(("key" = [])))]
pub(super) async fn entries(
    State(service): State<Arc<Service>>,
    AccountName(account): AccountName,
    path: Result<Path<(String, u64)>, PathRejection>,
    part: Result<Query<Part>, QueryRejection>,
    request: Request,
) -> Result<Json<EntryList>, Refusal> {
    let caller = service.caller(request.uri(), request.headers()).await?;
    caller.on(&account, Scope::Read)?;
    let Path((_, period)) = path.map_err(|_| Refusal::invalid("expected the number of a period"))?;
    let Query(Part { from, most }) = part.map_err(|error| {
        Refusal::invalid(format!("expected from=NUMBER&most=NUMBER: {}", error.body_text()))
    })?;
    if !(1..=MOST_ENTRIES).contains(&most) {
        return Err(Refusal::invalid(format!(
            "expected 1 to {MOST_ENTRIES} as `most`, found {most}"
        )));
    }
    // Numbers of 63 bits, as the description says and as a database has.
    if i64::try_from(from).is_err() {
        return Err(Refusal::invalid(format!(
            "expected a number below 2^63 as `from`, found {from}"
        )));
    }
    let entries = service
        .wait(service.authority.entries(&account, period, from, most))
        .await?;
    let next = match entries.last() {
        Some(last) if entries.len() == most => Some(last.number + 1),
        _ => None,
    };
    Ok(Json(EntryList { entries, next }))
}
