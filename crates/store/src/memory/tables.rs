//! The tables of the oracle, and the dump that every store shares.

use crate::rows::*;
use crate::words::TaskWord;
use semel_core::admission::{Claim, Lane, TOMBSTONE_MS, Window};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use serde::Serialize;
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};

pub(super) type RunKey = (WorkspaceId, RunId);
pub type Labels = Vec<(String, String)>;

/// Every table, in order of its primary key. Other stores load themselves into this to dump.
#[derive(Clone, Default)]
pub struct Tables {
    pub claims: BTreeMap<(WorkspaceId, Hash16), Claim>,
    pub lanes: BTreeMap<(WorkspaceId, Hash16), Lane>,
    pub queues: BTreeMap<(WorkspaceId, Hash16, u64), RunId>,
    pub runs: BTreeMap<RunKey, RunRow>,
    pub run_values: BTreeMap<RunKey, RunValues>,
    pub labels: BTreeMap<RunKey, Labels>,
    pub journal: BTreeMap<(WorkspaceId, RunId, u64), JournalRow>,
    pub snapshots: BTreeMap<RunKey, SnapshotRow>,
    pub timers: BTreeMap<(WorkspaceId, RunId, u64), TimerRow>,
    pub errands: BTreeMap<(WorkspaceId, Hash16), ErrandRow>,
    pub effects: BTreeMap<(WorkspaceId, RunId, Hash16), EffectRow>,
    pub task_words: BTreeMap<(WorkspaceId, RunId, TaskWord), ()>,
    pub logs: BTreeMap<(WorkspaceId, RunId, u64), LogRow>,
    pub inbox: BTreeMap<(WorkspaceId, RunId, u64), Inbox>,
    pub files: BTreeMap<(WorkspaceId, RunId, String), FileRow>,
    pub chunks: BTreeMap<(WorkspaceId, RunId, (Hash16, u32)), Vec<u8>>,
    /// Files that were begun, and when, until a sweep has seen what became of them.
    pub uploads: BTreeMap<(WorkspaceId, RunId, Hash16), Millis>,
    pub decisions: BTreeMap<u64, DecisionRow>,
    pub kv: BTreeMap<(WorkspaceId, String, String), KvRow>,
    pub flows: BTreeMap<(WorkspaceId, FlowRef, u32), FlowRow>,
    pub schedules: BTreeMap<(WorkspaceId, FlowRef, String), ScheduleRow>,
    pub changes: BTreeMap<(WorkspaceId, RunId, u64), ChangeRow>,
    pub secrets: BTreeMap<(WorkspaceId, String, u64), SecretRow>,
    pub tokens: BTreeMap<String, TokenRow>,
    pub workspaces: BTreeMap<WorkspaceId, WorkspaceRow>,
    pub restored: Option<RestoredRow>,
    /// Numbers given so far; never given twice, even after the row is gone.
    pub last_decision: u64,
    pub last_inbox: u64,
}

/// When a claim may be forgotten; `None` while it cannot expire.
///
/// Agrees with [`Claim::prior`]: a claim that lives only as long as its run leaves no tombstone.
pub fn forget_at(claim: &Claim) -> Option<Millis> {
    let end = claim.expires_at()?;
    Some(if claim.window == Window::WhileLive { end } else { end.plus(TOMBSTONE_MS) })
}

impl Tables {
    pub(super) fn errands_in(&self, workspace: &WorkspaceId) -> impl Iterator<Item = &ErrandRow> {
        let key = |byte: u8| (workspace.clone(), Hash16([byte; 16]));
        self.errands.range(key(0)..=key(u8::MAX)).map(|(_, row)| row)
    }

    pub(super) fn errands_of(&self, workspace: &WorkspaceId, run: RunId) -> impl Iterator<Item = &ErrandRow> {
        self.errands_in(workspace).filter(move |row| row.run == run)
    }

    pub(super) fn words_of(&self, workspace: &WorkspaceId, run: RunId) -> BTreeSet<TaskWord> {
        let of_run = self.task_words.keys().filter(|(ws, of, _)| ws == workspace && *of == run);
        of_run.map(|(_, _, word)| word.clone()).collect()
    }

