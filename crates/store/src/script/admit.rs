//! Admission: claim, lane, run and decision row in one transaction.

use super::commit::commit_new;
use super::ending::{Fence, cancel_quiet, tree_state};
use super::hear::{announce, hear};
use super::triggers::take_tick;
use super::{lanes, replay, restore};
use crate::rows::*;
use crate::tx::{Look, Result, Tx};
use crate::work::*;
use semel_core::admission::*;
use semel_core::planted;
use semel_core::run::{
    By, Conclusion, EndStatus, Event, Failure, JOURNAL_VERSION, Payload, Status, StepKey, TimerWhy, conclusion_of,
    encode_events,
};
use semel_core::{Hash16, Millis, RunId};
use serde_json::Value as Json;

/// The one timer a gathering run has.
const QUIET_TIMER: u64 = 1;

/// What the event matrix said, with what it looked at.
struct Looked {
    verdict: EventVerdict,
    /// The claim's identity, after a split if there was one.
    hash: Option<Hash16>,
    claim: Option<Claim>,
    prior: Prior,
    same_payload: bool,
}

fn look(tx: &mut dyn Look, request: &AdmitRequest) -> Result<Looked> {
    let Some(key) = &request.key else {
        return Ok(Looked {
            verdict: if request.policy.require_key {
                EventVerdict::Reject(Reason::KeyMissing)
            } else {
                EventVerdict::Fresh(Reason::Keyless)
            },
            hash: None,
            claim: None,
            prior: Prior::Absent,
            same_payload: true,
        });
    };
    let mut looked = look_at(tx, request, key.hash)?;
    if looked.verdict == EventVerdict::Split {
        // The fingerprint is part of this identity, so a second split cannot happen.
        looked = look_at(tx, request, split_hash(key.hash, &request.fingerprint))?;
    }
    Ok(looked)
}

fn look_at(tx: &mut dyn Look, request: &AdmitRequest, hash: Hash16) -> Result<Looked> {
    let now = tx.now();
    let claim = tx.claim(&request.workspace, hash)?;
    let prior = claim.as_ref().map_or(Prior::Absent, |c| c.prior(now));
    let same_payload =
        claim.as_ref().is_none_or(|c| c.fingerprint == request.fingerprint || planted!(PayloadNotCompared));
    let verdict = decide_event(prior, same_payload, &request.policy);
    Ok(Looked { verdict, hash: Some(hash), claim, prior, same_payload })
}

/// Takes the decision if it changes nothing but the log.
pub fn peek(tx: &mut dyn Look, request: &AdmitRequest) -> Result<Option<(AdmitResult, DecisionRow)>> {
    let looked = look(tx, request)?;
    let (decision, reason) = match looked.verdict {
        EventVerdict::Attach(reason) => (Decision::Attach, reason),
        EventVerdict::Replay(reason) => (Decision::Replay, reason),
        EventVerdict::Hold(reason) => (Decision::Hold, reason),
        EventVerdict::Reject(reason) => (Decision::Reject, reason),
        EventVerdict::Fresh(_) | EventVerdict::Resume(_) | EventVerdict::Split => return Ok(None),
    };
    let run = named_run(tx, request, &looked)?;
    if run.is_none() && decision != Decision::Reject {
        return Ok(None); // the run is gone: the writer decides
    }
    let result = result(tx, &looked, decision, reason, run);
    let row = decision_row(tx, request, &looked, &result);
    Ok(Some((result, row)))
}

fn named_run(tx: &mut dyn Look, request: &AdmitRequest, looked: &Looked) -> Result<Option<RunRow>> {
    match &looked.claim {
        Some(claim) if planted!(TwinNamesAnotherRun) => {
            Ok(tx.run(&request.workspace, claim.run)?.map(|run| RunRow { id: request.run, ..run }))
        }
        Some(claim) => tx.run(&request.workspace, claim.run),
        None => Ok(None),
    }
}

