//! Java date patterns: runs of one letter are fields, quoted text is literal.

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

use super::{epoch_day, local_in, unreadable, wrong};
use crate::EvalError;

/// Longest pattern we accept, and longest run of one letter.
const PATTERN_MAX: usize = 200;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

pub(super) fn month_name(month: i8) -> &'static str {
    MONTHS[usize::try_from(month - 1).unwrap_or(0).min(11)]
}

pub(super) fn day_name(day: Weekday) -> &'static str {
    DAYS[usize::try_from(day.to_monday_zero_offset()).unwrap_or(0).min(6)]
}

/// The day of that English name.
pub(super) fn day_called(name: &str) -> Option<Weekday> {
    let index = DAYS.iter().position(|day| day.eq_ignore_ascii_case(name.trim()))?;
    Weekday::from_monday_zero_offset(i8::try_from(index).ok()?).ok()
}

/// `.5` for half a second, nothing for none.
pub(super) fn fraction(zoned: &Zoned) -> String {
    let digits = format!("{:09}", zoned.subsec_nanosecond());
    let digits = digits.trim_end_matches('0');
    if digits.is_empty() { String::new() } else { format!(".{digits}") }
}

/// As [`fraction`], in three, six or nine digits.
pub(super) fn fraction_in_threes(zoned: &Zoned) -> String {
    let kept = fraction(zoned).len().saturating_sub(1).div_ceil(3) * 3;
    if kept == 0 { String::new() } else { format!(".{:09}", zoned.subsec_nanosecond())[..=kept].to_owned() }
}

enum Item {
    Field(char, usize),
    Literal(String),
}

fn items(pattern: &str) -> Result<Vec<Item>, EvalError> {
    if pattern.len() > PATTERN_MAX {
        return Err(wrong(format!("a date pattern has at most {PATTERN_MAX} characters")));
    }
    let mut out = Vec::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\'' {
            out.push(Item::Literal(quoted(&mut chars)));
        } else if c.is_ascii_alphabetic() {
            let mut count = 1;
            while chars.next_if_eq(&c).is_some() {
                count += 1;
            }
            out.push(Item::Field(c, count));
        } else if !matches!(c, '[' | ']') {
            out.push(Item::Literal(c.to_string()));
        }
    }
    Ok(out)
}

/// Two quotes in a row are one quote, inside and outside of quoted text.
fn quoted(chars: &mut std::iter::Peekable<std::str::Chars>) -> String {
    let mut text = String::new();
    if chars.next_if_eq(&'\'').is_some() {
        return "'".to_owned();
    }
    while let Some(c) = chars.next() {
        if c == '\'' && chars.next_if_eq(&'\'').is_none() {
            break;
        }
        text.push(c);
    }
    text
}

pub(super) fn format(zoned: &Zoned, pattern: &str) -> Result<String, EvalError> {
    let mut out = String::new();
    for item in items(pattern)? {
        match item {
            Item::Literal(text) => out.push_str(&text),
            Item::Field(letter, count) => out.push_str(&field(zoned, letter, count)?),
        }
    }
    Ok(out)
}

fn field(zoned: &Zoned, letter: char, count: usize) -> Result<String, EvalError> {
    let number = |value: i64| format!("{value:0count$}");
    let hour = i64::from(zoned.hour());
    Ok(match letter {
        'y' | 'u' => year(i64::from(zoned.year()), count),
        'Y' => year(i64::from(zoned.date().iso_week_date().year()), count),
        'M' | 'L' => name_or_number(month_name(zoned.month()), i64::from(zoned.month()), count),
        'E' => name(day_name(zoned.weekday()), count),
        'e' | 'c' => {
            let day = i64::from(zoned.weekday().to_monday_one_offset());
            name_or_number(day_name(zoned.weekday()), day, count)
        }
        'Q' | 'q' => number(i64::from((zoned.month() + 2) / 3)),
        'w' => number(i64::from(zoned.date().iso_week_date().week())),
        'd' => number(i64::from(zoned.day())),
        'D' => number(i64::from(zoned.day_of_year())),
        'H' => number(hour),
        'k' => number(if hour == 0 { 24 } else { hour }),
        'K' => number(hour % 12),
        'h' => number(if hour % 12 == 0 { 12 } else { hour % 12 }),
        'a' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        'm' => number(i64::from(zoned.minute())),
        's' => number(i64::from(zoned.second())),
        'S' => format!("{:09}", zoned.subsec_nanosecond()).chars().chain(std::iter::repeat('0')).take(count).collect(),
        'n' => number(i64::from(zoned.subsec_nanosecond())),
        'X' => offset(zoned.offset(), count, true),
        'x' => offset(zoned.offset(), count, false),
        'Z' if count < 4 => offset(zoned.offset(), 2, false),
        'Z' | 'O' => format!("GMT{}", offset(zoned.offset(), 3, false)),
        'V' => zoned.time_zone().iana_name().map_or_else(|| offset(zoned.offset(), 3, true), str::to_owned),
        'z' => zoned.time_zone().to_offset_info(zoned.timestamp()).abbreviation().to_owned(),
        'G' => if zoned.year() > 0 { "AD" } else { "BC" }.to_owned(),
        other => return Err(wrong(format!("`{other}` is not a letter of date patterns"))),
    })
}

fn year(year: i64, count: usize) -> String {
    if count == 2 { format!("{:02}", year.rem_euclid(100)) } else { format!("{year:0count$}") }
}

fn name(full: &str, count: usize) -> String {
    if count == 4 { full.to_owned() } else { full.chars().take(if count > 4 { 1 } else { 3 }).collect() }
}

fn name_or_number(full: &str, number: i64, count: usize) -> String {
    if count >= 3 { name(full, count) } else { format!("{number:0count$}") }
}

