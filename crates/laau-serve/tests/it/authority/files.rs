//! Accounts whose policy, or guard, is a file.

use laau::core::Fit as _;
use laau::data::Split;
use laau::data::synthetic::GenerateOptions;
use laau::net::{Phase, Training};
use laau::registry::{PolicyKind, ProblemSpec, policy_to_bytes};

use super::house::{House, spec};

/// Writes a model, its policy file, and the policy file of another policy.
fn write_files(house: &House) {
    let problem = ProblemSpec::default();
    let task = problem.task().unwrap();
    let options = GenerateOptions {
        horizon: 5,
        ..GenerateOptions::default()
    };
    let split = Split {
        train: 20,
        validation: 6,
        test: 4,
    };
    let workload = problem.workload(None, None).unwrap();
    let sets = workload.generate_split(split, &options).unwrap();
    let training = Training {
        phases: vec![Phase {
            epochs: 1,
            learning_rate: 0.01,
        }],
        ..Training::paper()
    };
    let fit = |kind: PolicyKind| kind.fit(&training).fit(&task, sets.to_fit(), 1, &mut ()).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(house.policies().join(name), bytes).unwrap();
    let model = fit(PolicyKind::Laau);
    write("net.safetensors", &model.document.clone().unwrap().bytes);
    write(
        "net.policy",
        &policy_to_bytes("net", &model, &problem, &sets.train).unwrap(),
    );
    let rival = fit(PolicyKind::Mw);
    write(
        "mw.policy",
        &policy_to_bytes("mw", &rival, &problem, &sets.train).unwrap(),
    );
}

#[test]
fn a_model_and_its_policy_file_decide_alike_and_do_so_after_the_folder_is_gone() {
    let mut house = House::new();
    write_files(&house);
    for (name, file) in [("model", "net.safetensors"), ("policy", "net.policy")] {
        let json = format!(
            r#"{{"name":"{name}","policy":{{"file":"{file}"}},"guard":{{"policy":{{"file":"mw.policy"}}}},"budgets":[60]}}"#
        );
        let view = house.create(spec(&json)).unwrap();
        assert_eq!(view.spec.horizon, Some(5));
        assert_eq!(view.spec.problem, Some(ProblemSpec::default()));
        assert!(house.create(spec(&json)).is_ok());
    }
    let one = house.decide("model", "a", &[0.4]).unwrap();
    assert!(one.multiplier.is_some());
    assert_eq!(one.action, house.decide("policy", "a", &[0.4]).unwrap().action);
    house.stop();
    std::fs::remove_dir_all(house.policies()).unwrap();
    house.start();
    let two = house.decide("model", "b", &[0.6]).unwrap();
    assert_eq!(two.step, 1);
    assert_eq!(two.action, house.decide("policy", "b", &[0.6]).unwrap().action);
    assert!(house.period("model").certificate.is_some());
}

#[test]
fn a_context_far_from_those_of_the_training_is_answered_with_a_warning() {
    let house = House::new();
    write_files(&house);
    house
        .create(spec(
            r#"{"name":"shop","policy":{"file":"mw.policy"},"budgets":[60],"horizon":9}"#,
        ))
        .unwrap();
    assert_eq!(house.decide("shop", "a", &[0.4]).unwrap().warning, None);
    let far = house.decide("shop", "b", &[35.0]).unwrap();
    assert!(
        far.warning
            .unwrap()
            .starts_with("context[0] is 35, far outside the training range")
    );
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let house = House::new();
    write_files(&house);
    std::fs::write(house.policies().join("bad.policy"), "{}").unwrap();
    std::fs::create_dir(house.policies().join("folder")).unwrap();
    for (policy, rest, status) in [
        (r#"{"file":"net.policy"}"#, r#","horizon":6"#, 400),
        (r#"{"file":"net.safetensors"}"#, r#","horizon":4"#, 400),
        (
            r#"{"file":"net.policy"}"#,
            r#","problem":{"name":"weighted-fairness","upper":30}"#,
            422,
        ),
        (r#"{"file":"bad.policy"}"#, "", 422),
        (r#"{"file":"folder"}"#, "", 400),
        (r#"{"file":"."}"#, "", 400),
        (r#"{"file":"folder/../net.policy"}"#, "", 400),
        (
            r#"{"name":"mw"}"#,
            r#","horizon":7,"guard":{"policy":{"file":"net.policy"}}"#,
            400,
        ),
    ] {
        let json = format!(r#"{{"name":"shop","policy":{policy},"budgets":[60]{rest}}}"#);
        let error = house.create(spec(&json)).unwrap_err();
        assert_eq!(error.status(), status, "{json}: {error}");
    }
}
