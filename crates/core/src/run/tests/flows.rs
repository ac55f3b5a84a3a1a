//! Flows built by hand, in few words.

use crate::ir::*;
use indexmap::IndexMap;
use serde_json::{Value as Json, json};

fn task(id: &str, kind: TaskKind) -> Task {
    Task {
        id: id.into(),
        type_name: "test".into(),
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
        keep_output: true,
        cache: None,
        conductor: None,
    }
}

pub fn inline(id: &str) -> Task {
    task(id, TaskKind::Leaf { mode: LeafMode::Inline, config: Json::Null })
}

pub fn errand(id: &str) -> Task {
    task(id, TaskKind::Leaf { mode: LeafMode::Errand, config: Json::Null })
}

pub fn op(id: &str) -> Task {
    task(id, TaskKind::Leaf { mode: LeafMode::Op, config: Json::Null })
}

pub fn effect(id: &str, class: EffectClass) -> Task {
    let mut task = task(id, TaskKind::Leaf { mode: LeafMode::Effect, config: Json::Null });
    task.effect.class = Some(class);
    task
}

pub fn read(id: &str) -> Task {
    effect(id, EffectClass::Read)
}

pub fn naked(id: &str) -> Task {
    effect(id, EffectClass::Naked)
}

/// Keyed, with a window of one minute.
pub fn keyed(id: &str) -> Task {
    effect(id, EffectClass::Keyed).with(|t| t.effect.window_ms = Some(60_000))
}

pub fn sleep(id: &str, ms: i64) -> Task {
    task(id, TaskKind::Sleep { duration: ms.to_string() })
}

/// A working directory that shows its files.
pub fn directory(id: &str, tasks: Vec<Task>) -> Task {
    task(id, TaskKind::WorkingDirectory { output_files: vec!["*".into()], group: group(tasks) })
}

pub fn tolerant(id: &str, tasks: Vec<Task>) -> Task {
    task(id, TaskKind::AllowFailure(group(tasks)))
}

/// Each task with the ids of those it depends on.
pub fn dag(id: &str, concurrent: u32, tasks: Vec<(Task, &[&str])>) -> Task {
    let needs = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
    let depends = tasks.iter().map(|(task, ids)| (task.id.clone(), needs(ids))).collect();
    task(id, TaskKind::Dag { concurrent, depends, group: group(tasks.into_iter().map(|(task, _)| task).collect()) })
}

/// The world goes round so often, with a minute between two rounds.
pub fn until(id: &str, rounds: u32, tasks: Vec<Task>) -> Task {
    let spec = UntilSpec {
        condition: rounds.to_string(),
        interval: "60000".into(),
        growth: None,
        max_iterations: None,
        max_duration: None,
        fail_on_max: Json::Bool(false),
        do_while: None,
        group: group(tasks),
    };
    task(id, TaskKind::LoopUntil(spec))
}

pub fn rounds(id: &str, items: u32, concurrent: u32, tasks: Vec<Task>) -> Task {
    let group = group(tasks);
    let values = json!(items);
    task(
        id,
        TaskKind::Loop(LoopSpec {
            values,
            concurrent,
            transmit_failed: true,
            outputs: vec![],
            break_when: None,
            group,
        }),
    )
}

pub fn exit(id: &str, state: ExitState) -> Task {
    task(id, TaskKind::Exit { state: state.word().to_owned() })
}

/// Stands still for `ms` at most; 0: until somebody resumes it.
pub fn pause(id: &str, ms: i64, behavior: OnTime) -> Task {
    let duration = (ms > 0).then(|| ms.to_string());
    let behavior = behavior.word().to_owned();
    let group = Group::default();
    task(
        id,
        TaskKind::Pause(PauseSpec { duration, behavior, on_resume: vec![], on_pause: vec![], review: None, group }),
    )
}

/// Approved or denied: what that means to the run, in the same order and at last for silence.
pub fn review(id: &str, ms: i64, [approved, denied, expired]: [AfterReview; 3]) -> Task {
    let deny = vec![inline(&format!("{id}_denied"))];
    let spec = ReviewSpec {
        on_deny: deny,
        approved: approved.word().into(),
        denied: denied.word().into(),
        expired: expired.word().into(),
        comment: CommentRequired::Never.word().into(),
        auto: "false".into(),
    };
    pause(id, ms, OnTime::Resume).around(vec![], vec![inline(&format!("{id}_approved"))]).with(|task| {
        if let TaskKind::Pause(pause) = &mut task.kind {
            pause.review = Some(Box::new(spec));
        }
    })
}

/// A sub-run for each of so many batches.
pub fn batches(id: &str, count: u32) -> Task {
    task(id, TaskKind::Batches(BatchSpec { split: count.to_string(), subflow: sub_spec() }))
}

