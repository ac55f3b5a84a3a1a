//! Dates: read from what flows carry, written with Java's `DateTimeFormatter` patterns.
//!
//! A date is a text or a number between filters. A local time without a zone is read in `timeZone`, else UTC; output
//! is in `timeZone`, else UTC. Month and day names are English whatever `locale` says.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _, Zoned};

use crate::EvalError;
use crate::filters::Args;
use crate::value::Value;

mod pattern;

const DEFAULT_FORMAT: &str = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX";

fn wrong(message: impl Into<String>) -> EvalError {
    EvalError::new("filter", message)
}

/// The instant that many nanoseconds after 1970.
pub(crate) fn instant(nanos: i128) -> Result<Timestamp, EvalError> {
    Timestamp::from_nanosecond(nanos).map_err(|_| wrong("the date is out of range"))
}

/// How a date is read: the zone of local times, and the pattern when it is not ISO 8601.
struct Reading {
    zone: TimeZone,
    existing: Option<String>,
}

/// `timeZone` and `existingFormat`, by name or in the two places from `position` on. Kestra's documents and its source
/// disagree about their order, so a place that names a zone is the zone.
fn reading(args: &Args, position: usize) -> Result<Reading, EvalError> {
    let named = |name: &str| args.text(usize::MAX, name);
    let mut zone = named("timeZone")
        .map(|name| zone(&name).ok_or_else(|| wrong("`timeZone` is not a known time zone")))
        .transpose()?;
    let mut existing = named("existingFormat");
    for text in args.positional.iter().skip(position).take(2).filter(|value| **value != Value::Null).map(Value::to_text)
    {
        match self::zone(&text) {
            Some(found) => zone = zone.or(Some(found)),
            None => existing = existing.or(Some(text)),
        }
    }
    Ok(Reading { zone: zone.unwrap_or(TimeZone::UTC), existing })
}

fn zone(name: &str) -> Option<TimeZone> {
    if name.eq_ignore_ascii_case("utc") || name == "Z" {
        return Some(TimeZone::UTC);
    }
    let offset = name.trim_start_matches("UTC").trim_start_matches("GMT");
    if let Some(offset) = pattern::read_offset(offset) {
        return Some(offset.to_time_zone());
    }
    // The database compiled in, never the host's, so that every node reads the same rules.
    jiff::tz::TimeZoneDatabase::bundled().get(name).ok()
}

/// Reads a date; `existingFormat` and `timeZone` stand from `position` on.
pub(crate) fn read(input: &Value, args: &Args, position: usize) -> Result<Timestamp, EvalError> {
    let reading = reading(args, position)?;
    match input {
        Value::Int(number) => from_number(*number),
        Value::Float(seconds) => instant((seconds * 1e9) as i128),
        Value::Str(text) => match &reading.existing {
            Some(format) => pattern::parse(text.trim(), &named_format(format), &reading.zone),
            None => read_iso(text.trim(), &reading.zone),
        },
        other => Err(EvalError::type_error(format!("a date cannot be read from {}", other.kind()))),
    }
}

/// Seconds, milliseconds, microseconds or nanoseconds, told apart by their length.
fn from_number(number: i128) -> Result<Timestamp, EvalError> {
    let factor = match number.unsigned_abs() {
        0..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1_000,
        _ => 1,
    };
    instant(number.saturating_mul(factor))
}

fn read_iso(text: &str, zone: &TimeZone) -> Result<Timestamp, EvalError> {
    if let Ok(instant) = text.parse::<Timestamp>() {
        return Ok(instant);
    }
    if let Some(start) = text.find('[') {
        return text[..start].parse().map_err(|_| unreadable());
    }
    if let Ok(number) = text.parse::<i128>() {
        return from_number(number);
    }
    let local = text.parse::<DateTime>().or_else(|_| text.parse::<Date>().map(|date| date.at(0, 0, 0, 0)));
    local_in(local.map_err(|_| unreadable())?, zone)
}

fn unreadable() -> EvalError {
    wrong("the text is not a date; give `existingFormat` when it is not ISO 8601")
}

fn local_in(local: DateTime, zone: &TimeZone) -> Result<Timestamp, EvalError> {
    local.to_zoned(zone.clone()).map(|zoned| zoned.timestamp()).map_err(|_| wrong("the date is out of range"))
}

/// Writes an instant; `format` is the argument at `position`, `timeZone` one of the next two.
pub(crate) fn format_instant(instant: &Timestamp, args: &Args, position: usize) -> Result<Value, EvalError> {
    let zoned = instant.to_zoned(reading(args, position + 1)?.zone);
    let format = args.text(position, "format").unwrap_or_else(|| DEFAULT_FORMAT.to_owned());
    match iso(&zoned, &format) {
        Some(text) => Ok(Value::str(text)),
        None => pattern::format(&zoned, &named_format(&format)).map(Value::str),
    }
}

