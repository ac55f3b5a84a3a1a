//! `subflow()` in the inputs of a flow: another flow is run before there is a run, and its outputs are read.
//!
//! It is asked for where choices of an input or its default are computed, and nowhere else: in the middle of a task
//! nobody could go on with what it had begun. The run goes through the one admission. Where the event has a key of the
//! caller's the run has one too, made of it, so that whoever sends the event again is told of the same run.
//!
//! | what happens | what the expression gets |
//! |---|---|
//! | it ends in time | `id`, `state`, `outputs`, `labels` |
//! | it does not, or cannot be started, or flows ask for each other too deep | an error; a run that has begun goes on |

use crate::api::Occurrence;
use crate::handle::Engine;
use crate::outside::argument_of;
use semel_core::admission::PresetName;
use semel_core::labels::{FROM, SYSTEM};
use semel_core::run::StateOf;
use semel_core::{Door, FlowRef, Hash16, WorkspaceId, duration};
use semel_expr::Value;
use semel_store::AdmitResult;
use serde_json::{Map, Value as Json, json};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// How long a flow may take, if nobody says otherwise, and at the most.
const TIMEOUT_MS: i64 = 60_000;
const TIMEOUT_MS_MAX: i64 = 300_000;
/// How deep the inputs of flows may ask for flows.
const DEPTH_MAX: u32 = 3;

/// The arguments of `subflow()`, in their order.
const ARGUMENTS: [&str; 6] = ["namespace", "id", "inputs", "revision", "labels", "timeout"];

tokio::task_local! {
    static DEPTH: u32;
}

/// A flow that is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    flow: FlowRef,
    inputs: Json,
    revision: Option<u32>,
    labels: Vec<(String, String)>,
    timeout_ms: i64,
}

impl Call {
    pub fn read(args: &[Value], named: &[(String, Value)]) -> Result<Call, String> {
        let argument = |name: &str| argument_of("subflow()", &ARGUMENTS, args, named, name);
        let text = |name: &str| match argument(name)? {
            Some(Value::Str(text)) => Ok(Some(text.to_string())),
            None => Ok(None),
            Some(_) => Err(format!("`{name}` of subflow() must be a text that holds no secret")),
        };
        let map = |name: &str| match argument(name)?.map(Value::to_plain_json) {
            None => Ok(Map::new()),
            Some(Some(Json::Object(map))) => Ok(map),
            Some(_) => Err(format!("`{name}` of subflow() must be a map that holds no secret")),
        };
        let needed = |name: &str| text(name)?.ok_or_else(|| format!("subflow() needs `{name}`"));
        let revision = argument("revision")?.map(|value| value.to_plain_json().and_then(|n| n.as_u64()));
        let revision = match revision {
            None => None,
            Some(number) => match number.and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0) {
                Some(number) => Some(number),
                None => return Err("`revision` of subflow() must be the number of a revision".to_owned()),
            },
        };
        let timeout_ms = match text("timeout")? {
            None => TIMEOUT_MS,
            Some(text) => duration::parse_ms(&text).map_err(|error| format!("`timeout` of subflow(): {error}"))?,
        };
        if !(1..=TIMEOUT_MS_MAX).contains(&timeout_ms) {
            return Err("`timeout` of subflow() must be longer than zero and at most PT5M".to_owned());
        }
        let mut labels = vec![(FROM.to_owned(), "subflow".to_owned())];
        for (name, value) in map("labels")? {
            if name.starts_with(SYSTEM) {
                return Err(format!("`labels` of subflow() cannot set `{name}`: such labels are Semel's own"));
            }
            labels.push((name, value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
        }
        let flow = FlowRef::new(needed("namespace")?, needed("id")?);
        Ok(Call { flow, inputs: Json::Object(map("inputs")?), revision, labels, timeout_ms })
    }

    /// What tells it from the others that one evaluation asks for.
    pub fn key(&self) -> Hash16 {
        Hash16::of(&[b"subflow", format!("{self:?}").as_bytes()])
    }
}

impl Engine {
    /// Runs the flow to its end. `event`: what the event that asks is known by, if it has a key.
    pub(crate) async fn run_asked(
        &self,
        workspace: &WorkspaceId,
        call: &Call,
        event: Option<&str>,
    ) -> Result<Json, String> {
        let depth = DEPTH.try_with(|depth| *depth).unwrap_or_default();
        if depth >= DEPTH_MAX {
            return Err(format!("subflow(): inputs of flows may ask for flows {DEPTH_MAX} deep"));
        }
        let told = |error: &dyn std::fmt::Display| format!("subflow(): {error}");
        let flow = match call.revision {
            Some(revision) => self.flow_revision(workspace, &call.flow, revision),
            None => self.flow(workspace, &call.flow),
        };
        let occurrence = Occurrence {
            workspace: workspace.clone(),
            flow: flow.map_err(|error| told(&error))?,
            door: Door::Subflow,
            caller: "subflow()".to_owned(),
            caller_key: None,
            intrinsic_key: event.map(|event| format!("subflow() {event} {}", call.key().hex())),
            door_preset: PresetName::Semel,
            request_preset: None,
            scope: None,
            inputs: call.inputs.clone(),
            trigger: json!({}).into(),
            trigger_id: None,
            labels: call.labels.clone(),
            correlation_id: None,
            run: None,
            start_at: None,
            breakpoints: vec![],
        };
        let admitted = DEPTH.scope(depth + 1, self.admitted(occurrence)).await?;
        let run = admitted.run.ok_or_else(|| format!("subflow(): refused, {}", admitted.reason.word()))?.id;
        let limit = Duration::from_millis(call.timeout_ms.unsigned_abs());
        let has_ended = self.wait_ended(workspace, run, limit).await.map_err(|error| told(&error))?;
        let found = self.store().run(workspace, run).map_err(|error| told(&error))?;
        let Some((row, values, labels)) = found.filter(|_| has_ended) else {
            return Err(format!("subflow(): the run {run} of {} has not ended in time", call.flow));
        };
        let (status, warned, ended) = (row.status, row.warned, row.ended_at.is_some());
        let state = StateOf { status, warned, ended, conclusion: row.conclusion }.kestra().word();
        let labels: Map<String, Json> = labels.into_iter().map(|(name, value)| (name, value.into())).collect();
        let mut said = Value::from_json(&json!({"id": run.to_string(), "state": state, "labels": labels})).to_stored();
        said["outputs"] = values.outputs.unwrap_or_else(|| json!({}));
        Ok(said)
    }

