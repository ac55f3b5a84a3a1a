//! Tags of Conductor's things: `{"key", "value", "type"}`, each one there or not.
//!
//! One tag does something: of type `RATE_LIMIT`, its value is how many runs of the workflow go on at once. The others are
//! kept and shown.

use super::{body, documents, done, events, human_templates, metadata, schedules, task_defs, webhooks};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::problem::Problem;
use semel_engine::RATE_LIMIT;
use semel_store::{TAGS, tag_key};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;

/// Longest name or value.
const CHARS_MAX: usize = 500;
/// Tags of one thing.
const TAGS_MAX: usize = 200;

/// What has tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Workflow,
    Task,
    Schedule,
    Secret,
    Variable,
    Webhook,
    Event,
    Template,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Workflow => "workflow",
            Kind::Task => "task",
            Kind::Schedule => "schedule",
            Kind::Secret => "secret",
            Kind::Variable => "variable",
            Kind::Webhook => "webhook",
            Kind::Event => "event",
            Kind::Template => "template",
        }
    }

    /// Refuses what is not there, in the words of its own address.
    async fn check(self, call: &Call, name: &str) -> Result<(), Problem> {
        match self {
            Kind::Workflow => metadata::find(call, name, None).map(|_| ()),
            Kind::Task => task_defs::check(call, name).await,
            Kind::Schedule => schedules::check(call, name),
            Kind::Secret => super::secrets::check(call, name),
            Kind::Variable => super::environment::check(call, name).await,
            Kind::Webhook => webhooks::check(call, name).await,
            Kind::Event => events::check(call, name).await,
            Kind::Template => human_templates::check(call, name).await,
        }
    }
}

/// The handlers of one kind of thing.
macro_rules! of {
    ($module:ident, $kind:expr) => {
        pub mod $module {
            use super::{Kind, put_all, remove_all, show};
            use crate::call::{Answer, Call};

            const KIND: Kind = $kind;

            pub async fn get(call: Call) -> Answer {
                show(call, KIND).await
            }

            pub async fn put(call: Call) -> Answer {
                put_all(call, KIND).await
            }

            pub async fn remove(call: Call) -> Answer {
                remove_all(call, KIND).await
            }
        }
    };
}

of!(workflow, Kind::Workflow);
of!(task, Kind::Task);
of!(schedule, Kind::Schedule);
of!(secret, Kind::Secret);
of!(variable, Kind::Variable);
of!(webhook, Kind::Webhook);
of!(event, Kind::Event);
of!(template, Kind::Template);

pub async fn add_to_workflow(call: Call) -> Answer {
    add_all(call, Kind::Workflow).await
}

pub async fn add_to_task(call: Call) -> Answer {
    add_all(call, Kind::Task).await
}

/// A tag as it is kept, under what tells it from others.
fn read(given: Json) -> Result<(String, Json), Problem> {
    let Json::Object(fields) = given else { return Err(Problem::new(Code::BodyInvalid, "a tag is an object")) };
    let key = body::field(&fields, "key")?.filter(|key| !key.is_empty());
    let key = key.ok_or_else(|| Problem::field("key", "the key of a tag cannot be null or empty"))?;
    let kind = body::field(&fields, "type")?.filter(|kind| !kind.is_empty()).unwrap_or_else(|| "METADATA".to_owned());
    let value = fields.get("value").cloned().unwrap_or_default();
    if value.is_object() || value.is_array() {
        return Err(Problem::field("value", "the value of a tag is a text or a number"));
    }
    let shown = match &value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    if [&key, &kind, &shown].iter().any(|text| text.chars().count() > CHARS_MAX) {
        return Err(Problem::field("key", format!("a tag has at most {CHARS_MAX} characters in each of its parts")));
    }
    if kind == RATE_LIMIT && shown.trim().parse::<u32>().is_err() {
        return Err(Problem::field("value", "the value of a RATE_LIMIT tag is how many runs may go on at once"));
    }
    let identity = json!([kind, key, shown]).to_string();
    Ok((identity, json!({"key": key, "type": kind, "value": value})))
}

