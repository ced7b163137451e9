//! Values of flags: `[NAME=]WHAT`, and seconds.

use std::time::Duration;

/// A file or a command, and the name it goes by in the report, if one was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Titled {
    pub(super) name: Option<String>,
    pub(super) what: String,
}

/// Reads `[NAME=]WHAT`. A name has letters, digits, `-` and `_`, so that a path with other signs before its `=` is a path.
pub(super) fn parse(text: &str) -> Result<Titled, String> {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .chars()
                .all(|sign| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_'))
    };
    let (name, what) = match text.split_once('=') {
        Some((name, what)) if is_name(name) => (Some(name.to_owned()), what),
        _ => (None, text),
    };
    if what.trim().is_empty() {
        return Err("expected something after the name".to_owned());
    }
    Ok(Titled {
        name,
        what: what.to_owned(),
    })
}

/// Reads a positive number of seconds.
pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    /// A day: enough for any answer, and far from where clocks overflow.
    const MOST: f64 = 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= MOST => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("expected seconds above 0, at most {MOST}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_from_a_path() {
        let read = |text: &str| parse(text).map(|titled| (titled.name, titled.what));
        assert_eq!(read("a=b c"), Ok((Some("a".to_owned()), "b c".to_owned())));
        assert_eq!(
            read("runs/x=1/a.policy"),
            Ok((None, "runs/x=1/a.policy".to_owned()))
        );
        assert_eq!(read("python mine.py"), Ok((None, "python mine.py".to_owned())));
        assert!(read("a=").is_err() && read("").is_err());
    }

    #[test]
    fn a_timeout_is_positive_and_finite() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["0", "-1", "inf", "NaN", "1e9", "soon"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
