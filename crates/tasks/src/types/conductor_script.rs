//! JavaScript of Conductor's definitions: INLINE, LAMBDA, and what a SWITCH or a DO_WHILE is decided by.
//!
//! `$` is the input. The result is the value of the last statement, or what a LAMBDA returns. A script that fails, takes
//! too long or takes too much memory fails its task for good.

use crate::effect::{EffectWork, Outcome, Performing, Request, Tools};
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, LeafMode, TaskSpec};
use semel_core::run::FAILED_FOR_GOOD;
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "conductor.SCRIPT",
    aliases: &["conductor.INLINE", "conductor.LAMBDA", "conductor.LOOP_CONDITION"],
    summary: "Evaluate JavaScript on the task's input.",
    mode: LeafMode::Effect,
    class: EffectClass::Pure,
    fields: &[],
    outputs: &["result"],
};

pub const WORK: Work =
    Work::Effect(EffectWork { class: |_| EffectClass::Pure, sends_key: |_| false, timeout_ms: |_| None, perform });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    Box::pin(async move {
        match result(tools, &request).await {
            Ok(result) => Outcome::Done { output: output(&request, result) },
            // The same script on the same input fails again.
            Err(error) => {
                let (code, message) = (FAILED_FOR_GOOD, error.message);
                Outcome::FailedClean { code, message, output: None, retryable: false }
            }
        }
    })
}

async fn result(tools: &Tools, request: &Request) -> Result<Json, TaskError> {
    let own = &request.config;
    let (script, input) = match request.type_name.as_str() {
        "conductor.SCRIPT" | "conductor.LOOP_CONDITION" => (config::required_text(own, "script")?, &own["input"]),
        word => {
            let script = config::required_text(own, "expression").map_err(|_| {
                let message =
                    "Empty 'expression' in Inline task's input parameters. A non-empty String value must be provided.";
                TaskError::config(message)
            })?;
            let script = if word == "conductor.LAMBDA" { format!("(function () {{\n{script}\n}})();") } else { script };
            (script, own)
        }
    };
    match config::text(own, "evaluatorType").as_deref() {
        None | Some("javascript" | "graaljs") => {}
        Some("value-param") => return Ok(own.get(&script).cloned().unwrap_or(Json::Null)),
        Some(other) => return Err(TaskError::config(format!("Unknown evaluator '{other}' in INLINE task."))),
    }
    let scripts = tools.javascript.as_ref().ok_or_else(|| TaskError::not_built("no JavaScript is run here"))?;
    scripts.evaluate(&script, input).await
}

fn output(request: &Request, result: Json) -> Json {
    if request.type_name != "conductor.LOOP_CONDITION" {
        return json!({ "result": result });
    }
    let holds = holds(&result);
    let stop = holds == (request.config["until"] == json!(true));
    json!({"result": result, "stop": stop})
}

/// Conductor's rule for conditions: true, or a number above nothing.
fn holds(result: &Json) -> bool {
    match result {
        Json::Bool(flag) => *flag,
        Json::Number(number) => number.as_f64().is_some_and(|number| number > 0.0),
        Json::Null | Json::String(_) | Json::Array(_) | Json::Object(_) => false,
    }
}