    /// Who waits in a lane, in order, with the number of their row.
    pub(super) fn queue_of(
        &self,
        workspace: &WorkspaceId,
        hash: Hash16,
    ) -> impl DoubleEndedIterator<Item = (u64, RunId)> {
        let key = |seq: u64| (workspace.clone(), hash, seq);
        self.queues.range(key(0)..=key(u64::MAX)).map(|((_, _, seq), run)| (*seq, *run))
    }

    /// One object, a list of rows per table, rows in order of primary key.
    pub fn dump(&self) -> Json {
        json!({
            "claims": list(self.claims.iter().map(|((ws, _), claim)| row(ws, claim))),
            "lanes": list(self.lanes.iter().map(|((ws, hash), lane)| {
                let queue: Vec<RunId> = self.queue_of(ws, *hash).map(|(_, run)| run).collect();
                with(with(row(ws, lane), "hash", json!(hash)), "queue", json!(queue))
            })),
            "runs": list(self.runs.iter().map(|((ws, _), run)| row(ws, run))),
            "run_values": list(self.run_values.iter().map(|((ws, run), v)| with(row(ws, v), "run", json!(run)))),
            "labels": list(self.labels.iter().filter(|(_, l)| !l.is_empty()).map(|((ws, run), labels)| {
                json!({"workspace": ws, "run": run, "labels": labels})
            })),
            "journal": list(self.journal.iter().map(|((ws, _, _), r)| journal_row(ws, r))),
            "snapshots": list(self.snapshots.iter().map(|((ws, _), r)| with(row(ws, r), "state", text(&r.state)))),
            "timers": list(self.timers.values().map(|timer| json!(timer))),
            "errands": list(self.errands.iter().map(|((ws, _), errand)| row(ws, errand))),
            "effects": list(self.effects.iter().map(|((ws, _, _), effect)| row(ws, effect))),
            "task_words": list(self.task_words.keys().map(|(ws, run, word)| with(row(ws, word), "run", json!(run)))),
            "logs": list(self.logs.iter().map(|((ws, _, _), log)| row(ws, log))),
            "inbox": list(self.inbox.iter().map(|((ws, run, seq), message)| {
                json!({"workspace": ws, "run": run, "seq": seq, "message": message})
            })),
            "files": list(self.files.iter().map(|((ws, _, _), file)| row(ws, file))),
            "chunks": list(self.chunks.iter().map(|((ws, run, (file, number)), bytes)| {
                json!({"workspace": ws, "run": run, "file": file, "number": number, "bytes": text(bytes)})
            })),
            "uploads": list(self.uploads.iter().map(|((ws, run, file), at)| {
                json!({"workspace": ws, "run": run, "file": file, "at": at})
            })),
            "decisions": list(self.decisions.values().map(|decision| json!(decision))),
            "kv": list(self.kv.iter().map(|((ws, _, _), kv)| row(ws, kv))),
            "flows": list(self.flows.values().map(|flow| json!(flow))),
            "schedules": list(self.schedules.values().map(|schedule| json!(schedule))),
            "changes": list(self.changes.values().map(|change| json!(change))),
            "secrets": list(self.secrets.values().map(|secret| json!(secret))),
            "tokens": list(self.tokens.values().map(|token| json!(token))),
            "workspaces": list(self.workspaces.values().map(|workspace| json!(workspace))),
        })
    }
}

fn list(rows: impl Iterator<Item = Json>) -> Json {
    Json::Array(rows.collect())
}

/// A row that does not name its workspace, with its workspace.
fn row<T: Serialize>(workspace: &WorkspaceId, value: &T) -> Json {
    let mut map = Map::new();
    map.insert("workspace".into(), json!(workspace));
    if let Json::Object(fields) = json!(value) {
        map.extend(fields);
    }
    Json::Object(map)
}

fn with(mut row: Json, name: &str, value: Json) -> Json {
    row[name] = value;
    row
}

fn journal_row(workspace: &WorkspaceId, journal: &JournalRow) -> Json {
    let values = journal.values.as_deref().map_or(Json::Null, text);
    with(with(row(workspace, journal), "events", text(&journal.events)), "values", values)
}

/// Bytes as people can read them: most are JSON text.
fn text(bytes: &[u8]) -> Json {
    match std::str::from_utf8(bytes) {
        Ok(text) => json!(text),
        Err(_) => json!(bytes),
    }
}
