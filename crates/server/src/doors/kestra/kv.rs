//! `/namespaces/{namespace}/kv` and `/kv`: the key-value store with Kestra's types.

use super::filters::{self, Field, Filter, Op};
use super::kv_value::{is_key, read, shown_type};
use super::matching::TextTest;
use super::paged::Paged;
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::json;
use crate::problem::Problem;
use axum::body::Body;
use axum::response::Response;
use semel_core::{Millis, WorkspaceId, duration};
use semel_store::{Done, KvRow, Store, StoreError, Work};
use serde::Deserialize;
use serde_json::{Value as Json, json};

const FIELDS: &[Field] = &[Field::Query, Field::Namespace, Field::Updated];
/// Keys read at a time.
const ROWS: u32 = 500;
const BAD_KEY: &str = "Key must start with an alphanumeric character and can contain alphanumeric characters, \
    dots (.), underscores (_), and hyphens (-) only.";

struct Place {
    workspace: WorkspaceId,
    namespace: String,
    key: String,
}

fn place(call: &Call) -> Result<Place, Problem> {
    let (workspace, namespace, key) = (call.workspace()?, namespace(call)?, call.param("key")?.to_owned());
    if is_key(&key) {
        Ok(Place { workspace, namespace, key })
    } else {
        Err(Problem::new(Code::IllegalArgument, BAD_KEY))
    }
}

pub fn namespace(call: &Call) -> Result<String, Problem> {
    let name = call.param("namespace")?;
    let good = !name.is_empty()
        && name.len() <= 150
        && !name.chars().any(char::is_control)
        && !semel_store::is_own_namespace(name);
    if good { Ok(name.to_owned()) } else { Err(Problem::new(Code::IllegalArgument, "this cannot be a namespace")) }
}

fn is_over(row: &KvRow, now: Millis) -> bool {
    row.expires_at.is_some_and(|end| now >= end)
}

pub async fn get(call: Call) -> Answer {
    let Place { workspace, namespace, key } = place(&call)?;
    let missing = format!("No value found for key '{key}' in namespace '{namespace}'");
    let row = call.app.read(move |store| store.kv(&workspace, &namespace, &key)).await?;
    let row = row.ok_or_else(|| Problem::new(Code::KvUnknown, missing))?;
    if is_over(&row, call.now()) {
        return Err(Problem::new(Code::Expired, "The requested value has expired"));
    }
    let value = if call.sees_payloads() { semel_engine::public_json(&row.value) } else { Json::Null };
    ok(json!({
        "type": shown_type(&row),
        "value": value,
        "revision": row.revision,
        "updated": row.updated_at.to_rfc3339(),
    }))
}

pub async fn put(call: Call) -> Answer {
    let Place { workspace, namespace, key } = place(&call)?;
    let body = json::utf8(&call.body)?;
    let (kv_type, value) = read(body, call.app.limits().json_depth_max).ok_or_else(|| {
        Problem::new(Code::IllegalArgument, "Invalid JSON value: a text needs its quotes, as in \"text\"")
    })?;
    let ttl_ms = ttl(&call)?;
    let work = Work::KvSet { workspace, namespace, key, value, kv_type: kv_type.to_owned(), overwrite: true, ttl_ms };
    call.app.write(work).await?;
    Ok(Response::new(Body::empty()))
}

fn ttl(call: &Call) -> Result<Option<i64>, Problem> {
    let Some(header) = call.headers.get("ttl") else { return Ok(None) };
    let read = header.to_str().ok().and_then(|text| duration::parse_ms(text.trim()).ok()).filter(|ms| *ms > 0);
    let wrong = || Problem::new(Code::IllegalArgument, "the header `ttl` must be an ISO 8601 duration such as PT1H");
    read.map(Some).ok_or_else(wrong)
}

pub async fn delete(call: Call) -> Answer {
    let place = place(&call)?;
    ok(forget(&call, place).await?)
}

async fn forget(call: &Call, Place { workspace, namespace, key }: Place) -> Result<bool, Problem> {
    Ok(matches!(call.app.write(Work::KvDelete { workspace, namespace, key }).await?, Done::Unit))
}

#[derive(Deserialize)]
struct Keys {
    #[serde(default)]
    keys: Vec<String>,
}

/// The keys that were there, and are no more.
pub async fn delete_many(call: Call) -> Answer {
    let (body, workspace, namespace): (Keys, _, _) = (call.json()?, call.workspace()?, namespace(&call)?);
    let mut gone = Vec::new();
    for key in body.keys {
        let place = Place { workspace: workspace.clone(), namespace: namespace.clone(), key: key.clone() };
        if is_key(&key) && forget(&call, place).await? {
            gone.push(key);
        }
    }
    ok(json!({"keys": gone}))
}

