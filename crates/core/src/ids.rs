//! Newtype ids. A run id is a UUID v7 (time-ordered); text ids keep the author's spelling.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use uuid::Uuid;

/// The isolation boundary; every store verb takes one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkspaceId(pub String);

impl WorkspaceId {
    pub const DEFAULT: &'static str = "main";

    /// A workspace name: 1–63 of `[a-z0-9_-]`, starting with a letter or digit.
    pub fn parse(text: &str) -> Option<WorkspaceId> {
        let ok = (1..=63).contains(&text.len())
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
            && text.as_bytes()[0].is_ascii_alphanumeric();
        ok.then(|| WorkspaceId(text.to_owned()))
    }
}

impl Default for WorkspaceId {
    fn default() -> Self {
        WorkspaceId(Self::DEFAULT.to_owned())
    }
}

impl fmt::Display for WorkspaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One admitted execution.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Uuid);

impl RunId {
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
    pub fn from_bytes(bytes: [u8; 16]) -> RunId {
        RunId(Uuid::from_bytes(bytes))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for RunId {
    type Err = ();
    fn from_str(text: &str) -> Result<RunId, ()> {
        // One spelling only: other forms of one uuid would be second names of one run.
        let id = RunId(Uuid::try_parse(text).map_err(|_| ())?);
        if id.to_string() == text { Ok(id) } else { Err(()) }
    }
}

/// A flow's address inside its workspace, printed `namespace:id`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FlowRef {
    pub namespace: String,
    pub id: String,
}

impl FlowRef {
    pub fn new(namespace: impl Into<String>, id: impl Into<String>) -> FlowRef {
        FlowRef { namespace: namespace.into(), id: id.into() }
    }
}

impl fmt::Display for FlowRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.namespace, self.id)
    }
}

/// A way in. The word is stored in every decision row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Door {
    Trigger,
    Kestra,
    Conductor,
    Webhook,
    Schedule,
    Subflow,
    StartTask,
    Callback,
    Queue,
    Cli,
    /// Another run has changed its state.
    Flow,
}

impl Door {
    pub const ALL: [Door; 11] = [
        Door::Trigger,
        Door::Kestra,
        Door::Conductor,
        Door::Webhook,
        Door::Schedule,
        Door::Subflow,
        Door::StartTask,
        Door::Callback,
        Door::Queue,
        Door::Cli,
        Door::Flow,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Door::Trigger => "trigger",
            Door::Kestra => "kestra",
            Door::Conductor => "conductor",
            Door::Webhook => "webhook",
            Door::Schedule => "schedule",
            Door::Subflow => "subflow",
            Door::StartTask => "start_task",
            Door::Callback => "callback",
            Door::Queue => "queue",
            Door::Cli => "cli",
            Door::Flow => "flow",
        }
    }

    /// Doors that carry a payload evaluate the flow's `idempotency.key` by default.
    pub fn carries_payload(self) -> bool {
        match self {
            Door::Trigger | Door::Webhook | Door::Kestra | Door::Conductor | Door::Queue | Door::Cli => true,
            Door::Schedule | Door::Subflow | Door::StartTask | Door::Callback | Door::Flow => false,
        }
    }
}

impl FromStr for Door {
    type Err = ();
    fn from_str(text: &str) -> Result<Door, ()> {
        Door::ALL.into_iter().find(|d| d.word() == text).ok_or(())
    }
}

/// A 128-bit digest used where a name is too long or too private to be a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash16(pub [u8; 16]);

impl Hash16 {
    /// First half of SHA-256 over length-prefixed parts, so no two part lists collide by joining.
    pub fn of(parts: &[&[u8]]) -> Hash16 {
        use sha2::{Digest, Sha256};
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        let full = hasher.finalize();
        let mut half = [0u8; 16];
        half.copy_from_slice(&full[..16]);
        Hash16(half)
    }

    pub fn hex(&self) -> String {
        self.0.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// In the shape of a UUID.
    pub fn uuid(&self) -> uuid::Uuid {
        uuid::Uuid::from_bytes(self.0)
    }

    /// Reads that shape.
    pub fn from_uuid(text: &str) -> Option<Hash16> {
        let is_shaped = text.len() == 36;
        uuid::Uuid::try_parse(text).ok().filter(|_| is_shaped).map(|uuid| Hash16(*uuid.as_bytes()))
    }

    pub fn from_hex(text: &str) -> Option<Hash16> {
        if text.len() != 32 || !text.is_ascii() {
            return None;
        }
        let mut out = [0u8; 16];
        for (i, byte) in out.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
        }
        Some(Hash16(out))
    }
}

impl fmt::Debug for Hash16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl fmt::Display for Hash16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl Serialize for Hash16 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for Hash16 {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Hash16, D::Error> {
        let text = String::deserialize(deserializer)?;
        Hash16::from_hex(&text).ok_or_else(|| serde::de::Error::custom("not 32 hex digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_parts_do_not_run_together() {
        assert_ne!(Hash16::of(&[b"ab", b"c"]), Hash16::of(&[b"a", b"bc"]));
        let h = Hash16::of(&[b"x"]);
        assert_eq!(Hash16::from_hex(&h.hex()), Some(h));
        assert_eq!(Hash16::from_hex("zz"), None);
    }

    #[test]
    fn a_run_has_one_spelling() {
        let id = RunId(Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_00ab));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().to_uppercase().parse::<RunId>(), Err(()));
        assert_eq!(id.0.simple().to_string().parse::<RunId>(), Err(()));
    }

    #[test]
    fn workspace_names_are_plain() {
        assert!(WorkspaceId::parse("main").is_some());
        for bad in ["", "Main", "a b", "-a", "../x", &"a".repeat(64)] {
            assert!(WorkspaceId::parse(bad).is_none(), "{bad}");
        }
    }
}
