//! The intermediate representation: what a flow is once it has been checked.
//!
//! A push compiles text to this form, with defaults resolved, and stores it; a run executes the
//! IR it was admitted with for life, whatever is pushed later. Every release reads all older
//! [`IR_VERSION`]s. Templates (`{{ … }}`) stay as source text here: parsing them is the engine's
//! business, and it must not change what a stored flow means.

mod condition;
mod conductor;
mod lists;
mod loops;
mod pause;
mod review;
mod rules;
mod spec;
mod trigger;

pub use condition::*;
pub use conductor::*;
pub use loops::*;
pub use pause::*;
pub use review::*;
pub use rules::*;
pub use spec::*;
pub use trigger::*;

use crate::admission::{Busy, LatePolicy, MismatchPolicy, OnDone, OnEnded, OnLive, PresetName, Window};
use crate::ids::{Door, FlowRef};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

/// Version written into every stored flow.
pub const IR_VERSION: u32 = 1;

/// A template: author's text that may contain `{{ }}`, or `${ }` in [`Dialect::Conductor`].
pub type Template = String;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    pub ir_version: u32,
    pub id: String,
    pub namespace: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub labels: IndexMap<String, String>,
    #[serde(default)]
    pub inputs: Vec<InputDef>,
    /// A map whose string leaves are templates, rendered on access.
    #[serde(default)]
    pub variables: Json,
    pub tasks: Vec<Task>,
    #[serde(default)]
    pub errors: Vec<Task>,
    #[serde(default)]
    pub finally: Vec<Task>,
    /// What comes after the end of a run and changes nothing about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<Task>,
    #[serde(default)]
    pub outputs: Vec<OutputDef>,
    #[serde(default)]
    pub triggers: Vec<Trigger>,
    #[serde(default)]
    pub lane: Option<LaneSpec>,
    #[serde(default)]
    pub retry: Option<Retry>,
    #[serde(default)]
    pub disabled: bool,
    #[serde(default)]
    pub idempotency: Option<IdempotencySpec>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sla: Vec<Sla>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<FlowCheck>,
    #[serde(default, skip_serializing_if = "Dialect::is_kestra")]
    pub dialect: Dialect,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conductor: Option<Box<ConductorFlow>>,
}

impl Flow {
    pub fn flow_ref(&self) -> FlowRef {
        FlowRef::new(&self.namespace, &self.id)
    }
}

/// One task. Ids are unique in the flow, so the path of ids names a step for ever.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub id: String,
    /// Canonical short name, e.g. `http.Request`.
    #[serde(rename = "type")]
    pub type_name: String,
    /// What the author wrote, where that is another name: `task.type` is that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written_type: Option<String>,
    pub kind: TaskKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_if: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
    /// One that is known only when the task is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Template>,
    #[serde(default)]
    pub disabled: bool,
    #[serde(default)]
    pub allow_failure: bool,
    #[serde(default)]
    pub allow_warning: bool,
    #[serde(default)]
    pub effect: EffectSpec,
    /// False when no expression of the flow can read this task's outputs: then a finished loop
    /// iteration leaves memory altogether.
    #[serde(default = "yes")]
    pub keep_output: bool,
    /// What another run got for the same request is taken, instead of asking for it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conductor: Option<Box<ConductorTask>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheSpec {
    /// For how long; without it, as long as the run that asked is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<i64>,
    /// What counts as the same request, over the input of the task: then all tasks of its name share what they got.
    /// Without it all of the request counts, for this task of this flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Template>,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TaskKind {
    Sequential(Group),
    /// `concurrent` 0 means all at once.
    Parallel {
        concurrent: u32,
        #[serde(flatten)]
        group: Group,
    },
    /// As [`TaskKind::Sequential`]; what fails inside is a warning outside.
    AllowFailure(Group),
    /// As [`TaskKind::Sequential`], for tasks that share a folder.
    WorkingDirectory {
        /// Patterns of the files in it that the task shows when it is done.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        output_files: Vec<Template>,
        #[serde(flatten)]
        group: Group,
    },
    /// Each task starts when all that it depends on, by id, have ended well. `concurrent` 0 means all at once.
    Dag {
        concurrent: u32,
        #[serde(default)]
        depends: IndexMap<String, Vec<String>>,
        #[serde(flatten)]
        group: Group,
    },
    If {
        condition: Template,
        then: Vec<Task>,
        #[serde(default)]
        otherwise: Vec<Task>,
        #[serde(default)]
        errors: Vec<Task>,
        #[serde(default)]
        finally: Vec<Task>,
    },
    Switch {
        value: Template,
        cases: IndexMap<String, Vec<Task>>,
        #[serde(default)]
        defaults: Option<Vec<Task>>,
        #[serde(default)]
        errors: Vec<Task>,
        #[serde(default)]
        finally: Vec<Task>,
    },
    /// `values` is a list of templates or one template giving a list or JSON text of a list.
    /// `concurrent` 0 means all at once (bounded by the limits).
    ForEach {
        values: Json,
        concurrent: u32,
        #[serde(flatten)]
        group: Group,
    },
    Sleep {
        duration: Template,
    },
    LoopUntil(UntilSpec),
    Loop(LoopSpec),
    Batches(BatchSpec),
    /// Ends the run as it says: a word of [`ExitState`], or a template that gives one.
    Exit {
        state: Template,
    },
    /// Waits for a person, or for the end of its time.
    Pause(PauseSpec),
    Subflow(SubflowSpec),
    /// Everything that a task type performs by itself.
    Leaf {
        mode: LeafMode,
        /// The author's properties, string leaves being templates.
        config: Json,
    },
}

