//! The read side: short, committed snapshots, each bounded.

use crate::check::Audit;
use crate::rows::*;
use crate::search::RunSearch;
use crate::tx::Result;
use crate::work::ErrandQueue;
use semel_core::admission::{Claim, ClaimState, Decision};
use semel_core::ir::ErrandKind;
use semel_core::run::Status;
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use serde_json::Value as Json;

/// A run as loaded for driving: head, cached state if any, and the journal after it.
#[derive(Clone, Debug)]
pub struct LoadedRun {
    pub row: RunRow,
    /// Only if its format is the current one.
    pub snapshot: Option<SnapshotRow>,
    pub labels: Vec<(String, String)>,
    pub inbox: Vec<(u64, Inbox)>,
    /// Another node drives it, or did and has gone: nobody else may write until it is adopted.
    pub elsewhere: bool,
}

/// A run's head, its values and its labels.
pub type WholeRun = (RunRow, RunValues, Vec<(String, String)>);

/// Filters of a list of runs; newest first.
#[derive(Clone, Debug, Default)]
pub struct RunQuery {
    pub namespace: Option<String>,
    pub flow_id: Option<String>,
    pub statuses: Vec<Status>,
    /// All must be present.
    pub labels: Vec<(String, String)>,
    pub key: Option<String>,
    pub correlation_id: Option<String>,
    pub parent: Option<RunId>,
    pub created_from: Option<Millis>,
    pub created_to: Option<Millis>,
    /// Only runs before this id (the last of the previous page).
    pub before: Option<RunId>,
    pub limit: u32,
}

#[derive(Clone, Debug, Default)]
pub struct DecisionQuery {
    pub run: Option<RunId>,
    pub claim: Option<Hash16>,
    pub key: Option<String>,
    pub flow: Option<FlowRef>,
    pub decisions: Vec<Decision>,
    /// Only rows with a smaller sequence number; newest first.
    pub before: Option<u64>,
    pub limit: u32,
}

#[derive(Clone, Debug, Default)]
pub struct ClaimQuery {
    pub key: Option<String>,
    pub scope: Option<String>,
    pub run: Option<RunId>,
    pub states: Vec<ClaimState>,
    /// Only claims after this hash; ordered by hash.
    pub after: Option<Hash16>,
    pub limit: u32,
}

/// Filters of a list of log lines.
#[derive(Clone, Debug, Default)]
pub struct LogQuery {
    pub run: Option<RunId>,
    /// Only lines of runs of these flows.
    pub flows: Option<Vec<FlowRef>>,
    /// One of these; all of them when empty. Words of ours.
    pub levels: Vec<&'static str>,
    /// From this instant on.
    pub from: Option<Millis>,
    /// Before this instant.
    pub to: Option<Millis>,
    /// In the message, in any case.
    pub text: Option<String>,
    /// Newest first unless it is set.
    pub oldest_first: bool,
    pub skip: u64,
    pub limit: u32,
}

