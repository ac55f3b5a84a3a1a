//! What only Conductor's definitions say.
//!
//! A Conductor task becomes the task of this IR that does the same; these records keep what has no other place. One
//! definition may need several tasks here: a delay before it, a script that is computed before a choice. Such a
//! *companion* has an id with `~` in it and no [`ConductorTask`], and no door shows it.
//!
//! | Conductor | here |
//! |---|---|
//! | SIMPLE, DYNAMIC, WAIT, HUMAN, WAIT_FOR_WEBHOOK | [`super::LeafMode::Errand`], its config an [`Errand`] |
//! | FORK_JOIN and JOIN | Parallel and an inline leaf; a Dag where the JOIN does not wait for all |
//! | FORK_JOIN_DYNAMIC | ForEach over tasks that were computed before |
//! | DO_WHILE | LoopUntil with [`DoWhile`]; its condition is the last task of a round |
//! | SUB_WORKFLOW, START_WORKFLOW | Subflow with [`StartTerms`] |
//! | TERMINATE | an inline leaf, whose output is that of the run, and Exit |
//! | `failureWorkflow` | a Subflow in [`super::Flow::after`] |
//! | `timeoutSeconds` | an SLA |
//! | `rateLimitConfig` | a lane |

use super::{KeyScope, Template};
use crate::admission::PresetName;
use crate::schema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// In whose words a flow is written: whose expressions, whose names, whose rules about failures.
///
/// In [`Dialect::Conductor`] every [`Template`] is `${…}`, and a step that fails without being tolerated ends the run at
/// once: what runs beside it is cancelled, unless the step is [`ConductorTask::permissive`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    #[default]
    Kestra,
    Conductor,
}

impl Dialect {
    pub fn is_kestra(&self) -> bool {
        *self == Dialect::Kestra
    }
}

/// The reference name of a task that a dynamic fork makes: it is that of the round's item.
pub const FORKED_REFERENCE: &str = "${~item.reference}";

/// The namespace of all Conductor workflows.
pub const CONDUCTOR_NAMESPACE: &str = "conductor";

/// What a definition says about the workflow as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConductorFlow {
    pub name: String,
    pub version: u32,
    /// Inputs that a run gets where its caller gives none.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub input_template: Json,
    /// Whether a run that has completed may be restarted.
    pub restartable: bool,
    /// Fields whose values are not to be shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub masked_fields: Vec<String>,
    /// What its inputs and its output are held to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<SchemaUse>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<SchemaUse>,
    /// Who starts the same within its time gets the workflow that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<StartCache>,
}

/// `cacheConfig` of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartCache {
    /// What makes two starts the same: a template over the input.
    pub key: Template,
    /// Counted from the end of the workflow.
    pub ttl_ms: i64,
}

/// A schema that values are held to: as it stands here, else the registered one of this name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SchemaUse {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// 0: the newest one.
    #[serde(default)]
    pub version: u32,
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub data: Json,
}

impl SchemaUse {
    /// From Conductor's own shape: `name`, `version`, `type`, `data`. The error says what is wrong with it.
    pub fn read(written: &Json) -> Result<SchemaUse, String> {
        let Json::Object(fields) = written else { return Err("a schema is an object".to_owned()) };
        let text = |name: &str| fields.get(name).and_then(Json::as_str).unwrap_or_default();
        let word = text("type");
        if !matches!(word, "" | "JSON") {
            return Err(format!("nothing is checked against schemas of type {word}: there is JSON"));
        }
        let data = fields.get("data").filter(|data| !is_empty(data)).cloned().unwrap_or_default();
        if data.is_null() && !text("externalRef").is_empty() {
            return Err("`externalRef` is not built: give the schema as `data`, or register it".to_owned());
        }
        if data.is_null() && text("name").is_empty() {
            return Err("a schema has `data`, or the `name` of a registered one".to_owned());
        }
        if !data.is_null() {
            schema::check(&data).map_err(|misfit| format!("data{misfit}"))?;
        }
        let version = fields.get("version").and_then(Json::as_u64).unwrap_or(0);
        Ok(SchemaUse { name: text("name").to_owned(), version: u32::try_from(version).unwrap_or(u32::MAX), data })
    }
}

fn is_empty(data: &Json) -> bool {
    data.is_null() || data.as_object().is_some_and(serde_json::Map::is_empty)
}

impl ConductorFlow {
    /// The id of a flow: Conductor's names hold no `@`.
    pub fn flow_id(name: &str, version: u32) -> String {
        format!("{name}@{version}")
    }

    /// Who shares the key of a `cacheConfig`: this version of a workflow. It is no caller's key.
    pub fn cache_scope(&self) -> KeyScope {
        KeyScope::Group(format!("{CONDUCTOR_NAMESPACE}:{}@{} cached", self.name, self.version))
    }

    /// Who shares an idempotency key: all versions of a workflow.
    pub fn key_scope(name: &str) -> KeyScope {
        KeyScope::Group(format!("{CONDUCTOR_NAMESPACE}:{name}"))
    }
}

/// What a definition says about one task, besides what its kind says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConductorTask {
    /// `taskReferenceName` as it was written; the id of the task is [`step_name`] of it.
    pub reference: String,
    /// `name`, which is also that of the task's registered definition.
    pub name: String,
    /// `inputParameters`, a map of templates.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub input: Json,
    /// Its failure lets what runs beside it end by itself before the run fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub permissive: bool,
    /// `retryCount`, which counts instead of that of the task definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<u32>,
    /// Its task definition came with it: no registered one counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub defined: bool,
    /// What is told when it comes to a state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_state_change: Vec<StateEvent>,
    /// What its input and its output are held to by that definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Box<SchemaUse>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Box<SchemaUse>>,
}

