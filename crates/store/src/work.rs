//! What a store can be asked to write: run-sized verbs, each one atomic.

use crate::rows::*;
use crate::words::TaskWord;
use semel_core::admission::{Busy, Decision, KeySource, Policy, Prior, Reason};
use semel_core::fingerprint::Fingerprint;
use semel_core::run::{By, Conclusion, EndStatus, Event, Failure, Status, StepKey};
use semel_core::{Door, FlowRef, Hash16, Millis, RunId, WorkspaceId};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// One occurrence, prepared: everything that can be computed outside the transaction already is.
#[derive(Clone, Debug)]
pub struct AdmitRequest {
    pub workspace: WorkspaceId,
    pub flow: FlowRef,
    pub revision: u32,
    pub door: Door,
    pub occurrence: String,
    pub caller: String,
    pub key: Option<KeyClaim>,
    pub fingerprint: Fingerprint,
    pub policy: Policy,
    pub lane: Option<LaneRequest>,
    /// The id a new run would get.
    pub run: RunId,
    pub inputs: Json,
    pub trigger: Json,
    pub labels: Vec<(String, String)>,
    /// `None`: the run's own id.
    pub correlation_id: Option<String>,
    pub parent: Option<ParentRef>,
    /// `None`: the run itself.
    pub root: Option<RunId>,
    pub depth: u32,
    /// The occurrence is an instant of a schedule: it happens once, and moves the schedule on, in the same transaction.
    pub tick: Option<Tick>,
    /// The occurrence is a change of another run that a trigger has heard of: it happens once, as a tick does.
    pub hearing: Option<Hearing>,
    /// Flow triggers are to hear of runs that this admission ends.
    pub announced: bool,
    pub terms: Terms,
}

/// How a new run begins, where that is not at once and from the start.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Not before this instant. Its lane is asked then.
    pub start_at: Option<Millis>,
    /// It is made only to be seen: it has ended already.
    pub ended: Option<(EndStatus, Failure)>,
    pub replay: Option<Box<ReplayTerms>>,
    /// Tasks that it stops before.
    pub breakpoints: Vec<String>,
    pub retry: Option<Box<RetryTerms>>,
}

impl Terms {
    /// Whether the run begins with more than its creation, which is then read from its journal.
    pub fn is_told_by_journal(&self) -> bool {
        self.replay.is_some() || self.retry.is_some() || !self.breakpoints.is_empty()
    }
}

/// The new run takes the place of one that failed, and is the same logical run.
#[derive(Clone, Debug)]
pub struct RetryTerms {
    pub of: RunId,
    /// The first run of that line.
    pub original: RunId,
    pub logical: RunId,
    pub take: u32,
    pub warned: bool,
    /// All that happened to that run.
    pub events: Vec<Event>,
}

/// The new run does again what another one did.
#[derive(Clone, Debug)]
pub struct ReplayTerms {
    pub of: RunId,
    /// The first run of that line.
    pub original: RunId,
    /// What was read of that run: it must still be so.
    pub version: u64,
    /// Top-level tasks before this one are not done again: their events.
    pub from: u32,
    pub events: Vec<Event>,
    /// All labels of that run, with the one that says it was replayed.
    pub labels: Vec<(String, String)>,
}

/// A flow trigger has heard of a change of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Hearing {
    pub run: RunId,
    pub version: u64,
    pub at: Millis,
    pub flow: FlowRef,
    pub trigger: String,
    /// What the trigger remembered before and remembers from now on, if that changes.
    pub windows: Option<(Windows, Windows)>,
}

pub type Windows = BTreeMap<String, WindowState>;

/// An instant of one of the flow's schedules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The flow whose schedule it is, where that is not the one that is started.
    pub schedule: Option<FlowRef>,
    pub trigger: String,
    pub at: Millis,
    /// The instant after it.
    pub next: Option<Millis>,
    /// It is made up for by the backfill that is under way.
    pub backfill: bool,
}

