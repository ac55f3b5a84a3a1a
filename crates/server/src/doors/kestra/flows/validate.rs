//! `POST /flows/validate`: every flow of the body is judged, and the answer is always 200.

use super::{complaints, sentence};
use crate::call::{Answer, Call, ok};
use crate::json;
use crate::problem::Problem;
use semel_core::FlowRef;
use semel_core::limits::Limits;
use semel_flow::{Diagnostic, documents, yaml_value};
use serde_json::{Value as Json, json};

pub async fn post(call: Call) -> Answer {
    let (workspace, engine, limits) = (call.workspace()?, call.app.engine().clone(), call.app.limits().clone());
    let text = json::utf8(&call.body)?.to_owned();
    let judged = tokio::task::spawn_blocking(move || {
        let documents = documents(&text);
        let judge = |(index, source): (usize, &str)| {
            let revision = |flow: &FlowRef| {
                Ok(engine.store().flow_revisions(&workspace, flow)?.last().map_or(0, |row| row.revision))
            };
            judge(index, source, &limits, |source| engine.validate_flow(&workspace, source), revision)
        };
        documents.iter().map(|document| document.text).enumerate().map(judge).collect::<Result<Vec<Json>, Problem>>()
    });
    ok(judged.await.map_err(|_| Problem::internal("the compiler panicked"))??)
}

/// What is known of one text. `constraints` is there only if it is wrong.
fn judge(
    index: usize,
    source: &str,
    limits: &Limits,
    compile: impl FnOnce(&str) -> Result<semel_flow::Compiled, Vec<Diagnostic>>,
    newest: impl FnOnce(&FlowRef) -> Result<u32, Problem>,
) -> Result<Json, Problem> {
    let written = yaml_value(source, limits).unwrap_or(Json::Null);
    let name = |field: &str| written[field].as_str().map(str::to_owned);
    let (id, namespace) = (name("id"), name("namespace"));
    let mut out = json!({"index": index, "outdated": false, "deprecationPaths": [], "warnings": [], "infos": []});
    if let (Some(id), Some(namespace)) = (&id, &namespace)
        && let Some(sent) = written["revision"].as_u64()
    {
        out["outdated"] = (sent != u64::from(newest(&FlowRef::new(namespace, id))?) + 1).into();
    }
    if let Some(id) = id {
        out["flow"] = id.into();
    }
    if let Some(namespace) = namespace {
        out["namespace"] = namespace.into();
    }
    let found = match compile(source) {
        Ok(compiled) => compiled.warnings,
        Err(found) => {
            out["constraints"] = sentence(&complaints(&found, source, limits)).into();
            found
        }
    };
    let warnings = found.iter().filter(|one| !one.is_error());
    out["warnings"] = warnings.map(|one| format!("line {}: {}", one.span.line, one.message)).collect();
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(source: &str) -> Json {
        let limits = Limits::default();
        judge(1, source, &limits, |text| semel_flow::compile(text, &semel_tasks::REGISTRY, &limits), |_| Ok(4)).unwrap()
    }

    #[test]
    fn a_good_flow_has_no_constraints() {
        let shown = judged("id: a\nnamespace: b\nrevision: 5\ntasks:\n  - {id: x, type: log.Log, message: hi}\n");
        assert_eq!(
            shown,
            json!({"index": 1, "outdated": false, "deprecationPaths": [], "warnings": [], "infos": [], "flow": "a", "namespace": "b"})
        );
    }

    #[test]
    fn a_bad_flow_says_why_and_who_it_is() {
        let shown = judged("id: a\nnamespace: b\nrevision: 4\ntasks:\n  - {id: x, type: log.Lgo, message: hi}\n");
        assert_eq!((&shown["flow"], &shown["outdated"]), (&json!("a"), &json!(true)));
        assert!(shown["constraints"].as_str().unwrap().contains("tasks[0].type: Invalid type: log.Lgo"), "{shown}");
        assert!(judged("{").as_object().unwrap().contains_key("constraints"));
    }
}
