//! The store as nodes meet it: late, full, busy, of unknown mind; and the write itself, with the
//! oracle before and after it.

use super::faults::Fault;
use super::hub::{NodeId, Submission};
use super::world::{Next, World};
use semel_store::{Done, Reply, Result, StoreError, Work};

impl World {
    pub(super) fn apply(&mut self, submission: Submission) {
        let Submission { node, work, reply } = submission;
        let Some(living) = self.nodes.get(&node) else { return };
        if living.paused {
            return self.at(self.now + 100, Next::Apply(Submission { node, work, reply }));
        }
        let poisoned = living.ports.poisoned.lock().clone();
        let hub = self.hub.clone();
        let strikes = |fault| hub.faults.lock().strikes(fault);
        if let Some(why) = poisoned {
            return self.answer(node, reply, Err(why));
        }
        if self.full {
            return self.answer(node, reply, Err(StoreError::Full("simulated".into())));
        }
        if strikes(Fault::Busy) {
            return self.answer(node, reply, Err(StoreError::Busy("simulated".into())));
        }
        if matches!(work, Work::Commit(_)) && strikes(Fault::Conflict) {
            return self.answer(node, reply, Err(StoreError::Conflict("simulated".into())));
        }
        if strikes(Fault::CrashBeforeCommit) {
            return self.die(node, Fault::CrashBeforeCommit);
        }
        let unknown = if strikes(Fault::UnknownNotApplied) {
            Some(false)
        } else {
            strikes(Fault::UnknownApplied).then_some(true)
        };
        if unknown != Some(false) {
            let answer = self.write(&work);
            if strikes(Fault::CrashAfterCommit) {
                return self.die(node, Fault::CrashAfterCommit);
            }
            if unknown.is_none() {
                return self.answer(node, reply, answer);
            }
        }
        let why = StoreError::Poisoned("simulated: nobody knows what became of the commit".into());
        self.note(|| format!("commit unknown (applied: {unknown:?})"));
        if let Some(living) = self.nodes.get(&node) {
            *living.ports.poisoned.lock() = Some(why.clone());
        }
        self.answer(node, reply, Err(why));
        let down = self.dice().range(1, 3_000);
        self.at(self.now + 100, Next::Kill(node, down));
    }

    /// The write itself, with the oracle before and after it.
    fn write(&mut self, work: &Work) -> Result<Done> {
        let hub = self.hub.clone();
        let store = hub.inner();
        let store = store.as_ref();
        hub.model.lock().before(work, store);
        let answer = store.call(work.clone());
        if let Ok(done) = &answer {
            hub.model.lock().after(work, done, store);
        }
        self.note(|| format!("{} → {}", name(work), outcome(&answer)));
        self.after_write(work, &answer);
        answer
    }

    fn answer(&mut self, node: NodeId, reply: Reply, answer: Result<Done>) {
        let mut dice = self.dice();
        let slow = self.hub.faults.lock().strikes(Fault::DelayedAnswer);
        let delay = if slow { dice.range(50, 5_000) } else { dice.range(0, 2) };
        self.at(self.now + delay, Next::Answer(node, reply, answer));
    }
}

fn name(work: &Work) -> String {
    match work {
        Work::Admit(request) => format!("admit {} {}", request.caller, request.run),
        Work::AdmitAndRun(both) => format!("admit and run {} {}", both.0.caller, both.0.run),
        Work::Commit(commit) => {
            format!("commit {} v{} {:?}", commit.run, commit.version, String::from_utf8_lossy(&commit.events))
        }
        Work::Sweep(_) => "sweep".into(),
        Work::LogDecision(row) => format!("log {} {}", row.caller, row.decision.word()),
        Work::PutFlow { row, .. } => format!("push {}", row.flow),
        Work::DeleteFlow { flow, .. } => format!("delete {flow}"),
        Work::AdvanceSchedule(row) => format!("schedule {} next {:?}", row.flow, row.next_due),
        Work::ReleaseKey { hash, .. } => format!("release {}", hash.hex()),
        Work::DeleteRun { run, .. } => format!("delete {run}"),
        Work::DeleteLogs { run, .. } => format!("delete the log of {run}"),
        Work::EraseRun { run, .. } => format!("erase {run}"),
        _ => "write".into(),
    }
}

fn outcome(answer: &Result<Done>) -> String {
    match answer {
        Ok(Done::Admitted(result)) => {
            let run = result.run.as_ref().map(|r| r.id.to_string()).unwrap_or_default();
            format!("{} {} {run}", result.decision.word(), result.reason.word())
        }
        Ok(Done::Committed(result)) => format!("v{}", result.version),
        Ok(Done::Count(count)) => format!("{count}"),
        Ok(Done::Refused(why)) => format!("refused {}", why.code()),
        Ok(_) => "ok".into(),
        Err(error) => format!("{}: {error}", error.code()),
    }
}
