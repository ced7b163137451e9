//! Derivatives by finite differences, for every check of a derivative.

/// The derivative of one output in one input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    /// The output at the point itself.
    pub value: f64,
    /// The derivative, by central differences of fourth order.
    pub slope: f64,
    /// How far the central differences of the two widths are apart.
    pub drift: f64,
    /// By how much the slope changes within the step beyond curvature: with `δ(h)` the forward less the backward
    /// difference, a smooth function has `δ(h) = 2 δ(h/2)` up to `h³`, and a kink does not.
    pub change: f64,
}

/// Differentiates a function of one input with any number of outputs: central differences of the widths `step` and
/// `step / 2`, extrapolated.
///
/// ```
/// let slopes = laau_core::central_differences(1.0, 1e-3, &mut |x: f64| Ok::<_, ()>(vec![x.exp(), x.abs()])).unwrap();
/// assert!((slopes[0].slope - 1f64.exp()).abs() < 1e-11 && slopes[1].change < 1e-11);
/// ```
///
/// # Errors
/// Those of the function.
pub fn central_differences<E>(
    at: f64,
    step: f64,
    function: &mut dyn FnMut(f64) -> Result<Vec<f64>, E>,
) -> Result<Vec<Slope>, E> {
    let values = function(at)?;
    // Divided by the steps that were really taken, after rounding.
    let mut differences = |h: f64| {
        let (up, down) = (at + h, at - h);
        let (above, below) = (function(up)?, function(down)?);
        let pair = |k: usize| {
            let bend = (above[k] - values[k]) / (up - at) - (values[k] - below[k]) / (at - down);
            ((above[k] - below[k]) / (up - down), bend)
        };
        Ok((0..values.len()).map(pair).collect::<Vec<_>>())
    };
    let (wide, narrow) = (differences(step)?, differences(0.5 * step)?);
    let slope = |k: usize| {
        let drift = (wide[k].0 - narrow[k].0).abs();
        Slope {
            value: values[k],
            slope: (4.0 * narrow[k].0 - wide[k].0) / 3.0,
            drift,
            change: (wide[k].1 - 2.0 * narrow[k].1).abs().max(drift),
        }
    };
    Ok((0..values.len()).map(slope).collect())
}
