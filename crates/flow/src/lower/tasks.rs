//! Tasks: the properties every type has, and the choice of type.

use super::fields::{Fields, Names};
use super::ids::TASK_ID;
use super::structural::Shape;
use super::values::short;
use super::{Context, Moment, TaskPlace};
use crate::codes;
use crate::diagnostic::Finding;
use crate::suggest;
use crate::yaml::{Entry, Node, Scalar};
use semel_core::ir::{CacheSpec, EffectSpec, LeafMode, Retry, Task, TaskKind, TaskSpec};

/// Properties of every task.
pub(crate) const COMMON: &[&str] = &[
    "id",
    "type",
    "description",
    "retry",
    "timeout",
    "disabled",
    "runIf",
    "allowFailure",
    "allowWarning",
    "logLevel",
    "effect",
    "on_doubt",
    "onDoubt",
];
/// Properties of every task in Kestra that this build does not have.
pub(crate) const NOT_BUILT: &[&str] = &["workerGroup", "logToFile", "taskCache", "version", "assets", "conditions"];
/// As [`NOT_BUILT`], with what only some tasks without tasks of their own have there.
const LEAF_NOT_BUILT: &[&str] =
    &["workerGroup", "logToFile", "taskCache", "version", "assets", "conditions", "dependencies", "encryptBody"];
pub(crate) const LOG_LEVELS: &[&str] = &["TRACE", "DEBUG", "INFO", "WARN", "ERROR"];

/// What a task's `type` names.
enum Kind<'a> {
    Structural(Shape),
    Leaf(&'a TaskSpec),
}

impl<'a> Context<'a> {
    /// A list of tasks that must not be empty.
    pub fn task_list(&mut self, entry: &'a Entry, name: &str) -> Vec<Task> {
        if entry.value.is_null() || entry.value.items().is_some_and(<[Node]>::is_empty) {
            self.error(codes::EMPTY_TASKS, &entry.key_at, format!("`{name}` holds no task"));
        }
        self.maybe_tasks(entry, name)
    }

    /// A list of tasks where none is a choice: a case that does nothing, a handler that was emptied.
    pub fn maybe_tasks(&mut self, entry: &'a Entry, name: &str) -> Vec<Task> {
        let node = &entry.value;
        let items = match node.items() {
            Some(items) => items,
            None if node.is_null() => &[],
            None => {
                let message = format!("`{name}` must be a list of tasks, not {}", node.shape());
                let finding = Finding::error(codes::WRONG_TYPE, node.at.clone(), message).expected("a list of tasks");
                let single = node.entries().is_some_and(|entries| entries.iter().any(|entry| entry.key == "id"));
                self.report(finding.maybe_suggest(single.then(|| "put `- ` before each task".to_owned())));
                return Vec::new();
            }
        };
        items.iter().filter_map(|item| self.task(item)).collect()
    }

    pub fn task(&mut self, node: &'a Node) -> Option<Task> {
        let raw = self.map(node, "a task")?;
        let order = self.tasks.len();
        let id = self.required(&raw, "a task", "id").and_then(|node| self.task_id(node, order));
        let type_node = self.required(&raw, "a task", "type");
        let kind = type_node.and_then(|node| self.task_type(node));
        let disabled = raw.get("disabled").is_some_and(|node| node.to_json() == true);
        let conditional = raw.get("runIf").is_some() || disabled;
        self.during(Moment::Task(order), |context| {
            context.sometimes(conditional, |context| match kind? {
                Kind::Structural(shape) => context.structural_task(id, node, shape),
                Kind::Leaf(spec) => context.leaf_task(id, node, spec),
            })
        })
    }

    fn task_id(&mut self, node: &'a Node, order: usize) -> Option<String> {
        let id = self.id(node, TASK_ID)?;
        if let Some(first) = self.tasks.get(&id) {
            let message = format!("two tasks have the id `{id}`; ids are unique in the whole flow");
            let finding = Finding::error(codes::DUPLICATE_ID, node.at.clone(), message);
            let finding = finding.related(first.at.clone(), "first used here");
            self.report(finding);
            return None;
        }
        self.tasks.insert(id.clone(), TaskPlace { at: node.at.clone(), order });
        Some(id)
    }

