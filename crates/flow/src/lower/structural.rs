//! Task types that hold other tasks or steer the run.

use super::Context;
use super::fields::Fields;
use super::for_each_item::part;
use super::tasks::NOT_BUILT;
use super::values::short;
use crate::codes;
use crate::diagnostic::Finding;
use crate::yaml::Node;
use indexmap::IndexMap;
use semel_core::duration;
use semel_core::ir::{
    DIRECTORY_CACHE, FILES_PART, FieldKind, Group, KEEP_PART, LeafMode, NAMESPACE_FILES, Task, TaskKind, Template,
};
use serde_json::Value as Json;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Sequential,
    Parallel,
    If,
    Switch,
    ForEach,
    /// Old forms of ForEach, which name their list `value`.
    EachSequential,
    EachParallel,
    AllowFailure,
    WorkingDirectory,
    Dag,
    LoopUntil,
    Loop,
    Exit,
    Sleep,
    Pause,
    Approval,
    Subflow,
    ForEachItem,
}

/// Of a working directory.
const FILES_NOT_BUILT: &[&str] = &["workerGroup", "logToFile"];

const PREFIXES: &[&str] = &["io.kestra.plugin.core.flow.", "io.kestra.core.tasks.flows.", "flow."];

impl Shape {
    /// The names to suggest.
    pub const NAMES: &[&str] = &[
        "flow.Sequential",
        "flow.Parallel",
        "flow.If",
        "flow.Switch",
        "flow.ForEach",
        "flow.AllowFailure",
        "flow.WorkingDirectory",
        "flow.Dag",
        "flow.LoopUntil",
        "flow.Loop",
        "flow.Sleep",
        "flow.Pause",
        "flow.Approval",
        "flow.Subflow",
        "flow.ForEachItem",
        "execution.Exit",
    ];

    pub fn named(type_name: &str) -> Option<Shape> {
        if matches!(type_name, "execution.Exit" | "io.kestra.plugin.core.execution.Exit") {
            return Some(Shape::Exit);
        }
        let name = PREFIXES.iter().find_map(|prefix| type_name.strip_prefix(prefix))?;
        match name {
            "Sequential" => Some(Shape::Sequential),
            "Parallel" => Some(Shape::Parallel),
            "If" => Some(Shape::If),
            "Switch" => Some(Shape::Switch),
            "ForEach" => Some(Shape::ForEach),
            "EachSequential" => Some(Shape::EachSequential),
            "EachParallel" => Some(Shape::EachParallel),
            "AllowFailure" => Some(Shape::AllowFailure),
            "WorkingDirectory" => Some(Shape::WorkingDirectory),
            "Dag" => Some(Shape::Dag),
            "LoopUntil" | "WaitFor" => Some(Shape::LoopUntil),
            "Loop" => Some(Shape::Loop),
            "Sleep" => Some(Shape::Sleep),
            "Pause" => Some(Shape::Pause),
            "Approval" => Some(Shape::Approval),
            "Subflow" => Some(Shape::Subflow),
            "ForEachItem" => Some(Shape::ForEachItem),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Shape::Sequential => "flow.Sequential",
            Shape::Parallel => "flow.Parallel",
            Shape::If => "flow.If",
            Shape::Switch => "flow.Switch",
            Shape::ForEach | Shape::EachSequential | Shape::EachParallel => "flow.ForEach",
            Shape::AllowFailure => "flow.AllowFailure",
            Shape::WorkingDirectory => "flow.WorkingDirectory",
            Shape::Dag => "flow.Dag",
            Shape::LoopUntil => "flow.LoopUntil",
            Shape::Loop => "flow.Loop",
            Shape::Exit => "execution.Exit",
            Shape::Sleep => "flow.Sleep",
            Shape::Pause => "flow.Pause",
            Shape::Approval => "flow.Approval",
            Shape::Subflow => "flow.Subflow",
            Shape::ForEachItem => "flow.ForEachItem",
        }
    }

    pub fn own_fields(self) -> &'static [&'static str] {
        match self {
            Shape::Sequential | Shape::AllowFailure => &["tasks", "errors", "finally"],
            Shape::WorkingDirectory => {
                &["tasks", "errors", "finally", "inputFiles", "outputFiles", "namespaceFiles", "cache"]
            }
            Shape::Dag => &["tasks", "errors", "finally", "concurrent"],
            Shape::LoopUntil => super::loops::UNTIL,
            Shape::Loop => super::loops::LOOP,
            Shape::Exit => &["state"],
            Shape::Parallel => &["tasks", "errors", "finally", "concurrent"],
            Shape::If => &["condition", "then", "else", "errors", "finally"],
            Shape::Switch => &["value", "cases", "defaults", "errors", "finally"],
            Shape::ForEach => &["values", "concurrencyLimit", "tasks", "errors", "finally"],
            Shape::EachSequential => &["value", "tasks", "errors", "finally"],
            Shape::EachParallel => &["value", "concurrent", "tasks", "errors", "finally"],
            Shape::Sleep => &["duration"],
            Shape::Pause => super::pause::FIELDS,
            Shape::Approval => super::pause::APPROVAL,
            Shape::Subflow => super::subflow::FIELDS,
            Shape::ForEachItem => super::for_each_item::FIELDS,
        }
    }

    /// `timeout` means something here. A group has none of its own yet.
    pub fn has_timeout(self) -> bool {
        matches!(self, Shape::Subflow | Shape::Pause | Shape::Approval | Shape::Sleep)
    }

    /// `retry` means something here.
    pub fn has_retry(self) -> bool {
        matches!(self, Shape::Subflow | Shape::Sleep)
    }

    pub fn not_built(self) -> &'static [&'static str] {
        match self {
            Shape::Subflow => super::subflow::NOT_BUILT,
            Shape::WorkingDirectory => FILES_NOT_BUILT,
            Shape::Approval => super::pause::APPROVAL_NOT_BUILT,
            _ => NOT_BUILT,
        }
    }
}

