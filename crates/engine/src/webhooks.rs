//! Webhook triggers: which one an address means, and whether what arrived is wanted.

use crate::api::{Occurrence, ResolvedSignature, Webhook};
use crate::conditions;
use crate::flows::LoadedFlow;
use crate::handle::Engine;
use crate::memory::{Memory, trigger_value};
use crate::scope::ExprScope;
use semel_core::WorkspaceId;
use semel_core::ir::TriggerKind;
use semel_expr::{Budget, Template, Value, render};
use semel_store::StoreError;

impl Engine {
    /// The webhook trigger of the flow that has this URL key; compared in constant time.
    pub fn find_webhook(
        &self,
        workspace: &WorkspaceId,
        flow: &LoadedFlow,
        key: &str,
    ) -> Result<Option<Webhook>, StoreError> {
        for trigger in flow.index.flow.triggers.iter().filter(|t| !t.disabled) {
            let TriggerKind::Webhook {
                key: template,
                wait,
                return_outputs,
                signature,
                response_code,
                response_type,
                store_body,
            } = &trigger.kind
            else {
                continue;
            };
            let Some(expected) = self.revealed(workspace, flow, template) else { continue };
            if !same(expected.trim(), key) {
                continue;
            }
            let signature = signature.as_ref().map(|spec| ResolvedSignature {
                scheme: spec.scheme,
                secrets: spec.secrets.iter().filter_map(|s| self.revealed(workspace, flow, s)).collect(),
                header: spec.header.clone(),
                tolerance_ms: spec.tolerance_ms,
            });
            return Ok(Some(Webhook {
                trigger_id: trigger.id.clone(),
                wait: *wait,
                return_outputs: *return_outputs,
                signature,
                response_code: *response_code,
                response_type: *response_type,
                store_body: *store_body,
            }));
        }
        Ok(None)
    }

    /// Whether the conditions of the trigger that the occurrence came through hold. One that cannot be judged does
    /// not hold, and the log says why.
    pub fn is_wanted(&self, occurrence: &Occurrence) -> bool {
        let triggers = &occurrence.flow.index.flow.triggers;
        let trigger = triggers.iter().find(|trigger| Some(&trigger.id) == occurrence.trigger_id.as_ref());
        let Some(trigger) = trigger.filter(|trigger| !trigger.conditions.is_empty()) else { return true };
        let sent = occurrence.trigger.written_out(&occurrence.inputs, occurrence.caller_key.as_deref());
        let memory = Memory {
            trigger: trigger_value(&Value::from_json(&sent).to_stored()),
            labels: occurrence.flow.index.flow.labels.clone(),
            ..Memory::default()
        };
        let scope = ExprScope {
            services: &self.services,
            workspace: &occurrence.workspace,
            flow: &occurrence.flow,
            memory: &memory,
            run: None,
            now: self.store().now(),
        };
        conditions::hold_in(&trigger.conditions, &scope, None).unwrap_or_else(|error| {
            tracing::warn!(flow = %occurrence.flow.flow_ref, trigger = trigger.id, error, "a condition cannot be judged");
            false
        })
    }

    /// A template of the author with its secrets filled in; for comparing, never for storing.
    fn revealed(&self, workspace: &WorkspaceId, flow: &LoadedFlow, template: &str) -> Option<String> {
        let memory = Memory::default();
        let scope =
            ExprScope { services: &self.services, workspace, flow, memory: &memory, run: None, now: self.clock.now() };
        let parsed = Template::parse(template).ok()?;
        let value = render(&parsed, &scope, &mut Budget::default()).ok()?;
        let filled = value.fill(&|part| self.services.secrets.reveal(workspace, part)).ok()?;
        filled.as_str().map(str::to_owned)
    }
}

fn same(expected: &str, given: &str) -> bool {
    expected.len() == given.len() && expected.bytes().zip(given.bytes()).fold(0, |acc, (a, b)| acc | (a ^ b)) == 0
}
