//! Dates, for people.

use terahaul_core::Date;

/// Seconds since 1970 as `2026-11-21`, in UTC.
pub fn date_of(seconds: i64) -> String {
    Date::of_unix(seconds).to_string()
}
