//! What the answer to a commit leads to.

use super::active::{Active, InTheAir, Loaded, Queued};
use super::{Driver, Out};
use crate::api::{ControlError, RunChange};
use crate::away;
use crate::conductor::performed_as;
use crate::masking::Mask;
use semel_core::files;
use semel_core::planted;
use semel_core::run::{Action, Failure, Input, Performed, Phase, StepKey, Work, finishing_action};
use semel_core::{Millis, RunId, WorkspaceId};
use semel_expr::{Part, Value};
use semel_store::{AdmitResult, CommitResult, Done, ErrandChange, Refusal, RunCommit, Settle, StoreError};
use semel_tasks::{Home, Log, Request, Stop};
use serde_json::Value as Json;
use std::cell::RefCell;

impl Driver {
    pub(super) fn committed(
        &mut self,
        workspace: &WorkspaceId,
        run: RunId,
        no: u64,
        answer: Result<Done, StoreError>,
        now: Millis,
    ) {
        if let Ok(Done::Committed(result)) = &answer {
            self.tell_others(workspace, result);
        }
        let Some(mut active) = self.runs.remove(&run) else { return };
        let Some((_, commit)) = active.committing.take_if(|(waiting, _)| *waiting == no) else {
            // The answer to a commit of a state that was dropped.
            self.runs.insert(run, active);
            return;
        };
        match answer {
            Ok(Done::Committed(result)) => {
                self.settled(&mut active, &commit, *result, now);
                self.runs.insert(run, active);
                self.advance(run, now);
            }
            Ok(Done::Refused(refusal @ (Refusal::LaneBusy | Refusal::KeyLive))) => {
                let text = match refusal {
                    Refusal::KeyLive => "another run has the key of this one and has not ended; try again when it has",
                    _ => "another run holds the lane; try again when it has ended",
                };
                self.fail_tickets(&active, &ControlError::NotPossible(text.to_owned()));
                self.reload(active, (no, commit), vec![], now);
            }
            Ok(other) => {
                tracing::error!(%run, ?other, "the store gave an answer that does not belong to a commit");
                self.reload(active, (no, commit), vec![], now);
            }
            Err(StoreError::Conflict(why)) => {
                tracing::debug!(%run, why, "the guard failed; the run is loaded again");
                if planted!(GuardFailedWrittenAgain)
                    && let Ok(Some(loaded)) = self.services.store.load_run(&active.workspace, run)
                {
                    let (epoch, version) = (loaded.row.epoch, loaded.row.version);
                    return self.commit_later(active, (no, RunCommit { epoch, version, ..commit }));
                }
                let inputs = active.lost_inputs();
                self.reload(active, (no, commit), inputs, now);
            }
            // Provably rolled back: the same commit may be tried again.
            Err(StoreError::Full(_) | StoreError::Busy(_)) => self.commit_later(active, (no, commit)),
            Err(error) => {
                self.fail_tickets(&active, &ControlError::Store(error.clone()));
                self.trouble(run, error);
            }
        }
    }

    fn commit_later(&mut self, mut active: Active, (no, commit): (u64, RunCommit)) {
        active.committing = Some((no, commit.clone()));
        self.out.push(Out::CommitLater { no, commit: Box::new(commit) });
        self.runs.insert(active.run, active);
    }

    /// Starts over from what the store has; inputs whose events were not written are given again.
    fn reload(&mut self, old: Active, commit: (u64, RunCommit), inputs: Vec<Queued>, now: Millis) {
        match Active::load(&self.services, &self.flows, &old.workspace, old.run) {
            Ok(Loaded::Here(fresh)) if fresh.epoch == old.epoch => {
                let mut fresh = *fresh;
                let (run, workspace) = (old.run, old.workspace);
                // A timer may have been set anew meanwhile; its row is read again when it is due.
                let due = |queued: &Queued| match queued.input {
                    Input::TimerFired { timer } => fresh.state.timers.get(&timer).is_none_or(|t| t.due <= now),
                    _ => true,
                };
                fresh.queue = inputs.into_iter().filter(due).collect::<Vec<_>>().into();
                fresh.performing = old.performing;
                self.ask_again(&mut fresh, now);
                self.runs.insert(run, fresh);
                self.read_inbox(&workspace, run);
                self.advance(run, now);
            }
            // Whoever has it now is asked.
            Ok(_) if self.is_one_of_several() => {
                self.out.extend(old.tickets().into_iter().map(|ticket| Out::AskElsewhere { ticket }));
            }
            Ok(_) => self.replaced(&old),
            // The same commit fails on the same guard, and brings us here again.
            Err(StoreError::Full(_) | StoreError::Busy(_)) => self.commit_later(old, commit),
            Err(error) => {
                self.fail_tickets(&old, &ControlError::Store(error.clone()));
                self.trouble(old.run, error);
            }
        }
    }

    /// Pure work that was under way when the state was thrown away. Effects are not touched: they
    /// are in the air, and their answers will come.
    fn ask_again(&mut self, active: &mut Active, now: Millis) {
        let open: Vec<(StepKey, Work)> = active.state.steps.iter().map(|(k, s)| (k.clone(), s.work.clone())).collect();
        for (step, work) in open {
            match work {
                work if work.is_evaluated() && !active.state.paused => self.act(active, Action::Evaluate(step), now),
                Work::Op | Work::Child { run: None, .. } => self.act(active, Action::Op(step), now),
                _ => {}
            }
        }
        if active.state.needs_successor() {
            self.act(active, Action::RunAgain, now);
        }
        if active.state.phase == Phase::Finishing {
            let next = finishing_action(&active.flow.index, &active.state);
            self.act(active, next, now);
        }
    }

