//! Values of flags that are more than a number.

use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde::de::IntoDeserializer as _;
use serde::de::value::{Error, StrDeserializer};
use toml::Table;

/// One of several words, as serde knows them.
pub(super) fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let words: StrDeserializer<'_, Error> = text.into_deserializer();
    T::deserialize(words).map_err(|error| error.to_string())
}

/// A list, `1,2`, or rows, `50:0.005,30:0.0025`; TOML with its brackets is understood, too.
pub(super) fn rows<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    #[derive(serde::Deserialize)]
    struct Only<T> {
        value: T,
    }
    let toml = if text.starts_with('[') {
        text.to_owned()
    } else if text.contains(':') {
        let rows = text.split(',').map(|row| format!("[{}]", row.replace(':', ", ")));
        format!("[{}]", rows.collect::<Vec<_>>().join(", "))
    } else {
        format!("[{text}]")
    };
    let table: Table = format!("value = {toml}")
        .parse()
        .map_err(|_| "expected numbers, for example 1,2 or 1:2,3:4".to_owned())?;
    Only::deserialize(table)
        .map(|Only { value }| value)
        .map_err(|error| error.message().lines().collect::<Vec<_>>().join(" "))
}

/// As [`rows`], with an example of what is expected.
pub(super) fn rows_like<T: DeserializeOwned>(text: &str, expected: &str) -> Result<T, String> {
    rows(text).map_err(|_| format!("expected {expected}"))
}

/// Sizes of the three sets.
pub(super) fn sizes(text: &str) -> Result<super::Sizes, String> {
    rows_like(
        text,
        "three counts, for training, validation and test: 5000,1000,2000",
    )
}

/// Names without the spaces around them.
pub(super) fn name(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("expected the name of a column, found nothing".to_owned()),
        name => Ok(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_in_three_ways() {
        let expected = vec![(50_usize, 0.005), (30, 0.0025)];
        for text in ["50:0.005,30:0.0025", "[[50, 0.005], [30, 0.0025]]"] {
            assert_eq!(rows::<Vec<(usize, f64)>>(text).unwrap(), expected);
        }
        assert_eq!(rows::<(f64, f64)>("10,15").unwrap(), (10.0, 15.0));
        assert!(rows::<(f64, f64)>("10").is_err());
        assert!(rows::<(f64, f64)>("ten,15").is_err());
    }
}
