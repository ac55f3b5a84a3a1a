//! `/v1/secrets`: values go in and never come back.

use crate::call::{Answer, Call, no_content, ok};
use crate::codes::Code;
use crate::problem::Problem;
use crate::view;
use semel_store::{Done, Work};
use serde::Deserialize;
use serde_json::json;

/// No `Debug`: the value must not be printable by accident.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Put {
    value: String,
}

pub async fn list(call: Call) -> Answer {
    let page = call.page("secrets")?;
    let workspace = call.workspace()?;
    let rows = call.app.read(move |store| store.secrets(&workspace)).await?;
    ok(page.answer_slice(&rows, view::secret)?)
}

pub async fn put(call: Call) -> Answer {
    // What the parser says about a wrong type may quote the value.
    let body: Put = call.json().map_err(|mut problem| {
        if problem.code == Code::BodyInvalid {
            problem.detail = "the body must be {\"value\": \"text\"}".to_owned();
        }
        problem
    })?;
    let name = call.param("name")?.to_owned();
    let version = call.app.put_secret(call.workspace()?, name.clone(), body.value).await?;
    ok(json!({"name": name, "version": version}))
}

pub async fn delete(call: Call) -> Answer {
    let unknown = || Problem::new(Code::SecretUnknown, "no secret has this name");
    let work = Work::RetireSecret { workspace: call.workspace()?, name: call.param("name")?.to_owned() };
    match super::done(call.app.write(work).await?, unknown)? {
        Done::Count(0) => Err(unknown()),
        _ => no_content(),
    }
}
