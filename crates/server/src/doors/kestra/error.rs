//! Refusals as Kestra words them: `{"message", "_links", "_embedded"}`, with our own stable code beside them.

use crate::codes::Code;
use crate::problem::Problem;
use axum::http::{StatusCode, Uri};
use axum::response::Response;
use serde_json::{Value as Json, json};

/// Status and first words by code; where this door has no word of its own, by status.
fn reason(code: Code) -> (StatusCode, &'static str) {
    let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
    match code {
        Code::FilterInvalid => (StatusCode::BAD_REQUEST, "Invalid query filters"),
        // The one refusal that has no first words there.
        Code::BulkInvalid => (StatusCode::BAD_REQUEST, ""),
        Code::QueryInvalid => (unprocessable, "Illegal argument"),
        Code::BodyNotJson | Code::BodyNotUtf8 | Code::JsonTooDeep | Code::JsonDuplicateKey => {
            (unprocessable, "Invalid json")
        }
        Code::BodyInvalid | Code::InputInvalid | Code::FlowInvalid => (unprocessable, "Invalid entity"),
        _ => (code.status(), by_status(code.status())),
    }
}

fn by_status(status: StatusCode) -> &'static str {
    match status.as_u16() {
        404 => "Not Found",
        409 => "Illegal state",
        410 => "Resource has expired",
        422 => "Illegal argument",
        500 => "Internal server error",
        _ => status.canonical_reason().unwrap_or("Refused"),
    }
}

/// What others call a run is an execution here, and its list has another address.
fn worded(mut problem: Problem) -> Problem {
    if problem.code == Code::RunUnknown {
        "no execution with this id in this tenant".clone_into(&mut problem.detail);
    }
    problem
}

/// The answer to a request at `uri`.
pub fn response(problem: Problem, uri: &Uri) -> Response {
    let problem = worded(problem);
    let (status, words) = reason(problem.code);
    let href = uri.path_and_query().map_or("/", |target| target.as_str());
    let detail = of_inputs(&problem).unwrap_or_else(|| problem.detail.clone());
    let mut body = json!({
        "message": if words.is_empty() { detail } else { format!("{words}: {detail}") },
        "_links": {"self": [{"href": href, "templated": false}]},
        "_embedded": {"errors": errors(&problem)},
        "code": problem.code.word(),
    });
    for (name, value) in &problem.more.extra {
        body[name] = value.clone();
    }
    problem.respond(status, "application/json", body.to_string())
}

/// What is wrong with inputs, each named with its reason. A value that was sent is not repeated: it may be a secret.
fn of_inputs(problem: &Problem) -> Option<String> {
    if problem.code != Code::InputInvalid {
        return None;
    }
    let one = |error: &Json| Some(format!("{}: {}", error["field"].as_str()?, of_input(error)?));
    let all: Vec<String> = problem.more.errors.iter().map(one).collect::<Option<_>>()?;
    (!all.is_empty()).then(|| all.join(", "))
}

fn of_input(error: &Json) -> Option<String> {
    let (field, why) = (error["field"].as_str()?, error["message"].as_str()?);
    match why.starts_with("missing required input") {
        true => Some(format!("Invalid input for `{field}`, missing required input, but received `null`")),
        false => Some(format!("Invalid input for `{field}`, {why}")),
    }
}

fn errors(problem: &Problem) -> Vec<Json> {
    if problem.more.errors.is_empty() {
        return vec![json!({"message": problem.detail})];
    }
    let one = |error: &Json| {
        let worded = (problem.code == Code::InputInvalid).then(|| of_input(error)).flatten();
        let message = worded.map_or_else(|| error["message"].clone(), Json::String);
        match error.get("field").or_else(|| error.get("path")) {
            Some(path) => json!({"message": message, "path": path}),
            None => json!({"message": message}),
        }
    };
    problem.more.errors.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_engine::{AdmitError, FieldError};

    async fn shown(problem: Problem, uri: &'static str) -> (u16, String) {
        let response = response(problem, &Uri::from_static(uri));
        let status = response.status().as_u16();
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_refusal_has_kestra_s_shape() {
        let (status, text) = shown(Problem::run_unknown(), "/api/v1/main/executions/x?y=1").await;
        assert_eq!(status, 404);
        let body: Json = serde_json::from_str(&text).unwrap();
        assert_eq!(body["message"], "Not Found: no execution with this id in this tenant", "{text}");
        assert_eq!(body["_links"], json!({"self": [{"href": "/api/v1/main/executions/x?y=1", "templated": false}]}));
        assert_eq!(body["_embedded"]["errors"].as_array().unwrap().len(), 1);
        assert!(text.contains("\"templated\":false"), "compact: {text}");
    }

    #[tokio::test]
    async fn statuses_and_first_words_are_those_of_the_contract() {
        for (problem, status, start) in [
            (Problem::new(Code::FlowDisabled, "Requested Flow is disabled."), 409, "Illegal state: Requested"),
            (Problem::new(Code::IllegalArgument, "x"), 422, "Illegal argument: x"),
            (Problem::query("page", "must be 1 or more"), 422, "Illegal argument: "),
            (Problem::new(Code::FilterInvalid, "x"), 400, "Invalid query filters: x"),
            (Problem::new(Code::BulkInvalid, "invalid bulk kill"), 400, "invalid bulk kill"),
            (Problem::field("amount", "is missing"), 422, "Invalid entity: "),
            (Problem::new(Code::Expired, "x"), 410, "Resource has expired: x"),
            (Problem::new(Code::Internal, "x"), 500, "Internal server error: x"),
        ] {
            let (found, text) = shown(problem, "/api/v1/main/x").await;
            let body: Json = serde_json::from_str(&text).unwrap();
            assert_eq!(found, status, "{text}");
            assert!(body["message"].as_str().unwrap().starts_with(start), "{text}");
        }
        let (_, text) = shown(Problem::field("amount", "is missing"), "/api/v1/main/x").await;
        assert!(text.contains(r#"{"message":"is missing","path":"amount"}"#), "{text}");
    }

    #[tokio::test]
    async fn inputs_are_named_with_what_is_wrong_with_them() {
        let fields = [("a", "missing required input of type STRING"), ("b", "must be a whole number")];
        let fields = fields.map(|(field, why)| FieldError { field: field.into(), message: why.into() });
        let (status, text) = shown(Problem::from(AdmitError::Inputs(fields.into())), "/api/v1/main/x").await;
        let body: Json = serde_json::from_str(&text).unwrap();
        let first = "Invalid input for `a`, missing required input, but received `null`";
        let second = "Invalid input for `b`, must be a whole number";
        assert_eq!(status, 422);
        assert_eq!(body["message"], format!("Invalid entity: a: {first}, b: {second}"));
        let errors = json!([{"message": first, "path": "a"}, {"message": second, "path": "b"}]);
        assert_eq!(body["_embedded"]["errors"], errors);
    }
}
