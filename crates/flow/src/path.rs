//! Where a place in the text is in the tree: `tasks[0].type`.

use crate::yaml::{self, Entry, Node, Value};
use semel_core::limits::Limits;

/// The path of the innermost value, or of its key, that stands at this byte; empty for the flow as a whole.
pub fn path_at(text: &str, byte: usize, limits: &Limits) -> String {
    let source = crate::source::Source::new(text);
    let (root, _) = yaml::load(&source, limits);
    let mut path = String::new();
    if let Some(root) = root {
        descend(&root, byte, &mut path);
    }
    path
}

fn descend(node: &Node, byte: usize, path: &mut String) {
    match &node.value {
        Value::Scalar(_) => {}
        Value::List(items) => {
            if let Some((index, item)) = items.iter().enumerate().rev().find(|(_, item)| item.at.start <= byte) {
                path.push_str(&format!("[{index}]"));
                descend(item, byte, path);
            }
        }
        Value::Map(entries) => {
            // An entry reaches to the next one: what is missing from a value is reported at its key.
            let Some(entry) = entries.iter().rev().find(|entry| entry.key_at.start <= byte) else { return };
            push(path, entry);
            if !entry.key_at.contains(&byte) {
                descend(&entry.value, byte, path);
            }
        }
    }
}

fn push(path: &mut String, entry: &Entry) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(&entry.key);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_by_its_keys_and_positions() {
        let text = "id: a\ntasks:\n  - id: one\n    type: x\n  - id: two\n    then:\n      - typ: y\n";
        let at = |part: &str| path_at(text, text.find(part).unwrap(), &Limits::default());
        assert_eq!(at("id: a"), "id");
        assert_eq!(at("a\n"), "id");
        assert_eq!(at("one"), "tasks[0].id");
        assert_eq!(at("type"), "tasks[0].type");
        assert_eq!(at("x\n"), "tasks[0].type");
        assert_eq!(at("typ: y"), "tasks[1].then[0].typ");
        assert_eq!(path_at("{", 0, &Limits::default()), "");
    }
}
