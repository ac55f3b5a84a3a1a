//! A run's commit: guarded, with everything that follows from its events.

use super::admit::{admit, append, reopen_claim, take_slot_again};
use super::ending::{notify, settle_end, watch_hash};
use super::errands;
use super::hear::announce;
use super::lanes;
use super::manage::{KvWrite, kv_delete, kv_set, live_kv, put_flow};
use super::{retry, triggers};
use crate::error::StoreError;
use crate::rows::*;
use crate::tx::{Result, Tx};
use crate::work::*;
use semel_core::admission::{Claim, ClaimState, Decision, KeySource};
use semel_core::ir::CONDUCTOR_NAMESPACE;
use semel_core::planted;
use semel_core::run::{
    By, Conclusion, EndStatus, Event, Failure, JOURNAL_VERSION, Payload, SNAPSHOT_VERSION, Status, StepKey,
};
use semel_core::{Hash16, RunId};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

pub(super) fn commit(tx: &mut dyn Tx, commit: &RunCommit) -> Result<Done> {
    let workspace = &commit.workspace;
    let Some(mut run) = tx.run(workspace, commit.run)? else {
        return Err(StoreError::Conflict(format!("run {} is gone", commit.run)));
    };
    if (run.epoch != commit.epoch || run.version != commit.version) && !planted!(CommitWithoutGuard) {
        return Err(StoreError::Conflict(format!(
            "run {} is at epoch {} version {}, the commit expected {} and {}",
            commit.run, run.epoch, run.version, commit.epoch, commit.version
        )));
    }
    if tx.is_elsewhere(workspace, commit.run) {
        return Err(StoreError::Conflict(format!("run {} is driven by another node", commit.run)));
    }
    let forced = commit.reopen.as_ref().is_some_and(|reopen| reopen.forced);
    if !forced && key_is_live(tx, commit)? && !planted!(ReopenedBesideAnother) {
        return Ok(Done::Refused(Refusal::KeyLive));
    }
    if commit.settle == Settle::Reopened && !take_slot_again(tx, &run)? {
        match run.lane.filter(|_| forced) {
            None => return Ok(Done::Refused(Refusal::LaneBusy)),
            Some(lane) => {
                lanes::hold(tx, &run.workspace, lane.hash, run.id)?;
                run.more.forced = true;
            }
        }
    }
    let mut out = CommitResult::default();
    let before = Before { held: run.status == Status::Held, ended: run.ended_at.is_some() };
    let doubts_before = run.open_doubts;
    write_events(tx, &mut run, commit)?;
    amend(tx, &mut run, commit)?;
    write_rows(tx, commit, before, &mut out)?;
    run_ops(tx, &mut run, commit, &mut out)?;
    settle(tx, &mut run, commit, before, &mut out)?;
    report_doubts(tx, &run, commit, doubts_before, &mut out)?;
    for (child, by) in &commit.cancels {
        stop_child(tx, &mut run, *child, by, &mut out)?;
    }
    if !run.active && !tx.inbox(workspace, run.id)?.is_empty() {
        // Something arrived that this commit did not know of.
        run.active = true;
        out.wake.push(run.id);
    }
    run.updated_at = tx.now();
    tx.update_run(&run)?;
    let retried = |op: &CommitOp| matches!(op.kind, OpKind::RunAgain { announced: true, .. });
    if run.conclusion == Some(Conclusion::Retried) && commit.ops.iter().any(retried) {
        announce(tx, &run, "RETRIED")?;
    } else if let Some(state) = commit.announce.as_ref().filter(|_| !commit.events.is_empty()) {
        announce(tx, &run, state)?;
    }
    if let Some(state) = &commit.snapshot
        && out.appended.is_empty()
    {
        tx.put_snapshot(
            workspace,
            &SnapshotRow { run: run.id, version: run.version, format: SNAPSHOT_VERSION, state: state.clone() },
        )?;
    }
    out.version = run.version;
    Ok(Done::Committed(Box::new(out)))
}

