//! What a batch must read: what its works are known to need, and what their scripts asked for in vain.

use semel_core::run::Status;
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_store::script::watch_hash;
use semel_store::{
    AdmitRequest, CACHE_NAMESPACE, CommitOp, EVENTS, ErrandChange, ErrandQueue, Hearing, OpKind, RunCommit, Settle,
    TAKEN_LATELY, Work,
};
use std::collections::{BTreeMap, BTreeSet};

pub type HashKey = (WorkspaceId, Hash16);
pub type RunKey = (WorkspaceId, RunId);
pub type KvKey = (WorkspaceId, String, String);
pub type FileKey = (WorkspaceId, RunId, String);
pub type RowKey = (WorkspaceId, RunId, u64);

/// How a head is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// It must not change before the commit; others may look too.
    Share,
    Update,
}

/// A question over whole tables, asked once in a transaction and only by works that are alone in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    OpenRuns,
    ForgottenClaims { now: Millis, limit: u32 },
    SweepKv { now: Millis, limit: u32 },
    SweepUploads { before: Millis, limit: u32 },
    SweepDecisions { before: Millis, limit: u32 },
    OldRuns { before: Millis, limit: u32 },
    LateErrands { limit: u32 },
}

#[derive(Clone, Debug, Default)]
pub struct Wants {
    pub claims: BTreeSet<HashKey>,
    /// Claims that lead to these runs.
    pub claims_of: BTreeSet<RunKey>,
    pub lanes: BTreeSet<HashKey>,
    /// The lanes in which these runs are, whatever they are.
    pub lanes_of: BTreeSet<RunKey>,
    /// The first so many who wait.
    pub lines: BTreeMap<HashKey, u32>,
    /// Whether this run waits there.
    pub places: BTreeSet<(WorkspaceId, Hash16, RunId)>,
    pub kv: BTreeSet<KvKey>,
    pub files: BTreeSet<FileKey>,
    pub errands: BTreeSet<HashKey>,
    /// Those of these runs that are open.
    pub errands_of: BTreeSet<RunKey>,
    /// The first so many that can be taken.
    pub free_errands: BTreeMap<(WorkspaceId, ErrandQueue), u32>,
    /// How many of these queues are taken.
    pub taken_errands: BTreeSet<(WorkspaceId, String)>,
    pub runs: BTreeMap<RunKey, Lock>,
    /// The runs that these claims lead to, whatever they are.
    pub runs_of_claims: BTreeSet<HashKey>,
    /// The parents of these runs.
    pub parents_of: BTreeSet<RunKey>,
    pub children_of: BTreeSet<RunKey>,
    pub values: BTreeSet<RunKey>,
    pub inboxes: BTreeSet<RunKey>,
    pub logs: BTreeSet<RowKey>,
    pub flows: BTreeSet<(WorkspaceId, FlowRef)>,
    /// All schedules of these flows.
    pub schedules: BTreeSet<(WorkspaceId, FlowRef)>,
    pub changes: BTreeSet<RowKey>,
    pub secrets: BTreeSet<(WorkspaceId, String)>,
    pub tokens: BTreeSet<String>,
    pub workspaces: BTreeSet<WorkspaceId>,
    pub asks: BTreeSet<Ask>,
    /// One of the keys is not that of an admission: it is there, and not to be taken for new.
    pub keys_are_known: bool,
}

