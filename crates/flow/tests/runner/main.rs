//! One binary for all tests of the crate: linking is most of the time a test build takes.

mod accepted;
mod catalog;
mod conductor;
mod defaults;
mod full_flow;
mod limits;
mod mistakes;
mod mistakes_fields;
mod mistakes_yaml;
mod properties;
mod reference;

use semel_core::limits::Limits;
use semel_flow::{Compiled, Diagnostic, compile, render};

fn check(source: &str) -> Result<Compiled, Vec<Diagnostic>> {
    compile(source, &catalog::TEST, &Limits::default())
}

/// Compiles text that must be right.
fn accept(source: &str) -> Compiled {
    check(source).unwrap_or_else(|diagnostics| panic!("{}", render(&diagnostics, "flow.yaml", source, false)))
}

/// What an author sees: errors, or the warnings of a flow that compiles.
fn shown(source: &str) -> String {
    let diagnostics = match check(source) {
        Ok(compiled) => compiled.warnings,
        Err(diagnostics) => {
            assert!(diagnostics.iter().any(Diagnostic::is_error), "a refusal without an error");
            diagnostics
        }
    };
    render(&diagnostics, "flow.yaml", source, false)
}

/// Codes with line and column, for tests that do not care about the wording.
fn codes(source: &str) -> Vec<String> {
    let diagnostics = match check(source) {
        Ok(compiled) => compiled.warnings,
        Err(diagnostics) => diagnostics,
    };
    diagnostics.iter().map(|found| format!("{} {}:{}", found.code, found.span.line, found.span.column)).collect()
}

/// A flow with one Log task, then the given top-level text.
fn with(rest: &str) -> String {
    format!("id: f\nnamespace: n\ntasks:\n  - id: a\n    type: log.Log\n    message: hi\n{rest}")
}

/// A flow whose task list is the given text.
fn tasks(list: &str) -> String {
    format!("id: f\nnamespace: n\ntasks:\n{list}")
}
