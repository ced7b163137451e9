//! What no file of the tree may contain.

use std::path::Path;

/// A file is one idea.
const MOST_LINES: usize = 600;

/// Folders of one machine; spelled in parts, so that this file does not find itself.
const MACHINE_FOLDERS: &[&str] = &["home", "root", "work", "Users", "farm", "mnt"];

/// Checks one tracked text file.
pub(super) fn check(path: &Path, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let is = |extension: &str| path.extension().is_some_and(|found| found == extension);
    if path.file_name().is_some_and(|name| name == "Cargo.lock") {
        return findings;
    }
    for (index, line) in text.lines().enumerate() {
        if let Some(folder) = machine_path(line) {
            findings.push(format!(
                "{}:{}: a path of one machine, /{folder}/",
                path.display(),
                index + 1
            ));
        }
        if is("rs") {
            for word in leftovers(line) {
                findings.push(format!("{}:{}: {word}", path.display(), index + 1));
            }
        }
    }
    let lines = text.lines().count();
    if is("rs") && lines > MOST_LINES {
        findings.push(format!(
            "{}: {lines} lines, more than one idea ({MOST_LINES} at most)",
            path.display()
        ));
    }
    findings
}

/// An absolute path below a folder that only one machine has.
fn machine_path(line: &str) -> Option<&'static str> {
    MACHINE_FOLDERS.iter().copied().find(|folder| {
        let path = format!("/{folder}/");
        line.match_indices(&path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || "_.-:/}".contains(c))
        })
    })
}

/// Stubs, and tests that do not run or cannot fail.
fn leftovers(line: &str) -> Vec<&'static str> {
    let words = [
        ("todo", "!("),
        ("unimplemented", "!("),
        ("FIX", "ME"),
        ("#[ig", "nore"),
        ("assert!(tr", "ue)"),
        ("dbg", "!("),
    ];
    let names = [
        "a stub",
        "a stub",
        "an unfinished place",
        "a test that does not run",
        "a test that cannot fail",
        "a leftover",
    ];
    words
        .iter()
        .zip(names)
        .filter(|((head, tail), _)| line.contains(&format!("{head}{tail}")))
        .map(|(_, name)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_line(line: &str, expected: &[&str]) {
        assert_eq!(check(Path::new("a.rs"), line), expected);
    }

    #[test]
    fn machine_paths_are_found_and_others_are_not() {
        let path = |parts: &[&str]| format!("let p = \"/{}\";", parts.join("/"));
        check_line(
            &path(&["home", "ann", "x"]),
            &[format!("a.rs:1: a path of one machine, /{}/", "home").as_str()],
        );
        check_line(&path(&["proc", "self", "status"]), &[]);
        check_line("see crates/work/src and https://example.org/home/page", &[]);
        check_line("target/root/x", &[]);
    }

    #[test]
    fn stubs_are_found() {
        check_line(&format!("    {}!()", "todo"), &["a.rs:1: a stub"]);
        check_line(&format!("#[{}]", "ignore"), &["a.rs:1: a test that does not run"]);
    }

    #[test]
    fn long_files_are_found() {
        let long = "x\n".repeat(MOST_LINES + 1);
        assert_eq!(
            check(Path::new("a.rs"), &long),
            ["a.rs: 601 lines, more than one idea (600 at most)"]
        );
        assert_eq!(check(Path::new("a.md"), &long), Vec::<String>::new());
    }
}