/// What somebody wants of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub enum TriggerChange {
    Disable,
    Enable,
    Backfill(Box<Backfill>),
    PauseBackfill,
    ResumeBackfill,
    /// Before its end, or at it.
    EndBackfill,
    /// A poll has found something, and this run is about it.
    Started {
        run: RunId,
    },
    /// The trigger need not wait for the run that it started last.
    Unlock,
    /// As [`TriggerChange::Unlock`], and it is due at once unless it is switched off or makes up for the past.
    Restart,
    /// All that is remembered of it goes: it begins from now on, as after the push of its flow.
    Forget,
    /// An instant of the backfill is not wanted.
    SkipBackfill {
        at: Millis,
    },
}

#[derive(Clone, Debug)]
pub struct KeyClaim {
    pub hash: Hash16,
    pub key: String,
    pub scope: String,
    pub source: KeySource,
}

#[derive(Clone, Copy, Debug)]
pub struct LaneRequest {
    pub hash: Hash16,
    pub limit: u32,
    pub busy: Busy,
}

/// What was decided, and what the engine must now do about it.
#[derive(Clone, Debug)]
pub struct AdmitResult {
    pub decision: Decision,
    pub reason: Reason,
    /// The run the answer names; `None` only for refusals that must not name one.
    pub run: Option<RunRow>,
    /// A run was created by this occurrence.
    pub created: bool,
    pub same_payload: bool,
    pub prior: Prior,
    pub generation: u32,
    pub first_seen: Option<Millis>,
    pub expires_at: Option<Millis>,
    /// Runs whose drivers must drop them.
    pub fenced: Vec<RunId>,
    /// Runs that a node must look at.
    pub wake: Vec<RunId>,
    /// A timer was set for this instant.
    pub timer_due: Option<Millis>,
}

impl AdmitResult {
    /// The run that this occurrence made, if it is to be started.
    pub fn born(&self) -> Option<&RunRow> {
        self.run.as_ref().filter(|run| self.created && run.active && run.status == Status::Running)
    }
}

/// One step of a run's life: events and everything that follows from them.
#[derive(Clone, Debug)]
pub struct RunCommit {
    pub workspace: WorkspaceId,
    pub run: RunId,
    /// Guard: the commit applies only if the stored head still has both.
    pub epoch: u64,
    pub version: u64,
    /// Encoded events; empty when only ops or inbox changes are committed.
    pub events: Vec<u8>,
    pub values: Option<Vec<u8>>,
    pub head: HeadChange,
    pub timers_set: Vec<(u64, Millis)>,
    pub timers_cleared: Vec<u64>,
    pub errands: Vec<ErrandChange>,
    pub effects: Vec<EffectRow>,
    /// What searches over tasks find the run by from now on.
    pub task_words: Vec<TaskWord>,
    pub logs: Vec<LogRow>,
    pub labels: Option<Vec<(String, String)>>,
    pub inbox_consumed: Vec<u64>,
    /// To requests that were left by other nodes: why they were refused, if they were.
    pub answers: Vec<(Hash16, Option<String>)>,
    pub outputs: Option<Json>,
    pub failure: Option<Json>,
    /// Encoded state after these events.
    pub snapshot: Option<Vec<u8>>,
    pub ops: Vec<CommitOp>,
    pub settle: Settle,
    /// Cancel requests for other runs (children).
    pub cancels: Vec<(RunId, By)>,
    /// Kestra's word for the state that flow triggers are to hear of.
    pub announce: Option<String>,
    /// What the run is, where a person changed that.
    pub amend: Option<Box<Amend>>,
    /// Of a run that goes on by a person's wish.
    pub reopen: Option<Reopen>,
}

/// What a person changed about a run as it was admitted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Amend {
    pub flow: Option<(FlowRef, u32)>,
    pub inputs: Option<Json>,
    pub correlation_id: Option<String>,
}

