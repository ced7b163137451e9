//! The end-to-end network: it outputs the action, and the projection makes it payable.

mod lanes;
mod network;
mod projector;
mod train;
mod unroll;

use std::sync::Arc;

use crate::Stored;
use laau_core::numerics::{mlp, softplus};
use laau_core::{
    Agent, Differentiate, Dimensions, Episodes, Error, Fit, FitObserver, FitSets, Fitted, Observation, Phase,
    Policy, Problem, Projection, Query, Solutions, StepSolver, Task, expect_finite, expect_length,
    expect_option,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use self::network::{Activations, Layers, initial, layers};
use self::projector::Projector;

const NAME: &str = "rl";
const NAME_MODEL_FREE: &str = "rl-pg";

/// How the network is trained.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Backpropagation through the simulator: the true derivative of an episode's cost, the projection and the budget's
    /// path included.
    #[default]
    Simulator,
    /// A model-free policy gradient, REINFORCE: it sees costs only. The baseline is the mean of the other rollouts of the same
    /// episode.
    PolicyGradient {
        /// Rollouts per episode and update, at least 2.
        rollouts: usize,
        /// Deviation of the Gaussian noise on the network's outputs at the start; it falls to a tenth.
        noise: f64,
    },
}

/// Options of the end-to-end network and its training.
///
/// | name | default | purpose | range |
/// |---|---|---|---|
/// | `method` | simulator | where the gradient comes from | |
/// | `hidden` | 10 | units in each of the two hidden layers | 1 to 1024 |
/// | `schedule` | 50 epochs at 5e-3, 30 at 2.5e-3 | the paper's | at least one epoch, positive rates |
/// | `batch` | 10 | episodes per update | at least 1 |
/// | `validate_every` | 1 | epochs from one look at the validation set to the next; the last epoch always has one | at least 1 |
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RlOptions {
    /// Where the gradient comes from.
    pub method: Method,
    /// Units in each of the two hidden layers.
    pub hidden: usize,
    /// Epochs and learning rates.
    pub schedule: Vec<Phase>,
    /// Episodes per update.
    pub batch: usize,
    /// Epochs from one look at the validation set to the next.
    pub validate_every: usize,
}

impl Default for RlOptions {
    fn default() -> Self {
        let phase = |epochs, learning_rate| Phase {
            epochs,
            learning_rate,
        };
        Self {
            method: Method::default(),
            hidden: 10,
            schedule: vec![phase(50, 5e-3), phase(30, 2.5e-3)],
            batch: 10,
            validate_every: 1,
        }
    }
}

/// Trains the network; the epoch with the largest utility on the validation set is kept. Several actions need a projector.
impl Fit for RlOptions {
    fn fit(
        &self,
        task: &Task,
        sets: FitSets<'_>,
        seed: u64,
        observer: &mut dyn FitObserver,
    ) -> Result<Fitted, Error> {
        let FitSets { train, validation } = sets;
        self.check()?;
        task.check_episodes("training episode", train)?;
        task.check_episodes("validation episode", validation)?;
        task.expect_projector()?;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let model = self.initial(task, train, &mut rng)?;
        let trained = train::train(self, task, model, sets, &mut rng, observer)?;
        let stored = Stored::Rl {
            network: trained.model.clone(),
        };
        let policy = EndToEnd::named(self.name(), task, trained.model)?;
        Ok(Fitted::new(policy)
            .with_document(stored.document())
            .with("best_epoch", trained.best_epoch)
            .with("validation_utility", -trained.validation_cost))
    }

    fn is_seeded(&self) -> bool {
        true
    }
}

impl RlOptions {
    /// The same with the model-free policy gradient.
    #[must_use]
    pub fn model_free() -> Self {
        Self {
            method: Method::PolicyGradient {
                rollouts: 8,
                noise: 0.5,
            },
            ..Self::default()
        }
    }

