//! The oracle of admissions: what each occurrence must come to, known from what was sent, from
//! what was answered before, and from how the runs stand; never from claims, lanes or the rules
//! of the code under test.

mod keys;
mod lanes;
mod removals;
mod restored;

use super::flows::{BusySpec, Flow, Payload, WindowSpec};
use super::policy::{self, Known, Rules, TOMBSTONE};
use super::works::Worked;
use semel_core::admission::{Decision, split_hash};
use semel_core::ir::CONDUCTOR_NAMESPACE;
use semel_core::run::Status;
use semel_core::{Door, Hash16, RunId, WorkspaceId};
use semel_store::{
    AdmitRequest, AdmitResult, CommitResult, DecisionRow, Done, OpKind, Refusal, RunCommit, RunRow, Store, Work,
};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// A promise that was broken: which, and how it showed.
#[derive(Clone, Debug)]
pub struct Violation {
    pub id: &'static str,
    pub text: String,
}

/// The identity of an event key.
pub type EventId = (String, String, String, Option<String>);
pub type LaneId = (String, String, String);

/// What is known of an occurrence before it is decided.
#[derive(Clone, Debug)]
pub struct Incoming {
    pub workspace: WorkspaceId,
    pub flow: usize,
    pub event: Option<(String, String)>,
    pub payload: String,
    pub rules: Rules,
    pub lane: Option<(LaneId, u32, BusySpec)>,
    pub parent: Option<RunId>,
}

#[derive(Clone, Debug)]
struct Claim {
    run: RunId,
    generation: u32,
    payload: String,
    window: WindowSpec,
    expire_live: bool,
    first_seen: i64,
    hash: Hash16,
}

#[derive(Clone, Debug, Default)]
pub struct LaneState {
    pub limit: u32,
    pub holders: Vec<RunId>,
    pub line: Vec<RunId>,
    pub gathering: Option<RunId>,
}

#[derive(Clone, Debug)]
struct Known1 {
    lane: Option<LaneId>,
    ended: bool,
    released: bool,
}

/// What must be decided.
#[derive(Clone, Debug, PartialEq)]
struct Expected {
    decision: String,
    reason: String,
    /// The run the answer names, where it is known before.
    run: Option<RunId>,
    created: bool,
    generation: Option<u32>,
    event: Option<EventId>,
    /// It replaces a run that has something in flight: it stands in line for that.
    deferred: bool,
}

/// What is known of a request of the write at hand.
#[derive(Clone, Debug, Default)]
struct Judged {
    /// The event it is an occurrence of, unless a sub-run of the same commit may have changed that.
    event: Option<EventId>,
    /// What must be decided, unless a sub-run of the same commit may have changed that.
    expected: Option<Expected>,
}

#[derive(Clone, Default)]
pub struct Model {
    pub flows: Vec<Flow>,
    pub callers: BTreeMap<String, Incoming>,
    claims: BTreeMap<EventId, Claim>,
    pub lanes: BTreeMap<LaneId, LaneState>,
    runs: BTreeMap<RunId, Known1>,
    /// Every run ever made, in order, with its workspace.
    pub born: Vec<(WorkspaceId, RunId)>,
    /// Runs that a person or the sweep took away.
    pub deleted: BTreeSet<RunId>,
    pub violations: Vec<Violation>,
    pub decisions: BTreeMap<String, u64>,
    pub knowns: BTreeMap<String, u64>,
    judged: Vec<Judged>,
    /// Whether the release, deletion or erasure at hand is to be refused, and with what.
    refusal: Option<&'static str>,
    /// The last payload of each quiet period, and how many were handed to each run.
    pub coalesced: BTreeMap<RunId, String>,
    /// When the quiet period of each began.
    gathers_since: BTreeMap<RunId, i64>,
    pub delivered: BTreeMap<RunId, usize>,
    /// Keys of the key-value store that are there.
    kv: BTreeSet<(String, String, String)>,
    /// When the store was made from a backup.
    pub restored_at: Option<i64>,
    /// Runs that a restore holds: nothing happens to them.
    pub held: BTreeSet<RunId>,
    /// Keys that a person freed, by workspace.
    pub freed: BTreeSet<(String, String)>,
    /// How often a twin had a run go on.
    pub resumed: BTreeMap<RunId, usize>,
    /// Instants that schedules have fired for, by workspace and flow.
    pub ticks: BTreeMap<(String, String), BTreeSet<String>>,
    /// What became of the starts of workflows.
    pub worked: Vec<Worked>,
}

