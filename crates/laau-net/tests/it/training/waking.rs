//! Prices that decide nothing have no gradient: training wakes them.

use super::*;

#[test]
fn a_start_whose_prices_decide_nothing_is_woken_and_learns_as_well_as_another() {
    let sets = sets(60, 8);
    let train = |output_bias: Option<f64>| {
        let mut model = paper_model(&sets.training, 9);
        if let (Some(bias), Some(last)) = (output_bias, model.parameters.last_mut()) {
            *last = bias;
        }
        let mut bias_reset = Woken::default();
        let trained = run(&short(30).check().unwrap(), &mut model, &sets, &mut bias_reset).unwrap();
        (bias_reset.0, trained.summary.best_validation_utility.unwrap())
    };
    let (bias_reset, utility) = train(None);
    assert_eq!(bias_reset, None);
    // So dear that every action is the least one; and so cheap that the budget alone decides.
    for bias in [1e4, -300.0] {
        let (bias_reset, woken_utility) = train(Some(bias));
        assert_eq!(bias_reset, Some(0.0));
        assert_eq!(woken_utility, utility);
    }
}

/// Gives the first minibatch, which comes after a look at the start, a gradient of the output's bias alone.
struct Misled {
    inner: Box<dyn Engine>,
    calls: usize,
}

impl Engine for Misled {
    fn loss_and_gradient(
        &mut self,
        model: &Model,
        episodes: &Episodes,
        batch: &[usize],
        gradient: &mut [f64],
    ) -> Result<BatchResult, Error> {
        let result = self.inner.loss_and_gradient(model, episodes, batch, gradient)?;
        if self.calls == 1 {
            gradient.fill(0.0);
            *gradient.last_mut().unwrap() = -1.0;
        }
        self.calls += 1;
        Ok(result)
    }
}

#[test]
fn a_step_to_prices_that_decide_nothing_is_not_the_end_of_learning() {
    let sets = sets(60, 8);
    let mut settings = short(30);
    let mut model = paper_model(&sets.training, 9);
    let trained = run(&settings.clone().check().unwrap(), &mut model, &sets, &mut ()).unwrap();
    let expected = trained.summary.best_validation_utility.unwrap();
    let (epochs, learning_rate) = (1, 1e4);
    settings.phases.insert(
        0,
        Phase {
            epochs,
            learning_rate,
        },
    );
    let trainer = settings.check().unwrap().with_engine(|layer, spec, batch| {
        let inner = EngineKind::Fused.build(layer, spec, batch)?;
        Ok(Box::new(Misled { inner, calls: 0 }))
    });
    let mut model = paper_model(&sets.training, 9);
    let mut bias_reset = Woken::default();
    let trained = run(&trainer, &mut model, &sets, &mut bias_reset).unwrap();
    assert_eq!(bias_reset.0, Some(0.0));
    let dead = trained.history[1].loss;
    let found = trained.summary.best_validation_utility.unwrap();
    assert!(
        -dead < 0.5 * expected,
        "the step was to lead away: {dead}, {expected}"
    );
    assert!(found > 0.99 * expected, "{found}, {expected}");
}
