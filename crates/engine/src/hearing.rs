//! Flow triggers: what runs of other flows start.
//!
//! The transaction that changes a run's state leaves a row ([`semel_store::ChangeRow`]). Here the rows are looked at, in
//! order of time, and each trigger that listens is judged. What it does is one transaction with the note that it has:
//! the run that it starts, or what it remembers until other runs have met the rest of its preconditions. Whoever dies in
//! between leaves the row, and nothing happens twice when somebody looks again. Two nodes that look at once get a
//! conflict, and the row is looked at anew.

use crate::api::{AdmitError, Occurrence, TriggerValue};
use crate::conditions::{self, Upstream};
use crate::flows::Listener;
use crate::handle::Engine;
use crate::memory::{Memory, trigger_value};
use crate::scope::{ExprScope, put_dotted};
use crate::taskruns::{TaskRun, Telling};
use semel_core::admission::PresetName;
use semel_core::ir::{Condition, Preconditions, Trigger};
use semel_core::run::{RunState, StateOf, decode_events};
use semel_core::{Door, Millis};
use semel_expr::Value;
use semel_store::script::listener as listener_name;
use semel_store::{ChangeRow, Hearing, RunRow, ScheduleRow, StoreError, TriggerChange, WindowState, Windows, Work};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// Changes looked at in one go.
const CHANGES_PAGE: u32 = 100;
/// A change that is so old is not being seen to by the first of the nodes.
const LEFT_BY_FIRST_MS: i64 = 2_000;
const JOURNAL_PAGE: u32 = 1_000;

/// Kestra's word for the state of a run.
pub(crate) fn state_word(state: &RunState) -> &'static str {
    StateOf { status: state.status(), warned: state.warned, ended: state.is_ended(), conclusion: state.conclusion }
        .kestra()
        .word()
}

/// What a trigger makes of a change.
enum Judged {
    /// It is none of its business.
    Nothing,
    /// It remembers something else from now on.
    Remembers((Windows, Windows)),
    /// With the outputs of the upstream run's tasks, if they are read.
    Fires(Option<(Windows, Windows)>, Json),
}

/// A change with all that triggers look at.
struct Heard {
    change: ChangeRow,
    run: RunRow,
    /// The trigger that started the run.
    trigger: Option<String>,
    upstream: Upstream,
}

impl Engine {
    /// Lets flow triggers hear of what has happened to runs.
    pub async fn hear_changes(&self) -> Result<(), StoreError> {
        let now = self.store().now();
        let before = if self.is_first() { now } else { now.plus(-LEFT_BY_FIRST_MS) };
        loop {
            let changes = self.store().changes(before, CHANGES_PAGE)?;
            let full = changes.len() == CHANGES_PAGE as usize;
            for change in changes {
                if !self.hear(change).await? {
                    // The rest must not overtake it; soon again.
                    return Ok(());
                }
            }
            if !full {
                return Ok(());
            }
        }
    }

    /// True when the change is settled for everybody.
    async fn hear(&self, change: ChangeRow) -> Result<bool, StoreError> {
        let (workspace, run, version) = (change.workspace.clone(), change.run, change.version);
        if let Some(heard) = self.load_change(change)? {
            for listener in self.flows().listeners(&workspace)?.iter() {
                self.stop(listener, &heard).await?;
                if !self.tell(listener, &heard).await? {
                    return Ok(false);
                }
            }
        }
        self.write(Work::Heard { workspace, run, version }).await?;
        Ok(true)
    }

    fn load_change(&self, change: ChangeRow) -> Result<Option<Heard>, StoreError> {
        // A run that has been deleted since is nobody's upstream.
        let Some((run, values, labels)) = self.store().run(&change.workspace, change.run)? else { return Ok(None) };
        let upstream = Upstream {
            run: run.id,
            flow: run.flow.clone(),
            revision: run.revision,
            state: change.state.clone(),
            labels,
            outputs: values.outputs.as_ref().map_or(json!({}), crate::public_json),
            retried: vec![],
        };
        let trigger = values.trigger.as_ref().and_then(|trigger| Some(trigger.get("id")?.as_str()?.to_owned()));
        let trigger = trigger.filter(|_| matches!(run.door, Door::Schedule | Door::Flow));
        Ok(Some(Heard { change, run, trigger, upstream }))
    }

    /// Switches a trigger off that a run of its own was to stop.
    async fn stop(&self, listener: &Listener, heard: &Heard) -> Result<(), StoreError> {
        let trigger = &listener.trigger().id;
        let is_own = heard.run.flow == listener.flow.flow_ref && heard.trigger.as_ref() == Some(trigger);
        if is_own && listener.stops(&heard.change.state) {
            self.change_trigger(&heard.run.workspace, &heard.run.flow, trigger, TriggerChange::Disable).await?;
        }
        Ok(())
    }