/// The claim of a run that is to go on, if another run has taken it since; and whether that one goes on.
fn taken_key(tx: &mut dyn Tx, commit: &RunCommit) -> Result<Option<(Claim, bool)>> {
    let claim = commit.reopen.as_ref().and_then(|reopen| reopen.claim).filter(|_| commit.settle == Settle::Reopened);
    let Some(hash) = claim else { return Ok(None) };
    let Some(claim) = tx.claim(&commit.workspace, hash)?.filter(|claim| claim.run != commit.run) else {
        return Ok(None);
    };
    let live = tx.run(&commit.workspace, claim.run)?.is_some_and(|run| !run.status.is_ended());
    Ok(Some((claim, live)))
}

/// Another run has taken the key since, and goes on: two of one event must not.
fn key_is_live(tx: &mut dyn Tx, commit: &RunCommit) -> Result<bool> {
    Ok(taken_key(tx, commit)?.is_some_and(|(_, live)| live))
}

/// Another run has taken the key since, and has ended: the key is again that of the run that goes on, or a twin would
/// start a third beside it. The fingerprint stays that of the last event that was admitted.
fn take_key_back(tx: &mut dyn Tx, run: &mut RunRow, commit: &RunCommit) -> Result<()> {
    let Some((mut claim, false)) = taken_key(tx, commit)? else { return Ok(()) };
    (claim.run, claim.key) = (run.id, run.key.clone());
    // The key may have been forgotten in between, and its generations counted anew.
    claim.generation = claim.generation.max(run.generation - 1);
    reopen_claim(&mut claim);
    run.generation = claim.generation;
    tx.put_claim(&run.workspace, &claim)
}

/// What a person changed about the run itself.
fn amend(tx: &mut dyn Tx, run: &mut RunRow, commit: &RunCommit) -> Result<()> {
    let Some(amend) = &commit.amend else { return Ok(()) };
    if let Some((flow, revision)) = &amend.flow {
        (run.flow, run.revision) = (flow.clone(), *revision);
    }
    if let Some(correlation_id) = &amend.correlation_id {
        run.correlation_id = correlation_id.clone();
    }
    if let Some(inputs) = &amend.inputs {
        let values = RunValues { inputs: Some(inputs.clone()), ..tx.run_values(&run.workspace, run.id)? };
        tx.put_run_values(&run.workspace, run.id, &values)?;
    }
    Ok(())
}

/// The first commit of a run that this very transaction has made.
pub(super) fn commit_new(tx: &mut dyn Tx, first: &RunCommit) -> Result<CommitResult> {
    match commit(tx, first)? {
        Done::Committed(out) => Ok(*out),
        other => Err(StoreError::Bug(format!("the first commit of a new run was answered with {other:?}"))),
    }
}

/// What the head said before the commit.
#[derive(Clone, Copy)]
struct Before {
    held: bool,
    ended: bool,
}

/// Asks a child to stop. A run of somebody else that was only waited for goes on: it is not waited
/// for any more, as if it had been cancelled.
fn stop_child(tx: &mut dyn Tx, run: &mut RunRow, child: RunId, by: &By, out: &mut CommitResult) -> Result<()> {
    let Some(row) = tx.run(&run.workspace, child)? else { return Ok(()) };
    if row.parent.as_ref().is_some_and(|p| p.run == run.id) {
        out.wake.push(child);
        return notify(tx, &run.workspace, child, &Inbox::Cancel { by: by.clone() });
    }
    let watch = watch_hash(child);
    lanes::leave(tx, &run.workspace, watch, run.id)?;
    let (status, outputs) = (EndStatus::Cancelled, Json::Null);
    let message = Inbox::ChildEnded { run: child, status, conclusion: None, warned: false, outputs, doubts: 0 };
    tx.push_inbox(&run.workspace, run.id, &message)?;
    run.active = true;
    out.wake.push(run.id);
    Ok(())
}

