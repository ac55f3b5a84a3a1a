//! `namespace.DownloadFiles`: files of a namespace become files of the step.

use super::{field, required};
use crate::TaskError;
use crate::config;
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::namespace_files::patterns;
use crate::registry::Work;
use crate::script::glob::in_namespace;
use semel_core::Hash16;
use semel_core::files::address;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Map, Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "namespace.DownloadFiles",
    aliases: &["io.kestra.core.tasks.namespaces.DownloadFiles"],
    summary: "Copy files of a namespace.",
    mode: LeafMode::Effect,
    class: EffectClass::Read,
    fields: &[
        required("namespace", FieldKind::Text, "The namespace."),
        required("files", FieldKind::TextOrList, "Patterns of its files."),
        field("destination", FieldKind::Text, "A folder that their names are to begin with."),
    ],
    outputs: &["files"],
};

pub const WORK: Work = Work::Effect(EffectWork { class: |_| EffectClass::Read, perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, download)
}

fn download(desk: &Desk, request: &Request, limits: &Limits) -> Result<Json, TaskError> {
    let (config, namespace) = (&request.config, config::required_text(&request.config, "namespace")?);
    let patterns = patterns(config, "files")?;
    let folder = config::text(config, "destination").unwrap_or_default();
    let mut files = Map::new();
    for (name, at) in desk.of_namespace(&namespace, limits.step_files_max)? {
        if patterns.iter().any(|pattern| in_namespace(pattern, &name)) {
            let last = name.rsplit('/').next().unwrap_or(&name);
            let unique = format!("{}-{last}", &Hash16::of(&[folder.as_bytes(), name.as_bytes()]).hex()[..12]);
            files.insert(format!("/{name}"), json!(desk.copy(&address(&at.path), desk.create(&unique)?)?));
        }
    }
    Ok(json!({"files": files}))
}
