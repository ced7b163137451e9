//! Values as bytes: JSON behind a checksum of the value and of the key it is stored under.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::StoreError;
use crate::entry::{Entry, Event};

/// The length of a checksum.
const SUM: usize = 4;

/// The checksum of a value under its key. Parts are told apart by their lengths.
fn sum(key: &[&[u8]], value: &[u8]) -> [u8; SUM] {
    let mut hasher = crc32fast::Hasher::new();
    for part in key {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.update(value);
    hasher.finalize().to_le_bytes()
}

/// The checksum and then the value.
pub(super) fn seal(key: &[&[u8]], value: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(SUM + value.len());
    sealed.extend_from_slice(&sum(key, value));
    sealed.extend_from_slice(value);
    sealed
}

/// The value of sealed bytes, if it is the one that was sealed under this key.
pub(super) fn unseal<'a>(key: &[&[u8]], sealed: &'a [u8]) -> Result<&'a [u8], StoreError> {
    match sealed.split_first_chunk::<SUM>() {
        Some((stored, value)) if *stored == sum(key, value) => Ok(value),
        _ => Err(damaged(key, "its checksum is wrong")),
    }
}

/// Seals a value as JSON.
pub(super) fn seal_json(key: &[&[u8]], value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let json = serde_json::to_vec(value).map_err(|error| damaged(key, &error.to_string()))?;
    Ok(seal(key, &json))
}

/// Opens what [`seal_json`] made.
pub(super) fn unseal_json<T: DeserializeOwned>(key: &[&[u8]], sealed: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(unseal(key, sealed)?).map_err(|error| damaged(key, &error.to_string()))
}

/// Seals an entry of an account.
pub(super) fn seal_entry(account: &str, entry: &Entry) -> Result<Vec<u8>, StoreError> {
    check(account, entry)?;
    let (period, number) = (entry.period.to_le_bytes(), entry.number.to_le_bytes());
    seal_json(&[account.as_bytes(), &period, &number], entry)
}

/// Opens what [`seal_entry`] made.
pub(super) fn unseal_entry(
    account: &str,
    period: u64,
    number: u64,
    sealed: &[u8],
) -> Result<Entry, StoreError> {
    unseal_json(
        &[account.as_bytes(), &period.to_le_bytes(), &number.to_le_bytes()],
        sealed,
    )
}

/// Opens what [`seal_entry`] made for an account; where it stood is part of it.
pub(super) fn open_entry(account: &str, sealed: &[u8]) -> Result<Entry, StoreError> {
    let json = sealed.get(SUM..).unwrap_or_default();
    let entry: Entry =
        serde_json::from_slice(json).map_err(|error| damaged(&[account.as_bytes()], &error.to_string()))?;
    unseal_entry(account, entry.period, entry.number, sealed)
}

/// Refuses an entry that JSON could not give back: it knows no infinity, and no number that is none.
fn check(account: &str, entry: &Entry) -> Result<(), StoreError> {
    let numbers: [&[f64]; 2] = match &entry.event {
        Event::Opened { budgets, .. } => [budgets, &[]],
        Event::Decided { context, action, .. } => [context, action],
        Event::Granted { context, .. } => [context, &[]],
        Event::Settled { usage, .. } => [usage, &[]],
        Event::Released { .. } | Event::Skipped { .. } => [&[], &[]],
    };
    if numbers
        .iter()
        .all(|numbers| numbers.iter().all(|number| number.is_finite()))
    {
        return Ok(());
    }
    let place = format!("{account} {}-{}", entry.period, entry.number);
    Err(damaged(&[place.as_bytes()], "expected finite numbers"))
}

fn damaged(key: &[&[u8]], what: &str) -> StoreError {
    let key: Vec<_> = key.iter().map(|part| String::from_utf8_lossy(part)).collect();
    StoreError::Damaged {
        reason: format!("{}: {what}", key.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_under_its_own_key_only() {
        let sealed = seal(&[b"ab", b"c"], b"value");
        assert_eq!(unseal(&[b"ab", b"c"], &sealed).expect("the same key"), b"value");
        assert!(unseal(&[b"a", b"bc"], &sealed).is_err());
        assert!(unseal(&[b"ab", b"d"], &sealed).is_err());
        assert!(unseal(&[b"ab", b"c"], &sealed[..3]).is_err());
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal(&[b"ab", b"c"], &flipped).is_err());
        }
    }

    #[test]
    fn an_entry_that_json_cannot_give_back_is_refused() {
        let entry = |context: f64| Entry {
            period: 0,
            number: 1,
            event: Event::Granted {
                at: 0,
                context: vec![1.0, context],
            },
            request: None,
        };
        assert!(check("a", &entry(-0.0)).is_ok());
        assert!(check("a", &entry(f64::NAN)).is_err());
        assert!(check("a", &entry(f64::INFINITY)).is_err());
    }
}