fn word(decision: Decision) -> String {
    decision.word().to_owned()
}

/// The inputs in one fixed spelling.
pub fn spell(flow: &str, inputs: &Json) -> String {
    format!("{flow}|{}|{}|{}|{}", inputs["id"], inputs["n"], inputs["flag"], inputs["kind"])
}

impl Model {
    pub(super) fn broken(&mut self, id: &'static str, text: String) {
        self.violations.push(Violation { id, text });
    }

    pub fn flow_name(flow: &Flow) -> String {
        format!("{}:{}", flow.namespace, flow.id)
    }

    fn scope(flow: &Flow, intrinsic: bool) -> String {
        let name = Model::flow_name(flow);
        let base = match flow.block.as_ref().map_or("flow", |b| b.scope) {
            "flow" => format!("flow {name}"),
            "namespace" => format!("namespace {}", flow.namespace),
            other => other.to_owned(),
        };
        if intrinsic { format!("door {base}") } else { base }
    }

    fn lane_of(workspace: &WorkspaceId, flow: &Flow, kind: &str) -> Option<(LaneId, u32, BusySpec)> {
        let lane = flow.lane.as_ref()?;
        let key = if lane.by_kind { kind.to_owned() } else { String::new() };
        Some(((workspace.0.clone(), Model::flow_name(flow), key), lane.limit, lane.busy))
    }

    /// What a client is about to send.
    pub fn incoming(
        &self,
        workspace: &WorkspaceId,
        flow: usize,
        key: Option<&str>,
        payload: &Payload,
        preset: Option<&str>,
        door: &str,
    ) -> Incoming {
        let spec = &self.flows[flow];
        let own = spec.block.as_ref().is_some_and(|b| b.keyed);
        let key = key.map(str::to_owned).or(own.then(|| payload.id.clone()));
        Incoming {
            workspace: workspace.clone(),
            flow,
            event: key.map(|key| (Model::scope(spec, false), key)),
            payload: spell(&Model::flow_name(spec), &payload.json()),
            rules: policy::resolve(preset, spec.block.as_ref(), if door == "cli" { "semel" } else { "trigger" }),
            lane: Model::lane_of(workspace, spec, payload.kind),
            parent: None,
        }
    }

    /// Whose occurrence this is.
    fn identify(&mut self, request: &AdmitRequest) -> Option<Incoming> {
        if let Some(known) = self.callers.get(&request.caller) {
            return Some(known.clone());
        }
        let flow = self.flows.iter().position(|f| Model::flow_name(f) == request.flow.to_string())?;
        let spec = &self.flows[flow];
        let inputs = &request.inputs;
        let kind = inputs["kind"].as_str().unwrap_or_default();
        let key = request.key.as_ref()?;
        match request.door {
            Door::Schedule => {
                let lane = Model::lane_of(&request.workspace, spec, kind).or_else(|| {
                    let id = (request.workspace.0.clone(), Model::flow_name(spec), "schedule tick".to_owned());
                    Some((id, 1, BusySpec::Queue(1_000)))
                });
                let date = request.trigger["date"].as_str().unwrap_or_default();
                Some(Incoming {
                    workspace: request.workspace.clone(),
                    flow,
                    event: Some((Model::scope(spec, true), format!("tick {date}"))),
                    payload: Model::flow_name(spec),
                    rules: policy::resolve(None, spec.block.as_ref(), "semel"),
                    lane,
                    parent: None,
                })
            }
            Door::Subflow => {
                let explicit = matches!(key.source, semel_core::admission::KeySource::Caller);
                Some(Incoming {
                    workspace: request.workspace.clone(),
                    flow,
                    event: Some((Model::scope(spec, !explicit), key.key.clone())),
                    payload: spell(&Model::flow_name(spec), inputs),
                    rules: match explicit {
                        true => policy::resolve(None, spec.block.as_ref(), "semel"),
                        false => policy::for_children(),
                    },
                    lane: Model::lane_of(&request.workspace, spec, kind),
                    parent: request.parent.as_ref().map(|p| p.run),
                })
            }
            _ => None,
        }
    }

