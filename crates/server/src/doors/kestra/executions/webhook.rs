//! `GET|POST|PUT /executions/webhook/{namespace}/{flow}/{key}`, with a last part or without: the webhook door under
//! Kestra's address.

use super::create::run_of;
use crate::call::{Answer, Call, no_content, ok};
use crate::codes::Code;
use crate::doors::answer::{Bare, bare_outputs};
use crate::doors::kestra::execution;
use crate::doors::webhook;
use crate::problem::Problem;
use semel_core::WorkspaceId;
use semel_engine::public_json;
use serde_json::{Map, Value as Json};
use std::time::Duration;

/// What the answer has of the execution.
const SHOWN: &[&str] =
    &["id", "namespace", "flowId", "flowRevision", "trigger", "outputs", "labels", "state", "parentId", "originalId"];

pub async fn receive(call: Call) -> Answer {
    let unknown = || Problem::new(Code::WebhookUnknown, "Webhook not found");
    let workspace = WorkspaceId::parse(call.param("tenant")?).ok_or_else(unknown)?;
    // Which of flow and key is not there is nobody's business who has no key.
    let known = |problem: Problem| if problem.code == Code::WebhookUnknown { unknown() } else { problem };
    let delivered = webhook::deliver(&call, &workspace).await.map_err(known)?;
    let Some((webhook, result)) = delivered else { return no_content() };
    let (id, replayed) = run_of(result)?;
    if webhook.wait {
        call.app.wait_ended(&workspace, id, Duration::from_secs(3_600)).await?;
    }
    let whole = execution::find(&call.app, &workspace, id).await?;
    let (row, values, _) = &whole.run;
    if webhook.wait && webhook.return_outputs && row.status.is_ended() {
        let outputs = values.outputs.as_ref().map_or_else(|| Json::Object(Map::new()), public_json);
        return bare_outputs(
            Bare { code: webhook.response_code.unwrap_or(200), kind: webhook.response_type },
            &outputs,
        );
    }
    let mut shown = execution::shown(&whole, true, call.now());
    if !webhook.wait && !replayed {
        execution::as_created(&mut shown, &whole);
    }
    let mut out = Map::new();
    out.insert("tenantId".to_owned(), workspace.0.as_str().into());
    // Who sends an event again is not shown what the first one carried: it may have been another.
    for name in SHOWN.iter().filter(|name| !(replayed && **name == "trigger")) {
        if let Some(value) = shown.get_mut(*name) {
            out.insert((*name).to_owned(), value.take());
        }
    }
    out.insert("url".to_owned(), execution::url(None, row).into());
    ok(out)
}
