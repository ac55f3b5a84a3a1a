//! `storage.LocalFiles`: files put into the working directory, and files kept from it.
//!
//! The directory is that of the `flow.WorkingDirectory` around the task; outside of one it holds what the task puts there.

use super::field;
use crate::TaskError;
use crate::config::texts;
use crate::directory_cache::DirectoryCache;
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::inline::Level;
use crate::namespace_files::{IfExists, NamespaceFiles};
use crate::registry::Work;
use crate::script::{glob, input_files};
use semel_core::files::is_address;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use semel_core::{Hash16, files::address};
use serde_json::{Map, Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "storage.LocalFiles",
    aliases: &["io.kestra.core.tasks.storages.LocalFiles"],
    summary: "Put files into the working directory, and keep files of it.",
    mode: LeafMode::Effect,
    class: EffectClass::Pure,
    fields: &[
        field("inputs", FieldKind::Any, "Files to put there: names, and addresses or texts."),
        field("outputs", FieldKind::TextOrList, "Files to keep: patterns in the working directory."),
    ],
    outputs: &["uris"],
};

pub const WORK: Work = Work::Effect(EffectWork { perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, local_files)
}

fn local_files(desk: &Desk, request: &Request, limits: &Limits) -> Result<Json, TaskError> {
    let space = desk.space();
    if let Some(cache) = DirectoryCache::read(&request.config, "cache")? {
        cache.restore(desk)?;
    }
    if let Some(cache) = DirectoryCache::read(&request.config, "keep")? {
        cache.keep(desk, limits)?;
    }
    if let Some(wanted) = NamespaceFiles::read(&request.config)? {
        from_namespaces(desk, request, &wanted, limits)?;
    }
    for (name, value) in input_files(&request.config, "inputs")? {
        let name = plain_path(&name)?;
        match is_address(&value) {
            true => desk.copy(&value, desk.create_at(&space.path_of(&name))?)?,
            false => {
                let mut writer = desk.create_at(&space.path_of(&name))?;
                writer.write(value.as_bytes())?;
                writer.finish()?
            }
        };
    }
    let patterns = texts(&request.config, "outputs")?;
    let mut uris = Map::new();
    for (name, at) in space.list(desk, limits.step_files_max)? {
        if patterns.iter().any(|pattern| glob::matches(pattern, &name)) {
            let last = name.rsplit('/').next().unwrap_or(&name);
            let unique = format!("{}-{last}", &Hash16::of(&[name.as_bytes()]).hex()[..12]);
            uris.insert(name, json!(desk.copy(&address(&at.path), desk.create(&unique)?)?));
        }
    }
    Ok(json!({"uris": uris}))
}

/// What a `flow.WorkingDirectory` is given of its namespace, before all else.
fn from_namespaces(desk: &Desk, request: &Request, wanted: &NamespaceFiles, limits: &Limits) -> Result<(), TaskError> {
    let space = desk.space();
    for (name, at) in wanted.list(desk, limits.step_files_max)? {
        let path = space.path_of(&name);
        let is_taken = wanted.if_exists != IfExists::Overwrite
            && desk.files.find(&desk.home.workspace, &address(&path))?.is_some();
        match wanted.if_exists {
            IfExists::Fail if is_taken => {
                let message = format!("the working directory has a file `{name}` already");
                return Err(TaskError { code: "file_exists", message });
            }
            IfExists::Warn if is_taken => {
                let text = format!("the working directory has a file `{name}` already; it stays as it is");
                request.log.say(Level::Warn, text);
            }
            IfExists::Ignore if is_taken => {}
            _ => _ = desk.copy(&address(&at.path), desk.create_at(&path)?)?,
        }
    }
    Ok(())
}

/// A name that stays inside the directory, without dots.
fn plain_path(name: &str) -> Result<String, TaskError> {
    let parts: Vec<&str> = name.split('/').filter(|part| *part != ".").collect();
    if parts.iter().any(|part| matches!(*part, "" | "..")) {
        return Err(TaskError::config(format!("`{name}` is not a path inside the working directory")));
    }
    Ok(parts.join("/"))
}
