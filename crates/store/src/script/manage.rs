//! Management writes: flows, kv, secrets, tokens, keys, runs, clean-up.

use crate::rows::*;
use crate::tx::{Result, Tx};
use crate::words::{TaskWord, WordOf};
use crate::work::*;
use semel_core::admission::ClaimState;
use semel_core::ir::{CONDUCTOR_NAMESPACE, Flow, Trigger, TriggerKind};
use semel_core::planted;
use semel_core::run::{By, StepKey};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use serde_json::Value as Json;
use std::collections::BTreeMap;

pub(super) fn put_flow(tx: &mut dyn Tx, row: &FlowRow, schedules: &[ScheduleRow], rule: PushRule) -> Result<Done> {
    let head = tx.flow_head(&row.workspace, &row.flow)?;
    let exists = head.as_ref().is_some_and(|head| !head.deleted);
    match rule {
        PushRule::New if exists => return Ok(Done::Refused(Refusal::Exists)),
        PushRule::Known if !exists => return Ok(Done::Missing),
        PushRule::Any | PushRule::New | PushRule::Known => {}
    }
    if let Some(head) = &head
        && !head.deleted
        && head.source == row.source
        && head.ir == row.ir
    {
        return Ok(Done::Flow { revision: head.revision, changed: false });
    }
    let schedules = match &head {
        Some(head) => carried_over(tx, head, row, schedules)?,
        None => schedules.to_vec(),
    };
    let revision = head.map_or(0, |h| h.revision) + 1;
    let stored = FlowRow { revision, deleted: false, created_at: tx.now(), ..row.clone() };
    tx.insert_flow(&stored)?;
    tx.put_schedules(&row.workspace, &row.flow, &schedules)?;
    Ok(Done::Flow { revision, changed: true })
}

/// Runs keep the revision that they were admitted with, so nothing of what was pushed is taken away: a last revision says
/// that there is no newest one.
pub(super) fn delete_flow(tx: &mut dyn Tx, workspace: &WorkspaceId, flow: &FlowRef, by: &str) -> Result<Done> {
    let Some(head) = tx.flow_head(workspace, flow)?.filter(|head| !head.deleted) else { return Ok(Done::Missing) };
    let revision = head.revision + 1;
    let gone = FlowRow { revision, deleted: true, created_at: tx.now(), created_by: by.to_owned(), ..head };
    tx.insert_flow(&gone)?;
    tx.put_schedules(workspace, flow, &[])?;
    Ok(Done::Flow { revision, changed: true })
}

/// A schedule whose instants stay the same goes on where it was: what was due and has not been fired yet is not lost
/// by a push.
fn carried_over(tx: &mut dyn Tx, head: &FlowRow, row: &FlowRow, schedules: &[ScheduleRow]) -> Result<Vec<ScheduleRow>> {
    if schedules.is_empty() {
        return Ok(vec![]);
    }
    let (before, after) = (instants(head), instants(row));
    let stored = tx.flow_schedules(&row.workspace, &row.flow)?;
    let carry = |new: &ScheduleRow| {
        let same = before.get(&new.trigger).is_some_and(|instants| after.get(&new.trigger) == Some(instants));
        let old = stored.iter().find(|old| old.trigger == new.trigger);
        match old {
            // What somebody switched off stays off.
            Some(old) if old.state.disabled => {
                let state = TriggerState { disabled: true, ..TriggerState::default() };
                ScheduleRow { next_due: None, state, ..new.clone() }
            }
            Some(old) if same && (old.next_due.is_some() || new.next_due.is_none() || old.state.backfill.is_some()) => {
                old.clone()
            }
            _ => new.clone(),
        }
    };
    Ok(schedules.iter().map(carry).collect())
}

