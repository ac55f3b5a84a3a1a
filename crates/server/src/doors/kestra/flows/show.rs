//! One flow, its revisions, its tasks.

use super::super::flow_json;
use super::{address, all, unknown};
use crate::call::{Answer, Call, Query, ok};
use crate::problem::Problem;
use semel_store::FlowRow;
use serde_json::Value as Json;

pub fn flag(query: &Query, name: &str, default: bool) -> Result<bool, Problem> {
    let read = |text: &str| match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    Ok(query.read(name, "true or false", read)?.unwrap_or(default))
}

pub fn revision(query: &Query) -> Result<Option<u32>, Problem> {
    query.read("revision", "a revision number", |text| text.parse().ok().filter(|number| *number > 0))
}

pub async fn get(call: Call) -> Answer {
    let (with_source, deleted_too) = (flag(&call.query, "source", false)?, flag(&call.query, "allowDeleted", false)?);
    let row = find(&call, deleted_too).await?;
    let (limits, payloads) = (call.app.limits(), call.sees_payloads());
    ok(if with_source {
        flow_json::with_source(&row, limits, payloads)
    } else {
        flow_json::flow(&row, limits, payloads)
    })
}

async fn find(call: &Call, deleted_too: bool) -> Result<FlowRow, Problem> {
    let (workspace, flow, revision) = (call.workspace()?, address(call)?, revision(&call.query)?);
    let found = call.app.read(move |store| match (revision, deleted_too) {
        (None, true) => Ok(store.flow_revisions(&workspace, &flow)?.pop()),
        _ => store.flow(&workspace, &flow, revision),
    });
    found.await?.filter(|row| deleted_too || !row.deleted).ok_or_else(unknown)
}

/// All revisions, oldest first, as Kestra lists them.
pub async fn revisions(call: Call) -> Answer {
    let (workspace, flow) = (call.workspace()?, address(&call)?);
    let rows = call.app.read(move |store| store.flow_revisions(&workspace, &flow)).await?;
    if rows.is_empty() {
        return Err(unknown());
    }
    let (limits, payloads) = (call.app.limits(), call.sees_payloads());
    ok(rows.iter().map(|row| flow_json::with_source(row, limits, payloads)).collect::<Vec<Json>>())
}

/// The flows of one namespace.
pub async fn of_namespace(call: Call) -> Answer {
    let (workspace, namespace) = (call.workspace()?, call.param("namespace")?.to_owned());
    let rows = call.app.read(move |store| all(store, &workspace, |row| row.flow.namespace == namespace)).await?;
    let (limits, payloads) = (call.app.limits(), call.sees_payloads());
    ok(rows.iter().map(|row| flow_json::flow(row, limits, payloads)).collect::<Vec<Json>>())
}

/// One task of a flow, however deep it stands.
pub async fn task(call: Call) -> Answer {
    let row = find(&call, false).await?;
    let shown = flow_json::flow(&row, call.app.limits(), call.sees_payloads());
    let wanted = call.param("task")?;
    let found =
        ["tasks", "errors", "finally", "afterExecution"].iter().find_map(|part| find_task(&shown[*part], wanted));
    match found {
        Some(task) => ok(task),
        None => Err(Problem::new(crate::codes::Code::FlowUnknown, "the flow has no such task")),
    }
}

/// An object with this id that has a type, as all tasks do.
fn find_task<'a>(value: &'a Json, id: &str) -> Option<&'a Json> {
    match value {
        Json::Array(items) => items.iter().find_map(|item| find_task(item, id)),
        Json::Object(fields) if fields.contains_key("type") && fields.get("id").is_some_and(|own| own == id) => {
            Some(value)
        }
        Json::Object(fields) => fields.values().find_map(|inner| find_task(inner, id)),
        _ => None,
    }
}

/// The namespaces that flows are in.
pub async fn namespaces(call: Call) -> Answer {
    let (workspace, wanted) = (call.workspace()?, call.query.text("q")?.unwrap_or_default().to_lowercase());
    let rows = call.app.read(move |store| all(store, &workspace, |_| true)).await?;
    let mut names: Vec<String> = rows.into_iter().map(|row| row.flow.namespace).collect();
    names.dedup();
    names.retain(|name| name.to_lowercase().contains(&wanted));
    ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tasks_are_found_however_deep() {
        let tasks = json!([{"id": "a", "type": "x", "then": [{"id": "b", "type": "y"}], "cases": {"k": [{"id": "c", "type": "z"}]}},
            {"task": {"id": "d", "type": "w"}, "dependsOn": ["a"]}]);
        for id in ["a", "b", "c", "d"] {
            assert_eq!(find_task(&tasks, id).unwrap()["id"], id);
        }
        assert_eq!(find_task(&tasks, "e"), None);
    }

    #[test]
    fn flags_are_words() {
        let query = |value: &str| Query(vec![("x".to_owned(), value.to_owned())]);
        assert!(flag(&query("true"), "x", false).unwrap() && !flag(&query("false"), "x", true).unwrap());
        assert!(flag(&query("yes"), "x", false).is_err());
        assert!(flag(&Query::default(), "x", true).unwrap());
    }
}
