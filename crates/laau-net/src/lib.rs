#![doc = include_str!("../README.md")]
#![allow(
    clippy::inline_always,
    reason = "SIMD dispatch reaches only what is inlined into the dispatched function"
)]

mod archive;
pub mod candle_engine;
mod engine;
mod error;
mod features;
mod file;
mod fused;
mod guarded;
mod laau;
mod lanes;
mod math;
mod model;
mod network;
mod optimiser;
mod spec;
mod statistics;
mod train;

pub use archive::{LARGEST_FILE, write_atomically};
pub use engine::{BatchResult, Engine, Precision};
pub use error::Error;
pub use fused::FusedEngine;
pub use laau::{Laau, TrainedGuard};
pub use model::Model;
pub use spec::{Features, ModelSpec, Network, Output, PriceBase};
pub use statistics::Statistics;

pub use file::{
    Summary, check_problem, load_model, load_model_with, model_from_bytes, model_to_bytes, save_model,
};
pub use optimiser::{Optimiser, OptimiserState};
pub use train::{
    BatchProgress, Checkpoint, CsvLog, Ending, EngineKind, EpochRecord, OnlineLearner, OnlineObserver,
    OnlineRun, OnlineTraining, Phase, Round, TrainObserver, Trained, Trainer, Training,
};
