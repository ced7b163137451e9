//! The OpenAPI 3.1 document, made from the types and the handlers.

use std::collections::BTreeMap;

use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse as _, Response};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, Response as Described, ResponseBuilder, Type};
use utoipa::{IntoResponses, Modify, OpenApi, ToSchema, openapi};

use super::problem::Problem;
use super::{accounts, changes, events, health, key_routes};

/// The answers that every request may get instead of its own.
pub(super) struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let refusals = [
            ("307", "Another node serves the account: see `Location`"),
            ("400", "A body, parameter or header that is not what was expected"),
            ("401", "No API key, or one that nobody has"),
            ("403", "The API key does not allow this"),
            ("404", "No such account or decision, or none that the key may see"),
            ("408", "The body did not arrive in time"),
            ("409", "What the state of the account does not allow"),
            ("410", "The account is closed"),
            ("413", "The body is too large"),
            ("415", "The body is no JSON"),
            (
                "422",
                "A value that the problem does not take, or a key that was used for another request",
            ),
            ("429", "The API key sends too much"),
            ("503", "The store is away, or too much waits: try again"),
        ];
        let described = |(status, words): (&str, &str)| {
            let problem = ContentBuilder::new()
                .schema(Some(Ref::from_schema_name(Problem::name())))
                .build();
            let response = ResponseBuilder::new()
                .description(words)
                .content("application/problem+json", problem);
            (status.to_owned(), RefOr::T(response.build()))
        };
        refusals.into_iter().map(described).collect()
    }
}

/// A problem by its name, with parameters of its own.
pub(crate) fn problem_schema() -> openapi::schema::Object {
    openapi::schema::ObjectBuilder::new()
        .schema_type(Type::Object)
        .description(Some(
            "The problem that is solved: its name and its parameters, which have defaults",
        ))
        .property(
            "name",
            openapi::schema::ObjectBuilder::new()
                .schema_type(Type::String)
                .enum_values(Some(laau::registry::ProblemSpec::NAMES)),
        )
        .required("name")
        .additional_properties(Some(openapi::schema::AdditionalProperties::FreeForm(true)))
        .build()
}

struct Key;

impl Modify for Key {
    fn modify(&self, document: &mut openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("An API key: `laau serve key` or `POST /v1/keys` makes one"))
            .build();
        let components = document.components.get_or_insert_with(Default::default);
        components.add_security_scheme("key", SecurityScheme::Http(scheme));
    }
}

/// The document.
#[derive(OpenApi)]
#[openapi(
    info(title = "laau serve",
         description = "A budget authority that many programs share: durable, exact decisions. Every change carries an Idempotency-Key; \
                        a repetition gets the stored answer. Refusals are problem documents (RFC 9457)."),
    paths(
        health::live, health::ready, health::metrics, document,
        accounts::list, accounts::create, accounts::show, accounts::close, accounts::entries,
        changes::open, changes::decide, changes::settle, changes::release, changes::skip,
        events::stream,
        key_routes::list, key_routes::make, key_routes::revoke,
    ),
    components(schemas(Problem)),
    modifiers(&Key),
    tags((name = "accounts", description = "Budgets with a policy"),
         (name = "decisions", description = "What spends them"),
         (name = "keys", description = "Who may"),
         (name = "operation", description = "For those who run the service")),
)]
struct Document;

/// Describes everything there is. Needs no key.
#[utoipa::path(get, path = "/openapi.json", operation_id = "openapi", tag = "operation",
    responses((status = 200, description = "This document", body = serde_json::Value)))]
pub(super) async fn document() -> Response {
    ([(CONTENT_TYPE, "application/json")], text()).into_response()
}

/// The document as text.
pub(crate) fn text() -> String {
    // Maps and strings: there is nothing in it that cannot be written.
    Document::openapi().to_json().unwrap_or_default()
}
