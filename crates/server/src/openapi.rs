//! `/openapi.json`, made from the route table.

mod conductor;
mod conductor_resources;
mod kestra;
mod kestra_resources;
mod schema;
mod shapes;

use crate::auth::Access;
use crate::call::{Answer, Call, ok};
use crate::routes::{ANY_QUERY, ROUTES, Route, Takes, Verb};
use schema::{decision, id, list, named, status, text, time, words};
use serde_json::{Map, Value as Json, json};
use shapes::{Answers, Shape, shape};

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
            "schemas": schema::components(),
        },
    })
}

fn operation(route: &Route) -> Json {
    let shape = shape(route);
    let mut out = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "x-semel-role": route.access.text(),
        "security": if route.access.is_open() { json!([]) } else { json!([{"token": []}]) },
        "parameters": parameters(route),
        "responses": responses(route, shape.as_ref()),
    });
    if let Some(body) = request_body(route, shape.as_ref()) {
        out["requestBody"] = body;
    }
    out
}

fn request_body(route: &Route, shape: Option<&Shape>) -> Option<Json> {
    let (kind, schema) = match route.takes {
        Takes::Nothing => return None,
        Takes::Json => ("application/json", shape.and_then(|shape| shape.body.clone()).unwrap_or_else(|| json!({}))),
        // What a flow may hold is the flow reference's matter, and what a webhook sends is its sender's.
        Takes::Text => ("application/yaml", json!({})),
        Takes::Raw => ("*/*", json!({})),
        Takes::Form => ("multipart/form-data", json!({"type": "object"})),
    };
    let required = shape.is_some_and(|shape| shape.body_required);
    Some(json!({"required": required, "content": {kind: {"schema": schema}}}))
}

/// Refusals that a caller can bring about by itself are listed; `default` is for all others, such as a full disk.
fn responses(route: &Route, shape: Option<&Shape>) -> Json {
    let refused = |why: &str| {
        if crate::doors::kestra::is_under(route.path) {
            return kestra::refused(why);
        }
        if crate::doors::conductor::is_under(route.path) {
            return conductor::refused(why);
        }
        json!({
            "description": why,
            "content": {"application/problem+json": {"schema": named("Problem")}},
        })
    };
    let mut out = Map::new();
    match shape.map(|shape| &shape.answers) {
        Some(Answers::Json(schema)) => {
            let content = json!({"application/json": {"schema": schema}});
            out.insert("200".into(), json!({"description": "Done.", "content": content}));
        }
        Some(Answers::JsonOrNothing(schema)) => {
            let content = json!({"application/json": {"schema": schema}});
            out.insert("200".into(), json!({"description": "Done.", "content": content}));
            out.insert("204".into(), json!({"description": "There is none."}));
        }
        Some(Answers::Text(kind)) => {
            let content = json!({*kind: {}});
            out.insert("200".into(), json!({"description": "Done.", "content": content}));
        }
        Some(Answers::Empty) => {
            out.insert("200".into(), json!({"description": "Done."}));
        }
        Some(Answers::Accepted) => {
            out.insert("202".into(), json!({"description": "It will be done."}));
        }
        Some(Answers::Nothing) | None => {
            out.insert("204".into(), json!({"description": "Done."}));
        }
    }
    if !route.access.is_open() {
        out.insert("401".into(), refused("No token, or one that is not valid."));
        out.insert("403".into(), refused("The token's role does not allow this."));
    }
    out.insert("default".into(), refused("Refused."));
    Json::Object(out)
}

/// `get_v1_runs_id_journal`: unique, because method and path are.
fn operation_id(route: &Route) -> String {
    let path: Vec<&str> = route.path.split(['/', '.', '{', '}']).filter(|part| !part.is_empty()).collect();
    format!("{}_{}", route.method.word().to_ascii_lowercase(), path.join("_"))
}

fn parameters(route: &Route) -> Vec<Json> {
    let in_path = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let part = |part: &str| match part {
        // Names that are written must be names; asked for another, the answer is that it is not there.
        "namespace" | "key" if route.path.starts_with("/v1/kv/") && route.method == Verb::Put => schema::name(),
        _ => json!({"type": "string", "minLength": 1}),
    };
    let mut out: Vec<Json> =
        in_path.map(|name| json!({"name": name, "in": "path", "required": true, "schema": part(name)})).collect();
    if route.query != ANY_QUERY {
        out.extend(route.query.iter().map(|name| query_parameter(route, name)));
    }
    let headers: &[(&str, Json)] = match route.access {
        Access::Trigger => &admission_headers(),
        Access::Operator if route.door.is_some() => &admission_headers(),
        _ => &[],
    };
    out.extend(headers.iter().map(|(name, schema)| json!({"name": name, "in": "header", "schema": schema})));
    out
}

fn admission_headers() -> [(&'static str, Json); 2] {
    [
        ("Idempotency-Key", json!({"type": "string", "minLength": 1, "maxLength": 255})),
        ("Prefer", json!({"type": "string", "examples": ["wait=10"]})),
    ]
}

/// One parameter of the query string; names mean the same on every path.
fn query_parameter(route: &Route, name: &str) -> Json {
    // Several words: `status=held,failed`, or the parameter twice.
    let several = |words: Json| json!({"name": name, "in": "query", "style": "form", "explode": false, "schema": {"type": "array", "minItems": 1, "items": words["items"]}});
    if crate::doors::kestra::is_under(route.path)
        && let Some(schema) = kestra_resources::parameter(name)
    {
        return json!({"name": name, "in": "query", "required": false, "schema": schema});
    }
    let schema = match name {
        "limit" => json!({"type": "integer", "minimum": 1, "maximum": u32::MAX}),
        "revision" => json!({"type": "integer", "minimum": 1, "maximum": u32::MAX}),
        "run_id" | "parent_run_id" => id(),
        "created_from" | "created_to" => time(),
        "label" => json!({"type": "string", "pattern": "^[^:]*:"}),
        "status" => return several(list(status())),
        "decision" => return several(list(decision())),
        "state" => {
            return several(list(words(["pending", "live", "held", "done", "failed", "cancelled", "erased"])));
        }
        _ => text(),
    };
    let required = route.path == "/v1/keys/show" && name == "key";
    json!({"name": name, "in": "query", "required": required, "schema": schema})
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_route_says_what_it_takes_and_answers() {
        for route in ROUTES {
            let name = format!("{} {}", route.method, route.path);
            let shape = shape(route).unwrap_or_else(|| panic!("{name} has no shape"));
            assert_eq!(shape.body.is_some(), route.takes == Takes::Json, "{name}");
        }
    }

    #[test]
    fn every_name_that_is_referred_to_is_there() {
        fn references(json: &Json, found: &mut BTreeSet<String>) {
            match json {
                Json::Object(fields) => fields.iter().for_each(|(name, value)| match value.as_str() {
                    Some(target) if name == "$ref" => {
                        found.insert(target.rsplit('/').next().unwrap_or_default().to_owned());
                    }
                    _ => references(value, found),
                }),
                Json::Array(items) => items.iter().for_each(|item| references(item, found)),
                _ => {}
            }
        }
        let document = document("0");
        let mut used = BTreeSet::new();
        references(&document, &mut used);
        let known: BTreeSet<String> = document["components"]["schemas"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(used, known);
    }

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
