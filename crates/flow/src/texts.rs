//! Texts of flows as they come from elsewhere: several in one file, and the fields that an API changes in a text.

/// One flow of a text that holds several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Document<'a> {
    pub text: &'a str,
    /// How many lines stand before it.
    pub lines_before: u32,
}

/// The flows of a text, separated by lines of `---`. Empty ones are left out.
pub fn documents(text: &str) -> Vec<Document<'_>> {
    let mut found = Vec::new();
    let (mut start, mut at) = (0, 0);
    let (mut first, mut line_number) = (0, 0);
    let mut add = |part: &'_ str, lines_before: u32, range: std::ops::Range<usize>| {
        if !part.trim().is_empty() {
            found.push((range, lines_before));
        }
    };
    for line in text.split_inclusive('\n') {
        line_number += 1;
        // In YAML such a line ends a document wherever it stands, also inside a block of text.
        if line.trim_end() == "---" {
            add(&text[start..at], first, start..at);
            (start, first) = (at + line.len(), line_number);
        }
        at += line.len();
    }
    add(&text[start..], first, start..text.len());
    found.into_iter().map(|(range, lines_before)| Document { text: &text[range], lines_before }).collect()
}

/// The text with `disabled` set, everything else as it was.
pub fn with_disabled(source: &str, disabled: bool) -> String {
    with_field(source, "disabled", if disabled { "true" } else { "false" })
}

/// The text of a flow that is put into this namespace, everything else as it was.
pub fn with_namespace(source: &str, namespace: &str) -> String {
    with_field(source, "namespace", namespace)
}

/// A field of the flow itself stands at the beginning of its line; where there is none it comes last.
fn with_field(source: &str, name: &str, value: &str) -> String {
    let is_field = |line: &str| line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(':'));
    let mut out = String::with_capacity(source.len() + name.len() + value.len() + 4);
    let mut seen = false;
    for line in source.split_inclusive('\n') {
        if is_field(line) {
            seen = true;
            out.push_str(&format!("{name}: {value}{}", if line.ends_with('\n') { "\n" } else { "" }));
        } else {
            out.push_str(line);
        }
    }
    if !seen {
        let gap = if out.ends_with('\n') || out.is_empty() { "" } else { "\n" };
        out.push_str(&format!("{gap}{name}: {value}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_put_into_another_namespace() {
        let there = "id: a # namespace: x\nnamespace: old\ntasks:\n  - {id: t, namespace: inner}";
        assert_eq!(with_namespace(there, "new.one"), there.replace("old", "new.one"));
        assert_eq!(with_namespace("id: a", "n"), "id: a\nnamespace: n\n");
    }

    #[test]
    fn a_text_may_hold_several_flows() {
        let read = |text: &'static str| -> Vec<(&str, u32)> {
            documents(text).into_iter().map(|document| (document.text, document.lines_before)).collect()
        };
        assert_eq!(read("id: a\n---\nid: b\n"), [("id: a\n", 0), ("id: b\n", 2)]);
        assert_eq!(read("---\nid: a\n--- \n\n---\nid: b"), [("id: a\n", 1), ("id: b", 5)]);
        assert_eq!(read("id: a\ntext: |\n  ---\n  x\n").len(), 1, "an indented line is the author's");
        assert!(read(" \n---\n").is_empty());
    }

    #[test]
    fn only_the_flag_changes() {
        assert_eq!(with_disabled("id: a\ntasks: []", true), "id: a\ntasks: []\ndisabled: true\n");
        let nested = "id: a\ndisabled : true # why\ntasks:\n  - disabled: true\n";
        assert_eq!(with_disabled(nested, false), "id: a\ndisabled: false\ntasks:\n  - disabled: true\n");
    }
}
