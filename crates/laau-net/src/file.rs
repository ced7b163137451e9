//! Model files: safetensors with everything that is needed to use a model, and how it came to be.
//!
//! | metadata | holds |
//! |---|---|
//! | `format`, `format_version` | `laau-model`, 2 |
//! | `digest` | SHA-256 of everything else; loading checks it |
//! | `problem`, `parameters`, `dimensions`, `horizon` | what the model is for |
//! | `shortest_horizon` | of a model of several horizons: the fewest steps; `horizon` has the most |
//! | `network`, `features`, `output`, `form` | what it is made of |
//! | `training` | the [`Summary`]: seed, epochs, best validation utility, gradient counts, engine, crate version, and the [`TrainedOn`]: how readings became the training contexts, and their range |
//!
//! | tensor (`f64`) | shape |
//! |---|---|
//! | `layers.<i>.weight`, `layers.<i>.bias` | inputs × outputs; outputs |
//! | `network.<name>` | of a custom network instead: a variable, in the shape that `network` of the metadata lists |
//! | `statistics.<field>` | one entry per value of [`Statistics`] |
//!
//! The same model gives the same bytes, and comes back bit for bit.

use std::path::Path;

use laau_core::{GradientCounts, Problem, TrainedOn};
use serde::{Deserialize, Serialize};

use crate::archive::{Archive, Fault, read, write_atomically};
use crate::engine::Precision;
use crate::error::Error;
use crate::model::Model;
use crate::spec::{ModelSpec, Network};
use crate::statistics::Statistics;
use crate::train::EngineKind;

const FORMAT: &str = "laau-model";
const VERSION: u32 = 2;

/// The largest horizon, width and size that is accepted from a file.
const LARGEST_SIZE: usize = 1 << 20;
const MOST_LAYERS: usize = 64;

/// How a model came to be; stored in its file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The seed of the training: its shuffles, and by custom its initial weights.
    pub seed: u64,
    /// Epochs (offline) or rounds (online) of training.
    pub epochs: usize,
    /// The epoch whose weights these are, from 0, if a validation set chose them.
    pub best_epoch: Option<usize>,
    /// The utility per step on the validation set, at that epoch.
    pub best_validation_utility: Option<f64>,
    /// The layer's gradients in training.
    pub gradients: GradientCounts,
    /// The engine that computed them; none for a model that was not trained, or by an engine of another crate.
    pub engine: Option<EngineKind>,
    /// What the network was computed in while they were; its weights are doubles in any case.
    #[serde(default, skip_serializing_if = "Precision::is_default")]
    pub precision: Precision,
    /// The optimiser's name; none for a model that was not trained.
    pub optimiser: Option<String>,
    /// Number of episodes it was trained on.
    pub episodes: usize,
    /// The version of this crate.
    pub version: String,
    /// How readings became the contexts it was trained on, and their range; none for a model that was not trained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trained_on: Option<TrainedOn>,
}

impl Summary {
    /// The summary of a model with initial weights.
    #[must_use]
    pub fn untrained(seed: u64) -> Self {
        Self {
            seed,
            epochs: 0,
            best_epoch: None,
            best_validation_utility: None,
            gradients: GradientCounts::default(),
            engine: None,
            precision: Precision::F64,
            optimiser: None,
            episodes: 0,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            trained_on: None,
        }
    }
}

/// Writes a model as a whole or not at all.
///
/// # Errors
/// [`Error::Io`], or [`Error::InvalidSetting`] for a model that could not be loaded again (NaN weights).
pub fn save_model(path: &Path, model: &Model, summary: &Summary) -> Result<(), Error> {
    write_atomically(path, &model_to_bytes(model, summary)?)
}

/// Reads a model; everything in the file is checked.
///
/// # Errors
/// [`Error::Io`], or [`Error::InvalidFile`] that names the part of the file that is wrong.
pub fn load_model(path: &Path) -> Result<(Model, Summary), Error> {
    model_from_archive(&read(path)?, None).map_err(|fault| fault.at(path))
}

