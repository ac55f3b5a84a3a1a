//! `POST /executions/{id}/eval`: an expression, read as a task of the execution would read it. Secrets are masked.

use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::doors::kestra::execution;
use crate::json;
use crate::problem::Problem;
use serde_json::json;

pub async fn post(call: Call) -> Answer {
    let workspace = call.workspace()?;
    let id = call.run_id()?;
    let expression = json::utf8(&call.body)?.to_owned();
    let step = match call.param("taskRunId") {
        Err(_) => None,
        Ok(wanted) => {
            let whole = execution::find(&call.app, &workspace, id).await?;
            let found = whole.told.task_runs.iter().find(|run| run.id.hex() == wanted).map(|run| run.step.clone());
            Some(found.ok_or_else(|| Problem::new(Code::RunUnknown, "no such task run in this execution"))?)
        }
    };
    let engine = call.app.engine().clone();
    let read = tokio::task::spawn_blocking(move || engine.eval(&workspace, id, step.as_ref(), &expression)).await;
    let read = read.map_err(|_| Problem::internal("an evaluation panicked"))??;
    match read.ok_or_else(Problem::run_unknown)? {
        Ok(result) => ok(json!({"result": result})),
        // There is no stack here; clients that print one print the reason.
        Err(error) => ok(json!({"stackTrace": error, "error": error})),
    }
}
