//! The pullback of a layer against differences of its action.

use laau_core::{Differentiate, Gradients, Input, Queries, Query, Solutions};

use super::numeric::Point;
use super::{Gradcheck, GradcheckOptions};
use laau_core::expect_length;
use laau_kkt::Error;

/// A derivative of a layer: in which input, at which position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LayerPlace {
    /// The input.
    pub(crate) input: Input,
    /// The position in it.
    pub(crate) index: usize,
}

/// Compares a pullback of `upstream` in all inputs of a query with differences of `upstreamᵀ x`.
///
/// ```
/// use laau_core::problems::WeightedFairness;
/// use laau_core::Query;
/// use laau_kkt::FairnessLayer;
/// use laau_kkt::gradcheck::{GradcheckOptions, check_layer};
///
/// let mut layer = FairnessLayer::new(WeightedFairness::paper());
/// let query = Query { context: &[2.0], multiplier: &[0.25], available: &[30.0] };
/// let report = check_layer(&mut layer, query, &[1.0], &GradcheckOptions::default())?;
/// assert_eq!(report.checked, 3);
/// assert!(report.worst_error() < 1e-8);
/// # Ok::<(), laau_kkt::Error>(())
/// ```
///
/// # Errors
/// [`Error::Core`] for wrong sizes, [`Error::NotSolved`] when the query itself is not solved.
pub(crate) fn check_layer(
    layer: &mut dyn Differentiate,
    query: Query<'_>,
    upstream: &[f64],
    options: &GradcheckOptions,
) -> Result<Gradcheck<LayerPlace>, Error> {
    let dimensions = layer.problem().dimensions();
    let mut solutions = Solutions::new(dimensions, 1);
    let mut gradients = Gradients::with_contexts(dimensions, 1);
    expect_length("upstream", upstream, dimensions.actions)?;
    layer.solve(query, solutions.row_mut(0))?;
    if !solutions.statuses()[0].is_solved() {
        return Err(Error::NotSolved(solutions.statuses()[0]));
    }
    let queries = Queries {
        contexts: query.context,
        multipliers: query.multiplier,
        available: query.available,
    };
    let mut report = Gradcheck::new();
    layer.pullback_batch(queries, &solutions, upstream, &mut gradients)?;
    report.gradients.add(gradients.exactness[0]);
    // The terms of the sum, which may cancel.
    let action = solutions.actions();
    let scale = action.iter().zip(upstream).map(|(x, w)| (x * w).abs()).sum();
    let everywhere = f64::NEG_INFINITY;
    let inputs = [
        (Input::Multiplier, query.multiplier, &gradients.multipliers, 0.0),
        (
            Input::Available,
            query.available,
            &gradients.available,
            everywhere,
        ),
        (Input::Context, query.context, &gradients.contexts, everywhere),
    ];
    for (input, values, derivatives, from) in inputs {
        let mut moved = values.to_vec();
        for index in 0..values.len() {
            let mut function = |value: f64| {
                moved[index] = value;
                let mut query = query;
                match input {
                    Input::Multiplier => query.multiplier = &moved,
                    Input::Available => query.available = &moved,
                    Input::Context => query.context = &moved,
                }
                layer.solve(query, solutions.row_mut(0)).ok()?;
                let row = solutions.row(0);
                row.status
                    .is_solved()
                    .then(|| row.action.iter().zip(upstream).map(|(x, w)| x * w).sum())
            };
            let place = LayerPlace { input, index };
            let point = Point {
                from,
                scale,
                ..Point::of(values, index)
            };
            report.compare(place, derivatives[index], point, options, &mut function);
            moved[index] = values[index];
        }
    }
    Ok(report)
}
