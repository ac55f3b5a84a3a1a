//! Power cuts: the files that a machine may find afterwards, opened with the real store.
//!
//! `SEMEL_IMAGES=N` asks for more images, `SEMEL_IMAGE_SEED=N` for other scripts.

use crate::number;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rusqlite::{Connection, OpenFlags};
use semel_core::WorkspaceId;
use semel_store::Reads;
use semel_store_sqlite::{APPLICATION_ID, Options, SCHEMA_VERSION, SqliteStore};
use semel_verify::disk::Disk;
use semel_verify::disk::cuts::{self, Tally};
use semel_verify::disk::image::{self, Weather};
use semel_verify::disk::script::{self, Found, Script};
use std::collections::BTreeMap;
use std::path::Path;

const IMAGES: u64 = 5_000;

#[test]
fn no_power_cut_loses_what_was_answered() {
    let tally = cuts::run(number("SEMEL_IMAGES", IMAGES), number("SEMEL_IMAGE_SEED", 1), &[]);
    eprintln!("SUMMARY crash_images {tally}");
    assert_eq!(tally.bad(), 0, "{tally:#?}");
}

/// The images can go red: a store that does not wait for the disk loses answers, and that is seen.
#[test]
fn control_a_store_that_does_not_sync_its_commits_loses() {
    let tally = cuts::run(500, 1, &[("synchronous", "NORMAL")]);
    eprintln!("SUMMARY crash_images_control_normal {tally}");
    assert!(tally.lost > 50, "{tally:#?}");
    // It forgets the end, and makes nothing up: SQLite keeps its word there too.
    assert_eq!((tally.no_prefix, tally.damaged), (0, 0), "{tally:#?}");
}

/// A short script, and the power fails before each of its operations: all that was not synced is gone, or torn.
#[test]
fn a_short_script_survives_a_cut_at_every_point() {
    let recording = Script { seed: 7, writes: 10, lives: 2, alone: true, undone: vec![] }.record();
    let mut tally = Tally::default();
    let mut kinds = BTreeMap::new();
    for until in 0..=recording.ops.len() {
        for (kept, dropped) in [(0, 100), (0, 0)] {
            let weather = Weather { kept, dropped };
            let mut chance = StdRng::seed_from_u64(until as u64);
            let files = image::after(&recording.ops, until, weather, &mut chance);
            let found = recording.open(&files, until);
            if let Found::Prefix(length) = found {
                *kinds.entry(length).or_insert(0) += 1;
            }
            tally.add(&found, || format!("until {until}, {weather:?}"));
        }
    }
    eprintln!("SUMMARY crash_images_exhaustive {tally}");
    assert_eq!(tally.bad(), 0, "{tally:#?}");
    assert!(kinds.len() >= 6, "images of few states: {kinds:?}");
}

const OLD_SCHEMA: &str = include_str!("../../../store-sqlite/migrations/0001.sql");

/// A file of the first version with a value in it, as a process of that version left it.
fn old_file(disk: &Disk, path: &Path) {
    let file = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), disk.name()).expect("a file");
    file.pragma_update(None, "journal_mode", "WAL").expect("WAL");
    file.pragma_update(None, "synchronous", "FULL").expect("FULL");
    file.execute_batch(OLD_SCHEMA).expect("the old schema");
    file.execute_batch(
        "INSERT INTO workspaces (ws, name, created_at) VALUES (1, 'main', 1);
         INSERT INTO kv VALUES (1, 'shop', 'old', '\"kept\"', 'STRING', 1, 1, NULL);",
    )
    .expect("a value");
    file.pragma_update(None, "application_id", APPLICATION_ID).expect("ours");
    file.pragma_update(None, "user_version", 1).expect("the first version");
}

#[test]
fn a_migration_that_is_cut_off_loses_nothing_and_is_done_again() {
    let (disk, directory) = (Disk::register(), script::directory());
    let path = directory.path().join("semel.db");
    old_file(disk, &path);
    let before = disk.position();
    let options = |vfs: Option<String>| Options { vfs, readers: 1, cache_mib: 2, ..Options::default() };
    drop(SqliteStore::open(&path, options(Some(disk.name().to_owned()))).expect("it migrates"));
    let ops = disk.ops();
    assert!(ops.len() > before + 10, "nothing was migrated");
    for until in before..=ops.len() {
        for (kept, dropped) in [(0, 100), (100, 0), (0, 0)] {
            let mut chance = StdRng::seed_from_u64(until as u64);
            let files = image::after(&ops, until, Weather { kept, dropped }, &mut chance);
            let copy = script::directory();
            image::write(&files, copy.path()).expect("room for an image");
            let about = format!("until {until}, kept {kept}, dropped {dropped}");
            let path = copy.path().join("semel.db");
            let store = SqliteStore::open(&path, options(None)).unwrap_or_else(|error| panic!("{about}: {error}"));
            let value = store.kv(&WorkspaceId::default(), "shop", "old").expect("it reads");
            assert_eq!(value.expect(&about).value, "kept", "{about}");
            drop(store);
            let raw = Connection::open(&path).expect("a file");
            let version: i32 = raw.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a version");
            assert_eq!(version, SCHEMA_VERSION, "{about}");
        }
    }
}
