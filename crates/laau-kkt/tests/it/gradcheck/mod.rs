//! Derivatives against differences, with an eye for kinks.
//!
//! Every derivative is compared with a central difference of fourth order (two step sizes, extrapolated). A piecewise
//! smooth function has kinks, at which differences mean nothing: with `δ(h)` the forward less the backward difference,
//! smoothness asks for `δ(h) = 2 δ(h/2)` up to `h³`, so a place where that fails is reported as a kink and not compared.
//! At the edge of the domain (a multiplier of zero) one-sided differences of third order are taken.

mod capped;
mod episode;
mod layer;
mod numeric;
mod problem;

pub(crate) use capped::check_capped;
pub(crate) use episode::{check_episode, check_guarded_episode};
pub(crate) use layer::check_layer;
pub(crate) use problem::check_problem;

use laau_core::GradientCounts;
use numeric::{Difference, Point, difference};

/// Step sizes and tolerances of the checks.
///
/// | option | default | purpose |
/// |---|---|---|
/// | `step` | 1e-4 | step, relative to the size of the input (at least `smallest`) |
/// | `smallest` | 1e-2 | inputs smaller than this share of the largest of their kind are stepped as if they were this large |
/// | `kink` | 1e-6 | relative change of the slope within a step that makes a kink |
/// | `floor` | 2e-4 | derivatives below this share of value/input count as this large in relative errors: a solver's rounding of 1e-14, divided by the step, is a millionth of it |
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GradcheckOptions {
    /// Step, relative to the size of the input.
    pub(crate) step: f64,
    /// Inputs smaller than this share of the largest of their kind (prices, budgets, actions, context) are stepped as if
    /// they were this large; where all are zero, as if the largest were 1.
    pub(crate) smallest: f64,
    /// Relative change of the slope within a step that makes a kink.
    pub(crate) kink: f64,
    /// Derivatives below this share of value over input count as this large in relative errors.
    pub(crate) floor: f64,
}

impl Default for GradcheckOptions {
    fn default() -> Self {
        Self {
            step: 1e-4,
            smallest: 1e-2,
            kink: 1e-6,
            floor: 2e-4,
        }
    }
}

/// The outcome of a check; `P` says where a derivative stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gradcheck<P> {
    /// Derivatives that were compared.
    pub(crate) checked: usize,
    /// Derivatives that were not, since the function has a kink within the step.
    pub(crate) kinks: Vec<P>,
    /// Derivatives that were not, since the function could not be evaluated within the step.
    pub(crate) unsolved: Vec<P>,
    /// How many of the layer's gradients behind the derivatives were exact; none for a problem's own derivatives.
    pub(crate) gradients: GradientCounts,
    /// The largest relative error, if anything was compared.
    pub(crate) worst: Option<Mismatch<P>>,
}

/// One derivative against its difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mismatch<P> {
    /// Which derivative.
    pub(crate) place: P,
    /// The derivative that was checked.
    pub(crate) derivative: f64,
    /// The difference.
    pub(crate) difference: f64,
    /// Their distance relative to the larger of them (or the floor).
    pub(crate) relative_error: f64,
}

impl<P: Copy> Gradcheck<P> {
    fn new() -> Self {
        Self {
            checked: 0,
            kinks: Vec::new(),
            unsolved: Vec::new(),
            gradients: GradientCounts::default(),
            worst: None,
        }
    }

    /// The largest relative error, 0 if nothing was compared.
    #[must_use]
    pub(crate) fn worst_error(&self) -> f64 {
        self.worst.as_ref().map_or(0.0, |worst| worst.relative_error)
    }

    /// Compares one derivative of a function.
    fn compare(
        &mut self,
        place: P,
        derivative: f64,
        point: Point,
        options: &GradcheckOptions,
        function: &mut dyn FnMut(f64) -> Option<f64>,
    ) {
        match difference(point, options, function) {
            Difference::Unsolved => self.unsolved.push(place),
            Difference::Kink => self.kinks.push(place),
            Difference::Smooth { slope, floor } => self.note(place, derivative, slope, floor),
        }
    }

    fn note(&mut self, place: P, derivative: f64, difference: f64, floor: f64) {
        self.checked += 1;
        let scale = derivative.abs().max(difference.abs()).max(floor);
        let error = (derivative - difference).abs();
        let relative_error = if error == 0.0 { 0.0 } else { error / scale };
        // A NaN is the worst of all.
        let harmless = |worst: &Mismatch<P>| relative_error <= worst.relative_error;
        if !self.worst.as_ref().is_some_and(harmless) {
            self.worst = Some(Mismatch {
                place,
                derivative,
                difference,
                relative_error,
            });
        }
    }
}
