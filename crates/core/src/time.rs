//! Instants as whole milliseconds since the Unix epoch: the only notion of time in the domain.

use serde::{Deserialize, Serialize};

/// An instant. Comparable, storable as an integer, and never read from a clock in this crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// The instant `ms` later, saturating: a window of `i64::MAX` means "never ends".
    pub fn plus(self, ms: i64) -> Millis {
        Millis(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to `self` (negative if `earlier` is later).
    pub fn since(self, earlier: Millis) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// RFC 3339 in UTC with millisecond precision, the form every answer uses.
    pub fn to_rfc3339(self) -> String {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(at) => format!("{at:.3}"),
            Err(_) => format!("{}ms", self.0),
        }
    }

    /// Parses RFC 3339 (any offset).
    pub fn parse_rfc3339(text: &str) -> Option<Millis> {
        text.parse::<jiff::Timestamp>().ok().map(|at| Millis(at.as_millisecond()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_and_parses_rfc3339() {
        let at = Millis(1_700_000_000_123);
        assert_eq!(at.to_rfc3339(), "2023-11-14T22:13:20.123Z");
        assert_eq!(Millis::parse_rfc3339("2023-11-14T23:13:20.123+01:00"), Some(at));
        assert_eq!(Millis::parse_rfc3339("yesterday"), None);
    }
}
