//! Labels that only the system sets.

/// What their names begin with.
pub const SYSTEM: &str = "system.";
/// Shown as a label, stored as a column of the head.
pub const CORRELATION: &str = "system.correlationId";
/// What a run came from: `api`, `ui` or `trigger`.
pub const FROM: &str = "system.from";
/// Of a run that lists leave out unless they are asked for it: `TEST` or `PLAYGROUND`. Doors show it as the run's kind.
pub const KIND: &str = "system.kind";
/// The kinds that are not the usual one.
pub const KINDS: [&str; 2] = ["TEST", "PLAYGROUND"];