fn result(tx: &dyn Look, looked: &Looked, decision: Decision, reason: Reason, run: Option<RunRow>) -> AdmitResult {
    AdmitResult {
        decision,
        reason,
        run,
        created: false,
        same_payload: looked.same_payload,
        prior: looked.prior,
        generation: looked.claim.as_ref().map_or(0, |c| c.generation),
        first_seen: looked.claim.as_ref().map(|c| c.first_seen).or(Some(tx.now())),
        expires_at: looked.claim.as_ref().and_then(Claim::expires_at),
        fenced: vec![],
        wake: vec![],
        timer_due: None,
    }
}

fn decision_row(tx: &dyn Look, request: &AdmitRequest, looked: &Looked, result: &AdmitResult) -> DecisionRow {
    DecisionRow {
        seq: 0,
        workspace: request.workspace.clone(),
        at: tx.now(),
        door: request.door,
        occurrence: request.occurrence.clone(),
        flow: request.flow.clone(),
        scope: request.key.as_ref().map(|k| k.scope.clone()),
        // A twin of an erased event must not bring its key back.
        key: request.key.as_ref().filter(|_| looked.prior != Prior::Erased).map(|k| k.key.clone()),
        key_source: request.key.as_ref().map(|k| k.source),
        claim: looked.hash,
        fingerprint: request.fingerprint,
        policy: request.policy,
        prior: looked.prior,
        prior_run: looked.claim.as_ref().map(|c| c.run),
        prior_generation: looked.claim.as_ref().map_or(0, |c| c.generation),
        same_payload: looked.same_payload,
        decision: result.decision,
        reason: result.reason,
        run: result.run.as_ref().map(|r| r.id),
        generation: result.generation,
        caller: request.caller.clone(),
        rules_version: RULES_VERSION,
    }
}

/// Decides one occurrence and applies the decision.
pub fn admit(tx: &mut dyn Tx, request: &AdmitRequest) -> Result<AdmitResult> {
    admit_with(tx, request, None)
}

/// As [`admit`]; a run that gets its slot begins with `first`, in the same transaction.
pub fn admit_with(tx: &mut dyn Tx, request: &AdmitRequest, first: Option<&RunCommit>) -> Result<AdmitResult> {
    if let Some(tick) = &request.tick {
        take_tick(tx, request, tick)?;
    }
    if let Some(hearing) = &request.hearing {
        hear(tx, &request.workspace, hearing)?;
    }
    if let Some(replay) = &request.terms.replay {
        replay::mark(tx, request, replay)?;
    }
    let mut looked = look(tx, request)?;
    let run = named_run(tx, request, &looked)?;
    let mut answer = match looked.verdict {
        EventVerdict::Attach(_) | EventVerdict::Replay(_) | EventVerdict::Hold(_) | EventVerdict::Resume(_)
            if run.is_none() =>
        {
            // An operator deleted the run; its key starts anew.
            looked.prior = Prior::Absent;
            fresh(tx, request, &looked, Reason::First)?
        }
        EventVerdict::Attach(reason) => result(tx, &looked, Decision::Attach, reason, run),
        EventVerdict::Replay(reason) => result(tx, &looked, Decision::Replay, reason, run),
        EventVerdict::Hold(reason) => result(tx, &looked, Decision::Hold, reason, run),
        EventVerdict::Reject(reason) => result(tx, &looked, Decision::Reject, reason, run),
        EventVerdict::Resume(reason) => resume(tx, request, &looked, reason, run)?,
        EventVerdict::Fresh(reason) => fresh(tx, request, &looked, reason)?,
        // `look` has already decided a split under its own identity.
        EventVerdict::Split => result(tx, &looked, Decision::Reject, Reason::PayloadMismatch, None),
    };
    if let Some(first) = first.filter(|_| answer.born().is_some()) {
        let done = commit_new(tx, first)?;
        answer.run = tx.run(&request.workspace, request.run)?;
        answer.wake.extend(done.wake);
        answer.fenced.extend(done.fenced);
    }
    let row = decision_row(tx, request, &looked, &answer);
    tx.append_decision(&row)?;
    Ok(answer)
}