impl<'a> Context<'a> {
    pub fn structural(&mut self, fields: &Fields<'a>, shape: Shape) -> Option<TaskKind> {
        match shape {
            Shape::Sequential => Some(TaskKind::Sequential(self.group(fields, shape)?)),
            Shape::Parallel => self.parallel(fields),
            Shape::If => self.if_task(fields),
            Shape::Switch => self.switch(fields),
            Shape::ForEach | Shape::EachSequential | Shape::EachParallel => {
                // A loop over nothing runs nothing.
                self.sometimes(true, |context| context.for_each(fields, shape))
            }
            Shape::AllowFailure => Some(TaskKind::AllowFailure(self.group(fields, shape)?)),
            Shape::WorkingDirectory => self.working_directory(fields),
            Shape::Dag => self.dag(fields),
            Shape::LoopUntil => self.loop_until(fields),
            Shape::Loop => self.sometimes(true, |context| context.own_loop(fields)),
            Shape::Exit => self.exit(fields),
            Shape::Sleep => self.sleep(fields),
            Shape::Pause => self.pause(fields),
            Shape::Approval => self.approval(fields),
            Shape::Subflow => self.subflow(fields, shape.name()).map(TaskKind::Subflow),
            // A file without rows runs nothing.
            Shape::ForEachItem => self.sometimes(true, |context| context.for_each_item(fields)),
        }
    }

    /// A field that must hold tasks.
    pub fn required_tasks(&mut self, fields: &Fields<'a>, what: &str, name: &str) -> Option<Vec<Task>> {
        match fields.entry(name) {
            Some(entry) => Some(self.task_list(entry, name)),
            None => {
                self.missing(fields, what, name);
                None
            }
        }
    }

    pub fn optional_tasks(&mut self, fields: &Fields<'a>, name: &str) -> Vec<Task> {
        let Some(entry) = fields.entry(name) else { return Vec::new() };
        self.sometimes(name != "finally", |context| context.maybe_tasks(entry, name))
    }

    pub fn group(&mut self, fields: &Fields<'a>, shape: Shape) -> Option<Group> {
        let tasks = self.required_tasks(fields, shape.name(), "tasks");
        let errors = self.optional_tasks(fields, "errors");
        let finally = self.optional_tasks(fields, "finally");
        Some(Group { tasks: tasks?, errors, finally })
    }

    /// The files it is given are put there by a task of its own, before the others.
    fn working_directory(&mut self, fields: &Fields<'a>) -> Option<TaskKind> {
        let mut config = serde_json::Map::new();
        config.extend(fields.get("inputFiles").map(|node| ("inputs".to_owned(), self.tree(node))));
        if let Some(node) = fields.get("namespaceFiles") {
            let wanted = self.value(node, "namespaceFiles", FieldKind::Object(NAMESPACE_FILES));
            config.extend(wanted.map(|wanted| ("namespaceFiles".to_owned(), wanted)));
        }
        let cache = fields.get("cache").and_then(|node| self.value(node, "cache", FieldKind::Object(DIRECTORY_CACHE)));
        let cache = cache.zip(fields.get("id")).map(|(mut cache, id)| {
            // In a loop each value has one of its own.
            let id = id.scalar().map(|scalar| scalar.text.as_str()).unwrap_or_default();
            cache["of"] = Json::String(format!("{id}{{{{ taskrun.value is defined ? '/' ~ taskrun.value : '' }}}}"));
            cache
        });
        config.extend(cache.clone().map(|cache| ("cache".to_owned(), cache)));
        let last = cache.zip(fields.get("id")).map(|(cache, id)| {
            let config = serde_json::json!({ "keep": cache });
            let name = self.part_id(id, KEEP_PART);
            part(name, "storage.LocalFiles", TaskKind::Leaf { mode: LeafMode::Effect, config })
        });
        let first = match fields.get("id").filter(|_| !config.is_empty()) {
            Some(id) => {
                let config = Json::Object(config);
                let name = self.part_id(id, FILES_PART);
                Some(part(name, "storage.LocalFiles", TaskKind::Leaf { mode: LeafMode::Effect, config }))
            }
            None => None,
        };
        let mut output_files = Vec::new();
        if let Some(node) = fields.get("outputFiles") {
            let patterns = node.items().unwrap_or(std::slice::from_ref(node));
            output_files.extend(patterns.iter().filter_map(|node| self.template(node, "outputFiles")));
        }
        let mut group = self.group(fields, Shape::WorkingDirectory)?;
        group.tasks.splice(0..0, first);
        group.tasks.extend(last);
        Some(TaskKind::WorkingDirectory { output_files, group })
    }