fn offset(offset: Offset, count: usize, zulu: bool) -> String {
    let seconds = offset.seconds();
    if seconds == 0 && zulu {
        return "Z".to_owned();
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes) = (seconds.abs() / 3600, seconds.abs() / 60 % 60);
    match count {
        1 if minutes == 0 => format!("{sign}{hours:02}"),
        1 | 2 | 4 => format!("{sign}{hours:02}{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}"),
    }
}

/// `+02`, `+0200` or `+02:00`.
pub(super) fn read_offset(text: &str) -> Option<Offset> {
    let (sign, digits) = match text.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let digits: String = digits.chars().filter(|c| *c != ':').collect();
    if !matches!(digits.len(), 1 | 2 | 4) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (hours, minutes) = digits.split_at(digits.len().min(2));
    let minutes: i32 = if minutes.is_empty() { 0 } else { minutes.parse().ok()? };
    Offset::from_seconds(sign * (hours.parse::<i32>().ok()? * 3600 + minutes * 60)).ok()
}

#[derive(Default)]
struct Fields {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanos: i64,
    afternoon: Option<bool>,
    offset: Option<Offset>,
}

pub(super) fn parse(text: &str, pattern: &str, zone: &TimeZone) -> Result<Timestamp, EvalError> {
    let mut rest = text;
    let mut fields = Fields::default();
    let items = items(pattern)?;
    for (index, item) in items.iter().enumerate() {
        match item {
            Item::Literal(literal) => rest = rest.strip_prefix(literal.as_str()).ok_or_else(unreadable)?,
            Item::Field(letter, count) => {
                let adjacent = matches!(items.get(index + 1), Some(Item::Field(..)));
                rest = fields.read(rest, *letter, *count, adjacent)?;
            }
        }
    }
    if !rest.is_empty() {
        return Err(unreadable());
    }
    fields.instant(zone)
}

impl Fields {
    fn read<'a>(&mut self, text: &'a str, letter: char, count: usize, adjacent: bool) -> Result<&'a str, EvalError> {
        if let 'E' | 'X' | 'x' | 'Z' | 'a' | 'S' = letter {
            return self.read_special(text, letter);
        }
        if matches!(letter, 'M' | 'L') && count >= 3 {
            let index = MONTHS.iter().position(|month| starts_with(text, &month[..3])).ok_or_else(unreadable)?;
            self.month = Some(index as i64 + 1);
            let full = starts_with(text, MONTHS[index]);
            return Ok(&text[if full { MONTHS[index].len() } else { 3 }..]);
        }
        let widest = if adjacent || count == 2 { count.max(2) } else { 10 };
        let digits = text.bytes().take(widest).take_while(u8::is_ascii_digit).count();
        let number: i64 = text[..digits].parse().map_err(|_| unreadable())?;
        match letter {
            'y' | 'u' => self.year = Some(if count == 2 { 2000 + number } else { number }),
            'M' | 'L' => self.month = Some(number),
            'd' => self.day = Some(number),
            'D' => self.day_of_year = Some(number),
            'H' | 'k' | 'K' | 'h' => self.hour = number,
            'm' => self.minute = number,
            's' => self.second = number,
            'n' => self.nanos = number,
            other => {
                return Err(wrong(format!("dates cannot be read with the pattern letter `{other}`")));
            }
        }
        Ok(&text[digits..])
    }

    fn read_special<'a>(&mut self, text: &'a str, letter: char) -> Result<&'a str, EvalError> {
        let end = match letter {
            'S' => {
                let end = text.bytes().take_while(u8::is_ascii_digit).count();
                let nanos: String = text[..end].chars().chain(std::iter::repeat('0')).take(9).collect();
                self.nanos = nanos.parse().map_err(|_| unreadable())?;
                end
            }
            'E' => text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len()),
            'a' => {
                self.afternoon = Some(starts_with(text, "pm"));
                if starts_with(text, "am") || starts_with(text, "pm") {
                    2
                } else {
                    return Err(unreadable());
                }
            }
            _ if text.starts_with('Z') => {
                self.offset = Some(Offset::UTC);
                1
            }
            _ => {
                let end = text.find(|c: char| !(c.is_ascii_digit() || "+-:".contains(c))).unwrap_or(text.len());
                self.offset = Some(read_offset(&text[..end]).ok_or_else(unreadable)?);
                end
            }
        };
        Ok(&text[end..])
    }

    fn instant(self, zone: &TimeZone) -> Result<Timestamp, EvalError> {
        let small = |value: i64| i8::try_from(value).map_err(|_| unreadable());
        let hour = match self.afternoon {
            Some(afternoon) => self.hour % 12 + if afternoon { 12 } else { 0 },
            None => self.hour % 24,
        };
        let epoch = epoch_day(0);
        let year = self.year.map_or(Ok(epoch.year()), |year| i16::try_from(year).map_err(|_| unreadable()))?;
        let mut date = Date::new(year, small(self.month.unwrap_or(1))?, small(self.day.unwrap_or(1))?)
            .map_err(|_| unreadable())?;
        if let Some(day) = self.day_of_year {
            date = date
                .with()
                .day_of_year(i16::try_from(day).map_err(|_| unreadable())?)
                .build()
                .map_err(|_| unreadable())?;
        }
        let nanos = i32::try_from(self.nanos).map_err(|_| unreadable())?;
        let time =
            Time::new(small(hour)?, small(self.minute)?, small(self.second)?, nanos).map_err(|_| unreadable())?;
        let local = DateTime::from_parts(date, time);
        match self.offset {
            Some(offset) => offset.to_timestamp(local).map_err(|_| unreadable()),
            None => local_in(local, zone),
        }
    }
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}
