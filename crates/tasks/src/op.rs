//! Tasks on Semel's own rows. They only say what is to be done; the store does it inside the
//! commit that records the step, so there is never a doubt about them.

use crate::registry::{self, Work};
use crate::{TaskError, config};
use semel_core::Hash16;
use serde_json::{Map, Value as Json};

/// `namespace: None` is the flow's own namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum KvOp {
    Set {
        namespace: Option<String>,
        key: String,
        /// Already converted to what `kv_type` asks for.
        value: Json,
        kv_type: Option<String>,
        overwrite: bool,
        ttl_ms: Option<i64>,
    },
    Get {
        namespace: Option<String>,
        key: String,
        error_on_missing: bool,
    },
    Delete {
        namespace: Option<String>,
        key: String,
        error_on_missing: bool,
    },
    /// Reads a state of the flow.
    StateGet {
        at: StateAt,
        error_on_missing: bool,
    },
    /// Merges values into a state of the flow.
    StateSet {
        at: StateAt,
        data: Map<String, Json>,
    },
    StateDelete {
        at: StateAt,
        error_on_missing: bool,
    },
    /// Switches a trigger on or off. `flow_id: None` is the flow itself.
    Toggle {
        namespace: Option<String>,
        flow_id: Option<String>,
        trigger: String,
        enabled: bool,
    },
    /// Not on a key: another run is asked to stop.
    Kill {
        run: String,
        /// The runs that it has started go on.
        alone: bool,
    },
    /// A run that stands still is told to go on. Without an id: the paused run of that flow, or this one.
    Resume {
        run: Option<String>,
        namespace: Option<String>,
        flow_id: Option<String>,
        inputs: Json,
    },
}

/// Which of a flow's states is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateAt {
    pub name: String,
    /// All flows of the namespace have it together.
    pub shared: bool,
    /// In a loop, each value has one of its own.
    pub by_value: bool,
}

impl StateAt {
    /// The key under which it is kept in the store of the flow's namespace. A value may be any text, so that its
    /// digest stands for it.
    pub fn key(&self, flow_id: &str, value: Option<&str>) -> String {
        let flow = if self.shared { String::new() } else { format!("{flow_id}_") };
        let value = value.filter(|_| self.by_value).map(|value| format!("_{}", Hash16::of(&[value.as_bytes()]).hex()));
        format!("{flow}states_tasks-states_{}{}", self.name, value.unwrap_or_default())
    }
}

/// Turns the rendered properties of an op task into what the commit must do.
pub fn plan_op(type_name: &str, config: &Json) -> Result<KvOp, TaskError> {
    match registry::work(type_name) {
        Some(Work::Op(plan)) => plan(config),
        Some(Work::Inline(_) | Work::Effect(_)) | None => Err(TaskError::unknown_type(type_name)),
    }
}

/// The characters Kestra allows in a key, so that a key can also stand in a URL.
pub(crate) fn key(config: &Json) -> Result<String, TaskError> {
    let key = config::required_text(config, "key")?;
    if key.starts_with(|c: char| c.is_ascii_alphanumeric()) && key.chars().all(is_key_char) {
        return Ok(key);
    }
    Err(TaskError::config(format!(
        "the key `{key}` must start with a letter or a digit and may hold only letters, digits, dots, underscores and hyphens"
    )))
}

/// The state that a task names.
pub(crate) fn state(config: &Json) -> Result<StateAt, TaskError> {
    let name = config::text(config, "name").unwrap_or_else(|| "default".to_owned());
    if name.is_empty() || !name.chars().all(is_key_char) {
        return Err(TaskError::config(format!(
            "the name `{name}` of a state may hold only letters, digits, dots, underscores and hyphens"
        )));
    }
    let (shared, by_value) = (config::flag(config, "namespace", false)?, config::flag(config, "taskrunValue", true)?);
    Ok(StateAt { name, shared, by_value })
}

fn is_key_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

pub(crate) fn namespace(config: &Json) -> Option<String> {
    config::text(config, "namespace").filter(|name| !name.trim().is_empty())
}
