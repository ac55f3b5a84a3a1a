//! What doors say to the engine and hear from it.

use crate::flows::LoadedFlow;
use semel_core::admission::{KeyError, PresetName};
use semel_core::ir::{KeyScope, ResponseType, SignatureScheme};
use semel_core::run::{Conclusion, EndStatus, Seen, Status, StepKey, StepOutcome, VerdictKind};
use semel_core::{Door, FlowRef, Millis, RunId, WorkspaceId};
use semel_store::StoreError;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// One arrival, translated by a door. Nothing has been stored yet.
#[derive(Clone, Debug)]
pub struct Occurrence {
    pub workspace: WorkspaceId,
    pub flow: Arc<LoadedFlow>,
    pub door: Door,
    /// Who sent it, for the decision log: a token's name, `schedule`, a run id.
    pub caller: String,
    /// The caller's own key (header, body or parameter).
    pub caller_key: Option<String>,
    /// The door's own identity for the event (schedule instant, message id).
    pub intrinsic_key: Option<String>,
    /// The door's policy where neither the request nor the flow says otherwise.
    pub door_preset: PresetName,
    /// The policy the request asks for.
    pub request_preset: Option<PresetName>,
    /// Where keys are unique, for a flow without a block.
    pub scope: Option<KeyScope>,
    /// Values for the declared inputs, by name.
    pub inputs: Json,
    pub trigger: TriggerValue,
    /// The trigger whose `inputs:` templates fill the inputs (webhook, schedule).
    pub trigger_id: Option<String>,
    pub labels: Vec<(String, String)>,
    pub correlation_id: Option<String>,
    /// The id that a new run gets, if files for its inputs were taken in under it.
    pub run: Option<RunId>,
    /// The run is made now and starts then.
    pub start_at: Option<Millis>,
    /// Tasks that the run stops before.
    pub breakpoints: Vec<String>,
}

/// The `trigger` variable: `data`, `body`, `headers`, `parameters` …
#[derive(Clone)]
pub enum TriggerValue {
    Given(Json),
    /// Of a flow trigger, with the outputs of the upstream run's tasks, which its templates may read as `outputs`.
    Heard {
        variables: Json,
        outputs: Json,
    },
    /// `data` (the inputs as they were sent), `key` and `headers`; written out only if the occurrence is no twin.
    Request {
        headers: Arc<dyn Fn() -> Json + Send + Sync>,
    },
}

impl TriggerValue {
    /// A part that tells payloads apart. All of a request's payload is in its inputs.
    pub(crate) fn payload(&self, name: &str) -> Option<&Json> {
        match self {
            TriggerValue::Given(value) | TriggerValue::Heard { variables: value, .. } => value.get(name),
            TriggerValue::Request { .. } => None,
        }
    }

    pub(crate) fn written_out(&self, inputs: &Json, key: Option<&str>) -> Cow<'_, Json> {
        match self {
            TriggerValue::Given(value) | TriggerValue::Heard { variables: value, .. } => Cow::Borrowed(value),
            TriggerValue::Request { headers } => Cow::Owned(json!({"data": inputs, "key": key, "headers": headers()})),
        }
    }
}

impl From<Json> for TriggerValue {
    fn from(value: Json) -> TriggerValue {
        TriggerValue::Given(value)
    }
}

impl fmt::Debug for TriggerValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TriggerValue::Given(value) | TriggerValue::Heard { variables: value, .. } => write!(f, "{value}"),
            TriggerValue::Request { .. } => f.write_str("(a request)"),
        }
    }
}