    fn parallel(&mut self, fields: &Fields<'a>) -> Option<TaskKind> {
        let most = self.limits.parallel_branches_max;
        let concurrent = match fields.get("concurrent") {
            Some(node) => self.count(node, "concurrent", 0, most).unwrap_or(0),
            None => 0,
        };
        let group = self.group(fields, Shape::Parallel)?;
        if concurrent == 0 && group.tasks.len() > most as usize {
            let message = format!("{} tasks would run at once; at most {most} may", group.tasks.len());
            let finding = Finding::error(codes::LIMIT, fields.key_at("tasks"), message);
            self.report(finding.suggest("set `concurrent` to a smaller number"));
        }
        Some(TaskKind::Parallel { concurrent, group })
    }

    fn if_task(&mut self, fields: &Fields<'a>) -> Option<TaskKind> {
        let condition = self.required(fields, "flow.If", "condition");
        let condition = condition.and_then(|node| self.template(node, "condition"));
        let then = self.sometimes(true, |context| context.required_tasks(fields, "flow.If", "then"));
        let otherwise = self.optional_tasks(fields, "else");
        let errors = self.optional_tasks(fields, "errors");
        let finally = self.optional_tasks(fields, "finally");
        Some(TaskKind::If { condition: condition?, then: then?, otherwise, errors, finally })
    }

    fn switch(&mut self, fields: &Fields<'a>) -> Option<TaskKind> {
        let value = self.required(fields, "flow.Switch", "value").and_then(|node| self.template(node, "value"));
        let mut cases = IndexMap::new();
        match fields.get("cases") {
            Some(node) => {
                let map = self.map(node, "`cases`")?;
                for entry in map.entries() {
                    let name = format!("cases.{}", short(&entry.key));
                    let tasks = self.sometimes(true, |context| context.maybe_tasks(entry, &name));
                    cases.insert(entry.key.clone(), tasks);
                }
                if map.entries().is_empty() {
                    self.error(codes::EMPTY_TASKS, &fields.key_at("cases"), "`cases` holds no case");
                }
            }
            None => self.missing(fields, "flow.Switch", "cases"),
        }
        let defaults = fields.get("defaults").map(|_| self.optional_tasks(fields, "defaults"));
        let errors = self.optional_tasks(fields, "errors");
        let finally = self.optional_tasks(fields, "finally");
        Some(TaskKind::Switch { value: value?, cases, defaults, errors, finally })
    }

    fn for_each(&mut self, fields: &Fields<'a>, shape: Shape) -> Option<TaskKind> {
        let (list, limit, default) = match shape {
            Shape::EachSequential => ("value", "", 1),
            Shape::EachParallel => ("value", "concurrent", 0),
            _ => ("values", "concurrencyLimit", 1),
        };
        let values = self.required(fields, "flow.ForEach", list).and_then(|node| self.loop_values(node, list));
        let concurrent = match fields.get(limit) {
            Some(node) => self.count(node, limit, 0, self.limits.parallel_branches_max).unwrap_or(default),
            None => default,
        };
        let group = self.group(fields, shape);
        Some(TaskKind::ForEach { values: values?, concurrent, group: group? })
    }

    /// A list, JSON text of a list, or an expression that gives one of them.
    pub fn loop_values(&mut self, node: &'a Node, name: &str) -> Option<Json> {
        let most = self.limits.foreach_items_max as usize;
        let count = match (node.items(), node.scalar()) {
            (Some(items), _) => items.len(),
            (None, Some(scalar)) if scalar.is_template() => 0,
            (None, Some(scalar)) => match serde_json::from_str::<Vec<Json>>(&scalar.text) {
                Ok(items) => items.len(),
                Err(_) => {
                    self.wrong_type(node, name, "a list, JSON text of a list, or an expression");
                    return None;
                }
            },
            (None, None) => {
                self.wrong_type(node, name, "a list, JSON text of a list, or an expression");
                return None;
            }
        };
        if count > most {
            self.error(codes::LIMIT, &node.at, format!("a loop over {count} items; at most {most} are allowed"));
        }
        Some(self.tree(node))
    }

    fn sleep(&mut self, fields: &Fields<'a>) -> Option<TaskKind> {
        let node = self.required(fields, "flow.Sleep", "duration")?;
        Some(TaskKind::Sleep { duration: self.wait(node, "duration")? })
    }

    /// A duration, or an expression that gives one.
    pub fn wait(&mut self, node: &'a Node, name: &str) -> Option<Template> {
        match node.scalar().is_some_and(|scalar| scalar.is_template()) {
            true => self.template(node, name),
            false => Some(duration::print_ms(self.duration(node, name)?)),
        }
    }
}
