//! Tasks on Semel's own rows. They only say what is to be done; the store does it inside the
//! commit that records the step, so there is never a doubt about them.

use crate::registry::{self, Work};
use crate::{TaskError, config};
use serde_json::Value as Json;

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
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if key.starts_with(|c: char| c.is_ascii_alphanumeric()) && key.chars().all(inner) {
        return Ok(key);
    }
    Err(TaskError::config(format!(
        "the key `{key}` must start with a letter or a digit and may hold only letters, digits, dots, underscores and hyphens"
    )))
}

pub(crate) fn namespace(config: &Json) -> Option<String> {
    config::text(config, "namespace").filter(|name| !name.trim().is_empty())
}
