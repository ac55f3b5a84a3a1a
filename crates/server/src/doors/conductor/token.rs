//! `/api/token`, `/api/version`, `/health`: what clients ask before anything else.
//!
//! A key and its secret are the two parts of a token: its id and the rest. What is given for them is the token itself,
//! which the client sends from then on.

use super::{body, text};
use crate::auth;
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::dispatch::token_principal;
use crate::problem::Problem;
use serde_json::json;

pub async fn post(call: Call) -> Answer {
    if call.app.config().dev {
        // What tells clients that no token is asked for.
        return Err(Problem::new(Code::TokenUnknown, "this server asks for no token (--dev)"));
    }
    let given = body::object(&call)?;
    let (id, secret) = (body::field(&given, "keyId")?, body::field(&given, "keySecret")?);
    let (Some(id), Some(secret)) = (id, secret) else {
        return Err(Problem::new(Code::TokenInvalid, "`keyId` and `keySecret` are the two parts of a token"));
    };
    let token = auth::joined(&id, &secret);
    let principal = token_principal(&call.app, &token).await?;
    ok(json!({"token": token, "userId": principal.name}))
}

pub async fn user(call: Call) -> Answer {
    let who = call.principal()?;
    ok(json!({"id": who.name, "name": who.name, "roles": [{"name": who.role.word()}], "groups": [],
        "uuid": who.token_id, "applicationUser": true}))
}

pub async fn version(call: Call) -> Answer {
    text(&call.app.config().version)
}

pub async fn health(call: Call) -> Answer {
    let healthy = call.app.store().health().is_ok();
    let mut response = ok(json!({"healthy": healthy, "healthResults": [], "suppressedHealthResults": []}))?;
    if !healthy {
        *response.status_mut() = axum::http::StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}
