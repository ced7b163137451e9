//! Accounts whose policy, or guard, is a file.

use std::sync::Arc;

use laau::baselines::Stored;
use laau::core::{Affine, Constants, Document, Fitted, Form, GuardedDocument, ScaledColumn, Scaling};
use laau::registry::sample::Sample;
use laau::registry::{PolicyKind, ProblemSpec, document_to_bytes, policy_to_bytes};

use super::house::{House, spec};

/// Writes a model, its policy file, and the policy file of another policy.
fn write_files(house: &House) {
    let sample = Sample::new().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(house.policies().join(name), bytes).unwrap();
    let file = |name: &str, fitted: &Fitted| {
        policy_to_bytes(name, fitted, &sample.problem, &sample.sets.train).unwrap()
    };
    let model = sample.fit(PolicyKind::Laau).unwrap();
    write("net.safetensors", &model.document.clone().unwrap().bytes);
    write("net.policy", &file("net", &model));
    write("mw.policy", &file("mw", &sample.fit(PolicyKind::Mw).unwrap()));
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

#[test]
fn a_guard_whose_contexts_were_made_in_another_way_is_refused() {
    let house = House::new();
    let sample = Sample::new().unwrap();
    for kind in ["percent", "none"] {
        let scaling = Scaling {
            kind: kind.to_owned(),
            columns: vec![ScaledColumn::new("load")],
            constants: Constants::Shared(vec![Affine::IDENTITY]),
        };
        let train = sample.sets.train.clone().with_scaling(Arc::new(scaling)).unwrap();
        let mw = sample.fit(PolicyKind::Mw).unwrap();
        let bytes = policy_to_bytes(kind, &mw, &sample.problem, &train).unwrap();
        std::fs::write(house.policies().join(kind), bytes).unwrap();
    }
    let create = |name: &str, guard: &str| {
        let json = format!(
            r#"{{"name":"{name}","policy":{{"file":"percent"}},"guard":{{"policy":{guard}}},"budgets":[60],"horizon":5}}"#
        );
        house.create(spec(&json)).map(drop)
    };
    let error = create("a", r#"{"file":"none"}"#).unwrap_err();
    assert_eq!(error.status(), 400, "{error}");
    assert!(
        error.to_string().contains("normalisation `percent` and `none`"),
        "{error}"
    );
    create("b", r#"{"file":"percent"}"#).unwrap();
    create("c", r#"{"name":"equal"}"#).unwrap();
}

#[test]
fn a_file_whose_policy_looks_at_all_steps_so_far_counts_them_in_its_size() {
    const MOST: usize = 2048;
    let house = House::new();
    let problem: ProblemSpec = serde_json::from_str(r#"{"name":"log-utility","actions":2}"#).unwrap();
    let stored = |stored: &Stored| (Stored::KIND.to_owned(), serde_json::to_vec(stored).unwrap());
    let (pursuit, equal) = (stored(&Stored::CrPursuit { ratio: 2.0 }), stored(&Stored::Equal));
    let guarded = |advice: &(String, Vec<u8>), incumbent: &(String, Vec<u8>)| {
        let (advice, incumbent) = (advice.clone(), incumbent.clone());
        let (level, form) = (0.9, Form::Layer);
        GuardedDocument {
            level,
            form,
            advice,
            incumbent,
        }
        .to_document()
    };
    let alone = |(_, bytes): &(String, Vec<u8>)| Document {
        kind: Stored::KIND,
        bytes: bytes.clone(),
    };
    for (file, document) in [
        ("pursuit", alone(&pursuit)),
        ("advice", guarded(&pursuit, &equal)),
        ("incumbent", guarded(&equal, &pursuit)),
        ("equal", alone(&equal)),
        ("neither", guarded(&equal, &equal)),
    ] {
        let bytes = document_to_bytes(file, &document, &problem, 5, None).unwrap();
        std::fs::write(house.policies().join(file), bytes).unwrap();
    }
    let create = |name: &str, policy: &str, horizon: usize| {
        let budget = 4 * horizon;
        let json = format!(r#"{{"name":"{name}",{policy},"budgets":[{budget}],"horizon":{horizon}}}"#);
        house
            .create(spec(&json))
            .map(drop)
            .map_err(|error| (error.status(), error.kind()))
    };
    let too_large = Err((422, "account-too-large"));
    for file in ["pursuit", "advice", "incumbent"] {
        let policy = format!(r#""policy":{{"file":"{file}"}}"#);
        assert_eq!(create(file, &policy, MOST), Ok(()), "{file}");
        assert_eq!(create("x", &policy, MOST + 1), too_large, "{file}");
    }
    for file in ["equal", "neither"] {
        let policy = format!(r#""policy":{{"file":"{file}"}}"#);
        assert_eq!(create(file, &policy, MOST + 1), Ok(()), "{file}");
    }
    let guard = r#""policy":{"file":"equal"},"guard":{"policy":{"file":"pursuit"}}"#;
    assert_eq!(create("x", guard, MOST + 1), too_large);
}
