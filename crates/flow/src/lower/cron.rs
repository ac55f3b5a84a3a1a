//! Cron expressions.

use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, Weekday};
use jiff::civil::{Date, date};

/// Longest expression that is looked at.
const CHARS_MAX: usize = 200;

/// The expression, by the name that all who read it know: one nickname of Kestra's is known to Kestra alone.
pub(crate) fn known_name(text: &str) -> &str {
    match text.trim() {
        text if text.eq_ignore_ascii_case("@midnight") => "@daily",
        text => text,
    }
}

/// Parses a cron expression of five fields (six with seconds) or a nickname such as `@daily`. Whoever computes ticks
/// uses this too, so that a flow means the same when it is checked and when it runs.
pub fn parse_cron(text: &str, with_seconds: bool) -> Result<Cron, String> {
    let text = known_name(text);
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '*' | '/' | ',' | '-' | '?' | '#' | '@');
    if text.is_empty() || text.len() > CHARS_MAX {
        return Err(format!("a cron expression has 1 to {CHARS_MAX} characters"));
    }
    if let Some(odd) = text.chars().find(|c| !known(*c)) {
        return Err(format!("`{odd}` has no meaning in a cron expression"));
    }
    let wanted = if with_seconds { 6 } else { 5 };
    let fields = text.split_ascii_whitespace().count();
    if !text.starts_with('@') && fields != wanted {
        return Err(format!("it has {fields} fields, and {wanted} are needed"));
    }
    // Read as a list of nothing, and then searched for through the centuries.
    if let Some(field) = text.split_ascii_whitespace().find(|field| field.split(',').any(str::is_empty)) {
        return Err(format!("`{field}` has a comma with nothing beside it"));
    }
    let seconds = match (text.starts_with('@'), with_seconds) {
        // Nicknames such as @daily have no seconds to require.
        (true, _) => Seconds::Optional,
        (false, true) => Seconds::Required,
        (false, false) => Seconds::Disallowed,
    };
    let parser = CronParser::builder().seconds(seconds).year(Year::Disallowed).build();
    parser.parse(text).map_err(|error| explain(&error.to_string()))
}

/// Whether an expression fires at all, such as not on the 30th of February.
///
/// Only days decide that, and they repeat every 28 years; searching for the next instant would walk thousands of years
/// before it gave up, which a file with many such expressions could abuse.
pub(crate) fn ever_fires(cron: &Cron) -> bool {
    let mut day = date(2024, 1, 1);
    while day.year() < 2024 + 28 {
        if fires_on(cron, day) {
            return true;
        }
        match day.tomorrow() {
            Ok(next) => day = next,
            Err(_) => return false,
        }
    }
    false
}

fn fires_on(cron: &Cron, day: Date) -> bool {
    let (year, month, number) =
        (i32::from(day.year()), u32::from(day.month().unsigned_abs()), u32::from(day.day().unsigned_abs()));
    let weekday = match day.weekday() {
        jiff::civil::Weekday::Sunday => Weekday::Sunday,
        jiff::civil::Weekday::Monday => Weekday::Monday,
        jiff::civil::Weekday::Tuesday => Weekday::Tuesday,
        jiff::civil::Weekday::Wednesday => Weekday::Wednesday,
        jiff::civil::Weekday::Thursday => Weekday::Thursday,
        jiff::civil::Weekday::Friday => Weekday::Friday,
        jiff::civil::Weekday::Saturday => Weekday::Saturday,
    };
    cron.pattern.month_match(month).unwrap_or(false)
        && cron.pattern.day_match(year, month, number, weekday).unwrap_or(false)
}

fn explain(error: &str) -> String {
    let text = ["Invalid pattern: ", "Pattern contains illegal characters: ", "Component error: "]
        .iter()
        .fold(error, |text, prefix| text.strip_prefix(prefix).unwrap_or(text));
    text.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_flows_write_is_read() {
        for text in [
            "0 9 * * *",
            "*/15 * * * 1-5",
            "@daily",
            "@hourly",
            "@annually",
            "@midnight",
            "0 0 L * *",
            "0 0 1 JAN *",
            "0 0 29 2 *",
            "0 0 * * FRI#5",
            "0 0 15W * *",
        ] {
            let cron = parse_cron(text, false).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(ever_fires(&cron), "{text}");
        }
        assert!(parse_cron("*/5 * * * * *", true).is_ok());
        assert!(parse_cron("@daily", true).is_ok());
        for text in [
            "",
            "* * * *",
            "* * * * * *",
            "61 * * * *",
            "@never",
            "a b c d e",
            "é * * * *",
            "* , * * *",
            "1,,2 * * * *",
            "5, * * * *",
        ] {
            assert!(parse_cron(text, false).is_err(), "{text}");
        }
        for text in ["0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
            let never = parse_cron(text, false).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(!ever_fires(&never), "{text}");
        }
    }
}
