//! The answer to an event that was admitted, at every native door.

use crate::call::{Answer, ok};
use crate::doors::follow::sleep_or_not;
use crate::problem::Problem;
use crate::refused::rejected;
use crate::state::AppState;
use crate::view;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::IntoResponse;
use semel_core::admission::{Decision, Reason};
use semel_core::ir::ResponseType;
use semel_core::run::Status;
use semel_core::{RunId, WorkspaceId};
use semel_store::{AdmitResult, RunRow};
use serde::Serialize;
use serde_json::Value as Json;
use std::time::{Duration, Instant};

/// How a door wants its answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Hold the answer until the run ended, at most this long.
    pub wait: Option<Duration>,
    /// Tell the caller that its preference was followed.
    pub preference_applied: bool,
    /// Add the outputs once the run has ended (only with `wait`).
    pub outputs: bool,
    /// Add `decision` and `reason`.
    pub decision: bool,
    /// Once the run has completed, answer with its outputs alone.
    pub bare: Option<Bare>,
}

/// The outputs as the whole answer.
#[derive(Clone, Copy, Debug)]
pub struct Bare {
    pub code: u16,
    pub kind: Option<ResponseType>,
}

/// True when the caller is shown a run that an earlier twin made.
fn is_replay(decision: Decision) -> bool {
    match decision {
        Decision::Attach | Decision::Replay | Decision::Hold | Decision::Resume => true,
        Decision::Start
        | Decision::Queue
        | Decision::Replace
        | Decision::Coalesce
        | Decision::Deliver
        | Decision::Reject => false,
    }
}

/// The word of the answer's `status`: `started` the first time, the run's own word for twins.
fn status_word(decision: Decision, reason: Reason, run: &RunRow) -> &'static str {
    match decision {
        Decision::Start | Decision::Replace => match reason {
            // Created already ended, or behind the run it replaces.
            Reason::LaneCancelled | Reason::LaneFailed => run.status.word(),
            _ if decision == Decision::Replace && run.status == Status::Queued => "queued",
            _ => "started",
        },
        Decision::Queue | Decision::Coalesce => "queued",
        // The stored head may still say failed: the run is about to go on.
        Decision::Resume => "running",
        Decision::Attach | Decision::Replay | Decision::Hold | Decision::Deliver | Decision::Reject => {
            run.status.word()
        }
    }
}

