//! What a task type tells the compiler about itself.
//!
//! The registry of types lives with the performers; the compiler only sees this trait, so a new
//! type is one file there plus one line in its registry.

use super::{EffectClass, LeafMode};

/// A leaf task type as the compiler sees it.
#[derive(Clone, Copy, Debug)]
pub struct TaskSpec {
    /// Canonical short name, e.g. `http.Request`.
    pub name: &'static str,
    /// Other spellings accepted in `type:`; the full `io.kestra.plugin.core.` + name is always accepted.
    pub aliases: &'static [&'static str],
    pub summary: &'static str,
    pub mode: LeafMode,
    /// Class when the author declares none and the request does not tell.
    pub class: EffectClass,
    pub fields: &'static [FieldSpec],
    /// Names of the outputs, for documentation and checks.
    pub outputs: &'static [&'static str],
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldSpec {
    pub name: &'static str,
    pub kind: FieldKind,
    pub required: bool,
    pub summary: &'static str,
}

/// What a field accepts in YAML. Everything but `Choice` may hold templates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldKind {
    /// A scalar, used as text.
    Text,
    /// A string or a list of strings.
    TextOrList,
    /// `true`, `false`, or a template.
    Bool,
    /// As `Bool`, but only this value: the other is known elsewhere and not built here; the text says why.
    Only(bool, &'static str),
    /// An integer or a template.
    Int,
    /// A literal ISO 8601 duration or a template.
    Duration,
    /// As `Duration`, or a map with these fields.
    DurationOr(&'static [FieldSpec]),
    /// One of these words, matched without regard to case, or a template.
    Choice(&'static [&'static str]),
    /// A map with these fields.
    Object(&'static [FieldSpec]),
    /// A map of any keys to text.
    TextMap,
    /// A template that the task itself evaluates, for each item with the item's fields as variables.
    Expression,
    /// Anything.
    Any,
}

const fn optional(name: &'static str, kind: FieldKind, summary: &'static str) -> FieldSpec {
    FieldSpec { name, kind, required: false, summary }
}

/// `namespaceFiles`, of scripts and of tasks that hold them.
pub const NAMESPACE_FILES: &[FieldSpec] = &[
    optional("enabled", FieldKind::Bool, "Whether there are to be any; true by default."),
    optional("include", FieldKind::TextOrList, "Patterns of the files; all by default."),
    optional("exclude", FieldKind::TextOrList, "Patterns of files that are left out."),
    optional("namespaces", FieldKind::TextOrList, "Whose files; those of the flow's own namespace by default."),
    optional(
        "folderPerNamespace",
        FieldKind::Bool,
        "Each namespace's files in a folder of its name; false by default.",
    ),
    optional(
        "ifExists",
        FieldKind::Choice(&["OVERWRITE", "FAIL", "WARN", "IGNORE"]),
        "What is done about a name that is taken; OVERWRITE by default.",
    ),
];

/// `cache`, of tasks that hold scripts.
pub const DIRECTORY_CACHE: &[FieldSpec] = &[
    FieldSpec { required: true, ..optional("patterns", FieldKind::TextOrList, "Patterns of the files that are kept.") },
    optional("ttl", FieldKind::Duration, "How long they count; for ever by default."),
];

/// The set of leaf types known to this build.
pub trait Catalog: Sync {
    fn specs(&self) -> &[TaskSpec];

    fn find(&self, type_name: &str) -> Option<&TaskSpec> {
        let short = type_name.strip_prefix("io.kestra.plugin.core.").unwrap_or(type_name);
        self.specs().iter().find(|spec| spec.name == short || spec.aliases.contains(&type_name))
    }
}
