//! Which request goes where, and what every one of them passes.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{LOCATION, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use tower_http::catch_panic::CatchPanicLayer;

use super::problem::{Refusal, Refused};
use super::service::Service;
use super::{accounts, changes, events, health, key_routes, openapi, page};

/// Every address there is.
pub(super) fn router(service: Arc<Service>) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/page/{file}", get(page::part))
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::document))
        .route("/v1/accounts", get(accounts::list).post(accounts::create))
        .route(
            "/v1/accounts/{account}",
            get(accounts::show).delete(accounts::close),
        )
        .route("/v1/accounts/{account}/periods", post(changes::open))
        .route(
            "/v1/accounts/{account}/periods/{period}/entries",
            get(accounts::entries),
        )
        .route("/v1/accounts/{account}/decisions", post(changes::decide))
        .route(
            "/v1/accounts/{account}/decisions/{decision}/settlement",
            post(changes::settle),
        )
        .route(
            "/v1/accounts/{account}/decisions/{decision}/release",
            post(changes::release),
        )
        .route("/v1/accounts/{account}/skip", post(changes::skip))
        .route("/v1/accounts/{account}/events", get(events::stream))
        .route("/v1/keys", get(key_routes::list).post(key_routes::make))
        .route("/v1/keys/{id}", delete(key_routes::revoke))
        .fallback(async || Refusal::NoRoute)
        .method_not_allowed_fallback(async || Refusal::Method)
        .layer(CatchPanicLayer::custom(broken))
        .layer(from_fn_with_state(Arc::clone(&service), observe))
        .with_state(service)
}

/// A panic is a mistake of ours: it is told to the log, and never to who asked.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands it over")]
fn broken(panic: Box<dyn Any + Send>) -> Response {
    let words = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no words");
    tracing::error!(panic = words, "a request ended in a panic");
    Refusal::Broken.into_response()
}

/// Counts every answer, sends a request of another node's account there, and sets what every answer carries.
async fn observe(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let since = Instant::now();
    let uri = request.uri().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    let refused = response.extensions_mut().remove::<Refused>();
    if let Some(owner) = refused.as_ref().and_then(|refused| refused.owner.as_ref())
        && let Some(place) = elsewhere(owner, &uri)
    {
        response.headers_mut().insert(LOCATION, place);
    }
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    let route = route.as_ref().map_or("none", MatchedPath::as_str);
    let kind = refused.as_ref().map(|refused| refused.kind);
    service
        .metrics
        .answered(route, response.status().as_u16(), kind, since.elapsed());
    if let Some(kind) = kind {
        tracing::debug!(route, kind, status = response.status().as_u16(), "refused");
    }
    response
}

/// The same path and query at another node.
fn elsewhere(owner: &str, uri: &Uri) -> Option<HeaderValue> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    HeaderValue::from_str(&format!("{}{path}", owner.trim_end_matches('/'))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_goes_to_the_same_path_of_the_owner() {
        let uri = Uri::from_static("/v1/accounts/shop/events?from=3");
        let place = elsewhere("https://b.example:7171/", &uri).unwrap();
        assert_eq!(place, "https://b.example:7171/v1/accounts/shop/events?from=3");
    }
}
