//! Ids and namespaces.

use super::Context;
use super::values::short;
use crate::codes;
use crate::diagnostic::Finding;
use crate::yaml::Node;

/// What an id may look like.
#[derive(Clone, Copy)]
pub(crate) struct Rule {
    pub what: &'static str,
    pub chars_max: usize,
    first: fn(char) -> bool,
    rest: fn(char) -> bool,
    words: &'static str,
}

pub(crate) const FLOW_ID: Rule = Rule {
    what: "flow id",
    chars_max: 100,
    first: |c| c.is_ascii_alphanumeric(),
    rest: |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'),
    words: "letters, digits, `.`, `_` and `-`, beginning with a letter or digit",
};

pub(crate) const NAMESPACE: Rule = Rule {
    what: "namespace",
    chars_max: 150,
    first: |c| c.is_ascii_lowercase() || c.is_ascii_digit(),
    rest: |c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-'),
    words: "lower-case letters, digits, `.`, `_` and `-`, beginning with a letter or digit",
};

pub(crate) const TASK_ID: Rule = Rule {
    what: "task id",
    chars_max: 256,
    first: |c| c.is_ascii_alphanumeric(),
    rest: |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'),
    words: "letters, digits, `_` and `-`, beginning with a letter or digit",
};

pub(crate) const TRIGGER_ID: Rule = Rule { what: "trigger id", ..TASK_ID };
pub(crate) const OUTPUT_ID: Rule = Rule { what: "output id", ..TASK_ID };
pub(crate) const INPUT_ID: Rule = Rule { what: "input id", ..FLOW_ID };
pub(crate) const GROUP: Rule = Rule { what: "group name", ..FLOW_ID };

/// Flow ids that are also words of the HTTP routes.
const RESERVED: &[&str] =
    &["pause", "resume", "force-run", "change-status", "kill", "executions", "search", "source", "disable", "enable"];

impl Rule {
    pub fn holds(&self, id: &str) -> bool {
        id.chars().next().is_some_and(self.first) && id.chars().all(self.rest) && id.len() <= self.chars_max
    }
}

impl<'a> Context<'a> {
    pub fn id(&mut self, node: &'a Node, rule: Rule) -> Option<String> {
        let text = self.literal(node, "id")?;
        self.check_id(node, text, rule)
    }

    pub fn check_id(&mut self, node: &Node, text: &str, rule: Rule) -> Option<String> {
        if rule.holds(text) {
            return Some(text.to_owned());
        }
        let message = format!("`{}` is not a {}", short(text), rule.what);
        let expected = format!("1 to {} of {}", rule.chars_max, rule.words);
        let fixed = repair(text, rule).map(|fixed| format!("`{fixed}` would do"));
        let finding = Finding::error(codes::BAD_ID, node.at.clone(), message).expected(expected);
        self.report(finding.maybe_suggest(fixed));
        None
    }

    pub fn flow_id(&mut self, node: &'a Node) -> Option<String> {
        let id = self.id(node, FLOW_ID)?;
        if RESERVED.contains(&id.as_str()) {
            let message = format!("`{id}` is a word of the HTTP routes, so no flow can have it as its id");
            self.error(codes::RESERVED_ID, &node.at, message);
            return None;
        }
        Some(id)
    }
}

fn repair(text: &str, rule: Rule) -> Option<String> {
    let lower = rule.what == NAMESPACE.what;
    let text = if lower { text.to_lowercase() } else { text.to_owned() };
    let fixed: String =
        text.trim().chars().map(|c| if (rule.rest)(c) { c } else { '_' }).take(rule.chars_max).collect();
    let fixed = fixed.trim_start_matches(|c| !(rule.first)(c));
    rule.holds(fixed).then(|| fixed.to_owned())
}