    pub(super) fn row(store: &dyn Store, workspace: &WorkspaceId, run: RunId) -> Option<RunRow> {
        store.run(workspace, run).ok().flatten().map(|(row, _, _)| row)
    }

    fn known(&self, claim: &Claim, row: &RunRow, now: i64) -> Known {
        let holds = |run: RunId| self.lanes.values().any(|lane| lane.holders.contains(&run));
        let state = match row.status {
            _ if row.erased => Known::Erased,
            Status::Queued if holds(row.id) => Known::Live,
            Status::Queued => Known::Pending,
            Status::Running | Status::Waiting | Status::Paused => Known::Live,
            Status::Held => Known::Held,
            Status::Completed => Known::Done,
            Status::Failed => Known::Failed,
            Status::Cancelled => Known::Cancelled,
        };
        let open = matches!(state, Known::Pending | Known::Live | Known::Held);
        if state == Known::Held || (open && !claim.expire_live) {
            return state;
        }
        let ended = row.ended_at.map(|at| at.0).filter(|_| !open);
        let end = match claim.window {
            WindowSpec::Forever => None,
            WindowSpec::WhileLive => ended,
            WindowSpec::FirstSeen(ms) if claim.expire_live => Some(claim.first_seen + ms),
            WindowSpec::FirstSeen(ms) => ended.map(|at| at.max(claim.first_seen + ms)),
            WindowSpec::Completed(ms) => ended.map(|at| at + ms),
        };
        match end {
            Some(end) if now >= end && (claim.window == WindowSpec::WhileLive || now >= end + TOMBSTONE) => {
                Known::Absent
            }
            Some(end) if now >= end => Known::Expired,
            _ => state,
        }
    }

    /// What must be decided now.
    fn expect(&mut self, incoming: &Incoming, store: &dyn Store) -> Expected {
        let now = store.now().0;
        let ws = &incoming.workspace;
        let base = incoming.event.as_ref().map(|(scope, key)| (ws.0.clone(), scope.clone(), key.clone(), None));
        let mut event: Option<EventId> = base;
        let look = |model: &Model, event: &EventId| -> (Known, bool, Option<RunRow>, u32) {
            let Some(claim) = model.claims.get(event) else { return (Known::Absent, true, None, 0) };
            match Model::row(store, ws, claim.run) {
                None => (Known::Absent, true, None, 0),
                Some(row) => {
                    let same = claim.payload == incoming.payload;
                    (model.known(claim, &row, now), same, Some(row), claim.generation)
                }
            }
        };
        let (mut known, mut same, mut row, mut generation) =
            event.as_ref().map_or((Known::Absent, true, None, 0), |e| look(self, e));
        let (mut decision, mut reason) = match &event {
            None if incoming.rules.require_key => ("reject", "key_missing"),
            None => ("fresh", "keyless"),
            Some(_) => policy::judge(known, same, &incoming.rules),
        };
        if decision == "split" {
            event = event.map(|(w, s, k, _)| (w, s, k, Some(incoming.payload.clone())));
            (known, same, row, generation) = look(self, event.as_ref().expect("a key"));
            (decision, reason) = policy::judge(known, same, &incoming.rules);
        }
        if reason == "first" && event.is_some() && self.may_have_known(incoming, now) {
            reason = "first_after_restore";
        }
        *self.knowns.entry(format!("{known:?}")).or_insert(0) += 1;
        let forgotten = known == Known::Absent && row.is_some();
        let mut expected = Expected {
            decision: decision.to_owned(),
            reason: reason.to_owned(),
            run: row.as_ref().map(|r| r.id),
            created: false,
            generation: Some(generation),
            event,
            deferred: false,
        };
        match decision {
            "fresh" => {
                // Whether the sweep has been here shows in nothing but the number.
                expected.generation = (!forgotten).then_some(generation + 1);
                self.expect_lane(incoming, store, &mut expected);
                expected.deferred = expected.reason == "replace_deferred";
                let marked = ["queue", "replace", "deliver"].contains(&expected.decision.as_str());
                if marked && reason == "first_after_restore" {
                    expected.reason = reason.to_owned();
                }
            }
            "resume" => {
                let row = row.expect("a run to resume");
                let full = self.lane_full_for(row.id);
                if row.status == Status::Held || row.open_doubts > 0 || row.erased {
                    (expected.decision, expected.reason) = ("reject".into(), "not_resumable".into());
                } else if full {
                    (expected.decision, expected.reason) = ("reject".into(), "lane_busy".into());
                } else {
                    expected.generation = Some(generation + 1);
                }
            }
            _ => {}
        }
        if expected.decision == "reject" {
            expected.generation = None;
        }
        expected
    }

