//! The management API: one file per resource.

pub mod check;
pub mod control;
pub mod decisions;
pub mod explain;
pub mod follow;
pub mod history;
pub mod keys;
pub mod kv;
pub mod nodes;
pub mod refusals;
pub mod runs;
pub mod schedules;
pub mod secrets;
pub mod start;
pub mod tokens;
pub mod workflows;
pub mod workspaces;

use crate::codes::Code;
use crate::problem::Problem;
use semel_store::Done;

/// A write that names one thing: it was done, the thing is not there, or its state forbids it.
fn done(answer: Done, missing: impl FnOnce() -> Problem) -> Result<Done, Problem> {
    match answer {
        Done::Missing => Err(missing()),
        Done::Refused(refusal) => Err(refusal.into()),
        Done::Admitted(_)
        | Done::Committed(_)
        | Done::Flow { .. }
        | Done::Kv(_)
        | Done::Errands(_)
        | Done::Wake(_)
        | Done::Secret { .. }
        | Done::Count(_)
        | Done::Unit => Ok(answer),
    }
}

/// Names in paths and bodies that become keys of rows.
fn check_name(field: &str, text: &str) -> Result<(), Problem> {
    const CHARS_MAX: usize = 255;
    let chars = text.chars().count();
    if text.trim().is_empty() || chars > CHARS_MAX || text.chars().any(char::is_control) {
        let detail = format!("`{field}` must be 1 to {CHARS_MAX} characters, not blank and without control characters");
        return Err(Problem::new(Code::BodyInvalid, detail));
    }
    Ok(())
}
