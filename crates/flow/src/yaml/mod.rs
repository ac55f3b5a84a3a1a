//! YAML to a tree whose nodes know their place.
//!
//! The tree is bounded before anything walks it: bytes, nodes, depth and the nodes that aliases add. A violation or a
//! syntax error ends the load with one finding, because what follows it cannot be trusted; duplicate keys and odd
//! scalars are reported and the load goes on.

mod scalar;
mod syntax;

pub(crate) use scalar::{Scalar, Style, Typed};

use crate::codes;
use crate::diagnostic::Finding;
use crate::source::Source;
use indexmap::IndexMap;
use saphyr_parser::{Event, Parser, StrInput, Tag};
use semel_core::limits::Limits;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// Deepest nesting of lists and maps. Everything that walks the tree recurses, so this bounds the stack.
const DEPTH_MAX: usize = 64;
/// How many nodes all aliases of a file may add together.
const ALIAS_NODES_MAX: usize = 1_000;

#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// Where it stands; an absent value stands at its key.
    pub at: Range<usize>,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub key: String,
    pub key_at: Range<usize>,
    pub value: Node,
}

impl Node {
    /// What it is, for "expected …, found …".
    pub fn shape(&self) -> &'static str {
        match &self.value {
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Scalar(scalar) => match scalar.typed {
                Typed::Null => "nothing",
                Typed::Bool(_) => "true or false",
                Typed::Int(_) | Typed::Float(_) => "a number",
                Typed::Text => "text",
            },
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar(Scalar { typed: Typed::Null, .. }))
    }

    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    pub fn entries(&self) -> Option<&[Entry]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    pub fn items(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    /// The author's value as JSON.
    pub fn to_json(&self) -> Json {
        match &self.value {
            Value::Scalar(scalar) => scalar.to_json(),
            Value::List(items) => items.iter().map(Node::to_json).collect(),
            Value::Map(entries) => {
                Json::Object(entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect())
            }
        }
    }

    fn children(&self) -> Box<dyn Iterator<Item = &Node> + '_> {
        match &self.value {
            Value::Scalar(_) => Box::new(std::iter::empty()),
            Value::List(items) => Box::new(items.iter()),
            Value::Map(entries) => Box::new(entries.iter().map(|entry| &entry.value)),
        }
    }

    pub fn count(&self) -> usize {
        1 + self.children().map(Node::count).sum::<usize>()
    }

    fn height(&self) -> usize {
        self.children().map(|child| 1 + child.height()).max().unwrap_or(0)
    }
}

/// Loads one document. No node means that the findings hold a fatal error.
pub(crate) fn load(source: &Source, limits: &Limits) -> (Option<Node>, Vec<Finding>) {
    if source.text.len() > limits.flow_bytes_max {
        let message =
            format!("the flow has {} bytes; at most {} are allowed", source.text.len(), limits.flow_bytes_max);
        return (None, vec![Finding::error(codes::TOO_LARGE, 0..0, message)]);
    }
    let mut loader = Loader {
        source,
        parser: Parser::new_from_str(source.text),
        nodes_max: limits.yaml_nodes_max,
        nodes: 0,
        alias_nodes: 0,
        anchors: HashMap::new(),
        findings: Vec::new(),
    };
    let root = loader.document();
    let mut findings = loader.findings;
    match root {
        Ok(root) => (Some(root), findings),
        Err(fatal) => {
            findings.push(*fatal);
            (None, findings)
        }
    }
}

struct Loader<'a> {
    source: &'a Source<'a>,
    parser: Parser<'a, StrInput<'a>>,
    nodes_max: usize,
    nodes: usize,
    alias_nodes: usize,
    anchors: HashMap<usize, Node>,
    findings: Vec<Finding>,
}

type Fatal = Box<Finding>;