/// Reads a model like [`load_model`]; a custom network takes over the constructor of the given one. Its variables must be
/// those of the file, by name and shape.
///
/// # Errors
/// As [`load_model`].
pub fn load_model_with(path: &Path, network: &Network) -> Result<(Model, Summary), Error> {
    model_from_archive(&read(path)?, Some(network)).map_err(|fault| fault.at(path))
}

/// The bytes of a model file.
///
/// # Errors
/// [`Error::InvalidSetting`] for a model that could not be loaded again (NaN weights).
pub fn model_to_bytes(model: &Model, summary: &Summary) -> Result<Vec<u8>, Error> {
    // A model's fields are public: check them as a loader would.
    model.validate()?;
    let mut archive = Archive::new(FORMAT, VERSION);
    put_spec(&mut archive, &model.spec)?;
    put_statistics(&mut archive, &model.statistics);
    archive.put_json("training", summary)?;
    let mut rest = &model.parameters[..];
    for (name, shape) in weights(&model.spec) {
        let (values, after) = rest.split_at(shape.iter().product());
        archive.put_tensor(name, &shape, values);
        rest = after;
    }
    Ok(archive.to_bytes())
}

/// Reads the bytes of a model file.
///
/// # Errors
/// [`Error::InvalidFile`] with an empty path, that names the part of the file that is wrong.
pub fn model_from_bytes(bytes: &[u8]) -> Result<(Model, Summary), Error> {
    model_from_archive(bytes, None).map_err(|fault| fault.at(Path::new("")))
}

/// Checks that a model was made for a problem.
///
/// # Errors
/// [`Error::InvalidSetting`] that names the field that differs.
pub fn check_problem(model: &Model, problem: &dyn Problem) -> Result<(), Error> {
    model.spec.check_problem(problem)
}

/// The tensors of a model's weights, by name and shape, in the order of its parameters.
fn weights(spec: &ModelSpec) -> Vec<(String, Vec<usize>)> {
    if let Network::Custom(custom) = &spec.network {
        let variables = custom.variables().iter();
        return variables
            .map(|v| (format!("network.{}", v.name), v.shape.clone()))
            .collect();
    }
    let layers = spec.layers().into_iter().enumerate();
    layers
        .flat_map(|(index, (inputs, outputs))| {
            [
                (format!("layers.{index}.weight"), vec![inputs, outputs]),
                (format!("layers.{index}.bias"), vec![outputs]),
            ]
        })
        .collect()
}

fn model_from_archive(bytes: &[u8], network: Option<&Network>) -> Result<(Model, Summary), Fault> {
    let mut archive = Archive::from_bytes(bytes, FORMAT, VERSION)?;
    let spec = take_spec(&archive, network)?;
    let statistics = take_statistics(&mut archive, &spec)?;
    let summary = archive.json("training")?;
    let mut parameters = Vec::new();
    for (name, shape) in weights(&spec) {
        parameters.extend(archive.take_finite(&name, &shape)?);
    }
    archive.finish()?;
    let model = Model::from_parts(spec, statistics, parameters).map_err(fault)?;
    Ok((model, summary))
}

/// What a constructor refused, as a fault of the file.
pub(crate) fn fault(error: Error) -> Fault {
    match error {
        Error::InvalidSetting { field, reason } => Fault::new(field, reason),
        other => Fault::new("model", other.to_string()),
    }
}

pub(crate) fn put_spec(archive: &mut Archive, spec: &ModelSpec) -> Result<(), Error> {
    archive.put_text("problem", &spec.problem);
    archive.put_json("parameters", &spec.parameters)?;
    archive.put_json("dimensions", &spec.dimensions)?;
    archive.put_json("horizon", &spec.horizon)?;
    if spec.shortest_horizon != spec.horizon {
        archive.put_json("shortest_horizon", &spec.shortest_horizon)?;
    }
    archive.put_json("network", &spec.network)?;
    archive.put_json("features", &spec.features)?;
    archive.put_json("output", &spec.output)?;
    archive.put_json("form", &spec.form)
}

