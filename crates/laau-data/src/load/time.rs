//! Time stamps, and what a number that is a time counts.

use crate::load::number::integer;

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
    /// The unit in which all times from the first to the last are times since 1970, from 1991 to 2100; none if there is none.
    ///
    /// Earlier years are left to other clocks: as nanoseconds, the ticks that .NET counts from 2001 to 2100 all lie in 1990.
    #[must_use]
    pub fn since_1970(first: i64, last: i64) -> Option<Self> {
        const YEARS: std::ops::Range<i64> = 662_688_000..4_102_444_800;
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

    /// The time stamp, in UTC, of a time since 1970 in this unit.
    #[must_use]
    pub fn stamp(self, time: i64) -> String {
        stamp(match self {
            Self::Minute => time * 60,
            _ => time.div_euclid(self.count(1)),
        })
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

/// How the times of a column are written. All of a table are written in one way, since numbers and stamps beside each other
/// would be put in an order that neither of them means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Times {
    /// Neither way, in the first row: no cell is a time.
    Unknown,
    /// Whole numbers.
    Numbers,
    /// ISO 8601 without a zone, or the dates and times of Parquet.
    Stamps,
    /// ISO 8601 with a zone. Beside stamps without one nobody knows how far apart two are.
    Zoned,
}

impl Times {
    /// How a time is written.
    pub(crate) fn of(text: &str) -> Self {
        if number(text).is_some() {
            Self::Numbers
        } else {
            stamp_parts(text).map_or(Self::Unknown, |(times, ..)| times)
        }
    }

    /// A time that is written in this way.
    pub(crate) fn parse(self, text: &str) -> Option<i64> {
        let (time, is_whole) = match self {
            Self::Unknown => None,
            Self::Numbers => match integer(text) {
                Some(time) => return Some(time),
                None => number(text),
            },
            Self::Stamps | Self::Zoned => self.stamp(text),
        }?;
        is_whole.then_some(time)
    }

    /// Whether a text is a time of this kind that lies between two whole ones.
    pub(crate) fn is_fractional(self, text: &str) -> bool {
        let parts = match self {
            Self::Unknown => None,
            Self::Numbers => number(text),
            Self::Stamps | Self::Zoned => self.stamp(text),
        };
        parts.is_some_and(|(_, is_whole)| !is_whole)
    }

    /// Whether they are stamps.
    pub(crate) fn are_stamps(self) -> bool {
        matches!(self, Self::Stamps | Self::Zoned)
    }

    /// The whole part of a stamp of this kind, and whether that is all of it.
    fn stamp(self, text: &str) -> Option<(i64, bool)> {
        let (times, seconds, is_whole) = stamp_parts(text)?;
        (times == self).then_some((seconds, is_whole))
    }
}

/// The whole part of a number, and whether that is all of it: some programs write whole numbers as `300.0`.
fn number(text: &str) -> Option<(i64, bool)> {
    let text = text.trim();
    match text.split_once('.') {
        Some((whole, part)) => Some((whole.parse().ok()?, is_zero(part)?)),
        None => Some((text.parse().ok()?, true)),
    }
}

/// Whether the digits of a part of a second are zeros.
fn is_zero(part: &str) -> Option<bool> {
    let is_part = (1..=9).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    is_part.then(|| part.bytes().all(|digit| digit == b'0'))
}

/// Whether a stamp in ISO 8601 (`2024-03-01`, `2024-03-01T06:30`, `2024-03-01 06:30:15+01:00`) has a zone, its whole seconds since
/// 1970, in UTC if it has none, and whether they are all of it.
fn stamp_parts(text: &str) -> Option<(Times, i64, bool)> {
    let (date, rest) = text.trim().split_at_checked(10)?;
    let mut parts = date.splitn(3, '-');
    let year = digits(parts.next()?, 4)?;
    let (month, day) = (digits(parts.next()?, 2)?, digits(parts.next()?, 2)?);
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    let midnight = days_since_1970(year, month, day) * 86_400;
    let Some(rest) = rest.strip_prefix(['T', 't', ' ']) else {
        return rest.is_empty().then_some((Times::Stamps, midnight, true));
    };
    let (clock, zone) = match rest.strip_suffix("UTC").or_else(|| rest.strip_suffix("GMT")) {
        Some(clock) => (clock, "Z"),
        None => rest.split_at(rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len())),
    };
    let clock = clock.trim_end();
    let (clock, is_whole) = match clock.split_once('.') {
        Some((whole, part)) => (whole, is_zero(part)?),
        None => (clock, true),
    };
    let mut parts = clock.splitn(3, ':').map(|part| digits(part, 2));
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = match parts.next() {
        Some(second) => second?,
        None => 0,
    };
    let is_clock = hour < 24 && minute < 60 && second < 60;
    is_clock.then_some(())?;
    let seconds = midnight + hour * 3600 + minute * 60 + second - offset(zone)?;
    let times = if zone.is_empty() {
        Times::Stamps
    } else {
        Times::Zoned
    };
    Some((times, seconds, is_whole))
}

