//! `execution.PurgeExecutions`: ended runs that are old enough go, or their files or logs do.

use super::field;
use super::purge::{BATCH, END, FLOW, NAMESPACE, START, read};
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::{Desk, Purge};
use crate::inline::Level;
use crate::registry::Work;
use crate::{TaskError, config};
use semel_core::ir::{EffectClass, FieldKind, FieldSpec, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

const STATES: FieldSpec = field("states", FieldKind::TextOrList, "Only runs in these states.");

pub const SPEC: TaskSpec = TaskSpec {
    name: "execution.PurgeExecutions",
    aliases: &[
        "io.kestra.plugin.core.storage.Purge",
        "io.kestra.core.tasks.storages.Purge",
        "io.kestra.plugin.core.execution.Purge",
    ],
    summary: "Remove ended runs.",
    mode: LeafMode::Effect,
    class: EffectClass::Repeatable,
    fields: &[
        NAMESPACE,
        FLOW,
        START,
        END,
        STATES,
        field("purgeExecution", FieldKind::Bool, "Remove the runs, with all that belongs to them; true by default."),
        field("purgeLog", FieldKind::Bool, "Remove their logs; true by default. A log goes with its run in any case."),
        field("purgeMetric", FieldKind::Bool, "Accepted: runs have no metrics here."),
        field(
            "purgeStorage",
            FieldKind::Bool,
            "Remove their files; true by default. Files go with their run in any case.",
        ),
        BATCH,
    ],
    outputs: &["executionsCount", "logsCount", "storagesCount", "metricsCount"],
};

pub const WORK: Work = Work::Effect(EffectWork { class: |_| EffectClass::Repeatable, perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, run)
}

fn run(desk: &Desk, request: &Request, _: &Limits) -> Result<Json, TaskError> {
    let config = &request.config;
    let flag = |name: &str| config::flag(config, name, true);
    let (runs, logs, files) = (flag("purgeExecution")?, flag("purgeLog")?, flag("purgeStorage")?);
    let nothing = !runs && !logs && !files;
    let purged = match nothing {
        // Metrics alone: there are none.
        true => Default::default(),
        false => desk.files.purge(&desk.home, &Purge { runs, logs, files, ..read(config)? })?,
    };
    if purged.kept > 0 {
        let why = "their keys are remembered, or the run that has started them goes on";
        let text = format!("{} runs stay: {why}", purged.kept);
        request.log.say(Level::Warn, text);
    }
    Ok(json!({
        "executionsCount": purged.runs, "logsCount": purged.logs, "storagesCount": purged.files, "metricsCount": 0,
    }))
}
