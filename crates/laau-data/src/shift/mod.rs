//! Distribution shift: Gaussian noise on contexts, solved for a Wasserstein distance.
//!
//! The paper adds "i.i.d. Gaussian noise with different means and variances" to the training data and names the shift by
//! its Wasserstein distance `d_W` to the testing data. Here the noise is a family of one parameter, `scale`:
//!
//! ```text
//!     c' = max(0, c + scale · (mean + deviation · z)),    z ~ N(0, 1), one for every context value
//! ```
//!
//! and `scale` is solved for, so that the pooled `d_W` between the shifted and the reference contexts, *after* the
//! truncation at zero that contexts need, hits the target. The draws `z` stay the same for every scale that is tried, so the
//! distance is a continuous function of the scale and bisection finds it. A target of zero is no noise at all; the
//! distance that two finite samples of one law have anyway is then reported, not removed.
//!
//! On the synthetic workload, 5,000 training against 2,000 testing episodes of 20 steps, consecutive (`cargo run --release
//! -p laau-data --example shift`, which also prints the interleaved ones):
//!
//! | target `d_W` | `d_W` | sliced W1 | mean | deviation | truncated |
//! |---|---|---|---|---|---|
//! | 0 | 0.0068 | 0.0107 | 0 | 0 | 0 % |
//! | 0.05 | 0.0498 | 0.0474 | 0.0500 | 0.0250 | 0.01 % |
//! | 0.10 | 0.0997 | 0.0916 | 0.1016 | 0.0508 | 0.03 % |
//! | 0.15 | 0.1500 | 0.1377 | 0.1529 | 0.0765 | 0.07 % |
//! | 0.20 | 0.2002 | 0.1842 | 0.2039 | 0.1020 | 0.11 % |
//! | 0.25 | 0.2499 | 0.2304 | 0.2539 | 0.1270 | 0.16 % |

mod noise;
pub mod tsne;
pub mod wasserstein;

pub use noise::{Shift, Shifted, add_noise, shift};