/// What follows from a person's wish that an ended run goes on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reopen {
    /// The claim that the run was admitted by: another run may have it now, and must then have ended.
    pub claim: Option<Hash16>,
    /// Whoever waited for the run when it failed goes on too.
    pub lifts: Option<By>,
    /// A sub-run of it goes on already: neither a full lane nor another run of its key is in its way.
    pub forced: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadChange {
    pub status: Status,
    pub active: bool,
    pub open_intents: u32,
    pub open_doubts: u32,
    pub take: u32,
    pub warned: bool,
    pub conclusion: Option<Conclusion>,
}

/// What the commit means for the run's claim, lane and parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Settle {
    #[default]
    Unchanged,
    /// The run ended (again). The claim is Held while doubts are open.
    Ended { status: EndStatus },
    /// An ended run goes on by a person's wish: next generation, slot taken again.
    Reopened,
    /// An ended run goes on because its twin asked; the admission already did the claim.
    ReopenedByTwin,
}

/// What a commit means for an errand of the run.
#[derive(Clone, Debug)]
pub enum ErrandChange {
    /// An attempt is out.
    Set(Box<ErrandRow>),
    /// The attempt of this id is over, or is not wanted any more.
    End(Hash16),
}

/// Where errands wait for workers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrandQueue {
    pub queue: String,
    /// Empty: none.
    pub domain: String,
}

/// A worker asks for errands.
#[derive(Clone, Debug)]
pub struct TakeErrands {
    pub workspace: WorkspaceId,
    pub from: ErrandQueue,
    pub worker: String,
    pub count: u32,
    /// At most so many of the queue may be out at once.
    pub limit: Option<u32>,
    /// At most so many of the queue may be taken within so long.
    pub rate: Option<TakeRate>,
    /// Whoever asks has just answered this errand. Asked once more, it gets the same one again.
    pub after: Option<Hash16>,
}

/// So many within so long, counted back from each moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TakeRate {
    pub count: u32,
    pub window_ms: i64,
}

/// What whoever has an errand says of it meanwhile.
#[derive(Clone, Debug)]
pub enum ErrandWord {
    /// A sign of life.
    Alive,
    /// Not done yet: anybody may take it again after so long.
    Later { progress: Option<Json>, after_ms: i64 },
}

#[derive(Clone, Debug)]
pub struct CommitOp {
    pub step: StepKey,
    pub kind: OpKind,
}

#[derive(Clone, Debug)]
pub enum OpKind {
    KvSet {
        namespace: String,
        key: String,
        value: Json,
        kv_type: String,
        overwrite: bool,
        ttl_ms: Option<i64>,
    },
    KvGet {
        namespace: String,
        key: String,
        error_on_missing: bool,
    },
    KvDelete {
        namespace: String,
        key: String,
        error_on_missing: bool,
    },
    /// As [`OpKind::KvGet`], of a map; nothing is an empty one.
    StateGet {
        namespace: String,
        key: String,
        error_on_missing: bool,
    },
    /// Merge values into the map that is kept there.
    StateSet {
        namespace: String,
        key: String,
        data: serde_json::Map<String, Json>,
    },
    /// Leave an event for whoever handles it; `output` is what the step gives.
    Publish {
        key: String,
        event: Json,
        output: Json,
    },
    /// As [`OpKind::Publish`], beside what the step does.
    Announce {
        key: String,
        event: Json,
    },
    /// Switch a trigger on or off.
    Toggle {
        flow: FlowRef,
        trigger: String,
        enabled: bool,
    },
    /// Store definitions that a sub-run is started by; what is there already stays.
    Define {
        rows: Vec<FlowRow>,
    },
    /// Admit a sub-run through the one admission.
    Admit(Box<AdmitRequest>),
    /// The quiet period is over, or the date has come: take a slot or wait in line.
    EnterLane,
    /// As [`OpKind::EnterLane`], but where there is no slot the run ends so.
    EnterLaneOrEnd {
        status: EndStatus,
    },
    /// Take a slot even if there is none.
    ForceLane,
    /// Ask another run of the workspace to stop. Its own step fails if there is no such run.
    Kill {
        run: RunId,
        by: By,
        /// The runs that it has started go on.
        alone: bool,
    },
    /// Have another run take the place of this one, which has failed; where somebody waits for this one, it goes on
    /// itself, in this round.
    RunAgain {
        request: Box<AdmitRequest>,
        by: By,
        round: u32,
        /// Flow triggers are to hear of the end.
        announced: bool,
    },
    /// Note that what the step gave, in the journal row of this commit, is the answer to requests of this digest.
    Remember {
        digest: Hash16,
        ttl_ms: Option<i64>,
    },
    /// Ask something of a run of the workspace, as a person would. Its own step fails if that run has ended.
    Ask {
        run: RunId,
        ticket: Hash16,
        control: Json,
        by: By,
    },
}