pub trait Reads: Send + Sync {
    fn load_run(&self, workspace: &WorkspaceId, id: RunId) -> Result<Option<LoadedRun>>;
    fn run(&self, workspace: &WorkspaceId, id: RunId) -> Result<Option<WholeRun>>;
    /// Those of them that are there, in no order. A store that is far away finds them in one journey.
    fn runs_named(&self, workspace: &WorkspaceId, ids: &[RunId]) -> Result<Vec<WholeRun>> {
        ids.iter().filter_map(|id| self.run(workspace, *id).transpose()).collect()
    }
    fn runs(&self, workspace: &WorkspaceId, query: &RunQuery) -> Result<Vec<WholeRun>>;
    /// One page, and how many there are on all pages, of one snapshot.
    fn search_runs(&self, workspace: &WorkspaceId, search: &RunSearch) -> Result<(Vec<WholeRun>, u64)>;
    /// The flows that have runs, in no order.
    fn flows_with_runs(&self, workspace: &WorkspaceId) -> Result<Vec<FlowRef>>;
    /// Rows with seq > `after`, in order.
    fn journal(&self, workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Result<Vec<JournalRow>>;
    fn logs(&self, workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Result<Vec<LogRow>>;
    /// Lines of all runs, each with its flow, and how many there are without the page.
    fn log_search(&self, workspace: &WorkspaceId, query: &LogQuery) -> Result<(Vec<(FlowRef, LogRow)>, u64)>;
    fn errand(&self, workspace: &WorkspaceId, id: Hash16) -> Result<Option<ErrandRow>>;
    /// Errands of a run, those that have ended included, in order of id.
    fn errands_of(&self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<ErrandRow>>;
    /// Open errands of one kind, in order of id, after the given one.
    fn errands(
        &self,
        workspace: &WorkspaceId,
        kind: ErrandKind,
        after: Option<Hash16>,
        limit: u32,
    ) -> Result<Vec<ErrandRow>>;
    /// Whether a worker would get something from this queue now.
    fn has_free_errand(&self, workspace: &WorkspaceId, from: &ErrandQueue) -> Result<bool>;
    /// How many wait in each queue and domain, and how many others somebody has.
    fn errand_counts(&self, workspace: &WorkspaceId) -> Result<Vec<(ErrandQueue, u64, u64)>>;
    /// When the first errand of all is due.
    fn next_errand(&self) -> Result<Option<Millis>>;
    fn effects(&self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<EffectRow>>;
    fn decisions(&self, workspace: &WorkspaceId, query: &DecisionQuery) -> Result<Vec<DecisionRow>>;
    fn claims(&self, workspace: &WorkspaceId, query: &ClaimQuery) -> Result<Vec<Claim>>;
    fn claim(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Option<Claim>>;
    /// `revision: None` is the newest, or nothing if the flow was deleted.
    fn flow(&self, workspace: &WorkspaceId, flow: &FlowRef, revision: Option<u32>) -> Result<Option<FlowRow>>;
    /// All of them, oldest first, also those of a flow that was deleted.
    fn flow_revisions(&self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Vec<FlowRow>>;
    /// Newest revisions of flows that were not deleted, ordered by (namespace, id), after the given one.
    fn flows(&self, workspace: &WorkspaceId, after: Option<&FlowRef>, limit: u32) -> Result<Vec<FlowRow>>;
    /// Newest revisions of flows with this id in any namespace, without those that were deleted.
    fn flows_named(&self, workspace: &WorkspaceId, id: &str) -> Result<Vec<FlowRow>>;
    /// Names of all flows there have ever been, in order.
    fn flow_names(&self, workspace: &WorkspaceId) -> Result<Vec<FlowRef>>;
    /// Namespaces that have keys, in order.
    fn kv_namespaces(&self, workspace: &WorkspaceId) -> Result<Vec<String>>;
    /// Expired rows are not returned as live: the caller gets them with `expires_at` in the past.
    fn kv(&self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<Option<KvRow>>;
    fn kv_list(&self, workspace: &WorkspaceId, namespace: &str, after: Option<&str>, limit: u32) -> Result<Vec<KvRow>>;
    fn file(&self, workspace: &WorkspaceId, run: RunId, path: &str) -> Result<Option<FileRow>>;
    /// Files of a run after the given path, in order of path.
    fn files(&self, workspace: &WorkspaceId, run: RunId, after: Option<&str>, limit: u32) -> Result<Vec<FileRow>>;
    fn file_chunk(&self, workspace: &WorkspaceId, run: RunId, file: Hash16, number: u32) -> Result<Option<Vec<u8>>>;
    /// `version: None` is the newest that is not retired.
    fn secret(&self, workspace: &WorkspaceId, name: &str, version: Option<u64>) -> Result<Option<SecretRow>>;
    /// Newest versions that are not retired, by name.
    fn secrets(&self, workspace: &WorkspaceId) -> Result<Vec<SecretRow>>;
    fn token(&self, id: &str) -> Result<Option<TokenRow>>;
    fn tokens(&self, workspace: &WorkspaceId) -> Result<Vec<TokenRow>>;
    fn workspaces(&self) -> Result<Vec<WorkspaceRow>>;

    /// Runs that a node must drive, in order of id, after the given one.
    fn active_runs(&self, after: Option<RunId>, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>>;
    /// Timers due at `now`, earliest first.
    fn due_timers(&self, now: Millis, limit: u32) -> Result<Vec<TimerRow>>;
    /// The earliest timer of all.
    fn next_timer(&self) -> Result<Option<Millis>>;
    fn due_schedules(&self, now: Millis, limit: u32) -> Result<Vec<ScheduleRow>>;
    fn next_schedule(&self) -> Result<Option<Millis>>;
    fn schedules(&self, workspace: &WorkspaceId) -> Result<Vec<ScheduleRow>>;
    /// Changes at or before `before` that triggers have yet to hear of, in order of time, workspace, run and version.
    fn changes(&self, before: Millis, limit: u32) -> Result<Vec<ChangeRow>>;

    /// Every row of every table in a fixed order, for tests and the checker.
    fn dump(&self) -> Result<Json>;
    /// Shows one snapshot of everything, page by page, to whoever must see all of it.
    fn audit(&self, look: &mut dyn FnMut(&dyn Audit) -> Result<()>) -> Result<()>;
}
