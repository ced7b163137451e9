//! Model files come back bit for bit, and a bad one is refused with the name of what is wrong.

use std::collections::BTreeMap;
use std::path::Path;

use laau_core::problems::WeightedFairness;
use laau_net::{
    Error, Model, Summary, check_problem, load_model, model_from_bytes, model_to_bytes, save_model,
};
use proptest::prelude::*;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::support::{all_specs, fairness, iid_episodes, log_utility, model, paper_model, scatter};

fn sample() -> Model {
    paper_model(&iid_episodes(20, 5, 1), 7)
}

fn bytes() -> Vec<u8> {
    model_to_bytes(&sample(), &Summary::untrained(7)).unwrap()
}

/// Loads bytes that must be refused, and gives the message.
fn refusal(bytes: &[u8]) -> String {
    model_from_bytes(bytes).unwrap_err().to_string()
}

/// The file with the digest of what it holds now: someone changed it on purpose.
fn resealed(bytes: &[u8]) -> Vec<u8> {
    let length = usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    let text = std::str::from_utf8(&bytes[8..8 + length]).unwrap();
    let header: BTreeMap<String, Value> = serde_json::from_str(text).unwrap();
    let metadata: BTreeMap<String, String> = serde_json::from_value(header["__metadata__"].clone()).unwrap();
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    for (field, text) in metadata.iter().filter(|(field, _)| *field != "digest") {
        add(field.as_bytes());
        add(text.as_bytes());
    }
    for (name, tensor) in header.iter().filter(|(name, _)| *name != "__metadata__") {
        let numbers = |field: &str| -> Vec<usize> { serde_json::from_value(tensor[field].clone()).unwrap() };
        let offsets = numbers("data_offsets");
        add(name.as_bytes());
        add(format!("{:?}", numbers("shape")).as_bytes());
        add(bytes[8 + length..]
            .get(offsets[0]..offsets[1])
            .unwrap_or_default());
    }
    let digits: Vec<String> = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let digest = digits.concat();
    let text = text.replace(&metadata["digest"], &digest);
    [&bytes[..8], text.as_bytes(), &bytes[8 + length..]].concat()
}

/// A valid file with its header rewritten; the length in front is made to fit.
fn with_header(change: impl Fn(&str) -> String) -> Vec<u8> {
    let bytes = bytes();
    let length = usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    let header = change(std::str::from_utf8(&bytes[8..8 + length]).unwrap());
    let mut changed = (header.len() as u64).to_le_bytes().to_vec();
    changed.extend_from_slice(header.as_bytes());
    changed.extend_from_slice(&bytes[8 + length..]);
    resealed(&changed)
}

fn replaced(from: &str, to: &str) -> Vec<u8> {
    with_header(|header| {
        assert!(header.contains(from), "{header}");
        header.replace(from, to)
    })
}

#[test]
fn every_kind_of_model_comes_back_bit_for_bit() {
    let layer = fairness();
    let episodes = iid_episodes(20, 5, 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    for (seed, spec) in all_specs(&*layer, 5).into_iter().enumerate() {
        let mut model = model(spec, &*layer, &episodes, 3);
        scatter(&mut model, 1.0, seed as u64);
        let summary = Summary {
            best_validation_utility: Some(0.1 + 0.2),
            ..Summary::untrained(seed as u64)
        };
        save_model(&path, &model, &summary).unwrap();
        let (loaded, loaded_summary) = load_model(&path).unwrap();
        assert_eq!((&loaded, &loaded_summary), (&model, &summary));
        let bits = |model: &Model| model.parameters.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&loaded), bits(&model));
        assert_eq!(
            model_to_bytes(&loaded, &loaded_summary).unwrap(),
            std::fs::read(&path).unwrap()
        );
    }
}

#[test]
fn a_file_of_another_kind_or_version_is_refused() {
    for (from, to, expected) in [
        (
            r#""format":"laau-model""#,
            r#""format":"laau-checkpoint""#,
            ": format: expected `laau-model`, found `laau-checkpoint`",
        ),
        (
            r#""format_version":"2""#,
            r#""format_version":"1""#,
            ": format_version: expected `2`, found `1`: the file is of another version of laau",
        ),
        (
            r#""format_version":"2""#,
            r#""other":"2""#,
            ": format_version: missing from the metadata",
        ),
    ] {
        assert_eq!(refusal(&replaced(from, to)), expected);
    }
}

#[test]
fn every_metadata_field_is_needed_and_named() {
    for field in [
        "problem",
        "parameters",
        "dimensions",
        "horizon",
        "network",
        "features",
        "output",
        "form",
        "training",
    ] {
        let message = refusal(&replaced(&format!("\"{field}\":"), &format!("\"no_{field}\":")));
        assert_eq!(message, format!(": {field}: missing from the metadata"));
    }
}