/// Why an occurrence did not reach `decide`. Nothing is stored and no key is spent.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum AdmitError {
    #[error("{0}")]
    Key(#[from] KeyError),
    #[error("{} of the inputs cannot be used", .0.len())]
    Inputs(Vec<FieldError>),
    #[error("the flow is disabled; set `disabled: false` and push it again")]
    Disabled,
    /// What the flow wants to hold before there is a run does not.
    #[error("Flow execution blocked: one or more condition checks evaluated to false.\nFailed checks: {}", .0.join(", "))]
    Checks(Vec<String>),
    #[error("the flow's {what} did not resolve: {message}")]
    Expression { what: &'static str, message: String },
    #[error("too many events wait to be stored")]
    TooManyPending,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl AdmitError {
    /// For whoever asked in the middle of something else: which inputs, and why.
    pub(crate) fn in_words(self) -> String {
        match self {
            AdmitError::Inputs(fields) => {
                let text: Vec<String> = fields.into_iter().map(|f| format!("{}: {}", f.field, f.message)).collect();
                text.join("; ")
            }
            other => other.to_string(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    pub field: String,
    pub message: String,
}

/// Why a name does not lead to a flow.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FlowLookupError {
    #[error("no flow `{0}` in this workspace")]
    Unknown(String),
    #[error("`{name}` names several flows; use one of {candidates:?}")]
    Ambiguous { name: String, candidates: Vec<String> },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A webhook trigger whose URL key matched.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub trigger_id: String,
    pub wait: bool,
    pub return_outputs: bool,
    pub signature: Option<ResolvedSignature>,
    /// Status of the answer with the outputs.
    pub response_code: Option<u16>,
    pub response_type: Option<ResponseType>,
    /// What is sent becomes a file of the run.
    pub store_body: bool,
}

/// A signature rule with its secrets filled in; never printed.
#[derive(Clone)]
pub struct ResolvedSignature {
    pub scheme: SignatureScheme,
    pub secrets: Vec<String>,
    pub header: Option<String>,
    pub tolerance_ms: i64,
}

impl std::fmt::Debug for ResolvedSignature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ResolvedSignature({:?})", self.scheme)
    }
}

/// What a person asks of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "control", rename_all = "snake_case")]
pub enum Control {
    Cancel,
    /// The sub-runs of the run go on by themselves.
    CancelAlone,
    Pause,
    Resume,
    /// Of a run that stands still at a step, named by its id or path. `inputs` are checked and in stored form already:
    /// see [`crate::Engine::resume`].
    ResumeStep {
        step: String,
        inputs: Option<Json>,
        /// What was decided, at a step that asks for that: see [`crate::Engine::review`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        review: Option<semel_core::ir::Reviewed>,
    },
    /// Of a run that has stopped before a task: on, and stop before these instead.
    ResumeFromBreakpoint {
        breakpoints: Vec<String>,
    },
    /// Of a run that a restore holds.
    Release,
    Restart,
    /// From a top-level task, or from the start.
    Replay {
        from: Option<String>,
    },
    /// As [`Control::Restart`]; the label `system.restarted` says that it was. `revision`: of its flow, by which it goes on.
    RestartMarked {
        #[serde(default)]
        revision: Option<u32>,
    },
    /// Of a run that waits for its slot or its date: start now. `queued`: only one that waits for its slot.
    ForceRun {
        queued: bool,
    },
    /// Of a run that waits for its slot: end so instead.
    Dequeue {
        status: EndStatus,
    },
    /// Of an ended run: these instead of all labels that are not the system's own.
    SetLabels {
        labels: Vec<(String, String)>,
    },
    /// Of an ended run.
    ChangeStatus {
        status: EndStatus,
        warned: bool,
        conclusion: Option<Conclusion>,
    },
    /// A step that failed the run (its id or path) is called something else, and the run goes on from there.
    MarkStep {
        step: String,
        outcome: StepOutcome,
    },
    /// Someone outside says what became of an attempt of theirs.
    Errand {
        step: StepKey,
        attempt: u32,
        end: ErrandAnswer,
        seen: Seen,
    },
    /// What can be asked again.
    Wish {
        wish: Box<Asking>,
    },
    /// `step` is a step id, a step path, or absent when one doubt is open.
    Verdict {
        step: Option<String>,
        verdict: VerdictKind,
        result: Option<Json>,
    },
}

/// A [`semel_core::run::Wish`] in a caller's words. Tasks are named by their ids in the flow, values are plain.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "wish", rename_all = "snake_case")]
pub enum Asking {
    Pause,
    Resume,
    /// `as_failed`: what the flow does about a failure is done.
    Terminate {
        reason: String,
        as_failed: bool,
    },
    Retry {
        anew: bool,
    },
    /// `step`: `None` means from the start.
    Redo {
        step: Option<StepKey>,
        flow: Option<(FlowRef, u32)>,
        inputs: Option<Json>,
        task_input: Option<Json>,
        correlation_id: Option<String>,
    },
    Skip {
        task: String,
        input: Option<Json>,
        output: Option<Json>,
    },
    Tell {
        variables: Option<Json>,
        errand: Option<Box<ErrandTold>>,
    },
    /// A message for the steps that pull some.
    Leave {
        message: Json,
    },
    /// What stands for a variable that is a list is added to it.
    Append {
        variables: Json,
    },
    Jump {
        task: String,
        input: Option<Json>,
    },
    /// `outputs`: by task, what those that the run has passed already are to have given.
    Upgrade {
        flow: FlowRef,
        revision: u32,
        inputs: Option<Json>,
        outputs: Json,
    },
}

/// What became of an attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ErrandTold {
    pub step: StepKey,
    pub attempt: u32,
    pub end: ErrandAnswer,
    pub seen: Seen,
}

/// What became of an errand, in whoever's words.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum ErrandAnswer {
    Done {
        output: Json,
    },
    Failed {
        message: String,
        output: Option<Json>,
        for_good: bool,
    },
    /// Whoever had it has given it up, and nobody else is to try.
    Cancelled {
        message: String,
        output: Option<Json>,
    },
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ControlError {
    #[error("no such run")]
    Unknown,
    /// The run's state does not allow it; the text says what would.
    #[error("{0}")]
    NotPossible(String),
    /// What was said to a step that stands still cannot be used.
    #[error("{} of the inputs cannot be used", .0.len())]
    Inputs(Vec<FieldError>),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Sent to followers whenever a run's stored head changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunChange {
    pub run: RunId,
    pub version: u64,
    pub status: Status,
}

/// Result of a push.
#[derive(Clone, Debug)]
pub struct Pushed {
    pub workflow_id: String,
    pub revision: u32,
    pub changed: bool,
    pub warnings: Vec<semel_flow::Diagnostic>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum PushError {
    #[error("the flow has {} error{}", .0.len(), if .0.len() == 1 { "" } else { "s" })]
    Invalid(Vec<semel_flow::Diagnostic>),
    #[error("a flow with this id exists")]
    Exists,
    #[error("there is no flow with this id")]
    Unknown,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a secret cannot be stored or read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SecretError {
    #[error("no encryption key is configured; start with secrets.key_file or secrets.key_command")]
    NoKey,
    #[error("`{0}` is not a secret name: use 1 to 100 of A-Z a-z 0-9 _ -")]
    BadName(String),
    #[error("the secret cannot be decrypted with the configured key")]
    Undecryptable,
    #[error(transparent)]
    Store(#[from] StoreError),
}
