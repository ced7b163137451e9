//! Custom networks: what they implement, and how a model holds one.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::VarBuilder;
use serde::{Deserialize, Serialize};

use super::variables::{Asked, Recorder, Variable, draw};
use super::{Dense, tensor_error};
use crate::error::Error;
use crate::laau::Laau;
use crate::spec::{ModelSpec, Network};

/// A network that prices budgets, for one episode or for many in parallel (`rows`).
///
/// The price of budget `m` is `base_m · out(z_m)`, where the network gives `z` ([`PriceNetwork::output`]). Base and output
/// function are those of the model ([`crate::PriceBase`], [`crate::Output`]).
///
/// Every candle [`Module`] is one that keeps no state: it maps all features (`rows × features`) to `rows × M` outputs. A
/// recurrent network implements this trait. Its state depends on the contexts alone, not on what was spent before: the
/// same observation has one price, whatever led to it.
///
/// ```
/// use laau_net::candle_engine::candle_core::{Result, Tensor};
/// use laau_net::candle_engine::candle_nn::{Linear, Module, rnn::{GRU, GRUState, RNN}};
/// use laau_net::candle_engine::{ContextView, PriceNetwork, StepView};
///
/// struct Recurrent { gru: GRU, head: Linear }
///
/// impl PriceNetwork for Recurrent {
///     type State = GRUState;
///
///     fn begin(&self, rows: usize) -> Result<GRUState> {
///         self.gru.zero_state(rows)
///     }
///
///     fn read(&self, state: &mut GRUState, contexts: &ContextView) -> Result<()> {
///         *state = self.gru.step(&contexts.features, state)?;
///         Ok(())
///     }
///
///     fn output(&self, state: &GRUState, step: &StepView<'_>) -> Result<Tensor> {
///         self.head.forward(&Tensor::cat(&[step.features, state.h()], 1)?)
///     }
/// }
/// ```
pub trait PriceNetwork {
    /// What it remembers of the contexts.
    type State;

    /// The state before the first step.
    ///
    /// # Errors
    /// Candle's.
    fn begin(&self, rows: usize) -> Result<Self::State>;

    /// Takes in the contexts of a step. It is called once per step, before [`PriceNetwork::output`].
    ///
    /// # Errors
    /// Candle's.
    fn read(&self, state: &mut Self::State, contexts: &ContextView) -> Result<()>;

    /// The outputs of a step, `rows × M`. There is none at the last step, where the price is zero.
    ///
    /// # Errors
    /// Candle's.
    fn output(&self, state: &Self::State, step: &StepView<'_>) -> Result<Tensor>;
}

impl<M: Module> PriceNetwork for M {
    type State = ();

    fn begin(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn read(&self, (): &mut (), _: &ContextView) -> Result<()> {
        Ok(())
    }

    fn output(&self, (): &(), step: &StepView<'_>) -> Result<Tensor> {
        self.forward(step.features)
    }
}

/// What a network sees of the contexts of a step.
pub struct ContextView {
    /// The step, from 0.
    pub step: usize,
    /// The number of steps.
    pub horizon: usize,
    /// The context, `rows × context`.
    pub context: Tensor,
    /// The budgets at the start, `rows × M`.
    pub budgets: Tensor,
    /// The normalised features that do not depend on what remains: context, share of steps left, history.
    pub features: Tensor,
}

/// What a network sees when it prices a step.
pub struct StepView<'a> {
    /// The contexts of the step.
    pub contexts: &'a ContextView,
    /// What remains of the budgets, `rows × M`. Gradients flow through it into all earlier steps.
    pub remaining: &'a Tensor,
    /// All normalised features, those of the remaining budgets first; see [`crate::Features`]. Gradients flow as above.
    pub features: &'a Tensor,
}

/// A network with the state of the episodes it prices.
pub(crate) trait Opened {
    fn restart(&mut self, rows: usize) -> Result<()>;
    fn read(&mut self, contexts: &ContextView) -> Result<()>;
    fn output(&self, step: &StepView<'_>) -> Result<Tensor>;
}

struct WithState<N: PriceNetwork> {
    network: N,
    state: N::State,
}

impl<N: PriceNetwork + 'static> WithState<N> {
    fn open(network: N, rows: usize) -> Result<Box<dyn Opened>> {
        let state = network.begin(rows)?;
        Ok(Box::new(Self { network, state }))
    }
}

impl<N: PriceNetwork> Opened for WithState<N> {
    fn restart(&mut self, rows: usize) -> Result<()> {
        self.state = self.network.begin(rows)?;
        Ok(())
    }