/// Doubts count at the root, so each level tells the one above. An end that the parent hears of tells them itself.
fn report_doubts(tx: &mut dyn Tx, run: &RunRow, commit: &RunCommit, before: u32, out: &mut CommitResult) -> Result<()> {
    let Some(parent) = run.parent.as_ref().filter(|_| run.open_doubts != before) else { return Ok(()) };
    let told = matches!(commit.settle, Settle::Ended { .. }) && (parent.waits || run.open_doubts > 0);
    if !told {
        notify(tx, &run.workspace, parent.run, &Inbox::DoubtsBelow { run: run.id, count: run.open_doubts })?;
        out.wake.push(parent.run);
    }
    Ok(())
}

fn write_events(tx: &mut dyn Tx, run: &mut RunRow, commit: &RunCommit) -> Result<()> {
    let now = tx.now();
    if !commit.events.is_empty() {
        run.version += 1;
        let row = JournalRow {
            run: run.id,
            seq: run.version,
            at: now,
            format: JOURNAL_VERSION,
            events: commit.events.clone(),
            values: commit.values.clone(),
        };
        tx.append_journal(&commit.workspace, &row)?;
    }
    let head = commit.head;
    run.status = head.status;
    run.active = head.active;
    run.open_intents = head.open_intents;
    run.open_doubts = head.open_doubts;
    run.take = head.take;
    run.warned = head.warned;
    run.conclusion = head.conclusion;
    // A commit without events only takes note of messages, and a run that was born ended does not start by its labels.
    let begins = !commit.events.is_empty() && (run.ended_at.is_none() || !head.status.is_ended());
    if run.started_at.is_none() && head.status != Status::Queued && begins {
        run.started_at = Some(now);
    }
    Ok(())
}

fn write_rows(tx: &mut dyn Tx, commit: &RunCommit, before: Before, out: &mut CommitResult) -> Result<()> {
    let workspace = &commit.workspace;
    for (timer, due) in &commit.timers_set {
        tx.put_timer(&TimerRow { workspace: workspace.clone(), run: commit.run, timer: *timer, due: *due })?;
        out.timer_due = Some(out.timer_due.map_or(*due, |known| known.min(*due)));
    }
    for timer in &commit.timers_cleared {
        tx.delete_timer(workspace, commit.run, *timer)?;
    }
    for change in &commit.errands {
        errands::change(tx, workspace, change)?;
    }
    for effect in &commit.effects {
        tx.put_effect(workspace, effect)?;
    }
    for word in &commit.task_words {
        tx.put_task_word(workspace, commit.run, word)?;
    }
    for log in &commit.logs {
        tx.append_log(workspace, log)?;
    }
    if let Some(labels) = &commit.labels {
        tx.put_labels(workspace, commit.run, labels)?;
    }
    for seq in &commit.inbox_consumed {
        tx.delete_inbox(workspace, commit.run, *seq)?;
    }
    for (ticket, refused) in &commit.answers {
        tx.put_answer(*ticket, refused.as_deref())?;
    }
    for (seq, _) in if planted!(MessagesRemovedUnread) { tx.inbox(workspace, commit.run)? } else { vec![] } {
        tx.delete_inbox(workspace, commit.run, seq)?;
    }
    if commit.outputs.is_some() || commit.failure.is_some() {
        let (outputs, failure) = (commit.outputs.as_ref(), commit.failure.as_ref());
        // Only a run that had ended has a result already.
        let old = if before.ended { tx.run_values(workspace, commit.run)? } else { RunValues::default() };
        tx.put_run_result(workspace, commit.run, outputs.or(old.outputs.as_ref()), failure.or(old.failure.as_ref()))?;
    }
    Ok(())
}

/// Carries the ops out and journals their results in the same transaction.
fn run_ops(tx: &mut dyn Tx, run: &mut RunRow, commit: &RunCommit, out: &mut CommitResult) -> Result<()> {
    for op in &commit.ops {
        if let Some(event) = run_op(tx, run, op, out)? {
            out.appended.push(event);
        }
    }
    if !out.appended.is_empty() {
        append(tx, run, &out.appended)?;
    }
    Ok(())
}

