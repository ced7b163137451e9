//! The dependency graph, and what every crate must have.

use cargo_metadata::{DependencyKind, Metadata, Package};

/// The libraries behind the facade.
const LIBRARIES: &[&str] = &["laau-core", "laau-kkt", "laau-net", "laau-baselines", "laau-data"];

/// Which workspace crates a crate may depend on (dev-dependencies aside).
const MAY_DEPEND_ON: &[(&str, &[&str])] = &[
    ("laau-core", &[]),
    ("laau-kkt", &["laau-core"]),
    ("laau-net", &["laau-core"]),
    ("laau-baselines", &["laau-core"]),
    ("laau-data", &["laau-core"]),
    ("laau", LIBRARIES),
    ("laau-serve", &["laau"]),
    ("laau-cli", &["laau", "laau-serve"]),
    ("laau-benches", LIBRARIES),
    ("laau-audit", LIBRARIES),
    // It checks laau-serve from outside, and shares no code with it.
    ("laau-siege", &[]),
    // Only for the rows of exported tables.
    ("xtask", &["laau-core", "laau-dashboard"]),
    ("laau-dashboard", &[]),
];

/// What an example (a crate in `examples/`) may depend on: every library. Nothing may depend on an example.
const EXAMPLES_MAY_DEPEND_ON: &[&str] = &[
    "laau",
    "laau-core",
    "laau-kkt",
    "laau-net",
    "laau-baselines",
    "laau-data",
];

/// Heavy dependencies, and the one library crate that may name them.
const HOME_OF: &[(&str, &str)] = &[
    ("polars", "laau-data"),
    ("candle-core", "laau-net"),
    ("candle-nn", "laau-net"),
    ("faer", "laau-kkt"),
];

/// All that laau-core may depend on: nothing heavy.
const CORE_DEPENDENCIES: &[&str] = &[
    "libm",
    "num-dual",
    "rand",
    "rand_chacha",
    "rayon",
    "serde",
    "thiserror",
];

/// Checks every crate of the workspace.
pub(super) fn check(metadata: &Metadata) -> Vec<String> {
    let packages = metadata.workspace_packages();
    let examples_folder = metadata.workspace_root.join("examples");
    let examples: Vec<&str> = packages
        .iter()
        .filter(|package| package.manifest_path.starts_with(&examples_folder))
        .map(|package| package.name.as_str())
        .collect();
    let mut findings = Vec::new();
    for package in packages {
        let named = |wanted: Option<DependencyKind>| {
            let found = package.dependencies.iter();
            let kept = found.filter(move |dependency| wanted.is_none_or(|kind| dependency.kind == kind));
            kept.map(|dependency| dependency.name.as_str())
                .collect::<Vec<_>>()
        };
        let dependencies = named(Some(DependencyKind::Normal));
        findings.extend(check_dependencies(&package.name, &dependencies, &examples));
        findings.extend(check_examples(&package.name, &named(None), &examples));
        findings.extend(check_readme(package));
    }
    findings
}

/// An example is there to be read and copied, not to be built upon, not even by a test.
fn check_examples(name: &str, dependencies: &[&str], examples: &[&str]) -> Vec<String> {
    dependencies
        .iter()
        .filter(|dependency| examples.contains(dependency))
        .map(|dependency| format!("{name}: must not depend on the example {dependency}"))
        .collect()
}

fn check_dependencies(name: &str, dependencies: &[&str], examples: &[&str]) -> Vec<String> {
    let known = MAY_DEPEND_ON.iter().find(|(known, _)| *known == name);
    let allowed = match known {
        Some((_, allowed)) => *allowed,
        None if examples.contains(&name) => EXAMPLES_MAY_DEPEND_ON,
        None => {
            return vec![format!(
                "{name}: a crate that the dependency graph of xtask tidy does not know"
            )];
        }
    };
    let mut findings = Vec::new();
    for dependency in dependencies {
        let ours = MAY_DEPEND_ON.iter().any(|(known, _)| known == dependency);
        if ours && !allowed.contains(dependency) {
            findings.push(format!("{name}: must not depend on {dependency}"));
        }
        if let Some((heavy, home)) = HOME_OF
            .iter()
            .find(|(heavy, home)| heavy == dependency && *home != name)
        {
            findings.push(format!(
                "{name}: must not depend on {heavy}, which belongs to {home} alone"
            ));
        }
        if name == "laau-core" && !CORE_DEPENDENCIES.contains(dependency) {
            findings.push(format!(
                "laau-core: {dependency} is not on its short list of dependencies"
            ));
        }
    }
    findings
}

