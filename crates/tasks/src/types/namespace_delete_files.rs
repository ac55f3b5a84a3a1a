//! `namespace.DeleteFiles`: files of a namespace that are not to be there any more.

use super::{field, required};
use crate::TaskError;
use crate::config;
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::namespace_files::patterns;
use crate::registry::Work;
use crate::script::glob::in_namespace;
use semel_core::files::address;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "namespace.DeleteFiles",
    aliases: &["io.kestra.core.tasks.namespaces.DeleteFiles"],
    summary: "Delete files of a namespace.",
    mode: LeafMode::Effect,
    class: EffectClass::Repeatable,
    fields: &[
        required("namespace", FieldKind::Text, "The namespace."),
        required("files", FieldKind::TextOrList, "Patterns of its files."),
        field("deleteParentFolder", FieldKind::Bool, "Accepted: a folder is gone with its last file."),
    ],
    outputs: &["files"],
};

pub const WORK: Work = Work::Effect(EffectWork { class: |_| EffectClass::Repeatable, perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, delete)
}

fn delete(desk: &Desk, request: &Request, limits: &Limits) -> Result<Json, TaskError> {
    let namespace = config::required_text(&request.config, "namespace")?;
    let patterns = patterns(&request.config, "files")?;
    let mut gone = Vec::new();
    for (name, at) in desk.of_namespace(&namespace, limits.step_files_max)? {
        if patterns.iter().any(|pattern| in_namespace(pattern, &name))
            && desk.files.delete(&desk.home.workspace, &address(&at.path))?
        {
            gone.push(format!("/{name}"));
        }
    }
    Ok(json!({"files": gone}))
}