/// Writes the row of a decision that was taken on a snapshot. The event may have been erased since, and what names it
/// must not come back.
pub(super) fn log_decision(tx: &mut dyn Tx, row: &DecisionRow) -> Result<Done> {
    let erased = match row.run.filter(|_| row.key.is_some()) {
        Some(run) => tx.run(&row.workspace, run)?.is_some_and(|run| run.erased),
        None => false,
    };
    if erased {
        tx.append_decision(&DecisionRow { key: None, ..row.clone() })?;
    } else {
        tx.append_decision(row)?;
    }
    Ok(Done::Unit)
}

/// The head that a run which gets its slot begins with, before anyone asked.
pub fn head_of(request: &AdmitRequest, now: Millis) -> RunRow {
    RunRow { version: 1, ..new_row(request, None, 1, Birth::Run, now) }
}

/// A twin asks for the failed run to go on.
fn resume(
    tx: &mut dyn Tx,
    request: &AdmitRequest,
    looked: &Looked,
    reason: Reason,
    run: Option<RunRow>,
) -> Result<AdmitResult> {
    let Some(mut run) = run else { return Ok(result(tx, looked, Decision::Reject, Reason::NotResumable, None)) };
    let replaced = run.conclusion == Some(Conclusion::Retried);
    if !run.status.is_ended() || run.open_doubts > 0 || run.erased || replaced {
        return Ok(result(tx, looked, Decision::Reject, Reason::NotResumable, Some(run)));
    }
    if !take_slot_again(tx, &run)? {
        return Ok(result(tx, looked, Decision::Reject, Reason::LaneBusy, Some(run)));
    }
    for mut claim in tx.claims_of_run(&request.workspace, run.id)? {
        reopen_claim(&mut claim);
        tx.put_claim(&request.workspace, &claim)?;
    }
    let by = By { who: format!("twin {}", request.occurrence), why: "a twin of the failed event arrived".into() };
    tx.push_inbox(&request.workspace, run.id, &Inbox::Restart { by })?;
    run.status = Status::Running;
    run.generation += 1;
    run.active = true;
    run.ended_at = None;
    run.updated_at = tx.now();
    tx.update_run(&run)?;
    let mut answer = result(tx, looked, Decision::Resume, reason, Some(run.clone()));
    answer.generation += 1;
    answer.wake.push(run.id);
    Ok(answer)
}

pub(super) fn reopen_claim(claim: &mut Claim) {
    claim.state = ClaimState::Live;
    claim.generation += 1;
    claim.completed_at = None;
}

/// An ended run that goes on needs its slot back; false when the lane is full.
pub(super) fn take_slot_again(tx: &mut dyn Tx, run: &RunRow) -> Result<bool> {
    let Some(lane_ref) = run.lane else { return Ok(true) };
    let lane = tx.lane(&run.workspace, lane_ref.hash)?;
    if lane.holders.contains(&run.id) {
        return Ok(true);
    }
    if !lane.has_slot(lane_ref.limit) {
        return Ok(false);
    }
    lanes::hold(tx, &run.workspace, lane_ref.hash, run.id)?;
    Ok(true)
}

/// A fresh event: the lane says what becomes of it.
fn fresh(tx: &mut dyn Tx, request: &AdmitRequest, looked: &Looked, reason: Reason) -> Result<AdmitResult> {
    let reason = restore::flagged(tx, request, reason);
    let mut answer = enter(tx, request, looked, reason)?;
    if reason == Reason::FirstAfterRestore
        && let Some(run) = answer.run.as_mut().filter(|run| answer.created && !run.status.is_ended())
        && restore::must_be_held(tx, request)
    {
        restore::hold(tx, run)?;
        answer.timer_due = None;
    }
    if reason == Reason::FirstAfterRestore && keeps_its_mark(answer.decision) {
        answer.reason = reason;
    }
    Ok(answer)
}

