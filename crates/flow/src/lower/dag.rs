//! `flow.Dag`: tasks that start when what they depend on is done.

use super::Context;
use super::fields::{Fields, Names};
use super::values::short;
use crate::codes;
use crate::diagnostic::Finding;
use crate::suggest;
use crate::yaml::Node;
use indexmap::IndexMap;
use semel_core::ir::{Group, Task, TaskKind};

const ENTRY: Names = Names { what: "a task of flow.Dag", allowed: &[&["task", "dependsOn"]], not_built: &[] };

impl<'a> Context<'a> {
    pub fn dag(&mut self, fields: &Fields<'a>) -> Option<TaskKind> {
        let most = self.limits.parallel_branches_max;
        let concurrent = fields.get("concurrent").and_then(|node| self.count(node, "concurrent", 0, most)).unwrap_or(0);
        let node = self.required(fields, "flow.Dag", "tasks");
        let items = node.and_then(|node| self.list(node, "tasks")).unwrap_or_default();
        if node.is_some() && items.is_empty() {
            self.error(codes::EMPTY_TASKS, &fields.key_at("tasks"), "`tasks` holds no task");
        }
        let (mut tasks, mut depends, mut places) = (Vec::new(), IndexMap::new(), Vec::new());
        for item in items {
            let Some(entry) = self.fields(item, ENTRY) else { continue };
            let task = self.required(&entry, ENTRY.what, "task").and_then(|node| self.task(node));
            let needs = self.depends_on(&entry);
            let Some(task) = task else { continue };
            places.extend(needs.iter().map(|(needed, node)| (task.id.clone(), needed.clone(), *node)));
            depends.insert(task.id.clone(), needs.into_iter().map(|(id, _)| id).collect::<Vec<String>>());
            tasks.push(task);
        }
        self.check_needs(&tasks, &depends, &places);
        let errors = self.optional_tasks(fields, "errors");
        let finally = self.optional_tasks(fields, "finally");
        Some(TaskKind::Dag { concurrent, depends, group: Group { tasks, errors, finally } })
    }

    fn depends_on(&mut self, entry: &Fields<'a>) -> Vec<(String, &'a Node)> {
        let Some(node) = entry.get("dependsOn") else { return Vec::new() };
        let items = self.list(node, "dependsOn").unwrap_or_default();
        items.iter().filter_map(|item| Some((self.literal(item, "dependsOn")?.to_owned(), item))).collect()
    }

    fn check_needs(
        &mut self,
        tasks: &[Task],
        depends: &IndexMap<String, Vec<String>>,
        places: &[(String, String, &'a Node)],
    ) {
        let ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
        for (id, needed, node) in places {
            if !ids.contains(&needed.as_str()) {
                let message = format!("`{id}` depends on `{}`, which is no task of this flow.Dag", short(needed));
                let finding = Finding::error(codes::BAD_VALUE, node.at.clone(), message);
                self.report(finding.maybe_suggest(suggest::did_you_mean(needed, ids.iter().copied())));
            } else if reaches(depends, needed, id) {
                let message = format!("`{id}` and `{needed}` wait for each other, so neither would ever start");
                self.report(Finding::error(codes::BAD_VALUE, node.at.clone(), message));
            }
        }
    }
}

/// Whether `from` waits for `to`, by however many others.
fn reaches(depends: &IndexMap<String, Vec<String>>, from: &str, to: &str) -> bool {
    let mut seen = std::collections::HashSet::new();
    let mut open = vec![from];
    while let Some(id) = open.pop() {
        if id == to {
            return true;
        }
        if seen.insert(id) {
            open.extend(depends.get(id).into_iter().flatten().map(String::as_str));
        }
    }
    false
}
