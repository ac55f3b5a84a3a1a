//! Times as Conductor's WAIT takes them.

use crate::time::Millis;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// `2 days 3 hrs 5m 1 s`: days, hours, minutes and seconds, each at most once and in this order.
pub fn duration_ms(text: &str) -> Option<i64> {
    const UNITS: [(&[&str], i64); 4] = [
        (&["days", "day", "d"], 86_400),
        (&["hours", "hour", "hrs", "hr", "h"], 3_600),
        (&["minutes", "minute", "mins", "min", "m"], 60),
        (&["seconds", "second", "secs", "sec", "s"], 1),
    ];
    let lower = text.to_ascii_lowercase();
    let mut rest = lower.trim();
    let (mut seconds, mut from) = (0_i64, 0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: i64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = UNITS.iter().position(|(words, _)| words.contains(&&rest[..letters]))?;
        if unit < from {
            return None;
        }
        from = unit + 1;
        seconds = seconds.checked_add(number.checked_mul(UNITS[unit].1)?)?;
        rest = rest[letters..].trim_start();
    }
    seconds.checked_mul(1_000)
}

/// `2026-05-01 08:00`, `2026-05-01 08:00 Europe/Berlin` or `2026-05-01`; without a zone it is UTC.
pub fn until(text: &str) -> Option<Millis> {
    let mut words = text.split_whitespace();
    let date = words.next()?;
    let time = words.next();
    let zone = words.next();
    if words.next().is_some() {
        return None;
    }
    let local: DateTime = match time {
        Some(time) => DateTime::strptime("%Y-%m-%d %H:%M", format!("{date} {time}")).ok()?,
        None => jiff::civil::Date::strptime("%Y-%m-%d", date).ok()?.to_datetime(jiff::civil::Time::midnight()),
    };
    let zone = zone.map_or(Some(TimeZone::UTC), zone_of)?;
    local.to_zoned(zone).ok().map(|zoned| Millis(zoned.timestamp().as_millisecond()))
}

/// Names of the zone database, offsets, and the few short names that have one meaning.
fn zone_of(name: &str) -> Option<TimeZone> {
    let offset = name.strip_prefix("GMT").or_else(|| name.strip_prefix("UTC")).unwrap_or(name);
    if offset.is_empty() || name == "Z" {
        return Some(TimeZone::UTC);
    }
    if let Some(sign) = offset.chars().next().filter(|c| matches!(c, '+' | '-')) {
        let digits: String = offset[1..].chars().filter(|c| *c != ':').collect();
        let (hours, minutes) = match digits.len() {
            1 | 2 => (digits.parse::<i32>().ok()?, 0),
            4 => (digits[..2].parse().ok()?, digits[2..].parse().ok()?),
            _ => return None,
        };
        let seconds = (hours * 60 + minutes) * 60;
        let offset = jiff::tz::Offset::from_seconds(if sign == '-' { -seconds } else { seconds }).ok()?;
        return Some(TimeZone::fixed(offset));
    }
    let name = match name {
        "PST" | "PDT" => "America/Los_Angeles",
        "MST" | "MDT" => "America/Denver",
        "CST" | "CDT" => "America/Chicago",
        "EST" | "EDT" => "America/New_York",
        "CET" | "CEST" => "Europe/Paris",
        "IST" => "Asia/Kolkata",
        "JST" => "Asia/Tokyo",
        other => other,
    };
    TimeZone::get(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_days_hours_minutes_and_seconds_in_order() {
        for (text, seconds) in [
            ("5s", Some(5)),
            ("1 days 2h 3 MINUTES 4 sec", Some(93_784)),
            ("2hrs", Some(7_200)),
            (" 10 m ", Some(600)),
            ("", Some(0)),
            ("5m 1h", None),
            ("5 5s", None),
            ("PT5S", None),
            ("5", None),
            ("99999999999999999999s", None),
            ("9223372036854775807 days", None),
        ] {
            assert_eq!(duration_ms(text), seconds.map(|s: i64| s * 1_000), "{text}");
        }
    }

    #[test]
    fn dates_are_read_in_their_zone() {
        for (text, instant) in [
            ("2026-05-01 08:00", Some("2026-05-01T08:00:00Z")),
            ("2026-05-01", Some("2026-05-01T00:00:00Z")),
            ("2026-05-01 08:00 UTC", Some("2026-05-01T08:00:00Z")),
            ("2026-05-01 08:00 GMT+02:00", Some("2026-05-01T06:00:00Z")),
            ("2026-05-01 08:00 Europe/Berlin", Some("2026-05-01T06:00:00Z")),
            ("2026-05-01 08:00 PST", Some("2026-05-01T15:00:00Z")),
            ("2026-05-01T08:00", None),
            ("tomorrow", None),
            ("2026-05-01 08:00 Nowhere/Else", None),
            ("2026-05-01 08:00 UTC again", None),
            ("", None),
        ] {
            assert_eq!(until(text), instant.map(|text| Millis::parse_rfc3339(text).expect("a date")), "{text}");
        }
    }
}