/// That an event may be a duplicate matters more than what its lane did, which the decision says too. Where events are
/// gathered the reason tells whether this one made the run.
fn keeps_its_mark(decision: Decision) -> bool {
    match decision {
        Decision::Queue | Decision::Replace | Decision::Deliver => true,
        Decision::Start
        | Decision::Coalesce
        | Decision::Attach
        | Decision::Replay
        | Decision::Resume
        | Decision::Hold
        | Decision::Reject => false,
    }
}

fn enter(tx: &mut dyn Tx, request: &AdmitRequest, looked: &Looked, reason: Reason) -> Result<AdmitResult> {
    if let Some((status, _)) = &request.terms.ended {
        return create(tx, request, looked, Decision::Start, reason, Birth::Ended(*status));
    }
    if let Some(due) = request.terms.start_at.filter(|due| *due > tx.now()) {
        return create(tx, request, looked, Decision::Queue, Reason::Queued, Birth::Later { due });
    }
    let Some(rule) = request.lane else {
        return create(tx, request, looked, Decision::Start, reason, Birth::Run);
    };
    let now = tx.now();
    let mut lane = tx.lane(&request.workspace, rule.hash)?;
    let holder = holder_state(tx, request, rule, &lane)?;
    match decide_lane(&lane, rule.limit, rule.busy, holder, now) {
        LaneVerdict::Run => {
            if rule.busy != Busy::Parallel {
                lanes::hold(tx, &request.workspace, rule.hash, request.run)?;
            }
            create(tx, request, looked, Decision::Start, reason, Birth::Run)
        }
        LaneVerdict::Queue(why) => {
            lanes::wait(tx, &request.workspace, rule.hash, request.run)?;
            create(tx, request, looked, Decision::Queue, why, Birth::Queued)
        }
        LaneVerdict::Replace { victim } => {
            let fence = supersede(tx, request, rule, Some(victim))?;
            lanes::hold(tx, &request.workspace, rule.hash, request.run)?;
            let mut answer = create(tx, request, looked, Decision::Replace, Reason::Replaced, Birth::Run)?;
            (answer.fenced, answer.wake) = (fence.fenced, fence.wake);
            Ok(answer)
        }
        LaneVerdict::ReplaceDeferred { victim } => replace_deferred(tx, request, looked, rule, victim),
        LaneVerdict::Gather { due } => {
            lane.gathering = Some(Gathering { run: request.run, since: now });
            tx.put_lane(&request.workspace, rule.hash, &lane)?;
            create(tx, request, looked, Decision::Coalesce, Reason::CoalescePending, Birth::Gathering { due })
        }
        LaneVerdict::Coalesce { into, due } => coalesce(tx, request, looked, into, due),
        LaneVerdict::Deliver { to } => deliver(tx, request, looked, to),
        LaneVerdict::Reject(why) => Ok(result(tx, looked, Decision::Reject, why, None)),
        LaneVerdict::StartCancelled => {
            create(tx, request, looked, Decision::Start, Reason::LaneCancelled, Birth::Ended(EndStatus::Cancelled))
        }
        LaneVerdict::StartFailed => {
            create(tx, request, looked, Decision::Start, Reason::LaneFailed, Birth::Ended(EndStatus::Failed))
        }
    }
}

fn replaced_by(request: &AdmitRequest) -> By {
    By { who: format!("run {}", request.run), why: "replaced by a newer event of its lane".into() }
}

/// Only a replacement asks what the holder allows.
fn holder_state(tx: &mut dyn Tx, request: &AdmitRequest, rule: LaneRequest, lane: &Lane) -> Result<HolderState> {
    let (Busy::Replace, Some(holder)) = (rule.busy, lane.holders.first()) else { return Ok(HolderState::Quiet) };
    let mut ancestor = request.parent.as_ref().map(|p| p.run);
    while let Some(id) = ancestor {
        if id == *holder {
            return Ok(HolderState::Ancestor);
        }
        ancestor = tx.run(&request.workspace, id)?.and_then(|run| run.parent).map(|p| p.run);
    }
    match tx.run(&request.workspace, *holder)? {
        Some(run) => tree_state(tx, &run),
        None => Ok(HolderState::Quiet),
    }
}

