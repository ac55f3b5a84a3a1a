//! `namespace.UploadFiles`: files of the working directory, or of other steps, become files of a namespace.

use super::{field, required};
use crate::config::texts;
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::registry::Work;
use crate::script::glob;
use crate::{TaskError, config};
use semel_core::files::{address, path_on_shelf, plain_name};
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Map, Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "namespace.UploadFiles",
    aliases: &["io.kestra.core.tasks.namespaces.UploadFiles"],
    summary: "Make files of a run files of a namespace.",
    mode: LeafMode::Effect,
    class: EffectClass::Repeatable,
    fields: &[
        required("namespace", FieldKind::Text, "The namespace."),
        field("files", FieldKind::TextOrList, "Patterns of files in the working directory."),
        field("filesMap", FieldKind::Any, "Names in the namespace, and addresses of files."),
        field("destination", FieldKind::Text, "The folder they are put into; the root by default."),
        field(
            "conflict",
            FieldKind::Choice(&["OVERWRITE", "ERROR", "SKIP"]),
            "What is done about a name that is taken; OVERWRITE by default.",
        ),
    ],
    outputs: &["files"],
};

pub const WORK: Work = Work::Effect(EffectWork { class, perform, ..pure() });

/// Whether a name was taken by an attempt that nobody has heard of, or by somebody else, cannot be told afterwards.
fn class(config: &Json) -> EffectClass {
    match conflict(config) {
        Ok(Conflict::Error) => EffectClass::Naked,
        _ => EffectClass::Repeatable,
    }
}

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, upload)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conflict {
    Overwrite,
    Error,
    Skip,
}

fn conflict(config: &Json) -> Result<Conflict, TaskError> {
    match config::text(config, "conflict").unwrap_or_default().to_ascii_uppercase().as_str() {
        "" | "OVERWRITE" => Ok(Conflict::Overwrite),
        "ERROR" => Ok(Conflict::Error),
        "SKIP" => Ok(Conflict::Skip),
        _ => Err(TaskError::config("`conflict` must be OVERWRITE, ERROR or SKIP")),
    }
}

fn upload(desk: &Desk, request: &Request, limits: &Limits) -> Result<Json, TaskError> {
    let config = &request.config;
    let (namespace, conflict) = (config::required_text(config, "namespace")?, conflict(config)?);
    let folder = config::text(config, "destination").unwrap_or_default();
    let mut sent = Map::new();
    for (name, uri) in sources(desk, config, limits)? {
        let name = format!("{folder}/{name}");
        let name = plain_name(&name).unwrap_or(name);
        let writer = desk.create_in_namespace(&namespace, &name)?;
        let Some((_, path)) = path_on_shelf(&namespace, &name) else { continue };
        let to = address(&path);
        if conflict != Conflict::Overwrite && desk.files.find(&desk.home.workspace, &to)?.is_some() {
            if conflict == Conflict::Skip {
                continue;
            }
            let message = format!("the namespace `{namespace}` has a file `{name}` already");
            return Err(TaskError { code: "file_exists", message });
        }
        sent.insert(name, json!(desk.copy(&uri, writer)?));
    }
    Ok(json!({"files": sent}))
}

/// Names and addresses of what is to be sent.
fn sources(desk: &Desk, config: &Json, limits: &Limits) -> Result<Vec<(String, String)>, TaskError> {
    let given = config::map(config, "filesMap")?;
    let patterns = texts(config, "files")?;
    if given.is_none() && patterns.is_empty() {
        return Err(TaskError::config("`files` or `filesMap` must say what to upload"));
    }
    let mut found = Vec::new();
    if !patterns.is_empty() {
        for (name, at) in desk.space().list(desk, limits.step_files_max)? {
            let means = |pattern: &String| glob::matches(pattern, &name) || glob::in_namespace(pattern, &name);
            if patterns.iter().any(means) {
                found.push((name, address(&at.path)));
            }
        }
    }
    found.extend(given.into_iter().flatten().map(|(name, value)| (name, config::as_text(&value))));
    match found.len() > limits.step_files_max {
        true => Err(TaskError {
            code: "too_many_files",
            message: format!("a step may have {} files", limits.step_files_max),
        }),
        false => Ok(found),
    }
}
