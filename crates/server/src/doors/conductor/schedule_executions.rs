//! What came of the instants of schedules, newest first.

use super::query::{Condition, Order, Test, Value, parse};
use super::schedules::page;
use super::{body, documents};
use crate::call::{Answer, Call, ok};
use crate::problem::Problem;
use semel_core::RunId;
use semel_store::{SCHEDULE_EXECUTIONS, Store, StoreError};
use serde_json::{Value as Json, json};

/// Instants that a search looks through.
const LOOKED_MAX: usize = 10_000;

pub async fn search(call: Call) -> Answer {
    let (start, size) = page(&call)?;
    let query = parse(&body::query(&call, "query")?.unwrap_or_default())?;
    let words = body::query(&call, "freeText")?.filter(|text| text != "*");
    let oldest_first = match body::query(&call, "sort")? {
        None => false,
        Some(sort) => is_oldest_first(&sort)?,
    };
    for condition in query.conditions() {
        field(&condition.field).ok_or_else(|| unknown_field(&condition.field))?;
    }
    let (workspace, payloads) = (call.workspace()?, call.sees_payloads());
    let read = call.app.read(move |store| {
        let rows = documents::under(store, &workspace, SCHEDULE_EXECUTIONS, "", LOOKED_MAX)?;
        rows.into_iter().map(|row| settled(store, &workspace, row.value)).collect::<Result<Vec<Json>, StoreError>>()
    });
    let mut found = read.await?;
    found.retain(|one| query.judge(&|condition| Ok(holds(one, condition))).unwrap_or(false));
    found.retain(|one| words.as_deref().is_none_or(|words| one.to_string().contains(words)));
    if oldest_first {
        found.reverse();
    }
    let shown = |mut one: Json| {
        if let Json::Object(fields) = &mut one {
            fields.remove("runId");
            if !payloads && let Some(Json::Object(request)) = fields.get_mut("startWorkflowRequest") {
                request.remove("input");
            }
        }
        one
    };
    let total = found.len();
    let results: Vec<Json> = found.into_iter().skip(start).take(size).map(shown).collect();
    ok(json!({"totalHits": total, "results": results}))
}

/// Whoever settled an instant may have died before saying so: the run tells.
fn settled(store: &dyn Store, workspace: &semel_core::WorkspaceId, mut one: Json) -> Result<Json, StoreError> {
    let run: Option<RunId> = one["runId"].as_str().and_then(|id| id.parse().ok());
    if let (true, Some(run)) = (one["state"] == "POLLED", run)
        && store.run(workspace, run)?.is_some()
    {
        one["state"] = json!("EXECUTED");
        one["workflowId"] = json!(run.to_string());
    }
    Ok(one)
}

/// `startTime:DESC` and its like; all times of an instant have one order.
fn is_oldest_first(sort: &str) -> Result<bool, Problem> {
    let (name, direction) = sort.split_once(':').unwrap_or((sort, "ASC"));
    if !matches!(name, "startTime" | "scheduledTime" | "executionTime") {
        return Err(Problem::query("sort", "startTime, scheduledTime or executionTime, with :ASC or :DESC"));
    }
    Ok(!direction.eq_ignore_ascii_case("DESC"))
}

fn unknown_field(name: &str) -> Problem {
    let message = format!(
        "`{name}` is none of scheduleName, workflowName, workflowId, executionId, state, scheduledTime and executionTime"
    );
    Problem::query("query", message)
}

/// The field of a record that a search calls so.
fn field(name: &str) -> Option<&'static str> {
    Some(match name {
        "scheduleName" | "name" => "scheduleName",
        "workflowName" | "workflowType" => "workflowName",
        "workflowId" => "workflowId",
        "executionId" => "executionId",
        "state" | "status" => "state",
        "scheduledTime" | "startTime" => "scheduledTime",
        "executionTime" => "executionTime",
        _ => return None,
    })
}

fn holds(one: &Json, condition: &Condition) -> bool {
    let value = field(&condition.field).map(|name| &one[name]).unwrap_or(&Json::Null);
    let text = match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let number = value.as_i64();
    let than = |word: &str| word.trim().parse::<i64>().ok();
    match &condition.test {
        Test::In { values, not } => values.iter().any(|value| fits(value, &text)) != *not,
        Test::Compare { than: order, value } => match (number, than(value)) {
            (Some(number), Some(value)) => match order {
                Order::Less => number < value,
                Order::LessOrEqual => number <= value,
                Order::Greater => number > value,
                Order::GreaterOrEqual => number >= value,
            },
            _ => false,
        },
        Test::Between { from, to } => match (number, than(from), than(to)) {
            (Some(number), Some(from), Some(to)) => from <= number && number <= to,
            _ => false,
        },
    }
}

/// A `*` stands for any text.
fn fits(value: &Value, text: &str) -> bool {
    if !value.pattern {
        return value.text == text;
    }
    let parts: Vec<&str> = value.text.split('*').collect();
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    for part in &parts[1..parts.len() - 1] {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_found_by_their_fields() {
        let one = json!({"scheduleName": "nightly", "workflowName": "w", "state": "FAILED", "scheduledTime": 500});
        let found = |query: &str| parse(query).unwrap().judge(&|condition| Ok(holds(&one, condition))).unwrap();
        assert!(found("scheduleName IN (nightly)") && found("scheduleName = 'night*'") && found(""));
        assert!(found("state = FAILED AND scheduledTime > 499") && found("scheduledTime < 501"));
        assert!(found("state = EXECUTED OR workflowName = w"));
        assert!(!found("state = EXECUTED") && !found("scheduleName = *ly2") && !found("scheduledTime > 500"));
        assert!(is_oldest_first("startTime:ASC").unwrap() && !is_oldest_first("startTime:DESC").unwrap());
        assert!(is_oldest_first("colour:DESC").is_err());
    }
}
