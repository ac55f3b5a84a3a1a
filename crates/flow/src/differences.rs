//! Where a flow that compiles behaves other than on Kestra. None of it is a mistake of the author.

use crate::diagnostic::Span;
use crate::source::Source;
use crate::yaml::{self, Node};
use semel_core::limits::Limits;

/// One place of a flow, and what is different there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub span: Span,
    pub message: String,
}

/// The differences of a text, in order of their places.
pub fn differences(text: &str, limits: &Limits) -> Vec<Difference> {
    let source = Source::new(text);
    let (root, _) = yaml::load(&source, limits);
    let mut found = Vec::new();
    if let Some(root) = &root {
        walk(root, &mut found);
    }
    found.sort_by_key(|(at, _)| *at);
    let placed = |(at, message): (usize, &str)| Difference { span: source.span(at..at), message: message.to_owned() };
    found.into_iter().map(placed).collect()
}

fn walk<'a>(node: &'a Node, found: &mut Vec<(usize, &'static str)>) {
    if let Some(type_name) = text_of(node, "type") {
        let short = type_name.rsplit_once("core.").map_or(type_name, |(_, short)| short);
        of_task(node, short, found);
    }
    let nested: Box<dyn Iterator<Item = &'a Node>> = match (node.entries(), node.items()) {
        (Some(entries), _) => Box::new(entries.iter().map(|entry| &entry.value)),
        (_, Some(items)) => Box::new(items.iter()),
        _ => Box::new(std::iter::empty()),
    };
    nested.for_each(|child| walk(child, found));
}

const NOT_REPEATED: &str = "after a crash in mid-call Kestra may send this again; here the run is held until somebody \
    says what became of it. Declare `effect: keyed` if the far side honours Idempotency-Key, or `effect: repeatable`";
const GUARD: &str = "this looks for an earlier execution and then acts, which two deliveries at once can both do. \
    `idempotency: {key: …}` in the flow decides it in the transaction that creates the execution";
const EXPONENTIAL: &str =
    "each delay is the one before it times the factor, from `interval` on; Kestra grows it by one step per attempt";

fn of_task(node: &Node, type_name: &str, found: &mut Vec<(usize, &'static str)>) {
    let place = node.at.start;
    match type_name {
        "http.Request" | "tasks.http.Request" => {
            let method = text_of(node, "method").unwrap_or("GET").to_ascii_uppercase();
            if matches!(method.as_str(), "POST" | "PATCH") && value_of(node, "effect").is_none() {
                found.push((place, NOT_REPEATED));
            }
            let uri = text_of(node, "uri").unwrap_or_default();
            if uri.contains("/executions/search") && uri.contains("correlationId") {
                found.push((place, GUARD));
            }
        }
        "exponential" => found.push((place, EXPONENTIAL)),
        _ => {}
    }
}

fn value_of<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    node.entries()?.iter().find(|entry| entry.key == name).map(|entry| &entry.value)
}

fn text_of<'a>(node: &'a Node, name: &str) -> Option<&'a str> {
    value_of(node, name)?.scalar().map(|scalar| scalar.text.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(tasks: &str) -> Vec<(u32, &'static str)> {
        let known = [NOT_REPEATED, GUARD, EXPONENTIAL];
        let found = differences(&format!("id: a\nnamespace: b\ntasks:\n{tasks}"), &Limits::default());
        found.iter().map(|one| (one.span.line, *known.iter().find(|text| **text == one.message).unwrap())).collect()
    }

    #[test]
    fn calls_that_are_not_repeated_are_told() {
        let call =
            |more: &str| format!("  - id: x\n    type: io.kestra.plugin.core.http.Request\n    uri: http://a\n{more}");
        assert_eq!(lines(&call("    method: POST\n")), [(4, NOT_REPEATED)]);
        assert_eq!(lines(&call("    method: POST\n    effect: keyed\n")), []);
        assert_eq!(lines(&call("")), []);
    }

    #[test]
    fn a_guard_that_is_not_atomic_is_told() {
        let tasks = "  - id: s\n    type: flow.Sequential\n    tasks:\n      - id: x\n        type: http.Request\n        \
            uri: \"http://a/api/v1/main/executions/search?filters[labels][EQUALS][system.correlationId]=x\"\n";
        assert_eq!(lines(tasks), [(7, GUARD)]);
    }

    #[test]
    fn delays_that_grow_are_told() {
        let tasks =
            "  - id: x\n    type: log.Log\n    message: a\n    retry:\n      type: exponential\n      interval: PT1S\n";
        assert_eq!(lines(tasks), [(8, EXPONENTIAL)]);
    }
}
