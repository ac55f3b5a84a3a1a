//! Building a run's commit from what is pending.

use super::active::{Active, Pending, out_now};
use semel_core::Millis;
use semel_core::run::{Event, Phase, Seen, StepKey, encode_events};
use semel_expr::Value;
use semel_store::{
    CommitOp, ErrandChange, ErrandMore, ErrandRow, HeadChange, OpKind, Reopen, RunCommit, Settle, TaskWord, WordOf,
};
use serde_json::{Value as Json, json};

/// Events between two snapshots of a run.
const SNAPSHOT_EVENTS: usize = 1_000;

impl Active {
    /// What has gathered, as one commit; `None` when nothing has.
    pub fn take_commit(&mut self) -> Option<RunCommit> {
        let pending = &self.pending;
        let nothing = pending.events.is_empty()
            && pending.ops.is_empty()
            && pending.enter_lane.is_none()
            && pending.inbox_consumed.is_empty()
            && pending.cancels.is_empty()
            && pending.logs.is_empty()
            && self.stale_timers.is_empty();
        // A request that changed nothing is still answered by a commit: that proves the guard.
        if nothing && pending.tickets.is_empty() && !self.rests_unseen() {
            return None;
        }
        Some(self.build())
    }

    /// An op was carried out by the last commit, and nothing follows from it (its neighbours rest, or it is a sub-run that
    /// is waited for): the head still says that the run works.
    fn rests_unseen(&self) -> bool {
        let open = self.state.phase == Phase::Open && !self.state.restored;
        self.head_active && self.went_on && open && !self.state.is_active() && self.queue.is_empty()
    }

    fn build(&mut self) -> RunCommit {
        let pending = std::mem::take(&mut self.pending);
        let (events, values) = if pending.events.is_empty() { (vec![], None) } else { encode_events(&pending.events) };
        let (timers_set, mut timers_cleared) = timers(&pending.events);
        timers_cleared.append(&mut self.stale_timers);
        let ops = self.take_ops(&pending);
        self.events_since_snapshot += pending.events.len();
        // What is only noted has no answer that would make the run go on, and what is asked of a run after its end is most
        // often refused, which writes nothing.
        let answered = |op: &CommitOp| {
            !matches!(op.kind, OpKind::Remember { .. } | OpKind::Announce { .. } | OpKind::Define { .. })
        };
        let working = ops.iter().any(answered) || (!self.queue.is_empty() && !self.state.is_ended());
        let snapshot = self.snapshot(working);
        let (outputs, failure) = ending(&pending.events, self.memory.failed_step.as_ref());
        let commit = RunCommit {
            workspace: self.workspace.clone(),
            run: self.run,
            epoch: self.epoch,
            version: self.version,
            events,
            values,
            head: HeadChange {
                status: self.state.status(),
                active: self.state.is_active() || working,
                open_intents: self.state.open_intents(),
                open_doubts: self.state.open_doubts(),
                take: self.state.take,
                warned: self.state.warned,
                conclusion: self.state.conclusion,
            },
            timers_set,
            timers_cleared,
            errands: self.errand_changes(&pending),
            effects: pending.effects.values().cloned().collect(),
            task_words: self.new_words(&pending),
            logs: pending.logs.clone(),
            labels: pending.labels_changed.then(|| self.memory.labels.clone().into_iter().collect()),
            inbox_consumed: pending.inbox_consumed.clone(),
            answers: pending.answers.clone(),
            outputs,
            failure,
            snapshot,
            ops,
            settle: self.settle(&pending),
            cancels: pending.cancels.clone(),
            announce: None,
            amend: pending.amend.clone(),
            reopen: pending.reopened.then(|| Reopen {
                claim: self.claim,
                lifts: pending.lifts.clone(),
                forced: pending.lifted,
            }),
        };
        self.memory.forget_settled(&self.state);
        self.head_active = commit.head.active;
        self.committed = pending;
        commit
    }

    /// Those that were written before need not be written again.
    fn new_words(&mut self, pending: &Pending) -> Vec<TaskWord> {
        let new: Vec<TaskWord> = pending.task_words.difference(&self.task_words_told).cloned().collect();
        // An id is not told of again when its attempt is over.
        self.task_words_told.extend(new.iter().filter(|word| word.of != WordOf::Id).cloned());
        new
    }