#[derive(Clone, Debug, Default)]
pub struct CommitResult {
    /// The head's version after the commit.
    pub version: u64,
    /// Events the ops appended, to be folded by the driver.
    pub appended: Vec<Event>,
    /// Children admitted by ops.
    pub admitted: Vec<AdmitResult>,
    /// `EnterLane` got a slot.
    pub entered: Option<bool>,
    /// `RunAgain` had the run itself go on.
    pub goes_on: bool,
    pub wake: Vec<RunId>,
    pub fenced: Vec<RunId>,
    pub timer_due: Option<Millis>,
}

/// A write.
#[derive(Clone, Debug)]
pub enum Work {
    Admit(Box<AdmitRequest>),
    /// An admission, and what the new run does at once. The second is applied only if the first gives the run its
    /// slot; answered as [`Work::Admit`].
    AdmitAndRun(Box<(AdmitRequest, RunCommit)>),
    Commit(Box<RunCommit>),
    /// Rows of decisions taken on a committed snapshot.
    LogDecision(Box<DecisionRow>),
    PutFlow {
        row: Box<FlowRow>,
        schedules: Vec<ScheduleRow>,
        rule: PushRule,
    },
    /// Adds a last revision that says that the flow is gone, and takes its schedules away.
    DeleteFlow {
        workspace: WorkspaceId,
        flow: FlowRef,
        by: String,
    },
    AdvanceSchedule(ScheduleRow),
    ChangeTrigger {
        workspace: WorkspaceId,
        flow: FlowRef,
        trigger: String,
        change: TriggerChange,
    },
    /// A trigger has heard of a change and does not fire.
    Hear {
        workspace: WorkspaceId,
        hearing: Hearing,
    },
    /// All triggers have heard of a change.
    Heard {
        workspace: WorkspaceId,
        run: RunId,
        version: u64,
    },
    TakeErrands(Box<TakeErrands>),
    /// Answered with [`Done::Missing`] when that attempt is not awaited any more.
    TouchErrand {
        workspace: WorkspaceId,
        id: Hash16,
        worker: Option<String>,
        word: ErrandWord,
    },
    /// Tells the runs of errands that are late.
    TellLate {
        limit: u32,
    },
    KvSet {
        workspace: WorkspaceId,
        namespace: String,
        key: String,
        value: Json,
        kv_type: String,
        overwrite: bool,
        ttl_ms: Option<i64>,
    },
    KvDelete {
        workspace: WorkspaceId,
        namespace: String,
        key: String,
    },
    PutSecret(Box<SecretRow>),
    RetireSecret {
        workspace: WorkspaceId,
        name: String,
    },
    PutToken(Box<TokenRow>),
    RevokeToken {
        workspace: WorkspaceId,
        id: String,
    },
    PutWorkspace(WorkspaceRow),
    /// Frees a key whose run has ended and has no open doubt.
    ReleaseKey {
        workspace: WorkspaceId,
        hash: Hash16,
        by: By,
    },
    /// Forgets an ended run and frees its key.
    DeleteRun {
        workspace: WorkspaceId,
        run: RunId,
    },
    /// What someone outside has to say of a step. Answered with [`Done::Missing`] when there is no such run.
    AddLogs {
        workspace: WorkspaceId,
        run: RunId,
        step: StepKey,
        level: String,
        lines: Vec<LogLine>,
        /// Tells apart what is added in the same millisecond: no two additions of one process have the same.
        nonce: u64,
    },
    /// Removes the log of an ended run. Who freed its key stays.
    DeleteLogs {
        workspace: WorkspaceId,
        run: RunId,
    },
    /// Removes the payloads of an ended run and keeps the hash of its key.
    EraseRun {
        workspace: WorkspaceId,
        run: RunId,
    },
    /// A piece of a file that is being written; nobody sees it before [`Work::PutFile`].
    PutChunk(Box<FileChunk>),
    /// The file is whole: it is there from now on, instead of what was at its path.
    PutFile {
        workspace: WorkspaceId,
        row: Box<FileRow>,
        /// Its last chunk, so that a small file is one write.
        last: Option<Vec<u8>>,
    },
    DeleteFile {
        workspace: WorkspaceId,
        run: RunId,
        path: String,
    },
    /// Leave an inbox message (from another node's request or from an operator).
    Message {
        workspace: WorkspaceId,
        run: RunId,
        message: Inbox,
    },
    /// Bounded clean-up of what has expired.
    Sweep(SweepRules),
    /// The store was made from a backup. Every open run is held until somebody releases it, or goes
    /// on at once because somebody accepts what may then be done again.
    Restored {
        row: RestoredRow,
        accepted: Option<By>,
    },
}