/// Children that run one after another (or side by side), with handlers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    pub tasks: Vec<Task>,
    #[serde(default)]
    pub errors: Vec<Task>,
    #[serde(default)]
    pub finally: Vec<Task>,
}

/// How a leaf is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeafMode {
    /// Pure: computed in the engine, fused with its neighbours in one commit.
    Inline,
    /// Reads or writes Semel's own rows: carried by the commit as an internal op.
    Op,
    /// Leaves the process: intent first, then the call, then the outcome.
    Effect,
    /// Someone outside carries it out: a worker, a person, a caller; done when they say so. Its config is an [`Errand`].
    Errand,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SubflowSpec {
    pub namespace: Template,
    pub flow_id: Template,
    #[serde(default)]
    pub revision: Option<u32>,
    /// A map of templates.
    #[serde(default)]
    pub inputs: Json,
    #[serde(default)]
    pub labels: IndexMap<String, Template>,
    #[serde(default)]
    pub inherit_labels: bool,
    pub wait: bool,
    pub transmit_failed: bool,
    /// An explicit event key for the child, instead of the one made from the parent's step.
    #[serde(default)]
    pub key: Option<Template>,
    /// What the step gives besides, rendered with the outputs of the sub-run's tasks when it has ended: a map of templates.
    #[serde(default, skip_serializing_if = "Json::is_null")]
    pub outputs: Json,
    /// The sub-run starts at this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_date: Option<Template>,
    /// A restart of the parent makes another sub-run, instead of going on with the one that failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new_on_restart: bool,
    /// Of a workflow of Conductor's: `flow_id` is its name without the version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<Box<StartTerms>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectClass {
    Pure,
    Read,
    Transactional,
    Keyed,
    Probed,
    Repeatable,
    Naked,
}

impl EffectClass {
    pub const ALL: [EffectClass; 7] = [
        EffectClass::Pure,
        EffectClass::Read,
        EffectClass::Transactional,
        EffectClass::Keyed,
        EffectClass::Probed,
        EffectClass::Repeatable,
        EffectClass::Naked,
    ];

    pub fn word(self) -> &'static str {
        match self {
            EffectClass::Pure => "pure",
            EffectClass::Read => "read",
            EffectClass::Transactional => "transactional",
            EffectClass::Keyed => "keyed",
            EffectClass::Probed => "probed",
            EffectClass::Repeatable => "repeatable",
            EffectClass::Naked => "naked",
        }
    }
}

/// What the author declared about a step's effect; `class: None` leaves it to the task type,
/// which may depend on the rendered request (a GET is a read, a POST is naked).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EffectSpec {
    #[serde(default)]
    pub class: Option<EffectClass>,
    /// How long the far side remembers a key (keyed only). `None`: 24 hours.
    #[serde(default)]
    pub window_ms: Option<i64>,
    /// The author's own outbound key; `None`: the step id.
    #[serde(default)]
    pub key: Option<Template>,
    #[serde(default)]
    pub on_doubt: OnDoubt,
}