    /// An admission inside of another one, whose own inputs may ask again.
    fn admitted(
        &self,
        occurrence: Occurrence,
    ) -> Pin<Box<dyn Future<Output = Result<AdmitResult, String>> + Send + '_>> {
        Box::pin(
            async move { self.admit(occurrence).await.map_err(|error| format!("subflow(): {}", error.in_words())) },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(named: Json) -> Result<Call, String> {
        let Json::Object(named) = named else { panic!("a map") };
        let named: Vec<(String, Value)> =
            named.iter().map(|(name, value)| (name.clone(), Value::from_json(value))).collect();
        Call::read(&[], &named)
    }

    #[test]
    fn a_call_is_made_of_the_arguments() {
        let call = read(json!({"namespace": "n", "id": "f", "inputs": {"a": 1}, "labels": {"team": "red"}})).unwrap();
        assert_eq!((call.flow.to_string(), &call.inputs), (FlowRef::new("n", "f").to_string(), &json!({"a": 1})));
        assert_eq!(call.labels, [("system.from".into(), "subflow".into()), ("team".into(), "red".into())]);
        assert_eq!((call.revision, call.timeout_ms), (None, 60_000));
        let other = read(json!({"namespace": "n", "id": "f", "revision": 2, "timeout": "PT5M"})).unwrap();
        assert_eq!((other.revision, other.timeout_ms), (Some(2), 300_000));
        assert_ne!(call.key(), other.key());
        let placed = Call::read(&[Value::str("n"), Value::str("f")], &[]).unwrap();
        assert_eq!(placed, read(json!({"namespace": "n", "id": "f"})).unwrap());
    }

    #[test]
    fn what_it_cannot_be_is_said() {
        for (with, text) in [
            (json!({"id": "f"}), "needs `namespace`"),
            (json!({"namespace": "n"}), "needs `id`"),
            (json!({"namespace": "n", "id": "f", "flowId": "g"}), "no argument `flowId`"),
            (json!({"namespace": "n", "id": "f", "inputs": [1]}), "`inputs` of subflow() must be a map"),
            (json!({"namespace": "n", "id": "f", "revision": 0}), "`revision`"),
            (json!({"namespace": "n", "id": "f", "timeout": "PT6M"}), "at most PT5M"),
            (json!({"namespace": "n", "id": "f", "timeout": "soon"}), "`timeout` of subflow()"),
            (json!({"namespace": "n", "id": "f", "labels": {"system.x": "1"}}), "cannot set `system.x`"),
        ] {
            let said = read(with).unwrap_err();
            assert!(said.contains(text), "{said}");
        }
    }
}
