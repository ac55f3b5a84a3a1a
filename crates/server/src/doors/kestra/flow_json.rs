//! A flow as Kestra shows it: the author's own fields, with what the server knows beside them.

use semel_core::limits::Limits;
use semel_flow::yaml_value;
use semel_store::FlowRow;
use serde_json::{Map, Value as Json, json};

/// Fields that say what a flow is made of and hold no values of the author.
const SHAPE: &[&str] = &["id", "type", "disabled", "required", "displayName"];
/// Fields that hold tasks.
const NESTED: &[&str] = &[
    "tasks",
    "then",
    "else",
    "defaults",
    "errors",
    "finally",
    "afterExecution",
    "triggers",
    "inputs",
    "outputs",
    "task",
];

/// The flow without its text. A text may have secrets written into it: whoever may not see payloads gets the shape.
pub fn flow(row: &FlowRow, limits: &Limits, sees_payloads: bool) -> Json {
    let mut out = Map::new();
    out.insert("id".into(), row.flow.id.clone().into());
    out.insert("namespace".into(), row.flow.namespace.clone().into());
    out.insert("revision".into(), row.revision.into());
    // A stored text compiled once, so it reads.
    let author = yaml_value(&row.source, limits).unwrap_or(Json::Null);
    let author = if sees_payloads { author } else { shape(&author) };
    if let Json::Object(fields) = author {
        for (name, value) in fields {
            match name.as_str() {
                "id" | "namespace" | "revision" | "tenantId" | "source" => {}
                "labels" => _ = out.insert(name, labels(&value)),
                "inputs" => _ = out.insert(name, inputs(value)),
                _ => _ = out.insert(name, value),
            }
        }
    }
    out.insert("disabled".into(), row.disabled.into());
    out.insert("deleted".into(), row.deleted.into());
    out.insert("updated".into(), row.created_at.to_rfc3339().into());
    Json::Object(out)
}

/// The flow with its text.
pub fn with_source(row: &FlowRow, limits: &Limits, sees_payloads: bool) -> Json {
    let mut out = flow(row, limits, sees_payloads);
    if sees_payloads {
        out["source"] = row.source.clone().into();
    }
    out
}

/// As much of a flow as whoever runs it needs to know.
pub fn for_execution(flow: &Json) -> Json {
    let mut out = Map::new();
    for name in ["id", "namespace", "revision", "inputs", "disabled", "deleted"] {
        if let Some(value) = flow.get(name) {
            out.insert(name.to_owned(), value.clone());
        }
    }
    for name in ["tasks", "triggers"] {
        let list = flow[name].as_array().map(Vec::as_slice).unwrap_or_default();
        out.insert(name.to_owned(), list.iter().map(task_for_execution).collect());
    }
    Json::Object(out)
}

/// A task by its name and type, with those in it, what it asks for when it is resumed, and the flow that it starts.
pub fn task_for_execution(task: &Json) -> Json {
    // A task of a Dag stands one level deeper.
    let task = task.get("task").unwrap_or(task);
    let mut out = json!({"id": task["id"], "type": task["type"]});
    let lists = NESTED.iter().filter(|name| !["triggers", "inputs", "outputs", "task"].contains(name));
    let mut inside: Vec<Json> =
        lists.flat_map(|name| task[*name].as_array().into_iter().flatten()).map(task_for_execution).collect();
    let cases: Vec<&Json> = match &task["cases"] {
        Json::Object(cases) => cases.values().collect(),
        Json::Array(cases) => cases.iter().collect(),
        _ => Vec::new(),
    };
    inside.extend(cases.into_iter().filter_map(Json::as_array).flatten().map(task_for_execution));
    if !inside.is_empty() {
        out["tasks"] = inside.into();
    }
    if task["onResume"].is_array() {
        out["inputs"] = inputs(task["onResume"].clone());
    }
    if task["flowId"].is_string() {
        out["subflowId"] = json!({"namespace": task["namespace"], "flowId": task["flowId"]});
        if task["revision"].is_number() {
            out["subflowId"]["revision"] = task["revision"].clone();
        }
    }
    out
}

/// Labels are a map or a list in the text, and a list here.
fn labels(value: &Json) -> Json {
    let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Json::Object(map) => map.iter().map(|(key, value)| json!({"key": key, "value": text(value)})).collect(),
        other => other.clone(),
    }
}

/// An input that does not say so is required.
fn inputs(mut value: Json) -> Json {
    for input in value.as_array_mut().into_iter().flatten() {
        if let Json::Object(fields) = input {
            fields.entry("required").or_insert(true.into());
        }
    }
    value
}

