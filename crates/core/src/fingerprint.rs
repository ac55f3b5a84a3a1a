//! Canonical JSON and its digest: when are two payloads "the same"?
//!
//! Version 1: object keys sorted by bytes, integers printed exactly, floats in shortest form, and
//! `1.0` differs from `1` (they arrived as different texts, and a sender that retries does not
//! change its text). RFC 8785 is not used: it prints numbers as doubles and so merges integers
//! above 2^53.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::fmt;

/// Recipe number, first byte of what is hashed; stored fingerprints compare within one recipe.
pub const RECIPE: u8 = 1;

/// SHA-256 over the recipe byte and the canonical text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Digest of a door-independent view of a request: the flow it names and its payload.
    pub fn of(parts: &[&Json]) -> Fingerprint {
        let mut hasher = Sha256::new();
        hasher.update([RECIPE]);
        let mut text = Vec::with_capacity(256);
        for part in parts {
            text.clear();
            write_canonical(part, &mut text);
            hasher.update((text.len() as u64).to_be_bytes());
            hasher.update(&text);
        }
        Fingerprint(hasher.finalize().into())
    }

    pub fn hex(&self) -> String {
        self.0.iter().map(|b| format!("{b:02x}")).collect()
    }

    pub fn from_hex(text: &str) -> Option<Fingerprint> {
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        let mut out = [0u8; 32];
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
        }
        Some(Fingerprint(out))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Fingerprint, D::Error> {
        let text = String::deserialize(deserializer)?;
        Fingerprint::from_hex(&text).ok_or_else(|| serde::de::Error::custom("not 64 hex digits"))
    }
}

/// Writes the canonical text of `value`.
pub fn write_canonical(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {
            // Writing a scalar into a Vec cannot fail.
            let _ = serde_json::to_writer(&mut *out, value);
        }
        Json::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_canonical(item, out);
            }
            out.push(b']');
        }
        Json::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            out.push(b'{');
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                let _ = serde_json::to_writer(&mut *out, key);
                out.push(b':');
                write_canonical(&map[key], out);
            }
            out.push(b'}');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_does_not_matter_and_values_do() {
        let a = json!({"a": 1, "b": {"x": [1, 2], "y": null}});
        let b: Json = serde_json::from_str(r#"{"b":{"y":null,"x":[1,2]},"a":1}"#).unwrap();
        assert_eq!(Fingerprint::of(&[&a]), Fingerprint::of(&[&b]));
        assert_ne!(Fingerprint::of(&[&json!([1, 2])]), Fingerprint::of(&[&json!([2, 1])]));
        assert_ne!(Fingerprint::of(&[&json!(1)]), Fingerprint::of(&[&json!(1.0)]));
        assert_ne!(Fingerprint::of(&[&json!("1")]), Fingerprint::of(&[&json!(1)]));
    }

    #[test]
    fn integers_above_two_to_the_53_stay_apart() {
        for (a, b) in [("12345678901234567890", "12345678901234567891"), ("9007199254740992", "9007199254740993")] {
            let (a, b): (Json, Json) = (serde_json::from_str(a).unwrap(), serde_json::from_str(b).unwrap());
            assert_ne!(Fingerprint::of(&[&a]), Fingerprint::of(&[&b]));
        }
    }

    #[test]
    fn arbitrary_precision_is_off() {
        // With that feature on, numbers become maps inside serde and untagged floats break.
        assert_eq!(serde_json::from_str::<Json>("1e2").unwrap(), json!(100.0));
    }
}