/// A key without its value. When it was first written is known only if it was written once.
fn entry(row: &KvRow) -> Json {
    let mut out = json!({
        "namespace": row.namespace,
        "key": row.key,
        "version": row.revision,
        "updateDate": row.updated_at.to_rfc3339(),
    });
    if row.revision == 1 {
        out["creationDate"] = out["updateDate"].clone();
    }
    if let Some(end) = row.expires_at {
        out["expirationDate"] = end.to_rfc3339().into();
    }
    out
}

pub async fn list(call: Call) -> Answer {
    let (workspace, namespace, now) = (call.workspace()?, namespace(&call)?, call.now());
    let rows = call.app.read(move |store| of_namespace(store, &workspace, &namespace)).await?;
    ok(rows.iter().filter(|row| !is_over(row, now)).map(entry).collect::<Vec<Json>>())
}

/// The keys of the namespaces above this one.
pub async fn inherited(call: Call) -> Answer {
    let (workspace, namespace, now) = (call.workspace()?, namespace(&call)?, call.now());
    let rows = call.app.read(move |store| {
        let mut found = Vec::new();
        for (end, _) in namespace.rmatch_indices('.') {
            found.extend(of_namespace(store, &workspace, &namespace[..end])?);
        }
        Ok(found)
    });
    ok(rows.await?.iter().filter(|row| !is_over(row, now)).map(entry).collect::<Vec<Json>>())
}

fn of_namespace(store: &dyn Store, workspace: &WorkspaceId, namespace: &str) -> Result<Vec<KvRow>, StoreError> {
    let mut found: Vec<KvRow> = Vec::new();
    loop {
        let after = found.last().map(|row| row.key.clone());
        let page = store.kv_list(workspace, namespace, after.as_deref(), ROWS)?;
        let more = page.len() == ROWS as usize;
        found.extend(page);
        if !more {
            return Ok(found);
        }
    }
}

/// Keys of all namespaces.
pub async fn search(call: Call) -> Answer {
    let paged = Paged::read(&call.query)?;
    let mut asked = filters::read(&call.query, FIELDS)?;
    if asked.is_empty() {
        asked.extend(call.query.all("q").map(|text| Filter::new(Field::Query, Op::Equals, text)));
        asked.extend(call.query.all("namespace").map(|text| Filter::new(Field::Namespace, Op::Equals, text)));
    }
    let tests = asked.iter().map(Test::of).collect::<Result<Vec<Test>, Problem>>()?;
    let (workspace, now) = (call.workspace()?, call.now());
    let mut rows = call.app.read(move |store| everywhere(store, &workspace)).await?;
    rows.retain(|row| !is_over(row, now) && tests.iter().all(|test| test.holds(row)));
    paged.sort(&mut rows, &["key", "namespace", "updated", "updateDate"], |row, field| match field {
        "key" => row.key.clone(),
        "namespace" => row.namespace.clone(),
        _ => row.updated_at.to_rfc3339(),
    })?;
    paged.answer(&rows, entry)
}

/// What a key must be.
enum Test {
    /// Its name holds this, or does not.
    Named(String, bool),
    Namespace(TextTest),
    Updated(Op, Millis),
}

impl Test {
    fn of(filter: &Filter) -> Result<Test, Problem> {
        Ok(match filter.field {
            Field::Namespace => Test::Namespace(TextTest::new(filter)?),
            Field::Updated => Test::Updated(filter.op, filters::instant(filter)?),
            _ => Test::Named(filter.value.to_lowercase(), filter.op == Op::Equals),
        })
    }

    fn holds(&self, row: &KvRow) -> bool {
        match self {
            Test::Named(text, wanted) => row.key.to_lowercase().contains(text) == *wanted,
            Test::Namespace(test) => test.holds(&row.namespace),
            Test::Updated(op, at) => filters::compares(*op, row.updated_at, *at),
        }
    }
}

fn everywhere(store: &dyn Store, workspace: &WorkspaceId) -> Result<Vec<KvRow>, StoreError> {
    let mut found = Vec::new();
    let namespaces = store.kv_namespaces(workspace)?;
    for namespace in namespaces.into_iter().filter(|name| !semel_store::is_own_namespace(name)) {
        found.extend(of_namespace(store, workspace, &namespace)?);
    }
    Ok(found)
}