    /// Attempts that are over lose their rows' openness first, so that a step never has two that can be taken.
    fn errand_changes(&mut self, pending: &Pending) -> Vec<ErrandChange> {
        let before = std::mem::replace(&mut self.errands_out, out_now(&self.state));
        let now = &self.errands_out;
        let over = before.iter().filter(|(step, id)| now.get(*step) != Some(id));
        let mut changes: Vec<ErrandChange> = over.map(|(_, id)| ErrandChange::End(*id)).collect();
        for event in &pending.events {
            let Event::ErrandSet { step, attempt, at, free_at, .. } = event else { continue };
            let out = self.state.errands().find(|(key, out, _)| *key == step && out == attempt);
            let (Some((_, _, terms)), Some(id)) = (out, now.get(step)) else { continue };
            changes.push(ErrandChange::Set(Box::new(ErrandRow {
                id: *id,
                run: self.run,
                queue: terms.queue.clone(),
                domain: terms.domain.clone().unwrap_or_default(),
                kind: terms.kind,
                open: true,
                taken: false,
                priority: terms.priority,
                free_at: *free_at,
                due: None,
                more: ErrandMore {
                    step: step.clone(),
                    attempt: *attempt,
                    set_at: *at,
                    response_ms: terms.response_ms,
                    poll_ms: terms.poll_ms,
                    attempt_ms: terms.attempt_ms,
                    seen: Seen::default(),
                    leased_until: None,
                    told_late: false,
                    request: self.memory.requests.get(step).cloned(),
                    progress: None,
                    on_taken: pending.on_taken.get(step).cloned().unwrap_or_default(),
                    next: None,
                },
            })));
        }
        changes
    }

    fn take_ops(&mut self, pending: &Pending) -> Vec<CommitOp> {
        let mut ops: Vec<CommitOp> = Vec::new();
        for step in &pending.ops {
            if let Some(kind) = self.ops_ready.remove(step) {
                // A run is started by what is there.
                if let Some(rows) = self.definitions_ready.remove(step) {
                    ops.push(CommitOp { step: step.clone(), kind: OpKind::Define { rows } });
                }
                ops.push(CommitOp { step: step.clone(), kind });
            }
        }
        for (step, kind) in &pending.notes {
            ops.push(CommitOp { step: step.clone(), kind: kind.clone() });
        }
        // A run that was cancelled before this could be written neither starts nor is tried again.
        if let Some(kind) = pending.enter_lane.as_ref().filter(|_| !self.state.is_ended()) {
            ops.push(CommitOp { step: StepKey::root(), kind: kind.clone() });
        }
        ops
    }

    /// Every thousand events, and when the run goes to sleep.
    fn snapshot(&mut self, working: bool) -> Option<Vec<u8>> {
        let asleep = !self.state.is_active() && !working && !self.state.is_ended();
        let due = self.events_since_snapshot >= SNAPSHOT_EVENTS || (asleep && self.events_since_snapshot >= 64);
        if !due || self.state.is_ended() {
            return None;
        }
        self.events_since_snapshot = 0;
        serde_json::to_vec(&self.state).ok()
    }

    fn settle(&self, pending: &Pending) -> Settle {
        match self.state.phase {
            Phase::Ended(status) if pending.events.iter().any(Event::touches_the_end) => Settle::Ended { status },
            Phase::Waiting | Phase::Open | Phase::Finishing | Phase::RetryLater | Phase::Ended(_) => {
                match (pending.reopened, pending.by_twin) {
                    (true, true) => Settle::ReopenedByTwin,
                    (true, false) => Settle::Reopened,
                    (false, _) => Settle::Unchanged,
                }
            }
        }
    }
}

/// Timers set and gone by these events, each in its final form.
fn timers(events: &[Event]) -> (Vec<(u64, Millis)>, Vec<u64>) {
    let mut set: Vec<(u64, Millis)> = Vec::new();
    let mut cleared = Vec::new();
    for event in events {
        match event {
            Event::TimerSet { timer, due, .. } => set.push((*timer, *due)),
            Event::TimerCleared { timer } | Event::TimerFired { timer } => {
                set.retain(|(id, _)| id != timer);
                cleared.push(*timer);
            }
            _ => {}
        }
    }
    (set, cleared)
}

/// What the run's row shows of its end: secrets masked.
fn ending(events: &[Event], failed_step: Option<&StepKey>) -> (Option<Json>, Option<Json>) {
    let ended = events.iter().rev().find_map(|event| match event {
        Event::Ended { outputs, failure, .. } => Some((outputs, failure)),
        Event::StatusChanged { failure: failure @ Some(_), .. } => Some((&None, failure)),
        _ => None,
    });
    let Some((outputs, failure)) = ended else { return (None, None) };
    let step = failed_step.map(|step| step.0.clone());
    let outputs = outputs
        .as_ref()
        .map(|payload| Value::from_json(&Value::from_stored(payload.json()).to_masked_json()).to_stored());
    let failure = failure.as_ref().map(|f| json!({"code": f.code, "message": f.message(), "step": step}));
    (outputs, failure)
}
