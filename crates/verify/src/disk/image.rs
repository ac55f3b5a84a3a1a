//! What a machine may find on its disk after it lost power.
//!
//! What was synced is there. Of everything later, each write by itself is there, or not, or in part: whole sectors of
//! it. A file may be longer than it should be, and hold what nobody wrote there. A deletion may not have happened.

use super::Op;
use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// The unit in which a disk writes all or nothing.
const SECTOR: u64 = 512;

/// What becomes of writes that were not synced, in percent; the rest is torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    pub kept: u32,
    pub dropped: u32,
}

impl Weather {
    /// Every kind of crash: from nothing lost to all lost, and the mixtures.
    pub fn any(chance: &mut StdRng) -> Weather {
        let all = [(100, 0), (0, 100), (90, 5), (5, 90), (34, 33), (0, 0), (50, 50), (0, 50)];
        let (kept, dropped) = all[chance.random_range(0..all.len())];
        Weather { kept, dropped }
    }
}

/// Files by name.
pub type Files = BTreeMap<String, Vec<u8>>;

fn file_of(op: &Op) -> Option<&str> {
    match op {
        Op::Write { file, .. } | Op::Truncate { file, .. } | Op::Sync { file, .. } | Op::Delete { file, .. } => {
            Some(file)
        }
        Op::Ack(_) => None,
    }
}

/// Up to which op something is durable.
#[derive(Default)]
struct Synced<'a> {
    files: BTreeMap<&'a str, usize>,
    directory: usize,
}

fn synced(ops: &[Op]) -> Synced<'_> {
    let mut synced = Synced::default();
    for op in ops {
        if let Op::Sync { file, before, directory } = op {
            let mark: &mut usize = synced.files.entry(file.as_str()).or_default();
            *mark = (*mark).max(*before);
            if *directory {
                synced.directory = synced.directory.max(*before);
            }
        }
    }
    synced
}

/// The files after the first `until` ops and a power cut.
pub fn after(ops: &[Op], until: usize, weather: Weather, chance: &mut StdRng) -> Files {
    let ops = &ops[..until];
    let synced = synced(ops);
    let mut files = Files::new();
    // Names whose deletion did not make it: what was written under the name later went to a file without one.
    let mut stale: BTreeSet<&str> = BTreeSet::new();
    for (number, op) in ops.iter().enumerate() {
        let Some(file) = file_of(op).filter(|file| !stale.contains(file)) else { continue };
        let durable = number < synced.files.get(file).copied().unwrap_or(0);
        match op {
            Op::Write { at, bytes, .. } => {
                let contents = files.entry(file.to_owned()).or_default();
                if durable {
                    put(contents, *at, bytes);
                } else {
                    put_maybe(contents, *at, bytes, weather, chance);
                }
            }
            Op::Truncate { size, .. } => {
                if durable || chance.random_range(0..100) < weather.kept {
                    files.entry(file.to_owned()).or_default().resize(usize::try_from(*size).expect("a size"), 0);
                }
            }
            Op::Delete { synced: at_once, .. } => {
                if *at_once || number < synced.directory || chance.random_range(0..100) < weather.kept {
                    files.remove(file);
                } else {
                    stale.insert(file);
                }
            }
            Op::Sync { .. } | Op::Ack(_) => {}
        }
    }
    files
}

fn put(contents: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let at = usize::try_from(at).expect("an offset");
    if contents.len() < at + bytes.len() {
        contents.resize(at + bytes.len(), 0);
    }
    contents[at..at + bytes.len()].copy_from_slice(bytes);
}

