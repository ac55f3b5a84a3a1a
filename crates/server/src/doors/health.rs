//! Is it alive, may it be used, how is it doing.

use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::metrics;
use crate::problem::Problem;
use axum::body::Body;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use serde_json::json;

pub async fn live(_call: Call) -> Answer {
    ok(json!({"status": "ok"}))
}

pub async fn ready(call: Call) -> Answer {
    if !call.app.engine().is_ready() {
        return Err(
            Problem::new(Code::NotReady, "the server is still reading the runs it must go on with").retry_after(1)
        );
    }
    if call.app.engine().health().is_err() {
        return Err(Problem::new(Code::NotReady, "the store does not take writes; the log says why").retry_after(5));
    }
    if call.app.stopping().is_cancelled() {
        return Err(Problem::new(Code::NotReady, "the server is shutting down").retry_after(5));
    }
    ok(json!({"status": "ok"}))
}

pub async fn metrics(call: Call) -> Answer {
    let mut response = Response::new(Body::from(call.app.metrics().text(call.app.store().tally())));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(metrics::CONTENT_TYPE));
    Ok(response)
}
