//! `/v1/refusals`: the last arrivals that were refused before or by the decision.

use crate::call::{Answer, Call, ok};
use serde_json::json;

pub async fn list(call: Call) -> Answer {
    let page = call.page("refusals")?;
    let rows = call.app.refusals().of(&call.workspace()?);
    let answer = page.answer_slice(
        &rows,
        |row| json!({"at": row.at.to_rfc3339(), "door": row.door.word(), "code": row.code.word(), "path": row.path}),
    )?;
    ok(answer)
}
