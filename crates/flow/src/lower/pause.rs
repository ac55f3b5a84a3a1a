//! `flow.Pause`, where a run stands still until somebody resumes it, and `flow.Approval`, where somebody decides.

use super::Context;
use super::fields::{Fields, Names};
use crate::codes;
use crate::diagnostic::Finding;
use semel_core::ir::{
    AfterReview, CommentRequired, Group, InputDef, OnTime, PauseSpec, ReviewSpec, TaskKind, Template,
};

pub(crate) const FIELDS: &[&str] =
    &["pauseDuration", "delay", "behavior", "onResume", "onPause", "tasks", "errors", "finally"];

pub(crate) const APPROVAL: &[&str] = &[
    "inputs",
    "decisions",
    "commentRequired",
    "autoApprove",
    "approveBehavior",
    "denyBehavior",
    "expireBehavior",
    "onWait",
    "onApprove",
    "onDeny",
    "errors",
    "finally",
];

/// Of Kestra's enterprise edition.
pub(crate) const APPROVAL_NOT_BUILT: &[&str] =
    &["version", "conditions", "workerGroup", "logToFile", "title", "assignment", "case", "inAppNotification"];

const DECISIONS: Names = Names { what: "`decisions`", allowed: &[&["approve", "deny"]], not_built: &[] };

impl<'a> Context<'a> {
    pub fn pause(&mut self, fields: &Fields<'a>) -> Option<TaskKind> {
        if fields.get("pauseDuration").is_some() && fields.get("delay").is_some() {
            let message = "`delay` is the old name of `pauseDuration`; give one of them";
            self.report(Finding::error(codes::CONFLICT, fields.key_at("delay"), message));
        }
        let name = if fields.get("pauseDuration").is_some() { "pauseDuration" } else { "delay" };
        let duration = fields.get(name).and_then(|node| self.wait(node, name));
        let behavior = self.word_or_template(fields, "behavior", &OnTime::ALL.map(OnTime::word), OnTime::Resume.word());
        let on_resume = self.resume_inputs(fields, "onResume");
        let on_pause = fields.get("onPause").and_then(|node| self.task(node)).into_iter().collect();
        let tasks = self.optional_tasks(fields, "tasks");
        let errors = self.optional_tasks(fields, "errors");
        let finally = self.optional_tasks(fields, "finally");
        let group = Group { tasks, errors, finally };
        Some(TaskKind::Pause(PauseSpec { duration, behavior, on_resume, on_pause, review: None, group }))
    }

    /// How long it waits is its `timeout`.
    pub fn approval(&mut self, fields: &Fields<'a>) -> Option<TaskKind> {
        self.decision_names(fields);
        let behavior = |context: &mut Self, name, usual: AfterReview| {
            context.word_or_template(fields, name, AfterReview::WORDS, usual.word())
        };
        let approved = behavior(self, "approveBehavior", AfterReview::Continue);
        let denied = behavior(self, "denyBehavior", AfterReview::Cancel);
        let expired = behavior(self, "expireBehavior", AfterReview::Cancel);
        let never = CommentRequired::Never.word();
        let comment = self.word_or_template(fields, "commentRequired", CommentRequired::WORDS, never);
        let auto = self.word_or_template(fields, "autoApprove", &["true", "false"], "false");
        let on_resume = self.resume_inputs(fields, "inputs");
        let on_pause = self.optional_tasks(fields, "onWait");
        let tasks = self.optional_tasks(fields, "onApprove");
        let on_deny = self.optional_tasks(fields, "onDeny");
        let errors = self.optional_tasks(fields, "errors");
        let finally = self.optional_tasks(fields, "finally");
        let review = Some(Box::new(ReviewSpec { on_deny, approved, denied, expired, comment, auto }));
        let (group, behavior) = (Group { tasks, errors, finally }, OnTime::Resume.word().to_owned());
        Some(TaskKind::Pause(PauseSpec { duration: None, behavior, on_resume, on_pause, review, group }))
    }

    /// What the two answers are called where somebody sees them; nothing else depends on it.
    fn decision_names(&mut self, fields: &Fields<'a>) {
        let Some(names) = fields.get("decisions").and_then(|node| self.fields(node, DECISIONS)) else { return };
        for name in ["approve", "deny"] {
            if let Some(node) = names.get(name) {
                self.template(node, name);
            }
        }
    }

    fn word_or_template(
        &mut self,
        fields: &Fields<'a>,
        name: &str,
        words: &[&'static str],
        usual: &'static str,
    ) -> Template {
        let found = fields.get(name).and_then(|node| match node.scalar() {
            Some(scalar) if scalar.is_template() => self.template(node, name),
            _ => self.word(node, name, words).map(str::to_owned),
        });
        found.unwrap_or_else(|| usual.to_owned())
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
