//! Forks and their joins.

use super::leaves::{errand, inline, literals};
use super::lower::{Lowering, literal, output_field, step, step_of, subflow};
use super::model::Task;
use indexmap::IndexMap;
use semel_core::ir::{
    ConductorTask, Errand, ErrandKind, FORKED_REFERENCE, Group, LeafMode, StartTerms, Task as Step, TaskKind,
    companion, step_name,
};
use serde_json::{Value as Json, json};

fn group(tasks: Vec<Step>) -> Group {
    Group { tasks, ..Group::default() }
}

/// Kinds of task that a dynamic fork can make. Each is made twice: one that may fail, and one that may not.
const FORKED: &[&str] = &["SIMPLE", "HTTP", "INLINE", "JSON_JQ_TRANSFORM", "NOOP", "SUB_WORKFLOW", "WAIT", "HUMAN"];

impl Lowering<'_> {
    /// True when what follows the join has moved into the fork.
    pub fn fork(&mut self, task: &Task, join: &Task, following: &[Task], steps: &mut Vec<Step>) -> bool {
        let branches = task.fork_tasks.as_deref().unwrap_or_default();
        let waits_for_all =
            branches.iter().all(|branch| branch.last().is_none_or(|last| join.join_on.contains(&last.reference)));
        if waits_for_all {
            let tasks =
                branches.iter().enumerate().map(|(place, branch)| self.branch(task, &place.to_string(), branch));
            let tasks = tasks.collect();
            steps.push(step_of(task, TaskKind::Parallel { concurrent: 0, group: group(tasks) }));
            self.join_step(join, steps);
            return false;
        }
        steps.push(self.partial(task, join, following, branches));
        true
    }

    fn branch(&mut self, fork: &Task, word: &str, tasks: &[Task]) -> Step {
        let mut inner = self.list(tasks);
        if inner.len() == 1
            && let Some(only) = inner.pop()
        {
            return only;
        }
        let id = companion(&step_name(&fork.reference), word);
        step(id, "BRANCH", TaskKind::Sequential(group(inner)))
    }

    fn join_step(&mut self, join: &Task, steps: &mut Vec<Step>) {
        steps.push(step_of(join, inline(json!({"joinOn": literals(&join.join_on)}))));
    }

    /// The join waits for some tasks only: each branch is cut behind those it waits for, and what follows the join is
    /// one more branch.
    fn partial(&mut self, task: &Task, join: &Task, following: &[Task], branches: &[Vec<Task>]) -> Step {
        let mut tasks = Vec::new();
        let mut depends: IndexMap<String, Vec<String>> = IndexMap::new();
        let mut awaited = Vec::new();
        for (place, branch) in branches.iter().enumerate() {
            let mut before: Option<String> = None;
            for (part, piece) in cut(branch, &join.join_on).into_iter().enumerate() {
                let made = self.branch(task, &format!("{place}-{part}"), piece);
                depends.insert(made.id.clone(), before.into_iter().collect());
                if piece.last().is_some_and(|last| join.join_on.contains(&last.reference)) {
                    awaited.push(made.id.clone());
                }
                before = Some(made.id.clone());
                tasks.push(made);
            }
        }
        let mut rest = Vec::new();
        self.join_step(join, &mut rest);
        rest.extend(self.list(following));
        let id = companion(&step_name(&task.reference), "rest");
        depends.insert(id.clone(), awaited);
        tasks.push(step(id, "BRANCH", TaskKind::Sequential(group(rest))));
        step_of(task, TaskKind::Dag { concurrent: 0, depends, group: group(tasks) })
    }

    /// The tasks are known only at run time: they are computed, and then each is a round of a loop.
    pub fn dynamic_fork(&mut self, task: &Task, join: &Task, steps: &mut Vec<Step>) {
        let own = step_name(&task.reference);
        let computed = companion(&own, "tasks");
        let config = json!({
            "input": task.input,
            "fork": literal(&task.reference),
            "optional": task.optional,
            "tasksParam": task.dynamic_fork_tasks_param,
            "inputsParam": task.dynamic_fork_tasks_input_param,
            "listParam": task.dynamic_fork_join_tasks_param,
            "kinds": FORKED,
        });
        steps.push(step(computed.clone(), "FORK_TASKS", inline(config)));
        let mut cases = IndexMap::new();
        for kind in FORKED {
            for optional in [false, true] {
                let word = if optional { format!("{kind}?") } else { (*kind).to_owned() };
                cases.insert(word, vec![forked(&own, kind, optional)]);
            }
        }
        let value = "${~item.case}".to_owned();
        let choice = TaskKind::Switch { value, cases, defaults: None, errors: Vec::new(), finally: Vec::new() };
        let choice = step(companion(&own, "kind"), "KIND", choice);
        let values = Json::String(output_field(&computed, "tasks"));
        let each = TaskKind::ForEach { values, concurrent: 0, group: group(vec![choice]) };
        steps.push(step_of(task, each));
        steps.push(step_of(join, inline(json!({"joinOn": output_field(&computed, "references")}))));
    }
}

/// Behind each task that is waited for.
fn cut<'a>(branch: &'a [Task], awaited: &[String]) -> Vec<&'a [Task]> {
    branch.split_inclusive(|task| awaited.contains(&task.reference)).collect()
}

/// One task of a dynamic fork; what it is comes from the item of its round.
fn forked(fork: &str, kind: &str, optional: bool) -> Step {
    let item = |field: &str| format!("${{~item.{field}}}");
    let input = || Json::String(item("input"));
    let errand_for = |errand_kind, queue: String| {
        errand(&Errand {
            kind: errand_kind,
            queue,
            input: input(),
            duration: (errand_kind == ErrandKind::Wait).then(|| item("input.duration")),
            until: (errand_kind == ErrandKind::Wait).then(|| item("input.until")),
            matches: Json::Null,
            task_definition: Json::String(item("taskDefinition")),
            retry_count: None,
            retry_count_from: Some(item("retryCount")),
            output: Json::Null,
        })
    };
    let task_kind = match kind {
        "SIMPLE" => errand_for(ErrandKind::Simple, item("name")),
        "WAIT" => errand_for(ErrandKind::Wait, "WAIT".to_owned()),
        "HUMAN" => errand_for(ErrandKind::Human, "HUMAN".to_owned()),
        "HTTP" | "INLINE" => TaskKind::Leaf { mode: LeafMode::Effect, config: input() },
        "SUB_WORKFLOW" => {
            let terms = StartTerms {
                definition: Some(item("subWorkflowParam.workflowDefinition")),
                version: Json::String(item("subWorkflowParam.version")),
                priority: Json::String(item("subWorkflowParam.priority")),
                domains: Json::String(item("subWorkflowParam.taskToDomain")),
                ..StartTerms::default()
            };
            TaskKind::Subflow(subflow(item("subWorkflowParam.name"), input(), terms))
        }
        _ => inline(input()),
    };
    let word = if optional { format!("{kind}-optional") } else { kind.to_owned() };
    let conductor = ConductorTask {
        reference: FORKED_REFERENCE.to_owned(),
        name: item("name"),
        input: input(),
        ..ConductorTask::default()
    };
    Step {
        allow_failure: optional,
        conductor: Some(Box::new(conductor)),
        ..step(companion(fork, &word), kind, task_kind)
    }
}