/// Cancels the runs of the lane that a newer event takes the place of: those who wait, and a holder.
fn supersede(tx: &mut dyn Tx, request: &AdmitRequest, rule: LaneRequest, holder: Option<RunId>) -> Result<Fence> {
    let by = replaced_by(request);
    let mut fence = Fence { announced: request.announced, ..Fence::default() };
    let waiting = lanes::line(tx, &request.workspace, rule.hash)?;
    for run in waiting.into_iter().chain(holder) {
        cancel_quiet(tx, &request.workspace, run, &by, rule.hash, &mut fence)?;
    }
    Ok(fence)
}

/// The holder has something in flight: it is asked to stop, and this run is next. Runs that were
/// waiting to replace it are superseded by this one.
fn replace_deferred(
    tx: &mut dyn Tx,
    request: &AdmitRequest,
    looked: &Looked,
    rule: LaneRequest,
    victim: RunId,
) -> Result<AdmitResult> {
    let fence = supersede(tx, request, rule, None)?;
    lanes::wait(tx, &request.workspace, rule.hash, request.run)?;
    send(tx, request, victim, &Inbox::Cancel { by: replaced_by(request) })?;
    let mut answer = create(tx, request, looked, Decision::Replace, Reason::ReplaceDeferred, Birth::Queued)?;
    (answer.fenced, answer.wake) = (fence.fenced, fence.wake);
    answer.wake.push(victim);
    Ok(answer)
}

/// Leaves a message for a run and makes a node look at it.
fn send(tx: &mut dyn Tx, request: &AdmitRequest, to: RunId, message: &Inbox) -> Result<()> {
    tx.push_inbox(&request.workspace, to, message)?;
    if let Some(mut run) = tx.run(&request.workspace, to)? {
        run.active = true;
        tx.update_run(&run)?;
    }
    Ok(())
}

/// Joins the run that gathers: its payload becomes this one, its quiet period begins again.
fn coalesce(tx: &mut dyn Tx, request: &AdmitRequest, looked: &Looked, into: RunId, due: Millis) -> Result<AdmitResult> {
    let Some(mut run) = tx.run(&request.workspace, into)? else {
        return Ok(result(tx, looked, Decision::Reject, Reason::LaneBusy, None));
    };
    let events = [
        Event::InputsReplaced {
            inputs: Payload::new(request.inputs.clone()),
            trigger: Payload::new(request.trigger.clone()),
        },
        Event::TimerSet { timer: QUIET_TIMER, due, step: StepKey::root(), why: TimerWhy::Quiet },
    ];
    append(tx, &mut run, &events)?;
    // One that a restore holds has no timers before it is released.
    let held = run.status == Status::Held;
    if !held {
        tx.put_timer(&TimerRow { workspace: request.workspace.clone(), run: into, timer: QUIET_TIMER, due })?;
    }
    let mut values = tx.run_values(&request.workspace, into)?;
    values.inputs = Some(request.inputs.clone());
    values.trigger = Some(request.trigger.clone());
    tx.put_run_values(&request.workspace, into, &values)?;
    tx.update_run(&run)?;
    let state = if held { ClaimState::Held } else { ClaimState::Pending };
    let generation = put_claim(tx, request, looked, into, state)?;
    let mut answer = result(tx, looked, Decision::Coalesce, Reason::Coalesced, Some(run));
    answer.generation = generation;
    answer.timer_due = (!held).then_some(due);
    Ok(answer)
}

fn deliver(tx: &mut dyn Tx, request: &AdmitRequest, looked: &Looked, to: RunId) -> Result<AdmitResult> {
    let payload = serde_json::json!({"inputs": request.inputs, "trigger": request.trigger});
    send(tx, request, to, &Inbox::Delivered { payload })?;
    let run = tx.run(&request.workspace, to)?;
    let state =
        if run.as_ref().is_some_and(|r| r.status == Status::Held) { ClaimState::Held } else { ClaimState::Live };
    let generation = put_claim(tx, request, looked, to, state)?;
    let mut answer = result(tx, looked, Decision::Deliver, Reason::Delivered, run);
    answer.generation = generation;
    answer.wake.push(to);
    Ok(answer)
}

