//! Triggers that ask the outside now and then.
//!
//! A poll is moved on before it is made, so that a slow far side delays nobody and two nodes do not ask at once; one that
//! a crash cuts off is made again at its next turn. What it finds is an occurrence keyed by the instant of the poll.

use crate::conditions::is_truthy;
use crate::driver::outcome::translate;
use crate::flows::LoadedFlow;
use crate::handle::Engine;
use crate::masking::Mask;
use crate::memory::Memory;
use crate::schedules::arrival;
use crate::scope::ExprScope;
use indexmap::IndexMap;
use semel_core::ir::{Trigger, TriggerKind};
use semel_core::run::Performed;
use semel_core::{Hash16, Millis, WorkspaceId};
use semel_expr::{Budget, Part, Template, Value, render, render_json};
use semel_store::{ScheduleRow, StoreError, TriggerChange};
use semel_tasks::{Home, Log, Request, Stop, timeout_hint_ms};
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::sync::Arc;

const TYPE: &str = "http.Request";

/// A poll whose turn has come.
pub(crate) struct Poll {
    row: ScheduleRow,
    flow: Arc<LoadedFlow>,
    /// Its nominal instant.
    at: Millis,
}

impl Engine {
    /// Moves a poll on, and keeps it for [`Engine::make_polls`].
    pub(crate) async fn turn(
        &self,
        row: ScheduleRow,
        flow: Arc<LoadedFlow>,
        interval_ms: i64,
        now: Millis,
    ) -> Result<(), StoreError> {
        let Some(at) = row.next_due else { return Ok(()) };
        self.advance(ScheduleRow { next_due: Some(now.plus(interval_ms)), last_fired: Some(at), ..row.clone() })
            .await?;
        // One that was switched on again begins with its next turn.
        if !row.state.woken {
            self.polls().lock().push(Poll { row, flow, at });
        }
        Ok(())
    }

    /// Makes the polls whose turn has come, one after another.
    pub async fn make_polls(&self) -> Result<(), StoreError> {
        let due = std::mem::take(&mut *self.polls().lock());
        for poll in due {
            self.poll(poll).await?;
        }
        Ok(())
    }

    pub(crate) async fn poll(&self, poll: Poll) -> Result<(), StoreError> {
        let Poll { row, flow, at } = poll;
        let triggers = &flow.index.flow.triggers;
        let Some(trigger) = triggers.iter().find(|trigger| trigger.id == row.trigger) else { return Ok(()) };
        let TriggerKind::Http { request, response_condition, .. } = &trigger.kind else { return Ok(()) };
        if let Some(run) = row.state.last_run.filter(|_| !trigger.allow_concurrent)
            && self.store().run(&row.workspace, run)?.is_some_and(|(run, _, _)| !run.status.is_ended())
        {
            // What it would find could not be run yet, and asking may already change something out there.
            return Ok(());
        }
        let found = match self.ask(&row.workspace, &flow, trigger, at, request).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(flow = %flow.flow_ref, trigger = trigger.id, error, "a poll failed");
                return Ok(());
            }
        };
        match self.is_met(&row.workspace, &flow, response_condition, &found) {
            Ok(true) => self.found(&row, &flow, at, found).await,
            Ok(false) => Ok(()),
            Err(error) => {
                tracing::warn!(flow = %flow.flow_ref, trigger = trigger.id, error, "responseCondition cannot be judged");
                Ok(())
            }
        }
    }

    /// Sends the request and gives what came back, secrets masked.
    async fn ask(
        &self,
        workspace: &WorkspaceId,
        flow: &Arc<LoadedFlow>,
        trigger: &Trigger,
        at: Millis,
        request: &Json,
    ) -> Result<Json, String> {
        let (request, masks) = {
            let memory = Memory::default();
            let scope = self.scope(workspace, flow, &memory);
            let mut rendered =
                render_json(request, &scope, &mut Budget::default(), true).map_err(|error| error.message)?;
            let masks: RefCell<Vec<Mask>> = RefCell::default();
            let fill = |part: &Part| {
                let text = self.services().secrets.reveal(workspace, part)?;
                masks.borrow_mut().push((part.clone(), text.clone()));
                Ok(text)
            };
            let timeout_ms = timeout_hint_ms(TYPE, &rendered.to_masked_json()).unwrap_or(self.limits().http_timeout_ms);
            let mut config = std::mem::replace(&mut rendered, Value::Null).fill(&fill)?;
            // The condition decides about an answer, whatever its status.
            config["options"]["allowFailed"] = json!(true);
            let step = Hash16::of(&[trigger.id.as_bytes(), &at.0.to_be_bytes()]);
            let request = Request {
                step_id: step.hex(),
                type_name: TYPE.to_owned(),
                config,
                timeout_ms,
                idempotency_key: None,
                send_before: None,
                traceparent: None,
                // A poll has no run, and so no files.
                home: Home { workspace: workspace.clone(), ..Home::default() },
                log: Log::default(),
                stop: Stop::default(),
            };
            (request, masks.into_inner())
        };
        let outcome = self.performer().perform(request).await;
        match translate(outcome, &masks, &|_| None) {
            Performed::Done { output } => Ok(Value::from_stored(output.json()).to_masked_json()),
            Performed::FailedClean { failure } | Performed::Lost { failure } => Err(failure.message().to_owned()),
        }
    }

    fn is_met(
        &self,
        workspace: &WorkspaceId,
        flow: &Arc<LoadedFlow>,
        condition: &str,
        found: &Json,
    ) -> Result<bool, String> {
        let response = json!({"statusCode": found["code"], "body": found["body"], "headers": found["headers"]});
        let memory = Memory {
            more: IndexMap::from([("response".to_owned(), Value::from_json(&response))]),
            ..Memory::default()
        };
        let parsed = Template::of(condition).map_err(|error| error.message)?;
        let rendered = render(&parsed, &self.scope(workspace, flow, &memory), &mut Budget::default());
        match rendered.map_err(|error| error.message)? {
            Value::Str(text) => Ok(is_truthy(&text)),
            _ => Err("it would hold a secret".to_owned()),
        }
    }

    fn scope<'a>(&'a self, workspace: &'a WorkspaceId, flow: &'a LoadedFlow, memory: &'a Memory) -> ExprScope<'a> {
        ExprScope { services: self.services(), workspace, flow, memory, run: None, now: self.store().now() }
    }

    async fn found(
        &self,
        row: &ScheduleRow,
        flow: &Arc<LoadedFlow>,
        at: Millis,
        mut found: Json,
    ) -> Result<(), StoreError> {
        found["id"] = json!(row.trigger);
        let occurrence = arrival(row, flow, "poll", at, found);
        if !self.is_wanted(&occurrence) {
            return Ok(());
        }
        match self.admit(occurrence).await {
            Ok(result) => {
                if let Some(run) = result.run {
                    let change = TriggerChange::Started { run: run.id };
                    self.change_trigger(&row.workspace, &row.flow, &row.trigger, change).await?;
                }
            }
            Err(error) => {
                tracing::error!(flow = %row.flow, trigger = row.trigger, %error, "what a poll found cannot be admitted");
            }
        }
        Ok(())
    }
}
