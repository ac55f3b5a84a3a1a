//! flow.Subflow: a task that starts another flow.

use super::fields::Fields;
use super::ids::{FLOW_ID, NAMESPACE, Rule};
use super::labels::Owner;
use super::values::short;
use super::{Context, StaticSubflow};
use crate::templates;
use crate::yaml::Node;
use semel_core::FlowRef;
use semel_core::ir::SubflowSpec;
use serde_json::Value as Json;

pub(crate) const FIELDS: &[&str] = &[
    "namespace",
    "flowId",
    "revision",
    "inputs",
    "labels",
    "inheritLabels",
    "wait",
    "transmitFailed",
    "idempotencyKey",
    "scheduleDate",
    "restartBehavior",
    "outputs",
];
pub(crate) const NOT_BUILT: &[&str] = &["workerGroup", "logToFile", "taskCache", "version", "assets", "conditions"];

impl<'a> Context<'a> {
    /// `what` is the type of the task.
    pub fn subflow(&mut self, fields: &Fields<'a>, what: &str) -> Option<SubflowSpec> {
        let namespace_node = self.required(fields, what, "namespace");
        let flow_node = self.required(fields, what, "flowId");
        let namespace = namespace_node.and_then(|node| self.target_part(node, "namespace", NAMESPACE));
        let flow_id = flow_node.and_then(|node| self.target_part(node, "flowId", FLOW_ID));
        let inputs = match fields.get("inputs") {
            Some(node) => self.map(node, "`inputs`").map(|fields| self.tree(fields.node)),
            None => Some(Json::Object(serde_json::Map::new())),
        };
        let labels = fields.get("labels").map(|node| self.labels(node, Owner::Run)).unwrap_or_default();
        let revision = fields.get("revision").and_then(|node| self.count(node, "revision", 1, u32::MAX));
        let key = fields.get("idempotencyKey").and_then(|node| self.template(node, "idempotencyKey"));
        let inherit_labels = self.flag(fields, "inheritLabels", false);
        let wait = self.flag(fields, "wait", true);
        let transmit_failed = self.flag(fields, "transmitFailed", true);
        let schedule_date = fields.get("scheduleDate").and_then(|node| self.template(node, "scheduleDate"));
        let restart = fields.get("restartBehavior");
        let restart = restart.and_then(|node| self.word(node, "restartBehavior", &["RETRY_FAILED", "NEW_EXECUTION"]));
        let outputs = fields.get("outputs").and_then(|node| self.outputs_of_subflow(node));
        let (namespace, flow_id) = (namespace?, flow_id?);
        self.remember_target(&namespace, &flow_id, flow_node?);
        Some(SubflowSpec {
            namespace,
            flow_id,
            revision,
            inputs: inputs?,
            labels,
            inherit_labels,
            wait,
            transmit_failed,
            key,
            outputs: outputs.unwrap_or_default(),
            schedule_date,
            new_on_restart: restart == Some("NEW_EXECUTION"),
            terms: None,
        })
    }

    /// Templates that see the sub-run: what they name is known there.
    fn outputs_of_subflow(&mut self, node: &'a Node) -> Option<Json> {
        let fields = self.map(node, "`outputs`")?;
        let mut outputs = serde_json::Map::new();
        for entry in fields.entries() {
            let text = self.only_parsed(&entry.value, &format!("outputs.{}", short(&entry.key)))?;
            outputs.insert(entry.key.clone(), Json::String(text));
        }
        Some(Json::Object(outputs))
    }

    fn target_part(&mut self, node: &'a Node, name: &str, rule: Rule) -> Option<String> {
        let text = self.template(node, name)?;
        match node.scalar().is_some_and(|scalar| scalar.is_template()) {
            true => Some(text),
            false => self.check_id(node, &text, rule),
        }
    }

    /// Notes a target that is known without running anything.
    fn remember_target(&mut self, namespace: &str, flow_id: &str, node: &'a Node) {
        let own = self.own.clone();
        let namespace = fixed(namespace, "flow.namespace", &own.namespace);
        let flow_id = fixed(flow_id, "flow.id", &own.id);
        if let (Some(namespace), Some(id)) = (namespace, flow_id) {
            let target = FlowRef::new(namespace, id);
            self.subflows.push(StaticSubflow { target, at: node.at.clone(), conditional: self.conditional });
        }
    }
}

/// The text when it is static, or the flow's own part when it is just `{{ flow.namespace }}` or `{{ flow.id }}`.
fn fixed<'t>(text: &'t str, name: &str, own: &'t str) -> Option<&'t str> {
    if !templates::is_template(text) {
        return Some(text);
    }
    let inner = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
    (inner.trim() == name).then_some(own)
}