/// How a new run begins.
#[derive(Clone, Copy)]
enum Birth {
    Run,
    Queued,
    Gathering {
        due: Millis,
    },
    /// It waits for its date.
    Later {
        due: Millis,
    },
    Ended(EndStatus),
}

/// Why a run is born ended.
fn why_ended(request: &AdmitRequest) -> Failure {
    match &request.terms.ended {
        Some((_, failure)) => failure.clone(),
        None => Failure::new("lane_busy", "the lane was full when the event arrived"),
    }
}

fn create(
    tx: &mut dyn Tx,
    request: &AdmitRequest,
    looked: &Looked,
    decision: Decision,
    reason: Reason,
    birth: Birth,
) -> Result<AdmitResult> {
    let now = tx.now();
    let state = match birth {
        Birth::Run => ClaimState::Live,
        Birth::Queued | Birth::Gathering { .. } | Birth::Later { .. } => ClaimState::Pending,
        Birth::Ended(EndStatus::Failed) => ClaimState::Failed,
        Birth::Ended(_) => ClaimState::Cancelled,
    };
    let generation = put_claim(tx, request, looked, request.run, state)?;
    let mut row = new_row(request, looked.hash, generation, birth, now);
    let events = birth_events(request, birth);
    let values = RunValues {
        inputs: Some(request.inputs.clone()),
        trigger: Some(request.trigger.clone()),
        outputs: None,
        failure: matches!(birth, Birth::Ended(_)).then(|| {
            let failure = why_ended(request);
            serde_json::json!({"code": failure.code, "message": failure.message(), "step": null})
        }),
    };
    append(tx, &mut row, &events)?;
    tx.insert_run(&row, &values, &request.labels)?;
    if let Birth::Ended(status) = birth
        && request.announced
    {
        announce(tx, &row, if status == EndStatus::Failed { "FAILED" } else { "CANCELLED" })?;
    }
    let mut answer = result(tx, looked, decision, reason, Some(row));
    answer.created = true;
    answer.generation = generation;
    answer.first_seen = Some(now);
    answer.expires_at = None;
    if request.terms.is_told_by_journal() && matches!(birth, Birth::Run) {
        answer.wake.push(request.run);
    }
    if let Birth::Gathering { due } | Birth::Later { due } = birth {
        tx.put_timer(&TimerRow { workspace: request.workspace.clone(), run: request.run, timer: QUIET_TIMER, due })?;
        answer.timer_due = Some(due);
    }
    Ok(answer)
}

fn new_row(request: &AdmitRequest, claim: Option<Hash16>, generation: u32, birth: Birth, now: Millis) -> RunRow {
    let (replay, retry) = (request.terms.replay.as_ref(), request.terms.retry.as_ref());
    RunRow {
        id: request.run,
        workspace: request.workspace.clone(),
        flow: request.flow.clone(),
        revision: request.revision,
        status: match birth {
            Birth::Run => Status::Running,
            Birth::Queued | Birth::Gathering { .. } | Birth::Later { .. } => Status::Queued,
            Birth::Ended(EndStatus::Failed) => Status::Failed,
            Birth::Ended(_) => Status::Cancelled,
        },
        epoch: 1,
        version: 0,
        active: matches!(birth, Birth::Run),
        open_intents: 0,
        open_doubts: 0,
        logical: retry.map_or(request.run, |retry| retry.logical),
        take: retry.map_or(0, |retry| retry.take),
        generation,
        claim,
        lane: request.lane.filter(|l| l.busy != Busy::Parallel).map(|l| LaneRef { hash: l.hash, limit: l.limit }),
        parent: request.parent.clone(),
        root: request.root.unwrap_or(request.run),
        depth: request.depth,
        correlation_id: request.correlation_id.clone().unwrap_or_else(|| request.run.to_string()),
        door: request.door,
        key: request.key.as_ref().map(|k| k.key.clone()),
        created_at: now,
        started_at: matches!(birth, Birth::Run).then_some(now),
        ended_at: matches!(birth, Birth::Ended(_)).then_some(now),
        updated_at: now,
        warned: retry.is_some_and(|retry| retry.warned),
        erased: false,
        conclusion: match birth {
            Birth::Later { .. } => Some(Conclusion::Scheduled),
            Birth::Ended(status) => conclusion_of(status, Some(&why_ended(request).code)),
            Birth::Run | Birth::Queued | Birth::Gathering { .. } => None,
        },
        more: RunMore {
            start_at: request.terms.start_at,
            replay_of: replay.map(|replay| replay.of).or(retry.map(|retry| retry.of)),
            original: replay.map(|replay| replay.original).or(retry.map(|retry| retry.original)),
            forced: false,
        },
    }
}