fn given(call: &Call) -> Result<Vec<(String, Json)>, Problem> {
    let tags: Vec<_> = body::one_or_more(call)?.into_iter().map(read).collect::<Result<_, _>>()?;
    match tags.len() <= TAGS_MAX {
        true => Ok(tags),
        false => Err(Problem::new(Code::BodyInvalid, format!("one thing has at most {TAGS_MAX} tags"))),
    }
}

/// The tags of a thing, in order of type and key.
pub async fn of_thing(call: &Call, kind: Kind, name: &str) -> Result<Vec<Json>, Problem> {
    let rows = documents::all(call, TAGS, &tag_key(kind.word(), name, "")).await?;
    Ok(rows.into_iter().map(|row| row.value).collect())
}

/// Forgets the tags of a thing that is about to go.
pub async fn forget(call: &Call, kind: Kind, name: &str) -> Result<(), Problem> {
    for row in documents::all(call, TAGS, &tag_key(kind.word(), name, "")).await? {
        documents::delete(call, TAGS, &row.key).await?;
    }
    Ok(())
}

/// Writes tags as they come with the thing itself.
pub async fn put(call: &Call, kind: Kind, name: &str, tags: &[Json]) -> Result<(), Problem> {
    let tags: Vec<_> = tags.iter().cloned().map(read).collect::<Result<_, _>>()?;
    write(call, kind, name, tags).await
}

async fn write(call: &Call, kind: Kind, name: &str, tags: Vec<(String, Json)>) -> Result<(), Problem> {
    for (identity, tag) in tags {
        documents::put(call, TAGS, tag_key(kind.word(), name, &identity), tag).await?;
    }
    reread(call, kind, name)
}

/// What a tag changes about a workflow counts from the next start on.
fn reread(call: &Call, kind: Kind, name: &str) -> Result<(), Problem> {
    match kind {
        Kind::Workflow => Ok(call.app.engine().reread_workflow(&call.workspace()?, name)?),
        _ => Ok(()),
    }
}

async fn show(call: Call, kind: Kind) -> Answer {
    let name = call.param("name")?.to_owned();
    kind.check(&call, &name).await?;
    ok(of_thing(&call, kind, &name).await?)
}

async fn add_all(call: Call, kind: Kind) -> Answer {
    let (name, tags) = (call.param("name")?.to_owned(), given(&call)?);
    kind.check(&call, &name).await?;
    write(&call, kind, &name, tags).await?;
    done()
}

/// Where tags can be added one by one, those that are put are all there are; else they are added.
async fn put_all(call: Call, kind: Kind) -> Answer {
    if !matches!(kind, Kind::Workflow | Kind::Task) {
        return add_all(call, kind).await;
    }
    let (name, tags) = (call.param("name")?.to_owned(), given(&call)?);
    kind.check(&call, &name).await?;
    let kept: BTreeSet<String> = tags.iter().map(|(identity, _)| tag_key(kind.word(), &name, identity)).collect();
    for row in documents::all(&call, TAGS, &tag_key(kind.word(), &name, "")).await? {
        if !kept.contains(&row.key) {
            documents::delete(&call, TAGS, &row.key).await?;
        }
    }
    write(&call, kind, &name, tags).await?;
    done()
}

async fn remove_all(call: Call, kind: Kind) -> Answer {
    let name = call.param("name")?.to_owned();
    kind.check(&call, &name).await?;
    for (identity, _) in given(&call)? {
        documents::delete(&call, TAGS, &tag_key(kind.word(), &name, &identity)).await?;
    }
    reread(&call, kind, &name)?;
    done()
}

/// `GET /metadata/workflow/{name}/rate-limit`: what its tag says, in the words of a definition.
pub async fn rate_limit(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    Kind::Workflow.check(&call, &name).await?;
    match limits(&call, &name).await?.first() {
        Some((_, tag)) => ok(json!({"concurrentExecLimit": number(&tag["value"]), "rateLimitKey": tag["key"]})),
        None => Err(Problem::new(Code::DefinitionUnknown, format!("No rate limit is set for workflow {name}"))),
    }
}