    /// The commit is durable: what it promised may happen.
    fn settled(&mut self, active: &mut Active, commit: &RunCommit, result: CommitResult, now: Millis) {
        let pending = std::mem::take(&mut active.committed);
        active.version = result.version;
        for seq in &commit.inbox_consumed {
            active.inbox_seen.remove(seq);
        }
        let go_on = !result.appended.is_empty();
        for event in &result.appended {
            active.fold(event, now);
        }
        if go_on {
            // A run that its own retry has begun again is asked for all that is open in it.
            let next = if result.goes_on { Input::Recover } else { Input::Continue };
            active.queue.push_front(Queued::new(next));
        }
        if result.entered == Some(true) {
            active.queue.push_front(Queued::new(Input::Start));
        }
        for change in &commit.errands {
            if let ErrandChange::Set(row) = change {
                self.out.push(Out::Errands { workspace: active.workspace.clone(), queue: row.queue.clone() });
            }
        }
        for ticket in pending.tickets {
            self.out.push(Out::Answer { ticket, answer: Ok(()) });
        }
        for (step, send) in pending.performs {
            self.perform(active, step, send, now);
        }
        if active.state.cancelling {
            active.performing.values().for_each(|air| air.stop.ask());
        }
        if commit.settle != Settle::Unchanged || !commit.events.is_empty() {
            self.out.push(Out::Changed(RunChange {
                run: active.run,
                version: active.version,
                status: commit.head.status,
            }));
        }
    }

    /// What a durable commit means for other runs. It holds even if the run itself was replaced before its driver heard
    /// of the commit.
    fn tell_others(&mut self, workspace: &WorkspaceId, result: &CommitResult) {
        if let Some(due) = result.timer_due {
            self.out.push(Out::TimerAt(due));
        }
        for fenced in &result.fenced {
            self.out.push(Out::Fenced(*fenced));
        }
        for row in result.admitted.iter().filter_map(AdmitResult::born) {
            self.out.push(Out::Wake { workspace: row.workspace.clone(), run: row.id });
        }
        for run in &result.wake {
            self.out.push(Out::Wake { workspace: workspace.clone(), run: *run });
        }
    }

    /// Builds the request of a durable intent; secrets are filled in here and nowhere else.
    pub(super) fn perform(&mut self, active: &mut Active, step: StepKey, send: u32, now: Millis) {
        let Some(task) = active.flow.index.task(step.task_id()) else { return };
        let Some(row) = active.memory.effects.get(&step) else { return };
        let stored = active.memory.requests.get(&step).cloned().unwrap_or(Json::Null);
        let masks: RefCell<Vec<Mask>> = RefCell::default();
        let fill = |part: &Part| {
            let text = self.services.secrets.reveal(&active.workspace, part)?;
            masks.borrow_mut().push((part.clone(), text.clone()));
            Ok(text)
        };
        let filled = away::noticed(|| Value::from_stored(&stored).fill(&fill));
        let timeout_ms = match active.state.steps.get(&step).map(|s| &s.work) {
            Some(Work::Sending(sending)) => sending.timeout_ms.max(1) as u64,
            _ => return,
        };
        if row.safe_until.is_some_and(|until| now >= until) {
            // The commit took longer than the far side remembers the key. Nothing left this time;
            // what an earlier send of the same key did is not known any more.
            let failure = Failure::new("too_late", "the time in which the request was safe to send was over");
            let outcome = if send == 1 { Performed::FailedClean { failure } } else { Performed::Lost { failure } };
            return active.queue.push_back(Queued::new(Input::Performed { step, send, outcome }));
        }
        match filled {
            Err(_) => self.act_later(active, Action::Perform { step, send }),
            Ok(Err(message)) => {
                let outcome = Performed::FailedClean { failure: Failure::new("secret_unavailable", message) };
                active.queue.push_back(Queued::new(Input::Performed { step, send, outcome }));
            }
            Ok(Ok(mut config)) => {
                let type_name = performed_as(&task.type_name, &mut config);
                let sends_key = semel_tasks::sends_idempotency_key(&type_name, &config);
                let (log, stop) = (Log::default(), Stop::default());
                let request = Request {
                    step_id: row.step_id.hex(),
                    type_name,
                    config,
                    timeout_ms,
                    idempotency_key: sends_key.then(|| row.out_key.clone()),
                    send_before: None,
                    traceparent: active.traceparent(),
                    home: home_of(active, &step, &row.step_id.hex()),
                    log: log.clone(),
                    stop: stop.clone(),
                };
                let air = InTheAir { masks: masks.into_inner(), log, stop };
                active.performing.insert((step.clone(), send), air);
                self.out.push(Out::Perform { run: active.run, step, send, request: Box::new(request) });
            }
        }
    }
}

/// Where the files of a step are. A step keeps its id over all attempts, and so the place.
fn home_of(active: &Active, step: &StepKey, step_id: &str) -> Home {
    let home = files::home(&active.flow.flow_ref, active.run);
    let place = |task: &str, id: &str| format!("{home}/tasks/{task}/{id}");
    let is_directory = |key: &StepKey| {
        let task = active.flow.index.task(key.task_id());
        key.iteration_number().is_none() && task.is_some_and(|task| task.type_name == "flow.WorkingDirectory")
    };
    let around = std::iter::successors(step.parent(), StepKey::parent).find(is_directory);
    let shared = around.map(|key| place(key.task_id(), &active.state.step_id(&key).hex()));
    Home {
        workspace: active.workspace.clone(),
        run: Some(active.run),
        path: place(step.task_id(), step_id),
        shared,
        namespace: active.flow.flow_ref.namespace.clone(),
    }
}
