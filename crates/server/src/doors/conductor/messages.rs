//! `POST /workflow/{id}/messages`: something is left for a workflow, whose PULL_WORKFLOW_MESSAGES tasks take it.

use super::control::{ask, head};
use super::workflow::id_of;
use super::{body, text};
use crate::call::{Answer, Call};
use crate::codes::Code;
use crate::problem::Problem;
use semel_core::Hash16;
use semel_core::run::MESSAGES_FULL;
use semel_engine::Asking;
use serde_json::{Value as Json, json};

/// The id of the message. One that cannot be taken now, since too many wait, is 429: it may be sent again.
pub async fn push(call: Call) -> Answer {
    let id = id_of(&call)?;
    let payload = Json::Object(body::object(&call)?);
    head(&call, id).await?;
    let mut bytes = [0u8; 16];
    (call.app.config().random)(&mut bytes);
    let own = Hash16(bytes).uuid().to_string();
    let message = json!({"id": own, "workflowId": id.to_string(), "payload": payload,
        "receivedAt": call.now().to_rfc3339()});
    match ask(&call, id, Asking::Leave { message }, Code::NotPossible, None).await {
        Ok(()) => text(own),
        Err(problem) if problem.detail.contains(MESSAGES_FULL) => {
            Err(Problem::new(Code::TooManyPending, problem.detail))
        }
        Err(problem) => Err(problem),
    }
}