/// An event that is published when a task comes to a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateEvent {
    pub at: Moment,
    /// The last part of the name of the event.
    pub event_type: String,
    /// A map of templates.
    pub payload: Json,
}

/// When a task may tell of itself. Each attempt has its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// It may be taken, or begins.
    Scheduled,
    /// Somebody has it, or it is being done.
    Started,
    Succeeded,
    Failed,
    Cancelled,
}

impl Moment {
    /// Conductor's word for it.
    pub fn parse(word: &str) -> Option<Moment> {
        Some(match word {
            "onScheduled" => Moment::Scheduled,
            "onStart" => Moment::Started,
            "onSuccess" => Moment::Succeeded,
            "onFailed" => Moment::Failed,
            "onCancelled" => Moment::Cancelled,
            _ => return None,
        })
    }

    /// The status of the task then.
    pub fn status(self) -> &'static str {
        match self {
            Moment::Scheduled => "SCHEDULED",
            Moment::Started => "IN_PROGRESS",
            Moment::Succeeded => "COMPLETED",
            Moment::Failed => "FAILED",
            Moment::Cancelled => "CANCELED",
        }
    }
}

/// What an errand's config holds: a step that is done when somebody outside says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errand {
    pub kind: ErrandKind,
    /// Who asks for it finds it by this name; a template.
    pub queue: Template,
    /// What they are given: a map of templates.
    pub input: Json,
    /// Of a wait: how long (`2 days 5 minutes`), or until when (`2026-05-01 08:00 UTC`). Neither: until somebody says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Template>,
    /// Of a webhook: what the payload must hold, path by path.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub matches: Json,
    /// The task definition that came with the workflow, or a template that gives one; without it the registered one counts, as it is at the start.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub task_definition: Json,
    /// Counts instead of that of the task definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_count: Option<u32>,
    /// Where that count is computed: of a task that a dynamic fork makes. Null is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_count_from: Option<Template>,
    /// What the step has to show before anybody has said anything; a map of templates.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub output: Json,
}

/// Who carries an errand out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrandKind {
    /// A worker polls for it, and has a lease on it while it works.
    Simple,
    /// Done when its time has come, or somebody says so before.
    Wait,
    /// A person does it.
    Human,
    /// Done by the first webhook whose payload matches.
    Webhook,
    /// The work was begun by the step before it; whoever does it says when it is done (`asyncComplete`).
    Callback,
    /// Done when something is left for the run.
    Messages,
}

impl ErrandKind {
    pub const ALL: [ErrandKind; 6] = [
        ErrandKind::Simple,
        ErrandKind::Wait,
        ErrandKind::Human,
        ErrandKind::Webhook,
        ErrandKind::Callback,
        ErrandKind::Messages,
    ];

    pub fn word(self) -> &'static str {
        match self {
            ErrandKind::Simple => "simple",
            ErrandKind::Wait => "wait",
            ErrandKind::Human => "human",
            ErrandKind::Webhook => "webhook",
            ErrandKind::Callback => "callback",
            ErrandKind::Messages => "messages",
        }
    }

    pub fn parse(word: &str) -> Option<ErrandKind> {
        ErrandKind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// A loop that goes round while its condition holds, or once per item.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DoWhile {
    /// A list, or a template that gives one: no more rounds than items, and none without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<Json>,
    /// Only the outputs of this many last rounds are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_last: Option<u32>,
}

/// How a workflow is started by another one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StartTerms {
    /// A template that gives all of the request; nothing else here counts then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Template>,
    /// A template that gives a definition, which is started instead of one by name; null gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub definition: Option<Template>,
    /// Without one, or where it gives 0 or null, the newest version counts. A number, or a template that gives one.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub version: Json,
    /// What a twin gets, where there is a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy: Option<PresetName>,
    /// A strategy and no key: the key of the run that starts it counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inherits_key: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<Template>,
    /// 0 to 99, or a template that gives it.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub priority: Json,
    /// `taskToDomain`: task names to the domains their errands are for.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub domains: Json,
}

/// The id of the task with this reference name: what means something in the path of a step is spelled out.
pub fn step_name(reference: &str) -> String {
    let mut name = String::with_capacity(reference.len());
    for c in reference.chars() {
        match c {
            '%' | '/' | '[' | ']' | '~' => name.push_str(&format!("%{:02X}", u32::from(c))),
            c => name.push(c),
        }
    }
    name
}

/// The id of a task that belongs to another one.
pub fn companion(step: &str, word: &str) -> String {
    format!("{step}~{word}")
}

/// Whether a task is there for another one's sake, and shown to nobody.
pub fn is_companion(step: &str) -> bool {
    step.contains('~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_names_never_break_the_path_of_a_step() {
        for (reference, step) in [("get_it", "get_it"), ("a b.c", "a b.c"), ("x/y[1]~%", "x%2Fy%5B1%5D%7E%25")] {
            assert_eq!(step_name(reference), step);
            assert!(!is_companion(&step_name(reference)));
        }
        assert!(is_companion(&companion("a", "script")));
    }
}
