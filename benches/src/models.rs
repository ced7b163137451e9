//! Models, and how they are played.

use laau_core::{Differentiate, EpisodeRun, Episodes, Policy, Problem};
use laau_net::{Model, ModelSpec, Network, Statistics};

/// The paper's model of a layer's problem, fitted to its episodes but not trained: what a step costs does not depend on it.
///
/// # Panics
/// When the episodes are not of the layer's problem.
#[must_use]
pub fn paper_model(layer: &mut dyn Differentiate, train: &Episodes) -> Model {
    let spec = ModelSpec::paper(layer.problem(), train.horizon());
    fitted(spec, layer, train)
}

/// The same with two hidden layers of another width.
///
/// # Panics
/// When the episodes are not of the layer's problem.
#[must_use]
pub fn minibatch_model(layer: &mut dyn Differentiate, train: &Episodes, width: usize) -> Model {
    let spec = ModelSpec {
        network: Network::Mlp {
            hidden: vec![width, width],
            spectral_bound: None,
        },
        ..ModelSpec::paper(layer.problem(), train.horizon())
    };
    fitted(spec, layer, train)
}

fn fitted(spec: ModelSpec, layer: &mut dyn Differentiate, train: &Episodes) -> Model {
    let statistics = Statistics::fit(&spec, layer, train).expect("episodes of the problem");
    Model::new(spec, statistics, 1).expect("statistics of this specification")
}

/// Plays an episode as a policy in service does: context check, decision, exact payment, step by step.
///
/// # Panics
/// When a decision fails or cannot be paid.
pub fn play(problem: &dyn Problem, policy: &dyn Policy, set: &Episodes, index: usize) {
    let episode = set.get(index);
    let mut run = EpisodeRun::new(problem, episode.horizon(), episode.budgets()).expect("a feasible budget");
    let mut agent = policy.begin();
    let mut action = vec![0.0; problem.dimensions().actions];
    while !run.is_over() {
        let step = run
            .reveal(episode.context(run.step()))
            .expect("a context of the problem");
        agent
            .decide(&step.observation(), &mut action)
            .expect("a decision");
        step.pay(&action).expect("an action that can be paid");
    }
}
