//! What is stored, row by row. Every row belongs to one workspace.

use semel_core::admission::{Decision, KeySource, Policy, Prior, Reason};
use semel_core::fingerprint::Fingerprint;
use semel_core::ir::{EffectClass, ErrandKind};
use semel_core::run::{By, Conclusion, EndStatus, Late, Seen, Status, StepKey};
use semel_core::{Door, FlowRef, Hash16, Millis, RunId, WorkspaceId};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// The head of a run: what lists show and what guards compare.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    pub id: RunId,
    pub workspace: WorkspaceId,
    pub flow: FlowRef,
    pub revision: u32,
    pub status: Status,
    /// Raised to fence whoever drove the run before.
    pub epoch: u64,
    /// Sequence number of the last journal row.
    pub version: u64,
    /// A node must drive it (or look at its inbox).
    pub active: bool,
    pub open_intents: u32,
    pub open_doubts: u32,
    pub logical: RunId,
    pub take: u32,
    pub generation: u32,
    pub claim: Option<Hash16>,
    pub lane: Option<LaneRef>,
    pub parent: Option<ParentRef>,
    pub root: RunId,
    pub depth: u32,
    pub correlation_id: String,
    pub door: Door,
    /// The event key, for people; gone after erasure.
    pub key: Option<String>,
    pub created_at: Millis,
    pub started_at: Option<Millis>,
    pub ended_at: Option<Millis>,
    pub updated_at: Millis,
    pub warned: bool,
    pub erased: bool,
    /// What the status does not tell by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conclusion: Option<Conclusion>,
    /// What few runs have.
    #[serde(default, skip_serializing_if = "RunMore::is_nothing")]
    pub more: RunMore,
}

/// Rows of the key-value table that tell where answers to cached requests are. No namespace can be called so.
pub const CACHE_NAMESPACE: &str = "/cache";

/// Where the registered definitions of Conductor's tasks are, by name.
pub const TASK_DEFINITIONS: &str = "/conductor/task";

/// Events that Conductor's EVENT tasks have published and no handler has seen yet, in order of time.
pub const EVENTS: &str = "/conductor/event";

/// Events that a handler was there for, by name, newest first.
pub const EVENT_MESSAGES: &str = "/conductor/event-message";

/// What came of the actions of event handlers, by handler, newest first.
pub const EVENT_EXECUTIONS: &str = "/conductor/event-execution";

/// Where the event handlers of Conductor's are, by name.
pub const EVENT_HANDLERS: &str = "/conductor/handler";

/// When errands of a queue were taken last, where only so many may be within so long.
pub const TAKEN_LATELY: &str = "/conductor/taken";

/// Queues of a domain that somebody asks at, on whatever node, by the digest of both; a row lives as long as it counts.
pub const POLLED: &str = "/conductor/polled";

/// Tags of Conductor's things, one row for each: see [`tag_key`].
pub const TAGS: &str = "/conductor/tag";
/// What `${workflow.env.NAME}` is, by name.
pub const ENVIRONMENT: &str = "/conductor/environment";
/// Schemas, as `name@version`.
pub const SCHEMAS: &str = "/conductor/schema";
/// Forms for tasks that people do, as `name@version`.
pub const HUMAN_TEMPLATES: &str = "/conductor/template";
/// Who does a task that is for people, by the id of the errand.
pub const HUMAN_TASKS: &str = "/conductor/human";
/// Where webhooks of Conductor's arrive, by id.
pub const WEBHOOKS: &str = "/conductor/webhook";
/// What arrived there, by webhook, newest first.
pub const WEBHOOK_EVENTS: &str = "/conductor/webhook-event";
/// What came of the instants of Conductor's schedules, newest first.
pub const SCHEDULE_EXECUTIONS: &str = "/conductor/schedule-execution";

/// The key of a tag. What begins with the key of an empty `tag` are all tags of the thing.
pub fn tag_key(kind: &str, name: &str, tag: &str) -> String {
    format!("{kind}\n{name}\n{tag}")
}

/// What sorts later instants first.
pub fn newest_first(at: Millis) -> String {
    format!("{:020}", u64::MAX - at.0.max(0).unsigned_abs())
}

/// Keys of the server's own, which no author, caller or person can name.
pub fn is_own_namespace(name: &str) -> bool {
    name.starts_with('/')
}

/// What few runs have. Kept in one column, so that most runs pay nothing for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunMore {
    /// Not before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at: Option<Millis>,
    /// The run whose steps this one does again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_of: Option<RunId>,
    /// The first run of that line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<RunId>,
    /// A person gave it a slot of its lane that there was not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forced: bool,
}

impl RunMore {
    pub fn is_nothing(&self) -> bool {
        *self == RunMore::default()
    }
}

impl RunRow {
    /// The first of the runs that replay one another.
    pub fn original(&self) -> RunId {
        self.more.original.unwrap_or(self.id)
    }
}

/// The slot rule a run was admitted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneRef {
    pub hash: Hash16,
    pub limit: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentRef {
    pub run: RunId,
    pub step: StepKey,
    /// The parent wants to hear of the end.
    pub waits: bool,
}