/// One line, with its own instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    pub at: Millis,
    pub message: String,
}

#[derive(Clone, Debug)]
pub struct FileChunk {
    pub workspace: WorkspaceId,
    pub run: RunId,
    pub file: Hash16,
    /// From 0 on.
    pub number: u32,
    pub bytes: Vec<u8>,
}

/// Which flows a push may write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PushRule {
    #[default]
    Any,
    /// Only one that does not exist, or was deleted.
    New,
    /// Only one that exists.
    Known,
}

#[derive(Clone, Copy, Debug)]
pub struct SweepRules {
    pub limit: u32,
    /// Decision rows older than this many milliseconds go.
    pub decisions_ms: i64,
    /// Files that were begun longer ago and came to nothing go.
    pub uploads_ms: i64,
    /// Ended runs older than this go, if their claims have been forgotten or outlive them.
    pub history_ms: Option<i64>,
}

/// The answer to a [`Work`].
#[derive(Clone, Debug)]
pub enum Done {
    Admitted(Box<AdmitResult>),
    Committed(Box<CommitResult>),
    /// The revision in force; `changed` is false for an identical source.
    Flow {
        revision: u32,
        changed: bool,
    },
    /// kv: the new revision; `None` when `overwrite: false` found the key taken.
    Kv(Option<u64>),
    Errands(Vec<ErrandRow>),
    /// Runs that a node must look at.
    Wake(Vec<(WorkspaceId, RunId)>),
    Secret {
        version: u64,
    },
    /// How many rows were touched.
    Count(u64),
    /// The thing named does not exist in that workspace.
    Missing,
    /// Not possible in the present state; the word says why.
    Refused(Refusal),
    Unit,
}

/// Why a management write was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    RunLive,
    DoubtOpen,
    LaneBusy,
    Exists,
    /// Another run has the key of this one, and has not ended.
    KeyLive,
}

impl Refusal {
    pub fn code(self) -> &'static str {
        match self {
            Refusal::RunLive => "run_live",
            Refusal::DoubtOpen => "doubt_open",
            Refusal::LaneBusy => "lane_busy",
            Refusal::Exists => "exists",
            Refusal::KeyLive => "key_live",
        }
    }
}
