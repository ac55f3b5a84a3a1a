//! Whether a key is worth a look before it is admitted.
//!
//! Most events are new, and for a new one the look is a round trip that finds nothing: the admission itself finds out,
//! because it writes its key as if nobody had it. When somebody has, the batch that it is in must begin again, which
//! costs more than a look. So a key is taken for new if this node has not met it lately, and after a batch that had to
//! begin again every key is looked at for a while. A wrong guess costs time and never changes an answer.

use parking_lot::Mutex;
use semel_core::Hash16;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// Keys in the younger half of the memory. When it is full, the older half is forgotten.
const MET_MAX: usize = 32_768;
/// How long every key is looked at after a wrong guess.
const CAUTION: Duration = Duration::from_secs(1);

#[derive(Default)]
pub struct Guess {
    met: Mutex<[HashSet<Hash16>; 2]>,
    cautious_until: Mutex<Option<Instant>>,
}

impl Guess {
    /// Remembers the key.
    pub fn is_new(&self, key: Hash16) -> bool {
        let first = self.meet(key);
        first && self.cautious_until.lock().is_none_or(|until| Instant::now() >= until)
    }

    fn meet(&self, key: Hash16) -> bool {
        let [young, old] = &mut *self.met.lock();
        if young.len() >= MET_MAX {
            std::mem::swap(young, old);
            young.clear();
        }
        young.insert(key) && !old.contains(&key)
    }

    pub fn was_wrong(&self) {
        *self.cautious_until.lock() = Some(Instant::now() + CAUTION);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: usize) -> Hash16 {
        Hash16::of(&[&n.to_le_bytes()])
    }

    #[test]
    fn a_key_is_new_once() {
        let guess = Guess::default();
        assert!(guess.is_new(key(1)));
        assert!(!guess.is_new(key(1)));
        assert!(guess.is_new(key(2)));
    }

    #[test]
    fn after_a_wrong_guess_no_key_is_taken_for_new() {
        let guess = Guess::default();
        guess.was_wrong();
        assert!(!guess.is_new(key(1)));
    }

    #[test]
    fn the_latest_keys_are_remembered_and_the_oldest_forgotten() {
        let guess = Guess::default();
        (0..=3 * MET_MAX).for_each(|n| assert!(guess.is_new(key(n))));
        assert!((2 * MET_MAX + 1..=3 * MET_MAX).all(|n| !guess.is_new(key(n))));
        assert!(guess.is_new(key(0)));
        let [young, old] = &*guess.met.lock();
        assert!(young.len() <= MET_MAX && old.len() <= MET_MAX);
    }
}
