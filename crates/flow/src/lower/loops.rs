//! `flow.LoopUntil`, `flow.Loop` and `execution.Exit`.

use super::fields::{Fields, Names};
use super::structural::Shape;
use super::{Context, Moment};
use crate::codes;
use crate::diagnostic::Finding;
use crate::yaml::Node;
use semel_core::duration;
use semel_core::ir::{ExitState, LoopSpec, TaskKind, UntilSpec};
use serde_json::Value as Json;

pub(crate) const UNTIL: &[&str] = &["condition", "tasks", "checkFrequency", "failOnMaxReached", "errors", "finally"];
pub(crate) const LOOP: &[&str] = &[
    "values",
    "concurrencyLimit",
    "transmitFailed",
    "outputs",
    "fetchType",
    "breakWhen",
    "tasks",
    "errors",
    "finally",
];
const FREQUENCY: Names =
    Names { what: "`checkFrequency`", allowed: &[&["interval", "maxIterations", "maxDuration"]], not_built: &[] };
/// Between two rounds, where the author does not say.
const INTERVAL_MS: i64 = 60_000;
/// The same, and the bounds, of a loop that has its old name.
const OLD_INTERVAL_MS: i64 = 1_000;
const OLD_ITERATIONS_MAX: u32 = 100;
const OLD_DURATION_MS_MAX: i64 = 3_600_000;

impl<'a> Context<'a> {
    pub fn loop_until(&mut self, fields: &Fields<'a>) -> Option<TaskKind> {
        let group = self.group(fields, Shape::LoopUntil);
        let node = self.required(fields, "flow.LoopUntil", "condition");
        let condition = node.and_then(|node| self.after_tasks(|context| context.template(node, "condition")));
        let fail_on_max = match fields.get("failOnMaxReached") {
            None => Json::Bool(false),
            Some(node) if is_template(node) => self.tree(node),
            Some(node) => Json::Bool(self.bool(node, "failOnMaxReached").unwrap_or(false)),
        };
        let is_old = fields.get("type").and_then(Node::scalar).is_some_and(|scalar| scalar.text.ends_with(".WaitFor"));
        let (mut interval, mut max_iterations, mut max_duration) = match is_old {
            false => (duration::print_ms(INTERVAL_MS), None, None),
            true => (
                duration::print_ms(OLD_INTERVAL_MS),
                Some(Json::from(OLD_ITERATIONS_MAX)),
                Some(duration::print_ms(OLD_DURATION_MS_MAX)),
            ),
        };
        if let Some(checks) = fields.get("checkFrequency").and_then(|node| self.fields(node, FREQUENCY)) {
            interval = checks.get("interval").and_then(|node| self.wait(node, "interval")).unwrap_or(interval);
            max_duration = checks.get("maxDuration").and_then(|node| self.wait(node, "maxDuration")).or(max_duration);
            let most = checks.get("maxIterations").and_then(|node| match is_template(node) {
                true => Some(self.tree(node)),
                false => self.count(node, "maxIterations", 1, u32::MAX).map(Json::from),
            });
            max_iterations = most.or(max_iterations);
        }
        let (condition, group) = (condition?, group?);
        Some(TaskKind::LoopUntil(UntilSpec {
            condition,
            interval,
            growth: None,
            max_iterations,
            max_duration,
            fail_on_max,
            do_while: None,
            group,
        }))
    }

    pub fn own_loop(&mut self, fields: &Fields<'a>) -> Option<TaskKind> {
        let values = self.required(fields, "flow.Loop", "values").and_then(|node| match node.entries() {
            Some(_) => Some(self.tree(node)),
            None => self.loop_values(node, "values"),
        });
        let most = self.limits.parallel_branches_max;
        let concurrent =
            fields.get("concurrencyLimit").and_then(|node| self.count(node, "concurrencyLimit", 0, most)).unwrap_or(0);
        let transmit_failed = self.flag(fields, "transmitFailed", true);
        if let Some(node) = fields.get("fetchType")
            && self.word(node, "fetchType", &["AUTO", "FETCH", "STORE"]) == Some("STORE")
        {
            let message =
                "`fetchType: STORE` is known in Kestra, and this build keeps the outputs of rounds in the run";
            self.report(Finding::error(codes::NOT_BUILT, node.at.clone(), message).suggest("use FETCH"));
        }
        let group = self.group(fields, Shape::Loop);
        let outputs = fields.get("outputs").map(|node| self.after_tasks(|context| context.output_defs(node)));
        let break_when =
            fields.get("breakWhen").and_then(|node| self.after_tasks(|context| context.template(node, "breakWhen")));
        let (values, group, outputs) = (values?, group?, outputs.unwrap_or_default());
        Some(TaskKind::Loop(LoopSpec { values, concurrent, transmit_failed, outputs, break_when, group }))
    }

    pub fn exit(&mut self, fields: &Fields<'a>) -> Option<TaskKind> {
        let state = match fields.get("state") {
            None => ExitState::Success.word().to_owned(),
            Some(node) if is_template(node) => self.template(node, "state")?,
            Some(node) => {
                let words = ["SUCCESS", "WARNING", "KILLED", "FAILED", "CANCELED", "CANCELLED"];
                self.word(node, "state", &words)?.to_owned()
            }
        };
        Some(TaskKind::Exit { state })
    }

    /// Reads what is evaluated when the tasks that were just read are done.
    fn after_tasks<T>(&mut self, read: impl FnOnce(&mut Context<'a>) -> T) -> T {
        let moment = Moment::Task(self.tasks.len());
        self.during(moment, read)
    }
}

fn is_template(node: &Node) -> bool {
    node.scalar().is_some_and(|scalar| scalar.is_template())
}
