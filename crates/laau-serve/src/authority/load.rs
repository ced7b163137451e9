//! Rebuilds an account from the store.

use laau::registry::digest;

use super::live::Live;
use super::worker::REST;
use crate::deployment::{Deployment, Files};
use crate::entry::{Entry, Event};
use crate::error::Error;
use crate::period::{Opening, Period, Replay};
use crate::store::{AccountRecord, Claim, Store, StoreError};

/// Entries that are read at once.
const PAGE: usize = 4096;

/// Claims an account and rebuilds it by its log.
pub(super) fn load(store: &mut dyn Store, name: &str) -> Result<Live, Error> {
    let unknown = || Error::UnknownAccount {
        account: name.to_owned(),
    };
    // A name that nobody has is not claimed.
    store.account(name)?.ok_or_else(unknown)?;
    let epoch = match store.claim(name)? {
        Claim::Owned { epoch } => epoch,
        Claim::Elsewhere { address } => {
            let account = name.to_owned();
            return Err(Error::Elsewhere { account, address });
        }
    };
    let record = store.account(name)?.ok_or_else(unknown)?;
    let files = files(store, &record)?;
    let deployment = Deployment::new(&mut record.spec.clone(), &files)
        .map_err(|error| unplayable(name, format_args!("its policy is refused: {error}")))?;
    let (mut open, mut previous) = (None, None);
    if let Some(number) = record.period {
        open = Some(replay(store, name, &deployment, number, Replay::Decisions)?);
        if let Some(before) = number.checked_sub(1) {
            previous = Some(replay(store, name, &deployment, before, Replay::Books)?);
        }
    }
    Ok(Live {
        record,
        epoch,
        deployment,
        open,
        previous,
        faulty: false,
    })
}

/// The policy files of an account, as they were when it was made.
fn files(store: &mut dyn Store, record: &AccountRecord) -> Result<Files, Error> {
    let mut files = Files::new();
    for (name, expected) in &record.files {
        let bytes = store.file(expected)?.filter(|bytes| digest(bytes) == *expected);
        let bytes = bytes.ok_or_else(|| StoreError::Damaged {
            reason: format!("policy file `{name}` is not there as it was stored"),
        })?;
        files.insert(name.clone(), bytes);
    }
    Ok(files)
}

/// A period, by its log.
fn replay(
    store: &mut dyn Store,
    account: &str,
    deployment: &Deployment,
    number: u64,
    replay: Replay,
) -> Result<Period, Error> {
    let mut from = 0;
    let mut period: Option<Period> = None;
    loop {
        let entries = store.entries(account, number, from, PAGE)?;
        let full = entries.len() == PAGE;
        for Entry {
            number: entry,
            event,
            request,
            ..
        } in entries
        {
            let told = |reason: &str| {
                unplayable(
                    account,
                    format_args!("entry {entry} of period {number}: {reason}"),
                )
            };
            if entry != from {
                return Err(told("an entry before it is missing"));
            }
            match (&mut period, event) {
                (Some(period), event) => {
                    period
                        .replay(&event, replay)
                        .map_err(|unplayable| told(&unplayable.0))?;
                }
                (
                    None,
                    Event::Opened {
                        at,
                        until,
                        budgets,
                        horizon,
                    },
                ) => {
                    let opening = Opening {
                        at,
                        until,
                        budgets,
                        horizon,
                    };
                    let mut opened = Period::open(deployment, number, opening)
                        .map_err(|error| told(&error.to_string()))?;
                    opened.entries = 1;
                    period = Some(opened);
                }
                (None, _) => return Err(told("the period has not begun")),
            }
            if let (Some(period), Some(request)) = (&mut period, request) {
                period.note_key(&request.key);
            }
            from += 1;
        }
        if !full {
            break;
        }
    }
    period.ok_or_else(|| unplayable(account, format_args!("period {number} has no entries")))
}

fn unplayable(account: &str, reason: impl std::fmt::Display) -> Error {
    Error::Unplayable {
        account: account.to_owned(),
        reason: reason.to_string(),
        rest: REST,
    }
}