    fn read(&mut self, contexts: &ContextView) -> Result<()> {
        self.network.read(&mut self.state, contexts)
    }

    fn output(&self, step: &StepView<'_>) -> Result<Tensor> {
        let outputs = self.network.output(&self.state, step)?;
        if outputs.dims() != step.remaining.dims() {
            let (expected, found) = (step.remaining.dims(), outputs.dims());
            let reason = format!("expected outputs of shape {expected:?}, found {found:?}");
            return Err(candle_core::Error::msg(reason));
        }
        Ok(outputs)
    }
}

type Build = dyn Fn(VarBuilder<'static>, &ModelSpec, usize) -> Result<Box<dyn Opened>> + Send + Sync;

/// The constructor of a [`PriceNetwork`], and the variables it asks for.
///
/// The variables come from a `VarBuilder`. Each is drawn as its `Init` says, but from our seeded generator and in the order
/// of the names, since candle's generator cannot be seeded on the CPU. A network is constructed once per minibatch and once
/// per episode in service, so that it need not be `Sync`; a constructor should only ask for its variables.
///
/// Files hold the variables by name and shape, not the constructor: it is passed to [`crate::load_model_with`] or
/// [`crate::Checkpoint::load_with`]. Two custom networks are equal if their variables are.
#[derive(Clone, Serialize, Deserialize)]
pub struct CustomNetwork {
    /// Sorted by name; empty until a model is made.
    variables: Vec<Variable>,
    #[serde(skip)]
    build: Option<Arc<Build>>,
}

impl CustomNetwork {
    /// A network from its constructor, which may depend on the sizes of the model.
    pub fn new<N, F>(build: F) -> Self
    where
        N: PriceNetwork + 'static,
        F: Fn(VarBuilder<'static>, &ModelSpec) -> Result<N> + Send + Sync + 'static,
    {
        let build = move |vb: VarBuilder<'static>, spec: &ModelSpec, rows: usize| {
            WithState::open(build(vb, spec)?, rows)
        };
        Self {
            variables: Vec::new(),
            build: Some(Arc::new(build)),
        }
    }

    /// The variables, sorted by name: the order of [`crate::Model::parameters`]. None before a model is made.
    #[must_use]
    pub fn variables(&self) -> &[Variable] {
        &self.variables
    }

    /// Number of values of all variables.
    pub(crate) fn parameter_len(&self) -> usize {
        self.variables.iter().map(Variable::len).sum()
    }

    /// Takes over the constructor of another network; the variables are checked when the model is made.
    pub(crate) fn attach(&mut self, other: &Self) {
        self.build.clone_from(&other.build);
    }

    fn build(&self) -> std::result::Result<&Build, Error> {
        self.build.as_deref().ok_or_else(|| Error::InvalidSetting {
            field: "network",
            reason: "expected the constructor of the custom network: use the loader that takes one"
                .to_owned(),
        })
    }

    /// Runs the constructor to see which variables it asks for.
    fn probe(&self, spec: &ModelSpec) -> std::result::Result<Asked, Error> {
        let recorder = Recorder::default();
        let vb = VarBuilder::from_backend(Box::new(recorder.clone()), DType::F64, Device::Cpu);
        self.build()?(vb, spec, 1).map_err(|error| tensor_error(&error))?;
        Ok(recorder.take())
    }
}

impl PartialEq for CustomNetwork {
    fn eq(&self, other: &Self) -> bool {
        self.variables == other.variables
    }
}

impl fmt::Debug for CustomNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomNetwork")
            .field("variables", &self.variables)
            .finish_non_exhaustive()
    }
}