/// One limit takes the place of the others. All runs of the name share it: its key is a label.
pub async fn put_rate_limit(call: Call) -> Answer {
    let (name, fields) = (call.param("name")?.to_owned(), body::object(&call)?);
    Kind::Workflow.check(&call, &name).await?;
    let given = match body::whole(&fields, "concurrentExecLimit")? {
        Some(limit) => Some(limit),
        None => body::whole(&fields, "concurrentExecutionLimit")?,
    };
    let Some(limit) = given.filter(|limit| *limit > 0) else {
        return Err(Problem::field("concurrentExecLimit", "concurrentExecLimit must be 1 or more"));
    };
    let label = body::field(&fields, "rateLimitKey")?.filter(|label| !label.is_empty()).unwrap_or_else(|| name.clone());
    if label.contains("${") {
        let text = "a limit of this address is for all runs of the name; a key that is computed is rateLimitConfig";
        return Err(Problem::field("rateLimitKey", format!("{text} of the definition")));
    }
    let (identity, tag) = read(json!({"key": label, "value": limit, "type": RATE_LIMIT}))?;
    for (before, _) in limits(&call, &name).await?.iter().filter(|(before, _)| !before.ends_with(&identity)) {
        documents::delete(&call, TAGS, before).await?;
    }
    write(&call, Kind::Workflow, &name, vec![(identity, tag)]).await?;
    done()
}

pub async fn remove_rate_limit(call: Call) -> Answer {
    let name = call.param("name")?.to_owned();
    Kind::Workflow.check(&call, &name).await?;
    for (key, _) in limits(&call, &name).await? {
        documents::delete(&call, TAGS, &key).await?;
    }
    reread(&call, Kind::Workflow, &name)?;
    done()
}

/// The tags of a workflow that limit, each under the key of its row.
async fn limits(call: &Call, name: &str) -> Result<Vec<(String, Json)>, Problem> {
    let rows = documents::all(call, TAGS, &tag_key(Kind::Workflow.word(), name, "")).await?;
    Ok(rows.into_iter().filter(|row| row.value["type"] == RATE_LIMIT).map(|row| (row.key, row.value)).collect())
}

fn number(value: &Json) -> Json {
    match value {
        Json::String(text) => text.trim().parse::<u32>().map_or(Json::Null, Json::from),
        other => other.clone(),
    }
}

/// `GET /metadata/tags`: every tag that something has, once.
pub async fn all(call: Call) -> Answer {
    let mut seen = BTreeSet::new();
    let rows = documents::all(&call, TAGS, "").await?;
    let tags = rows.into_iter().map(|row| row.value).filter(|tag| seen.insert(tag.to_string()));
    ok(tags.collect::<Vec<Json>>())
}

/// Puts the tags of a thing beside what it says itself.
pub async fn shown_with(call: &Call, kind: Kind, name: &str, mut thing: Map<String, Json>) -> Result<Json, Problem> {
    thing.insert("tags".to_owned(), of_thing(call, kind, name).await?.into());
    Ok(Json::Object(thing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_known_by_all_of_its_parts() {
        let of = |tag: Json| read(tag).unwrap().0;
        assert_eq!(
            of(json!({"key": "a", "value": 5, "type": "RATE_LIMIT"})),
            of(json!({"key": "a", "value": "5", "type": "RATE_LIMIT"}))
        );
        assert_ne!(of(json!({"key": "a", "value": "x"})), of(json!({"key": "a", "value": "y"})));
        assert_eq!(of(json!({"key": "a", "value": "x"})), of(json!({"key": "a", "value": "x", "type": "METADATA"})));
        assert!(read(json!({"value": "x"})).is_err());
        assert!(read(json!({"key": "a", "value": {}})).is_err());
        assert!(read(json!({"key": "a", "value": "many", "type": "RATE_LIMIT"})).is_err());
        assert!(read(json!({"key": "a".repeat(501)})).is_err());
    }
}