/// The user's values of a run, apart from its head; erasure empties all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunValues {
    pub inputs: Option<Json>,
    pub trigger: Option<Json>,
    pub outputs: Option<Json>,
    /// `{code, message, step}` of what failed the run.
    pub failure: Option<Json>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JournalRow {
    pub run: RunId,
    pub seq: u64,
    pub at: Millis,
    pub format: u32,
    pub events: Vec<u8>,
    pub values: Option<Vec<u8>>,
}

/// A cache of the folded state; the journal stays the truth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SnapshotRow {
    pub run: RunId,
    pub version: u64,
    pub format: u32,
    pub state: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimerRow {
    pub workspace: WorkspaceId,
    pub run: RunId,
    pub timer: u64,
    pub due: Millis,
}

/// One side effect of a step, as people and the checker see it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EffectRow {
    pub step_id: Hash16,
    pub run: RunId,
    pub step: StepKey,
    pub class: EffectClass,
    pub state: EffectState,
    pub attempt: u32,
    pub sends: u32,
    pub out_key: String,
    pub safe_until: Option<Millis>,
    pub at: Millis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    Intent,
    Done,
    FailedClean,
    InDoubt,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogRow {
    pub run: RunId,
    pub seq: u64,
    pub at: Millis,
    pub level: String,
    pub step: StepKey,
    pub message: String,
}

/// One attempt at a step that someone outside carries out. It stays, without its request, when the attempt has ended:
/// whoever asks about it or answers it once more is told so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrandRow {
    /// Of the attempt: see [`semel_core::run::errand_id`].
    pub id: Hash16,
    pub run: RunId,
    pub queue: String,
    /// Empty for workers that ask for no domain.
    #[serde(default)]
    pub domain: String,
    pub kind: ErrandKind,
    pub open: bool,
    /// Somebody has it.
    pub taken: bool,
    pub priority: u8,
    /// Nobody gets it before.
    pub free_at: Millis,
    /// When something must be done about it if nothing happens.
    pub due: Option<Millis>,
    pub more: ErrandMore,
}

/// What nobody looks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrandMore {
    pub step: StepKey,
    pub attempt: u32,
    pub set_at: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub poll_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_ms: Option<i64>,
    /// What the run is told of the attempt when it ends.
    #[serde(default)]
    pub seen: Seen,
    /// Until when whoever has it need not give a sign of life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leased_until: Option<Millis>,
    /// It was said already that nobody took it in time, or that it takes too long.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub told_late: bool,
    /// What whoever takes it is given, in stored form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Json>,
    /// What whoever had it last has said so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<Json>,
    /// Events that whoever hands it out is to publish.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_taken: Vec<Json>,
    /// The errand that was handed out to whoever answered this one, in the same breath.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Hash16>,
}

impl ErrandRow {
    /// When the attempt is late, and for what.
    pub fn lateness(&self) -> Option<(Millis, Late)> {
        if !self.open {
            return None;
        }
        let more = &self.more;
        let silent = more.leased_until.filter(|_| self.taken).map(|at| (at, Late::Response));
        // A wait is counted from the beginning, work from the first taking.
        let begun = if self.kind == ErrandKind::Simple { more.seen.taken_at } else { Some(self.more.set_at) };
        let long = begun.and_then(|at| Some((at.plus(more.attempt_ms?), Late::Attempt)));
        let alone = more.poll_ms.filter(|_| more.seen.polls == 0).map(|ms| (self.free_at.plus(ms), Late::Poll));
        let bounds = [long, alone].into_iter().flatten().filter(|_| !more.told_late);
        silent.into_iter().chain(bounds).min_by_key(|(at, _)| *at)
    }

    /// The row as its own fields say when it is due.
    pub fn timed(mut self) -> ErrandRow {
        self.due = self.lateness().map(|(at, _)| at);
        self
    }

    /// The attempt has ended: nobody gets it any more, and nobody needs its values.
    pub fn ended(mut self) -> ErrandRow {
        self.open = false;
        self.taken = false;
        self.due = None;
        self.more = ErrandMore { request: None, progress: None, leased_until: None, ..self.more };
        self
    }
}

/// A message for a run, durable until the commit that acts on it removes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum Inbox {
    /// The run got its slot.
    Promoted,
    Cancel {
        by: By,
    },
    /// As [`Inbox::Cancel`], but what it has started goes on.
    CancelAlone {
        by: By,
    },
    Delivered {
        payload: Json,
    },
    ChildEnded {
        run: RunId,
        status: EndStatus,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conclusion: Option<Conclusion>,
        /// It completed, and something in it was not as it should be.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        warned: bool,
        outputs: Json,
        doubts: u32,
    },
    DoubtsBelow {
        run: RunId,
        count: u32,
    },
    /// A sub-run that had ended goes on by a person's wish.
    ChildReopened {
        run: RunId,
        by: By,
    },
    /// An attempt of an errand is late.
    ErrandLate {
        step: StepKey,
        attempt: u32,
        late: Late,
        seen: Seen,
    },
    /// A rule ends the run.
    Stop {
        by: By,
        status: EndStatus,
        code: String,
        text: String,
    },
    /// A twin asked for the failed run to go on.
    Restart {
        by: By,
    },
    /// What a person asked of the run at another node; the answer goes by the ticket.
    Asked {
        ticket: Hash16,
        control: Json,
        by: By,
    },
}

