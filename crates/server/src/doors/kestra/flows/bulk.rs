//! Many flows at once: a whole namespace from one text, and what is done to a list or to what a query finds.
//!
//! Everything is looked at before anything is changed: an unknown flow or a text with a mistake changes nothing.

use super::super::flow_json;
use super::search::asked;
use super::show::flag;
use super::{all, unknown, violated, write};
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::json;
use crate::problem::Problem;
use semel_core::FlowRef;
use semel_flow::{documents, with_disabled, with_namespace};
use semel_store::{FlowRow, PushRule};
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;

/// Flows of one request.
const FLOWS_MAX: usize = 1_000;

#[derive(Deserialize)]
struct Named {
    namespace: String,
    id: String,
}

/// `[{"namespace", "id"}]`, all of them there.
pub async fn listed(call: &Call) -> Result<Vec<FlowRow>, Problem> {
    let body = json::parse(&call.body, call.app.limits().json_depth_max)?;
    let named: Vec<Named> = serde_json::from_value(body).map_err(|error| {
        Problem::new(Code::BodyInvalid, format!("the body must be a list of {{namespace, id}}: {error}"))
    })?;
    if named.len() > FLOWS_MAX {
        return Err(Problem::new(Code::BodyInvalid, format!("at most {FLOWS_MAX} flows at once")));
    }
    let workspace = call.workspace()?;
    let found = call.app.read(move |store| {
        named
            .iter()
            .map(|one| store.flow(&workspace, &FlowRef::new(&one.namespace, &one.id), None))
            .collect::<Result<Vec<_>, _>>()
    });
    found.await?.into_iter().collect::<Option<Vec<_>>>().ok_or_else(unknown)
}

fn count(number: usize) -> Answer {
    ok(json!({"count": number}))
}

async fn delete(call: &Call, rows: Vec<FlowRow>) -> Answer {
    let mut gone = 0;
    for row in rows {
        gone += usize::from(write::gone(call, row.workspace, row.flow).await?);
    }
    count(gone)
}

/// Those that are not so yet get a revision that is.
async fn set_disabled(call: &Call, rows: Vec<FlowRow>, disabled: bool) -> Answer {
    let rows: Vec<FlowRow> = rows.into_iter().filter(|row| row.disabled != disabled).collect();
    for row in &rows {
        write::push(call, &with_disabled(&row.source, disabled), PushRule::Known).await?;
    }
    count(rows.len())
}

pub async fn delete_by_ids(call: Call) -> Answer {
    let rows = listed(&call).await?;
    delete(&call, rows).await
}

pub async fn delete_by_query(call: Call) -> Answer {
    let rows = asked(&call).await?;
    delete(&call, rows).await
}

pub async fn disable_by_ids(call: Call) -> Answer {
    let rows = listed(&call).await?;
    set_disabled(&call, rows, true).await
}

pub async fn disable_by_query(call: Call) -> Answer {
    let rows = asked(&call).await?;
    set_disabled(&call, rows, true).await
}

pub async fn enable_by_ids(call: Call) -> Answer {
    let rows = listed(&call).await?;
    set_disabled(&call, rows, false).await
}

pub async fn enable_by_query(call: Call) -> Answer {
    let rows = asked(&call).await?;
    set_disabled(&call, rows, false).await
}

/// `POST /flows/{namespace}`: the namespace is then what the body says. `override` puts its flows there.
pub async fn of_namespace(call: Call) -> Answer {
    let namespace = call.param("namespace")?.to_owned();
    let into = flag(&call.query, "override", false)?.then(|| namespace.clone());
    synchronise(call, Some(namespace), false, into).await
}

/// `POST /flows/bulk`: as above, for the namespace that is named or for all of them.
pub async fn of_all(call: Call) -> Answer {
    let (namespace, children) = (call.query.text("namespace")?, flag(&call.query, "allowNamespaceChild", false)?);
    synchronise(call, namespace, children, None).await
}

/// `into`: whatever namespace a text names, its flow goes into this one.
async fn synchronise(call: Call, namespace: Option<String>, children: bool, into: Option<String>) -> Answer {
    let is_ours = |given: &str| {
        namespace.as_ref().is_none_or(|own| {
            given == own || (children && given.strip_prefix(own.as_str()).is_some_and(|rest| rest.starts_with('.')))
        })
    };
    let (delete, text) = (flag(&call.query, "delete", true)?, json::utf8(&call.body)?.to_owned());
    let put = |text: &str| match &into {
        Some(namespace) => with_namespace(text.trim(), namespace),
        None => text.trim().to_owned(),
    };
    let sources: Vec<String> = documents(&text).iter().map(|document| put(document.text)).collect();
    if sources.len() > FLOWS_MAX {
        return Err(Problem::new(Code::BodyInvalid, format!("at most {FLOWS_MAX} flows at once")));
    }
    let mut given = BTreeSet::new();
    for source in &sources {
        let flow = write::compiled(&call, source).await?;
        if !is_ours(&flow.namespace) {
            return Err(violated("flow.namespace", "Flow namespace is invalid"));
        }
        if !given.insert(flow) {
            return Err(violated("flow.id", "Duplicate flow id"));
        }
    }
    let mut shown = Vec::new();
    if delete {
        shown = remove_others(&call, is_ours, given).await?;
    }
    for source in &sources {
        let row = write::push(&call, source, PushRule::Any).await?;
        shown.push(flow_json::with_source(&row, call.app.limits(), call.sees_payloads()));
    }
    ok(shown)
}

/// Deletes what is not among the given; shows what was.
async fn remove_others(
    call: &Call,
    is_ours: impl Fn(&str) -> bool,
    given: BTreeSet<FlowRef>,
) -> Result<Vec<Json>, Problem> {
    let workspace = call.workspace()?;
    let mut rows = call.app.read(move |store| all(store, &workspace, |row| !given.contains(&row.flow))).await?;
    rows.retain(|row| is_ours(&row.flow.namespace));
    let mut shown = Vec::new();
    for row in rows {
        write::gone(call, row.workspace.clone(), row.flow.clone()).await?;
        shown.push(flow_json::with_source(&FlowRow { deleted: true, ..row }, call.app.limits(), call.sees_payloads()));
    }
    Ok(shown)
}
