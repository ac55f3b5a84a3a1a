//! `POST /executions/{namespace}/{id}/validate` and `/executions/{id}/resume/validate`: what creating or resuming would
//! say of each input, without doing it.

use super::create;
use crate::call::{Answer, Call, ok};
use crate::doors::form::{self, Names};
use crate::doors::kestra::execution;
use crate::problem::Problem;
use semel_engine::{AdmitError, CheckedInput, FailedCheck, Occurrence};
use serde_json::{Value as Json, json};

pub async fn post(call: Call) -> Answer {
    let flow = create::find_flow(&call)?;
    let mut files = Names::default();
    let inputs = Json::Object(create::inputs(&form::read(&call, &mut files).await?, &flow));
    let mut checked = call.app.engine().check_inputs(&call.workspace()?, &flow, &inputs).await;
    with_files(&mut checked, &files);
    let checks = if flow.index.flow.checks.is_empty() {
        Vec::new()
    } else {
        let occurrence = Occurrence { inputs, ..create::occurrence(&call, flow.clone())? };
        match call.app.engine().failed_checks(&occurrence) {
            Ok(failed) => failed.iter().map(check).collect(),
            // Nobody can judge what is wrong already.
            Err(AdmitError::Inputs(_)) => Vec::new(),
            Err(error) => return Err(error.into()),
        }
    };
    let (id, namespace) = (&flow.flow_ref.id, &flow.flow_ref.namespace);
    ok(json!({"id": id, "namespace": namespace, "inputs": inputs_shown(checked), "checks": checks}))
}

fn check(failed: &FailedCheck) -> Json {
    json!({"message": failed.message, "style": failed.style, "behavior": failed.behavior})
}

/// What resuming would say, of the step at which the execution stands still first.
pub async fn resume(call: Call) -> Answer {
    let (workspace, id) = (call.workspace()?, call.run_id()?);
    let whole = execution::find(&call.app, &workspace, id).await?;
    let mut files = Names::default();
    let given = Json::Object(form::read(&call, &mut files).await?.inputs());
    let engine = call.app.engine().clone();
    let checked = tokio::task::spawn_blocking(move || engine.check_resume_inputs(&workspace, id, &given)).await;
    let mut checked = checked.map_err(|_| Problem::internal("a look at inputs panicked"))??;
    with_files(&mut checked, &files);
    let flow = &whole.run.0.flow;
    ok(json!({"id": flow.id, "namespace": flow.namespace, "inputs": inputs_shown(checked), "checks": []}))
}

/// A file that would be taken in has no address yet; its name stands for it.
fn with_files(checked: &mut [CheckedInput], files: &Names) {
    for input in checked.iter_mut().filter(|input| input.kind == "FILE") {
        if let Some((_, name)) = files.0.iter().find(|(field, name)| *field == input.id || *name == input.id) {
            (input.value, input.errors) = (Some(name.as_str().into()), Vec::new());
        }
    }
}

fn inputs_shown(checked: Vec<CheckedInput>) -> Vec<Json> {
    checked
        .into_iter()
        .map(|input| {
            let errors: Vec<Json> = input.errors.iter().map(|message| json!({"message": message})).collect();
            let mut out = json!({
                "input": {"id": input.id, "type": input.kind, "required": input.required},
                "enabled": input.enabled,
                "isDefault": input.is_default,
            });
            if let Some(values) = input.values {
                out["input"]["values"] = values.into();
            }
            if let Some(value) = input.value {
                out["value"] = value;
            }
            if !errors.is_empty() {
                out["errors"] = errors.into();
            }
            out
        })
        .collect()
}