fn count_of(data: &Json) -> usize {
    data.as_object().map_or(0, serde_json::Map::len)
}

/// Maps are merged; all else is replaced. What is there and no map was written by another hand, and makes way.
fn merge(into: &mut Json, data: &serde_json::Map<String, Json>) {
    if !into.is_object() {
        *into = json!({});
    }
    let Some(fields) = into.as_object_mut() else { return };
    for (name, value) in data {
        match (fields.get_mut(name), value) {
            (Some(there @ Json::Object(_)), Json::Object(more)) => merge(there, more),
            _ => _ = fields.insert(name.clone(), value.clone()),
        }
    }
}

fn run_op(tx: &mut dyn Tx, run: &mut RunRow, op: &CommitOp, out: &mut CommitResult) -> Result<Option<Event>> {
    let workspace = run.workspace.clone();
    let at = tx.now();
    let done = |output: Json| Event::OpDone {
        step: op.step.clone(),
        ok: true,
        at,
        output: Some(Payload::new(output)),
        failure: None,
    };
    let failed = |code: &str, message: String| Event::OpDone {
        step: op.step.clone(),
        ok: false,
        at,
        output: None,
        failure: Some(Failure::new(code, message)),
    };
    let missing = |namespace: &str, key: &str| {
        failed("kv_missing", format!("The key '{key}' does not exist in the namespace '{namespace}'."))
    };
    Ok(Some(match &op.kind {
        OpKind::KvSet { namespace, key, value, kv_type, overwrite, ttl_ms } => {
            let write = KvWrite {
                workspace: &workspace,
                namespace,
                key,
                value,
                kv_type,
                overwrite: *overwrite,
                ttl_ms: *ttl_ms,
            };
            match kv_set(tx, &write)? {
                Some(_) => done(json!({})),
                None => failed(
                    "kv_exists",
                    format!("the key '{key}' exists in the namespace '{namespace}' and overwrite is false"),
                ),
            }
        }
        OpKind::Publish { key, event, output } => {
            let (namespace, kv_type) = (EVENTS, "JSON");
            let (overwrite, ttl_ms) = (true, None);
            kv_set(tx, &KvWrite { workspace: &workspace, namespace, key, value: event, kv_type, overwrite, ttl_ms })?;
            done(output.clone())
        }
        OpKind::Announce { key, event } => {
            let (namespace, kv_type) = (EVENTS, "JSON");
            let (overwrite, ttl_ms) = (true, None);
            kv_set(tx, &KvWrite { workspace: &workspace, namespace, key, value: event, kv_type, overwrite, ttl_ms })?;
            return Ok(None);
        }
        OpKind::KvGet { namespace, key, error_on_missing } => match live_kv(tx, &workspace, namespace, key)? {
            Some(row) => done(json!({"value": row.value})),
            None if *error_on_missing => missing(namespace, key),
            None => done(json!({"value": null})),
        },
        OpKind::KvDelete { namespace, key, error_on_missing } => match kv_delete(tx, &workspace, namespace, key)? {
            false if *error_on_missing => missing(namespace, key),
            deleted => done(json!({"deleted": deleted})),
        },
        OpKind::StateGet { namespace, key, error_on_missing } => match live_kv(tx, &workspace, namespace, key)? {
            None if *error_on_missing => missing(namespace, key),
            row => {
                let data = row.map_or_else(|| json!({}), |row| row.value);
                done(json!({"count": count_of(&data), "data": data}))
            }
        },
        OpKind::StateSet { namespace, key, data } => {
            let mut value = live_kv(tx, &workspace, namespace, key)?.map_or_else(|| json!({}), |row| row.value);
            merge(&mut value, data);
            let (workspace, overwrite) = (&workspace, true);
            kv_set(
                tx,
                &KvWrite { workspace, namespace, key, value: &value, kv_type: "JSON", overwrite, ttl_ms: None },
            )?;
            done(json!({"count": count_of(&value), "key": key}))
        }
        OpKind::Toggle { flow, trigger, enabled } => {
            let change = if *enabled { TriggerChange::Enable } else { TriggerChange::Disable };
            match triggers::change(tx, &workspace, flow, trigger, &change)? {
                true => done(json!({})),
                false => failed(
                    "trigger_unknown",
                    format!("Unable to find trigger {trigger} for the flow {}.{}", flow.namespace, flow.id),
                ),
            }
        }
        OpKind::Define { rows } => {
            for row in rows {
                put_flow(tx, row, &[], PushRule::Any)?;
            }
            return Ok(None);
        }
        OpKind::Admit(request) => return admit_child(tx, run, &op.step, request, out).map(Some),
        OpKind::EnterLane => {
            out.entered = Some(enter_lane(tx, run, Full::Wait)?);
            return Ok(None);
        }
        OpKind::EnterLaneOrEnd { status } => {
            out.entered = Some(enter_lane(tx, run, Full::End(*status))?);
            if out.entered == Some(false) {
                out.wake.push(run.id);
            }
            return Ok(None);
        }
        OpKind::ForceLane => {
            out.entered = Some(enter_lane(tx, run, Full::Force)?);
            return Ok(None);
        }
        OpKind::Kill { run: target, by, alone } => match tx.run(&workspace, *target)? {
            None => failed("run_unknown", format!("no run {target} in this workspace")),
            Some(row) if row.status.is_ended() => done(json!({})),
            Some(_) => {
                leave_for(tx, run, *target, &cancel(by, *alone), out)?;
                done(json!({}))
            }
        },
        OpKind::RunAgain { request, by, round, .. } => {
            return retry::run_again(tx, run, request, by, *round, out).map(Some);
        }
        OpKind::Remember { digest, ttl_ms } => {
            remember(tx, run, &op.step, *digest, *ttl_ms)?;
            return Ok(None);
        }
        OpKind::Ask { run: target, ticket, control, by } => match tx.run(&workspace, *target)? {
            None => failed("run_unknown", format!("no run {target} in this workspace")),
            Some(row) if row.status.is_ended() => failed("run_ended", format!("run {target} has ended already")),
            Some(_) => {
                let message = Inbox::Asked { ticket: *ticket, control: control.clone(), by: by.clone() };
                leave_for(tx, run, *target, &message, out)?;
                done(json!({}))
            }
        },
    }))
}

