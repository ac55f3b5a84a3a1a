//! `POST /executions/{namespace}/{id}/validate`: what creating would say of each input, without creating.

use super::create;
use crate::call::{Answer, Call, ok};
use crate::doors::kestra::form;
use serde_json::{Value as Json, json};

pub async fn post(call: Call) -> Answer {
    let flow = create::find_flow(&call)?;
    let inputs = Json::Object(create::inputs(&form::read(&call).await?, &flow));
    let checked = call.app.engine().check_inputs(&call.workspace()?, &flow, &inputs);
    let shown: Vec<Json> = checked
        .into_iter()
        .map(|input| {
            let errors: Vec<Json> = input.errors.iter().map(|message| json!({"message": message})).collect();
            let mut out = json!({
                "input": {"id": input.id, "type": input.kind, "required": input.required},
                "enabled": true,
                "isDefault": input.is_default,
            });
            if let Some(value) = input.value {
                out["value"] = value;
            }
            if !errors.is_empty() {
                out["errors"] = errors.into();
            }
            out
        })
        .collect();
    ok(json!({"id": flow.flow_ref.id, "namespace": flow.flow_ref.namespace, "inputs": shown, "checks": []}))
}
