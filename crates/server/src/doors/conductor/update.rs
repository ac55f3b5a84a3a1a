//! What workers say of a task: done, failed, not yet, still at it.
//!
//! | status | and | becomes |
//! |---|---|---|
//! | COMPLETED | | the answer to the attempt |
//! | FAILED | | the attempt failed, and the next one is due if there is one |
//! | FAILED_WITH_TERMINAL_ERROR | | no other attempt |
//! | CANCELED | | no other attempt; the workflow is terminated |
//! | IN_PROGRESS | `extendLease` | a sign of life |
//! | IN_PROGRESS | | anybody may take it again after `callbackAfterSeconds` |
//!
//! A result of an attempt that has ended changes nothing and is answered like the first one: the client that sends it
//! again has not heard that it was taken. `update-v2` hands out the same next task then.

use super::task::{id_text, read_id};
use super::tasks::{add_lines, take_from};
use super::{body, text};
use crate::call::{Answer, Call, no_content, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::{Hash16, Millis};
use semel_engine::{ErrandAnswer, ErrandError};
use semel_store::{ErrandQueue, ErrandRow, ErrandWord, LogLine};
use serde_json::{Map, Value as Json};
use std::time::Duration;

/// A TaskResult.
pub struct Said {
    pub worker: Option<String>,
    pub what: What,
    pub lines: Vec<LogLine>,
}

pub enum What {
    Ended(ErrandAnswer),
    Word(ErrandWord),
}

/// The statuses that a result can have.
pub const STATUSES: &str = "COMPLETED, FAILED, FAILED_WITH_TERMINAL_ERROR, CANCELED, IN_PROGRESS";

impl What {
    pub fn read(status: &str, output: Json, fields: &Map<String, Json>) -> Result<What, Problem> {
        let message = || Ok::<_, Problem>(body::field(fields, "reasonForIncompletion")?.unwrap_or_default());
        Ok(match status {
            "COMPLETED" => What::Ended(ErrandAnswer::Done { output }),
            "FAILED" | "FAILED_WITH_TERMINAL_ERROR" => What::Ended(ErrandAnswer::Failed {
                message: message()?,
                output: Some(output),
                for_good: status == "FAILED_WITH_TERMINAL_ERROR",
            }),
            "CANCELED" => What::Ended(ErrandAnswer::Cancelled { message: message()?, output: Some(output) }),
            "IN_PROGRESS" if body::flag(fields, "extendLease")? => What::Word(ErrandWord::Alive),
            "IN_PROGRESS" => {
                let seconds = body::whole(fields, "callbackAfterSeconds")?.unwrap_or(0).min(u64::from(u32::MAX));
                let after_ms = i64::try_from(seconds * 1_000).unwrap_or(i64::MAX);
                What::Word(ErrandWord::Later { progress: Some(output), after_ms })
            }
            other => {
                return Err(Problem::field("status", format!("`{other}` is not a status of a result: {STATUSES}")));
            }
        })
    }
}

impl Said {
    fn read(fields: &Map<String, Json>, now: Millis) -> Result<(Hash16, Said), Problem> {
        let id = body::field(fields, "taskId")?
            .ok_or_else(|| Problem::field("taskId", "Task ID cannot be null or empty"))?;
        let id = read_id(&id).ok_or_else(|| super::task::unknown(&id))?;
        if body::field(fields, "workflowInstanceId")?.is_none_or(|id| id.is_empty()) {
            return Err(Problem::field("workflowInstanceId", "Workflow Id cannot be null or empty"));
        }
        body::refuse_stored(fields, "externalOutputPayloadStoragePath", "outputData")?;
        let status = body::field(fields, "status")?.unwrap_or_else(|| "IN_PROGRESS".to_owned());
        let output = Json::Object(body::map(fields, "outputData")?.unwrap_or_default());
        let said = Said {
            worker: body::field(fields, "workerId")?.filter(|worker| !worker.is_empty()),
            what: What::read(&status, output, fields)?,
            lines: lines(fields, now),
        };
        Ok((id, said))
    }
}

/// The log lines of a result; each has its own instant.
fn lines(fields: &Map<String, Json>, now: Millis) -> Vec<LogLine> {
    let given = fields.get("logs").and_then(Json::as_array).into_iter().flatten();
    let line = |line: &Json| match line {
        Json::String(message) => Some(LogLine { at: now, message: message.clone() }),
        Json::Object(_) => {
            let at = line["createdTime"].as_i64().filter(|at| *at > 0).map_or(now, Millis);
            Some(LogLine { at, message: line["log"].as_str()?.to_owned() })
        }
        _ => None,
    };
    given.filter_map(line).collect()
}

/// `POST /tasks`: the id of the task.
pub async fn post(call: Call) -> Answer {
    let (id, said) = Said::read(&body::object(&call)?, call.now())?;
    tell(&call, id, said).await?;
    text(id_text(id))
}

/// `POST /tasks/update-v2`: another task of the same queue for whoever has done with this one, or 204.
pub async fn post_v2(call: Call) -> Answer {
    let (id, said) = Said::read(&body::object(&call)?, call.now()).map_err(not_missing)?;
    let (worker, ended) = (said.worker.clone(), matches!(said.what, What::Ended(_)));
    let row = tell(&call, id, said).await.map_err(not_missing)?;
    if !ended {
        return no_content();
    }
    let from = ErrandQueue { queue: row.queue, domain: row.domain };
    let next = take_from(&call, from, worker.unwrap_or_default(), 1, Duration::ZERO, Some(id)).await?;
    match next.into_iter().next() {
        Some(task) => ok(task),
        None => no_content(),
    }
}

/// A 404 here tells clients that the address does not exist, and they never use it again.
fn not_missing(problem: Problem) -> Problem {
    match problem.code {
        Code::TaskUnknown => Problem::field("taskId", problem.detail),
        _ => problem,
    }
}

/// Tells the run, or keeps it with the attempt. The row is that of the attempt.
pub async fn tell(call: &Call, id: Hash16, said: Said) -> Result<ErrandRow, Problem> {
    let workspace = call.workspace()?;
    let row = super::tasks::row(call, id).await?;
    add_lines(call, &row, said.lines).await?;
    let (engine, worker) = (call.app.engine().clone(), said.worker);
    // To its end, also where the worker hangs up.
    let telling = tokio::spawn(async move {
        match said.what {
            What::Ended(end) => engine.answer_errand(&workspace, row, end, worker).await,
            What::Word(word) => engine.touch_errand(&workspace, id, worker, word).await,
        }
    });
    match telling.await.map_err(|_| Problem::internal("a write panicked"))? {
        Ok(row) => Ok(row),
        Err(ErrandError::Over(row)) => Ok(*row),
        Err(ErrandError::Unknown) => Err(super::task::unknown(&id_text(id))),
        Err(ErrandError::Store(error)) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(body: Json) -> Result<What, Problem> {
        let Json::Object(fields) = body else { panic!() };
        Said::read(&fields, Millis(5)).map(|(_, said)| said.what)
    }

    const ID: &str = "00000000-0000-0000-0000-00000000000a";

    #[test]
    fn each_status_is_what_the_table_says() {
        let with =
            |status: &str| json!({"taskId": ID, "workflowInstanceId": "w", "status": status, "outputData": {"a": 1}});
        assert!(matches!(read(with("COMPLETED")), Ok(What::Ended(ErrandAnswer::Done { .. }))));
        assert!(matches!(read(with("FAILED")), Ok(What::Ended(ErrandAnswer::Failed { for_good: false, .. }))));
        let for_good = read(with("FAILED_WITH_TERMINAL_ERROR"));
        assert!(matches!(for_good, Ok(What::Ended(ErrandAnswer::Failed { for_good: true, .. }))));
        assert!(matches!(read(with("IN_PROGRESS")), Ok(What::Word(ErrandWord::Later { after_ms: 0, .. }))));
        let mut alive = with("IN_PROGRESS");
        alive["extendLease"] = json!(true);
        assert!(matches!(read(alive), Ok(What::Word(ErrandWord::Alive))));
        assert!(matches!(read(with("CANCELED")), Ok(What::Ended(ErrandAnswer::Cancelled { .. }))));
        assert!(read(with("SCHEDULED")).is_err());
        assert!(read(json!({"taskId": ID, "status": "COMPLETED"})).is_err(), "whose task it is");
        let mut elsewhere = with("COMPLETED");
        elsewhere["externalOutputPayloadStoragePath"] = json!("out/1.json");
        assert!(read(elsewhere).is_err(), "an output that nobody can read is none");
    }

    #[test]
    fn log_lines_keep_their_instant() {
        let Json::Object(fields) = json!({"logs": [{"log": "a", "createdTime": 7}, "b", 3]}) else { panic!() };
        let found = lines(&fields, Millis(5));
        assert_eq!(
            found.iter().map(|line| (line.at.0, line.message.as_str())).collect::<Vec<_>>(),
            [(7, "a"), (5, "b")]
        );
    }
}
