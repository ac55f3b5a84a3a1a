//! What a person asks of a run.

use super::runs;
use crate::call::{Answer, Call};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::ir::{ReviewDecision, Reviewed};
use semel_core::run::VerdictKind;
use semel_engine::Control;
use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Why {
    #[serde(default)]
    why: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resume {
    /// Where the run stands still, if at several steps.
    #[serde(default)]
    step_id: Option<String>,
    /// What is said to that step.
    #[serde(default)]
    inputs: Json,
    /// At a step that asks for one: approve or deny.
    #[serde(default)]
    decision: Option<Word>,
    #[serde(default)]
    comment: Option<String>,
    #[serde(default)]
    why: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Word {
    Approve,
    Deny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Replay {
    #[serde(default)]
    from: Option<String>,
    #[serde(default)]
    why: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Verdict {
    #[serde(default)]
    step_id: Option<String>,
    verdict: VerdictKind,
    #[serde(default)]
    result: Option<Json>,
    #[serde(default)]
    why: Option<String>,
}

async fn act(call: Call, control: Control, why: Option<String>) -> Answer {
    let (id, by) = (call.run_id()?, call.by(why.as_deref())?);
    call.app.control(call.workspace()?, id, control, by).await?;
    runs::shown(&call, id).await
}

async fn simple(call: Call, control: Control) -> Answer {
    let body: Why = call.json()?;
    act(call, control, body.why).await
}

pub async fn cancel(call: Call) -> Answer {
    simple(call, Control::Cancel).await
}

pub async fn pause(call: Call) -> Answer {
    simple(call, Control::Pause).await
}

pub async fn resume(call: Call) -> Answer {
    let body: Resume = call.json()?;
    let (id, by) = (call.run_id()?, call.by(body.why.as_deref())?);
    let workspace = call.workspace()?;
    match body.decision {
        Some(word) => {
            let decision = match word {
                Word::Approve => ReviewDecision::Approved,
                Word::Deny => ReviewDecision::Denied,
            };
            let said = Reviewed { decision, comment: body.comment };
            call.app.review(workspace, id, body.step_id, said, body.inputs, by).await?;
        }
        None if body.comment.is_some_and(|comment| !comment.is_empty()) => {
            return Err(Problem::new(Code::IllegalArgument, "`comment` goes with a `decision`: approve or deny"));
        }
        None => call.app.resume(workspace, id, body.step_id, body.inputs, by).await?,
    }
    runs::shown(&call, id).await
}

pub async fn release(call: Call) -> Answer {
    simple(call, Control::Release).await
}

pub async fn restart(call: Call) -> Answer {
    simple(call, Control::Restart).await
}

pub async fn replay(call: Call) -> Answer {
    let body: Replay = call.json()?;
    act(call, Control::Replay { from: body.from }, body.why).await
}

pub async fn verdict(call: Call) -> Answer {
    let body: Verdict = call.json()?;
    if body.result.is_some() && body.verdict != VerdictKind::Done {
        return Err(Problem::field("result", "goes with the verdict `done` only: it is what the effect gave"));
    }
    act(call, Control::Verdict { step: body.step_id, verdict: body.verdict, result: body.result }, body.why).await
}
