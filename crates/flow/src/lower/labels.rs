//! Labels: a map, or a list of `{key, value}`.

use super::Context;
use super::fields::Names;
use crate::codes;
use crate::diagnostic::Finding;
use crate::yaml::Node;
use indexmap::IndexMap;
use std::ops::Range;

/// Who carries the labels.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Kept as written.
    Flow,
    /// Rendered when the run is created.
    Run,
}

const ITEM: Names = Names { what: "a label", allowed: &[&["key", "value"]], not_built: &[] };
/// The only system label that a flow may set on itself.
const READ_ONLY: &str = "system.readOnly";

impl<'a> Context<'a> {
    pub fn labels(&mut self, node: &'a Node, owner: Owner) -> IndexMap<String, String> {
        let mut labels = IndexMap::new();
        if let Some(items) = node.items() {
            for item in items {
                let Some(fields) = self.fields(item, ITEM) else { continue };
                let key = self.required(&fields, "a label", "key").and_then(|node| self.literal(node, "key"));
                let value = self.required(&fields, "a label", "value");
                if let (Some(key), Some(value)) = (key, value) {
                    self.label(key, &fields.key_at("key"), value, owner, &mut labels);
                }
            }
        } else if let Some(fields) = self.map(node, "`labels`") {
            for entry in fields.entries() {
                self.label(&entry.key, &entry.key_at, &entry.value, owner, &mut labels);
            }
        }
        labels
    }

    fn label(
        &mut self,
        key: &str,
        key_at: &Range<usize>,
        value: &'a Node,
        owner: Owner,
        labels: &mut IndexMap<String, String>,
    ) {
        let Some(scalar) = value.scalar().filter(|scalar| !scalar.text.is_empty()) else {
            let message = format!("the label `{key}` needs a text as its value");
            return self.error(codes::BAD_LABEL, &value.at, message);
        };
        if key.starts_with("system.") && !(owner == Owner::Flow && key == READ_ONLY) {
            let text = format!("System labels can only be set by Semel itself, offending label: {key}={}", scalar.text);
            return self.error(codes::SYSTEM_LABEL, key_at, text);
        }
        if !is_key(key) {
            let finding = Finding::error(codes::BAD_LABEL, key_at.clone(), format!("`{key}` is not a label key"));
            let expected = "a lower-case letter, then letters, digits, `.`, `_` and `-`";
            return self.report(finding.expected(expected));
        }
        if owner == Owner::Run {
            self.expressions(value);
        } else if scalar.is_template() {
            let finding = Finding::warning(codes::NO_EFFECT, value.at.clone(), "flow labels are not rendered");
            self.report(finding.suggest("set labels that depend on the run with the task type execution.Labels"));
        }
        labels.insert(key.to_owned(), scalar.text.clone());
    }
}

fn is_key(key: &str) -> bool {
    key.chars().next().is_some_and(char::is_lowercase)
        && key.chars().all(|c| c.is_alphabetic() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-'))
}
