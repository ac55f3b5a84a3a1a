//! `http.Request`: one HTTP request, sent once.
//!
//! Status 400 and above fails the step, unless `allowFailed` is set or the status is one of
//! `done_statuses` ("already processed" is a success). A redirect is followed by a read only: a write is
//! sent once, and a second one that nobody recorded must not happen.

use super::http::{self, Judge, METHODS, OPTIONS};
use super::{field, required};
use crate::effect::{EffectWork, Outcome, Performing, Request, Tools};
use crate::net::{Answer, CallError};
use crate::registry::Work;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "http.Request",
    aliases: &["io.kestra.plugin.fs.http.Request", "io.kestra.core.tasks.http.Request"],
    summary: "Send one HTTP request.",
    mode: LeafMode::Effect,
    class: EffectClass::Naked,
    fields: &[
        required("uri", FieldKind::Text, "Where to, http or https."),
        field("method", FieldKind::Choice(METHODS), "GET by default."),
        field("body", FieldKind::Any, "Text is sent as it is, anything else as JSON."),
        field(
            "formData",
            FieldKind::Any,
            "Sent as a form, instead of `body`; with `contentType: multipart/form-data` values may be addresses of files.",
        ),
        field("contentType", FieldKind::Text, "Content-Type of the body; application/json by default."),
        field("headers", FieldKind::TextMap, "Headers to send."),
        field("options", FieldKind::Object(OPTIONS), "Credentials, time and tolerance."),
        field("allowFailed", FieldKind::Bool, "Old place of options.allowFailed."),
        field("auth", FieldKind::Object(http::AUTH), "Another place of options.auth."),
        field("sslOptions", FieldKind::Object(http::SSL), "Old place of options.ssl."),
        field("done_statuses", FieldKind::Any, "Statuses that mean the work was already done, for example [409]."),
    ],
    outputs: &["uri", "code", "headers", "body"],
};

pub const WORK: Work =
    Work::Effect(EffectWork { class: http::class, sends_key: http::sends_key, timeout_ms: http::timeout_ms, perform });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    Box::pin(async move {
        let plan = match http::plan(tools, &request).await {
            Ok(plan) => plan,
            Err(error) => return error.into(),
        };
        let judge = plan.judge();
        match tools.net.call(plan.call).await {
            Ok(answer) => judged(answer, &judge),
            Err(CallError::Clean { code, message, retryable, answer }) => {
                Outcome::FailedClean { code, message, output: answer.map(|answer| output(&answer)), retryable }
            }
            Err(lost) => lost.into(),
        }
    })
}

fn judged(answer: Answer, judge: &Judge) -> Outcome {
    let code = answer.status.as_u16();
    let output = output(&answer);
    if judge.takes(code) {
        return Outcome::Done { output };
    }
    Outcome::FailedClean {
        code: "http_status",
        message: format!("the far side answered {code}"),
        output: Some(output),
        retryable: http::may_pass(code),
    }
}

fn output(answer: &Answer) -> Json {
    json!({
        "uri": answer.url.as_str(),
        "code": answer.status.as_u16(),
        "headers": http::header_lists(answer),
        "body": String::from_utf8_lossy(&answer.body),
    })
}
