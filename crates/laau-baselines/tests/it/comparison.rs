//! Comparisons that do not go as planned.

use laau_baselines::{EqualOptions, OptOptions};
use laau_core::{AutoDiff, Comparison, Dimensions, Episodes, Number, ProblemFunctions, Sets};

use crate::workload::general;

/// Log-utility of what an action is above 5: there is none on half of the box, and no optimum to be found.
struct Broken;

impl ProblemFunctions for Broken {
    fn name(&self) -> &'static str {
        "broken"
    }

    fn dimensions(&self) -> Dimensions {
        Dimensions {
            actions: 1,
            budgets: 1,
            context: 1,
        }
    }

    fn lower(&self) -> &[f64] {
        &[1.0]
    }

    fn upper(&self) -> &[f64] {
        &[10.0]
    }

    fn cost<T: Number>(&self, action: &[T], context: &[T]) -> T {
        -(action[0] - 5.0).ln() * context[0]
    }

    fn usage<T: Number>(&self, action: &[T], _: &[T], out: &mut [T]) {
        out[0] = action[0];
    }

    fn least_usage(&self, out: &mut [f64]) {
        out[0] = 1.0;
    }
}

#[test]
fn an_optimum_that_fails_leaves_the_others_compared() {
    let task = general(AutoDiff::new(Broken).unwrap());
    let episodes = || Episodes::new(3, 1, 1, vec![0.5; 12], vec![9.0; 4]).unwrap();
    let sets = Sets {
        train: episodes(),
        validation: episodes(),
        test: episodes(),
    };
    let equal = || Comparison::new(&task, &sets).with("equal", EqualOptions::default());
    for comparison in [
        equal().relative_to(OptOptions::default()),
        equal().with("opt", OptOptions::default()),
    ] {
        let report = comparison.run().unwrap();
        assert_eq!(report.policies.len(), 1);
        assert!(report.entry("equal").unwrap().fraction_of_opt.is_none());
        assert_eq!(report.left_out[0].0, "opt");
    }
}
