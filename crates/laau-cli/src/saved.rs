//! Models and policies from files.

use std::path::Path;

use laau::net::{Model, Summary};
use laau::registry::{Deployed, ProblemSpec, policy_from_bytes};

use crate::failure::Failure;
use crate::output;

/// The policy of a file, and the file's bytes; what to do with a model instead is up to the command.
pub(crate) fn read_policy(path: &Path, of_a_model: &str) -> Result<(Deployed, Vec<u8>), Failure> {
    let bytes = output::read_bytes(
        path,
        "policy files are written by `laau compare -o DIR`; check the path and its permissions",
    )?;
    let deployed = policy_from_bytes(&bytes).map_err(|error| match laau::net::model_from_bytes(&bytes) {
        Ok(_) => Failure::new(
            format_args!("{}: this is a model, not a policy file", path.display()),
            of_a_model,
        ),
        Err(_) => Failure::new(
            format_args!("{}: {error}", path.display()),
            "policy files are written by `laau compare -o DIR`",
        ),
    })?;
    Ok((deployed, bytes))
}

/// A model, its summary, and the bytes of its file: the hash in a journal is that of the very bytes which decide. What to do with a
/// policy file instead is up to the command.
pub(crate) fn read_model(path: &Path, of_a_policy: &str) -> Result<(Model, Summary, Vec<u8>), Failure> {
    let bytes = output::read_bytes(
        path,
        "models are written by `laau train -o FILE`; check the path and its permissions",
    )?;
    if bytes.starts_with(b"{") && policy_from_bytes(&bytes).is_ok() {
        return Err(Failure::new(
            format_args!("{}: this is a policy file, not a model", path.display()),
            of_a_policy,
        ));
    }
    let (model, summary) = laau::net::model_from_bytes(&bytes).map_err(|error| match error {
        laau::net::Error::InvalidFile { field, reason, .. } => laau::net::Error::InvalidFile {
            path: path.to_owned(),
            field,
            reason,
        },
        other => other,
    })?;
    Ok((model, summary, bytes))
}

/// The policy of a model's file, for the problem that it says.
pub(crate) fn deploy_model(path: &Path, of_a_policy: &str) -> Result<Deployed, Failure> {
    let (model, summary, bytes) = read_model(path, of_a_policy)?;
    let problem = ProblemSpec::of_model(&model.spec)?;
    Ok(Deployed::of_model(model, &summary, bytes, problem)?)
}