impl Wants {
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.is_empty_but_for_keys() && self.runs_of_claims.is_empty()
    }

    /// True when all that is wanted are the keys of admissions, which are nearly always new.
    pub fn is_empty_but_for_keys(&self) -> bool {
        self.claims_of.is_empty()
            && self.lanes.is_empty()
            && self.lanes_of.is_empty()
            && self.lines.is_empty()
            && self.places.is_empty()
            && self.kv.is_empty()
            && self.files.is_empty()
            && self.errands.is_empty()
            && self.errands_of.is_empty()
            && self.free_errands.is_empty()
            && self.taken_errands.is_empty()
            && self.runs.is_empty()
            && self.parents_of.is_empty()
            && self.children_of.is_empty()
            && self.values.is_empty()
            && self.inboxes.is_empty()
            && self.logs.is_empty()
            && self.flows.is_empty()
            && self.schedules.is_empty()
            && self.changes.is_empty()
            && self.secrets.is_empty()
            && self.tokens.is_empty()
            && self.workspaces.is_empty()
            && self.asks.is_empty()
            && !self.keys_are_known
    }

    pub fn merge(&mut self, other: Wants) {
        self.claims.extend(other.claims);
        self.claims_of.extend(other.claims_of);
        self.lanes.extend(other.lanes);
        self.lanes_of.extend(other.lanes_of);
        for (key, count) in other.lines {
            let known = self.lines.entry(key).or_insert(count);
            *known = count.max(*known);
        }
        self.places.extend(other.places);
        self.kv.extend(other.kv);
        self.files.extend(other.files);
        self.errands.extend(other.errands);
        self.errands_of.extend(other.errands_of);
        for (key, count) in other.free_errands {
            let known = self.free_errands.entry(key).or_insert(count);
            *known = count.max(*known);
        }
        self.taken_errands.extend(other.taken_errands);
        other.runs.into_iter().for_each(|(key, lock)| self.run(key, lock));
        self.runs_of_claims.extend(other.runs_of_claims);
        self.parents_of.extend(other.parents_of);
        self.children_of.extend(other.children_of);
        self.values.extend(other.values);
        self.inboxes.extend(other.inboxes);
        self.logs.extend(other.logs);
        self.flows.extend(other.flows);
        self.schedules.extend(other.schedules);
        self.changes.extend(other.changes);
        self.secrets.extend(other.secrets);
        self.tokens.extend(other.tokens);
        self.workspaces.extend(other.workspaces);
        self.asks.extend(other.asks);
        self.keys_are_known |= other.keys_are_known;
    }

    pub fn run(&mut self, key: RunKey, lock: Lock) {
        let known = self.runs.entry(key).or_insert(lock);
        *known = lock.max(*known);
    }

    /// What the script of this work is known to read. A guess that misses something costs a round trip, and one too
    /// many a row: neither is wrong.
    pub fn of(&mut self, work: &Work) {
        match work {
            Work::Admit(request) => self.admission(request),
            Work::AdmitAndRun(both) => {
                self.admission(&both.0);
                self.ops(&both.1.workspace, both.1.run, &both.1.ops);
            }
            Work::Commit(commit) => self.commit(commit),
            Work::LogDecision(row) => {
                // Only whether the run is erased is asked: many may do so at once.
                if let (Some(run), Some(_)) = (row.run, &row.key) {
                    self.run((row.workspace.clone(), run), Lock::Share);
                }
            }
            Work::PutFlow { row, schedules, .. } => {
                self.flows.insert((row.workspace.clone(), row.flow.clone()));
                if !schedules.is_empty() {
                    self.schedules.insert((row.workspace.clone(), row.flow.clone()));
                }
            }
            Work::DeleteFlow { workspace, flow, .. } => _ = self.flows.insert((workspace.clone(), flow.clone())),
            Work::KvSet { workspace, namespace, key, .. } | Work::KvDelete { workspace, namespace, key } => {
                self.kv.insert((workspace.clone(), namespace.clone(), key.clone()));
            }
            Work::TakeErrands(request) => {
                let ws = &request.workspace;
                self.errands.extend(request.after.map(|id| (ws.clone(), id)));
                // Whoever asks in the same batch takes what is left.
                *self.free_errands.entry((ws.clone(), request.from.clone())).or_default() += request.count;
                if request.limit.is_some() {
                    self.taken_errands.insert((ws.clone(), request.from.queue.clone()));
                }
                if request.rate.is_some() {
                    self.kv.insert((ws.clone(), TAKEN_LATELY.to_owned(), request.from.queue.clone()));
                }
            }
            Work::TouchErrand { workspace, id, .. } => _ = self.errands.insert((workspace.clone(), *id)),
            Work::TellLate { limit } => _ = self.asks.insert(Ask::LateErrands { limit: *limit }),
            Work::PutSecret(row) => _ = self.secrets.insert((row.workspace.clone(), row.name.clone())),
            Work::RetireSecret { workspace, name } => _ = self.secrets.insert((workspace.clone(), name.clone())),
            Work::RevokeToken { id, .. } => _ = self.tokens.insert(id.clone()),
            Work::PutWorkspace(row) => _ = self.workspaces.insert(row.id.clone()),
            Work::ReleaseKey { workspace, hash, .. } => {
                self.claims.insert((workspace.clone(), *hash));
                self.runs_of_claims.insert((workspace.clone(), *hash));
                self.keys_are_known = true;
            }
            Work::DeleteLogs { workspace, run } => self.run((workspace.clone(), *run), Lock::Update),
            // Only whether there is such a run, and whether it is erased, is asked.
            Work::AddLogs { workspace, run, .. } => self.run((workspace.clone(), *run), Lock::Share),
            Work::DeleteRun { workspace, run } | Work::EraseRun { workspace, run } => {
                self.run((workspace.clone(), *run), Lock::Update);
                self.claims_of.insert((workspace.clone(), *run));
            }
            Work::PutFile { workspace, row, .. } => {
                // Only whether the run is erased is asked.
                self.run((workspace.clone(), row.run), Lock::Share);
                self.files.insert((workspace.clone(), row.run, row.path.clone()));
            }
            Work::DeleteFile { workspace, run, path } => {
                self.files.insert((workspace.clone(), *run, path.clone()));
            }
            Work::Message { workspace, run, .. } => self.run((workspace.clone(), *run), Lock::Update),
            Work::ChangeTrigger { workspace, flow, .. } => {
                self.schedules.insert((workspace.clone(), flow.clone()));
            }
            Work::Hear { workspace, hearing } => self.hearing(workspace, hearing),
            Work::AdvanceSchedule(row) => _ = self.schedules.insert((row.workspace.clone(), row.flow.clone())),
            Work::PutChunk(_) | Work::PutToken(_) | Work::Sweep(_) | Work::Restored { .. } | Work::Heard { .. } => {}
        }
    }

    pub fn admission(&mut self, request: &AdmitRequest) {
        let ws = &request.workspace;
        if let Some(key) = &request.key {
            self.claims.insert((ws.clone(), key.hash));
            self.runs_of_claims.insert((ws.clone(), key.hash));
        }
        if let Some(lane) = &request.lane {
            self.lanes.insert((ws.clone(), lane.hash));
        }
        if let Some(replay) = &request.terms.replay {
            self.run((ws.clone(), replay.of), Lock::Update);
        }
        if let Some(parent) = &request.parent {
            self.run((ws.clone(), parent.run), Lock::Update);
        }
        if let Some(tick) = &request.tick {
            self.schedules.insert((ws.clone(), tick.schedule.as_ref().unwrap_or(&request.flow).clone()));
        }
        if let Some(hearing) = &request.hearing {
            self.hearing(ws, hearing);
        }
    }

    fn hearing(&mut self, workspace: &WorkspaceId, hearing: &Hearing) {
        self.changes.insert((workspace.clone(), hearing.run, hearing.version));
        if hearing.windows.is_some() {
            self.schedules.insert((workspace.clone(), hearing.flow.clone()));
        }
    }

    fn commit(&mut self, commit: &RunCommit) {
        let key = (commit.workspace.clone(), commit.run);
        self.run(key.clone(), Lock::Update);
        if !commit.head.active {
            self.inboxes.insert(key.clone());
        }
        if commit.settle != Settle::Unchanged || commit.head.status == Status::Held {
            self.claims_of.insert(key.clone());
        }
        match commit.settle {
            Settle::Ended { .. } => {
                self.lanes_of.insert(key.clone());
                self.lanes.insert((commit.workspace.clone(), watch_hash(commit.run)));
                self.parents_of.insert(key);
            }
            Settle::Reopened => {
                self.lanes_of.insert(key.clone());
                self.reopen(commit, key);
            }
            Settle::Unchanged | Settle::ReopenedByTwin => {}
        }
        for change in &commit.errands {
            if let ErrandChange::End(id) = change {
                self.errands.insert((commit.workspace.clone(), *id));
            }
        }
        self.ops(&commit.workspace, commit.run, &commit.ops);
        for (child, _) in &commit.cancels {
            self.run((commit.workspace.clone(), *child), Lock::Update);
        }
    }

    fn reopen(&mut self, commit: &RunCommit, key: (WorkspaceId, RunId)) {
        let Some(reopen) = &commit.reopen else { return };
        if let Some(hash) = reopen.claim {
            self.claims.insert((commit.workspace.clone(), hash));
            self.runs_of_claims.insert((commit.workspace.clone(), hash));
        }
        if reopen.lifts.is_some() {
            self.parents_of.insert(key);
        }
    }

    fn ops(&mut self, workspace: &WorkspaceId, run: RunId, ops: &[CommitOp]) {
        for op in ops {
            match &op.kind {
                OpKind::KvSet { namespace, key, .. }
                | OpKind::KvGet { namespace, key, .. }
                | OpKind::KvDelete { namespace, key, .. }
                | OpKind::StateGet { namespace, key, .. }
                | OpKind::StateSet { namespace, key, .. } => {
                    self.kv.insert((workspace.clone(), namespace.clone(), key.clone()));
                }
                OpKind::Publish { key, .. } | OpKind::Announce { key, .. } => {
                    self.kv.insert((workspace.clone(), EVENTS.to_owned(), key.clone()));
                }
                OpKind::Toggle { flow, .. } => _ = self.schedules.insert((workspace.clone(), flow.clone())),
                OpKind::Define { rows } => {
                    for row in rows {
                        self.flows.insert((workspace.clone(), row.flow.clone()));
                    }
                }
                OpKind::Admit(request) => self.admission(request),
                OpKind::RunAgain { request, .. } => {
                    let key = (workspace.clone(), run);
                    self.claims_of.insert(key.clone());
                    self.lanes_of.insert(key.clone());
                    self.lanes.insert((workspace.clone(), watch_hash(run)));
                    self.parents_of.insert(key);
                    self.admission(request);
                }
                OpKind::Remember { digest, .. } => {
                    self.kv.insert((workspace.clone(), CACHE_NAMESPACE.to_owned(), digest.hex()));
                }
                OpKind::Kill { run, .. } | OpKind::Ask { run, .. } => self.run((workspace.clone(), *run), Lock::Update),
                OpKind::EnterLane | OpKind::EnterLaneOrEnd { .. } | OpKind::ForceLane => {
                    self.lanes_of.insert((workspace.clone(), run));
                    self.claims_of.insert((workspace.clone(), run));
                }
            }
        }
    }
}

/// Works that ask about whole tables: what others in their batch have not written yet would be missed.
pub fn is_alone(work: &Work) -> bool {
    matches!(work, Work::Sweep(_) | Work::Restored { .. } | Work::TellLate { .. })
}
