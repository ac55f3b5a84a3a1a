//! `flow.Pause`: where a run stands still until somebody resumes it.

use super::Context;
use super::fields::Fields;
use crate::codes;
use crate::diagnostic::Finding;
use semel_core::ir::{Group, InputDef, OnTime, PauseSpec, TaskKind, Template};

pub(crate) const FIELDS: &[&str] =
    &["pauseDuration", "delay", "behavior", "onResume", "onPause", "tasks", "errors", "finally"];

impl<'a> Context<'a> {
    pub fn pause(&mut self, fields: &Fields<'a>) -> Option<TaskKind> {
        if fields.get("pauseDuration").is_some() && fields.get("delay").is_some() {
            let message = "`delay` is the old name of `pauseDuration`; give one of them";
            self.report(Finding::error(codes::CONFLICT, fields.key_at("delay"), message));
        }
        let name = if fields.get("pauseDuration").is_some() { "pauseDuration" } else { "delay" };
        let duration = fields.get(name).and_then(|node| self.wait(node, name));
        let behavior = self.behavior(fields);
        let on_resume = self.resume_inputs(fields, "onResume");
        let on_pause = fields.get("onPause").and_then(|node| self.task(node)).into_iter().collect();
        let tasks = self.optional_tasks(fields, "tasks");
        let errors = self.optional_tasks(fields, "errors");
        let finally = self.optional_tasks(fields, "finally");
        let group = Group { tasks, errors, finally };
        Some(TaskKind::Pause(PauseSpec { duration, behavior, on_resume, on_pause, group }))
    }

    fn behavior(&mut self, fields: &Fields<'a>) -> Template {
        let found = fields.get("behavior").and_then(|node| match node.scalar() {
            Some(scalar) if scalar.is_template() => self.template(node, "behavior"),
            _ => self.word(node, "behavior", &OnTime::ALL.map(OnTime::word)).map(str::to_owned),
        });
        found.unwrap_or_else(|| OnTime::Resume.word().to_owned())
    }

    /// What whoever resumes the run may say. These are no inputs of the flow.
    pub fn resume_inputs(&mut self, fields: &Fields<'a>, name: &str) -> Vec<InputDef> {
        let Some(node) = fields.get(name) else { return Vec::new() };
        let (inputs, roots) = (self.inputs.clone(), self.input_roots.clone());
        let found = self.input_defs(node);
        (self.inputs, self.input_roots) = (inputs, roots);
        found
    }
}