impl Laau {
    /// The same with a custom network, trained by the candle engine; see [`CustomNetwork`].
    ///
    /// Features, output function, base and training settings stay as they are. An untrained [residual](Laau::residual)
    /// model starts at the certainty-equivalent price only if the network's outputs are drawn as zeros.
    #[must_use]
    pub fn with_network<N, F>(self, build: F) -> Self
    where
        N: PriceNetwork + 'static,
        F: Fn(VarBuilder<'static>, &ModelSpec) -> Result<N> + Send + Sync + 'static,
    {
        Self {
            network: Network::Custom(CustomNetwork::new(build)),
            ..self
        }
    }
}

impl ModelSpec {
    /// Lists the variables of a custom network; those that are listed already must be the constructor's.
    pub(crate) fn resolve(&mut self) -> std::result::Result<(), Error> {
        let Network::Custom(custom) = &self.network else {
            return Ok(());
        };
        let asked = custom.probe(self)?.into_iter();
        let ours: Vec<Variable> = asked
            .map(|(name, (shape, _))| Variable {
                name,
                shape: shape.into_dims(),
            })
            .collect();
        let theirs = &custom.variables;
        let differ = (0..ours.len().max(theirs.len())).find(|&i| ours.get(i) != theirs.get(i));
        let reason = match differ.map(|i| (ours.get(i), theirs.get(i))) {
            _ if ours.is_empty() => "expected a constructor that asks for variables, found none".to_owned(),
            None => return Ok(()),
            Some(_) if theirs.is_empty() => {
                self.network = Network::Custom(CustomNetwork {
                    variables: ours,
                    build: custom.build.clone(),
                });
                return Ok(());
            }
            Some((Some(ours), Some(theirs))) if ours.name == theirs.name => format!(
                "expected variable `{}` of shape {:?}, found {:?}",
                ours.name, ours.shape, theirs.shape
            ),
            Some((Some(ours), theirs)) => {
                let found = theirs.map_or("none".to_owned(), |theirs| format!("`{}`", theirs.name));
                format!("expected variable `{}`, found {found}", ours.name)
            }
            Some((None, theirs)) => {
                let found = theirs.map_or("", |theirs| &theirs.name);
                format!("unexpected variable `{found}`")
            }
        };
        Err(Error::InvalidSetting {
            field: "network",
            reason,
        })
    }

    /// The first values of a custom network's variables; `None` for other networks.
    pub(crate) fn draw_custom(&self, seed: u64) -> std::result::Result<Option<Vec<f64>>, Error> {
        match &self.network {
            Network::Custom(custom) => Ok(Some(draw(custom.probe(self)?, seed))),
            Network::Mlp { .. } | Network::Linear { .. } => Ok(None),
        }
    }
}

/// The network of any model on given variables, for so many episodes.
pub(super) fn open(
    spec: &ModelSpec,
    variables: HashMap<String, Tensor>,
    rows: usize,
) -> Result<Box<dyn Opened>> {
    let vb = VarBuilder::from_tensors(variables, DType::F64, &Device::Cpu);
    if let Network::Custom(custom) = &spec.network {
        return custom.build().map_err(candle_core::Error::msg)?(vb, spec, rows);
    }
    let layers = spec.layers();
    let mut sequence = candle_nn::seq();
    for (index, (inputs, outputs)) in layers.iter().enumerate() {
        let linear = candle_nn::linear(*inputs, *outputs, vb.pp(format!("layers.{index}")))?;
        let dense = Dense::new(&linear)?;
        let is_last = index + 1 == layers.len();
        sequence = sequence.add(if is_last { dense } else { dense.with_relu() });
    }
    WithState::open(sequence, rows)
}
