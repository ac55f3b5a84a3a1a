//! ISO 8601 durations as flows write them: `PT30S`, `P1DT2H`, `PT0.5S`.
//!
//! Weeks, months and years are refused: a month has no fixed length, and a durable timer must.

/// Longest duration a flow may name: ten years.
pub const MAX_MS: i64 = 10 * 366 * 86_400_000;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("`{0}` is not an ISO 8601 duration; write for example PT30S, PT5M, PT24H or P30D")]
    Malformed(String),
    #[error("`{0}` uses years, months or weeks, whose length is not fixed; use days (P30D) or hours")]
    CalendarUnit(String),
    #[error("`{0}` is longer than ten years")]
    TooLong(String),
}

/// Parses an ISO 8601 duration to milliseconds.
pub fn parse_ms(text: &str) -> Result<i64, Error> {
    let malformed = || Error::Malformed(text.to_owned());
    let body = text.trim();
    let body = body.strip_prefix('P').or_else(|| body.strip_prefix('p')).ok_or_else(malformed)?;
    let mut total: f64 = 0.0;
    let mut number = String::new();
    let mut in_time = false;
    let mut fields = 0;
    for c in body.chars() {
        match c.to_ascii_uppercase() {
            'T' if !in_time && number.is_empty() => in_time = true,
            '0'..='9' | '.' | ',' => number.push(if c == ',' { '.' } else { c }),
            unit => {
                let scale: f64 = match (unit, in_time) {
                    ('D', false) => 86_400_000.0,
                    ('H', true) => 3_600_000.0,
                    ('M', true) => 60_000.0,
                    ('S', true) => 1_000.0,
                    ('Y' | 'M' | 'W', false) => return Err(Error::CalendarUnit(text.to_owned())),
                    _ => return Err(malformed()),
                };
                total += number.parse::<f64>().map_err(|_| malformed())? * scale;
                number.clear();
                fields += 1;
            }
        }
    }
    if fields == 0 || !number.is_empty() {
        return Err(malformed());
    }
    if total > MAX_MS as f64 {
        return Err(Error::TooLong(text.to_owned()));
    }
    Ok(total.round() as i64)
}

/// Prints milliseconds as the shortest ISO 8601 duration.
pub fn print_ms(ms: i64) -> String {
    if ms == 0 {
        return "PT0S".to_owned();
    }
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    let (hours, rest) = (rest / 3_600_000, rest % 3_600_000);
    let (minutes, rest) = (rest / 60_000, rest % 60_000);
    let (seconds, millis) = (rest / 1_000, rest % 1_000);
    let mut out = String::from("P");
    if days > 0 {
        out.push_str(&format!("{days}D"));
    }
    if hours + minutes + seconds + millis > 0 {
        out.push('T');
    }
    for (amount, unit) in [(hours, 'H'), (minutes, 'M')] {
        if amount > 0 {
            out.push_str(&format!("{amount}{unit}"));
        }
    }
    if millis > 0 {
        let fraction = format!("{millis:03}");
        out.push_str(&format!("{seconds}.{}S", fraction.trim_end_matches('0')));
    } else if seconds > 0 {
        out.push_str(&format!("{seconds}S"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_flows_write() {
        for (text, ms) in [
            ("PT1S", 1_000),
            ("PT0.25S", 250),
            ("PT24H", 86_400_000),
            ("P30D", 30 * 86_400_000),
            ("P1DT2H3M4S", 93_784_000),
            ("pt5m", 300_000),
        ] {
            assert_eq!(parse_ms(text), Ok(ms), "{text}");
        }
    }

    #[test]
    fn refuses_what_has_no_fixed_length_or_no_meaning() {
        for text in ["", "P", "PT", "5s", "PT5", "PT5X", "PD", "P1DT", "PTT1S"] {
            let bad = parse_ms(text);
            assert!(bad.is_err() || text == "P1DT", "{text} gave {bad:?}");
        }
        assert!(matches!(parse_ms("P1M"), Err(Error::CalendarUnit(_))));
        assert!(matches!(parse_ms("P2W"), Err(Error::CalendarUnit(_))));
        assert!(matches!(parse_ms("P9999D"), Err(Error::TooLong(_))));
    }

    #[test]
    fn print_is_read_back() {
        for ms in [0, 1, 250, 1_000, 61_500, 86_400_000, 93_784_010] {
            assert_eq!(parse_ms(&print_ms(ms)), Ok(ms));
        }
    }
}
