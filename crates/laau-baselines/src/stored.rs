//! Fitted policies as plain data.

use laau_core::{Document, Error, Policy, Task};
use serde::{Deserialize, Serialize};

use crate::{
    AvgLt, Chain, CrPursuit, DualDescent, DualDescentParameters, DynamicProgram, EndToEnd, Equal, Mirror,
    Predictor, Resolve, RlParameters,
};

/// A fitted policy in a form that can be stored; [`Stored::policy`] gives the policy back, bit for bit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Stored {
    /// [`Equal`].
    Equal,
    /// [`AvgLt`].
    AvgLt {
        /// The price of each budget.
        multiplier: Vec<f64>,
    },
    /// [`DualDescent`].
    DualDescent {
        /// The geometry.
        mirror: Mirror,
        /// What was tuned.
        parameters: DualDescentParameters,
    },
    /// [`CrPursuit`].
    CrPursuit {
        /// The competitive ratio.
        ratio: f64,
    },
    /// [`Resolve`].
    Ce {
        /// What was fitted.
        predictor: Predictor,
    },
    /// [`DynamicProgram`]; its table is computed anew.
    Dp {
        /// What was estimated.
        chain: Chain,
        /// The longest horizon of the table.
        horizon: usize,
        /// Points of the budget grid.
        points: usize,
    },
    /// [`EndToEnd`].
    Rl {
        /// What was trained.
        network: RlParameters,
    },
}

impl Stored {
    /// The kind of its documents.
    pub const KIND: &'static str = "rival";

    /// The policy for a task.
    ///
    /// # Errors
    /// When the parameters do not fit the task.
    pub fn policy(self, task: &Task) -> Result<Box<dyn Policy>, Error> {
        Ok(match self {
            Self::Equal => Box::new(Equal::new(task)),
            Self::AvgLt { multiplier } => Box::new(AvgLt::new(task, multiplier)?),
            Self::DualDescent { mirror, parameters } => Box::new(DualDescent::new(task, mirror, parameters)?),
            Self::CrPursuit { ratio } => Box::new(CrPursuit::new(task, ratio)?),
            Self::Ce { predictor } => Box::new(Resolve::new(task, predictor)?),
            Self::Dp {
                chain,
                horizon,
                points,
            } => Box::new(DynamicProgram::new(task, chain, horizon, points)?),
            Self::Rl { network } => Box::new(EndToEnd::new(task, network)?),
        })
    }

    /// The policy from the bytes of a document.
    ///
    /// # Errors
    /// [`Error::Document`] for bytes that are no stored policy, or as [`Stored::policy`].
    pub fn from_bytes(bytes: &[u8], task: &Task) -> Result<Box<dyn Policy>, Error> {
        let stored: Self = serde_json::from_slice(bytes).map_err(|error| Error::Document {
            reason: error.to_string(),
        })?;
        stored.policy(task)
    }

    /// The document; none if a value is not finite and could not be read back.
    pub(crate) fn document(&self) -> Option<Document> {
        let bytes = serde_json::to_vec(self).ok()?;
        let back: Self = serde_json::from_slice(&bytes).ok()?;
        (back == *self).then_some(Document {
            kind: Self::KIND,
            bytes,
        })
    }
}
