//! The licences of everything that is built in.

use cargo_metadata::Metadata;

/// Licences that go with MIT and Apache-2.0.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Names every package whose licence is none of these.
pub(super) fn check(metadata: &Metadata) -> Vec<String> {
    let packages = metadata.packages.iter();
    let unlicensed = packages.filter(|package| !package.license.as_deref().is_some_and(is_allowed));
    unlicensed
        .map(|package| {
            let licence = package.license.as_deref().unwrap_or("none");
            format!(
                "{}: its licence is {licence}, which is not on tidy's list",
                package.name
            )
        })
        .collect()
}

/// Whether one alternative of a licence expression is allowed; `/` is an old way to write `OR`.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], "").replace('/', " OR ");
    expression.split(" OR ").any(|alternative| {
        alternative
            .split(" AND ")
            .all(|one| ALLOWED.contains(&one.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_needs_one_alternative_that_is_allowed() {
        for (expression, expected) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0", false),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ] {
            assert_eq!(is_allowed(expression), expected, "{expression}");
        }
    }
}
