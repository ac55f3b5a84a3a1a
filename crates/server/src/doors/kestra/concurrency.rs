//! `/concurrency-limit`: how many executions of a flow hold a slot. It is counted, never kept beside what it counts, so
//! there is nothing to correct.

use super::flows::{all, head, mentions};
use super::paged::Paged;
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::run::Status;
use semel_core::{FlowRef, RunId, WorkspaceId};
use semel_store::{FlowRow, RunQuery, Store, StoreError};
use serde::Deserialize;
use serde_json::{Value as Json, json};

/// Runs counted at a time.
const ROWS: u32 = 1_000;
/// A run in one of these has the slot that it was admitted with.
const HOLDING: [Status; 4] = [Status::Running, Status::Waiting, Status::Paused, Status::Held];

fn is_limited(row: &FlowRow) -> bool {
    #[derive(Deserialize)]
    struct Limited {
        #[serde(default)]
        lane: Option<Json>,
    }
    serde_json::from_str::<Limited>(&row.ir).is_ok_and(|flow| flow.lane.is_some())
}

fn running(store: &dyn Store, workspace: &WorkspaceId, flow: &FlowRef) -> Result<usize, StoreError> {
    let (mut count, mut before) = (0, None::<RunId>);
    loop {
        let query = RunQuery {
            namespace: Some(flow.namespace.clone()),
            flow_id: Some(flow.id.clone()),
            statuses: HOLDING.to_vec(),
            before,
            limit: ROWS,
            ..RunQuery::default()
        };
        let page = store.runs(workspace, &query)?;
        // A held run that has ended gave its slot back.
        count += page.iter().filter(|(row, _, _)| row.ended_at.is_none()).count();
        before = page.last().map(|(row, _, _)| row.id);
        if page.len() < ROWS as usize {
            return Ok(count);
        }
    }
}

fn shown(workspace: &WorkspaceId, flow: &FlowRef, running: usize) -> Json {
    json!({"tenantId": workspace.0, "namespace": flow.namespace, "flowId": flow.id, "running": running})
}

pub async fn search(call: Call) -> Answer {
    let (paged, workspace) = (Paged::read(&call.query)?, call.workspace()?);
    let wanted = call.query.text("q")?.unwrap_or_default();
    let counted = call.app.read(move |store| {
        let rows = all(store, &workspace, |row| is_limited(row) && mentions(&row.flow, "", &wanted))?;
        let one = |row: &FlowRow| Ok(shown(&workspace, &row.flow, running(store, &workspace, &row.flow)?));
        rows.iter().map(one).collect::<Result<Vec<Json>, StoreError>>()
    });
    let mut counted = counted.await?;
    paged.sort(&mut counted, &["namespace", "flowId", "running"], |row, field| row[field].to_string())?;
    paged.answer(&counted, Json::clone)
}

#[derive(Deserialize)]
struct Wanted {
    running: usize,
}

/// Kestra lets its counter be set right by hand. Here it cannot be wrong; who sends another number is told so.
pub async fn put(call: Call) -> Answer {
    let wanted: Wanted = call.json()?;
    let (workspace, flow) = (call.workspace()?, FlowRef::new(call.param("namespace")?, call.param("flow")?));
    head(&call.app, &workspace, &flow).await?;
    let (owner, asked) = (workspace.clone(), flow.clone());
    let found = call.app.read(move |store| running(store, &owner, &asked)).await?;
    if wanted.running == found {
        return ok(shown(&workspace, &flow, found));
    }
    let detail = format!("{found} executions hold a slot; the number is counted from them and cannot be set");
    Err(Problem::new(Code::NotPossible, detail))
}
