#![doc = include_str!("../README.md")]

mod avg_lt;
mod ce;
mod cr_pursuit;
mod dp;
mod dual_descent;
mod equal;
mod opt;
mod rl;
mod shared;
mod stored;

pub use avg_lt::{AvgLt, AvgLtOptions};
pub use ce::{CeOptions, CertaintyEquivalent, FEATURES, Prediction, Predictor, Resolve, Rule};
pub use cr_pursuit::{CrPursuit, CrPursuitOptions, Ratio};
pub use dp::{Chain, DpOptions, DynamicProgram, Memory};
pub use dual_descent::{DualDescent, DualDescentOptions, DualDescentParameters, Mirror, PriceScale, Start};
pub use equal::{Equal, EqualOptions};
pub use laau_core::Phase;
pub use opt::{HorizonOptimum, HorizonOptions, HorizonSolution, OptOptions, WaterFilling};
pub use rl::{EndToEnd, Method, RlOptions, RlParameters};
pub use stored::Stored;