    /// A run that goes on needs a slot of its lane, unless it still has one.
    fn lane_full_for(&self, run: RunId) -> bool {
        let lane = self.runs.get(&run).and_then(|r| r.lane.as_ref()).and_then(|id| self.lanes.get(id));
        lane.is_some_and(|lane| !lane.holders.contains(&run) && lane.holders.len() >= lane.limit as usize)
    }

    /// A decision on a snapshot: those that change nothing are taken there, all others are not.
    pub fn peeked(&mut self, request: &AdmitRequest, found: Option<&(AdmitResult, DecisionRow)>, store: &dyn Store) {
        if let (Some((result, _)), CONDUCTOR_NAMESPACE) = (found, request.flow.namespace.as_str()) {
            return self.worked(request, result, store);
        }
        let Some(incoming) = self.identify(request) else { return };
        let expected = self.expect(&incoming, store);
        let by_event =
            !expected.created && ["attach", "replay", "hold", "reject"].contains(&expected.decision.as_str());
        let by_lane =
            ["queue_full", "lane_busy", "held_no_replace", "not_resumable"].contains(&expected.reason.as_str());
        match found {
            Some((result, row)) => {
                if !by_event || by_lane {
                    let text = format!("{} was decided on a snapshot as {:?}", expected.decision, result.decision);
                    self.broken("I6", text);
                }
                self.compare(&expected, result, request);
                self.ticked(request);
                if row.decision != result.decision || row.reason != result.reason {
                    self.broken("I17", format!("the log row of {} differs from its answer", request.caller));
                }
                self.count(result);
            }
            None if by_event && !by_lane => {
                self.broken("I6", format!("{} ({}) was not decided on a snapshot", expected.decision, expected.reason));
            }
            None => {}
        }
    }

    fn count(&mut self, result: &AdmitResult) {
        *self.decisions.entry(format!("{} {}", result.decision.word(), result.reason.word())).or_insert(0) += 1;
    }

    fn compare(&mut self, expected: &Expected, result: &AdmitResult, request: &AdmitRequest) {
        let (decision, reason) = (word(result.decision), result.reason.word());
        if (decision.as_str(), reason) != (expected.decision.as_str(), expected.reason.as_str()) {
            let id = match (expected.reason.as_str(), expected.decision.as_str()) {
                ("payload_mismatch", _) => "R4",
                (_, "queue" | "replace" | "coalesce" | "deliver") => "I18",
                (_, "attach" | "replay" | "hold" | "resume") if result.created => "R1",
                _ => "I6",
            };
            let text = format!(
                "{} must be {} {}, was {decision} {reason} (event {:?})",
                request.caller, expected.decision, expected.reason, expected.event
            );
            return self.broken(id, text);
        }
        let named = result.run.as_ref().map(|r| r.id);
        if result.created != expected.created {
            self.broken("I3", format!("{}: {decision} {reason}, created {}", request.caller, result.created));
        }
        let lane_refusal = decision == "reject" && expected.run.is_none();
        if !expected.created && !lane_refusal && named != expected.run {
            let text =
                format!("{}: {decision} names {named:?}, the event belongs to {:?}", request.caller, expected.run);
            self.broken("R1", text);
        }
        if let Some(generation) = expected.generation
            && generation != result.generation
            && (expected.event.is_some() || result.generation > 1)
        {
            let text = format!("{}: generation {} instead of {generation}", request.caller, result.generation);
            self.broken("I13", text);
        }
        if let Some(row) = &result.run
            && row.workspace != request.workspace
        {
            self.broken("R12", format!("{} was answered with a run of workspace {}", request.caller, row.workspace));
        }
    }