fn cancel(by: &By, alone: bool) -> Inbox {
    let by = by.clone();
    if alone { Inbox::CancelAlone { by } } else { Inbox::Cancel { by } }
}

/// Where the answer is, and not what it is: it goes with the run that has it.
fn remember(tx: &mut dyn Tx, run: &RunRow, step: &StepKey, digest: Hash16, ttl_ms: Option<i64>) -> Result<()> {
    let value = json!({"run": run.id, "seq": run.version, "step": step});
    let (namespace, key) = (CACHE_NAMESPACE, digest.hex());
    let write = KvWrite {
        workspace: &run.workspace,
        namespace,
        key: &key,
        value: &value,
        kv_type: "JSON",
        overwrite: true,
        ttl_ms,
    };
    kv_set(tx, &write).map(|_| ())
}

/// Leaves a message for a run, which may be the one that commits: its own head is written by this commit.
fn leave_for(tx: &mut dyn Tx, run: &mut RunRow, to: RunId, message: &Inbox, out: &mut CommitResult) -> Result<()> {
    if to == run.id {
        tx.push_inbox(&run.workspace, to, message)?;
        run.active = true;
    } else {
        notify(tx, &run.workspace, to, message)?;
    }
    out.wake.push(to);
    Ok(())
}

fn admit_child(
    tx: &mut dyn Tx,
    run: &mut RunRow,
    step: &StepKey,
    request: &AdmitRequest,
    out: &mut CommitResult,
) -> Result<Event> {
    let admitted = admit(tx, request)?;
    out.wake.extend(&admitted.wake);
    out.fenced.extend(&admitted.fenced);
    if let Some(due) = admitted.timer_due {
        out.timer_due = Some(out.timer_due.map_or(due, |known| known.min(due)));
    }
    let for_ever = match &admitted.run {
        Some(child) => waits_for(tx, run, request, child)?,
        None => false,
    };
    let event = match (&admitted.run, admitted.decision) {
        (_, Decision::Reject) | (None, _) => {
            let text = match &request.key {
                Some(key) if key.source == KeySource::Caller && request.flow.namespace == CONDUCTOR_NAMESPACE => {
                    format!("Workflow with the idempotency key {} already exists", key.key)
                }
                _ => format!("the sub-run was refused: {}", admitted.reason.word()),
            };
            refused(tx, step, Failure::new(admitted.reason.word(), text))
        }
        (Some(child), _) if for_ever => {
            let text = format!("the key of the sub-run is that of {}, which waits for this run", child.id);
            refused(tx, step, Failure::new("subflow_waits_for_itself", text))
        }
        (Some(child), _) => {
            // A child of ours tells us of its end by itself, unless the step that started it did not wait.
            let waits = request.parent.as_ref().is_some_and(|p| p.waits);
            let told = child.parent.as_ref().is_some_and(|p| p.run == run.id && (p.waits || !waits));
            if let Some(status) = ended(child.status) {
                // It ended before we came: hear of it by the same way as of any end.
                let outputs = tx.run_values(&run.workspace, child.id)?.outputs.unwrap_or(Json::Null);
                let (conclusion, warned) = (child.conclusion, child.warned);
                let message = Inbox::ChildEnded { run: child.id, status, conclusion, warned, outputs, doubts: 0 };
                tx.push_inbox(&run.workspace, run.id, &message)?;
                run.active = true;
                out.wake.push(run.id);
            } else if waits && !told {
                // Not waited for, somebody else's run is nothing to us: its doubts count at its own root.
                let hash = watch_hash(child.id);
                if !lanes::line(tx, &run.workspace, hash)?.contains(&run.id) {
                    lanes::wait(tx, &run.workspace, hash, run.id)?;
                }
            }
            Event::ChildStarted { step: step.clone(), run: child.id }
        }
    };
    out.admitted.push(admitted);
    Ok(event)
}

