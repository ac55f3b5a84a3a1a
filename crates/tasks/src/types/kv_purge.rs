//! `kv.PurgeKV`: keys whose time is over go, or all that a pattern means.

use super::field;
use crate::TaskError;
use crate::config::{self, texts};
use crate::effect::{EffectWork, Performing, Request, Tools, blocking, pure};
use crate::files::Desk;
use crate::registry::Work;
use crate::script::glob;
use semel_core::ir::{EffectClass, FieldKind, LeafMode, TaskSpec};
use semel_core::limits::Limits;
use serde_json::{Value as Json, json};

pub const SPEC: TaskSpec = TaskSpec {
    name: "kv.PurgeKV",
    aliases: &[],
    summary: "Remove keys.",
    mode: LeafMode::Effect,
    class: EffectClass::Repeatable,
    fields: &[
        field("namespaces", FieldKind::TextOrList, "The namespaces; all by default."),
        field("namespacePattern", FieldKind::Text, "A pattern of namespaces, instead."),
        field("keyPattern", FieldKind::Text, "A pattern of keys; all by default."),
        field("expiredOnly", FieldKind::Bool, "Only keys whose time is over; true by default."),
        field("includeChildNamespaces", FieldKind::Bool, "Those below the namespaces too; true by default."),
    ],
    outputs: &["size"],
};

pub const WORK: Work = Work::Effect(EffectWork { class: |_| EffectClass::Repeatable, perform, ..pure() });

fn perform(tools: &Tools, request: Request) -> Performing<'_> {
    blocking(tools, request, purge)
}

fn purge(desk: &Desk, request: &Request, _: &Limits) -> Result<Json, TaskError> {
    let config = &request.config;
    let (named, pattern) = (texts(config, "namespaces")?, config::text(config, "namespacePattern"));
    if !named.is_empty() && pattern.is_some() {
        return Err(TaskError::config("`namespaces` and `namespacePattern` exclude each other"));
    }
    let below = config::flag(config, "includeChildNamespaces", true)?;
    let (keys, expired_only) = (config::text(config, "keyPattern"), config::flag(config, "expiredOnly", true)?);
    let is_meant = |namespace: &str| match &pattern {
        Some(pattern) => glob::matches(pattern, namespace),
        None => named.is_empty() || named.iter().any(|name| is_within(namespace, name, below)),
    };
    let mut size = 0_u64;
    for namespace in desk.files.namespaces_with_keys(&desk.home.workspace)?.into_iter().filter(|name| is_meant(name)) {
        for key in desk.files.keys(&desk.home.workspace, &namespace)? {
            let wanted = keys.as_ref().is_none_or(|pattern| glob::matches(pattern, &key.name));
            if wanted && (key.is_over || !expired_only) {
                size += u64::from(desk.files.delete_key(&desk.home.workspace, &namespace, &key.name)?);
            }
        }
    }
    Ok(json!({"size": size}))
}

fn is_within(namespace: &str, name: &str, below: bool) -> bool {
    namespace == name || below && namespace.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
}
