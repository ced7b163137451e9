#![doc = include_str!("../README.md")]

mod avg_lt;
mod ce;
mod cr_pursuit;
mod dp;
mod dual_descent;
mod equal;
mod fairness_bounds;
mod history;
mod layer;
mod opt;
mod rl;
mod shadow_price;
mod tuning;

pub use avg_lt::{AvgLtOptions, avg_lt};
pub use ce::{CeOptions, CertaintyEquivalent, FEATURES, Prediction, Predictor, Resolve, Rule};
pub use cr_pursuit::{CrPursuit, CrPursuitOptions, Ratio};
pub use dp::{Chain, DpOptions, DynamicProgram, Memory};
pub use dual_descent::{DualDescent, DualDescentParameters, Mirror, PriceScale, Start};
pub use equal::{Equal, EqualOptions};
pub use laau_core::Phase;
pub use opt::{HorizonOptimum, HorizonOptions, HorizonSolution, OptOptions, WaterFilling};
pub use rl::{EndToEnd, Method, RlOptions, RlParameters};
pub use tuning::DualDescentOptions;
