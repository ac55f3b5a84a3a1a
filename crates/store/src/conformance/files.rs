//! Files of runs: written in chunks, seen whole, gone with their run.

use super::bench::{Bench, DAY_MS, other_ws};
use crate::*;
use semel_core::run::EndStatus;
use semel_core::{Hash16, RunId};

fn chunk(b: &Bench, run: RunId, file: u8, number: u32, bytes: &[u8]) {
    let chunk = FileChunk { workspace: b.ws(), run, file: Hash16([file; 16]), number, bytes: bytes.to_vec() };
    assert!(matches!(b.call(Work::PutChunk(Box::new(chunk))), Done::Unit));
}

fn row(b: &Bench, run: RunId, path: &str, file: u8, chunks: u32) -> FileRow {
    FileRow { run, path: path.into(), file: Hash16([file; 16]), bytes: u64::from(chunks) * 2, chunks, at: b.now() }
}

/// Makes the file whole, with its last chunk if one is given.
fn put(b: &Bench, row: FileRow, last: Option<&[u8]>) -> Done {
    b.call(Work::PutFile { workspace: b.ws(), row: Box::new(row), last: last.map(<[u8]>::to_vec) })
}

fn small(b: &Bench, run: RunId, path: &str, file: u8, bytes: &[u8]) {
    let row = FileRow { bytes: bytes.len() as u64, ..row(b, run, path, file, 1) };
    assert!(matches!(put(b, row, Some(bytes)), Done::Unit));
}

fn contents(b: &Bench, run: RunId, path: &str) -> Option<Vec<u8>> {
    let row = b.store.file(&b.ws(), run, path).unwrap()?;
    let chunk = |number| b.store.file_chunk(&b.ws(), run, row.file, number).unwrap().expect("the chunk is there");
    Some((0..row.chunks).flat_map(chunk).collect())
}

pub fn a_file_is_seen_when_it_is_whole(b: &Bench) {
    let run = b.start(b.event());
    chunk(b, run, 1, 0, b"ab");
    chunk(b, run, 1, 1, b"cd");
    assert_eq!(b.store.file(&b.ws(), run, "/f").unwrap(), None);
    let whole = row(b, run, "/f", 1, 2);
    put(b, whole.clone(), None);
    assert_eq!(b.store.file(&b.ws(), run, "/f").unwrap(), Some(whole));
    assert_eq!(contents(b, run, "/f").unwrap(), b"abcd");
}

pub fn a_file_comes_back_byte_for_byte(b: &Bench) {
    let run = b.start(b.event());
    let bytes: Vec<u8> = (0..=255).cycle().take(70_000).collect();
    small(b, run, "/every/byte", 1, &bytes);
    assert_eq!(contents(b, run, "/every/byte").unwrap(), bytes);
    assert_eq!(b.store.file_chunk(&b.ws(), run, Hash16([1; 16]), 1).unwrap(), None);
}

pub fn an_empty_file_is_one(b: &Bench) {
    let run = b.start(b.event());
    put(b, row(b, run, "/empty", 1, 0), None);
    assert_eq!(contents(b, run, "/empty").unwrap(), b"");
}

pub fn a_file_is_replaced_as_a_whole(b: &Bench) {
    let run = b.start(b.event());
    chunk(b, run, 1, 0, b"ab");
    chunk(b, run, 1, 1, b"cd");
    put(b, row(b, run, "/f", 1, 2), None);
    chunk(b, run, 2, 0, b"xy");
    assert_eq!(contents(b, run, "/f").unwrap(), b"abcd");
    put(b, row(b, run, "/f", 2, 1), None);
    assert_eq!(contents(b, run, "/f").unwrap(), b"xy");
    // What it was before is not kept anywhere.
    assert_eq!((b.rows("files").len(), b.rows("chunks").len()), (1, 1));
}

pub fn a_deleted_file_leaves_nothing(b: &Bench) {
    let run = b.start(b.event());
    small(b, run, "/f", 1, b"ab");
    let delete = || b.call(Work::DeleteFile { workspace: b.ws(), run, path: "/f".into() });
    assert!(matches!(delete(), Done::Unit));
    assert!(matches!(delete(), Done::Missing));
    assert_eq!((b.rows("files").len(), b.rows("chunks").len()), (0, 0));
}

