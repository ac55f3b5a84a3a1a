//! `/openapi.json`, made from the route table.

use crate::auth::Access;
use crate::call::{Answer, Call, ok};
use crate::routes::{ANY_QUERY, ROUTES, Route, Takes};
use serde_json::{Map, Value as Json, json};

pub async fn get(call: Call) -> Answer {
    ok(document(&call.app.config().version))
}

pub fn document(version: &str) -> Json {
    let mut paths = Map::new();
    for route in ROUTES {
        let entry = paths.entry(route.path).or_insert_with(|| json!({}));
        entry[route.method.word().to_ascii_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Semel",
            "version": version,
            "description": "A durable workflow engine: each event runs once. Refusals are application/problem+json with a stable code.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "sml_<id>_<secret>"}},
            "schemas": {"Problem": problem_schema()},
        },
    })
}

fn operation(route: &Route) -> Json {
    let mut out = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "x-semel-role": route.access.text(),
        "security": if route.access.is_open() { json!([]) } else { json!([{"token": []}]) },
        "parameters": parameters(route),
        "responses": {
            "2XX": {"description": "Done."},
            "default": {
                "description": "Refused.",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            },
        },
    });
    let content = match route.takes {
        Takes::Nothing => None,
        Takes::Json => Some("application/json"),
        Takes::Text => Some("application/yaml"),
        Takes::Raw => Some("*/*"),
    };
    if let Some(kind) = content {
        out["requestBody"] = json!({"content": {kind: {}}});
    }
    out
}

/// `get_v1_runs_id_journal`: unique, because method and path are.
fn operation_id(route: &Route) -> String {
    let path: Vec<&str> = route.path.split(['/', '.', '{', '}']).filter(|part| !part.is_empty()).collect();
    format!("{}_{}", route.method.word().to_ascii_lowercase(), path.join("_"))
}

fn parameters(route: &Route) -> Vec<Json> {
    let text = json!({"type": "string"});
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let mut out: Vec<Json> =
        in_path.map(|name| json!({"name": name, "in": "path", "required": true, "schema": text})).collect();
    if route.query != ANY_QUERY {
        out.extend(route.query.iter().map(|name| json!({"name": name, "in": "query", "schema": text})));
    }
    let headers: &[&str] = match route.access {
        Access::Trigger => &["Idempotency-Key", "Prefer"],
        Access::Operator if route.door.is_some() => &["Idempotency-Key", "Prefer"],
        _ => &[],
    };
    out.extend(headers.iter().map(|name| json!({"name": name, "in": "header", "schema": text})));
    out
}

fn problem_schema() -> Json {
    let codes: Vec<&str> = crate::codes::Code::ALL.iter().map(|code| code.word()).collect();
    json!({
        "type": "object",
        "required": ["type", "title", "status", "code", "detail"],
        "properties": {
            "type": {"type": "string", "format": "uri"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"type": "string", "enum": codes},
            "detail": {"type": "string"},
            "hint": {"type": "string"},
            "errors": {"type": "array", "items": {"type": "object"}},
            "run_id": {"type": "string", "format": "uuid"},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn table_and_description_agree_both_ways() {
        let document = document("0");
        let mut described = BTreeSet::new();
        let mut ids = BTreeSet::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                described.insert((path.clone(), method.to_ascii_uppercase()));
                assert!(ids.insert(operation["operationId"].as_str().unwrap().to_owned()));
                assert!(operation["x-semel-role"].as_str().is_some_and(|role| !role.is_empty()));
                for name in operation["parameters"].as_array().unwrap().iter().filter(|p| p["in"] == "path") {
                    assert!(path.contains(&format!("{{{}}}", name["name"].as_str().unwrap())));
                }
            }
        }
        let rows: BTreeSet<(String, String)> =
            ROUTES.iter().map(|r| (r.path.to_owned(), r.method.word().to_owned())).collect();
        assert_eq!(described, rows);
    }
}
