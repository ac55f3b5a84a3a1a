//! Values to columns and back, as every store with columns has them. What does not decode is damage, never a default.

use semel_core::admission::{Window, WindowFrom};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::value::{Error as WordError, StrDeserializer};
use serde_json::Value as Json;

/// A stored value that cannot be right.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Damaged(pub String);

/// Stored integers are signed; a number past the middle means "no limit".
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

pub fn parse_word<T: DeserializeOwned>(text: &str) -> Result<T, Damaged> {
    let words: StrDeserializer<WordError> = StrDeserializer::new(text);
    T::deserialize(words).map_err(|e| Damaged(format!("unknown word: {e}")))
}

pub fn json<T: Serialize + ?Sized>(value: &T) -> String {
    // Serialising into memory cannot fail: all map keys are strings.
    serde_json::to_string(value).unwrap_or_default()
}

pub fn parse_json<T: DeserializeOwned>(text: &str) -> Result<T, Damaged> {
    serde_json::from_str(text).map_err(|e| Damaged(format!("a stored value does not parse: {e}")))
}

pub fn window_text(window: Window) -> String {
    match window {
        Window::Forever => "forever".to_owned(),
        Window::WhileLive => "while_live".to_owned(),
        Window::For { from: WindowFrom::FirstSeen, duration_ms } => format!("first_seen:{duration_ms}"),
        Window::For { from: WindowFrom::Completed, duration_ms } => format!("completed:{duration_ms}"),
    }
}

pub fn parse_window(text: &str) -> Result<Window, Damaged> {
    let unknown = || Damaged(format!("unknown window `{text}`"));
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

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    pub fn new() -> Checksum {
        Checksum::default()
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
