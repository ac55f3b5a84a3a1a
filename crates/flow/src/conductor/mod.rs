//! Conductor workflow definitions to IR.
//!
//! | stage | module | what it does |
//! |---|---|---|
//! | read | `model`, `reader` | JSON to the fields that are known; a wrong shape is noted with its path |
//! | validate | `validate` | Conductor's own rules, in its words, and what this build does not have |
//! | lower | `lower`, one file per family of task types | tasks to [`semel_core::ir`] |
//!
//! A definition with mistakes gets all of them at once, each with the JSON path it is about. Fields that Conductor
//! does not know are ignored, as it ignores them; fields that it knows and this build does not carry out are refused.

mod fork;
mod leaves;
mod loops;
mod lower;
mod model;
mod reader;
mod starts;
mod validate;

use semel_core::ir::Flow;
use semel_core::limits::Limits;
use serde_json::Value as Json;

/// Something that is wrong with a definition.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Where, as `tasks[0].decisionCases['a'][1].type`; empty for the definition as a whole.
    pub path: String,
    pub message: String,
    /// What stands there, where that helps.
    pub invalid_value: Json,
}

impl Violation {
    pub(crate) fn new(path: impl Into<String>, message: impl Into<String>) -> Violation {
        Violation { path: path.into(), message: message.into(), invalid_value: Json::Null }
    }

    pub(crate) fn with(mut self, value: &Json) -> Violation {
        self.invalid_value = value.clone();
        self
    }
}

/// A definition that passed every check of its own.
#[derive(Clone, Debug)]
pub struct CompiledWorkflow {
    pub flow: Flow,
    /// Definitions that stand inside this one, for its SUB_WORKFLOW tasks; each is stored beside it under its own id.
    pub inner: Vec<Flow>,
}

/// Compiles the text of one definition. `Err` holds at least one violation.
pub fn compile_text(text: &str, limits: &Limits) -> Result<CompiledWorkflow, Vec<Violation>> {
    if text.len() > limits.flow_bytes_max {
        let message = format!("a definition may have {} bytes; this one has {}", limits.flow_bytes_max, text.len());
        return Err(vec![Violation::new("", message)]);
    }
    let json = serde_json::from_str(text)
        .map_err(|error| vec![Violation::new("", format!("the definition is not JSON: {error}"))])?;
    compile(&json, limits)
}

/// Compiles one definition.
pub fn compile(definition: &Json, limits: &Limits) -> Result<CompiledWorkflow, Vec<Violation>> {
    compile_as(definition, limits, None, References::Own)
}

/// Compiles one definition that is stored under another id than its name and version say.
pub fn compile_under(definition: &Json, limits: &Limits, id: String) -> Result<CompiledWorkflow, Vec<Violation>> {
    compile_as(definition, limits, Some(id), References::Own)
}

/// What its expressions may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum References {
    /// Its own tasks only.
    Own,
    /// Anything: it stands inside another one, whose author may have meant that one's tasks. They are null in it.
    Any,
}

/// `id` is that of a definition inside another one.
fn compile_as(
    definition: &Json,
    limits: &Limits,
    id: Option<String>,
    references: References,
) -> Result<CompiledWorkflow, Vec<Violation>> {
    let (workflow, mut violations) = model::read(definition);
    let Some(workflow) = workflow else { return Err(violations) };
    violations.extend(validate::violations(&workflow, limits, references));
    let lowered = lower::workflow(&workflow, id, limits);
    match lowered {
        Ok(compiled) if violations.is_empty() => Ok(compiled),
        Ok(_) => Err(violations),
        Err(more) => {
            violations.extend(more);
            Err(violations)
        }
    }
}
