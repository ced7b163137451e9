//! Bodies: limited in size and time, and read as JSON that says one thing only.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Deserialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::problem::Refusal;

/// How much of a body is taken, and how long is waited for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taking {
    pub(super) most: usize,
    pub(super) within: Duration,
}

impl Taking {
    /// A body of JSON.
    pub(super) async fn json<T: DeserializeOwned>(self, request: Request) -> Result<T, Refusal> {
        if !is_json(request.headers()) {
            return Err(Refusal::NotJson);
        }
        parse(&self.bytes(request).await?)
    }

    /// A request that needs no body has none, or an empty object.
    pub(super) async fn nothing(self, request: Request) -> Result<(), Refusal> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}
        let bytes = self.bytes(request).await?;
        if bytes.is_empty() {
            return Ok(());
        }
        parse::<Nothing>(&bytes).map(|Nothing {}| ())
    }

    async fn bytes(self, request: Request) -> Result<Bytes, Refusal> {
        let Self { most, within } = self;
        let announced = request
            .headers()
            .get(CONTENT_LENGTH)
            .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        if announced.is_some_and(|length| length > most as u64) {
            return Err(Refusal::TooLarge { most });
        }
        let body = Limited::new(request.into_body(), most);
        let collected = tokio::time::timeout(within, collect(body, most)).await;
        collected.map_err(|_| Refusal::Slow { within })?
    }
}

async fn collect(body: Limited<Body>, most: usize) -> Result<Bytes, Refusal> {
    match body.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Refusal::TooLarge { most }),
        // Nobody is left to read the answer, unless the length was a lie.
        Err(_) => Err(Refusal::invalid("the body ended before its announced length")),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Reads JSON; the sentence of an error says where.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let once = |bytes| {
        let mut reader = serde_json::Deserializer::from_slice(bytes);
        Once.deserialize(&mut reader)?;
        reader.end()
    };
    once(bytes)
        .and_then(|()| serde_json::from_slice(bytes))
        .map_err(|error| {
            Refusal::invalid(format!(
                "expected a JSON body as /openapi.json describes it: {error}"
            ))
        })
}

/// Reads any JSON, and refuses a field that is said twice, at any depth: readers would differ in which one they believe.
struct Once;

impl<'de> DeserializeSeed<'de> for Once {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            fields.next_value_seed(Self)?;
            if let Some(name) = seen.replace(name) {
                return Err(serde::de::Error::custom(format_args!("duplicate field `{name}`")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::AccountSpec;
    use crate::authority::DecisionRequest;

    fn refused<T: DeserializeOwned>(text: &str) -> String {
        match parse::<T>(text.as_bytes()) {
            Ok(_) => panic!("{text} was taken"),
            Err(refusal) => refusal.to_string(),
        }
    }

    #[test]
    fn numbers_that_are_none_are_refused_with_their_place() {
        for number in [
            "NaN",
            "Infinity",
            "-Infinity",
            "1e999",
            "-1e999",
            "0x1",
            "01",
            ".5",
            "nan",
        ] {
            let sentence = refused::<DecisionRequest>(&format!("{{\"context\":[{number}]}}"));
            assert!(sentence.contains("line 1 column"), "{number}: {sentence}");
        }
    }

    #[test]
    fn a_field_that_is_said_twice_is_refused_at_any_depth() {
        let sentence = refused::<DecisionRequest>(r#"{"context":[1],"context":[2]}"#);
        assert!(sentence.contains("duplicate field `context`"), "{sentence}");
        let spec = r#"{"name":"a","policy":{"name":"mw","parameters":{"step-size":[1],"step-size":[2]}},"budgets":[1]}"#;
        let sentence = refused::<AccountSpec>(spec);
        assert!(sentence.contains("duplicate field `step-size`"), "{sentence}");
    }

    #[test]
    fn deep_nesting_unknown_fields_and_rests_are_refused() {
        let deep = format!("{{\"context\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(refused::<DecisionRequest>(&deep).contains("recursion limit"));
        let unknown = r#"{"context":[1],"budget":9}"#;
        assert!(refused::<DecisionRequest>(unknown).contains("unknown field `budget`"));
        assert!(refused::<DecisionRequest>(r#"{"context":[1]} x"#).contains("trailing characters"));
        assert!(refused::<DecisionRequest>("").contains("EOF"));
    }
}