/// The ISO forms with as many digits of the second as there are.
fn iso(zoned: &Zoned, format: &str) -> Option<String> {
    let written = |pattern: &str| pattern::format(zoned, pattern).ok();
    let date = || written("yyyy-MM-dd");
    let time = || Some(written("HH:mm:ss")? + &pattern::fraction(zoned));
    let offset = || written("XXX");
    let zone = || zoned.time_zone().iana_name().map_or_else(String::new, |name| format!("[{name}]"));
    Some(match format.to_ascii_lowercase().as_str() {
        "iso_local_time" => time()?,
        "iso_offset_time" | "iso_time" => time()? + &offset()?,
        "iso_local_date_time" => format!("{}T{}", date()?, time()?),
        "iso_offset_date_time" => format!("{}T{}{}", date()?, time()?, offset()?),
        "iso_zoned_date_time" | "iso_date_time" => format!("{}T{}{}{}", date()?, time()?, offset()?, zone()),
        "iso_date" | "iso_offset_date" => date()? + &offset()?,
        "iso_week_date" => {
            let week = zoned.date().iso_week_date();
            let day = week.weekday().to_monday_one_offset();
            format!("{:04}-W{:02}-{day}{}", week.year(), week.week(), offset()?)
        }
        "iso_instant" => {
            let utc = zoned.timestamp().to_zoned(TimeZone::UTC);
            pattern::format(&utc, "yyyy-MM-dd'T'HH:mm:ss").ok()? + &pattern::fraction_in_threes(&utc) + "Z"
        }
        _ => return None,
    })
}

/// Names Kestra gives to common patterns.
fn named_format(format: &str) -> String {
    let pattern = match format.to_ascii_lowercase().as_str() {
        "iso" => DEFAULT_FORMAT,
        "iso_milli" => "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
        "iso_sec" | "iso_offset_date_time" | "iso_date_time" | "iso_instant" => "yyyy-MM-dd'T'HH:mm:ssXXX",
        "iso_local_date" | "iso_date" => "yyyy-MM-dd",
        "iso_local_time" | "iso_time" => "HH:mm:ss",
        "iso_local_date_time" => "yyyy-MM-dd'T'HH:mm:ss",
        "basic_iso_date" => "yyyyMMdd",
        "iso_ordinal_date" => "yyyy-DDDXXX",
        "full" => "EEEE, MMMM d, yyyy 'at' h:mm:ss a z",
        "long" => "MMMM d, yyyy 'at' h:mm:ss a z",
        "medium" => "MMM d, yyyy, h:mm:ss a",
        "short" => "M/d/yy, h:mm a",
        "rfc_1123_date_time" => "EEE, d MMM yyyy HH:mm:ss Z",
        "sql" => "yyyy-MM-dd HH:mm:ss.SSSSSS",
        "sql_milli" => "yyyy-MM-dd HH:mm:ss.SSS",
        "sql_sec" | "sql_seq" => "yyyy-MM-dd HH:mm:ss",
        _ => return format.to_owned(),
    };
    pattern.to_owned()
}

/// `dateAdd(amount, unit, format, existingFormat, timeZone)`.
pub(crate) fn add(input: &Value, args: &Args) -> Result<Value, EvalError> {
    let amount = args.int(0, "amount", "dateAdd")?.ok_or_else(|| wrong("`dateAdd` needs an amount"))?;
    let span = span(amount, &args.required_text(1, "unit", "dateAdd")?)?;
    let zoned = read(input, args, 3)?.to_zoned(reading(args, 3)?.zone);
    let moved: Zoned = zoned.checked_add(span).map_err(|_| wrong("the date is out of range"))?;
    format_instant(&moved.timestamp(), args, 2)
}

fn span(amount: i64, unit: &str) -> Result<Span, EvalError> {
    let span = match unit.to_ascii_uppercase().as_str() {
        "NANOS" => Span::new().try_nanoseconds(amount),
        "MICROS" => Span::new().try_microseconds(amount),
        "MILLIS" => Span::new().try_milliseconds(amount),
        "SECONDS" => Span::new().try_seconds(amount),
        "MINUTES" => Span::new().try_minutes(amount),
        "HOURS" => Span::new().try_hours(amount),
        "HALF_DAYS" => Span::new().try_hours(amount.saturating_mul(12)),
        "DAYS" => Span::new().try_days(amount),
        "WEEKS" => Span::new().try_weeks(amount),
        "MONTHS" => Span::new().try_months(amount),
        "YEARS" => Span::new().try_years(amount),
        "DECADES" => Span::new().try_years(amount.saturating_mul(10)),
        _ => {
            return Err(wrong("`unit` of `dateAdd` must be a unit such as DAYS or HOURS"));
        }
    };
    span.map_err(|_| wrong("`amount` of `dateAdd` is out of range"))
}

