//! `/v1/workspaces`: the walls between users of one server.

use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use crate::view;
use semel_core::WorkspaceId;
use semel_store::{Work, WorkspaceRow};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    id: String,
}

pub async fn list(call: Call) -> Answer {
    let page = call.page("workspaces")?;
    let rows = call.app.read(|store| store.workspaces()).await?;
    ok(page.answer_slice(&rows, view::workspace)?)
}

pub async fn create(call: Call) -> Answer {
    let body: Create = call.json()?;
    let id = WorkspaceId::parse(&body.id).ok_or_else(|| {
        Problem::field("id", "must be 1 to 63 of a-z, 0-9, - and _, beginning with a letter or a digit")
    })?;
    let exists = || Problem::new(Code::Exists, "there is a workspace with this id");
    let known = call.app.read(|store| store.workspaces()).await?;
    if id.0 == WorkspaceId::DEFAULT || known.iter().any(|row| row.id == id) {
        return Err(exists());
    }
    let row = WorkspaceRow { id, created_at: call.now() };
    super::done(call.app.write(Work::PutWorkspace(row.clone())).await?, exists)?;
    ok(view::workspace(&row))
}
