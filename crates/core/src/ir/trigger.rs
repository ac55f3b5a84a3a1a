//! What starts a flow by itself.

use super::{Condition, Preconditions, Template};
use crate::Millis;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    pub id: String,
    #[serde(default)]
    pub disabled: bool,
    /// Templates for the flow's inputs.
    #[serde(default)]
    pub inputs: IndexMap<String, Json>,
    #[serde(default)]
    pub labels: IndexMap<String, Template>,
    pub kind: TriggerKind,
    /// All must hold for the trigger to fire.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Kestra's words for the states of its runs that switch the trigger off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop_after: Vec<String>,
    /// Runs of the trigger may overlap.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_concurrent: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TriggerKind {
    Webhook {
        /// The secret part of the URL; may use `secret()`.
        key: Template,
        #[serde(default)]
        wait: bool,
        #[serde(default)]
        return_outputs: bool,
        #[serde(default)]
        signature: Option<SignatureSpec>,
        /// Status of the answer that holds the outputs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_code: Option<u16>,
        /// What the outputs are sent as.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_type: Option<ResponseType>,
        /// What is sent becomes a file of the run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        store_body: bool,
    },
    Schedule {
        cron: String,
        timezone: String,
        #[serde(default)]
        with_seconds: bool,
        recover: RecoverMissed,
        #[serde(default)]
        late_max_ms: Option<i64>,
    },
    ScheduleOnDates {
        /// In order, each once.
        dates: Vec<Millis>,
        timezone: String,
        recover: RecoverMissed,
    },
    /// Asks the outside now and then.
    Http {
        interval_ms: i64,
        /// The properties of the http.Request to send, string leaves being templates.
        request: Json,
        /// Over `response`; the same rule as for `runIf`.
        response_condition: Template,
    },
    /// Runs of other flows.
    Flow {
        /// Kestra's words for the states to hear of.
        states: Vec<String>,
        #[serde(default)]
        preconditions: Option<Preconditions>,
    },
}

impl TriggerKind {
    /// The engine looks at it by itself, again and again.
    pub fn has_instants(&self) -> bool {
        self.is_timed() || matches!(self, TriggerKind::Http { .. })
    }

    /// When it fires follows from the clock alone.
    pub fn is_timed(&self) -> bool {
        match self {
            TriggerKind::Schedule { .. } | TriggerKind::ScheduleOnDates { .. } => true,
            TriggerKind::Webhook { .. } | TriggerKind::Flow { .. } | TriggerKind::Http { .. } => false,
        }
    }
}

impl Trigger {
    /// What several upstream runs must meet together.
    pub fn windows(&self) -> impl Iterator<Item = &Preconditions> {
        let own = match &self.kind {
            TriggerKind::Flow { preconditions, .. } => preconditions.as_ref(),
            TriggerKind::Webhook { .. }
            | TriggerKind::Schedule { .. }
            | TriggerKind::ScheduleOnDates { .. }
            | TriggerKind::Http { .. } => None,
        };
        let older = self.conditions.iter().filter_map(|condition| match condition {
            Condition::Multiple(preconditions) => Some(preconditions),
            _ => None,
        });
        older.chain(own)
    }
}

/// How a webhook sends outputs back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ResponseType {
    #[serde(rename = "application/json")]
    Json,
    #[serde(rename = "text/plain")]
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RecoverMissed {
    All,
    Last,
    None,
}

/// How a webhook proves who sent it. The secret may list several values during a rotation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignatureSpec {
    pub scheme: SignatureScheme,
    /// Templates, usually `{{ secret('NAME') }}`; any one that matches is enough.
    pub secrets: Vec<Template>,
    /// Header that carries a generic HMAC (hex or base64, with or without `sha256=`).
    #[serde(default)]
    pub header: Option<String>,
    pub tolerance_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignatureScheme {
    HmacSha256,
    StandardWebhooks,
    Stripe,
    Github,
}
