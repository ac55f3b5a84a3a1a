//! The list of task types.

use crate::effect::EffectWork;
use crate::inline::InlineOutcome;
use crate::op::KvOp;
use crate::{TaskError, types};
use semel_core::ir::{Catalog, FieldKind, TaskSpec};
use serde_json::Value as Json;

/// How a type does its work; the variant agrees with the spec's `LeafMode`.
pub(crate) enum Work {
    Inline(fn(&Json) -> Result<InlineOutcome, TaskError>),
    Op(fn(&Json) -> Result<KvOp, TaskError>),
    Effect(EffectWork),
}

macro_rules! task_types {
    ($specs:ident, $works:ident: $($(#[$built:meta])* $module:ident),* $(,)?) => {
        static $specs: &[TaskSpec] = &[$($(#[$built])* types::$module::SPEC),*];
        static $works: &[Work] = &[$($(#[$built])* types::$module::WORK),*];
    };
}

// What other types are made of: no author can name these.
task_types! { PARTS, PART_WORKS: for_each_item_split, for_each_item_merge }

// What Conductor's definitions are compiled to. Nobody writes these names, so no catalog has them.
task_types! {
    CONDUCTOR_SPECS, CONDUCTOR_WORKS:
    conductor_event,
    conductor_http,
    #[cfg(feature = "kafka")]
    conductor_kafka,
    conductor_script,
}

task_types! {
    SPECS, WORKS:
    log_log,
    log_fetch,
    log_purge,
    debug_echo,
    debug_return,
    execution_fail,
    execution_assert,
    execution_count,
    execution_kill,
    execution_resume,
    execution_purge,
    execution_labels,
    execution_set_variables,
    execution_unset_variables,
    output_values,
    http_request,
    http_download,
    storage_write,
    storage_concat,
    storage_split,
    storage_delete,
    storage_size,
    storage_reverse,
    storage_filter_items,
    storage_deduplicate_items,
    storage_local_files,
    namespace_upload_files,
    namespace_download_files,
    namespace_delete_files,
    process_commands,
    process_script,
    process_python,
    process_node,
    kv_set,
    kv_get,
    kv_delete,
    kv_get_keys,
    kv_purge,
    state_set,
    state_get,
    state_delete,
    trigger_toggle,
    templating_templated_task,
}

/// The leaf types known to this build.
#[derive(Clone, Copy, Debug, Default)]
pub struct Registry;

pub static REGISTRY: Registry = Registry;

impl Catalog for Registry {
    fn specs(&self) -> &[TaskSpec] {
        SPECS
    }
}

/// The fields of a type that are not rendered before the task has them: it evaluates them itself.
pub fn own_expressions(type_name: &str) -> impl Iterator<Item = &'static str> {
    let fields = REGISTRY.find(type_name).map_or(&[][..], |spec| spec.fields);
    fields.iter().filter(|field| field.kind == FieldKind::Expression).map(|field| field.name)
}

/// The work of a type, by its short name or any spelling the catalog accepts.
pub(crate) fn work(type_name: &str) -> Option<&'static Work> {
    let named = |spec: &TaskSpec| spec.name == type_name || spec.aliases.contains(&type_name);
    if let Some(index) = CONDUCTOR_SPECS.iter().position(named) {
        return CONDUCTOR_WORKS.get(index);
    }
    let name = REGISTRY.find(type_name).map_or(type_name, |spec| spec.name);
    let mut all = SPECS.iter().zip(WORKS).chain(PARTS.iter().zip(PART_WORKS));
    all.find(|(spec, _)| spec.name == name).map(|(_, work)| work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::ir::LeafMode;

    #[test]
    fn each_type_works_in_the_mode_it_declares() {
        let own = PARTS.iter().zip(PART_WORKS).chain(CONDUCTOR_SPECS.iter().zip(CONDUCTOR_WORKS));
        for (spec, work) in SPECS.iter().zip(WORKS).chain(own) {
            let mode = match work {
                Work::Inline(_) => LeafMode::Inline,
                Work::Op(_) => LeafMode::Op,
                Work::Effect(_) => LeafMode::Effect,
            };
            assert_eq!(spec.mode, mode, "{}", spec.name);
        }
    }

    #[test]
    fn names_are_found_in_every_spelling_and_only_once() {
        let mut seen = std::collections::HashSet::new();
        for spec in REGISTRY.specs() {
            let full = format!("io.kestra.plugin.core.{}", spec.name);
            for name in [spec.name, full.as_str()].into_iter().chain(spec.aliases.iter().copied()) {
                assert_eq!(REGISTRY.find(name).map(|found| found.name), Some(spec.name), "{name}");
                assert!(seen.insert(name.to_owned()), "{name} names two types");
            }
        }
        assert!(REGISTRY.find("http.Nothing").is_none());
    }

    #[test]
    fn what_conductor_compiles_to_is_found_and_not_offered() {
        for name in ["HTTP", "HTTP_POLL", "SCRIPT", "INLINE", "LAMBDA", "LOOP_CONDITION"] {
            let name = format!("conductor.{name}");
            assert!(work(&name).is_some(), "{name}");
            assert!(REGISTRY.find(&name).is_none(), "{name}");
        }
    }
}
