//! A run as people see it.

use crate::failure::Failure;
use crate::output::{Paint, Shell};
use crate::table::{self, Column, column, field, lasted, time};
use serde_json::Value as Json;

pub const COLUMNS: &[Column] = &[
    column("RUN", |item| field(item, "run_id")),
    column("WORKFLOW", |item| field(item, "workflow_id")),
    column("STATUS", |item| field(item, "status")),
    column("KEY", |item| field(item, "key")),
    column("DOOR", |item| field(item, "door")),
    column("CREATED", |item| time(item, "created_at")),
    column("TOOK", |item| lasted(item, "started_at", "ended_at")),
];

pub fn card(shell: &Shell, run: &Json) -> String {
    let workflow = format!("{} revision {}", field(run, "workflow_id"), field(run, "revision"));
    table::card(
        shell.out,
        &[
            ("run", field(run, "run_id")),
            ("workflow", workflow),
            ("status", status(shell.out, &field(run, "status"))),
            ("error", error(run)),
            ("doubts", nonzero(run, "open_doubts")),
            ("key", field(run, "key")),
            ("door", field(run, "door")),
            ("generation", field(run, "generation")),
            ("take", nonzero(run, "take")),
            ("correlation", field(run, "correlation_id")),
            ("parent", field(run, "parent_run_id")),
            ("labels", pairs(&run["labels"])),
            ("inputs", nested(&run["inputs"])),
            ("outputs", nested(&run["outputs"])),
            ("created", time(run, "created_at")),
            ("started", time(run, "started_at")),
            ("ended", time(run, "ended_at")),
            ("took", lasted(run, "started_at", "ended_at")),
        ],
    )
}

pub fn status(paint: Paint, status: &str) -> String {
    match status {
        "completed" => paint.green(status),
        "failed" => paint.red(status),
        "held" | "paused" | "cancelled" => paint.yellow(status),
        _ => paint.cyan(status),
    }
}

fn error(run: &Json) -> String {
    let error = &run["error"];
    let step = field(error, "step");
    let place = if step.is_empty() { String::new() } else { format!(" (step {step})") };
    if error.is_object() {
        format!("{}: {}{place}", field(error, "code"), field(error, "message"))
    } else {
        String::new()
    }
}

fn nonzero(run: &Json, name: &str) -> String {
    let text = field(run, name);
    if text == "0" { String::new() } else { text }
}

fn pairs(value: &Json) -> String {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(name, value)| format!("{name}={}", table::plain(value))).collect::<Vec<_>>().join(" ")
}

fn nested(value: &Json) -> String {
    match value {
        Json::Object(map) if map.is_empty() => String::new(),
        other => table::plain(other),
    }
}

/// True once nothing more happens to the run by itself.
pub fn is_settled(status: &str) -> bool {
    matches!(status, "completed" | "failed" | "cancelled" | "held")
}

/// Why a settled run is not a success.
pub fn failure(run: &Json) -> Option<Failure> {
    let (id, status) = (field(run, "run_id"), field(run, "status"));
    let failure = match status.as_str() {
        "failed" => Failure::refused("run_failed", format!("run {id} failed"))
            .hint(format!("semel run show {id} --logs --steps")),
        "cancelled" => Failure::refused("run_cancelled", format!("run {id} was cancelled")),
        "held" => Failure::refused("run_held", format!("run {id} is held: an effect is in doubt"))
            .hint(format!("look with `semel run show {id} --steps`, then decide with `semel run verdict {id}`")),
        _ => return None,
    };
    Some(failure.details(run.clone()))
}
