//! `POST /workflow/test`: a workflow tried out. The request is one that starts a workflow, with answers for its tasks.

use super::metadata::{find, invalid};
use super::start::Start;
use super::update::What;
use super::{body, workflow};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::ir::Flow;
use semel_engine::{Mock, Mocks, Rehearsal, RehearsalError};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;

/// Workflows inside workflows that answers may be given for.
const DEPTH_MAX: u32 = 16;

pub async fn post(call: Call) -> Answer {
    let fields = body::object(&call)?;
    let start = Start::of_request(&fields)?;
    let mocks = mocks(&fields, 0)?;
    let (flows, source) = definition(&call, &start)?;
    let rehearsal = Rehearsal {
        flows,
        source,
        words: start.words(),
        input: Json::Object(start.input),
        correlation_id: start.correlation_id,
        mocks,
    };
    let (engine, workspace) = (call.app.engine().clone(), call.workspace()?);
    // It computes for a while, and others want to be answered meanwhile.
    let runtime = tokio::runtime::Handle::current();
    let playing = tokio::task::spawn_blocking(move || runtime.block_on(engine.rehearse(&workspace, rehearsal)));
    let played = playing.await.map_err(|_| Problem::internal("a rehearsal panicked"))?;
    let story = played.map_err(|error| match error {
        RehearsalError::Admit(error) => error.into(),
        RehearsalError::Flow(error) => error.into(),
        RehearsalError::Store(error) => error.into(),
        error @ RehearsalError::TooLong => Problem::new(Code::IllegalArgument, error.to_string()),
    })?;
    let story = story.ok_or_else(|| Problem::internal("a rehearsal without a workflow"))?;
    ok(workflow::shown(&story, true, call.sees_payloads()))
}

/// The flows of the definition that the request names or brings, the one to start first.
fn definition(call: &Call, start: &Start) -> Result<(Vec<Flow>, String), Problem> {
    let Some(given) = &start.definition else {
        let flow = find(call, &start.name, start.version)?;
        let inner = inner(call, &flow.source)?;
        return Ok((std::iter::once(flow.index.flow.clone()).chain(inner).collect(), flow.source.clone()));
    };
    let mut definition = given.clone();
    if definition["name"].as_str().is_none_or(str::is_empty) {
        definition["name"] = start.name.as_str().into();
    }
    let compiled = call.app.engine().validate_workflow(&definition).map_err(|found| invalid(&found))?;
    Ok((std::iter::once(compiled.flow).chain(compiled.inner).collect(), definition.to_string()))
}

/// Definitions that stand inside a stored one.
fn inner(call: &Call, source: &str) -> Result<Vec<Flow>, Problem> {
    let Ok(definition) = serde_json::from_str(source) else { return Ok(Vec::new()) };
    let compiled = call.app.engine().validate_workflow(&definition).map_err(|found| invalid(&found))?;
    Ok(compiled.inner)
}

fn mocks(fields: &Map<String, Json>, depth: u32) -> Result<Mocks, Problem> {
    if depth > DEPTH_MAX {
        return Err(Problem::field("subWorkflowTestRequest", format!("may be {DEPTH_MAX} deep")));
    }
    let mut all = Mocks { answers: BTreeMap::new(), below: BTreeMap::new() };
    for (reference, list) in body::map(fields, "taskRefToMockOutput")?.unwrap_or_default() {
        let Json::Array(list) = list else {
            return Err(Problem::field("taskRefToMockOutput", format!("`{reference}` must be a list of answers")));
        };
        all.answers.insert(reference, list.iter().filter_map(|one| mock(one).transpose()).collect::<Result<_, _>>()?);
    }
    for (reference, inner) in body::map(fields, "subWorkflowTestRequest")?.unwrap_or_default() {
        if let Json::Object(inner) = inner {
            all.below.insert(reference, mocks(&inner, depth + 1)?);
        }
    }
    Ok(all)
}

/// One that is not an end says nothing.
fn mock(given: &Json) -> Result<Option<Mock>, Problem> {
    let Json::Object(fields) = given else {
        return Err(Problem::field("taskRefToMockOutput", "an answer is an object with `status` and `output`"));
    };
    let status = body::field(fields, "status")?.unwrap_or_else(|| "COMPLETED".to_owned());
    let output = Json::Object(body::map(fields, "output")?.unwrap_or_default());
    Ok(match What::read(&status, output, fields)? {
        What::Ended(end) => Some(Mock { end }),
        What::Word(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answers_are_read_for_tasks_and_for_what_they_start() {
        let Json::Object(fields) = json!({"taskRefToMockOutput": {"a": [{"output": {"x": 1}}, {"status": "FAILED"}, {"status": "IN_PROGRESS"}]},
            "subWorkflowTestRequest": {"s": {"taskRefToMockOutput": {"b": []}}}})
        else {
            panic!()
        };
        let found = mocks(&fields, 0).unwrap();
        assert_eq!(found.answers["a"].len(), 2);
        assert!(found.below["s"].answers["b"].is_empty());
        let bad = [json!({"a": 1}), json!({"a": [1]}), json!({"a": [{"status": "NO"}]})];
        for given in bad {
            let Json::Object(fields) = json!({"taskRefToMockOutput": given}) else { panic!() };
            assert!(mocks(&fields, 0).is_err());
        }
    }
}
