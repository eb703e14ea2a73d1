//! Days of the calendar.

use std::fmt;

/// A day in UTC, by the Gregorian calendar, also before there was one. Written as `2026-11-21`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// Counted as astronomers do: the year before 1 is 0.
    pub year: i64,
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
}

const SECONDS_A_DAY: i64 = 86_400;
/// The calendar repeats itself after 400 years.
const DAYS_AN_ERA: i64 = 146_097;
/// From March 1 of the year 0 to January 1, 1970.
const DAYS_BEFORE_1970: i64 = 719_468;

impl Date {
    /// The day of a moment, in seconds since 1970.
    pub const fn of_unix(seconds: i64) -> Self {
        // Years are counted from March, so that the leap day ends them.
        let days = seconds.div_euclid(SECONDS_A_DAY) + DAYS_BEFORE_1970;
        let (era, day_of_era) = (days.div_euclid(DAYS_AN_ERA), days.rem_euclid(DAYS_AN_ERA));
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // From March on, five months have 153 days.
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + (month <= 2) as i64;
        Self { year, month: month as u8, day: day as u8 }
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, date) in [
            (0, "1970-01-01"),
            (86_399, "1970-01-01"),
            (-1, "1969-12-31"),
            (-86_401, "1969-12-30"),
            (-2_203_891_200, "1900-03-01"),
            (-2_203_891_201, "1900-02-28"),
            (-62_135_596_800, "0001-01-01"),
            (-62_135_596_801, "0000-12-31"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_709_164_800, "2024-02-29"),
            (1_735_689_599, "2024-12-31"),
            (1_795_219_200, "2026-11-21"),
            (4_107_542_399, "2100-02-28"),
            (4_107_542_400, "2100-03-01"),
            (253_402_300_800, "10000-01-01"),
        ] {
            assert_eq!(Date::of_unix(seconds).to_string(), date, "{seconds}");
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let mut before = Date { year: 1569, month: 12, day: 31 };
        // 400 years before 1970, and 400 behind.
        for day in -DAYS_AN_ERA..DAYS_AN_ERA {
            let date = Date::of_unix(day * SECONDS_A_DAY);
            let last = match before.month {
                2 => 28 + u8::from(is_leap(before.year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            let next = match before {
                Date { year, month: 12, day: 31 } => Date { year: year + 1, month: 1, day: 1 },
                Date { year, month, day } if day == last => Date { year, month: month + 1, day: 1 },
                Date { year, month, day } => Date { year, month, day: day + 1 },
            };
            assert_eq!(date, next);
            before = date;
        }
    }

    /// A file's time may be anything.
    #[test]
    fn the_first_and_the_last_moment_have_a_date() {
        assert!(Date::of_unix(i64::MIN) < Date::of_unix(i64::MAX));
    }
}
