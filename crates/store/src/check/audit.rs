//! The reads of a checker: whole tables, in order, on one snapshot.

use crate::reads::WholeRun;
use crate::rows::*;
use crate::tx::Result;
use semel_core::admission::{Claim, Lane};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};

/// A row, or what is wrong with it.
pub type Seen<T> = std::result::Result<T, String>;

/// Rows that belong to runs and are read in order of run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    Snapshots,
    /// In order of seq within a run.
    Journal,
    Timers,
    /// In order of id within a run.
    Errands,
    Effects,
    /// In order of seq within a run.
    Inbox,
    /// Decisions that name a run, in order of seq within a run.
    Decisions,
}

impl Table {
    pub const ALL: [Table; 7] = [
        Table::Snapshots,
        Table::Journal,
        Table::Timers,
        Table::Errands,
        Table::Effects,
        Table::Inbox,
        Table::Decisions,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Table::Snapshots => "snapshots",
            Table::Journal => "journal",
            Table::Timers => "timers",
            Table::Errands => "errands",
            Table::Effects => "effects",
            Table::Inbox => "inbox",
            Table::Decisions => "decisions",
        }
    }
}

#[derive(Clone, Debug)]
pub enum Row {
    Snapshot(SnapshotRow),
    Journal(JournalRow),
    Timer(TimerRow),
    Errand(Box<ErrandRow>),
    Effect(EffectRow),
    Inbox(RunId, u64, Inbox),
    Decision(Box<DecisionRow>),
}

impl Row {
    pub fn run(&self) -> Option<RunId> {
        match self {
            Row::Snapshot(row) => Some(row.run),
            Row::Journal(row) => Some(row.run),
            Row::Timer(row) => Some(row.run),
            Row::Errand(row) => Some(row.run),
            Row::Effect(row) => Some(row.run),
            Row::Inbox(run, _, _) => Some(*run),
            Row::Decision(row) => row.run,
        }
    }
}

/// Keys after `after` up to and with `upto`; `None` is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span<K> {
    pub after: Option<K>,
    pub upto: Option<K>,
}

impl<K: Ord> Span<K> {
    pub fn has(&self, key: &K) -> bool {
        self.after.as_ref().is_none_or(|after| key > after) && self.upto.as_ref().is_none_or(|upto| key <= upto)
    }
}

/// What a checker may ask. All answers come from one snapshot. A row that cannot be decoded is
/// handed over as [`Seen`] error and the scan goes on; an `Err` means that the scan cannot.
pub trait Audit {
    /// Every workspace that has a row, in order.
    fn workspaces(&self) -> Result<Vec<WorkspaceId>>;
    /// Whole runs in order of id.
    fn runs(&self, workspace: &WorkspaceId, after: Option<RunId>, limit: u32) -> Result<Vec<(RunId, Seen<WholeRun>)>>;
    /// Rows of runs of the span, in order of run.
    fn rows(
        &self,
        workspace: &WorkspaceId,
        table: Table,
        span: Span<RunId>,
        see: &mut dyn FnMut(Seen<Row>),
    ) -> Result<()>;
    /// Claims in order of hash.
    fn claims(&self, workspace: &WorkspaceId, after: Option<Hash16>, limit: u32) -> Result<Vec<(Hash16, Seen<Claim>)>>;
    /// Decisions under claims of the span, in order of claim, then seq.
    fn decisions_of_claims(
        &self,
        workspace: &WorkspaceId,
        span: Span<Hash16>,
        see: &mut dyn FnMut(Seen<DecisionRow>),
    ) -> Result<()>;
    /// Decisions that name no run.
    fn decisions_without_run(&self, workspace: &WorkspaceId, see: &mut dyn FnMut(Seen<DecisionRow>)) -> Result<()>;
    /// Set in a store that was made from a backup.
    fn restored(&self) -> Result<Option<RestoredRow>>;
    /// Sequence number and instant of the oldest decision that is kept.
    fn oldest_decision(&self) -> Result<Option<(u64, Millis)>>;
    /// Hashes of lanes that have a head or a line, in order.
    fn lanes(&self, workspace: &WorkspaceId) -> Result<Vec<Hash16>>;

    fn lane(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Lane>;
    fn line(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Vec<RunId>>;
    fn head(&self, workspace: &WorkspaceId, id: RunId) -> Result<Option<RunRow>>;
    fn inbox(&self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<(u64, Inbox)>>;
    fn claim(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Option<Claim>>;
    fn claims_of_run(&self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<Claim>>;
    fn flow(&self, workspace: &WorkspaceId, flow: &FlowRef, revision: u32) -> Result<Option<FlowRow>>;
    /// Rows with seq > `after`.
    fn logs(&self, workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Result<Vec<LogRow>>;
}

/// The text for a row of a table that cannot be decoded.
pub fn damaged_row(table: &str, why: impl std::fmt::Display) -> String {
    format!("a row of {table} cannot be read: {why}")
}
