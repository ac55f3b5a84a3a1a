//! Tasks on rows of the store: what the commit of their step is to do.

use crate::api::{Control, ControlError};
use crate::away;
use crate::evaluate::Evaluator;
use crate::pauses::{open_pauses, resume_control, said, told_of};
use semel_core::run::{By, Failure, KestraState, RunState, StepKey};
use semel_core::{FlowRef, Hash16, RunId};
use semel_expr::Scope;
use semel_store::search::{Field, FieldTest, RunSearch, TextTest};
use semel_store::{OpKind, StoreError, is_own_namespace};
use semel_tasks::{KvOp, StateAt, plan_op};
use serde_json::Value as Json;

impl Evaluator<'_> {
    pub(crate) fn kv_op(&self, key: &StepKey, type_name: &str, config: &Json) -> Result<OpKind, Failure> {
        let own = |namespace: Option<String>| namespace.unwrap_or_else(|| self.flow.flow_ref.namespace.clone());
        let op = plan_op(type_name, config).map_err(|e| Failure::new(e.code, e.message))?;
        if let KvOp::Set { namespace: Some(name), .. }
        | KvOp::Get { namespace: Some(name), .. }
        | KvOp::Delete { namespace: Some(name), .. } = &op
            && is_own_namespace(name)
        {
            return Err(Failure::new("bad_config", format!("`{name}` cannot be a namespace")));
        }
        Ok(match op {
            KvOp::Set { namespace, key, value, kv_type, overwrite, ttl_ms } => {
                let kv_type = kv_type.unwrap_or_else(|| kv_type_of(&value).to_owned());
                OpKind::KvSet { namespace: own(namespace), key, value, kv_type, overwrite, ttl_ms }
            }
            KvOp::Get { namespace, key, error_on_missing } => {
                // Read again in the transaction, where it was found.
                let namespace = own(namespace);
                let seen = self.scope.key_seen_from(&namespace, &key).map_err(|error| Failure::new("store", error))?;
                let namespace = seen.map_or(namespace, |row| row.namespace);
                OpKind::KvGet { namespace, key, error_on_missing }
            }
            KvOp::Delete { namespace, key, error_on_missing } => {
                OpKind::KvDelete { namespace: own(namespace), key, error_on_missing }
            }
            KvOp::StateGet { at, error_on_missing } => {
                OpKind::StateGet { namespace: own(None), key: self.state_key(&at), error_on_missing }
            }
            KvOp::StateSet { at, data } => OpKind::StateSet { namespace: own(None), key: self.state_key(&at), data },
            KvOp::StateDelete { at, error_on_missing } => {
                OpKind::KvDelete { namespace: own(None), key: self.state_key(&at), error_on_missing }
            }
            KvOp::Toggle { namespace, flow_id, trigger, enabled } => {
                let flow_id = flow_id.unwrap_or_else(|| self.flow.flow_ref.id.clone());
                OpKind::Toggle { flow: FlowRef::new(own(namespace), flow_id), trigger, enabled }
            }
            KvOp::Kill { run, alone } => OpKind::Kill { run: run_id(&run)?, by: self.by(), alone },
            KvOp::Resume { run, namespace, flow_id, inputs } => {
                let run = match (run, flow_id) {
                    (Some(run), _) => run_id(&run)?,
                    (None, Some(flow_id)) => self.paused_run(FlowRef::new(own(namespace), flow_id))?,
                    (None, None) => self.family.run,
                };
                self.resume_op(key, run, &inputs)?
            }
        })
    }

    fn state_key(&self, at: &StateAt) -> String {
        let value = self.scope.root("taskrun").and_then(|run| run.get("value")).map(|value| value.to_text());
        at.key(&self.flow.flow_ref.id, value.as_deref())
    }

    fn by(&self) -> By {
        By { who: format!("run {}", self.family.run), why: "a task of it asked for that".into() }
    }

    /// What is said to the run is checked now; whether it still stands there, when it hears of it.
    fn resume_op(&self, key: &StepKey, run: RunId, inputs: &Json) -> Result<OpKind, Failure> {
        let control = match self.scope.run.filter(|own| own.id == run) {
            // Of itself a run knows more than what is written down.
            Some(own) => {
                let pauses = open_pauses(self.flow, own.state);
                stands_still(own.state, &pauses)
                    .and_then(|()| resume_control(own.state, pauses, None, |pause| said(&self.scope, pause, inputs)))
            }
            None => told_of(self.services, self.flows, self.workspace, run).and_then(|told| {
                let pauses = told.pauses();
                stands_still(&told.state, &pauses)?;
                resume_control(&told.state, pauses, None, |pause| {
                    let step = pause.step.clone();
                    said(&told.scope(self.services, self.workspace, run, &step, self.now), pause, inputs)
                })
            }),
        };
        let control: Control = control.map_err(|error| match error {
            ControlError::Unknown => Failure::new("run_unknown", format!("no run {run} in this workspace")),
            ControlError::NotPossible(text) => Failure::new("not_paused", format!("run {run}: {text}")),
            ControlError::Inputs(fields) => {
                let text: Vec<String> = fields.into_iter().map(|f| format!("{}: {}", f.field, f.message)).collect();
                Failure::new("input_invalid", text.join("; "))
            }
            ControlError::Store(error) => unread(&error),
        })?;
        let control = serde_json::to_value(control).map_err(|error| Failure::new("internal", error.to_string()))?;
        let step = self.scope.run.map(|own| own.state.step_id(key)).unwrap_or(Hash16([0; 16]));
        Ok(OpKind::Ask { run, ticket: Hash16::of(&[b"asked by", &step.0]), control, by: self.by() })
    }

    /// The one run of a flow that stands still.
    fn paused_run(&self, flow: FlowRef) -> Result<RunId, Failure> {
        let named = |field, name: &String| FieldTest { field, test: TextTest::In(vec![name.clone()]), not: false };
        let search = RunSearch {
            fields: vec![named(Field::Namespace, &flow.namespace), named(Field::FlowId, &flow.id)],
            states: Some([KestraState::Paused].into()),
            limit: 1,
            now: self.now,
            ..RunSearch::default()
        };
        let found = self.services.store.search_runs(self.workspace, &search).map_err(|error| unread(&error))?;
        match (found.0.first(), found.1) {
            (Some((row, _, _)), 1) => Ok(row.id),
            (_, 0) => Err(Failure::new("not_paused", format!("no run of {flow} is paused"))),
            (_, count) => Err(Failure::new(
                "several_paused",
                format!("{count} runs of {flow} are paused; name one of them with `executionId`"),
            )),
        }
    }
}

fn stands_still(state: &RunState, pauses: &[crate::pauses::OpenPause]) -> Result<(), ControlError> {
    match state.paused || !pauses.is_empty() {
        true => Ok(()),
        false => Err(ControlError::NotPossible("it is not paused".to_owned())),
    }
}

fn unread(error: &StoreError) -> Failure {
    away::note(error);
    Failure::new("store", error.to_string())
}

fn run_id(text: &str) -> Result<RunId, Failure> {
    text.parse().map_err(|()| Failure::new("run_unknown", format!("`{text}` is not the id of a run")))
}

fn kv_type_of(value: &Json) -> &'static str {
    match value {
        Json::String(_) => "STRING",
        Json::Number(_) => "NUMBER",
        Json::Bool(_) => "BOOLEAN",
        Json::Null | Json::Array(_) | Json::Object(_) => "JSON",
    }
}