    /// To be called right before a write is applied.
    pub fn before(&mut self, work: &Work, store: &dyn Store) {
        self.judged.clear();
        self.refusal = self.refused(work, store);
        let requests: Vec<&AdmitRequest> = match work {
            Work::Admit(request) => vec![request],
            Work::AdmitAndRun(both) => vec![&both.0],
            Work::Commit(commit) => commit
                .ops
                .iter()
                .filter_map(|op| match &op.kind {
                    OpKind::Admit(request) => Some(request.as_ref()),
                    _ => None,
                })
                .collect(),
            _ => vec![],
        };
        let mut touched: BTreeSet<String> = BTreeSet::new();
        for request in requests {
            let Some(incoming) = self.identify(request) else {
                self.judged.push(Judged::default());
                continue;
            };
            let expected = self.expect(&incoming, store);
            // Two sub-runs of one commit that meet each other, by their event or in a lane, are judged by the next
            // twin only. One that a split gives another identity still meets the event it was split from.
            let key = touched.insert(format!("{:?} {:?}", incoming.workspace, incoming.event));
            let lane = incoming.lane.as_ref().is_none_or(|(id, _, _)| touched.insert(format!("{id:?}")));
            let event = expected.event.clone().filter(|_| key);
            self.judged.push(Judged { event, expected: (key && lane).then_some(expected) });
        }
    }

    /// The event of a request that could not be judged before: by what its commit has done so far.
    fn event_of(&mut self, incoming: &Incoming, result: &AdmitResult, store: &dyn Store) -> Option<EventId> {
        let (scope, key) = incoming.event.clone()?;
        let base = (incoming.workspace.0.clone(), scope, key, None);
        let split = (base.0.clone(), base.1.clone(), base.2.clone(), Some(incoming.payload.clone()));
        let other = self.claims.get(&base).is_some_and(|claim| claim.payload != incoming.payload);
        match result.created {
            // Only an event that is known with another payload is split from.
            true if incoming.rules.mismatch == "split" && other => Some(split),
            true => Some(base),
            false => self.expect(incoming, store).event,
        }
    }

    /// What was applied.
    pub fn after(&mut self, work: &Work, done: &Done, store: &dyn Store) {
        if matches!(work, Work::DeleteRun { .. } | Work::EraseRun { .. } | Work::ReleaseKey { .. }) {
            let given = match done {
                Done::Refused(why) => Some(why.code()),
                _ => None,
            };
            if given != self.refusal {
                self.broken("I14", format!("a removal must be refused: {:?}, was: {given:?}", self.refusal));
            }
        }
        match (work, done) {
            (Work::Admit(request), Done::Admitted(result)) => self.admitted_alone(request, result, store),
            (Work::AdmitAndRun(both), Done::Admitted(result)) => self.admitted_alone(&both.0, result, store),
            (Work::Commit(commit), Done::Committed(result)) => self.committed(commit, result, store),
            (Work::Commit(commit), Done::Refused(Refusal::KeyLive)) if !self.key_goes_on(commit, store) => {
                self.broken("I6", format!("run {} was refused its key, and no other goes on with it", commit.run));
            }
            (Work::Commit(commit), Done::Refused(Refusal::LaneBusy)) if !self.lane_full_for(commit.run) => {
                self.broken("I18", format!("run {} was refused its slot, and there was one", commit.run));
            }
            (Work::DeleteRun { run, .. }, Done::Unit) => {
                self.deleted.insert(*run);
                self.free(|claim| claim.run == *run);
            }
            (Work::ReleaseKey { hash, .. }, Done::Unit) => self.free(|claim| claim.hash == *hash),
            (Work::Sweep(_), _) => {
                self.forget(store);
                let gone: Vec<RunId> = self
                    .born
                    .iter()
                    .filter(|(ws, run)| !self.deleted.contains(run) && Model::row(store, ws, *run).is_none())
                    .map(|(_, run)| *run)
                    .collect();
                for run in gone {
                    if self.claims.values().any(|c| c.run == run && !self.is_forgotten(c, store)) {
                        self.broken("I14", format!("the sweep removed run {run} under its claim"));
                    }
                    self.deleted.insert(run);
                }
            }
            _ => {}
        }
    }