fn put_maybe(contents: &mut Vec<u8>, at: u64, bytes: &[u8], weather: Weather, chance: &mut StdRng) {
    let roll = chance.random_range(0..100);
    if roll < weather.kept {
        return put(contents, at, bytes);
    }
    if roll < weather.kept + weather.dropped {
        // The file may have grown all the same, and hold anything there.
        if chance.random_bool(0.3) {
            let old = contents.len();
            let end = usize::try_from(at).expect("an offset") + bytes.len();
            contents.resize(old.max(end), 0);
            if chance.random_bool(0.5) {
                chance.fill_bytes(&mut contents[old..]);
            }
        }
        return;
    }
    let mut from = 0;
    while from < bytes.len() {
        let edge = (at + from as u64) / SECTOR * SECTOR + SECTOR - at;
        let to = usize::try_from(edge).expect("an offset").min(bytes.len());
        if chance.random_bool(0.5) {
            put(contents, at + from as u64, &bytes[from..to]);
        }
        from = to;
    }
}

/// The highest number that was acknowledged before the op `until`.
pub fn acknowledged(ops: &[Op], until: usize) -> Option<u64> {
    ops[..until].iter().filter_map(|op| if let Op::Ack(number) = op { Some(*number) } else { None }).max()
}

pub fn write(files: &Files, directory: &Path) -> io::Result<()> {
    for (name, bytes) in files {
        std::fs::write(directory.join(name), bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn write(at: u64, bytes: &[u8]) -> Op {
        Op::Write { file: "a".into(), at, bytes: bytes.to_vec() }
    }

    #[test]
    fn what_was_synced_is_there_and_the_rest_is_as_the_weather_is() {
        let ops = [
            write(0, b"one"),
            Op::Sync { file: "a".into(), before: 1, directory: false },
            Op::Ack(0),
            write(3, b"two"),
        ];
        let mut chance = StdRng::seed_from_u64(1);
        let mut after = |until, kept, dropped| {
            after(&ops, until, Weather { kept, dropped }, &mut chance).remove("a").unwrap_or_default()
        };
        assert_eq!(after(4, 100, 0), b"onetwo");
        assert!(after(4, 0, 100).starts_with(b"one"));
        assert_ne!(after(4, 0, 100), b"onetwo");
        assert!(after(1, 0, 100) != b"one", "nothing was synced yet");
        assert_eq!((acknowledged(&ops, 4), acknowledged(&ops, 2)), (Some(0), None));
    }

    #[test]
    fn writes_are_torn_at_the_edges_of_sectors() {
        let ops = [write(500, &[7; 1_000])];
        let mut chance = StdRng::seed_from_u64(1);
        let mut seen = BTreeSet::new();
        for _ in 0..200 {
            let files = after(&ops, 1, Weather { kept: 0, dropped: 0 }, &mut chance);
            let mut bytes = files.get("a").cloned().unwrap_or_default();
            bytes.resize(1_500, 0);
            let pieces = [&bytes[500..512], &bytes[512..1_024], &bytes[1_024..1_500]];
            assert!(pieces.iter().all(|piece| piece.iter().all(|byte| byte == &piece[0])));
            seen.insert(pieces.map(|piece| piece[0]));
        }
        assert_eq!(seen.len(), 8, "every subset of the three sectors");
    }

    #[test]
    fn a_deletion_that_did_not_happen_leaves_the_old_file() {
        let ops = [
            write(0, b"old"),
            Op::Sync { file: "a".into(), before: 1, directory: false },
            Op::Delete { file: "a".into(), synced: false },
            write(0, b"new"),
        ];
        let mut chance = StdRng::seed_from_u64(1);
        let lost = after(&ops, 4, Weather { kept: 0, dropped: 100 }, &mut chance);
        assert_eq!(lost["a"], b"old");
        let kept = after(&ops, 4, Weather { kept: 100, dropped: 0 }, &mut chance);
        assert_eq!(kept["a"], b"new");
        // Once the directory is synced, the old file is gone for good.
        let made = Op::Sync { file: "b".into(), before: 4, directory: true };
        let ops: Vec<Op> = ops.into_iter().chain([made]).collect();
        assert_ne!(after(&ops, 5, Weather { kept: 0, dropped: 100 }, &mut chance).get("a"), Some(&b"old".to_vec()));
    }
}