    /// The name in tables: `rl`, or `rl-pg` when it is model-free.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.method {
            Method::Simulator => NAME,
            Method::PolicyGradient { .. } => NAME_MODEL_FREE,
        }
    }

    fn check(&self) -> Result<(), Error> {
        let hidden = (1..=1024).contains(&self.hidden);
        expect_option(hidden, NAME, "hidden", "1 to 1024", self.hidden as f64)?;
        for (option, count) in [("batch", self.batch), ("validate_every", self.validate_every)] {
            expect_option(count > 0, NAME, option, "at least 1", count as f64)?;
        }
        let epochs: usize = self.schedule.iter().map(|phase| phase.epochs).sum();
        expect_option(epochs > 0, NAME, "epochs", "at least 1 in all", epochs as f64)?;
        for phase in &self.schedule {
            let rate = phase.learning_rate;
            let good = rate > 0.0 && rate.is_finite();
            expect_option(good, NAME, "learning_rate", "a positive number", rate)?;
        }
        if let Method::PolicyGradient { rollouts, noise } = self.method {
            expect_option(rollouts >= 2, NAME, "rollouts", "at least 2", rollouts as f64)?;
            let good = noise > 0.0 && noise.is_finite();
            expect_option(good, NAME, "noise", "a positive number", noise)?;
        }
        Ok(())
    }

    /// Untrained parameters, whose actions are about the equal share's.
    fn initial(&self, task: &Task, train: &Episodes, rng: &mut ChaCha8Rng) -> Result<RlParameters, Error> {
        /// `softplus` is 1 here.
        const ONE: f64 = 0.541_324_854_612_918_2;
        let dimensions = task.problem.dimensions();
        let Dimensions {
            actions,
            budgets,
            context,
        } = dimensions;
        let (count, horizon) = (train.len() as f64, train.horizon() as f64);
        let mut budget_scale = vec![0.0; budgets];
        for (index, budget) in train.budgets().iter().enumerate() {
            budget_scale[index % budgets] += budget / count;
        }
        let mut mean = vec![0.0; context];
        for (index, c) in train.contexts().iter().enumerate() {
            mean[index % context] += c / (count * horizon);
        }
        let share: Vec<f64> = budget_scale.iter().map(|budget| budget / horizon).collect();
        let mut solution = Solutions::new(dimensions, 1);
        let query = Query {
            context: &mean,
            multiplier: &vec![0.0; budgets],
            available: &share,
        };
        task.solver.clone().solve(query, solution.row_mut(0))?;
        let layers = layers(budgets + context + 1, self.hidden, actions);
        let positive = |value: &f64| if *value > 0.0 { *value } else { 1.0 };
        Ok(RlParameters {
            hidden: self.hidden,
            weights: initial(&layers, rng, ONE),
            budget_scale: budget_scale.iter().map(positive).collect(),
            action_scale: solution.row(0).action.iter().map(positive).collect(),
        })
    }
}

/// A trained network; plain data that can be stored.
///
/// Inputs: the remaining budgets over `budget_scale`, the context, and the share of steps left `(N − t) / N`. Outputs:
/// `softplus` times `action_scale` is the action.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RlParameters {
    /// Units in each of the two hidden layers.
    pub hidden: usize,
    /// One layer after the other, as in [`laau_core::numerics::mlp`].
    pub weights: Vec<f64>,
    /// What each remaining budget is divided by.
    pub budget_scale: Vec<f64>,
    /// What each output is multiplied with.
    pub action_scale: Vec<f64>,
}

impl RlParameters {
    fn layers(&self) -> Layers {
        let outputs = self.action_scale.len();
        // The first layer is what the other two leave.
        let others = self.hidden * (self.hidden + 1) + outputs * (self.hidden + 1);
        let first = self.weights.len().saturating_sub(others) / self.hidden.max(1);
        layers(first.saturating_sub(1), self.hidden, outputs)
    }