fn refused(tx: &dyn Tx, step: &StepKey, failure: Failure) -> Event {
    Event::OpDone { step: step.clone(), ok: false, at: tx.now(), output: None, failure: Some(failure) }
}

/// Whether the step would wait for its own run, or for one that waits for it, as parent or as watcher: an explicit key
/// can name either, and neither would ever end.
fn waits_for(tx: &mut dyn Tx, run: &RunRow, request: &AdmitRequest, child: &RunRow) -> Result<bool> {
    if !request.parent.as_ref().is_some_and(|parent| parent.waits) || ended(child.status).is_some() {
        return Ok(false);
    }
    let mut known = BTreeSet::from([run.id]);
    let mut todo = vec![run.clone()];
    while let Some(waited_for) = todo.pop() {
        if waited_for.id == child.id {
            return Ok(true);
        }
        let parent = waited_for.parent.as_ref().filter(|parent| parent.waits).map(|parent| parent.run);
        // What this transaction made nobody watches yet.
        let watchers = match tx.is_new(&run.workspace, waited_for.id) {
            true => vec![],
            false => lanes::line(tx, &run.workspace, watch_hash(waited_for.id))?,
        };
        for waiting in parent.into_iter().chain(watchers) {
            if known.insert(waiting)
                && let Some(row) = tx.run(&run.workspace, waiting)?
            {
                todo.push(row);
            }
        }
    }
    Ok(false)
}

fn ended(status: Status) -> Option<EndStatus> {
    match status {
        Status::Completed => Some(EndStatus::Completed),
        Status::Failed => Some(EndStatus::Failed),
        Status::Cancelled => Some(EndStatus::Cancelled),
        Status::Queued | Status::Running | Status::Waiting | Status::Paused | Status::Held => None,
    }
}

