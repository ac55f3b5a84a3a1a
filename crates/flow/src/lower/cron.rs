//! Cron expressions.

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::{Zoned, civil::date, tz::TimeZone};

/// Longest expression that is looked at.
const CHARS_MAX: usize = 200;

/// Parses a cron expression of five fields (six with seconds) or a nickname such as `@daily`. Whoever computes ticks
/// uses this too, so that a flow means the same when it is checked and when it runs.
pub fn parse_cron(text: &str, with_seconds: bool) -> Result<Cron, String> {
    let text = text.trim();
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
    let seconds = if with_seconds { Seconds::Required } else { Seconds::Disallowed };
    let parser = CronParser::builder().seconds(seconds).year(Year::Disallowed).build();
    parser.parse(text).map_err(|error| explain(&error.to_string()))
}

/// Whether an expression fires at all, such as not on the 30th of February.
pub(crate) fn ever_fires(cron: &Cron, zone: TimeZone) -> bool {
    // Any fixed start will do: what fires once, fires again within a cycle of leap years.
    date(2024, 1, 1).to_zoned(zone).ok().is_some_and(|start: Zoned| cron.find_next_occurrence(&start, true).is_ok())
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
        for text in ["0 9 * * *", "*/15 * * * 1-5", "@daily", "@hourly", "0 0 L * *", "0 0 1 JAN *", "0 0 29 2 *"] {
            let cron = parse_cron(text, false).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(ever_fires(&cron, TimeZone::UTC), "{text}");
        }
        assert!(parse_cron("*/5 * * * * *", true).is_ok());
        for text in ["", "* * * *", "* * * * * *", "61 * * * *", "@never", "a b c d e", "é * * * *"] {
            assert!(parse_cron(text, false).is_err(), "{text}");
        }
        let never = parse_cron("0 0 30 2 *", false).unwrap_or_else(|error| panic!("{error}"));
        assert!(!ever_fires(&never, TimeZone::UTC));
    }
}