fn shape(value: &Json) -> Json {
    match value {
        Json::Array(items) => items.iter().map(shape).collect(),
        Json::Object(fields) => {
            let mut out = Map::new();
            for (name, value) in fields {
                if SHAPE.contains(&name.as_str()) && !value.is_object() && !value.is_array() {
                    out.insert(name.clone(), value.clone());
                } else if NESTED.contains(&name.as_str()) {
                    out.insert(name.clone(), shape(value));
                } else if let ("cases", Json::Object(cases)) = (name.as_str(), value) {
                    // What a case is called is a value.
                    out.insert(name.clone(), cases.values().map(shape).collect());
                }
            }
            Json::Object(out)
        }
        _ => Json::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::{FlowRef, Millis, WorkspaceId};

    fn row(source: &str) -> FlowRow {
        FlowRow {
            workspace: WorkspaceId::default(),
            flow: FlowRef::new("company.team", "pay"),
            revision: 3,
            source: source.to_owned(),
            ir: String::new(),
            disabled: false,
            deleted: false,
            created_at: Millis(0),
            created_by: "me".to_owned(),
        }
    }

    const SOURCE: &str = "id: pay\nnamespace: company.team\nrevision: 9\nlabels:\n  team: a\n  level: 1\ninputs:\n  - id: amount\n    type: INT\n    defaults: 4111\n\
        tasks:\n  - id: pick\n    type: io.kestra.plugin.core.flow.Switch\n    value: \"{{ inputs.amount }}\"\n    cases:\n      \"4111\":\n        - {id: hi, type: io.kestra.plugin.core.log.Log, message: 4111}\n";

    #[test]
    fn a_flow_is_the_authors_fields_and_the_servers() {
        let shown = with_source(&row(SOURCE), &Limits::default(), true);
        assert_eq!(shown["revision"], 3);
        assert_eq!(shown["labels"], json!([{"key": "team", "value": "a"}, {"key": "level", "value": "1"}]));
        assert_eq!(shown["inputs"][0], json!({"id": "amount", "type": "INT", "defaults": 4111, "required": true}));
        assert_eq!(shown["tasks"][0]["cases"]["4111"][0]["message"], 4111);
        assert_eq!(
            (&shown["disabled"], &shown["deleted"], &shown["source"]),
            (&json!(false), &json!(false), &json!(SOURCE))
        );
        let names: Vec<&String> = shown.as_object().unwrap().keys().collect();
        assert_eq!(names[..3], ["id", "namespace", "revision"]);
    }

    #[test]
    fn whoever_runs_a_flow_sees_which_tasks_there_are_and_not_what_they_say() {
        let flow = json!({"id": "a", "namespace": "b", "revision": 2, "disabled": false, "deleted": false, "labels": [],
            "inputs": [{"id": "n", "type": "INT", "required": true}],
            "tasks": [{"id": "if", "type": "If", "then": [{"id": "wait", "type": "Pause", "onResume": [{"id": "why", "type": "STRING"}]}]},
                {"id": "dag", "type": "Dag", "tasks": [{"task": {"id": "sub", "type": "Subflow", "namespace": "b", "flowId": "c", "inputs": {"x": 4111}}}]}],
            "triggers": [{"id": "hook", "type": "Webhook", "key": 4111}]});
        let shown = for_execution(&flow);
        assert!(!shown.to_string().contains("4111") && shown.get("labels").is_none(), "{shown}");
        assert_eq!(shown["triggers"], json!([{"id": "hook", "type": "Webhook"}]));
        assert_eq!(shown["tasks"][0]["tasks"][0]["inputs"], json!([{"id": "why", "type": "STRING", "required": true}]));
        assert_eq!(shown["tasks"][1]["tasks"][0]["subflowId"], json!({"namespace": "b", "flowId": "c"}));
        assert_eq!((&shown["revision"], &shown["inputs"][0]["id"]), (&json!(2), &json!("n")));
    }

    #[test]
    fn who_sees_no_payloads_gets_the_shape_only() {
        let shown = with_source(&row(SOURCE), &Limits::default(), false);
        assert!(!shown.to_string().contains("4111"), "{shown}");
        assert_eq!(shown["tasks"][0]["id"], "pick");
        assert_eq!(shown["tasks"][0]["cases"][0][0]["id"], "hi");
        assert_eq!(shown["source"], Json::Null);
    }
}
