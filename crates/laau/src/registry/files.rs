//! Policy files: a fitted policy with everything that is needed to deploy it.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use laau_baselines::Stored;
use laau_core::{Document, Episodes, Fitted, Guarded, GuardedDocument, Policy, Task, TrainedOn, Unrolled};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Error, ProblemSpec};

const FORMAT: &str = "laau-policy";
const VERSION: u32 = 1;

/// The kind of documents that hold a model.
const MODEL: &str = laau_net::Laau::DOCUMENT;

/// A policy file: JSON with a digest over its content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyFile {
    format: String,
    version: u32,
    /// SHA-256 of `content`, in hexadecimal.
    digest: String,
    /// The JSON of [`Content`], as text, so that the digest covers the very bytes.
    content: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    name: String,
    problem: ProblemSpec,
    horizon: usize,
    /// None in files of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trained_on: Option<TrainedOn>,
    kind: String,
    /// The document in hexadecimal.
    document: String,
}

/// A policy from a file, with the task it is for.
pub struct Deployed {
    /// The policy's name.
    pub name: String,
    /// The problem, with all its parameters.
    pub problem: ProblemSpec,
    /// The number of steps of the episodes it was fitted on.
    pub horizon: usize,
    /// How readings became the contexts of these episodes, and their range.
    pub trained_on: Option<TrainedOn>,
    /// The numbers of steps that a model was trained for; none for a policy that plays any number.
    pub horizons: Option<RangeInclusive<usize>>,
    /// The problem and its solver.
    pub task: Task,
    /// The policy, ready to play.
    pub policy: Arc<dyn Policy>,
    /// The policy as it was stored.
    pub document: Document,
}

/// The bytes of a policy file; `train` is what the policy was fitted on.
///
/// # Errors
/// [`Error::Parameter`] for a policy that has no form to be stored in: the offline optimum, and policies of your own that
/// give no document.
pub fn policy_to_bytes(
    name: &str,
    fitted: &Fitted,
    problem: &ProblemSpec,
    train: &Episodes,
) -> Result<Vec<u8>, Error> {
    let Some(document) = &fitted.document else {
        return Err(Error::parameter(
            format_args!("policy `{name}` cannot be stored"),
            "store a policy that decides step by step",
        ));
    };
    let trained_on = (!train.is_empty()).then(|| TrainedOn::of(train));
    document_to_bytes(name, document, problem, train.horizon(), trained_on)
}

/// The bytes of a policy file, from a document: for whoever has no longer the episodes that the policy was fitted on.
///
/// # Errors
/// [`Error::Parameter`] for parameters that are not finite.
pub fn document_to_bytes(
    name: &str,
    document: &Document,
    problem: &ProblemSpec,
    horizon: usize,
    trained_on: Option<TrainedOn>,
) -> Result<Vec<u8>, Error> {
    let json = |error: serde_json::Error| Error::parameter(error, "give finite parameters");
    let content = serde_json::to_string(&Content {
        name: name.to_owned(),
        problem: problem.clone(),
        horizon,
        trained_on,
        kind: document.kind.to_owned(),
        document: hexadecimal(&document.bytes),
    })
    .map_err(json)?;
    let file = PolicyFile {
        format: FORMAT.to_owned(),
        version: VERSION,
        digest: digest(content.as_bytes()),
        content,
    };
    serde_json::to_vec_pretty(&file).map_err(json)
}

/// Reads the bytes of a policy file; everything in it is checked.
///
/// # Errors
/// [`Error::File`] that says what is wrong.
pub fn policy_from_bytes(bytes: &[u8]) -> Result<Deployed, Error> {
    let wrong = |reason: String| Error::File { reason };
    let unreadable = |error: serde_json::Error| wrong(format!("not a policy file: {error}"));
    let file: PolicyFile = serde_json::from_slice(bytes).map_err(unreadable)?;
    if (file.format.as_str(), file.version) != (FORMAT, VERSION) {
        return Err(wrong(format!(
            "expected {FORMAT}, version {VERSION}, found {}, version {}",
            file.format, file.version
        )));
    }
    if digest(file.content.as_bytes()) != file.digest {
        return Err(wrong("its digest does not match: the file is damaged".to_owned()));
    }
    let content: Content = serde_json::from_str(&file.content).map_err(unreadable)?;
    let document = from_hexadecimal(&content.document).ok_or_else(|| wrong("bad document".to_owned()))?;
    let task = content.problem.task()?;
    let (policy, kind, horizons) = policy_of(&content.name, &content.kind, &document, &task)?;
    Ok(Deployed {
        name: content.name,
        problem: content.problem,
        horizon: content.horizon,
        trained_on: content.trained_on,
        horizons,
        task,
        policy,
        document: Document {
            kind,
            bytes: document,
        },
    })
}