pub fn files_are_listed_in_pages(b: &Bench) {
    let (run, other) = (b.start(b.event()), b.start(b.event()));
    for (number, path) in (1..).zip(["/b", "/a", "/c"]) {
        small(b, run, path, number, b"ab");
    }
    small(b, other, "/d", 1, b"ab");
    let page = |after: Option<&str>, limit| {
        let rows = b.store.files(&b.ws(), run, after, limit).unwrap();
        rows.into_iter().map(|row| row.path).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 2), ["/a", "/b"]);
    assert_eq!(page(Some("/b"), 2), ["/c"]);
}

pub fn files_stay_in_their_workspace(b: &Bench) {
    let run = b.start(b.event());
    small(b, run, "/f", 1, b"ab");
    assert_eq!(b.store.file(&other_ws(), run, "/f").unwrap(), None);
    assert!(b.store.files(&other_ws(), run, None, 9).unwrap().is_empty());
    assert_eq!(b.store.file_chunk(&other_ws(), run, Hash16([1; 16]), 0).unwrap(), None);
    assert!(matches!(b.call(Work::DeleteFile { workspace: other_ws(), run, path: "/f".into() }), Done::Missing));
    assert_eq!(contents(b, run, "/f").unwrap(), b"ab");
}

fn is_gone(b: &Bench, run: RunId) {
    for table in ["files", "chunks", "uploads"] {
        assert!(!b.rows(table).iter().any(|row| row.to_string().contains(&run.to_string())), "{table}");
        assert_eq!(b.rows(table).len(), 1, "{table}");
    }
}

/// A run that has ended with a file, and another beside it.
fn two(b: &Bench) -> RunId {
    let (gone, kept) = (b.start(b.keyed("gone")), b.start(b.keyed("kept")));
    small(b, gone, "/f", 1, b"ab");
    small(b, kept, "/f", 1, b"ab");
    b.end(gone, EndStatus::Completed);
    gone
}

pub fn files_go_with_their_run(b: &Bench) {
    let gone = two(b);
    b.call(Work::DeleteRun { workspace: b.ws(), run: gone });
    is_gone(b, gone);
}

pub fn files_are_erased_with_the_payloads(b: &Bench) {
    let gone = two(b);
    b.call(Work::EraseRun { workspace: b.ws(), run: gone });
    is_gone(b, gone);
}

pub fn an_erased_run_gets_no_file(b: &Bench) {
    let run = b.ended("a", EndStatus::Completed);
    b.call(Work::EraseRun { workspace: b.ws(), run });
    assert!(matches!(put(b, row(b, run, "/f", 1, 1), Some(b"ab")), Done::Missing));
    assert!(b.rows("files").is_empty() && b.rows("chunks").is_empty());
}

pub fn a_sweep_drops_what_came_to_nothing(b: &Bench) {
    let run = b.start(b.event());
    chunk(b, run, 1, 0, b"ab");
    // The input of a run that was never admitted.
    small(b, b.id(), "/input", 2, b"ab");
    b.pass(DAY_MS);
    assert_eq!(b.sweep(100), 0);
    b.pass(1);
    assert_eq!(b.sweep(100), 2);
    for table in ["files", "chunks", "uploads"] {
        assert!(b.rows(table).is_empty(), "{table}");
    }
}

pub fn a_sweep_keeps_what_a_namespace_has(b: &Bench) {
    let (shelf, prefix) = semel_core::files::shelf("company.team");
    small(b, shelf, &format!("{prefix}f"), 1, b"ab");
    // Half of one, that came to nothing.
    chunk(b, shelf, 2, 0, b"xy");
    b.pass(DAY_MS + 1);
    assert_eq!(b.sweep(100), 2);
    assert_eq!(contents(b, shelf, &format!("{prefix}f")).unwrap(), b"ab");
    assert_eq!((b.rows("chunks").len(), b.rows("uploads").len()), (1, 0));
}

pub fn a_sweep_keeps_what_a_run_has(b: &Bench) {
    let run = b.start(b.event());
    small(b, run, "/f", 1, b"ab");
    b.pass(DAY_MS + 1);
    assert_eq!(b.sweep(100), 1);
    assert_eq!(contents(b, run, "/f").unwrap(), b"ab");
    assert!(b.rows("uploads").is_empty());
}
