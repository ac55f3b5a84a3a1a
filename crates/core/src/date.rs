//! Dates as conditions read them: a day, a time and an offset, exactly as they were written.

use crate::Millis;
use crate::holidays::{self, UnknownCountry};
use crate::ir::{DayInMonth, DayOfWeek};
use jiff::civil::{Date, Time, Weekday};
use jiff::fmt::temporal::{Pieces, PiecesOffset};
use jiff::tz::{Offset, TimeZone};

/// A date with the offset it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    date: Date,
    time: Time,
    offset: Offset,
}

impl Written {
    /// Reads an ISO 8601 date. What has no offset is in UTC.
    pub fn parse(text: &str) -> Option<Written> {
        let pieces = Pieces::parse(text.trim()).ok()?;
        let offset = match pieces.offset() {
            Some(PiecesOffset::Numeric(offset)) => offset.offset(),
            _ => Offset::UTC,
        };
        Some(Written { date: pieces.date(), time: pieces.time().unwrap_or(Time::midnight()), offset })
    }

    pub fn at(&self) -> Option<Millis> {
        let at = self.offset.to_timestamp(self.date.to_datetime(self.time)).ok()?;
        Some(Millis(at.as_millisecond()))
    }

    /// Milliseconds from midnight UTC of the day as it is written; before midnight they are negative.
    pub fn time_of_day(&self) -> i64 {
        let local = self.time.duration_since(Time::midnight()).as_millis();
        i64::try_from(local).unwrap_or(0) - i64::from(self.offset.seconds()) * 1_000
    }

    pub fn is_on(&self, day: DayOfWeek) -> bool {
        self.date.weekday() == weekday(day)
    }

    pub fn is_weekend(&self) -> bool {
        matches!(self.date.weekday(), Weekday::Saturday | Weekday::Sunday)
    }

    pub fn is_holiday(&self, country: &str) -> Result<bool, UnknownCountry> {
        holidays::is_holiday(self.date, country)
    }

    /// The second Monday of its month, and the like.
    pub fn is_nth(&self, place: DayInMonth, day: DayOfWeek) -> bool {
        let nth = match place {
            DayInMonth::First => 1,
            DayInMonth::Second => 2,
            DayInMonth::Third => 3,
            DayInMonth::Fourth => 4,
            DayInMonth::Last => -1,
        };
        self.date.nth_weekday_of_month(nth, weekday(day)).is_ok_and(|found| found == self.date)
    }
}

/// A time with an offset, such as `08:00:00+02:00`, as [`Written::time_of_day`] counts it.
pub fn time_of_day(text: &str) -> Option<i64> {
    Written::parse(&format!("1970-01-01T{}", text.trim())).map(|written| written.time_of_day())
}

/// An instant as a schedule of this zone writes it: RFC 3339 with the zone's offset.
pub fn in_zone(at: Millis, timezone: &str) -> String {
    let zoned = jiff::Timestamp::from_millisecond(at.0).ok().zip(TimeZone::get(timezone.trim()).ok());
    match zoned {
        Some((at, zone)) if zone.to_offset(at) != Offset::UTC => {
            let offset = zone.to_offset(at);
            format!("{:.3}", at.display_with_offset(offset))
        }
        _ => at.to_rfc3339(),
    }
}

/// What the clocks of a zone show at an instant, as if it were in UTC.
pub fn clock_time(at: Millis, timezone: &str) -> Millis {
    let zoned = jiff::Timestamp::from_millisecond(at.0).ok().zip(TimeZone::get(timezone.trim()).ok());
    zoned.map_or(at, |(instant, zone)| at.plus(i64::from(zone.to_offset(instant).seconds()) * 1_000))
}

/// When the clocks of a zone show this. What they skip is as long after the gap.
pub fn at_clock_time(shown: Millis, timezone: &str) -> Millis {
    let civil = jiff::Timestamp::from_millisecond(shown.0).ok().map(|at| Offset::UTC.to_datetime(at));
    let zoned = civil.zip(TimeZone::get(timezone.trim()).ok());
    let at = zoned.and_then(|(civil, zone)| zone.to_timestamp(civil).ok());
    at.map_or(shown, |at| Millis(at.as_millisecond()))
}

fn weekday(day: DayOfWeek) -> Weekday {
    match day {
        DayOfWeek::Monday => Weekday::Monday,
        DayOfWeek::Tuesday => Weekday::Tuesday,
        DayOfWeek::Wednesday => Weekday::Wednesday,
        DayOfWeek::Thursday => Weekday::Thursday,
        DayOfWeek::Friday => Weekday::Friday,
        DayOfWeek::Saturday => Weekday::Saturday,
        DayOfWeek::Sunday => Weekday::Sunday,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_the_day_of_its_own_offset() {
        // Friday night in UTC is Saturday in Berlin.
        let night = Written::parse("2026-01-03T00:30:00+01:00").unwrap();
        assert!(night.is_weekend() && night.is_on(DayOfWeek::Saturday));
        assert!(!Written::parse("2026-01-02T23:30:00Z").unwrap().is_weekend());
        assert_eq!(night.at(), Millis::parse_rfc3339("2026-01-02T23:30:00Z"));
        assert_eq!(Written::parse("2026-01-03").unwrap().at(), Millis::parse_rfc3339("2026-01-03T00:00:00Z"));
        assert_eq!(Written::parse("soon"), None);
    }

    #[test]
    fn days_in_a_month() {
        let on = |text: &str, place| Written::parse(text).unwrap().is_nth(place, DayOfWeek::Monday);
        assert!(on("2026-06-01", DayInMonth::First));
        assert!(on("2026-06-08", DayInMonth::Second));
        assert!(on("2026-06-15", DayInMonth::Third));
        assert!(on("2026-06-22", DayInMonth::Fourth));
        assert!(on("2026-06-29", DayInMonth::Last));
        assert!(!on("2026-06-22", DayInMonth::Last));
        assert!(!on("2026-06-02", DayInMonth::First));
    }

    #[test]
    fn times_of_the_day_are_compared_with_their_offsets() {
        assert_eq!(time_of_day("08:00:00Z"), Some(8 * 3_600_000));
        assert_eq!(time_of_day("08:00:00+02:00"), Some(6 * 3_600_000));
        assert_eq!(time_of_day("01:00+02:00"), Some(-3_600_000));
        assert_eq!(time_of_day("25:00"), None);
    }

    #[test]
    fn an_instant_in_its_zone() {
        let at = Millis::parse_rfc3339("2026-01-02T23:30:00Z").unwrap();
        assert_eq!(in_zone(at, "UTC"), "2026-01-02T23:30:00.000Z");
        assert_eq!(in_zone(at, "Europe/Berlin"), "2026-01-03T00:30:00.000+01:00");
        assert_eq!(in_zone(at, "nowhere"), "2026-01-02T23:30:00.000Z");
    }
}
