//! Searches: `/executions/search`, the executions of one flow, and the newest of each of several.

use super::query;
use crate::call::{Answer, Call, ok};
use crate::doors::kestra::execution::{self, Whole};
use crate::json;
use crate::problem::Problem;
use semel_core::FlowRef;
use semel_store::search::{Field, FieldTest, RunSearch, TextTest};
use serde_json::{Value as Json, json};

pub async fn search(call: Call) -> Answer {
    let search = query::paged(&call, query::search(&call).await?)?;
    answer(&call, search).await
}

/// One page with the total of all. The body is compact, and flows that look for `"total":0` in it find it.
async fn answer(call: &Call, search: RunSearch) -> Answer {
    let (workspace, engine) = (call.workspace()?, call.app.engine().clone());
    let (found, total) = call
        .app
        .read(move |store| {
            let (page, total) = store.search_runs(&workspace, &search)?;
            let whole =
                page.into_iter().map(|run| Ok(execution::with_journal(store, &workspace, run)?.varied(&engine)));
            Ok((whole.collect::<Result<Vec<Whole>, _>>()?, total))
        })
        .await?;
    let (payloads, now) = (call.sees_payloads(), call.now());
    let results: Vec<Json> = found.iter().map(|whole| execution::shown(whole, payloads, now)).collect();
    ok(json!({"results": results, "total": total}))
}

fn equals(field: Field, text: &str) -> FieldTest {
    FieldTest { field, test: TextTest::In(vec![text.to_owned()]), not: false }
}

/// `GET /executions?namespace=&flowId=`.
pub async fn of_flow(call: Call) -> Answer {
    let mut search = RunSearch { now: call.now(), labels: vec![query::usual()], ..RunSearch::default() };
    for (name, field) in [("namespace", Field::Namespace), ("flowId", Field::FlowId)] {
        if let Some(text) = call.query.one(name)? {
            search.fields.push(equals(field, text));
        }
    }
    answer(&call, query::paged(&call, search)?).await
}

/// `POST /executions/latest`: the newest execution of each flow that is named.
pub async fn latest(call: Call) -> Answer {
    let wanted = flows(&call)?;
    let (workspace, engine, now) = (call.workspace()?, call.app.engine().clone(), call.now());
    let found = call
        .app
        .read(move |store| {
            let mut found = Vec::new();
            for flow in &wanted {
                let fields = vec![equals(Field::Namespace, &flow.namespace), equals(Field::FlowId, &flow.id)];
                let labels = vec![query::usual()];
                let newest = RunSearch { fields, labels, limit: 1, now, ..RunSearch::default() };
                for run in store.search_runs(&workspace, &newest)?.0 {
                    found.push(execution::with_journal(store, &workspace, run)?.varied(&engine));
                }
            }
            Ok(found)
        })
        .await?;
    let payloads = call.sees_payloads();
    let shown: Vec<Json> = found.iter().map(|whole| execution::shown(whole, payloads, now)).collect();
    ok(shown)
}

/// `[{"namespace", "id"}]`, at most a page of them.
fn flows(call: &Call) -> Result<Vec<FlowRef>, Problem> {
    let body = json::parse(if call.body.is_empty() { b"[]" } else { &call.body }, call.app.limits().json_depth_max)?;
    let wrong = || Problem::field("body", "must be a list of {\"namespace\", \"id\"}");
    let items = body.as_array().ok_or_else(wrong)?;
    if items.len() > call.app.limits().page_rows_max as usize {
        return Err(Problem::field("body", format!("at most {} flows", call.app.limits().page_rows_max)));
    }
    let text = |item: &Json, name: &str| item.get(name).and_then(Json::as_str).map(str::to_owned);
    let read = |item: &Json| {
        let id = text(item, "id").or_else(|| text(item, "flowId"));
        Some(FlowRef::new(text(item, "namespace")?, id?))
    };
    items.iter().map(|item| read(item).ok_or_else(wrong)).collect()
}
