//! `flow.ForEachItem`: a file is cut into batches, and another flow is started for each.
//!
//! It is made of three tasks, whose ids and outputs are those that Kestra shows: `_split` cuts the file, `_items` starts
//! the sub-runs and waits for them, `_merge` makes files of what they gave.

use super::fields::{Fields, Names};
use super::{Context, TaskPlace};
use crate::codes;
use crate::diagnostic::Finding;
use crate::yaml::Node;
use semel_core::ir::{
    BatchSpec, EffectSpec, FieldKind, FieldSpec, Group, ITEMS_PART, LeafMode, MERGE_PART, SPLIT_PART, Task, TaskKind,
};
use serde_json::{Value as Json, json};

const NAME: &str = "flow.ForEachItem";

pub(crate) const FIELDS: &[&str] = &[
    "items",
    "batch",
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
    "errors",
    "finally",
];

const fn size(name: &'static str, kind: FieldKind) -> FieldSpec {
    FieldSpec { name, kind, required: false, summary: "" }
}

const BATCH: &[FieldSpec] = &[
    size("rows", FieldKind::Int),
    size("partitions", FieldKind::Int),
    size("bytes", FieldKind::Text),
    size("separator", FieldKind::Text),
];

impl<'a> Context<'a> {
    pub fn for_each_item(&mut self, fields: &Fields<'a>) -> Option<TaskKind> {
        let items = self.required(fields, NAME, "items").and_then(|node| self.template(node, "items"));
        let batch = fields.get("batch").map(|node| self.batch(node));
        let subflow = self.subflow(fields, NAME);
        let id = fields.get("id")?;
        let [split, executable, merge] = ["_split", "_items", "_merge"].map(|ending| self.part_id(id, ending));
        let errors = self.optional_tasks(fields, "errors");
        let finally = self.optional_tasks(fields, "finally");
        let mut cut = json!({"items": items?});
        if let Some(batch) = batch {
            cut["batch"] = batch?;
        }
        let gather = json!({"items": executable});
        let batches = BatchSpec { split: split.clone(), subflow: subflow? };
        let leaf = |config: Json| TaskKind::Leaf { mode: LeafMode::Effect, config };
        let tasks = vec![
            part(split, SPLIT_PART, leaf(cut)),
            part(executable, ITEMS_PART, TaskKind::Batches(batches)),
            part(merge, MERGE_PART, leaf(gather)),
        ];
        Some(TaskKind::Sequential(Group { tasks, errors, finally }))
    }

    fn batch(&mut self, node: &'a Node) -> Option<Json> {
        let own: Vec<&str> = BATCH.iter().map(|field| field.name).collect();
        let names = Names { what: "`batch`", allowed: &[&own], not_built: &["regexPattern"] };
        let fields = self.fields(node, names)?;
        Some(Json::Object(self.object(&fields, "`batch`", BATCH)))
    }

    /// The id of a part, which is an id of the flow like any other.
    pub fn part_id(&mut self, id: &'a Node, ending: &str) -> String {
        let name = format!("{}{ending}", id.scalar().map(|scalar| scalar.text.as_str()).unwrap_or_default());
        if let Some(first) = self.tasks.get(&name) {
            let message = format!("a part of this task has the id `{name}`, and another task has it too");
            let finding = Finding::error(codes::DUPLICATE_ID, id.at.clone(), message);
            let finding = finding.related(first.at.clone(), "first used here");
            self.report(finding);
        } else {
            let order = self.tasks.len();
            self.tasks.insert(name.clone(), TaskPlace { at: id.at.clone(), order });
        }
        name
    }
}

pub(super) fn part(id: String, type_name: &str, kind: TaskKind) -> Task {
    Task {
        id,
        type_name: type_name.to_owned(),
        written_type: None,
        kind,
        run_if: None,
        retry: None,
        timeout_ms: None,
        timeout: None,
        disabled: false,
        allow_failure: false,
        allow_warning: false,
        effect: EffectSpec::default(),
        conductor: None,
        keep_output: true,
        cache: None,
    }
}