impl<'a> Loader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Range<usize>), Fatal> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                let start = self.source.byte_of_char(span.start.index());
                let end = self.source.byte_of_char(span.end.index()).max(start);
                Ok((event, start..end))
            }
            Some(Err(error)) => Err(Box::new(syntax::explain(self.source, &error))),
            None => {
                let end = self.source.text.len();
                Err(Box::new(Finding::error(codes::YAML_SYNTAX, end..end, "the text ends too early")))
            }
        }
    }

    fn document(&mut self) -> Result<Node, Fatal> {
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamEnd => {
                    let empty = Finding::error(codes::MISSING_FIELD, 0..0, "the file holds no flow");
                    return Err(Box::new(empty.suggest("a flow needs at least `id`, `namespace` and `tasks`")));
                }
                Event::StreamStart | Event::Nothing | Event::DocumentStart(_) | Event::DocumentEnd => {}
                _ => {
                    let root = self.node(event, at, 0, None)?;
                    self.only_one()?;
                    return Ok(root);
                }
            }
        }
    }

    fn only_one(&mut self) -> Result<(), Fatal> {
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(()),
                Event::DocumentStart(_) => {
                    let line = self.source.line_range(self.source.line_of(at.start));
                    let finding =
                        Finding::error(codes::SECOND_DOCUMENT, at.start..line.end.max(at.end), "a second document");
                    return Err(Box::new(finding.suggest("keep one flow per file")));
                }
                _ => {}
            }
        }
    }

    /// Builds one node from its first event. `key_at` is where an absent value is reported.
    fn node(
        &mut self,
        event: Event<'a>,
        at: Range<usize>,
        depth: usize,
        key_at: Option<&Range<usize>>,
    ) -> Result<Node, Fatal> {
        self.spend(1, &at)?;
        if depth > DEPTH_MAX {
            let message = format!("nested deeper than {DEPTH_MAX} levels");
            return Err(Box::new(Finding::error(codes::TOO_LARGE, at, message)));
        }
        let (node, anchor) = match event {
            Event::Alias(id) => return self.alias(id, at, depth),
            Event::Scalar(text, style, anchor, tag) => (self.scalar(text, style, tag, at, key_at), anchor),
            Event::SequenceStart(anchor, tag) => {
                self.refuse_tag(tag, &at);
                (self.list(at, depth)?, anchor)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_tag(tag, &at);
                (self.map(at, depth)?, anchor)
            }
            _ => return Err(Box::new(Finding::error(codes::YAML_SYNTAX, at, "a value is missing here"))),
        };
        // A larger one could not be expanded within the budget anyway, and copying it would cost too much.
        if anchor != 0 && node.count() <= ALIAS_NODES_MAX {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn spend(&mut self, count: usize, at: &Range<usize>) -> Result<(), Fatal> {
        self.nodes += count;
        if self.nodes > self.nodes_max {
            let message = format!("the flow has more than {} values", self.nodes_max);
            return Err(Box::new(Finding::error(codes::TOO_LARGE, at.clone(), message)));
        }
        Ok(())
    }

    fn alias(&mut self, id: usize, at: Range<usize>, depth: usize) -> Result<Node, Fatal> {
        let refuse = |message: String| Box::new(Finding::error(codes::ALIAS_LIMIT, at.clone(), message));
        let Some(node) = self.anchors.get(&id) else {
            return Err(refuse(format!("this alias refers to itself or to more than {ALIAS_NODES_MAX} values")));
        };
        let count = node.count();
        self.alias_nodes += count;
        if self.alias_nodes > ALIAS_NODES_MAX {
            return Err(refuse(format!("the aliases of this file expand to more than {ALIAS_NODES_MAX} values")));
        }
        if depth + node.height() > DEPTH_MAX {
            return Err(refuse(format!("this alias nests deeper than {DEPTH_MAX} levels")));
        }
        let node = node.clone();
        self.spend(count, &at)?;
        Ok(node)
    }

    fn scalar(
        &mut self,
        text: Cow<'a, str>,
        style: saphyr_parser::ScalarStyle,
        tag: Option<Cow<'a, Tag>>,
        at: Range<usize>,
        key_at: Option<&Range<usize>>,
    ) -> Node {
        let named = |names: &[&str]| {
            tag.as_ref().is_some_and(|tag| tag.is_yaml_core_schema() && names.contains(&tag.suffix.as_str()))
        };
        let as_text = named(&["str", "timestamp"]);
        let as_value = named(&["bool", "int", "float", "null"]);
        let scalar = match as_value {
            true => Scalar::tagged(text.into_owned(), Style::from(style)),
            false => Scalar::new(text.into_owned(), Style::from(style), as_text),
        };
        let fits = as_text || as_value && tag.as_ref().is_some_and(|tag| scalar.is_what(&tag.suffix));
        if !fits {
            self.refuse_tag(tag, &at);
        }
        if scalar.has_leading_zero() && !as_text {
            let message = format!("`{}` begins with a zero, so it is kept as text, not as a number", scalar.text);
            let finding = Finding::warning(codes::LEADING_ZERO, at.clone(), message);
            self.findings.push(finding.suggest("quote it if it is text, or drop the zero if it is a number"));
        }
        let absent = scalar.style == Style::Plain && scalar.text.is_empty();
        let at = match key_at {
            Some(key) if absent => key.clone(),
            _ => at.start..at.end.max(at.start),
        };
        Node { at: trim_end(self.source.text, at), value: Value::Scalar(scalar) }
    }

    fn list(&mut self, at: Range<usize>, depth: usize) -> Result<Node, Fatal> {
        let mut items = Vec::new();
        loop {
            let (event, item_at) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                let at = at.start..item_at.end.max(at.end);
                return Ok(Node { at: trim_end(self.source.text, at), value: Value::List(items) });
            }
            items.push(self.node(event, item_at, depth + 1, None)?);
        }
    }

    fn map(&mut self, at: Range<usize>, depth: usize) -> Result<Node, Fatal> {
        let mut entries: IndexMap<String, Entry> = IndexMap::new();
        loop {
            let (event, key_at) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                let at = at.start..key_at.end.max(at.end);
                let entries = entries.into_values().collect();
                return Ok(Node { at: trim_end(self.source.text, at), value: Value::Map(entries) });
            }
            let key = self.key(event, key_at.clone(), depth)?;
            let (event, value_at) = self.next()?;
            let value = self.node(event, value_at, depth + 1, Some(&key_at))?;
            let Some(key) = key else { continue };
            if let Some(first) = entries.get(&key) {
                let message = format!("`{key}` is given twice in the same map");
                let finding = Finding::error(codes::DUPLICATE_KEY, key_at, message);
                self.findings.push(finding.related(first.key_at.clone(), "first given here"));
                continue;
            }
            entries.insert(key.clone(), Entry { key, key_at, value });
        }
    }

    fn key(&mut self, event: Event<'a>, at: Range<usize>, depth: usize) -> Result<Option<String>, Fatal> {
        self.spend(1, &at)?;
        match event {
            Event::Scalar(text, ..) if text == "<<" => {
                let finding = Finding::error(codes::BAD_KEY, at, "merge keys (`<<`) are not part of YAML 1.2");
                self.findings.push(finding.suggest("write the fields out, or alias the whole value"));
                Ok(None)
            }
            Event::Scalar(text, ..) => Ok(Some(text.into_owned())),
            other => {
                self.findings.push(syntax::complex_key(self.source, at.clone()));
                self.node(other, at, depth + 1, None)?;
                Ok(None)
            }
        }
    }

    fn refuse_tag(&mut self, tag: Option<Cow<'a, Tag>>, at: &Range<usize>) {
        if let Some(tag) = tag {
            let message = format!("the tag `{tag}` has no meaning in a flow");
            self.findings.push(Finding::error(codes::BAD_TAG, at.clone(), message).suggest("remove it"));
        }
    }
}

/// Block values end where the next token begins; their place should end with their text.
fn trim_end(text: &str, at: Range<usize>) -> Range<usize> {
    let trimmed = text.get(at.clone()).map_or(0, |slice| slice.trim_end().len());
    at.start..at.start + trimmed
}
