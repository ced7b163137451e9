//! `cargo xtask lines`: the lines of code of every package, against a limit.
//!
//! A line counts if it holds a token: blanks, comments and doc comments do not, and neither do items under `#[cfg(test)]`
//! folders named `tests`, `benches` or `examples`, and files named `tests.rs`. The lexer is that of `proc-macro2`, so comments within strings, nested block comments and
//! strings over several lines are what the compiler takes them for.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The most lines of code that the packages may have together.
const LIMIT: usize = 32_813;

/// Folders of packages; in `crates` every folder is one.
const PACKAGES: &[&str] = &["crates", "dashboard", "xtask"];

/// Prints the lines of every package and fails above the limit.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let mut packages: BTreeMap<String, usize> = BTreeMap::new();
    for path in crate::tidy::tracked_files(root)? {
        let mut folders = path.iter().filter_map(|part| part.to_str());
        let first = folders.next().unwrap_or_default();
        let is_test = path.iter().any(|part| {
            ["tests", "tests.rs", "benches", "examples"]
                .iter()
                .any(|folder| part == *folder)
        });
        if !PACKAGES.contains(&first) || is_test || path.extension().is_none_or(|ending| ending != "rs") {
            continue;
        }
        let package = if first == "crates" { folders.next() } else { None };
        let text = std::fs::read_to_string(root.join(&path))
            .with_context(|| format!("cannot read {}", path.display()))?;
        let lines = count(&text).with_context(|| format!("cannot read {} as Rust", path.display()))?;
        *packages.entry(package.unwrap_or(first).to_owned()).or_default() += lines;
    }
    for (package, lines) in &packages {
        println!("{lines:>7} {package}");
    }
    let total: usize = packages.values().sum();
    println!("{total:>7} of {LIMIT} lines of code");
    ensure!(total <= LIMIT, "{} lines above the limit", total - LIMIT);
    Ok(())
}

/// The lines of code of a file.
fn count(text: &str) -> anyhow::Result<usize> {
    let tokens: TokenStream = text.parse().map_err(|error| anyhow!("{error}"))?;
    let source: Vec<&str> = text.lines().collect();
    let mut lines = BTreeSet::new();
    mark(tokens, &source, &mut lines);
    Ok(lines.len())
}

/// Collects the lines of tokens, except doc comments and items under `#[cfg(test)]`.
fn mark(tokens: TokenStream, source: &[&str], lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let start = token.span().start();
        if matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#') {
            // The lexer turns a doc comment into an attribute at the place of the comment.
            if source[start.line - 1].chars().nth(start.column) == Some('/') {
                tokens.next_if(|next| matches!(next, TokenTree::Punct(punct) if punct.as_char() == '!'));
                tokens.next();
                continue;
            }
            if tokens
                .peek()
                .is_some_and(|next| next.to_string().replace(' ', "") == "[cfg(test)]")
            {
                for skipped in tokens.by_ref() {
                    let ends = match skipped {
                        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                        TokenTree::Punct(punct) => punct.as_char() == ';',
                        _ => false,
                    };
                    if ends {
                        break;
                    }
                }
                continue;
            }
        }
        if let TokenTree::Group(group) = &token {
            lines.extend([group.span_open().start().line, group.span_close().end().line]);
            mark(group.stream(), source, lines);
        } else {
            // A string may span lines, some of them blank.
            let covered = start.line..=token.span().end().line;
            lines.extend(covered.filter(|line| !source[line - 1].trim().is_empty()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: usize) {
        assert_eq!(count(text).unwrap(), expected, "{text}");
    }

    #[test]
    fn blanks_and_comments_of_every_kind_do_not_count() {
        check("//! doc\n\n// plain\nfn f() {} // behind code\n", 1);
        check(
            "/// doc\n/** block\ndoc */\nstruct A; /* a\n/* nested */ b */\n",
            1,
        );
        check("#[doc = \"x\"]\nstruct A;\n", 2);
        check("fn f() {\n    //! inner\n    g();\n}\n", 3);
    }

    #[test]
    fn comments_in_strings_are_code_and_quotes_in_comments_are_not() {
        check(
            "const A: &str = \"// no comment\";\nconst B: &str = r#\"/*\"#;\n",
            2,
        );
        check("// \"\nconst A: char = '\"';\n/* \" */\n", 1);
        check("const A: &str = \"one\n\n// two\n/// three\";\n", 3);
    }

    #[test]
    fn test_items_do_not_count() {
        check(
            "fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\nfn h() {}\n",
            2,
        );
        check("#[cfg(test)]\nuse a::b;\nfn h() {}\n", 1);
        check(
            "#[cfg(test)]\n#[allow(x)]\nfn f(a: [u8; 2]) {\n}\n#[cfg(not(test))]\nfn h() {}\n",
            2,
        );
    }

    #[test]
    fn text_that_is_not_rust_is_an_error() {
        assert!(count("fn f( {").is_err());
    }
}
