//! Normal draws.

/// Two independent standard normal draws by the Box–Muller transform of two independent uniform ones, the first in `(0, 1]`
/// and the second in `[0, 1)`. The same bits on every platform.
#[must_use]
pub fn normal_pair(first: f64, second: f64) -> (f64, f64) {
    let radius = (-2.0 * libm::log(first)).sqrt();
    let (sin, cos) = libm::sincos(std::f64::consts::TAU * second);
    (radius * cos, radius * sin)
}