/// A policy, the kind of its document, and the numbers of steps that it is for.
type FromDocument = (Arc<dyn Policy>, &'static str, Option<RangeInclusive<usize>>);

/// The policy of a document.
fn policy_of(name: &str, kind: &str, bytes: &[u8], task: &Task) -> Result<FromDocument, Error> {
    Ok(match kind {
        Stored::KIND => (Arc::from(Stored::from_bytes(bytes, task)?), Stored::KIND, None),
        MODEL => {
            let (model, _) = laau_net::model_from_bytes(bytes)?;
            model.spec.check_problem(&*task.problem)?;
            let horizons = Some(model.spec.horizons());
            (
                Arc::new(Unrolled::new(name, model, task.solver.clone())?),
                MODEL,
                horizons,
            )
        }
        GuardedDocument::KIND => {
            let GuardedDocument {
                level,
                form,
                advice,
                incumbent,
            } = GuardedDocument::from_bytes(bytes)?;
            let part = |(kind, bytes): (String, Vec<u8>)| {
                if kind == GuardedDocument::KIND {
                    let reason = "a guard within a guard".to_owned();
                    return Err(Error::File { reason });
                }
                policy_of(name, &kind, &bytes, task)
            };
            let ((advice, _, ours), (incumbent, _, theirs)) = (part(advice)?, part(incumbent)?);
            let horizons = match (ours, theirs) {
                (Some(ours), Some(theirs)) => {
                    Some(*ours.start().max(theirs.start())..=*ours.end().min(theirs.end()))
                }
                (ours, theirs) => ours.or(theirs),
            };
            let problem = Arc::clone(&task.problem) as Arc<_>;
            let guarded = Guarded::new(name, advice, incumbent, problem, level)?;
            (
                Arc::new(guarded.in_form(form, task)),
                GuardedDocument::KIND,
                horizons,
            )
        }
        other => {
            let reason = format!("unknown kind of policy `{other}`");
            return Err(Error::File { reason });
        }
    })
}

/// Writes a policy file, as a whole or not at all.
///
/// # Errors
/// As [`policy_to_bytes`], and [`Error::Net`] with the system's reason.
pub fn save_policy(
    path: &Path,
    name: &str,
    fitted: &Fitted,
    problem: &ProblemSpec,
    train: &Episodes,
) -> Result<(), Error> {
    let bytes = policy_to_bytes(name, fitted, problem, train)?;
    Ok(laau_net::write_atomically(path, &bytes)?)
}

/// Reads a policy file.
///
/// # Errors
/// As [`policy_from_bytes`], and [`Error::File`] with the system's reason.
pub fn load_policy(path: &Path) -> Result<Deployed, Error> {
    let bytes = std::fs::read(path).map_err(|error| Error::File {
        reason: error.to_string(),
    })?;
    policy_from_bytes(&bytes)
}

/// SHA-256 in hexadecimal: what policy files and journals know a file by.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

// By a table: the service digests every request, and a formatter takes longer for the digits than SHA-256 for the digest.
fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    let digits = bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]);
    let mut text = String::with_capacity(2 * bytes.len());
    text.extend(digits);
    text
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use laau_core::{Form, Player, rollout_all};

    use super::*;
    use crate::registry::PolicyKind;
    use crate::registry::sample::Sample;

    #[test]
    fn every_policy_comes_back_bit_for_bit() {
        let sample = Sample::new().unwrap();
        let fit = |kind: PolicyKind| sample.fit(kind).unwrap();
        let Sample { problem, task, sets } = &sample;
        let guarded = Fitted::guarded(
            task,
            &fit(PolicyKind::Laau),
            &fit(PolicyKind::Mw),
            0.95,
            Form::Layer,
        );
        let all = PolicyKind::ALL.map(|kind| (kind.name(), fit(kind)));
        for (kind, fitted) in all.into_iter().chain([("guarded", guarded.unwrap())]) {
            let stored = policy_to_bytes(kind, &fitted, problem, &sets.train);
            let Player::Online(policy) = &fitted.player else {
                assert!(stored.is_err(), "{kind}");
                continue;
            };
            let bytes = stored.unwrap();
            let back = policy_from_bytes(&bytes).unwrap();
            assert_eq!((back.name.as_str(), back.horizon), (kind, 5));
            assert_eq!(back.trained_on, Some(TrainedOn::of(&sets.train)));
            let played = |policy: &dyn Policy| rollout_all(&*task.problem, policy, &sets.test).unwrap();
            assert_eq!(played(&**policy), played(&*back.policy), "{kind}");
            // A single wrong digit anywhere is noticed.
            for place in (0..bytes.len()).step_by(bytes.len() / 50 + 1) {
                let mut damaged = bytes.clone();
                damaged[place] ^= 1;
                let same = policy_from_bytes(&damaged).is_ok();
                assert!(!same || damaged[place].is_ascii_whitespace(), "{kind}: {place}");
            }
        }
    }
}