    /// Lets one trigger hear of one change; false when it must be told again.
    async fn tell(&self, listener: &Listener, heard: &Heard) -> Result<bool, StoreError> {
        let trigger = listener.trigger();
        let name = listener_name(&listener.flow.flow_ref, &trigger.id);
        // A flow that started itself would never end.
        if listener.flow.flow_ref == heard.run.flow
            || !listener.hears(&heard.change.state)
            || heard.change.heard.contains(&name)
        {
            return Ok(true);
        }
        let hearing = |windows| Hearing {
            run: heard.change.run,
            version: heard.change.version,
            at: heard.change.at,
            flow: listener.flow.flow_ref.clone(),
            trigger: trigger.id.clone(),
            windows,
        };
        let workspace = heard.change.workspace.clone();
        let settled = match self.judge(listener, heard)? {
            Judged::Nothing => return Ok(true),
            Judged::Remembers(windows) => {
                self.write(Work::Hear { workspace, hearing: hearing(Some(windows)) }).await.map(|_| ())
            }
            Judged::Fires(windows, outputs) => {
                let occurrence = occurrence(listener, heard, outputs);
                match self.admit_heard(occurrence, hearing(windows.clone())).await {
                    Ok(_) => Ok(()),
                    Err(AdmitError::Store(error)) => Err(error),
                    Err(error) => {
                        tracing::error!(flow = %listener.flow.flow_ref, trigger = trigger.id, %error, "a flow trigger cannot start its flow");
                        self.write(Work::Hear { workspace, hearing: hearing(windows) }).await.map(|_| ())
                    }
                }
            }
        };
        match settled {
            Ok(()) => Ok(true),
            Err(StoreError::Conflict(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn judge(&self, listener: &Listener, heard: &Heard) -> Result<Judged, StoreError> {
        let trigger = listener.trigger();
        let workspace = &heard.change.workspace;
        let mut upstream = heard.upstream.clone();
        let mut told = json!({});
        let all = || trigger.conditions.iter().chain(trigger.windows().flat_map(|w| w.conditions.values()));
        if needs_attempts(all()) || reads_outputs(trigger) {
            let runs = self.task_runs(&heard.run)?;
            (upstream.retried, told) = (retried(&runs), outputs(&runs));
        }
        let memory = Memory {
            trigger: trigger_value(&Value::from_json(&variables(listener, heard)).to_stored()),
            labels: upstream.labels.iter().cloned().collect(),
            outputs: Value::from_json(&told),
            ..Memory::default()
        };
        let now = self.store().now();
        let scope =
            ExprScope { services: self.services(), workspace, flow: &listener.flow, memory: &memory, run: None, now };
        let holds = |conditions: &[Condition]| {
            conditions::hold_in(conditions, &scope, Some(&upstream)).unwrap_or_else(|error| {
                tracing::warn!(flow = %listener.flow.flow_ref, trigger = trigger.id, error, "a condition cannot be judged");
                false
            })
        };
        if !holds(&trigger.conditions) {
            return Ok(Judged::Nothing);
        }
        let rows = self.store().schedules(workspace)?;
        let own = |row: &ScheduleRow| row.flow == listener.flow.flow_ref && row.trigger == trigger.id;
        let state = rows.into_iter().find(own).map(|row| row.state).unwrap_or_default();
        if state.disabled {
            return Ok(Judged::Nothing);
        }
        if trigger.windows().next().is_none() {
            return Ok(Judged::Fires(None, told));
        }
        let before: Windows = state.windows;
        let mut after = before.clone();
        let mut fires = true;
        for window in trigger.windows() {
            let meets = |condition: &Condition| holds(std::slice::from_ref(condition));
            fires &= advance(window, &mut after, now, &meets);
        }
        Ok(match fires {
            true => {
                for window in trigger.windows().filter(|window| window.reset_on_success) {
                    after.remove(&window.id);
                }
                Judged::Fires(Some((before, after)), told)
            }
            false if before != after => Judged::Remembers((before, after)),
            false => Judged::Nothing,
        })
    }

    /// The task runs of the upstream run, as its journal tells them.
    fn task_runs(&self, run: &RunRow) -> Result<Vec<TaskRun>, StoreError> {
        let mut telling = Telling::new(run.logical);
        let mut after = 0;
        loop {
            let rows = self.store().journal(&run.workspace, run.id, after, JOURNAL_PAGE)?;
            for row in &rows {
                after = row.seq;
                let events = decode_events(&row.events, row.values.as_deref());
                for event in events.map_err(|error| StoreError::Bug(format!("the journal of {}: {error}", run.id)))? {
                    telling.hear(&event, row.at);
                }
            }
            if rows.len() < JOURNAL_PAGE as usize {
                return Ok(telling.done().task_runs);
            }
        }
    }
}

/// How the attempts ended of tasks that took more than one.
fn retried(runs: &[TaskRun]) -> Vec<String> {
    let several = runs.iter().filter(|run| run.attempts.len() > 1).flat_map(|run| &run.attempts);
    several.filter_map(|attempt| attempt.last()).map(|(state, _)| state.word().to_owned()).collect()
}

/// `outputs` as the flow itself would see them, without what loops made.
fn outputs(runs: &[TaskRun]) -> Json {
    let plain = runs.iter().filter(|run| run.iteration.is_none());
    let shown =
        plain.filter_map(|run| Some((run.step.task_id().to_owned(), crate::public_json(run.outputs.as_ref()?))));
    Json::Object(shown.collect())
}

/// Whether a template of the trigger may read the outputs of tasks.
fn reads_outputs(trigger: &Trigger) -> bool {
    let text = serde_json::to_string(trigger).unwrap_or_default();
    text.replace("trigger.outputs", "").contains("outputs")
}

fn needs_attempts<'a>(conditions: impl Iterator<Item = &'a Condition>) -> bool {
    let mut open: Vec<&Condition> = conditions.collect();
    while let Some(condition) = open.pop() {
        match condition {
            Condition::HasRetryAttempt { .. } => return true,
            Condition::Not { conditions } | Condition::Or { conditions } => open.extend(conditions),
            _ => {}
        }
    }
    false
}

/// Marks what this change meets; true when enough is met and the change has met some of it.
fn advance(window: &Preconditions, windows: &mut Windows, now: Millis, meets: &dyn Fn(&Condition) -> bool) -> bool {
    let is_open = |state: &WindowState| state.start <= now && now <= state.end;
    let mut state = match windows.get(&window.id).filter(|state| is_open(state)) {
        Some(state) => state.clone(),
        None => {
            let (start, end) = window.around(now);
            WindowState { start, end, met: BTreeSet::new() }
        }
    };
    if !is_open(&state) {
        // It has closed for today, or opens later.
        return false;
    }
    let met: Vec<&String> = window.conditions.iter().filter(|(_, c)| meets(c)).map(|(name, _)| name).collect();
    if met.is_empty() {
        return false;
    }
    state.met.extend(met.into_iter().cloned());
    let enough = window.is_enough(|name| state.met.contains(name));
    windows.insert(window.id.clone(), state);
    enough
}

/// What the flow sees as `trigger`.
fn variables(listener: &Listener, heard: &Heard) -> Json {
    json!({
        "id": listener.trigger().id,
        "executionId": heard.run.id.to_string(),
        "namespace": heard.run.flow.namespace,
        "flowId": heard.run.flow.id,
        "flowRevision": heard.run.revision,
        "state": heard.change.state,
        "startDate": heard.run.created_at.to_rfc3339(),
        "endDate": heard.run.ended_at.map(|at| at.to_rfc3339()),
        "executionLabels": nested_labels(&heard.upstream.labels),
        "outputs": heard.upstream.outputs,
    })
}

/// Labels as templates read them: a map along the dots of their keys.
fn nested_labels(labels: &[(String, String)]) -> Json {
    let mut nested = serde_json::Map::new();
    for (key, value) in labels {
        put_dotted(&mut nested, key, value.as_str().into());
    }
    Json::Object(nested)
}

fn occurrence(listener: &Listener, heard: &Heard, outputs: Json) -> Occurrence {
    let trigger = listener.trigger();
    let change = &heard.change;
    Occurrence {
        workspace: change.workspace.clone(),
        flow: listener.flow.clone(),
        door: Door::Flow,
        caller: format!("run {}", change.run),
        caller_key: None,
        // A run that is restarted may come to the same state again.
        intrinsic_key: Some(format!("{} {} {} {}", trigger.id, change.run, change.state, change.version)),
        door_preset: PresetName::Semel,
        request_preset: None,
        scope: None,
        inputs: json!({}),
        trigger: TriggerValue::Heard { variables: variables(listener, heard), outputs },
        trigger_id: Some(trigger.id.clone()),
        labels: heard.upstream.labels.iter().filter(|(key, _)| !key.starts_with("system.")).cloned().collect(),
        correlation_id: Some(heard.run.correlation_id.clone()),
        run: None,
        start_at: None,
        breakpoints: vec![],
    }
}
