//! `/v1/keys`: claims of event keys, and their release.

use super::decisions::{flow_filter, flow_named};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use crate::view;
use semel_core::admission::{Claim, ClaimState, KeySource, claim_hash, scope_text};
use semel_core::ir::KeyScope;
use semel_core::{FlowRef, Hash16};
use semel_store::{ClaimQuery, DecisionQuery, Work};
use serde::Deserialize;
use serde_json::json;

const STATES: [ClaimState; 7] = [
    ClaimState::Pending,
    ClaimState::Live,
    ClaimState::Held,
    ClaimState::Done,
    ClaimState::Failed,
    ClaimState::Cancelled,
    ClaimState::Erased,
];

/// Decisions shown with one key.
const DECISIONS_SHOWN: u32 = 50;

pub async fn list(call: Call) -> Answer {
    let page = call.page("keys")?;
    let parse = |word: &str| STATES.into_iter().find(|state| state.word() == word);
    let query = ClaimQuery {
        key: call.query.text("key")?,
        scope: call.query.text("scope")?,
        run: call.query.read("run_id", "a run id", |text| text.parse().ok())?,
        states: call.query.words("state", "one of pending, live, held, done, failed, cancelled, erased", parse)?,
        after: page.after_as(Hash16::from_hex)?,
        limit: page.fetch(),
    };
    let workspace = call.workspace()?;
    let rows = call.app.read(move |store| store.claims(&workspace, &query)).await?;
    ok(page.answer(rows, |row| row.hash.hex(), view::claim))
}

pub async fn show(call: Call) -> Answer {
    let key = call.query.text("key")?.ok_or_else(|| Problem::query("key", "is missing: which key?"))?;
    let flow = flow_filter(&call)?;
    let workspace = call.workspace()?;
    let rows_max = call.app.limits().page_rows_max;
    let claims = ClaimQuery { key: Some(key.clone()), limit: rows_max, ..ClaimQuery::default() };
    let decisions =
        DecisionQuery { key: Some(key), flow: flow.clone(), limit: DECISIONS_SHOWN, ..DecisionQuery::default() };
    let (mut claims, decisions) = call
        .app
        .read(move |store| Ok((store.claims(&workspace, &claims)?, store.decisions(&workspace, &decisions)?)))
        .await?;
    if let Some(flow) = flow {
        claims.retain(|claim| may_be_of(claim, &flow));
    }
    ok(json!({
        "items": claims.iter().map(view::claim).collect::<Vec<_>>(),
        "decisions": decisions.iter().map(view::decision).collect::<Vec<_>>(),
    }))
}

/// A claim of another flow is not this flow's; one of a wider scope may be.
pub fn may_be_of(claim: &Claim, flow: &FlowRef) -> bool {
    view::scope_flow(&claim.scope).is_none_or(|owner| owner == flow.to_string())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Release {
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    workflow_id: Option<String>,
    #[serde(default)]
    scope: Option<String>,
    /// Names the claim itself, where several share one key (`mismatch: split`).
    #[serde(default)]
    claim: Option<String>,
    #[serde(default)]
    why: Option<String>,
}

pub async fn release(call: Call) -> Answer {
    let body: Release = call.json()?;
    let why = body.why.as_deref().map(str::trim).filter(|why| !why.is_empty());
    let why =
        why.ok_or_else(|| Problem::field("why", "is missing: a released key lets an event run again, so say why"))?;
    let by = call.by(Some(why))?;
    let workspace = call.workspace()?;
    let hash = named_claim(&call, &body)?;
    let unknown = || {
        Problem::new(Code::KeyUnknown, "no claim is known for this key there; `GET /v1/keys?key=…` lists its scopes")
    };
    let owner = workspace.clone();
    let claim = call.app.read(move |store| store.claim(&owner, hash)).await?.ok_or_else(unknown)?;
    super::done(call.app.write(Work::ReleaseKey { workspace, hash, by }).await?, unknown)?;
    ok(
        json!({"released": true, "key": claim.key, "scope": claim.scope, "claim": hash.hex(), "run_id": claim.run.to_string()}),
    )
}

fn named_claim(call: &Call, body: &Release) -> Result<Hash16, Problem> {
    if let Some(hex) = &body.claim {
        return Hash16::from_hex(hex).ok_or_else(|| Problem::field("claim", "must be 32 hex digits"));
    }
    let Some(key) = &body.key else { return Err(Problem::field("key", "is missing: which key?")) };
    let scope = match (&body.scope, &body.workflow_id) {
        (Some(scope), _) => scope.clone(),
        (None, Some(name)) => flow_scope(call, name)?,
        (None, None) => {
            return Err(Problem::field("workflow_id", "is missing: name the workflow or the scope of the key"));
        }
    };
    Ok(claim_hash(&call.workspace()?, &scope, key))
}

/// The scope in which the flow's keys are unique now.
fn flow_scope(call: &Call, name: &str) -> Result<String, Problem> {
    let flow = flow_named(call, name)?;
    let loaded = call.app.engine().flow(&call.workspace()?, &flow).ok();
    let scope = loaded.and_then(|loaded| loaded.index.flow.idempotency.as_ref().map(|block| block.scope.clone()));
    Ok(scope_text(&scope.unwrap_or(KeyScope::Flow), &flow, KeySource::Caller))
}