/// What the instants of each schedule of a flow follow from, by trigger.
fn instants(row: &FlowRow) -> BTreeMap<String, Instants> {
    // A text that does not read is met, and told, where it is run.
    let Ok(flow) = serde_json::from_str::<Flow>(&row.ir) else { return BTreeMap::new() };
    let timed = |trigger: Trigger| match &trigger.kind {
        TriggerKind::Schedule { cron, timezone, with_seconds, .. } => {
            Some((trigger.id.clone(), Instants::Cron(cron.clone(), timezone.clone(), *with_seconds)))
        }
        TriggerKind::ScheduleOnDates { dates, .. } => Some((trigger.id.clone(), Instants::Dates(dates.clone()))),
        // What it remembers is about the conditions it had.
        TriggerKind::Flow { .. } => Some((trigger.id.clone(), Instants::Upstream(Box::new(trigger)))),
        // A push that changes what is asked for does not change when.
        TriggerKind::Http { interval_ms, .. } => Some((trigger.id.clone(), Instants::Every(*interval_ms))),
        TriggerKind::Webhook { .. } => None,
    };
    flow.triggers.into_iter().filter_map(timed).collect()
}

#[derive(PartialEq)]
enum Instants {
    Cron(String, String, bool),
    Dates(Vec<Millis>),
    Upstream(Box<Trigger>),
    Every(i64),
}

pub(super) struct KvWrite<'a> {
    pub workspace: &'a WorkspaceId,
    pub namespace: &'a str,
    pub key: &'a str,
    pub value: &'a Json,
    pub kv_type: &'a str,
    pub overwrite: bool,
    pub ttl_ms: Option<i64>,
}

