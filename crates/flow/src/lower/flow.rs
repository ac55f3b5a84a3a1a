//! The top level of a flow.

use super::fields::{Fields, Names};
use super::ids::NAMESPACE;
use super::labels::Owner;
use super::{Context, Moment};
use crate::yaml::Node;
use semel_core::FlowRef;
use semel_core::ir::{Dialect, Flow, IR_VERSION, Task};
use serde_json::Value as Json;

const NAMES: Names = Names {
    what: "a flow",
    allowed: &[
        &[
            "id",
            "namespace",
            "description",
            "labels",
            "inputs",
            "variables",
            "tasks",
            "errors",
            "finally",
            "outputs",
            "triggers",
            "concurrency",
            "retry",
            "disabled",
            "idempotency",
            "lane",
            "afterExecution",
            "pluginDefaults",
            "taskDefaults",
            "sla",
            "checks",
        ],
        // Written by exports of other servers; they say nothing about what the flow does.
        &["revision", "tenantId", "deleted"],
    ],
    not_built: &[
        "workerGroup",
        "listeners",
        "conditions",
        "stopAfter",
        "taskCache",
        "logToFile",
        "assets",
        "updated",
        "source",
    ],
};

/// Reads a whole flow. `None` when something without which there is no flow could not be read.
pub(crate) fn flow<'a>(context: &mut Context<'a>, root: &'a Node) -> Option<Flow> {
    let fields = context.fields(root, NAMES)?;
    let id = context.required(&fields, "a flow", "id").and_then(|node| context.flow_id(node));
    let namespace = context.required(&fields, "a flow", "namespace").and_then(|node| {
        let text = context.literal(node, "namespace")?;
        context.check_id(node, text, NAMESPACE)
    });
    context.own = FlowRef::new(namespace.clone().unwrap_or_default(), id.clone().unwrap_or_default());
    context.plugin_defaults(&fields);
    // Inputs come first because everything else may name them.
    let inputs = fields.get("inputs").map(|node| context.input_defs(node)).unwrap_or_default();
    let tasks = top_tasks(context, &fields);
    let errors = handler(context, &fields, "errors");
    let finally = handler(context, &fields, "finally");
    let after = handler(context, &fields, "afterExecution");
    let flow = Flow {
        ir_version: IR_VERSION,
        id: id.unwrap_or_default(),
        namespace: namespace.unwrap_or_default(),
        description: fields.get("description").and_then(|node| context.text(node, "description")).map(str::to_owned),
        labels: fields.get("labels").map(|node| context.labels(node, Owner::Flow)).unwrap_or_default(),
        inputs,
        variables: variables(context, &fields),
        tasks,
        errors,
        finally,
        after,
        outputs: fields.get("outputs").map(|node| context.output_defs(node)).unwrap_or_default(),
        triggers: fields.get("triggers").map(|node| context.triggers(node)).unwrap_or_default(),
        lane: context.lane_of(&fields),
        retry: fields.get("retry").and_then(|node| context.retry(node)),
        disabled: context.flag(&fields, "disabled", false),
        idempotency: fields.get("idempotency").and_then(|node| context.idempotency(node)),
        sla: context.slas(&fields),
        checks: context.checks(&fields),
        dialect: Dialect::Kestra,
        conductor: None,
    };
    Some(flow)
}

fn top_tasks<'a>(context: &mut Context<'a>, fields: &Fields<'a>) -> Vec<Task> {
    match fields.entry("tasks") {
        None => {
            context.missing(fields, "a flow", "tasks");
            Vec::new()
        }
        Some(entry) => context.task_list(entry, "tasks"),
    }
}

fn handler<'a>(context: &mut Context<'a>, fields: &Fields<'a>, name: &str) -> Vec<Task> {
    let Some(entry) = fields.entry(name) else { return Vec::new() };
    context.sometimes(name == "errors", |context| context.maybe_tasks(entry, name))
}

fn variables<'a>(context: &mut Context<'a>, fields: &Fields<'a>) -> Json {
    let empty = Json::Object(serde_json::Map::new());
    let Some(node) = fields.get("variables") else { return empty };
    if context.map(node, "`variables`").is_none() {
        return empty;
    }
    context.during(Moment::Whole, |context| context.tree(node))
}
