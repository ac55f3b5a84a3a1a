//! Errands: set out by a run's commit, taken by workers, told of when they are late.

use super::ending::notify;
use super::manage::{KvWrite, kv_set, live_kv};
use crate::rows::{Inbox, TAKEN_LATELY};
use crate::tx::{Result, Tx};
use crate::work::{Done, ErrandChange, ErrandWord, TakeErrands};
use semel_core::planted;
use semel_core::run::Late;
use semel_core::{Hash16, Millis, RunId, WorkspaceId};
use serde_json::json;

pub(super) fn change(tx: &mut dyn Tx, workspace: &WorkspaceId, change: &ErrandChange) -> Result<()> {
    match change {
        ErrandChange::Set(row) => tx.put_errand(workspace, &(**row).clone().timed()),
        ErrandChange::End(id) => match tx.errand(workspace, *id)? {
            Some(row) => tx.put_errand(workspace, &row.ended()),
            None => Ok(()),
        },
    }
}

/// The run has ended without its driver, or is held: nobody gets its errands any more.
pub(super) fn end_all(tx: &mut dyn Tx, workspace: &WorkspaceId, run: RunId) -> Result<()> {
    for row in tx.open_errands(workspace, run)? {
        tx.put_errand(workspace, &row.ended())?;
    }
    Ok(())
}

/// Hands errands out. Whoever asks again in the same breath as before, because the answer was lost, gets what it was
/// given then: a repeat takes nothing more, and leaves nothing lying with a worker that does not know of it.
pub(super) fn take(tx: &mut dyn Tx, request: &TakeErrands) -> Result<Done> {
    let workspace = &request.workspace;
    let answered = match request.after {
        Some(id) => tx.errand(workspace, id)?,
        None => None,
    };
    if let Some(next) = answered.as_ref().and_then(|row| row.more.next)
        && let Some(row) = tx.errand(workspace, next)?
        && row.taken
        && row.more.seen.worker.as_deref() == Some(&request.worker)
    {
        return Ok(Done::Errands(vec![row]));
    }
    let room = match request.limit {
        Some(limit) => u64::from(limit).saturating_sub(tx.taken_errands(workspace, &request.from.queue)?),
        None => u64::MAX,
    };
    let now = tx.now();
    let mut lately = match request.rate {
        Some(rate) => taken_lately(tx, workspace, &request.from.queue, now.plus(-rate.window_ms))?,
        None => Vec::new(),
    };
    let by_rate = request.rate.map_or(u32::MAX, |rate| rate.count.saturating_sub(lately.len() as u32));
    let count = request.count.min(u32::try_from(room).unwrap_or(u32::MAX)).min(by_rate);
    let free = if count == 0 { Vec::new() } else { tx.free_errands(workspace, &request.from, count)? };
    let mut taken = Vec::with_capacity(free.len());
    for mut row in free {
        row.taken = !planted!(HandedOutTwice);
        row.more.seen.worker = Some(request.worker.clone());
        row.more.seen.polls += 1;
        row.more.seen.taken_at.get_or_insert(now);
        row.more.leased_until = row.more.response_ms.map(|ms| now.plus(ms));
        let row = row.timed();
        tx.put_errand(workspace, &row)?;
        taken.push(row);
    }
    if let (Some(rate), false) = (request.rate, taken.is_empty()) {
        lately.extend(std::iter::repeat_n(now, taken.len()));
        note_taken(tx, workspace, &request.from.queue, &lately, rate.window_ms)?;
    }
    if let (Some(mut answered), [first, ..]) = (answered, &taken[..]) {
        answered.more.next = Some(first.id);
        tx.put_errand(workspace, &answered)?;
    }
    Ok(Done::Errands(taken))
}

/// When errands of the queue were taken since then.
fn taken_lately(tx: &mut dyn Tx, workspace: &WorkspaceId, queue: &str, since: Millis) -> Result<Vec<Millis>> {
    let row = live_kv(tx, workspace, TAKEN_LATELY, queue)?;
    let times: Vec<Millis> = row.and_then(|row| serde_json::from_value(row.value).ok()).unwrap_or_default();
    Ok(times.into_iter().filter(|at| *at > since).collect())
}

fn note_taken(tx: &mut dyn Tx, workspace: &WorkspaceId, queue: &str, times: &[Millis], ttl_ms: i64) -> Result<()> {
    let value = json!(times);
    let (namespace, key, kv_type) = (TAKEN_LATELY, queue, "JSON");
    let write = KvWrite { workspace, namespace, key, value: &value, kv_type, overwrite: true, ttl_ms: Some(ttl_ms) };
    kv_set(tx, &write).map(|_| ())
}

pub(super) fn touch(
    tx: &mut dyn Tx,
    workspace: &WorkspaceId,
    id: Hash16,
    worker: Option<&str>,
    word: &ErrandWord,
) -> Result<Done> {
    let Some(mut row) = tx.errand(workspace, id)?.filter(|row| row.open) else { return Ok(Done::Missing) };
    let other = |worker: &str| row.more.seen.worker.as_deref().is_some_and(|holder| holder != worker);
    if row.taken && row.more.seen.polls > 1 && worker.is_some_and(other) && !planted!(PutBackTwice) {
        // A repeat of what was said before the errand was put back: somebody else has it now, and keeps it.
        return Ok(Done::Errands(vec![row]));
    }
    let now = tx.now();
    if let Some(worker) = worker {
        row.more.seen.worker = Some(worker.to_owned());
    }
    match word {
        ErrandWord::Alive => row.more.leased_until = row.more.response_ms.filter(|_| row.taken).map(|ms| now.plus(ms)),
        ErrandWord::Later { progress, after_ms } => {
            row.taken = false;
            row.more.leased_until = None;
            row.free_at = now.plus((*after_ms).max(0));
            if progress.is_some() {
                row.more.progress = progress.clone();
            }
        }
    }
    let row = row.timed();
    tx.put_errand(workspace, &row)?;
    Ok(Done::Errands(vec![row]))
}

/// Each is told of once. Whoever has fallen silent has lost the errand: what it still says of it is refused by its
/// attempt once the run has heard.
pub(super) fn tell_late(tx: &mut dyn Tx, limit: u32) -> Result<Done> {
    let now = tx.now();
    let mut wake = Vec::new();
    for (workspace, mut row) in tx.late_errands(limit)? {
        let Some((at, late)) = row.lateness() else { continue };
        if at > now {
            tx.put_errand(&workspace, &row.timed())?;
            continue;
        }
        let seen = row.more.seen.clone();
        let message = Inbox::ErrandLate { step: row.more.step.clone(), attempt: row.more.attempt, late, seen };
        match late {
            Late::Response => row.more.leased_until = None,
            Late::Poll | Late::Attempt => row.more.told_late = true,
        }
        let run = row.run;
        tx.put_errand(&workspace, &row.timed())?;
        notify(tx, &workspace, run, &message)?;
        wake.push((workspace, run));
    }
    Ok(Done::Wake(wake))
}