    fn task_type(&mut self, node: &'a Node) -> Option<Kind<'a>> {
        let text = self.literal(node, "type")?;
        let catalog = self.catalog;
        if let Some(shape) = Shape::named(text) {
            return Some(Kind::Structural(shape));
        }
        if let Some(spec) = catalog.find(text) {
            return Some(Kind::Leaf(spec));
        }
        let known: Vec<&str> =
            Shape::NAMES.iter().copied().chain(catalog.specs().iter().map(|spec| spec.name)).collect();
        let short_name = text.strip_prefix("io.kestra.plugin.core.").unwrap_or(text);
        // Someone who writes `Log` or `log` means the one type with that last part.
        let tail = known
            .iter()
            .copied()
            .find(|name| name.rsplit('.').next().is_some_and(|tail| tail.eq_ignore_ascii_case(short_name)));
        let near = suggest::nearest(short_name, known.iter().copied()).or(tail);
        let message = match text.starts_with("io.kestra.") && near.is_none() {
            true => format!("this build has no task type `{}` of Kestra", short(text)),
            false => format!("no task type `{}`", short(text)),
        };
        let finding = Finding::error(codes::UNKNOWN_TYPE, node.at.clone(), message);
        self.report(match near {
            Some(name) => finding.suggest(format!("did you mean `{name}`?")),
            None => finding.expected(format!("one of: {}", known.join(", "))),
        });
        None
    }

    fn leaf_task(&mut self, id: Option<String>, node: &'a Node, spec: &'a TaskSpec) -> Option<Task> {
        let own: Vec<&str> = spec.fields.iter().map(|field| field.name).collect();
        // What works on keys would find them changed, or must change them again.
        let cache: &[&str] = if spec.mode == LeafMode::Op { &[] } else { &["taskCache"] };
        let names = Names { what: spec.name, allowed: &[&own, COMMON, cache], not_built: LEAF_NOT_BUILT };
        let fields = self.fields(node, names)?;
        if spec.mode != LeafMode::Effect && fields.get("timeout").is_some() {
            let message = format!("{} is computed at once, so `timeout` changes nothing here", spec.name);
            self.report(Finding::warning(codes::NO_EFFECT, fields.key_at("timeout"), message));
        }
        if spec.mode == LeafMode::Inline {
            self.idle_cache(&fields, spec.name);
        }
        let effect = self.effect(&fields);
        let config = self.leaf_config(&fields, spec);
        let retry = self.own_retry(&fields);
        let task = self.common(id, &fields, spec.name, effect, TaskKind::Leaf { mode: spec.mode, config });
        task.map(|task| Task { retry, ..task })
    }

    fn structural_task(&mut self, id: Option<String>, node: &'a Node, shape: Shape) -> Option<Task> {
        let allowed: &[&[&str]] = &[shape.own_fields(), COMMON, &["taskCache"]];
        let names = Names { what: shape.name(), allowed, not_built: shape.not_built() };
        let fields = self.fields(node, names)?;
        self.idle_cache(&fields, shape.name());
        for name in ["effect", "on_doubt", "onDoubt"].into_iter().filter(|name| fields.get(name).is_some()) {
            let message = format!("{} has no effect of its own, so `{name}` changes nothing here", shape.name());
            self.report(Finding::warning(codes::NO_EFFECT, fields.key_at(name), message));
        }
        if let (Some(_), false) = (fields.get("timeout"), shape.has_timeout()) {
            let message = format!("`timeout` changes nothing at {}: it holds for tasks that do work", shape.name());
            let finding = Finding::warning(codes::NO_EFFECT, fields.key_at("timeout"), message);
            self.report(finding.suggest("put `timeout` on the tasks that do the work"));
        }
        let retry = self.own_retry(&fields);
        // A group does nothing that could be tried again: what it says is for the tasks in it.
        let (own, within) = if shape.has_retry() { (retry, self.retry.clone()) } else { (None, retry) };
        let around = std::mem::replace(&mut self.retry, within);
        let kind = self.structural(&fields, shape);
        self.retry = around;
        let task = self.common(id, &fields, shape.name(), EffectSpec::default(), kind?);
        task.map(|task| Task { retry: own, ..task })
    }

    /// The task's own `retry`, or that of a group around it.
    fn own_retry(&mut self, fields: &Fields<'a>) -> Option<Retry> {
        match fields.get("retry") {
            Some(node) => self.retry(node),
            None => self.retry.clone(),
        }
    }

    /// What is computed on the spot comes out the same from the same, and a group asks for nothing itself.
    fn idle_cache(&mut self, fields: &Fields<'a>, what: &str) {
        if fields.get("taskCache").is_some() {
            let message = format!("{what} asks the outside for nothing, so `taskCache` saves nothing here");
            self.report(Finding::warning(codes::NO_EFFECT, fields.key_at("taskCache"), message));
        }
    }

    fn cache(&mut self, node: &'a Node) -> Option<CacheSpec> {
        let names = Names { what: "`taskCache`", allowed: &[&["enabled", "ttl"]], not_built: &[] };
        let fields = self.fields(node, names)?;
        self.required(&fields, "`taskCache`", "enabled");
        let ttl_ms = fields.get("ttl").and_then(|node| self.positive_duration(node, "ttl"));
        self.flag(&fields, "enabled", false).then_some(CacheSpec { ttl_ms, key: None })
    }

    fn common(
        &mut self,
        id: Option<String>,
        fields: &Fields<'a>,
        type_name: &str,
        effect: EffectSpec,
        kind: TaskKind,
    ) -> Option<Task> {
        if let Some(node) = fields.get("description") {
            self.text(node, "description");
        }
        if let Some(node) = fields.get("logLevel") {
            self.word(node, "logLevel", LOG_LEVELS);
        }
        let remembers = matches!(&kind, TaskKind::Leaf { mode: LeafMode::Effect, .. });
        let limit = fields.get("timeout");
        let waits = matches!(&kind, TaskKind::Leaf { mode: LeafMode::Effect, .. } | TaskKind::Pause(_));
        let later = waits && limit.and_then(Node::scalar).is_some_and(Scalar::is_template);
        let written = fields.get("type").and_then(Node::scalar).map(|scalar| scalar.text.as_str());
        Some(Task {
            type_name: type_name.to_owned(),
            written_type: written.filter(|text| *text != type_name).map(str::to_owned),
            kind,
            run_if: fields.get("runIf").and_then(|node| self.template(node, "runIf")),
            retry: None,
            timeout_ms: limit.filter(|_| !later).and_then(|node| self.positive_duration(node, "timeout")),
            timeout: limit.filter(|_| later).and_then(|node| self.template(node, "timeout")),
            disabled: self.flag(fields, "disabled", false),
            allow_failure: self.flag(fields, "allowFailure", false),
            allow_warning: self.flag(fields, "allowWarning", false),
            effect,
            // Decided when all expressions are known.
            keep_output: true,
            cache: fields.get("taskCache").and_then(|node| self.cache(node)).filter(|_| remembers),
            conductor: None,
            id: id?,
        })
    }
}
