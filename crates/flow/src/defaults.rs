//! `pluginDefaults:` (old: `taskDefaults:`), written out into the tasks and triggers they speak of.
//!
//! This happens on the tree, before anything is read from it: a value that comes from a default keeps its own place in
//! the file, so a mistake in it is shown where it was written. Whether the block itself has the right shape is said by
//! `lower`; what has not is passed over here.

use crate::codes;
use crate::diagnostic::Finding;
use crate::lower::Shape;
use crate::yaml::{Entry, Node, Value};
use semel_core::ir::Catalog;

/// The two names of the block.
pub(crate) const BLOCKS: &[&str] = &["pluginDefaults", "taskDefaults"];
/// Where tasks and triggers stand.
const PLACES: &[&str] = &["tasks", "errors", "finally", "afterExecution", "triggers"];
const CORE: &str = "io.kestra.plugin.core.";

struct Default {
    /// As it was written, and in full: either may be the beginning of a task's type.
    types: [String; 2],
    values: Vec<Entry>,
    forced: bool,
}

struct Writer<'a> {
    defaults: Vec<Default>,
    catalog: &'a dyn Catalog,
    /// Values that may still be added: every default may meet every task.
    left: usize,
}

/// Writes the defaults out; `values_max` bounds what they add to the tree.
pub(crate) fn write_out(root: &mut Node, catalog: &dyn Catalog, values_max: usize) -> Option<Finding> {
    let Value::Map(entries) = &mut root.value else { return None };
    let defaults: Vec<Default> = entries
        .iter()
        .filter(|entry| BLOCKS.contains(&entry.key.as_str()))
        .flat_map(|entry| entry.value.items().unwrap_or_default())
        .filter_map(|item| read(item, catalog))
        .collect();
    if defaults.is_empty() {
        return None;
    }
    let at = entries.iter().find(|entry| BLOCKS.contains(&entry.key.as_str())).map(|entry| entry.key_at.clone())?;
    let mut writer = Writer { defaults, catalog, left: values_max };
    for entry in entries.iter_mut().filter(|entry| PLACES.contains(&entry.key.as_str())) {
        if !writer.visit(&mut entry.value) {
            let message = format!("written out into the tasks, these defaults are more than {values_max} values");
            return Some(Finding::error(codes::TOO_LARGE, at, message));
        }
    }
    None
}

fn read(item: &Node, catalog: &dyn Catalog) -> Option<Default> {
    let field = |name: &str| item.entries()?.iter().find(|entry| entry.key == name).map(|entry| &entry.value);
    let name = &field("type")?.scalar().filter(|scalar| !scalar.text.is_empty())?.text;
    Some(Default {
        types: [name.clone(), full_name(name, catalog)],
        values: field("values")?.entries()?.to_vec(),
        forced: field("forced").is_some_and(|node| node.to_json() == true),
    })
}

/// A type by the name that Kestra has for it.
fn full_name(name: &str, catalog: &dyn Catalog) -> String {
    if let Some(spec) = catalog.find(name) {
        return format!("{CORE}{}", spec.name);
    }
    match Shape::named(name) {
        Some(shape) => format!("{CORE}{}", shape.name()),
        // A type that stands in a task, such as that of a retry, is one word and has no full name.
        None if name.starts_with("io.") || !name.contains('.') => name.to_owned(),
        None => format!("{CORE}{name}"),
    }
}

impl Writer<'_> {
    /// False when there is no room for what would be added.
    fn visit(&mut self, node: &mut Node) -> bool {
        match &mut node.value {
            Value::Scalar(_) => true,
            Value::List(items) => items.iter_mut().all(|item| self.visit(item)),
            Value::Map(entries) => {
                if !entries.iter_mut().all(|entry| self.visit(&mut entry.value)) {
                    return false;
                }
                let of_type = entries.iter().find(|entry| entry.key == "type").and_then(|entry| entry.value.scalar());
                let Some(name) = of_type.map(|scalar| scalar.text.clone()) else { return true };
                let full = full_name(&name, self.catalog);
                for default in &self.defaults {
                    if default.types.iter().any(|begin| name.starts_with(begin) || full.starts_with(begin)) {
                        let added: usize = default.values.iter().map(|entry| entry.value.count()).sum();
                        let Some(left) = self.left.checked_sub(added) else { return false };
                        self.left = left;
                        merge(entries, &default.values, default.forced);
                    }
                }
                true
            }
        }
    }
}

/// Adds what a default says: maps field by field, lists one after the other; where both have a value the task's own
/// stays, unless the default is forced.
fn merge(own: &mut Vec<Entry>, default: &[Entry], forced: bool) {
    for entry in default {
        match own.iter_mut().find(|known| known.key == entry.key) {
            None => own.push(entry.clone()),
            Some(known) if known.value.is_null() => known.value = entry.value.clone(),
            Some(_) if entry.value.is_null() => {}
            Some(known) => match (&mut known.value.value, &entry.value.value) {
                (Value::Map(known), Value::Map(given)) => merge(known, given, forced),
                (Value::List(known), Value::List(given)) if forced => known.extend(given.iter().cloned()),
                (Value::List(known), Value::List(given)) => {
                    known.splice(0..0, given.iter().cloned());
                }
                _ if forced => known.value = entry.value.clone(),
                _ => {}
            },
        }
    }
}
