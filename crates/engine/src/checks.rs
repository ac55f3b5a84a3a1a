//! `checks:` of a flow: what must hold before a person or a program that calls the API gets a run.

use crate::admit::failed_checks;
use crate::api::{AdmitError, Occurrence};
use crate::away;
use crate::handle::Engine;
use crate::scope::ExprScope;
use semel_core::Door;
use semel_core::ir::{CheckBehavior, CheckStyle, FlowCheck};
use semel_core::run::{EndStatus, Failure};
use semel_expr::{Budget, Value, render_json};
use serde_json::Value as Json;

/// A check that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCheck {
    pub message: String,
    pub style: CheckStyle,
    pub behavior: CheckBehavior,
}

impl Engine {
    /// The checks of the flow that do not hold for this occurrence, whatever its door makes of them.
    pub fn failed_checks(&self, occurrence: &Occurrence) -> Result<Vec<FailedCheck>, AdmitError> {
        away::noticed(|| failed_checks(&self.services, occurrence, self.store().now()))?
    }
}

/// All checks that do not hold. One that cannot be evaluated forbids the run.
pub fn failed(checks: &[FlowCheck], scope: &ExprScope<'_>) -> Vec<FailedCheck> {
    let look = |check: &FlowCheck| {
        let condition = Json::String(check.condition.clone());
        let (message, behavior) = match render_json(&condition, scope, &mut Budget::default(), true) {
            Ok(Value::Bool(true)) => return None,
            Ok(Value::Str(text)) if text.trim() == "true" => return None,
            Ok(_) => (check.message.clone(), check.behavior),
            Err(error) => (format!("{} ({})", check.message, error.message), CheckBehavior::BlockExecution),
        };
        Some(FailedCheck { message, style: check.style, behavior })
    };
    checks.iter().filter_map(look).collect()
}

/// What the flow's checks make of an occurrence: nothing, a refusal, or a run that has failed already.
pub fn ended(occurrence: &Occurrence, scope: &ExprScope<'_>) -> Result<Option<(EndStatus, Failure)>, AdmitError> {
    let checks = &occurrence.flow.index.flow.checks;
    if checks.is_empty() || !matches!(occurrence.door, Door::Kestra | Door::Trigger | Door::Cli) {
        return Ok(None);
    }
    let failed = failed(checks, scope);
    let messages = || failed.iter().map(|check| check.message.clone()).collect::<Vec<_>>();
    match failed.iter().map(|check| check.behavior).max() {
        None | Some(CheckBehavior::CreateExecution) => Ok(None),
        Some(CheckBehavior::FailExecution) => {
            Ok(Some((EndStatus::Failed, Failure::new("check_failed", messages().join("; ")))))
        }
        Some(CheckBehavior::BlockExecution) => Err(AdmitError::Checks(messages())),
    }
}
