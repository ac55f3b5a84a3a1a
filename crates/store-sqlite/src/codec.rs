//! Values to columns and back. A column that does not decode is damage, never a default.

use crate::classify::damaged;
use rusqlite::{Result, Row};
use semel_core::admission::Window;
use semel_core::fingerprint::Fingerprint;
use semel_core::{Hash16, Millis, RunId};
use semel_store::codec;
pub use semel_store::codec::{Checksum, int, json, window_text, word};
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    codec::parse_json(text).map_err(|e| damaged(e.0))
}

pub fn parse_window(text: &str) -> Result<Window> {
    codec::parse_window(text).map_err(|e| damaged(e.0))
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
    fn word_opt<T: DeserializeOwned>(&self, at: usize) -> Result<Option<T>>;
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
        codec::parse_word(text).map_err(|e| damaged(e.0))
    }
    fn word_opt<T: DeserializeOwned>(&self, at: usize) -> Result<Option<T>> {
        let text = self.get_ref(at)?.as_str_or_null().map_err(|e| damaged(e.to_string()))?;
        text.map(|text| codec::parse_word(text).map_err(|e| damaged(e.0))).transpose()
    }
    fn json<T: DeserializeOwned>(&self, at: usize) -> Result<T> {
        parse(self.get_ref(at)?.as_str().map_err(|e| damaged(e.to_string()))?)
    }
    fn json_opt(&self, at: usize) -> Result<Option<Json>> {
        let text = self.get_ref(at)?.as_str_or_null().map_err(|e| damaged(e.to_string()))?;
        text.map(parse).transpose()
    }
}