/// Whether a whole number is a date, or a date with a time, that is written without dashes: `20240131`, `2024013106`, `20240131063000`,
/// `240131`, the month `202401` or the day of a year `2024031`. Its distance to the next one is no time.
pub(crate) fn is_date_in_digits(number: i64) -> bool {
    let (date, clock) = match number {
        190_001..210_100 if (1..=12).contains(&(number % 100)) => return true,
        1_900_001..2_101_000 => return (1..=366).contains(&(number % 1000)),
        // Of two digits of a year, the last century's are as likely as any other number.
        100_101..500_000 => (20_000_000 + number, 0),
        19_000_000..21_010_000 => (number, 0),
        1_900_000_000..2_101_000_000 => (number / 100, number % 100 * 10_000),
        190_000_000_000..210_100_000_000 => (number / 10_000, number % 10_000 * 100),
        19_000_000_000_000..21_010_000_000_000 => (number / 1_000_000, number % 1_000_000),
        19_000_000_000_000_000..21_010_000_000_000_000 => {
            (number / 1_000_000_000, number / 1_000 % 1_000_000)
        }
        _ => return false,
    };
    let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
    let is_date = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    is_date && clock / 10_000 < 24 && clock / 100 % 100 < 60 && clock % 100 < 60
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
    let (hours, minutes) = zone[1..].split_at_checked(2)?;
    let hours = digits(hours, 2)?;
    let minutes = match minutes.strip_prefix(':').unwrap_or(minutes) {
        "" if minutes.is_empty() => 0,
        minutes => digits(minutes, 2)?,
    };
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// A number of so many digits: no sign, no spaces.
fn digits(text: &str, count: usize) -> Option<i64> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
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

    /// The seconds of a stamp of either kind; the other kind does not take it.
    fn stamp_of(text: &str) -> Option<i64> {
        let [plain, zoned] = [Times::Stamps, Times::Zoned].map(|times| times.parse(text));
        assert!(plain.is_none() || zoned.is_none(), "{text}");
        plain.or(zoned)
    }

    #[test]
    fn stamps_are_seconds_since_1970() {
        for (text, expected) in [
            ("1970-01-01", Some(0)),
            ("2000-02-29", Some(951_782_400)),
            ("2024-03-01T06:30", Some(1_709_274_600)),
            (" 2024-03-01 06:30:15Z ", Some(1_709_274_615)),
            ("2024-03-01T06:30:15.000+01:00", Some(1_709_271_015)),
            ("2024-03-01T06:30:15.0Z", Some(1_709_274_615)),
            ("2024-03-01T06:30:15.000000000", Some(1_709_274_615)),
            ("2024-03-01T06:30-0530", Some(1_709_294_400)),
            ("2024-03-01T06:30+01", Some(1_709_271_000)),
            ("2024-03-01 06:30:15 +01:00", Some(1_709_271_015)),
            ("2024-03-01 06:30:15 UTC", Some(1_709_274_615)),
            ("2024-03-01 06:30:15.000 GMT", Some(1_709_274_615)),
            ("2024-03-01 06:30:15Z UTC", None),
            ("2024-03-01 UTC", None),
            ("2024-03-01 06:30:15 CET", None),
            ("1969-12-31T23:59:59Z", Some(-1)),
            ("2023-02-29", None),
            ("2024-13-01", None),
            ("2024-3-1", None),
            ("2024-3-011", None),
            ("2024-03-01T24:00", None),
            ("2024-03-01T6:5:7", None),
            ("2024-03-01T0006:0006:0007", None),
            ("2024-03-01T06:30:15:00", None),
            ("2024-03-01T06:30:15.", None),
            ("2024-03-01T06:30:15.0000000000", None),
            ("2024-03-01T06:30:15.5", None),
            ("2024-03-01T06:30+1", None),
            ("2024-03-01T06:30+0:100", None),
            ("2024-03-01T06:30+01:", None),
            ("2024-03-01T06:30+é1", None),
            ("2024-03-01X", None),
            ("300", None),
            ("noon", None),
            ("", None),
            ("2024-03-0é", None),
        ] {
            assert_eq!(stamp_of(text), expected, "{text}");
        }
    }

    #[test]
    fn a_number_may_be_written_with_a_point_if_nothing_but_zeros_is_behind_it() {
        for (text, expected) in [
            ("300", Some(300)),
            (" -5 ", Some(-5)),
            ("+5.00", Some(5)),
            ("1742860800.0", Some(1_742_860_800)),
            ("1.0000000000", None),
            ("300.5", None),
            ("300.", None),
            (".0", None),
            ("1e3", None),
            ("9223372036854775808", None),
            ("2024-03-01", None),
            ("", None),
        ] {
            assert_eq!(Times::Numbers.parse(text), expected, "{text}");
        }
    }

    #[test]
    fn what_lies_between_two_seconds_is_known_as_such() {
        assert!(Times::Zoned.is_fractional("2025-03-25T00:00:00.250Z"));
        assert!(Times::Stamps.is_fractional("2025-03-25T00:00:00.250"));
        assert!(Times::Numbers.is_fractional("1742860800.5"));
        assert!(!Times::Stamps.is_fractional("2025-03-25T00:00:00.x"));
        assert!(!Times::Numbers.is_fractional("2025-03-25T00:00:00.250Z"));
        assert_eq!(Times::of("2025-03-25T00:00:00.250Z"), Times::Zoned);
        assert_eq!(Times::of("2025-03-25"), Times::Stamps);
        assert_eq!(Times::of("0.5"), Times::Numbers);
        assert_eq!(Times::of("noon"), Times::Unknown);
    }

    #[test]
    fn ticks_since_the_year_1_are_no_nanoseconds_since_1970() {
        // The days of a .NET clock from 2001 to 2100, 10⁷ ticks a second; 719,162 days are before 1970.
        for year in [2001, 2024, 2099] {
            let days = 719_162 + days_since_1970(year, 12, 31);
            let ticks = days * 86_400 * 10_000_000;
            assert_eq!(TimeUnit::since_1970(ticks, ticks), None, "{year}");
        }
        let (first, last) = (1_704_067_200_000_000_000, 1_704_153_600_000_000_000);
        assert_eq!(TimeUnit::since_1970(first, last), Some(TimeUnit::Nanosecond));
    }

    #[test]
    fn dates_are_known_without_dashes() {
        for date in [
            20_240_131,
            19_000_101,
            2_024_013_123,
            202_401_312_359,
            20_240_229_235_959,
            20_240_229_235_959_999,
            240_131,
            202_401,
            2_024_366,
        ] {
            assert!(is_date_in_digits(date), "{date}");
        }
        for number in [
            0,
            300,
            20_240_132,
            20_230_229,
            18_991_231,
            2_024_013_124,
            202_401_312_400,
            20_240_131_006_000,
            20_240_131_006_000_000,
            240_132,
            241_301,
            202_413,
            2_024_367,
            86_400,
            100_000,
            1_706_659_200,
            1_706_659_200_000,
            1_706_659_200_000_000,
            i64::MAX,
            i64::MIN,
        ] {
            assert!(!is_date_in_digits(number), "{number}");
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
