//! `/api/secrets`: Semel's own secrets under Conductor's names for what can be done with them.
//!
//! A value is given to admins only. What the operator gave to the process in its environment has a name here, and its
//! value is not given to anybody.

use super::tags::{self, Kind};
use super::{body, done, text};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_engine::SecretValue;
use semel_store::{Done, Work};
use serde_json::{Value as Json, json};

fn unknown(name: &str) -> Problem {
    Problem::new(Code::SecretUnknown, format!("Secret with key {name} not found"))
}

fn names(call: &Call) -> Result<Vec<String>, Problem> {
    Ok(call.app.engine().secret_names(&call.workspace()?)?)
}

/// Refuses a name that no secret has.
pub fn check(call: &Call, name: &str) -> Result<(), Problem> {
    match names(call)?.iter().any(|known| known == name) {
        true => Ok(()),
        false => Err(unknown(name)),
    }
}

pub async fn list(call: Call) -> Answer {
    ok(names(&call)?)
}

/// With their tags.
pub async fn list_with_tags(call: Call) -> Answer {
    let mut found: Vec<Json> = Vec::new();
    for name in names(&call)? {
        let tags = tags::of_thing(&call, Kind::Secret, &name).await?;
        found.push(json!({"name": name, "tags": tags}));
    }
    ok(found)
}

pub async fn put(call: Call) -> Answer {
    let (name, value) = (call.param("name")?.to_owned(), body::text(&call)?);
    if value.is_empty() {
        return Err(Problem::new(Code::BodyInvalid, "the body is the value of the secret, and it is empty"));
    }
    call.app.put_secret(call.workspace()?, name, value).await?;
    done()
}

pub async fn get(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    match call.app.engine().secret_value(&call.workspace()?, &name)? {
        SecretValue::Known(value) => text(value),
        SecretValue::Missing => Err(unknown(&name)),
        SecretValue::Withheld => {
            let detail = format!(
                "`{name}` comes from the environment of the server, and its value is not given; tasks can use it as ${{workflow.secrets.{name}}}"
            );
            Err(Problem::new(Code::Forbidden, detail))
        }
    }
}

pub async fn exists(call: Call) -> Answer {
    let name = call.param("name")?;
    ok(names(&call)?.iter().any(|known| known == name))
}

pub async fn delete(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    tags::forget(&call, Kind::Secret, &name).await?;
    let work = Work::RetireSecret { workspace: call.workspace()?, name: name.clone() };
    match call.app.write(work).await? {
        Done::Missing | Done::Count(0) => Err(unknown(&name)),
        _ => done(),
    }
}