/// The body of the answer.
#[derive(Serialize)]
struct Shown {
    run_id: String,
    status: &'static str,
    workflow_id: String,
    idempotent_replayed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    outputs: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// Answers with the run, or with the refusal that was decided.
pub async fn admitted(app: &AppState, workspace: &WorkspaceId, result: AdmitResult, style: Style) -> Answer {
    let (decision, reason) = (result.decision, result.reason);
    if decision == Decision::Reject {
        return Err(rejected(reason, result.run.map(|run| run.id)));
    }
    let Some(run) = result.run else { return Err(Problem::internal("a decision without a run")) };
    let replayed = is_replay(decision);
    let mut shown = Shown {
        run_id: run.id.to_string(),
        status: status_word(decision, reason, &run),
        workflow_id: run.flow.to_string(),
        idempotent_replayed: replayed,
        outputs: None,
        error: None,
        decision: style.decision.then(|| decision.word()),
        reason: style.decision.then(|| reason.word()),
    };
    if let Some(limit) = style.wait {
        let settled = await_end(app, workspace, decision, &run, limit).await?;
        if settled || replayed {
            add_present_state(app, workspace, run.id, style.outputs, &mut shown).await?;
        }
    }
    let bare = style.bare.filter(|_| shown.status == Status::Completed.word());
    let mut response = match bare.zip(shown.outputs.as_ref()) {
        Some((bare, outputs)) => bare_outputs(bare, outputs)?,
        None => ok(shown)?,
    };
    if replayed {
        response.headers_mut().insert("x-idempotent-replayed", HeaderValue::from_static("true"));
    }
    if let Some(wait) = style.wait.filter(|_| style.preference_applied)
        && let Ok(applied) = HeaderValue::from_str(&format!("wait={}", wait.as_secs()))
    {
        response.headers_mut().insert("preference-applied", applied);
    }
    Ok(response)
}

/// The outputs alone: as JSON, or as text, which is that of the only output if there is only one.
pub fn bare_outputs(bare: Bare, outputs: &Json) -> Answer {
    let status = StatusCode::from_u16(bare.code).map_err(|_| Problem::internal("a status that does not exist"))?;
    let mut response = match bare.kind {
        Some(ResponseType::Text) => {
            let only = outputs.as_object().filter(|map| map.len() == 1).and_then(|map| map.values().next());
            let text = match only {
                Some(Json::String(text)) => text.clone(),
                _ => outputs.to_string(),
            };
            ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
        }
        Some(ResponseType::Json) | None => ok(outputs)?,
    };
    *response.status_mut() = status;
    Ok(response)
}

/// True when the run has ended or waits for a verdict.
async fn await_end(
    app: &AppState,
    workspace: &WorkspaceId,
    decision: Decision,
    run: &RunRow,
    limit: Duration,
) -> Result<bool, Problem> {
    let began = Instant::now();
    if decision == Decision::Resume {
        await_change(app, workspace, run, limit).await?;
    } else if run.status.is_ended() || run.status == Status::Held {
        return Ok(true);
    }
    app.wait_ended(workspace, run.id, limit.saturating_sub(began.elapsed())).await
}

/// A failed run that its twin sent on still looks ended until the engine has taken it up; to wait
/// for its end, its head must have moved first.
async fn await_change(app: &AppState, workspace: &WorkspaceId, run: &RunRow, limit: Duration) -> Result<(), Problem> {
    let mut changes = app.engine().changes();
    let (owner, id, seen) = (workspace.clone(), run.id, run.version);
    let moved = app.read(move |store| Ok(store.run(&owner, id)?.is_none_or(|(row, _, _)| row.version > seen))).await?;
    if moved {
        return Ok(());
    }
    let look = sleep_or_not(app.engine().follow(id));
    tokio::pin!(look);
    let next = async {
        loop {
            tokio::select! {
                change = changes.recv() => match change {
                    Ok(change) if change.run == id && change.version > seen => break,
                    Ok(_) => {}
                    // Too many to tell apart: go on and look at the store.
                    Err(_) => break,
                },
                () = &mut look => break,
            }
        }
    };
    tokio::select! {
        () = next => {}
        () = tokio::time::sleep(limit) => {}
        () = app.stopping().cancelled() => {}
    }
    Ok(())
}

/// Lets the answer say what has become of the run.
async fn add_present_state(
    app: &AppState,
    workspace: &WorkspaceId,
    id: RunId,
    outputs: bool,
    shown: &mut Shown,
) -> Result<(), Problem> {
    let workspace = workspace.clone();
    let Some((row, values, _)) = app.read(move |store| store.run(&workspace, id)).await? else { return Ok(()) };
    shown.status = row.status.word();
    if row.status.is_ended() && outputs {
        shown.outputs = Some(values.outputs.as_ref().map_or(Json::Null, semel_engine::public_json));
        shown.error = values.failure.is_some().then(|| view::failure(&values, true));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::{Door, FlowRef, Millis};

    fn run(status: Status) -> RunRow {
        let id = RunId::from_bytes([1; 16]);
        RunRow {
            id,
            workspace: WorkspaceId::default(),
            flow: FlowRef::new("shop", "pay"),
            revision: 1,
            status,
            epoch: 1,
            version: 1,
            active: false,
            open_intents: 0,
            open_doubts: 0,
            logical: id,
            take: 0,
            generation: 1,
            claim: None,
            lane: None,
            parent: None,
            root: id,
            depth: 0,
            correlation_id: String::new(),
            door: Door::Trigger,
            key: None,
            created_at: Millis(0),
            started_at: None,
            ended_at: None,
            updated_at: Millis(0),
            warned: false,
            erased: false,
            conclusion: None,
            more: Default::default(),
        }
    }

    #[test]
    fn the_first_answer_says_started_and_twins_see_the_run_s_word() {
        let word = |decision, reason, status| status_word(decision, reason, &run(status));
        assert_eq!(word(Decision::Start, Reason::First, Status::Running), "started");
        assert_eq!(word(Decision::Start, Reason::Keyless, Status::Queued), "started");
        assert_eq!(word(Decision::Start, Reason::LaneCancelled, Status::Cancelled), "cancelled");
        assert_eq!(word(Decision::Start, Reason::LaneFailed, Status::Failed), "failed");
        assert_eq!(word(Decision::Replace, Reason::Replaced, Status::Running), "started");
        assert_eq!(word(Decision::Replace, Reason::ReplaceDeferred, Status::Queued), "queued");
        assert_eq!(word(Decision::Replace, Reason::FirstAfterRestore, Status::Queued), "queued");
        assert_eq!(word(Decision::Queue, Reason::Queued, Status::Queued), "queued");
        assert_eq!(word(Decision::Coalesce, Reason::CoalescePending, Status::Queued), "queued");
        assert_eq!(word(Decision::Resume, Reason::Resumed, Status::Failed), "running");
        for status in Status::ALL {
            assert_eq!(word(Decision::Replay, Reason::Replayed, status), status.word());
            assert_eq!(word(Decision::Attach, Reason::Attached, status), status.word());
        }
        let replays: Vec<&str> = Decision::ALL.into_iter().filter(|d| is_replay(*d)).map(Decision::word).collect();
        assert_eq!(replays, ["attach", "replay", "resume", "hold"]);
    }
}
