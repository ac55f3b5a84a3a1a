//! What strangers can send, thrown at the code that reads it.
//!
//! A [`Target`] is a plain function over bytes: it panics when a property does not hold, and otherwise says what kind
//! of thing happened. [`drive`](drive::drive) feeds it the committed corpus first and then mutations of it; an input
//! that made something new happen joins the pool, so the search goes deeper without instrumented code. The same seed
//! gives the same inputs.
//!
//! | what must hold | how it is seen |
//! |---|---|
//! | no panic, no abort | the driver catches and prints the input; an abort is found again with `SEMEL_FUZZ_TRACE` |
//! | bounded time | CPU time of the thread per input, so that a busy machine does not matter |
//! | bounded memory | the process' peak after each input |
//! | spans inside the text, parse(print(x)) = x, same meaning however written | asserted by each target |
//!
//! `SEMEL_FUZZ_SECONDS` makes each target run that long with a seed of its own (`SEMEL_FUZZ_SEED` repeats one).
//! A finding becomes a file of the corpus, so that it is tried first for ever after.

pub mod drive;
pub mod mutate;
mod targets;

pub use targets::TARGETS;

/// One reader of foreign bytes.
pub struct Target {
    /// Also the name of its corpus.
    pub name: &'static str,
    /// Words worth inserting, beside those of the corpus.
    pub words: &'static [&'static str],
    /// Returns a number for the kind of thing that happened; panics when a property is broken.
    pub run: fn(&[u8]) -> u64,
}

/// Longest input: what is promised of time and memory is promised up to here.
pub const INPUT_BYTES_MAX: usize = 64 * 1024;

/// A behaviour, as a number: equal for equal parts.
pub fn behaviour(parts: impl std::hash::Hash) -> u64 {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    BuildHasherDefault::<DefaultHasher>::default().hash_one(parts)
}
