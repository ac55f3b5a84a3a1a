//! `/api/environment`: texts that workflows read as `${workflow.env.NAME}`. What is set here counts from the next task on,
//! and before what the operator gave to the process.

use super::tags::{self, Kind};
use super::{documents, done, text};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::json;
use crate::problem::Problem;
use semel_store::ENVIRONMENT;
use serde_json::{Value as Json, json};

/// Longest text of a variable, in bytes.
const BYTES_MAX: usize = 64 << 10;

fn unknown(name: &str) -> Problem {
    Problem::new(Code::KvUnknown, format!("Environment variable {name} not found"))
}

pub async fn check(call: &Call, name: &str) -> Result<(), Problem> {
    documents::find(call, ENVIRONMENT, name).await?.map(|_| ()).ok_or_else(|| unknown(name))
}

pub async fn list(call: Call) -> Answer {
    let mut found: Vec<Json> = Vec::new();
    for row in documents::all(&call, ENVIRONMENT, "").await? {
        let tags = tags::of_thing(&call, Kind::Variable, &row.key).await?;
        found.push(json!({"name": row.key, "value": row.value, "tags": tags}));
    }
    ok(found)
}

pub async fn get(call: Call) -> Answer {
    let name = call.param("name")?;
    let row = documents::find(&call, ENVIRONMENT, name).await?.ok_or_else(|| unknown(name))?;
    text(row.value.as_str().unwrap_or_default())
}

pub async fn put(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !(1..=255).contains(&name.len()) || !name.chars().all(fits) {
        let detail = format!("`{name}` is not the name of a variable: use 1 to 255 of A-Z a-z 0-9 _ -");
        return Err(Problem::new(Code::BodyInvalid, detail));
    }
    let value = json::utf8(&call.body)?;
    if value.len() > BYTES_MAX {
        return Err(Problem::new(Code::BodyTooLarge, format!("a variable has at most {BYTES_MAX} bytes")));
    }
    documents::put(&call, ENVIRONMENT, name, value.into()).await?;
    done()
}

pub async fn delete(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    tags::forget(&call, Kind::Variable, &name).await?;
    match documents::delete(&call, ENVIRONMENT, &name).await? {
        true => done(),
        false => Err(unknown(&name)),
    }
}
