//! Expression languages of Semel flows, pure, with taint and fuel: Pebble in the shape Kestra authors write it, and
//! `${…}` of Conductor ([`conductor`]).
//!
//! Nothing here reads a clock, a file, the network or randomness: all of it arrives through [`Scope`], so the engine
//! can journal what an evaluation saw and never evaluate twice with another result.
//!
//! Three rules shape every module:
//!
//! - **Taint.** A value that holds or was computed from a secret is [`Value::Tainted`]: text with holes. Plain secret
//!   text never sits in any other variant, hence it cannot reach the journal, a log or an error message.
//! - **Author text only.** A template is evaluated only when the flow's author wrote it. Caller data (inputs, headers,
//!   outputs) is never parsed as a template, not even by `render()`; author text inside `vars` is [`Value::Deferred`].
//! - **Bounds.** Every step costs fuel, every text built is measured, nesting is refused while parsing, so no input
//!   overflows the stack or runs for ever.

mod ast;
mod budget;
mod catalog;
pub mod conductor;
mod dates;
mod eval;
mod filters;
mod functions;
mod ion;
mod jq;
mod lexer;
mod nodes;
mod ops;
mod parser;
mod references;
mod render;
mod stored;
mod taint;
mod template;
mod value;
mod yaml;

pub use budget::Budget;
pub use catalog::{is_known_filter, is_known_function, suggest_filter, suggest_function};
pub use functions::is_built_function;
pub use references::References;
pub use render::{render, render_json, render_typed};
pub use taint::texts_in_sealed;
pub use template::{SyntaxError, Template};
pub use value::{Part, SecretRef, Tainted, Value};

/// Everything an expression may learn from outside itself.
pub trait Scope {
    /// A context root such as `inputs`, `outputs`, `vars` or `trigger`.
    fn root(&self, name: &str) -> Option<Value>;
    /// Resolves `secret(name, namespace)` to a reference; the text of the secret stays behind it.
    fn secret(&self, name: &str, namespace: Option<&str>) -> Result<SecretRef, String>;
    /// The real text of a hole, for operators that have to look at it.
    fn reveal(&self, part: &Part) -> Result<String, String>;
    /// Encrypts a text computed through a secret, so that it may be stored.
    fn seal(&self, plain: &str) -> Result<String, String>;
    /// Reads a key of the key-value store.
    fn kv(&self, key: &str, namespace: Option<&str>, error_on_missing: bool) -> Result<Value, String>;
    /// The time `now()` answers, in milliseconds since 1970.
    fn now_millis(&self) -> i64;
    /// Randomness for `randomInt`, `uuid`, `id` and `nanoId`.
    fn random_u64(&self) -> u64;
    /// Functions that need the engine (`read`, `errorLogs`, …). Arguments may be tainted; `None` means not available.
    fn host(&self, _name: &str, _args: &[Value], _named: &[(String, Value)]) -> Option<Result<Value, String>> {
        None
    }
}

/// Why an evaluation failed. The message never holds revealed text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    /// Stable code: `missing_variable`, `fuel`, `output_limit`, `depth`, `type`, `function`, `filter`, `secret`, `kv`.
    pub code: &'static str,
    /// A sentence for the author of the flow.
    pub message: String,
    /// Line inside the template text, from 1; 0 when no template was involved.
    pub line: u32,
}

impl EvalError {
    pub(crate) fn new(code: &'static str, message: impl Into<String>) -> Self {
        EvalError { code, message: message.into(), line: 0 }
    }

    pub(crate) fn type_error(message: impl Into<String>) -> Self {
        EvalError::new("type", message)
    }
}