/// `timestamp(existingFormat, timeZone)` in seconds, or in the unit the filter's name says.
pub(crate) fn timestamp(name: &str, input: &Value, args: &Args) -> Result<Value, EvalError> {
    let nanos = read(input, args, 0)?.as_nanosecond();
    Ok(Value::Int(match name {
        "timestampMilli" => nanos.div_euclid(1_000_000),
        "timestampMicro" => nanos.div_euclid(1_000),
        "timestampNano" => nanos,
        _ => nanos.div_euclid(1_000_000_000),
    }))
}

/// The date and hour a text itself shows, whatever its offset; a number is read in UTC.
fn shown(input: &Value) -> Result<DateTime, EvalError> {
    if let Value::Str(text) = input {
        let local = text.trim().split('[').next().unwrap_or("");
        let offset = local.char_indices().skip(11).find(|(_, c)| matches!(c, 'Z' | 'z' | '+' | '-'));
        let local = &local[..offset.map_or(local.len(), |(at, _)| at)];
        let date = || local.parse::<Date>().map(|date| date.at(0, 0, 0, 0));
        if let Ok(found) = local.parse::<DateTime>().or_else(|_| date()) {
            return Ok(found);
        }
    }
    Ok(read(input, &Args::default(), 0)?.to_zoned(TimeZone::UTC).datetime())
}

/// `dayOfWeek(date)` and its kin.
pub(crate) fn part(name: &str, args: &Args) -> Result<Value, EvalError> {
    let moment = shown(args.required(0, "date", name)?)?;
    let weekday = moment.weekday();
    Ok(match name {
        "dayOfMonth" => Value::Int(i128::from(moment.day())),
        "hourOfDay" => Value::Int(i128::from(moment.hour())),
        "monthOfYear" => Value::Int(i128::from(moment.month())),
        "isWeekend" => Value::Bool(weekday.to_monday_one_offset() > 5),
        "isDayWeekInMonth" => Value::Bool(is_day_week_in_month(moment.date(), args)?),
        "isLastWorkingDay" => Value::Bool(is_last_working_day(moment.date(), args)?),
        _ => Value::str(pattern::day_name(weekday).to_uppercase()),
    })
}

/// `isDateBefore(date, reference)`, `isDateAfter(date, reference)` and `isDateBetween(date, after, before)`, as instants
/// and never true of the same one; what has no offset is in UTC.
pub(crate) fn compare(name: &str, args: &Args) -> Result<Value, EvalError> {
    let at = |place: usize, argument: &str| read(args.required(place, argument, name)?, &Args::default(), 0);
    let date = at(0, "date")?;
    Ok(Value::Bool(match name {
        "isDateAfter" => date > at(1, "reference")?,
        "isDateBefore" => date < at(1, "reference")?,
        _ => date > at(1, "after")? && date < at(2, "before")?,
    }))
}

fn weekday(name: &str) -> Result<Weekday, EvalError> {
    pattern::day_called(name).ok_or_else(|| EvalError::type_error("a day is one of MONDAY to SUNDAY"))
}

/// `isDayWeekInMonth(date, 'MONDAY', 'FIRST')`.
fn is_day_week_in_month(date: Date, args: &Args) -> Result<bool, EvalError> {
    let day = weekday(&args.required_text(1, "dayOfWeek", "isDayWeekInMonth")?)?;
    let position = args.required_text(2, "position", "isDayWeekInMonth")?;
    let nth = match position.to_ascii_uppercase().as_str() {
        "FIRST" => 1,
        "SECOND" => 2,
        "THIRD" => 3,
        "FOURTH" => 4,
        "LAST" => -1,
        _ => return Err(EvalError::type_error("`position` is one of FIRST, SECOND, THIRD, FOURTH and LAST")),
    };
    Ok(date.nth_weekday_of_month(nth, day).is_ok_and(|found| found == date))
}

/// `isLastWorkingDay(date, 'MONDAY,TUESDAY')`; Monday to Friday unless other days are named.
fn is_last_working_day(date: Date, args: &Args) -> Result<bool, EvalError> {
    let named = args.text(1, "workingDays").unwrap_or_default();
    let mut working = Vec::new();
    for name in named.split([',', ' ', '\t', '\n']).filter(|name| !name.is_empty()) {
        working.push(weekday(name)?);
    }
    let works = |day: Weekday| if working.is_empty() { day.to_monday_one_offset() < 6 } else { working.contains(&day) };
    let mut last = date.last_of_month();
    while !works(last.weekday()) && last > date {
        last = last.saturating_sub(1.days());
    }
    Ok(last == date && works(date.weekday()))
}

/// The start of the day `days` after 1970, for patterns that lack a date.
fn epoch_day(days: i64) -> Date {
    Date::new(1970, 1, 1).map_or(Date::MIN, |epoch| epoch.saturating_add(days.days()))
}
