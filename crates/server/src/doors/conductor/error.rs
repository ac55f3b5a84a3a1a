//! Refusals as Conductor words them: `{"status", "message", "instance", "retryable"}`, with our own stable code beside
//! them.

use crate::codes::Code;
use crate::problem::Problem;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Value as Json, json};

/// The status of this door where it differs from that of the code.
fn status(code: Code) -> StatusCode {
    match code {
        // A definition or an input that breaks a rule is an illegal argument there.
        Code::FlowInvalid | Code::InputInvalid | Code::IllegalArgument | Code::ExpressionFailed => {
            StatusCode::BAD_REQUEST
        }
        Code::KeyConflict | Code::KeyUnresolved | Code::SecretNameInvalid => StatusCode::BAD_REQUEST,
        // Clients know an illegal state by this.
        Code::IllegalState => StatusCode::INTERNAL_SERVER_ERROR,
        other => other.status(),
    }
}

/// What a client makes of a refused token: it gets another one, once.
fn token_error(code: Code) -> Option<&'static str> {
    match code {
        Code::TokenExpired => Some("EXPIRED_TOKEN"),
        Code::TokenInvalid | Code::TokenMissing => Some("INVALID_TOKEN"),
        _ => None,
    }
}

fn is_retryable(code: Code) -> bool {
    matches!(code, Code::StoreBusy | Code::StoreClosed | Code::Conflict | Code::TooManyPending | Code::StoreFull)
}

pub fn response(problem: Problem) -> Response {
    let status = status(problem.code);
    let mut body = json!({
        "status": status.as_u16(),
        "message": problem.detail,
        "instance": "semel",
        "retryable": is_retryable(problem.code),
        "code": problem.code.word(),
    });
    if let Some(word) = token_error(problem.code) {
        body["error"] = word.into();
    }
    if let Some(run) = problem.more.run_id {
        body["metadata"] = json!({"workflowId": run.to_string()});
    }
    let errors: Vec<Json> = problem.more.errors.iter().map(violation).collect();
    if !errors.is_empty() {
        body["validationErrors"] = errors.into();
    }
    problem.respond(status, "application/json", body.to_string())
}

fn violation(error: &Json) -> Json {
    let path = error.get("path").or_else(|| error.get("field")).cloned().unwrap_or_default();
    let invalid = error.get("invalidValue").cloned().unwrap_or_default();
    json!({"path": path, "message": error["message"], "invalidValue": invalid})
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn shown(problem: Problem) -> (u16, Json) {
        let response = response(problem);
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_refusal_has_conductor_s_shape() {
        let (status, body) = shown(Problem::field("name", "is missing")).await;
        assert_eq!((status, &body["status"], &body["retryable"]), (400, &json!(400), &json!(false)));
        assert_eq!(body["validationErrors"], json!([{"path": "name", "message": "is missing", "invalidValue": null}]));
        let (status, body) = shown(Problem::new(Code::TokenExpired, "x")).await;
        assert_eq!((status, &body["error"]), (401, &json!("EXPIRED_TOKEN")));
        let (status, body) = shown(Problem::new(Code::StoreBusy, "x")).await;
        assert_eq!((status, &body["retryable"]), (503, &json!(true)));
        assert_eq!(shown(Problem::new(Code::FlowInvalid, "x")).await.0, 400);
    }
}
