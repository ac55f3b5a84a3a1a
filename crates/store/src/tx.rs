//! The seam between rules and persistence.
//!
//! A store implements these row primitives inside one transaction; everything that decides
//! anything is written once, over this trait, in [`crate::script`]. Each method acts on rows of
//! the workspace it names and of no other.

use crate::error::StoreError;
use crate::rows::*;
use crate::words::TaskWord;
use crate::work::{ErrandQueue, FileChunk};
use semel_core::admission::{Claim, Lane};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use serde_json::Value as Json;

pub type Result<T> = std::result::Result<T, StoreError>;

/// What a decision looks at.
pub trait Look {
    /// The store's clock, read once per transaction; never goes back.
    fn now(&self) -> Millis;
    fn claim(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<Option<Claim>>;
    fn run(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<Option<RunRow>>;
}

/// Row primitives inside a transaction. `put_*` inserts or replaces by primary key.
pub trait Tx: Look {
    fn put_claim(&mut self, workspace: &WorkspaceId, claim: &Claim) -> Result<()>;
    fn delete_claim(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<()>;
    /// Ordered by hash.
    fn claims_of_run(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<Claim>>;

    fn lane(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<Lane>;
    /// An empty lane is not kept.
    fn put_lane(&mut self, workspace: &WorkspaceId, hash: Hash16, lane: &Lane) -> Result<()>;
    /// Who waits in the lane, first come first, at most `limit`.
    fn queue(&mut self, workspace: &WorkspaceId, hash: Hash16, limit: u32) -> Result<Vec<RunId>>;
    /// Puts a run at the end of the line.
    fn push_queue(&mut self, workspace: &WorkspaceId, hash: Hash16, run: RunId) -> Result<()>;
    /// Takes a run out of the line; false when it is not there.
    fn leave_queue(&mut self, workspace: &WorkspaceId, hash: Hash16, run: RunId) -> Result<bool>;

    /// True if this very transaction made the run, so that no other row can speak of it yet. A store that does not
    /// keep track says false, and is asked for the rows instead.
    fn is_new(&self, _workspace: &WorkspaceId, _id: RunId) -> bool {
        false
    }
    fn insert_run(&mut self, row: &RunRow, values: &RunValues, labels: &[(String, String)]) -> Result<()>;
    /// Updates the head; never touches values or labels.
    fn update_run(&mut self, row: &RunRow) -> Result<()>;
    fn run_values(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<RunValues>;
    fn put_run_values(&mut self, workspace: &WorkspaceId, id: RunId, values: &RunValues) -> Result<()>;
    /// Replaces outputs and failure; what the run was given stays.
    fn put_run_result(
        &mut self,
        workspace: &WorkspaceId,
        id: RunId,
        outputs: Option<&Json>,
        failure: Option<&Json>,
    ) -> Result<()>;
    /// Replaces the searchable labels.
    fn put_labels(&mut self, workspace: &WorkspaceId, id: RunId, labels: &[(String, String)]) -> Result<()>;
    /// Children in order of id.
    fn children(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<RunRow>>;
    /// Removes the run with its journal, snapshot, timers, errands, effects, words, logs, labels, inbox, files, changes and values.
    fn delete_run(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<()>;
    /// Drops every value column, the words, the logs, the inbox, the files and the keys in the decision log of a run;
    /// structure stays.
    fn erase_run(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<()>;

    fn append_journal(&mut self, workspace: &WorkspaceId, row: &JournalRow) -> Result<()>;
    fn put_snapshot(&mut self, workspace: &WorkspaceId, row: &SnapshotRow) -> Result<()>;

    fn put_timer(&mut self, row: &TimerRow) -> Result<()>;
    fn delete_timer(&mut self, workspace: &WorkspaceId, run: RunId, timer: u64) -> Result<()>;
    fn delete_timers(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<()>;

    fn errand(&mut self, workspace: &WorkspaceId, id: Hash16) -> Result<Option<ErrandRow>>;
    fn put_errand(&mut self, workspace: &WorkspaceId, row: &ErrandRow) -> Result<()>;
    /// Those of a run whose attempts have not ended, in order of id.
    fn open_errands(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<ErrandRow>>;
    /// Open ones of a queue and domain that nobody has and anybody may take now: higher priority first, then those that
    /// have been free for longer. Another transaction may be about to take some of those that are left out.
    fn free_errands(&mut self, workspace: &WorkspaceId, queue: &ErrandQueue, limit: u32) -> Result<Vec<ErrandRow>>;
    /// How many of a queue, whatever their domain, somebody has. Nobody else takes one before the commit.
    fn taken_errands(&mut self, workspace: &WorkspaceId, queue: &str) -> Result<u64>;
    /// Those that are due, earliest first.
    fn late_errands(&mut self, limit: u32) -> Result<Vec<(WorkspaceId, ErrandRow)>>;

    fn put_effect(&mut self, workspace: &WorkspaceId, row: &EffectRow) -> Result<()>;
    /// Once is enough: a word that is there stays.
    fn put_task_word(&mut self, workspace: &WorkspaceId, run: RunId, word: &TaskWord) -> Result<()>;
    fn append_log(&mut self, workspace: &WorkspaceId, row: &LogRow) -> Result<()>;
    /// Removes the lines of a run, but those from [`crate::RELEASED_FROM`] on.
    fn delete_logs(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<()>;
    /// Gives the row its sequence number.
    fn append_decision(&mut self, row: &DecisionRow) -> Result<u64>;

    /// Appends to the run's inbox.
    fn push_inbox(&mut self, workspace: &WorkspaceId, run: RunId, message: &Inbox) -> Result<()>;
    fn inbox(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<(u64, Inbox)>>;
    fn delete_inbox(&mut self, workspace: &WorkspaceId, run: RunId, seq: u64) -> Result<()>;
    /// Keeps the answer to a request that another node left. There is none where there are no other nodes.
    fn put_answer(&mut self, _ticket: Hash16, _refused: Option<&str>) -> Result<()> {
        Ok(())
    }
    /// Another node owns the run, which must exist.
    fn is_elsewhere(&self, _workspace: &WorkspaceId, _run: RunId) -> bool {
        false
    }

    fn kv(&mut self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<Option<KvRow>>;
    fn put_kv(&mut self, workspace: &WorkspaceId, row: &KvRow) -> Result<()>;
    fn delete_kv(&mut self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<()>;

    fn file(&mut self, workspace: &WorkspaceId, run: RunId, path: &str) -> Result<Option<FileRow>>;
    fn put_file(&mut self, workspace: &WorkspaceId, row: &FileRow) -> Result<()>;
    fn delete_file(&mut self, workspace: &WorkspaceId, run: RunId, path: &str) -> Result<()>;
    fn put_chunk(&mut self, chunk: &FileChunk) -> Result<()>;
    fn delete_chunks(&mut self, workspace: &WorkspaceId, run: RunId, file: Hash16) -> Result<()>;
    /// Notes that a file is being written, so that a sweep sees to it if it comes to nothing.
    fn put_upload(&mut self, workspace: &WorkspaceId, run: RunId, file: Hash16) -> Result<()>;

    /// The newest revision, be it the one that says that the flow is gone.
    fn flow_head(&mut self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Option<FlowRow>>;
    fn insert_flow(&mut self, row: &FlowRow) -> Result<()>;
    /// The flow's schedules, in order of trigger.
    fn flow_schedules(&mut self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Vec<ScheduleRow>>;
    /// Removes all schedules of the flow, then adds these.
    fn put_schedules(&mut self, workspace: &WorkspaceId, flow: &FlowRef, rows: &[ScheduleRow]) -> Result<()>;
    fn update_schedule(&mut self, row: &ScheduleRow) -> Result<()>;

    fn change(&mut self, workspace: &WorkspaceId, run: RunId, version: u64) -> Result<Option<ChangeRow>>;
    /// A change of this very version is not there yet.
    fn insert_change(&mut self, row: &ChangeRow) -> Result<()>;
    fn put_change(&mut self, row: &ChangeRow) -> Result<()>;
    fn delete_change(&mut self, workspace: &WorkspaceId, run: RunId, version: u64) -> Result<()>;

    /// Versions of one secret, oldest first.
    fn secret_versions(&mut self, workspace: &WorkspaceId, name: &str) -> Result<Vec<SecretRow>>;
    fn put_secret(&mut self, row: &SecretRow) -> Result<()>;

    fn token(&mut self, id: &str) -> Result<Option<TokenRow>>;
    fn put_token(&mut self, row: &TokenRow) -> Result<()>;
    fn workspace(&mut self, id: &WorkspaceId) -> Result<Option<WorkspaceRow>>;
    fn put_workspace(&mut self, row: &WorkspaceRow) -> Result<()>;

    /// When the store was last restored from a backup.
    fn restored_at(&self) -> Option<Millis>;
    fn put_restored(&mut self, row: &RestoredRow) -> Result<()>;
    /// Runs that have not ended, of every workspace, in order of workspace and id.
    fn open_runs(&mut self) -> Result<Vec<RunRow>>;

    /// Claims whose tombstone ended at or before `now`, any workspace, at most `limit`.
    fn forgotten_claims(&mut self, now: Millis, limit: u32) -> Result<Vec<(WorkspaceId, Hash16)>>;
    /// Deletes expired kv rows, at most `limit`; returns how many.
    fn sweep_kv(&mut self, now: Millis, limit: u32) -> Result<u64>;
    /// Settles uploads that began before `before`, at most `limit`: chunks that no file names go, and so do files of
    /// runs that are not there; those on a namespace's shelf stay. Returns how many uploads were settled.
    fn sweep_uploads(&mut self, before: Millis, limit: u32) -> Result<u64>;
    /// Deletes decision rows older than `before`, at most `limit`; returns how many.
    fn sweep_decisions(&mut self, before: Millis, limit: u32) -> Result<u64>;
    /// Ended runs (completed, failed, cancelled) that ended before `before` and to which no claim
    /// leads any more, at most `limit`.
    fn old_runs(&mut self, before: Millis, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>>;
}