fn birth_events(request: &AdmitRequest, birth: Birth) -> Vec<Event> {
    let labels: serde_json::Map<String, Json> =
        request.labels.iter().map(|(k, v)| (k.clone(), Json::String(v.clone()))).collect();
    let mut events = vec![Event::Created {
        flow: request.flow.clone(),
        revision: request.revision,
        logical: request.terms.retry.as_ref().map_or(request.run, |retry| retry.logical),
        inputs: Payload::new(request.inputs.clone()),
        trigger: Payload::new(request.trigger.clone()),
        labels: Payload::new(Json::Object(labels)),
        queued: matches!(birth, Birth::Queued),
    }];
    if let Some(replay) = &request.terms.replay {
        events.push(Event::ReplayOf { run: replay.of, original: replay.original, from: replay.from });
        events.extend(replay.events.iter().cloned());
    }
    if !request.terms.breakpoints.is_empty() {
        events.push(Event::BreakpointsSet { tasks: request.terms.breakpoints.clone(), places: vec![] });
    }
    if let Some(retry) = &request.terms.retry {
        events.extend(retry.events.iter().cloned());
        events.push(Event::RetryOf { run: retry.of, original: retry.original });
    }
    match birth {
        Birth::Run | Birth::Queued => {}
        Birth::Later { due } => {
            events.push(Event::TimerSet { timer: QUIET_TIMER, due, step: StepKey::root(), why: TimerWhy::StartDate });
        }
        Birth::Gathering { due } => {
            events.push(Event::TimerSet { timer: QUIET_TIMER, due, step: StepKey::root(), why: TimerWhy::Quiet });
        }
        Birth::Ended(status) => {
            let failure = Some(why_ended(request));
            events.push(Event::Ended { status, warned: false, outputs: None, failure });
        }
    }
    events
}

/// Writes the claim of a fresh event; returns its generation.
fn put_claim(tx: &mut dyn Tx, request: &AdmitRequest, looked: &Looked, run: RunId, state: ClaimState) -> Result<u32> {
    let generation = looked.claim.as_ref().map_or(0, |c| c.generation) + 1;
    if let (Some(key), Some(hash)) = (&request.key, looked.hash) {
        let now = tx.now();
        let claim = Claim {
            hash,
            key: Some(key.key.clone()),
            scope: key.scope.clone(),
            run,
            fingerprint: request.fingerprint,
            state,
            generation,
            first_seen: now,
            completed_at: (!state.is_open()).then_some(now),
            window: request.policy.window,
            expire_live: request.policy.expire_live,
        };
        tx.put_claim(&request.workspace, &claim)?;
    }
    Ok(generation)
}

/// Appends one journal row and raises the head's version; the caller writes the head.
pub(super) fn append(tx: &mut dyn Tx, run: &mut RunRow, events: &[Event]) -> Result<()> {
    let (structure, values) = encode_events(events);
    run.version += 1;
    run.updated_at = tx.now();
    let row =
        JournalRow { run: run.id, seq: run.version, at: tx.now(), format: JOURNAL_VERSION, events: structure, values };
    tx.append_journal(&run.workspace, &row)
}