/// Reads a specification; a custom network takes over the constructor of the given one, and must have its variables.
pub(crate) fn take_spec(archive: &Archive, network: Option<&Network>) -> Result<ModelSpec, Fault> {
    let horizon = archive.json("horizon")?;
    let mut spec = ModelSpec {
        problem: archive.text("problem")?.to_owned(),
        parameters: archive.json("parameters")?,
        dimensions: archive.json("dimensions")?,
        horizon,
        // A model of one horizon says it once.
        shortest_horizon: match archive.text("shortest_horizon") {
            Ok(_) => archive.json("shortest_horizon")?,
            Err(_) => horizon,
        },
        network: archive.json("network")?,
        features: archive.json("features")?,
        output: archive.json("output")?,
        form: archive.json("form")?,
    };
    let widths: &[usize] = match &spec.network {
        Network::Mlp { hidden, .. } => hidden,
        Network::Linear { .. } | Network::Custom(_) => &[],
    };
    if widths.len() > MOST_LAYERS {
        let reason = format!("expected at most {MOST_LAYERS} layers, found {}", widths.len());
        return Err(Fault::new("network", reason));
    }
    let dimensions = [
        spec.dimensions.actions,
        spec.dimensions.budgets,
        spec.dimensions.context,
    ];
    for (field, sizes) in [
        ("dimensions", &dimensions[..]),
        ("horizon", &[spec.horizon]),
        ("network", widths),
    ] {
        if let Some(size) = sizes.iter().find(|size| **size > LARGEST_SIZE) {
            let reason = format!("expected sizes of at most {LARGEST_SIZE}, found {size}");
            return Err(Fault::new(field, reason));
        }
    }
    spec.validate().map_err(fault)?;
    if let (Network::Custom(custom), Some(Network::Custom(given))) = (&mut spec.network, network) {
        custom.attach(given);
    }
    spec.resolve().map_err(fault)?;
    Ok(spec)
}

pub(crate) fn put_statistics(archive: &mut Archive, statistics: &Statistics) {
    for (field, values) in [
        ("statistics.feature_mean", &statistics.feature_mean[..]),
        ("statistics.feature_scale", &statistics.feature_scale),
        ("statistics.multiplier_scale", &statistics.multiplier_scale),
        ("statistics.mean_price", &statistics.mean_price),
        ("statistics.budget_per_step", &statistics.budget_per_step),
        ("statistics.context_mean", &statistics.context_mean),
        ("statistics.level_predictor", &statistics.level_predictor),
    ] {
        archive.put_tensor(field, &[values.len()], values);
    }
}

pub(crate) fn take_statistics(archive: &mut Archive, spec: &ModelSpec) -> Result<Statistics, Fault> {
    let (features, budgets) = (spec.feature_len(), spec.dimensions.budgets);
    let mut take = |field: &str, length| archive.take_finite(&format!("statistics.{field}"), &[length]);
    let statistics = Statistics {
        feature_mean: take("feature_mean", features)?,
        feature_scale: take("feature_scale", features)?,
        multiplier_scale: take("multiplier_scale", budgets)?,
        mean_price: take("mean_price", budgets)?,
        budget_per_step: take("budget_per_step", budgets)?,
        context_mean: take("context_mean", spec.dimensions.context)?,
        level_predictor: {
            let mut predictor = [0.0; 6];
            predictor.copy_from_slice(&take("level_predictor", 6)?);
            predictor
        },
    };
    statistics.validate(spec).map_err(|error| {
        let Fault { field, reason } = fault(error);
        Fault::new(format!("statistics.{field}"), reason)
    })?;
    Ok(statistics)
}
