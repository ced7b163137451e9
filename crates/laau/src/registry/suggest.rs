//! The nearest known name to one that is not known.

/// The hint for an unknown name: the nearest known one, or all of them.
#[must_use]
pub fn hint<'a>(unknown: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    match nearest(unknown, &known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known are {}", list(&known)),
    }
}

/// The known name with the fewest typing errors, if they are few; the first of several.
fn nearest<'a>(unknown: &str, known: &[&'a str]) -> Option<&'a str> {
    let unknown = unknown.to_lowercase();
    let most = (unknown.chars().count() / 3).max(2);
    known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&unknown, name), *name))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `a, b and c`.
#[must_use]
pub fn list(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_understood_and_other_words_are_not() {
        let known = ["equal", "avg-lt", "dgd", "mw", "cr-pursuit"];
        for (unknown, expected) in [
            ("eqaul", "did you mean `equal`?"),
            ("AVG_LT", "did you mean `avg-lt`?"),
            ("cr-persuit", "did you mean `cr-pursuit`?"),
            ("transformer", "known are equal, avg-lt, dgd, mw and cr-pursuit"),
        ] {
            assert_eq!(hint(unknown, known), expected);
        }
    }
}
