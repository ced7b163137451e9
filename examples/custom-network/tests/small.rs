//! The example runs.

use std::process::Command;

#[test]
fn the_example_trains_compares_and_deploys() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_custom-network"))
        .arg("--small")
        .current_dir(&folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        text.contains("\ngru ") && text.contains("served one episode"),
        "{text}"
    );
    assert!(folder.path().join("gru.safetensors").exists());
}