#[test]
fn nonsense_in_a_field_is_refused_with_its_name() {
    for (from, to, expected) in [
        (
            r#""horizon":"5""#,
            r#""horizon":"0""#,
            ": horizon: expected at least one step, found 0",
        ),
        (
            r#""horizon":"5""#,
            r#""horizon":"99999999999""#,
            ": horizon: expected sizes of at most 1048576, found 99999999999",
        ),
        (
            r#""form":"\"plain\"""#,
            r#""form":"\"odd\"""#,
            ": form: unknown variant `odd`, expected `plain` or `residual` at line 1 column 5",
        ),
        (
            r"[10,10]",
            r"[10,18446744073709551615]",
            ": network: expected sizes of at most 1048576, found 18446744073709551615",
        ),
        (
            r"[10,10]",
            r"[10,0]",
            ": network.hidden: expected at least one unit per layer, found [10, 0]",
        ),
        (
            r"[10,10]",
            r"[10,11]",
            ": layers.1.weight: expected shape [10, 11], found [10, 10]",
        ),
        (
            r"[10,10]",
            r"[10]",
            ": layers.1.weight: expected shape [10, 1], found [10, 10]",
        ),
        (
            r#""layers.2.bias""#,
            r#""layers.9.bias""#,
            ": layers.2.bias: missing from the tensors",
        ),
        (
            r#""statistics.mean_price""#,
            r#""statistics.extra""#,
            ": statistics.mean_price: missing from the tensors",
        ),
    ] {
        assert_eq!(refusal(&replaced_once(from, to)), expected, "{from} → {to}");
    }
}

/// As [`replaced`], only in the first place: the metadata stand before the tensors.
fn replaced_once(from: &str, to: &str) -> Vec<u8> {
    with_header(|header| {
        assert!(header.contains(from), "{header}");
        header.replacen(from, to, 1)
    })
}

#[test]
fn another_number_type_is_refused() {
    let bytes = with_header(|header| header.replace("\"F64\"", "\"I64\""));
    let message = refusal(&bytes);
    assert!(message.contains("expected dtype F64, found I64"), "{message}");
}

#[test]
fn a_weight_that_is_no_number_is_refused_on_both_ways() {
    let mut broken = sample();
    broken.parameters[4] = f64::NAN;
    assert_eq!(
        model_to_bytes(&broken, &Summary::untrained(0))
            .unwrap_err()
            .to_string(),
        "invalid `parameters`: expected finite values, found NaN at 4"
    );
    let mut bytes = bytes();
    let start = bytes.len() - 8 * 20;
    let needle = sample().parameters[4].to_le_bytes();
    let position = bytes.windows(8).position(|window| window == needle).unwrap();
    assert!(position < start);
    bytes[position..position + 8].copy_from_slice(&f64::NAN.to_le_bytes());
    assert_eq!(
        refusal(&resealed(&bytes)),
        ": layers.0.weight: expected finite values, found NaN at 4"
    );
}

#[test]
fn a_truncated_or_extended_file_is_refused_at_every_length() {
    let whole = bytes();
    for length in 0..whole.len() {
        let message = refusal(&whole[..length]);
        assert!(
            message.starts_with(": file: expected a whole safetensors file"),
            "{message}"
        );
    }
    let mut longer = whole;
    longer.push(0);
    assert!(refusal(&longer).starts_with(": file: "));
}

#[test]
fn a_missing_file_is_named() {
    let error = load_model(Path::new("no/such/model")).unwrap_err();
    assert!(matches!(error, Error::Io { .. }));
    assert!(error.to_string().starts_with("no/such/model: "), "{error}");
}

#[test]
fn a_model_is_refused_for_another_problem() {
    let model = sample();
    check_problem(&model, &WeightedFairness::paper()).unwrap();
    let message = check_problem(&model, &log_utility()).unwrap_err().to_string();
    assert_eq!(
        message,
        "invalid `problem`: expected `weighted-fairness`, found `log-utility`"
    );
    let mut other_size = model;
    other_size.spec.problem = "log-utility".to_owned();
    let message = check_problem(&other_size, &log_utility())
        .unwrap_err()
        .to_string();
    assert!(message.starts_with("invalid `dimensions`: "), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes_never_load_and_never_panic(random in proptest::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(model_from_bytes(&random).is_err());
    }

    #[test]
    fn random_headers_never_panic(text in r#"\{("[a-z_.0-9]{1,8}":(\{\}|\[[0-9,]{0,9}\]|"[a-zA-Z0-9]{0,6}"|[0-9]{1,20}),?){0,4}\}?"#, rest in 0_usize..64) {
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        bytes.resize(bytes.len() + rest, 0);
        prop_assert!(model_from_bytes(&bytes).is_err());
    }

    #[test]
    fn a_mutated_file_never_panics_and_what_loads_is_sound(
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..6),
        in_header in any::<bool>(),
    ) {
        let mut mutated = bytes();
        let length = if in_header { 1800.min(mutated.len()) } else { mutated.len() };
        for (position, value) in changes {
            mutated[position.index(length)] = value;
        }
        if let Ok((model, summary)) = model_from_bytes(&mutated) {
            prop_assert!(model.parameters.iter().all(|value| value.is_finite()));
            prop_assert_eq!(model.parameters.len(), model.spec.parameter_len());
            prop_assert!(model_to_bytes(&model, &summary).is_ok());
        }
    }
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let bytes = bytes();
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        assert!(model_from_bytes(&damaged).is_err(), "byte {place}");
    }
}

#[test]
#[cfg(unix)]
fn a_link_is_not_replaced_by_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let (old, link) = (folder.path().join("old"), folder.path().join("link"));
    std::fs::write(&old, "kept").unwrap();
    std::os::unix::fs::symlink(&old, &link).unwrap();
    let error = save_model(&link, &sample(), &Summary::untrained(7)).unwrap_err();
    assert!(
        error.to_string().ends_with("expected a regular file, or none"),
        "{error}"
    );
    assert_eq!(std::fs::read(&link).unwrap(), b"kept");
    assert!(link.is_symlink());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
