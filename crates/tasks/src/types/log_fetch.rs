//! `log.Fetch`: the lines of a run's log, as a file with one JSON object in each row.

use super::field;
use super::storage::named;
use crate::config::texts;
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::inline::Level;
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::RunId;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

const LEVELS: &[&str] = &["TRACE", "DEBUG", "INFO", "WARN", "ERROR"];

pub const SPEC: TaskSpec = TaskSpec {
    name: "log.Fetch",
    aliases: &["io.kestra.core.tasks.log.Fetch"],
    summary: "Keep the lines of a run's log as a file.",
    mode: LeafMode::Effect,
    class: EffectClass::Read,
    fields: &[
        field("namespace", FieldKind::Text, "Accepted: a run is found by its id alone."),
        field("flowId", FieldKind::Text, "Accepted: a run is found by its id alone."),
        field("executionId", FieldKind::Text, "The run; this one by default."),
        field("tasksId", FieldKind::TextOrList, "Only lines of these tasks."),
        field("level", FieldKind::Choice(LEVELS), "The lowest level; INFO by default."),
    ],
    outputs: &["uri", "size"],
};

pub const WORK: Work = Work::Effect(EffectWork { class: |_| EffectClass::Read, perform, ..pure() });

/// Lines read at once.
const PAGE: u32 = 1_000;

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, fetch)
}

fn fetch(desk: &Desk, request: &Request, _: &Limits) -> Result<Json, TaskError> {
    let run: RunId = match config::text(&request.config, "executionId").filter(|text| !text.is_empty()) {
        Some(text) => text.parse().map_err(|()| TaskError::config(format!("`{text}` is not the id of a run")))?,
        None => desk.home.run.ok_or_else(|| TaskError::config("`executionId` is missing"))?,
    };
    let lowest: Level = config::text(&request.config, "level").unwrap_or_else(|| "INFO".to_owned()).parse()?;
    let tasks = texts(&request.config, "tasksId")?;
    let mut writer = desk.create(&named("logs", Some(".ion")))?;
    let (mut after, mut size) = (0, 0_u64);
    loop {
        let page = desk.files.logs(&desk.home.workspace, run, after, PAGE)?;
        let Some(last) = page.last() else { break };
        after = last.seq;
        for line in page {
            // What is not a level of a step is said by Semel itself, to be read.
            let level = line.level.parse().unwrap_or(Level::Info);
            if level < lowest || !(tasks.is_empty() || tasks.contains(&line.task)) {
                continue;
            }
            let row = json!({
                "executionId": run.to_string(), "taskId": line.task, "timestamp": line.at.to_rfc3339(),
                "level": level.word(), "message": line.message,
            });
            writer.write(format!("{row}\n").as_bytes())?;
            size += 1;
        }
    }
    Ok(json!({"uri": writer.finish()?, "size": size}))
}
