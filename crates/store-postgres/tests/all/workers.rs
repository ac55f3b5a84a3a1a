//! Clients and drivers of a few runs, as several processes would have them: well-formed histories, in any order.

use semel_core::admission::*;
use semel_core::fingerprint::Fingerprint;
use semel_core::run::{EndStatus, Event, Payload, RunState, decode_events, encode_events};
use semel_core::{Door, FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_store::conformance::program::Dice;
use semel_store::*;
use serde_json::json;
use std::sync::Arc;

pub fn ws() -> WorkspaceId {
    WorkspaceId::default()
}

pub fn put_flow(store: &dyn Store) {
    let row = FlowRow {
        workspace: ws(),
        flow: FlowRef::new("shop", "order"),
        revision: 0,
        source: String::new(),
        ir: json!({"ir_version": 1, "id": "order", "namespace": "shop", "tasks": []}).to_string(),
        disabled: false,
        deleted: false,
        created_at: Millis(0),
        created_by: "test".into(),
    };
    store.call(Work::PutFlow { row: Box::new(row), schedules: vec![], rule: PushRule::Any }).unwrap();
}

pub fn event(key: &str, run: RunId, lane: Option<LaneRequest>) -> AdmitRequest {
    let scope = "flow:shop:order";
    let inputs = json!({"key": key});
    AdmitRequest {
        workspace: ws(),
        flow: FlowRef::new("shop", "order"),
        revision: 1,
        door: Door::Trigger,
        occurrence: run.to_string(),
        caller: "test".into(),
        key: Some(KeyClaim {
            hash: claim_hash(&ws(), scope, key),
            key: key.into(),
            scope: scope.into(),
            source: KeySource::Caller,
        }),
        fingerprint: Fingerprint::of(&[&inputs]),
        policy: PresetName::Semel.preset().policy,
        lane,
        run,
        inputs,
        trigger: json!({}),
        labels: vec![("team".into(), "red".into())],
        correlation_id: None,
        parent: None,
        root: None,
        depth: 0,
        tick: None,
        hearing: None,
        announced: false,
        terms: Default::default(),
    }
}

/// Ids that no other worker makes.
pub fn id(worker: u64, number: u64) -> RunId {
    RunId::from_bytes(
        (0x0190_0000_0000_7000_8000_0000_0000_0000_u128 + (u128::from(number) << 16) + u128::from(worker))
            .to_be_bytes(),
    )
}

pub fn admit(store: &dyn Store, request: AdmitRequest) -> AdmitResult {
    match store.call(Work::Admit(Box::new(request))) {
        Ok(Done::Admitted(result)) => *result,
        other => panic!("not an admission: {other:?}"),
    }
}

pub fn state_of(store: &dyn Store, run: RunId) -> Option<RunState> {
    let mut state: Option<RunState> = None;
    for row in store.journal(&ws(), run, 0, 10_000).unwrap() {
        let known = decode_events(&row.events, row.values.as_deref()).unwrap();
        match &mut state {
            None => state = RunState::fold(&known),
            Some(state) => known.iter().for_each(|event| state.evolve(event)),
        }
    }
    state
}

/// A commit of these events on what was loaded.
pub fn commit_of(loaded: &LoadedRun, mut state: RunState, events: &[Event]) -> RunCommit {
    events.iter().for_each(|event| state.evolve(event));
    let (bytes, values) = encode_events(events);
    let ended = events.iter().find_map(|event| match event {
        Event::Ended { status, .. } => Some(*status),
        _ => None,
    });
    RunCommit {
        workspace: ws(),
        run: loaded.row.id,
        epoch: loaded.row.epoch,
        version: loaded.row.version,
        events: if events.is_empty() { vec![] } else { bytes },
        values,
        head: HeadChange {
            status: state.status(),
            active: state.is_active(),
            open_intents: state.open_intents(),
            open_doubts: state.open_doubts(),
            take: state.take,
            warned: state.warned,
            conclusion: state.conclusion,
        },
        timers_set: vec![],
        timers_cleared: vec![],
        errands: vec![],
        effects: vec![],
        task_words: vec![],
        logs: vec![],
        labels: None,
        answers: vec![],
        inbox_consumed: loaded.inbox.iter().map(|(seq, _)| *seq).collect(),
        outputs: (ended == Some(EndStatus::Completed)).then(|| json!({"total": 7})),
        failure: None,
        snapshot: None,
        ops: vec![],
        settle: ended.map_or(Settle::Unchanged, |status| Settle::Ended { status }),
        cancels: vec![],
        announce: None,
        amend: None,
        reopen: None,
    }
}

/// Brings a run as far as it goes. Another worker may do the same: one of them is refused.
pub fn drive(store: &dyn Store, run: RunId) {
    let Some(loaded) = store.load_run(&ws(), run).unwrap() else { return };
    let Some(state) = state_of(store, run) else { return };
    let promoted = loaded.inbox.iter().any(|(_, message)| matches!(message, Inbox::Promoted));
    let cancelled = loaded.inbox.iter().find_map(|(_, message)| match message {
        Inbox::Cancel { by } => Some(by.clone()),
        _ => None,
    });
    let waits = loaded.row.status == semel_core::run::Status::Queued && !promoted;
    let events = match cancelled {
        _ if state.is_ended() => vec![],
        Some(by) => vec![
            Event::CancelRequested { by, alone: false },
            Event::Ended { status: EndStatus::Cancelled, warned: false, outputs: None, failure: None },
        ],
        None if waits => return,
        None => vec![
            Event::Started { at: store.now() },
            Event::Ended {
                status: EndStatus::Completed,
                warned: false,
                outputs: Some(Payload::new(json!({"total": 7}))),
                failure: None,
            },
        ],
    };
    if events.is_empty() && loaded.inbox.is_empty() {
        return;
    }
    send(store, commit_of(&loaded, state, &events));
}

/// The quiet period of a gathering run is over, unless somebody else has seen to that.
pub fn fire(store: &dyn Store, timer: &TimerRow) {
    let Some(loaded) = store.load_run(&ws(), timer.run).unwrap() else { return };
    let Some(state) = state_of(store, timer.run).filter(|state| state.timers.contains_key(&timer.timer)) else {
        return;
    };
    let mut commit = commit_of(&loaded, state, &[Event::TimerFired { timer: timer.timer }]);
    commit.timers_cleared = vec![timer.timer];
    commit.inbox_consumed = vec![];
    commit.ops = vec![CommitOp { step: semel_core::run::StepKey::root(), kind: OpKind::EnterLane }];
    send(store, commit);
}

/// A commit that may come too late.
fn send(store: &dyn Store, commit: RunCommit) {
    match store.call(Work::Commit(Box::new(commit))) {
        Ok(Done::Committed(_)) | Err(StoreError::Conflict(_)) => {}
        other => panic!("not a commit: {other:?}"),
    }
}

pub fn lane(dice: &mut Dice, lanes: u64) -> LaneRequest {
    let busy = dice.pick(&[
        Busy::Queue { max: 1_000 },
        Busy::Queue { max: 2 },
        Busy::Replace,
        Busy::Coalesce { quiet_ms: 2, max_ms: 10 },
        Busy::Deliver,
        Busy::Reject,
    ]);
    LaneRequest { hash: Hash16([1 + dice.below(lanes) as u8; 16]), limit: 1, busy }
}

/// Every node drives what is its own, until nothing is left. True when they came to rest.
pub fn finish(nodes: &[Arc<dyn Store>]) -> bool {
    (0..2_000).any(|_| nodes.iter().filter(|store| !is_at_rest(&***store)).count() == 0)
}

fn is_at_rest(store: &dyn Store) -> bool {
    let (active, due) = (store.active_runs(None, 1_000).unwrap(), store.due_timers(store.now(), 1_000).unwrap());
    active.iter().for_each(|(_, run)| drive(store, *run));
    due.iter().for_each(|timer| fire(store, timer));
    active.is_empty() && due.is_empty() && store.next_timer().unwrap().is_none()
}
