//! Policy files: a fitted policy with everything that is needed to deploy it.

use std::ops::RangeInclusive;
use std::path::Path;

use laau_baselines::Stored;
use laau_core::{Fitted, Policy, Task, Unrolled};
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
    /// The numbers of steps that a model was trained for; none for a policy that plays any number.
    pub horizons: Option<RangeInclusive<usize>>,
    /// The problem and its solver.
    pub task: Task,
    /// The policy, ready to play.
    pub policy: Box<dyn Policy>,
}

/// The bytes of a policy file.
///
/// # Errors
/// [`Error::Parameter`] for a policy that has no form to be stored in: the offline optimum, and policies of your own that
/// give no document.
pub fn policy_to_bytes(
    name: &str,
    fitted: &Fitted,
    problem: &ProblemSpec,
    horizon: usize,
) -> Result<Vec<u8>, Error> {
    let Some(document) = &fitted.document else {
        return Err(Error::parameter(
            format_args!("policy `{name}` cannot be stored"),
            "store a policy that decides step by step",
        ));
    };
    let json = |error: serde_json::Error| Error::parameter(error, "give finite parameters");
    let content = serde_json::to_string(&Content {
        name: name.to_owned(),
        problem: problem.clone(),
        horizon,
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
    let mut horizons = None;
    let policy: Box<dyn Policy> = match content.kind.as_str() {
        Stored::KIND => Stored::from_bytes(&document, &task)?,
        MODEL => {
            let (model, _) = laau_net::model_from_bytes(&document)?;
            model.spec.check_problem(&*task.problem)?;
            horizons = Some(model.spec.horizons());
            Box::new(Unrolled::new(&content.name, model, task.solver.clone())?)
        }
        other => return Err(wrong(format!("unknown kind of policy `{other}`"))),
    };
    Ok(Deployed {
        name: content.name,
        problem: content.problem,
        horizon: content.horizon,
        horizons,
        task,
        policy,
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
    horizon: usize,
) -> Result<(), Error> {
    let bytes = policy_to_bytes(name, fitted, problem, horizon)?;
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

fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            // Writing to a string does not fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use laau_core::{Fit as _, Player, rollout_all};
    use laau_data::Split;
    use laau_data::synthetic::GenerateOptions;
    use laau_net::{Phase, Training};

    use super::*;
    use crate::registry::PolicyKind;

    #[test]
    fn every_policy_comes_back_bit_for_bit() {
        let problem = ProblemSpec::default();
        let task = problem.task().unwrap();
        let options = GenerateOptions {
            horizon: 5,
            ..GenerateOptions::default()
        };
        let split = Split {
            train: 20,
            validation: 6,
            test: 4,
        };
        let sets = problem
            .workload(None, None)
            .unwrap()
            .generate_split(split, &options)
            .unwrap();
        let training = Training {
            phases: vec![Phase {
                epochs: 2,
                learning_rate: 0.01,
            }],
            ..Training::paper()
        };
        for kind in PolicyKind::ALL {
            let fitted = kind.fit(&training).fit(&task, sets.to_fit(), 1, &mut ()).unwrap();
            let stored = policy_to_bytes(kind.name(), &fitted, &problem, 5);
            let Player::Online(policy) = &fitted.player else {
                assert!(stored.is_err(), "{kind}");
                continue;
            };
            let bytes = stored.unwrap();
            let back = policy_from_bytes(&bytes).unwrap();
            assert_eq!((back.name.as_str(), back.horizon), (kind.name(), 5));
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
