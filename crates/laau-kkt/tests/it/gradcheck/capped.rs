//! The pullback of a layer with a limit on its cost against differences of its action.

use laau_core::{Cap, CappedLayer, Gradients, Query, Solutions};

use super::numeric::Point;
use super::{Gradcheck, GradcheckOptions};
use laau_kkt::Error;

/// An input of a layer with a limit on its cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CappedInput {
    Multiplier(usize),
    Available(usize),
    Context(usize),
    Limit,
}

/// Compares a pullback of `upstream` in all inputs of a query, and in the limit, with differences of `upstreamᵀ x`.
///
/// # Errors
/// [`Error::Core`] for wrong sizes.
pub(crate) fn check_capped(
    layer: &mut CappedLayer,
    query: Query<'_>,
    limit: f64,
    upstream: &[f64],
    options: &GradcheckOptions,
) -> Result<(Cap, Gradcheck<CappedInput>), Error> {
    let dimensions = layer.problem().dimensions();
    let mut solutions = Solutions::new(dimensions, 1);
    let mut gradients = Gradients::with_contexts(dimensions, 1);
    let cap = layer.solve(query, limit, solutions.row_mut(0))?;
    let mut report = Gradcheck::new();
    let (exactness, in_limit) =
        layer.pullback(query, cap, solutions.row(0), upstream, gradients.row_mut(0))?;
    report.gradients.add(exactness);
    let products = solutions
        .actions()
        .iter()
        .zip(upstream)
        .map(|(x, w)| (x * w).abs());
    let scale = products.sum();
    let inputs = [
        (query.multiplier, &gradients.multipliers[..], 0.0),
        (query.available, &gradients.available, f64::NEG_INFINITY),
        (query.context, &gradients.contexts, f64::NEG_INFINITY),
        (&[limit], &[in_limit], f64::NEG_INFINITY),
    ];
    for (kind, (values, derivatives, from)) in inputs.into_iter().enumerate() {
        let mut moved = values.to_vec();
        for index in 0..values.len() {
            let mut function = |value: f64| {
                moved[index] = value;
                let (mut query, mut limit) = (query, limit);
                match kind {
                    0 => query.multiplier = &moved,
                    1 => query.available = &moved,
                    2 => query.context = &moved,
                    _ => limit = value,
                }
                layer.solve(query, limit, solutions.row_mut(0)).ok()?;
                let row = solutions.row(0);
                let solved = row.status.is_solved();
                solved.then(|| row.action.iter().zip(upstream).map(|(x, w)| x * w).sum())
            };
            let place = match kind {
                0 => CappedInput::Multiplier(index),
                1 => CappedInput::Available(index),
                2 => CappedInput::Context(index),
                _ => CappedInput::Limit,
            };
            let point = Point {
                from,
                scale,
                ..Point::of(values, index)
            };
            report.compare(place, derivatives[index], point, options, &mut function);
            moved[index] = values[index];
        }
    }
    Ok((cap, report))
}