/// What a run does that finds no slot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Full {
    Wait,
    End(EndStatus),
    /// It takes one all the same.
    Force,
}

/// The run may start as far as it knows: a slot if there is one, else as `full` says.
fn enter_lane(tx: &mut dyn Tx, run: &mut RunRow, full: Full) -> Result<bool> {
    let mut free = true;
    if let Some(lane_ref) = run.lane {
        lanes::leave(tx, &run.workspace, lane_ref.hash, run.id)?;
        free = tx.lane(&run.workspace, lane_ref.hash)?.is_free(lane_ref.limit);
        if !free && full == Full::Force {
            run.more.forced = true;
            free = true;
        }
        if free {
            lanes::hold(tx, &run.workspace, lane_ref.hash, run.id)?;
        } else if full == Full::Wait {
            lanes::wait(tx, &run.workspace, lane_ref.hash, run.id)?;
        }
    }
    run.active = free;
    if free {
        // As an admission leaves a run that has its slot: whoever finds it so must start it.
        run.status = Status::Running;
        for mut claim in tx.claims_of_run(&run.workspace, run.id)? {
            claim.state = ClaimState::Live;
            tx.put_claim(&run.workspace, &claim)?;
        }
    } else if let Full::End(status) = full {
        let by = By { who: "lane".into(), why: "the lane was full when the run was to start".into() };
        let (code, text) = ("lane_busy".into(), by.why.clone());
        tx.push_inbox(&run.workspace, run.id, &Inbox::Stop { by, status, code, text })?;
        run.active = true;
    }
    Ok(free)
}

fn settle(tx: &mut dyn Tx, run: &mut RunRow, commit: &RunCommit, before: Before, out: &mut CommitResult) -> Result<()> {
    match commit.settle {
        Settle::Unchanged if before.held != (run.status == Status::Held) => {
            // A doubt in an open run holds the claim too, and its verdict frees it.
            let state = match run.status {
                Status::Held => ClaimState::Held,
                // Released after a restore, and its turn has not come.
                Status::Queued if !lanes::has_slot(tx, run)? => ClaimState::Pending,
                _ => ClaimState::Live,
            };
            for mut claim in tx.claims_of_run(&run.workspace, run.id)? {
                claim.state = state;
                tx.put_claim(&run.workspace, &claim)?;
            }
        }
        Settle::Unchanged => {}
        Settle::Ended { status } => {
            run.ended_at = Some(tx.now());
            tx.update_run(run)?;
            let outputs = match &commit.outputs {
                Some(outputs) => outputs.clone(),
                // It had ended before, and only its doubts have changed.
                None if before.ended => tx.run_values(&run.workspace, run.id)?.outputs.unwrap_or(Json::Null),
                None => Json::Null,
            };
            out.wake.extend(settle_end(tx, run, status, &outputs)?);
        }
        Settle::Reopened if before.ended => {
            run.generation += 1;
            for mut claim in tx.claims_of_run(&run.workspace, run.id)? {
                reopen_claim(&mut claim);
                tx.put_claim(&run.workspace, &claim)?;
            }
            if !planted!(KeyLeftWithAnother) {
                take_key_back(tx, run, commit)?;
            }
            run.ended_at = None;
        }
        // A twin was faster and has raised the generation, or nobody has ever seen the end.
        Settle::Reopened | Settle::ReopenedByTwin => run.ended_at = None,
    }
    if let (Settle::Reopened, Some(parent), Some(by)) =
        (commit.settle, run.parent.as_ref().filter(|p| p.waits), commit.reopen.as_ref().and_then(|r| r.lifts.clone()))
    {
        notify(tx, &run.workspace, parent.run, &Inbox::ChildReopened { run: run.id, by })?;
        out.wake.push(parent.run);
    }
    if matches!(commit.settle, Settle::Reopened | Settle::ReopenedByTwin) {
        tx.put_run_result(&run.workspace, run.id, None, None)?;
    }
    Ok(())
}