fn check_readme(package: &Package) -> Vec<String> {
    let name = &package.name;
    if name.as_str() == "xtask" {
        return Vec::new();
    }
    let Some(folder) = package.manifest_path.parent() else {
        return Vec::new();
    };
    let Ok(readme) = std::fs::read_to_string(folder.join("README.md")) else {
        return vec![format!("{name}: has no README.md")];
    };
    let library = package.targets.iter().find(|target| target.is_lib());
    let mut findings = Vec::new();
    if library.is_some() && name.as_str() != "laau-benches" {
        if !readme.contains("```rust") {
            findings.push(format!("{name}: its README.md has no runnable example"));
        }
        let root = library
            .and_then(|target| std::fs::read_to_string(&target.src_path).ok())
            .unwrap_or_default();
        if !root.starts_with("#![doc = include_str!(\"../README.md\")]") {
            findings.push(format!(
                "{name}: its README.md is not its doc page, so the example is not tested"
            ));
        }
    } else if !readme.contains("```") {
        findings.push(format!("{name}: its README.md has no example"));
    }
    let manifest = std::fs::read_to_string(&package.manifest_path).unwrap_or_default();
    if !manifest.contains("[lints]\nworkspace = true") {
        findings.push(format!("{name}: does not use the lints of the workspace"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, dependencies: &[&str], expected: &[&str]) {
        let examples = ["custom-problem", "another"];
        let mut found = check_dependencies(name, dependencies, &examples);
        found.extend(check_examples(name, dependencies, &examples));
        assert_eq!(found, expected);
    }

    #[test]
    fn an_example_may_use_every_library_and_nobody_may_use_an_example() {
        check(
            "custom-problem",
            &["laau-core", "laau-net", "laau-baselines", "clarabel"],
            &[],
        );
        check(
            "custom-problem",
            &["laau-cli", "candle-core", "another"],
            &[
                "custom-problem: must not depend on laau-cli",
                "custom-problem: must not depend on candle-core, which belongs to laau-net alone",
                "custom-problem: must not depend on the example another",
            ],
        );
        check(
            "laau-core",
            &["rayon", "custom-problem"],
            &[
                "laau-core: custom-problem is not on its short list of dependencies",
                "laau-core: must not depend on the example custom-problem",
            ],
        );
    }

    #[test]
    fn siblings_must_not_depend_on_each_other() {
        check("laau-kkt", &["laau-core", "faer"], &[]);
        check(
            "laau-kkt",
            &["laau-core", "laau-net"],
            &["laau-kkt: must not depend on laau-net"],
        );
        check(
            "laau-core",
            &["laau-kkt"],
            &[
                "laau-core: must not depend on laau-kkt",
                "laau-core: laau-kkt is not on its short list of dependencies",
            ],
        );
        check("xtask", &["laau-core"], &[]);
        check("xtask", &["laau-kkt"], &["xtask: must not depend on laau-kkt"]);
    }

    #[test]
    fn the_audit_may_use_every_library_and_nobody_may_use_the_audit() {
        check("laau-audit", &["laau-core", "laau-net", "num-bigint"], &[]);
        check(
            "laau-audit",
            &["laau-cli"],
            &["laau-audit: must not depend on laau-cli"],
        );
        check(
            "laau-kkt",
            &["laau-audit"],
            &["laau-kkt: must not depend on laau-audit"],
        );
    }

    #[test]
    fn the_siege_shares_no_code_with_what_it_checks() {
        check("laau-siege", &["tokio", "num-bigint"], &[]);
        check(
            "laau-siege",
            &["laau-serve"],
            &["laau-siege: must not depend on laau-serve"],
        );
    }

    #[test]
    fn heavy_dependencies_stay_at_home() {
        check("laau-data", &["polars"], &[]);
        check(
            "laau-cli",
            &["polars"],
            &["laau-cli: must not depend on polars, which belongs to laau-data alone"],
        );
        check(
            "laau-core",
            &["faer"],
            &[
                "laau-core: must not depend on faer, which belongs to laau-kkt alone",
                "laau-core: faer is not on its short list of dependencies",
            ],
        );
    }

    #[test]
    fn an_unknown_crate_is_a_finding() {
        check(
            "laau-extra",
            &[],
            &["laau-extra: a crate that the dependency graph of xtask tidy does not know"],
        );
    }
}
