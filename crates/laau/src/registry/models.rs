//! Models as policies that are ready to play, and files of either kind.

use std::sync::Arc;

use laau_core::{Document, Unrolled};
use laau_net::{Model, ModelSpec, Summary};

use super::{Deployed, Error, ProblemSpec, policy_from_bytes};

impl ProblemSpec {
    /// The problem that a model was trained for.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a problem of somebody else's.
    pub fn of_model(spec: &ModelSpec) -> Result<Self, Error> {
        let foreign = |error: serde_json::Error| {
            Error::parameter(
                format_args!("the model's problem is not one of this program: {error}"),
                "decide with the program that trained it",
            )
        };
        let mut table = serde_json::Map::new();
        table.insert("name".to_owned(), spec.problem.clone().into());
        for (name, value) in &spec.parameters {
            table.insert(name.clone(), serde_json::to_value(value).map_err(foreign)?);
        }
        serde_json::from_value(table.into()).map_err(foreign)
    }
}

impl Deployed {
    /// The policy of a model, as it was read from the bytes of its file.
    ///
    /// # Errors
    /// [`Error::Net`] when the model is for another problem.
    pub fn of_model(
        model: Model,
        summary: &Summary,
        bytes: Vec<u8>,
        problem: ProblemSpec,
    ) -> Result<Self, Error> {
        const NAME: &str = "laau";
        let task = problem.task()?;
        model.spec.check_problem(&*task.problem)?;
        let (horizon, horizons) = (model.spec.horizon, Some(model.spec.horizons()));
        let policy = Arc::new(Unrolled::new(NAME, model, task.solver.clone())?);
        Ok(Self {
            name: NAME.to_owned(),
            problem,
            horizon,
            trained_on: summary.trained_on.clone(),
            horizons,
            task,
            policy,
            document: Document {
                kind: laau_net::Laau::DOCUMENT,
                bytes,
            },
        })
    }
}

/// Reads the bytes of a model or of a policy file, whichever they are.
///
/// Both know their problem; one that is given must be the same.
///
/// # Errors
/// As [`policy_from_bytes`] and [`laau_net::model_from_bytes`]; [`Error::File`] when the problem is another.
pub fn deployed_from_bytes(bytes: &[u8], problem: Option<&ProblemSpec>) -> Result<Deployed, Error> {
    let deployed = if is_model(bytes) {
        let (model, summary) = laau_net::model_from_bytes(bytes)?;
        let problem = ProblemSpec::of_model(&model.spec)?;
        Deployed::of_model(model, &summary, bytes.to_vec(), problem)?
    } else {
        policy_from_bytes(bytes)?
    };
    if problem.is_some_and(|problem| *problem != deployed.problem) {
        return Err(Error::File {
            reason: "the file is for another problem or other parameters".to_owned(),
        });
    }
    Ok(deployed)
}

/// Whether bytes are a model rather than a policy file: they begin with the length of a header, which text cannot mean.
fn is_model(bytes: &[u8]) -> bool {
    let length = bytes.first_chunk::<8>().map(|length| u64::from_le_bytes(*length));
    length.is_some_and(|length| length < bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use laau_core::{Player, rollout_all};

    use super::*;
    use crate::registry::sample::Sample;
    use crate::registry::{PolicyKind, policy_to_bytes};

    #[test]
    fn a_model_and_its_policy_file_are_deployed_alike() {
        let sample = Sample::new().unwrap();
        let fitted = sample.fit(PolicyKind::Laau).unwrap();
        let Sample { problem, task, sets } = sample;
        let model = fitted.document.clone().unwrap().bytes;
        let file = policy_to_bytes("laau", &fitted, &problem, &sets.train).unwrap();
        let Player::Online(policy) = &fitted.player else {
            panic!("a model plays online");
        };
        let expected = rollout_all(&*task.problem, &**policy, &sets.test).unwrap();
        for bytes in [&model, &file] {
            for given in [None, Some(&problem)] {
                let deployed = deployed_from_bytes(bytes, given).unwrap();
                assert_eq!((deployed.horizon, deployed.horizons), (5, Some(5..=5)));
                assert_eq!((&deployed.problem, &deployed.document.bytes), (&problem, &model));
                assert!(deployed.trained_on.is_some());
                let played = rollout_all(&*task.problem, &*deployed.policy, &sets.test).unwrap();
                assert_eq!(played, expected);
            }
            let mut other = crate::registry::ProblemSpec::default();
            if let ProblemSpec::WeightedFairness(spec) = &mut other {
                spec.upper = 39.0;
            }
            assert!(deployed_from_bytes(bytes, Some(&other)).is_err());
            for length in [0, 7, 8, 9, bytes.len() / 2, bytes.len() - 1] {
                assert!(deployed_from_bytes(&bytes[..length], None).is_err(), "{length}");
            }
        }
    }
}
