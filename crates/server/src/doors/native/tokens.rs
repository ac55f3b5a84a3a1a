//! `/v1/tokens`: who may use the API. An admin makes tokens of its own workspace; an admin of
//! `main` runs the server and makes them for every workspace.

use crate::auth::{NewToken, Role, make_token};
use crate::call::{Answer, Call, no_content, ok};
use crate::codes::Code;
use crate::problem::Problem;
use crate::view;
use semel_core::{WorkspaceId, duration};
use semel_store::{Done, Work};
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    name: String,
    role: String,
    #[serde(default)]
    workspace: Option<String>,
    #[serde(default)]
    expires_in: Option<String>,
}

pub async fn list(call: Call) -> Answer {
    let page = call.page("tokens")?;
    let workspace = chosen_workspace(&call, call.query.one("workspace")?).await?;
    let rows = call.app.read(move |store| store.tokens(&workspace)).await?;
    ok(page.answer_slice(&rows, view::token)?)
}

/// The named workspace if the caller may act there, else its own.
async fn chosen_workspace(call: &Call, named: Option<&str>) -> Result<WorkspaceId, Problem> {
    let who = call.principal()?;
    let Some(named) = named.filter(|named| *named != who.workspace.0) else { return Ok(who.workspace.clone()) };
    if !who.is_main_admin() {
        return Err(Problem::new(
            Code::Forbidden,
            "only an admin of the workspace main may do this for another workspace",
        ));
    }
    let unknown =
        || Problem::new(Code::WorkspaceUnknown, "there is no such workspace; `POST /v1/workspaces` makes one");
    let workspace = WorkspaceId::parse(named).ok_or_else(unknown)?;
    let known = call.app.read(|store| store.workspaces()).await?;
    if known.iter().any(|row| row.id == workspace) { Ok(workspace) } else { Err(unknown()) }
}

pub async fn create(call: Call) -> Answer {
    let body: Create = call.json()?;
    super::check_name("name", &body.name)?;
    let role = Role::parse(&body.role).ok_or_else(|| {
        let words = Role::ALL.map(Role::word).join(", ");
        Problem::field("role", format!("must be one of {words}"))
    })?;
    let life_ms = body
        .expires_in
        .as_deref()
        .map(duration::parse_ms)
        .transpose()
        .map_err(|error| Problem::field("expires_in", error.to_string()))?;
    let workspace = chosen_workspace(&call, body.workspace.as_deref()).await?;
    let now = call.now();
    let new = NewToken {
        workspace: workspace.clone(),
        name: body.name,
        role,
        now,
        expires_at: life_ms.map(|ms| now.plus(ms)),
    };
    let (row, text) = make_token(new, call.app.config().random);
    let answer = json!({
        "token": text,
        "id": row.id,
        "name": row.name,
        "role": role.word(),
        "workspace": workspace.0,
        "expires_at": row.expires_at.map(|at| at.to_rfc3339()),
    });
    super::done(call.app.write(Work::PutToken(Box::new(row))).await?, || Problem::internal("a new token is missing"))?;
    ok(answer)
}

pub async fn revoke(call: Call) -> Answer {
    let unknown = || Problem::new(Code::TokenUnknown, "no token has this id");
    let id = call.param("id")?.to_owned();
    let looked = id.clone();
    let row = call.app.read(move |store| store.token(&looked)).await?.ok_or_else(unknown)?;
    let who = call.principal()?;
    if row.workspace != who.workspace && !who.is_main_admin() {
        return Err(unknown());
    }
    let answer = call.app.write(Work::RevokeToken { workspace: row.workspace, id }).await;
    // Also after an error: whether it was stored may be unknown.
    call.app.tokens().forget_all();
    match super::done(answer?, unknown)? {
        Done::Count(0) => Err(unknown()),
        _ => no_content(),
    }
}