    fn admitted_alone(&mut self, request: &AdmitRequest, result: &AdmitResult, store: &dyn Store) {
        let judged = self.judged.pop().unwrap_or_default();
        self.admitted(request, result, judged, store);
        if let Some(run) = &result.run {
            self.sync(&request.workspace, run.id, store);
        }
    }

    /// Takes note of what was decided. How the run stands is looked at by the caller: in a commit of several sub-runs
    /// the store shows only what became of all of them.
    fn admitted(&mut self, request: &AdmitRequest, result: &AdmitResult, judged: Judged, store: &dyn Store) {
        self.count(result);
        self.ticked(request);
        if request.flow.namespace == CONDUCTOR_NAMESPACE {
            return self.worked(request, result, store);
        }
        let Some(incoming) = self.identify(request) else {
            return self.broken("R3", format!("{} was admitted, and nobody sent it", request.caller));
        };
        if let Some(expected) = &judged.expected {
            self.compare(expected, result, request);
        }
        let event = judged.event.or_else(|| self.event_of(&incoming, result, store));
        let run = result.run.as_ref().map(|r| r.id);
        match (result.decision, run) {
            (Decision::Coalesce, Some(run)) => {
                self.coalesced.insert(run, incoming.payload.clone());
                self.gathers(&incoming, run, result, store.now().0);
            }
            (Decision::Deliver, Some(run)) => *self.delivered.entry(run).or_insert(0) += 1,
            _ => {}
        }
        let takes = !matches!(
            result.decision,
            Decision::Attach | Decision::Replay | Decision::Hold | Decision::Reject | Decision::Resume
        );
        if let (true, Some(event), Some(run)) = (takes, event, run) {
            let base = request.key.as_ref().map_or(Hash16([0; 16]), |k| k.hash);
            let hash = if event.3.is_some() { split_hash(base, &request.fingerprint) } else { base };
            let claim = Claim {
                run,
                generation: result.generation,
                payload: incoming.payload.clone(),
                window: incoming.rules.window,
                expire_live: incoming.rules.expire_live,
                first_seen: store.now().0,
                hash,
            };
            self.claims.insert(event, claim);
        }
        if let (true, Some(run)) = (result.created, run) {
            self.born.push((request.workspace.clone(), run));
            let held = incoming.lane.as_ref().filter(|(_, _, busy)| *busy != BusySpec::Parallel);
            self.runs.insert(run, Known1 { lane: held.map(|(id, _, _)| id.clone()), ended: false, released: false });
            if let Some((id, limit, _)) = held {
                let deferred = match &judged.expected {
                    Some(expected) => expected.deferred,
                    None => result.run.as_ref().is_some_and(|run| run.status == Status::Queued),
                };
                self.enters(id.clone(), *limit, run, result, deferred);
            }
            self.born_held(request, result);
        }
        if let (Decision::Resume, Some(run)) = (result.decision, run) {
            *self.resumed.entry(run).or_insert(0) += 1;
            self.reopened(run);
        }
        for fenced in &result.fenced {
            self.sync(&request.workspace, *fenced, store);
            match Model::row(store, &request.workspace, *fenced) {
                Some(row) if row.status == Status::Cancelled => {
                    let query = semel_store::RunQuery { parent: Some(*fenced), limit: 500, ..Default::default() };
                    let children = store.runs(&request.workspace, &query).unwrap_or_default();
                    if let Some((child, _, _)) = children.iter().find(|(child, _, _)| !child.status.is_ended()) {
                        self.broken("I12", format!("run {fenced} was replaced, and its sub-run {} goes on", child.id));
                    }
                }
                other => self.broken("I12", format!("run {fenced} was replaced and is {:?}", other.map(|r| r.status))),
            }
        }
    }