    fn check(&self, dimensions: Dimensions) -> Result<(), Error> {
        let inputs = dimensions.budgets + dimensions.context + 1;
        let layers = layers(inputs, self.hidden, dimensions.actions);
        for (what, values, expected) in [
            ("action scales", &self.action_scale, dimensions.actions),
            ("budget scales", &self.budget_scale, dimensions.budgets),
            ("weights", &self.weights, mlp::parameter_len(&layers)),
        ] {
            expect_length(what, values, expected)?;
            expect_finite(what, values)?;
        }
        Ok(())
    }

    fn features(&self, step: usize, horizon: usize, context: &[f64], remaining: &[f64], out: &mut Vec<f64>) {
        out.clear();
        out.extend(
            remaining
                .iter()
                .zip(&self.budget_scale)
                .map(|(b, scale)| b / scale),
        );
        out.extend_from_slice(context);
        out.push((horizon - step) as f64 / horizon as f64);
    }
}

/// The policy of a trained network: its action, projected.
///
/// One action is cut to what can be paid. Several are moved to the nearest payable ones ([`laau_core::Nearest`]), so that
/// a budget that is used up holds back only the actions that use it. A step whose action was moved counts as a projection.
#[derive(Clone)]
pub struct EndToEnd {
    name: &'static str,
    model: RlParameters,
    problem: Arc<dyn Problem>,
    projector: Option<Box<dyn Differentiate>>,
}

impl EndToEnd {
    /// The policy of a trained network.
    ///
    /// # Errors
    /// [`Error::WrongLength`] or [`Error::NotFinite`] when the parameters do not fit the problem; [`Error::Policy`] for
    /// several actions without a projector.
    pub fn new(task: &Task, model: RlParameters) -> Result<Self, Error> {
        Self::named(NAME, task, model)
    }

    fn named(name: &'static str, task: &Task, model: RlParameters) -> Result<Self, Error> {
        model.check(task.problem.dimensions())?;
        Ok(Self {
            name,
            model,
            problem: task.problem.clone(),
            projector: task.expect_projector()?.map(Differentiate::fork),
        })
    }
}

impl Policy for EndToEnd {
    fn name(&self) -> &str {
        self.name
    }

    fn begin(&self) -> Box<dyn Agent + '_> {
        Box::new(EndToEndAgent {
            model: &self.model,
            problem: &*self.problem,
            features: Vec::new(),
            activations: Activations::default(),
            payable: match &self.projector {
                None => Payable::Cut(Projection::new(&*self.problem)),
                Some(solver) => Payable::Nearest(Box::new(Projector::new(&**solver, 1))),
            },
            projections: 0,
        })
    }
}

struct EndToEndAgent<'a> {
    model: &'a RlParameters,
    problem: &'a dyn Problem,
    features: Vec<f64>,
    activations: Activations,
    payable: Payable,
    projections: usize,
}

/// How an action becomes payable.
enum Payable {
    Cut(Projection),
    Nearest(Box<Projector>),
}

impl Agent for EndToEndAgent<'_> {
    fn decide(&mut self, observation: &Observation<'_>, action: &mut [f64]) -> Result<(), Error> {
        let model = self.model;
        let (context, available) = (observation.context(), observation.available);
        model.features(
            observation.step,
            observation.horizon,
            context,
            observation.remaining,
            &mut self.features,
        );
        self.activations
            .evaluate(&model.layers(), &model.weights, &self.features);
        for ((action, output), scale) in
            (action.iter_mut().zip(&self.activations.outputs)).zip(&model.action_scale)
        {
            *action = scale * softplus(*output).0;
        }
        let moved = match &mut self.payable {
            Payable::Cut(projection) => projection.apply(self.problem, context, available, action),
            Payable::Nearest(projector) => projector.project(0, context, available, action)?,
        };
        self.projections += usize::from(moved);
        Ok(())
    }

    fn restart(&mut self) -> bool {
        self.projections = 0;
        true
    }

    fn projections(&self) -> usize {
        self.projections
    }
}
