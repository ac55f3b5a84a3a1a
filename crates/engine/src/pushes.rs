//! Flows that are checked, pushed and deleted.

use crate::api::{PushError, Pushed};
use crate::handle::Engine;
use crate::schedules::first_after;
use semel_core::ir::TriggerKind;
use semel_core::{FlowRef, Millis, WorkspaceId};
use semel_flow::{Compiled, Diagnostic, Severity, Span};
use semel_store::{Done, FlowRow, Note, PushRule, Refusal, ScheduleRow, StoreError, TriggerState, Work};
use tokio::sync::oneshot;

impl Engine {
    /// Compiles and checks without storing.
    pub fn validate_flow(&self, workspace: &WorkspaceId, source: &str) -> Result<Compiled, Vec<Diagnostic>> {
        let compiled = semel_flow::compile(source, self.catalog, self.limits())?;
        let own = compiled.flow.flow_ref();
        let cycles: Vec<Diagnostic> = compiled
            .subflow_refs
            .iter()
            .filter_map(|(target, span)| self.cycle_through(workspace, &own, target).map(|path| cyclic(&path, *span)))
            .collect();
        if cycles.is_empty() { Ok(compiled) } else { Err(cycles) }
    }

    /// The way back to `own` through sub-flows of `target`, if there is one.
    fn cycle_through(&self, workspace: &WorkspaceId, own: &FlowRef, target: &FlowRef) -> Option<Vec<FlowRef>> {
        if target == own {
            return None; // the compiler judges a flow that calls itself: under a condition it may
        }
        let mut stack = vec![vec![target.clone()]];
        let mut seen = std::collections::BTreeSet::from([target.clone()]);
        while let Some(path) = stack.pop() {
            let Some(flow) = path.last().and_then(|at| self.flows.head(workspace, at).ok()) else { continue };
            for task in flow.index.tasks() {
                let Some(spec) = task.kind.subflow() else { continue };
                let next = FlowRef::new(&spec.namespace, &spec.flow_id);
                let mut longer = path.clone();
                longer.push(next.clone());
                if next == *own {
                    return Some(longer);
                }
                if seen.insert(next) {
                    stack.push(longer);
                }
            }
        }
        None
    }

    pub async fn push_flow(&self, workspace: &WorkspaceId, source: &str, by: &str) -> Result<Pushed, PushError> {
        self.push_flow_if(workspace, source, by, PushRule::Any).await
    }

    /// As [`Engine::push_flow`], but only for a flow that is new, or only for one that is known.
    pub async fn push_flow_if(
        &self,
        workspace: &WorkspaceId,
        source: &str,
        by: &str,
        rule: PushRule,
    ) -> Result<Pushed, PushError> {
        let compiled = self.validate_flow(workspace, source).map_err(PushError::Invalid)?;
        let flow = compiled.flow;
        let flow_ref = flow.flow_ref();
        let now = self.store().now();
        let schedules = schedules_of(workspace, &flow, now);
        let ir = serde_json::to_string(&flow).map_err(|e| StoreError::Bug(e.to_string()))?;
        let row = FlowRow {
            workspace: workspace.clone(),
            flow: flow_ref.clone(),
            revision: 0,
            source: source.to_owned(),
            ir,
            disabled: flow.disabled,
            deleted: false,
            created_at: now,
            created_by: by.to_owned(),
        };
        match self.write_flow(workspace, &flow_ref, Work::PutFlow { row: Box::new(row), schedules, rule }).await? {
            Done::Flow { revision, changed } => {
                Ok(Pushed { workflow_id: flow_ref.to_string(), revision, changed, warnings: compiled.warnings })
            }
            Done::Missing => Err(PushError::Unknown),
            Done::Refused(Refusal::Exists) => Err(PushError::Exists),
            other => Err(StoreError::Bug(format!("a push was answered with {other:?}")).into()),
        }
    }

    /// Deletes a flow: no new run of it starts, and those that it has go on. The revision that says so, or `None` when
    /// there is no such flow.
    pub async fn delete_flow(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        by: &str,
    ) -> Result<Option<u32>, StoreError> {
        let work = Work::DeleteFlow { workspace: workspace.clone(), flow: flow.clone(), by: by.to_owned() };
        match self.write_flow(workspace, flow, work).await? {
            Done::Flow { revision, .. } => Ok(Some(revision)),
            Done::Missing => Ok(None),
            other => Err(StoreError::Bug(format!("a deletion was answered with {other:?}"))),
        }
    }

    /// A write after which the newest revision of the flow is another one, here and at the other nodes.
    pub(crate) async fn write_flow(
        &self,
        workspace: &WorkspaceId,
        flow: &FlowRef,
        work: Work,
    ) -> Result<Done, StoreError> {
        let (flows, owner, written) = (self.flows.clone(), workspace.clone(), flow.clone());
        let (reply, answer) = oneshot::channel();
        self.store().submit(
            work,
            Box::new(move |done| {
                // Also when nobody waits for the answer any more.
                flows.forget(&owner, &written);
                let _ = reply.send(done);
            }),
        );
        let done = answer.await.unwrap_or(Err(StoreError::Closed))?;
        if let Some(cluster) = self.store().cluster() {
            cluster.tell(Note::Pushed { workspace: workspace.clone(), flow: flow.clone() });
        }
        Ok(done)
    }
}

fn cyclic(path: &[FlowRef], span: Span) -> Diagnostic {
    let names: Vec<String> = path.iter().map(FlowRef::to_string).collect();
    Diagnostic {
        severity: Severity::Error,
        code: "cyclic_subflow",
        message: format!("this sub-flow leads back to the flow itself: {}", names.join(" → ")),
        span,
        expected: None,
        suggestion: Some("break the cycle, or start the flow again from outside".to_owned()),
        related: None,
    }
}

/// Next instants of a flow's schedules.
fn schedules_of(workspace: &WorkspaceId, flow: &semel_core::ir::Flow, now: Millis) -> Vec<ScheduleRow> {
    let live = flow.triggers.iter().filter(|t| !t.disabled && !flow.disabled);
    let kept = live.filter(|trigger| !matches!(trigger.kind, TriggerKind::Webhook { .. }));
    kept.map(|trigger| ScheduleRow {
        workspace: workspace.clone(),
        flow: flow.flow_ref(),
        trigger: trigger.id.clone(),
        next_due: first_after(&trigger.kind, now),
        last_fired: None,
        state: TriggerState::default(),
    })
    .collect()
}