    fn ticked(&mut self, request: &AdmitRequest) {
        if let (Door::Schedule, Some(date)) = (request.door, request.trigger["date"].as_str()) {
            let place = (request.workspace.0.clone(), request.flow.to_string());
            self.ticks.entry(place).or_default().insert(date.to_owned());
        }
    }

    fn reopened(&mut self, run: RunId) {
        for claim in self.claims.values_mut().filter(|c| c.run == run) {
            claim.generation += 1;
        }
        let Some(known) = self.runs.get_mut(&run) else { return };
        known.ended = false;
        known.released = false;
        let Some(id) = known.lane.clone() else { return };
        let full = self.lane_full_for(run);
        if let Some(lane) = self.lanes.get_mut(&id).filter(|lane| !lane.holders.contains(&run)) {
            lane.holders.push(run);
        }
        if full {
            self.broken("I18", format!("run {run} goes on in a lane that is full"));
        }
    }

    fn committed(&mut self, commit: &RunCommit, result: &CommitResult, store: &dyn Store) {
        let judged = std::mem::take(&mut self.judged);
        let mut admissions = result.admitted.iter().zip(judged);
        for op in &commit.ops {
            match &op.kind {
                OpKind::Admit(request) => {
                    let Some((admitted, judged)) = admissions.next() else { continue };
                    self.admitted(request, admitted, judged, store);
                }
                OpKind::EnterLane => self.enter_lane(commit.run, result.entered),
                _ => {}
            }
        }
        for run in result.admitted.iter().filter_map(|admitted| admitted.run.as_ref()) {
            self.sync(&commit.workspace, run.id, store);
        }
        self.key_values(commit, result);
        self.goes_on(commit);
        let ended_before = self.runs.get(&commit.run).is_some_and(|r| r.ended);
        let row = Model::row(store, &commit.workspace, commit.run);
        if ended_before && row.as_ref().is_some_and(|r| r.ended_at.is_none()) {
            self.takes_key_back(commit, store);
            self.reopened(commit.run);
        }
        self.sync(&commit.workspace, commit.run, store);
        let runs = row.as_ref().is_some_and(|r| !matches!(r.status, Status::Queued) && r.ended_at.is_none());
        if runs && self.lane_of_run(commit.run).is_some_and(|lane| !lane.holders.contains(&commit.run)) {
            self.broken("I18", format!("run {} runs and has no slot", commit.run));
        }
        for fenced in &result.fenced {
            self.sync(&commit.workspace, *fenced, store);
        }
    }

    /// Takes note of how a run stands; an end frees its slot.
    fn sync(&mut self, workspace: &WorkspaceId, run: RunId, store: &dyn Store) {
        let Some(row) = Model::row(store, workspace, run) else { return };
        let Some(known) = self.runs.get_mut(&run) else { return };
        known.ended = row.ended_at.is_some();
        if !row.status.is_ended() || known.released {
            return;
        }
        known.released = true;
        self.held.remove(&run);
        let Some(known) = self.runs.get(&run) else { return };
        let Some(id) = known.lane.clone() else { return };
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        lane.holders.retain(|other| *other != run);
        lane.line.retain(|other| *other != run);
        if lane.gathering == Some(run) {
            lane.gathering = None;
        }
        while lane.holders.len() < lane.limit as usize && !lane.line.is_empty() {
            let next = lane.line.remove(0);
            lane.holders.push(next);
        }
    }

    /// The claims that must be there at the end, by hash.
    pub fn claim_runs(&self) -> BTreeMap<Hash16, (RunId, u32)> {
        self.claims.values().map(|c| (c.hash, (c.run, c.generation))).collect()
    }

    pub fn lane_of_run(&self, run: RunId) -> Option<&LaneState> {
        self.lanes.get(self.runs.get(&run)?.lane.as_ref()?)
    }
}