/// The row unless it has expired.
pub(super) fn live_kv(tx: &mut dyn Tx, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<Option<KvRow>> {
    let now = tx.now();
    Ok(tx.kv(workspace, namespace, key)?.filter(|row| row.expires_at.is_none_or(|at| now < at)))
}

/// The new revision, or `None` when the key is taken and must not be overwritten.
pub(super) fn kv_set(tx: &mut dyn Tx, write: &KvWrite<'_>) -> Result<Option<u64>> {
    let now = tx.now();
    let prior = tx.kv(write.workspace, write.namespace, write.key)?;
    let taken = prior.as_ref().is_some_and(|row| row.expires_at.is_none_or(|at| now < at));
    if taken && !write.overwrite {
        return Ok(None);
    }
    let revision = prior.map_or(0, |row| row.revision) + 1;
    let row = KvRow {
        namespace: write.namespace.to_owned(),
        key: write.key.to_owned(),
        value: write.value.clone(),
        kv_type: write.kv_type.to_owned(),
        revision,
        updated_at: now,
        expires_at: write.ttl_ms.map(|ms| now.plus(ms)),
    };
    tx.put_kv(write.workspace, &row)?;
    Ok(Some(revision))
}

/// True when there was something to delete.
pub(super) fn kv_delete(tx: &mut dyn Tx, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<bool> {
    let found = live_kv(tx, workspace, namespace, key)?.is_some();
    tx.delete_kv(workspace, namespace, key)?;
    Ok(found)
}

pub(super) fn put_secret(tx: &mut dyn Tx, row: &SecretRow) -> Result<Done> {
    let latest = tx.secret_versions(&row.workspace, &row.name)?.last().map_or(0, |r| r.version);
    if row.version != latest + 1 {
        // The version is bound into the ciphertext, so the caller must encrypt again.
        return Ok(Done::Refused(Refusal::Exists));
    }
    tx.put_secret(&SecretRow { created_at: tx.now(), ..row.clone() })?;
    Ok(Done::Secret { version: row.version })
}

pub(super) fn retire_secret(tx: &mut dyn Tx, workspace: &WorkspaceId, name: &str) -> Result<Done> {
    let versions = tx.secret_versions(workspace, name)?;
    let live: Vec<SecretRow> = versions.into_iter().filter(|row| !row.retired).collect();
    if live.is_empty() {
        return Ok(Done::Missing);
    }
    let count = live.len() as u64;
    for row in live {
        tx.put_secret(&SecretRow { retired: true, ..row })?;
    }
    Ok(Done::Count(count))
}

pub(super) fn revoke_token(tx: &mut dyn Tx, workspace: &WorkspaceId, id: &str) -> Result<Done> {
    match tx.token(id)? {
        Some(row) if row.workspace == *workspace => {
            let revoked_at = row.revoked_at.or(Some(tx.now()));
            tx.put_token(&TokenRow { revoked_at, ..row })?;
            Ok(Done::Unit)
        }
        _ => Ok(Done::Missing),
    }
}

pub(super) fn put_workspace(tx: &mut dyn Tx, row: &WorkspaceRow) -> Result<Done> {
    if tx.workspace(&row.id)?.is_some() {
        return Ok(Done::Refused(Refusal::Exists));
    }
    tx.put_workspace(row)?;
    Ok(Done::Unit)
}

/// An ended run without open doubts, or why not.
fn ended_run(tx: &mut dyn Tx, workspace: &WorkspaceId, id: RunId) -> Result<std::result::Result<RunRow, Done>> {
    Ok(match tx.run(workspace, id)? {
        None => Err(Done::Missing),
        Some(run) if run.open_doubts > 0 => Err(Done::Refused(Refusal::DoubtOpen)),
        Some(run) if !run.status.is_ended() => Err(Done::Refused(Refusal::RunLive)),
        Some(run) => Ok(run),
    })
}

/// Log numbers from here on say who freed a key: past every ordinary line.
pub const RELEASED_FROM: u64 = 1 << 62;

/// Log numbers from here on are those of lines that someone outside has added: past every line of the run itself.
pub const OUTSIDE_FROM: u64 = 1 << 61;
/// Lines that can be told apart in one millisecond.
const OUTSIDE_BITS: u32 = 18;

/// Lines about one step.
pub(super) struct LinesOf<'a> {
    pub step: &'a StepKey,
    pub level: &'a str,
    pub lines: &'a [LogLine],
    pub nonce: u64,
}

pub(super) fn add_logs(tx: &mut dyn Tx, workspace: &WorkspaceId, run: RunId, of: &LinesOf<'_>) -> Result<Done> {
    if tx.run(workspace, run)?.is_none_or(|row| row.erased) {
        return Ok(Done::Missing);
    }
    let base = OUTSIDE_FROM + ((tx.now().0.max(0) as u64) << OUTSIDE_BITS);
    for (place, line) in of.lines.iter().enumerate() {
        let salt = of.nonce.wrapping_add(place as u64) & ((1 << OUTSIDE_BITS) - 1);
        let (level, step, message) = (of.level.to_owned(), of.step.clone(), line.message.clone());
        tx.append_log(workspace, &LogRow { run, seq: base + salt, at: line.at, level, step, message })?;
    }
    Ok(Done::Unit)
}

pub(super) fn release_key(tx: &mut dyn Tx, workspace: &WorkspaceId, hash: Hash16, by: &By) -> Result<Done> {
    let Some(claim) = tx.claim(workspace, hash)? else { return Ok(Done::Missing) };
    match ended_run(tx, workspace, claim.run)? {
        Err(Done::Missing) => {}
        Err(refusal) => return Ok(refusal),
        Ok(run) => {
            // Who freed the key, and why, stays with the run that held it.
            let message = format!("key released by {}: {}", by.who, by.why);
            // Claims of one run freed in one millisecond stay apart.
            let salt = u64::from(u16::from_be_bytes([hash.0[0], hash.0[1]]) & 1_023);
            let seq = RELEASED_FROM + ((tx.now().0.max(0) as u64) << 10) + salt;
            tx.append_log(
                workspace,
                &LogRow { run: run.id, seq, at: tx.now(), level: "AUDIT".into(), step: StepKey::root(), message },
            )?;
        }
    }
    tx.delete_claim(workspace, hash)?;
    Ok(Done::Unit)
}

pub(super) fn delete_run(tx: &mut dyn Tx, workspace: &WorkspaceId, id: RunId) -> Result<Done> {
    let run = match ended_run(tx, workspace, id)? {
        Ok(run) => run,
        Err(refusal) => return Ok(refusal),
    };
    for claim in tx.claims_of_run(workspace, run.id)? {
        tx.delete_claim(workspace, claim.hash)?;
    }
    tx.delete_run(workspace, run.id)?;
    Ok(Done::Unit)
}

/// A run that goes on may write a line at any moment, so only an ended one loses them.
pub(super) fn delete_logs(tx: &mut dyn Tx, workspace: &WorkspaceId, id: RunId) -> Result<Done> {
    match tx.run(workspace, id)? {
        None => Ok(Done::Missing),
        Some(run) if !run.status.is_ended() => Ok(Done::Refused(Refusal::RunLive)),
        Some(run) => tx.delete_logs(workspace, run.id).map(|()| Done::Unit),
    }
}

pub(super) fn erase_run(tx: &mut dyn Tx, workspace: &WorkspaceId, id: RunId) -> Result<Done> {
    let mut run = match ended_run(tx, workspace, id)? {
        Ok(run) => run,
        Err(refusal) => return Ok(refusal),
    };
    for mut claim in tx.claims_of_run(workspace, id)? {
        claim.state = ClaimState::Erased;
        claim.key = None;
        tx.put_claim(workspace, &claim)?;
    }
    tx.erase_run(workspace, id)?;
    if run.flow.namespace == CONDUCTOR_NAMESPACE {
        tx.put_task_word(workspace, id, &TaskWord { of: WordOf::Untold, text: String::new() })?;
    }
    tx.put_labels(workspace, id, &[])?;
    run.erased = true;
    run.key = None;
    // Whoever still has the values in memory must not write them again.
    run.epoch += 1;
    tx.update_run(&run)?;
    Ok(Done::Unit)
}

/// Only forward: whoever was slower than another must not make an instant due again.
pub(super) fn advance_schedule(tx: &mut dyn Tx, row: &ScheduleRow) -> Result<Done> {
    let stored = tx.flow_schedules(&row.workspace, &row.flow)?;
    let Some(stored) = stored.into_iter().find(|stored| stored.trigger == row.trigger) else { return Ok(Done::Unit) };
    if stored.next_due.is_some_and(|due| row.next_due.is_none_or(|next| next >= due)) {
        let state = TriggerState { woken: false, ..stored.state };
        tx.update_schedule(&ScheduleRow { state, ..row.clone() })?;
    }
    Ok(Done::Unit)
}

pub(super) fn message(tx: &mut dyn Tx, workspace: &WorkspaceId, id: RunId, message: &Inbox) -> Result<Done> {
    let Some(mut run) = tx.run(workspace, id)? else { return Ok(Done::Missing) };
    tx.push_inbox(workspace, id, message)?;
    run.active = true;
    tx.update_run(&run)?;
    Ok(Done::Unit)
}

/// Deletes what nothing asks for any more, a bounded number of rows at a time. Decisions never
/// depend on it: they read the clock themselves.
pub(super) fn sweep(tx: &mut dyn Tx, rules: &SweepRules) -> Result<Done> {
    let now = tx.now();
    let mut count = 0;
    let forgotten = if planted!(ClaimsSweptEarly) { now.plus(120 * 86_400_000) } else { now };
    for (workspace, hash) in tx.forgotten_claims(forgotten, rules.limit)? {
        tx.delete_claim(&workspace, hash)?;
        count += 1;
    }
    count += tx.sweep_kv(now, rules.limit)?;
    count += tx.sweep_uploads(now.plus(-rules.uploads_ms), rules.limit)?;
    count += tx.sweep_decisions(now.plus(-rules.decisions_ms), rules.limit)?;
    if let Some(history_ms) = rules.history_ms {
        for (workspace, id) in tx.old_runs(now.plus(-history_ms), rules.limit)? {
            tx.delete_run(&workspace, id)?;
            count += 1;
        }
    }
    Ok(Done::Count(count))
}
