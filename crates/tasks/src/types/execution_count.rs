//! `execution.Count`: how many runs flows or namespaces had.

use super::purge::{instant, states};
use super::{field, required};
use crate::config::texts;
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::{CountOf, Desk};
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "execution.Count",
    aliases: &["io.kestra.core.tasks.executions.Counts"],
    summary: "Count the runs of flows or namespaces.",
    mode: LeafMode::Effect,
    class: EffectClass::Read,
    fields: &[
        field("flows", FieldKind::Any, "A list of flows, each with `namespace` and `flowId`."),
        field("namespaces", FieldKind::TextOrList, "Namespaces, each counted as a whole."),
        field("states", FieldKind::TextOrList, "Only runs in these states."),
        required("startDate", FieldKind::Text, "Only runs made at this instant or later."),
        field("endDate", FieldKind::Text, "Only runs made before this instant."),
        required("expression", FieldKind::Expression, "Which counts to keep; its variable is `count`."),
    ],
    outputs: &["results", "total"],
};

pub const WORK: Work = Work::Effect(EffectWork { class: |_| EffectClass::Read, perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, count)
}

fn count(desk: &Desk, request: &Request, _: &Limits) -> Result<Json, TaskError> {
    let config = &request.config;
    let expression = config::required_text(config, "expression")?;
    let (mut results, mut total) = (Vec::new(), 0);
    for of in asked(config)? {
        let count = desk.files.count_runs(&desk.home.workspace, &of)?;
        let rendered = desk.expressions()?.render(&expression, &json!({"count": count}));
        let keeps = rendered.map_err(|message| TaskError { code: "expression", message })?;
        if keeps.trim() == "true" {
            let mut row = json!({"namespace": of.namespace, "count": count});
            if let Some(flow) = of.flow_id {
                row["flowId"] = json!(flow);
            }
            results.push(row);
            total += count;
        }
    }
    Ok(json!({"results": results, "total": total}))
}

/// Each flow, then each namespace.
fn asked(config: &Json) -> Result<Vec<CountOf>, TaskError> {
    let all = CountOf {
        states: states(config, "states")?,
        from: instant(config, "startDate")?,
        to: instant(config, "endDate")?,
        ..CountOf::default()
    };
    let mut asked = Vec::new();
    for flow in config::present(config, "flows").map(config::decoded).iter().flat_map(|list| match list {
        Json::Array(items) => items.clone(),
        single => vec![single.clone()],
    }) {
        let part = |name: &str| config::required_text(&flow, name);
        asked.push(CountOf { namespace: part("namespace")?, flow_id: Some(part("flowId")?), ..all.clone() });
    }
    for namespace in texts(config, "namespaces")? {
        asked.push(CountOf { namespace, ..all.clone() });
    }
    match asked.is_empty() {
        true => Err(TaskError::config("`flows` or `namespaces` must say what to count")),
        false => Ok(asked),
    }
}