/// What a crash in mid-effect does to a step whose effect cannot be repeated safely.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDoubt {
    #[default]
    Hold,
    Fail,
    Repeat,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    pub schedule: RetrySchedule,
    /// Counts all attempts, the first included. `None`: no cap but the limits'.
    #[serde(default)]
    pub max_attempts: Option<u32>,
    /// Measured from the first attempt's start.
    #[serde(default)]
    pub max_duration_ms: Option<i64>,
    #[serde(default)]
    pub warning_on_retry: bool,
    /// The whole run again, in a new run that takes the place of the one that failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub new_execution: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RetrySchedule {
    Constant {
        interval_ms: i64,
    },
    /// Longer by the first wait each time.
    Linear {
        interval_ms: i64,
        max_interval_ms: i64,
    },
    Exponential {
        interval_ms: i64,
        max_interval_ms: i64,
        factor: f64,
    },
    Random {
        min_interval_ms: i64,
        max_interval_ms: i64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum InputType {
    String,
    Int,
    Float,
    Bool,
    Select,
    Multiselect,
    Datetime,
    Date,
    Time,
    Duration,
    Json,
    Yaml,
    Uri,
    Secret,
    Array,
    Email,
    File,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InputDef {
    /// A dot makes a nested map.
    pub id: String,
    #[serde(rename = "type")]
    pub input_type: InputType,
    #[serde(default = "yes")]
    pub required: bool,
    /// Literal or template.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Regex that a STRING must match as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validator: Option<String>,
    /// Bounds of INT, FLOAT (numbers) and DURATION (text).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Json>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Json>,
    /// Choices of SELECT and MULTISELECT.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// What gives the list of choices, instead of `values`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<Template>,
    /// The first choice is the default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub auto_select_first: bool,
    #[serde(default)]
    pub allow_custom_value: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item_type: Option<InputType>,
    /// Bounds of DATE, TIME, DATETIME.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Endings that the name of a FILE may have; empty: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_file_extensions: Vec<String>,
    /// Whether it is asked for at all, and what its expressions see of the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depends_on: Option<DependsOn>,
}

/// What an input needs of other inputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DependsOn {
    /// All of them are asked for, or this one is not either.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// It is asked for if this is `true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Template>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputDef {
    pub id: String,
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub output_type: Option<InputType>,
    /// A template or a tree of templates.
    pub value: Json,
    /// Without a value the run has failed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
}

/// The flow's `idempotency:` block. `None` fields come from the preset.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdempotencySpec {
    #[serde(default)]
    pub key: Option<Template>,
    #[serde(default)]
    pub scope: KeyScope,
    #[serde(default)]
    pub preset: Option<PresetName>,
    #[serde(default)]
    pub live: Option<OnLive>,
    #[serde(default)]
    pub done: Option<OnDone>,
    #[serde(default)]
    pub failed: Option<OnEnded>,
    #[serde(default)]
    pub cancelled: Option<OnEnded>,
    #[serde(default)]
    pub mismatch: Option<MismatchPolicy>,
    #[serde(default)]
    pub window: Option<Window>,
    #[serde(default)]
    pub late: Option<LatePolicy>,
    #[serde(default)]
    pub require_key: bool,
    /// Doors at which `key` is evaluated; `None`: those that carry a payload.
    #[serde(default)]
    pub doors: Option<Vec<Door>>,
    /// The block wins over what a request asks for.
    #[serde(default)]
    pub strict: bool,
    /// Copies the literal text of the trigger contract: a claim may expire under a live run.
    #[serde(default)]
    pub expire_live: bool,
}

/// Who shares a key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyScope {
    #[default]
    Flow,
    Namespace,
    Workspace,
    Group(String),
}

/// The flow's `lane:` (or Kestra's `concurrency:`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneSpec {
    /// `None`: one lane for the whole flow.
    #[serde(default)]
    pub key: Option<Template>,
    pub limit: u32,
    pub busy: Busy,
}