/// One occurrence and what was decided: append-only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DecisionRow {
    /// Given by the store.
    pub seq: u64,
    pub workspace: WorkspaceId,
    pub at: Millis,
    pub door: Door,
    pub occurrence: String,
    pub flow: FlowRef,
    pub scope: Option<String>,
    pub key: Option<String>,
    pub key_source: Option<KeySource>,
    pub claim: Option<Hash16>,
    pub fingerprint: Fingerprint,
    pub policy: Policy,
    pub prior: Prior,
    pub prior_run: Option<RunId>,
    pub prior_generation: u32,
    pub same_payload: bool,
    pub decision: Decision,
    pub reason: Reason,
    pub run: Option<RunId>,
    pub generation: u32,
    pub caller: String,
    pub rules_version: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KvRow {
    pub namespace: String,
    pub key: String,
    pub value: Json,
    pub kv_type: String,
    pub revision: u64,
    pub updated_at: Millis,
    pub expires_at: Option<Millis>,
}

/// One revision of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowRow {
    pub workspace: WorkspaceId,
    pub flow: FlowRef,
    pub revision: u32,
    pub source: String,
    /// The compiled IR as JSON text.
    pub ir: String,
    pub disabled: bool,
    /// This revision says that the flow is gone; the ones before it stay for the runs that have them.
    #[serde(default)]
    pub deleted: bool,
    pub created_at: Millis,
    pub created_by: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleRow {
    pub workspace: WorkspaceId,
    pub flow: FlowRef,
    pub trigger: String,
    pub next_due: Option<Millis>,
    pub last_fired: Option<Millis>,
    pub state: TriggerState,
}

/// What is remembered of a trigger beside its instants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TriggerState {
    /// Somebody has switched it off, whatever the flow says.
    #[serde(default, skip_serializing_if = "is_false")]
    pub disabled: bool,
    /// It was switched on again: its next instant is counted from now on.
    #[serde(default, skip_serializing_if = "is_false")]
    pub woken: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfill: Option<Backfill>,
    /// The run that a poll has started last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<RunId>,
    /// What several upstream runs have met together so far, by the name of the preconditions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub windows: BTreeMap<String, WindowState>,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Instants of the past that a schedule makes up for. Meanwhile it does nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Backfill {
    /// Tells one backfill from another over the same instants.
    pub id: String,
    pub start: Millis,
    pub end: Millis,
    /// Instants before this one are settled.
    pub current: Millis,
    #[serde(default)]
    pub paused: bool,
    /// Inputs for its runs, over those of the trigger.
    #[serde(default)]
    pub inputs: Json,
    #[serde(default)]
    pub labels: Vec<(String, String)>,
    /// When the schedule is due again afterwards.
    #[serde(default)]
    pub resume_due: Option<Millis>,
    /// The run that was started last.
    #[serde(default)]
    pub last_run: Option<RunId>,
}

/// Conditions that have been met while a window is open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowState {
    pub start: Millis,
    pub end: Millis,
    pub met: BTreeSet<String>,
}

/// A change of a run's state that flow triggers have yet to hear of. It is written by the transaction that changes the
/// state, and goes when all have heard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeRow {
    pub workspace: WorkspaceId,
    pub run: RunId,
    /// The run's version then.
    pub version: u64,
    pub at: Millis,
    /// Kestra's word for the state.
    pub state: String,
    /// Triggers for which this change is settled, as `namespace:flow trigger`.
    pub heard: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecretRow {
    pub workspace: WorkspaceId,
    pub name: String,
    pub version: u64,
    pub key_id: String,
    pub nonce: Vec<u8>,
    pub ciphertext: Vec<u8>,
    pub created_at: Millis,
    /// The name no longer resolves; old versions stay readable for runs that hold a reference.
    pub retired: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenRow {
    pub id: String,
    pub workspace: WorkspaceId,
    pub name: String,
    pub role: String,
    pub secret_hash: Vec<u8>,
    pub created_at: Millis,
    pub expires_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
}

/// A file of a run: where it is, and which chunks it is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRow {
    pub run: RunId,
    /// The whole path of its address.
    pub path: String,
    /// Names the chunks. Each writing has its own, so that a file is replaced as a whole or not at all.
    pub file: Hash16,
    pub bytes: u64,
    pub chunks: u32,
    pub at: Millis,
}

/// A store that was made from a backup: another incarnation of the one that was backed up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoredRow {
    pub incarnation: String,
    /// What came after this instant is lost.
    pub backup_at: Millis,
    pub restored_at: Millis,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkspaceRow {
    pub id: WorkspaceId,
    pub created_at: Millis,
}
