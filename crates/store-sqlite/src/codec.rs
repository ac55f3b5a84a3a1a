//! Values to columns and back. A column that does not decode is damage, never a default.

use crate::classify::damaged;
use rusqlite::{Result, Row};
use semel_core::admission::{Window, WindowFrom};
use semel_core::fingerprint::Fingerprint;
use semel_core::{Hash16, Millis, RunId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as WordError, StrDeserializer};
use serde_json::Value as Json;

/// SQLite's integers are signed; a number past the middle means "no limit".
pub fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The stored word of an enum without data: its serde spelling.
pub fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Json::String(word)) => word,
        _ => String::new(),
    }
}

pub fn json<T: Serialize + ?Sized>(value: &T) -> String {
    // Serialising into memory cannot fail: all map keys are strings.
    serde_json::to_string(value).unwrap_or_default()
}

pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| damaged(format!("a stored value does not parse: {e}")))
}

/// Typed columns of a row, by position.
pub trait Columns {
    fn hash(&self, at: usize) -> Result<Hash16>;
    fn hash_opt(&self, at: usize) -> Result<Option<Hash16>>;
    fn run(&self, at: usize) -> Result<RunId>;
    fn run_opt(&self, at: usize) -> Result<Option<RunId>>;
    fn fingerprint(&self, at: usize) -> Result<Fingerprint>;
    fn millis(&self, at: usize) -> Result<Millis>;
    fn millis_opt(&self, at: usize) -> Result<Option<Millis>>;
    fn number(&self, at: usize) -> Result<u64>;
    fn word<T: DeserializeOwned>(&self, at: usize) -> Result<T>;
    fn json<T: DeserializeOwned>(&self, at: usize) -> Result<T>;
    fn json_opt(&self, at: usize) -> Result<Option<Json>>;
}

impl Columns for Row<'_> {
    fn hash(&self, at: usize) -> Result<Hash16> {
        Ok(Hash16(self.get(at)?))
    }
    fn hash_opt(&self, at: usize) -> Result<Option<Hash16>> {
        Ok(self.get::<_, Option<[u8; 16]>>(at)?.map(Hash16))
    }
    fn run(&self, at: usize) -> Result<RunId> {
        Ok(RunId::from_bytes(self.get(at)?))
    }
    fn run_opt(&self, at: usize) -> Result<Option<RunId>> {
        Ok(self.get::<_, Option<[u8; 16]>>(at)?.map(RunId::from_bytes))
    }
    fn fingerprint(&self, at: usize) -> Result<Fingerprint> {
        Ok(Fingerprint(self.get(at)?))
    }
    fn millis(&self, at: usize) -> Result<Millis> {
        Ok(Millis(self.get(at)?))
    }
    fn millis_opt(&self, at: usize) -> Result<Option<Millis>> {
        Ok(self.get::<_, Option<i64>>(at)?.map(Millis))
    }
    fn number(&self, at: usize) -> Result<u64> {
        let stored: i64 = self.get(at)?;
        u64::try_from(stored).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(at, stored))
    }
    fn word<T: DeserializeOwned>(&self, at: usize) -> Result<T> {
        let text = self.get_ref(at)?.as_str().map_err(|e| damaged(e.to_string()))?;
        let words: StrDeserializer<WordError> = StrDeserializer::new(text);
        T::deserialize(words).map_err(|e| damaged(format!("unknown word: {e}")))
    }
    fn json<T: DeserializeOwned>(&self, at: usize) -> Result<T> {
        parse(self.get_ref(at)?.as_str().map_err(|e| damaged(e.to_string()))?)
    }
    fn json_opt(&self, at: usize) -> Result<Option<Json>> {
        let text = self.get_ref(at)?.as_str_or_null().map_err(|e| damaged(e.to_string()))?;
        text.map(parse).transpose()
    }
}

pub fn window_text(window: Window) -> String {
    match window {
        Window::Forever => "forever".to_owned(),
        Window::WhileLive => "while_live".to_owned(),
        Window::For { from: WindowFrom::FirstSeen, duration_ms } => format!("first_seen:{duration_ms}"),
        Window::For { from: WindowFrom::Completed, duration_ms } => format!("completed:{duration_ms}"),
    }
}

pub fn parse_window(text: &str) -> Result<Window> {
    let unknown = || damaged(format!("unknown window `{text}`"));
    let duration = |ms: &str| ms.parse::<i64>().map_err(|_| unknown());
    match text.split_once(':') {
        None if text == "forever" => Ok(Window::Forever),
        None if text == "while_live" => Ok(Window::WhileLive),
        Some(("first_seen", ms)) => Ok(Window::For { from: WindowFrom::FirstSeen, duration_ms: duration(ms)? }),
        Some(("completed", ms)) => Ok(Window::For { from: WindowFrom::Completed, duration_ms: duration(ms)? }),
        _ => Err(unknown()),
    }
}

/// A checksum that no single changed byte survives (FNV-1a: each step is a bijection), cheap
/// enough for the writer. It guards against decay of the disk, not against an attacker.
pub struct Checksum(u64);

impl Checksum {
    pub fn new() -> Checksum {
        Checksum(0xcbf2_9ce4_8422_2325)
    }

    pub fn part(mut self, bytes: Option<&[u8]>) -> Checksum {
        // The length keeps neighbouring parts apart; an absent part differs from an empty one.
        let length = bytes.map_or(u64::MAX, |b| b.len() as u64);
        for byte in length.to_le_bytes().iter().chain(bytes.unwrap_or_default()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self
    }

    pub fn value(self) -> i64 {
        self.0.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_keep_their_text() {
        for window in [
            Window::Forever,
            Window::WhileLive,
            Window::For { from: WindowFrom::FirstSeen, duration_ms: 86_400_000 },
            Window::For { from: WindowFrom::Completed, duration_ms: i64::MAX },
        ] {
            assert_eq!(parse_window(&window_text(window)).unwrap(), window);
        }
        for bad in ["", "ever", "first_seen", "first_seen:x", "other:1"] {
            assert!(parse_window(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn checksums_see_every_flip_and_move() {
        let sum = |parts: &[Option<&[u8]>]| parts.iter().fold(Checksum::new(), |c, p| c.part(*p)).value();
        let base = sum(&[Some(b"events"), Some(b"values")]);
        assert_ne!(base, sum(&[Some(b"event"), Some(b"svalues")]));
        assert_ne!(sum(&[Some(b"")]), sum(&[None]));
        for at in 0..6 {
            for bit in 0..8 {
                let mut bytes = *b"events";
                bytes[at] ^= 1 << bit;
                assert_ne!(base, sum(&[Some(&bytes), Some(b"values")]));
            }
        }
    }
}
