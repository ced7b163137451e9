//! Time stamps, and what a number that is a time counts.

/// What the times of a trace count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Minutes.
    Minute,
    /// Seconds.
    Second,
    /// Thousandths of a second.
    Millisecond,
    /// Millionths of a second.
    Microsecond,
    /// Billionths of a second.
    Nanosecond,
}

impl TimeUnit {
    /// The unit in which all times from the first to the last are times since 1970, from 1990 to 2100; none if there is none.
    #[must_use]
    pub fn since_1970(first: i64, last: i64) -> Option<Self> {
        const YEARS: std::ops::Range<i64> = 631_152_000..4_102_444_800;
        [
            Self::Second,
            Self::Millisecond,
            Self::Microsecond,
            Self::Nanosecond,
        ]
        .into_iter()
        .find(|unit| {
            [first, last]
                .iter()
                .all(|time| YEARS.contains(&(time / unit.count(1))))
        })
    }

    /// So many seconds in this unit; a part of a unit counts as a whole one.
    #[must_use]
    pub fn count(self, seconds: u32) -> i64 {
        let seconds = i64::from(seconds);
        match self {
            Self::Minute => (seconds + 59) / 60,
            Self::Second => seconds,
            Self::Millisecond => seconds * 1_000,
            Self::Microsecond => seconds * 1_000_000,
            Self::Nanosecond => seconds * 1_000_000_000,
        }
    }

    /// Its name, of several.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Minute => "minutes",
            Self::Second => "seconds",
            Self::Millisecond => "milliseconds",
            Self::Microsecond => "microseconds",
            Self::Nanosecond => "nanoseconds",
        }
    }
}

/// The seconds of a time stamp: a whole number as it is, or ISO 8601 (`2024-03-01`, `2024-03-01T06:30`,
/// `2024-03-01 06:30:15+01:00`) as seconds since 1970; without a zone it is UTC. Parts of a second are refused.
pub(crate) fn seconds(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let (date, rest) = text.split_at_checked(10)?;
    let mut parts = date.split('-').map(number);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let is_date = parts.next().is_none() && date.as_bytes()[4] == b'-' && date.as_bytes()[7] == b'-';
    if !is_date || !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    let midnight = days_since_1970(year, month, day) * 86_400;
    let Some(rest) = rest.strip_prefix(['T', 't', ' ']) else {
        return rest.is_empty().then_some(midnight);
    };
    let zone_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(zone_at);
    let clock = match clock.split_once('.') {
        Some((whole, parts)) if parts.bytes().all(|digit| digit == b'0') => whole,
        Some(_) => return None,
        None => clock,
    };
    let mut parts = clock.split(':').map(number);
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = match parts.next() {
        Some(second) => second?,
        None => 0,
    };
    let is_clock = parts.next().is_none() && hour < 24 && minute < 60 && second < 60;
    is_clock.then_some(())?;
    Some(midnight + hour * 3600 + minute * 60 + second - offset(zone)?)
}

/// The time stamp of seconds since 1970, in UTC.
pub(crate) fn stamp(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days from 0000-03-01: years begin in March, so that a leap day is the last.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The offset of a zone from UTC, in seconds.
fn offset(zone: &str) -> Option<i64> {
    let sign = match zone.as_bytes().first() {
        None | Some(b'Z' | b'z') => return (zone.len() <= 1).then_some(0),
        Some(b'+') => 1,
        Some(_) => -1,
    };
    let digits = zone[1..].replace(':', "");
    let (hours, minutes) = match digits.len() {
        2 => (number(&digits)?, 0),
        4 => (number(&digits[..2])?, number(&digits[2..])?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// A number of digits alone: no sign, no spaces.
fn number(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

fn days_in(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01, in the Gregorian calendar; years begin in March, so that a leap day is the last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_seconds_since_1970() {
        for (text, expected) in [
            ("300", Some(300)),
            (" -5 ", Some(-5)),
            ("1970-01-01", Some(0)),
            ("2000-02-29", Some(951_782_400)),
            ("2024-03-01T06:30", Some(1_709_274_600)),
            ("2024-03-01 06:30:15Z", Some(1_709_274_615)),
            ("2024-03-01T06:30:15.000+01:00", Some(1_709_271_015)),
            ("2024-03-01T06:30-0530", Some(1_709_294_400)),
            ("1969-12-31T23:59:59Z", Some(-1)),
            ("2023-02-29", None),
            ("2024-13-01", None),
            ("2024-3-1", None),
            ("2024-03-01T24:00", None),
            ("2024-03-01T06:30:15.5", None),
            ("2024-03-01T06:30+1", None),
            ("2024-03-01X", None),
            ("noon", None),
            ("", None),
            ("2024-03-0é", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let mut before = days_since_1970(1799, 12, 31);
        for year in 1800..2200 {
            for month in 1..=12 {
                for day in 1..=days_in(year, month) {
                    let today = days_since_1970(year, month, day);
                    assert_eq!(today, before + 1, "{year}-{month}-{day}");
                    let noon = format!("{year}-{month:02}-{day:02}T12:00:05Z");
                    assert_eq!(stamp(today * 86_400 + 43_205), noon);
                    before = today;
                }
            }
        }
    }
}
