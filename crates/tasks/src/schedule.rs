//! When a cron fires next.
//!
//! A fire is an instant. In the hour that a zone skips, a fixed time fires once, right after the
//! gap; in the hour that it repeats, a fixed time fires at the first of the two instants only,
//! and an interval (`*/30 * * * *`) in both.

use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// The first fire strictly after `after_ms`; `None` if there is none (`0 0 31 2 *`).
pub fn next_after(cron: &str, timezone: &str, with_seconds: bool, after_ms: i64) -> Result<Option<i64>, String> {
    let seconds = if with_seconds { Seconds::Required } else { Seconds::Disallowed };
    // Nicknames such as @daily have no seconds to require.
    let seconds = if cron.trim_start().starts_with('@') { Seconds::Optional } else { seconds };
    let parser = CronParser::builder().seconds(seconds).year(Year::Disallowed).build();
    let parsed = parser.parse(cron).map_err(|error| format!("`{cron}` is not a cron expression: {error}"))?;
    let zone = TimeZone::get(timezone.trim()).map_err(|_| format!("`{timezone}` is not a known time zone"))?;
    // Fires fall on whole seconds, so the whole second before `after_ms` has the same next fire.
    let second = after_ms.div_euclid(1000);
    let after = Timestamp::from_second(second).map_err(|_| format!("{after_ms} is outside the calendar"))?;
    match parsed.find_next_occurrence(&after.to_zoned(zone), false) {
        Ok(next) => Ok(Some(next.timestamp().as_millisecond()).filter(|next| *next > after_ms)),
        Err(CronError::TimeSearchLimitExceeded) => Ok(None),
        Err(error) => Err(format!("`{cron}` cannot be followed in {timezone}: {error}")),
    }
}