pub fn subflow(id: &str) -> Task {
    task(id, TaskKind::Subflow(sub_spec()))
}

fn sub_spec() -> SubflowSpec {
    SubflowSpec {
        namespace: "n".into(),
        flow_id: "child".into(),
        revision: None,
        inputs: Json::Null,
        labels: IndexMap::new(),
        inherit_labels: false,
        wait: true,
        transmit_failed: true,
        key: None,
        outputs: Json::Null,
        schedule_date: None,
        new_on_restart: false,
        terms: None,
    }
}

pub fn group(tasks: Vec<Task>) -> Group {
    Group { tasks, ..Group::default() }
}

pub fn seq(id: &str, tasks: Vec<Task>) -> Task {
    task(id, TaskKind::Sequential(group(tasks)))
}

pub fn parallel(id: &str, concurrent: u32, tasks: Vec<Task>) -> Task {
    task(id, TaskKind::Parallel { concurrent, group: group(tasks) })
}

pub fn each(id: &str, items: u32, concurrent: u32, tasks: Vec<Task>) -> Task {
    task(id, TaskKind::ForEach { values: json!(items), concurrent, group: group(tasks) })
}

/// The world takes `then` when the condition is `true`.
pub fn branch(id: &str, condition: bool, then: Vec<Task>, otherwise: Vec<Task>) -> Task {
    task(id, TaskKind::If { condition: condition.to_string(), then, otherwise, errors: vec![], finally: vec![] })
}

/// The world takes the case whose name is `value`, else the defaults.
pub fn switch(id: &str, value: &str, cases: Vec<(&str, Vec<Task>)>, defaults: Option<Vec<Task>>) -> Task {
    let cases = cases.into_iter().map(|(name, tasks)| (name.to_owned(), tasks)).collect();
    task(id, TaskKind::Switch { value: value.into(), cases, defaults, errors: vec![], finally: vec![] })
}

pub fn retry(max_attempts: u32, interval_ms: i64) -> Retry {
    let schedule = RetrySchedule::Constant { interval_ms };
    Retry {
        schedule,
        max_attempts: Some(max_attempts),
        max_duration_ms: None,
        warning_on_retry: false,
        new_execution: false,
    }
}

pub trait With: Sized {
    fn with(self, change: impl FnOnce(&mut Self)) -> Self;
}

impl<T> With for T {
    fn with(mut self, change: impl FnOnce(&mut T)) -> T {
        change(&mut self);
        self
    }
}

impl Task {
    pub fn retried(self, max_attempts: u32, interval_ms: i64) -> Task {
        self.with(|t| t.retry = Some(retry(max_attempts, interval_ms)))
    }

    pub fn may_fail(self) -> Task {
        self.with(|t| t.allow_failure = true)
    }

    pub fn on_doubt(self, what: OnDoubt) -> Task {
        self.with(|t| t.effect.on_doubt = what)
    }

    /// Of a pause: what runs before it, and once it goes on.
    pub fn around(self, before: Vec<Task>, after: Vec<Task>) -> Task {
        self.with(|t| match &mut t.kind {
            TaskKind::Pause(spec) => (spec.on_pause, spec.group.tasks) = (before, after),
            _ => panic!("not a pause"),
        })
    }

    fn handlers(&mut self) -> (&mut Vec<Task>, &mut Vec<Task>) {
        match &mut self.kind {
            TaskKind::If { errors, finally, .. } | TaskKind::Switch { errors, finally, .. } => (errors, finally),
            kind => {
                let mut lists = kind.lists_mut();
                match (lists.pop(), lists.pop()) {
                    (Some(finally), Some(errors)) => (errors, finally),
                    _ => panic!("a leaf has no handlers"),
                }
            }
        }
    }

    pub fn errors(self, tasks: Vec<Task>) -> Task {
        self.with(|t| *t.handlers().0 = tasks)
    }

    pub fn finally(self, tasks: Vec<Task>) -> Task {
        self.with(|t| *t.handlers().1 = tasks)
    }
}

pub fn flow(tasks: Vec<Task>) -> Flow {
    Flow {
        ir_version: IR_VERSION,
        id: "flow".into(),
        namespace: "n".into(),
        description: None,
        labels: IndexMap::new(),
        inputs: vec![],
        variables: Json::Null,
        tasks,
        errors: vec![],
        finally: vec![],
        after: vec![],
        outputs: vec![],
        triggers: vec![],
        lane: None,
        retry: None,
        disabled: false,
        idempotency: None,
        sla: vec![],
        checks: vec![],
        dialect: Dialect::Kestra,
        conductor: None,
    }
}
