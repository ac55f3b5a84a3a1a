//! The tree to IR, field by field.
//!
//! Every reader reports what is wrong and returns `None` (or a default), so one mistake never hides the next. The IR
//! built along the way is only handed out when there was no error.

mod conditions;
pub(crate) mod cron;
mod dag;
mod defaults;
mod depends;
mod effect;
mod fields;
pub(crate) mod flow;
mod for_each_item;
mod idempotency;
mod ids;
mod inputs;
mod labels;
mod lane;
mod leaf;
mod loops;
mod pause;
mod preconditions;
mod retry;
mod rules;
mod structural;
mod subflow;
mod tasks;
mod triggers;
mod values;

pub(crate) use structural::Shape;

use crate::codes;
use crate::diagnostic::{Finding, Severity};
use crate::source::Source;
use crate::templates;
use crate::yaml::{Node, Value};
use indexmap::IndexMap;
use semel_core::FlowRef;
use semel_core::ir::{Catalog, Retry};
use semel_core::limits::Limits;
use semel_expr::References;
use std::collections::HashSet;
use std::ops::Range;

/// How many errors, and how many warnings, are kept. A few of them are shown in the end.
const FINDINGS_MAX: usize = 500;

/// When an expression is evaluated, hence what it can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Before the run exists: keys, trigger inputs.
    Admission,
    /// Before the run exists, with an upstream run in sight: the templates of a flow trigger.
    Upstream,
    /// Inside the run, at the task with this position in the order of tasks.
    Task(usize),
    /// When the run has ended, or not bound to one place (variables).
    Whole,
}

/// One expression of the flow.
pub(crate) struct TemplateUse<'a> {
    pub node: &'a Node,
    pub references: References,
    pub moment: Moment,
}

/// Where a task id was defined.
pub(crate) struct TaskPlace {
    pub at: Range<usize>,
    pub order: usize,
}

/// A Subflow task whose target is known without running anything.
pub(crate) struct StaticSubflow {
    pub target: FlowRef,
    pub at: Range<usize>,
    pub conditional: bool,
}

/// What all readers share.
pub(crate) struct Context<'a> {
    pub source: &'a Source<'a>,
    pub catalog: &'a dyn Catalog,
    pub limits: &'a Limits,
    pub findings: Vec<Finding>,
    /// Findings beyond [`FINDINGS_MAX`] of their severity, which are only counted.
    pub dropped: usize,
    counts: [usize; 2],
    pub templates: Vec<TemplateUse<'a>>,
    pub tasks: IndexMap<String, TaskPlace>,
    /// Declared inputs, and whether a run needs somebody to give a value.
    pub inputs: IndexMap<String, bool>,
    /// First parts of the declared names: `a` of `a.b`.
    pub input_roots: HashSet<String>,
    pub subflows: Vec<StaticSubflow>,
    /// Fields that were misspelt, by the place of their map: their absence is not reported a second time.
    pub misspelt: HashSet<(usize, String)>,
    pub moment: Moment,
    /// Whether what is being read runs only sometimes.
    pub conditional: bool,
    /// `retry` of the group around, for tasks without one of their own.
    pub retry: Option<Retry>,
    /// The flow's own namespace and id, as far as they could be read.
    pub own: FlowRef,
}

impl<'a> Context<'a> {
    pub fn new(source: &'a Source<'a>, catalog: &'a dyn Catalog, limits: &'a Limits) -> Context<'a> {
        Context {
            source,
            catalog,
            limits,
            findings: Vec::new(),
            dropped: 0,
            counts: [0; 2],
            templates: Vec::new(),
            tasks: IndexMap::new(),
            inputs: IndexMap::new(),
            input_roots: HashSet::new(),
            subflows: Vec::new(),
            misspelt: HashSet::new(),
            moment: Moment::Whole,
            conditional: false,
            retry: None,
            own: FlowRef::new("", ""),
        }
    }

    pub fn report(&mut self, finding: Finding) {
        let count = &mut self.counts[finding.severity as usize];
        if *count < FINDINGS_MAX {
            *count += 1;
            self.findings.push(finding);
        } else {
            self.dropped += 1;
        }
    }

    /// Whether further errors would only be counted.
    pub fn is_full(&self) -> bool {
        self.counts[Severity::Error as usize] >= FINDINGS_MAX
    }

    pub fn error(&mut self, code: &'static str, at: &Range<usize>, message: impl Into<String>) {
        self.report(Finding::error(code, at.clone(), message));
    }

    /// Reads something with another moment, then goes back.
    pub fn during<T>(&mut self, moment: Moment, read: impl FnOnce(&mut Context<'a>) -> T) -> T {
        let before = std::mem::replace(&mut self.moment, moment);
        let result = read(self);
        self.moment = before;
        result
    }

    /// Reads something that runs only sometimes.
    pub fn sometimes<T>(&mut self, conditional: bool, read: impl FnOnce(&mut Context<'a>) -> T) -> T {
        let before = self.conditional;
        self.conditional |= conditional;
        let result = read(self);
        self.conditional = before;
        result
    }

    /// Parses the templates of every text in a tree.
    pub fn expressions(&mut self, node: &'a Node) {
        match &node.value {
            Value::Scalar(scalar) if scalar.is_template() => self.expression(node),
            Value::Scalar(_) => {}
            Value::List(items) => items.iter().for_each(|item| self.expressions(item)),
            Value::Map(entries) => entries.iter().for_each(|entry| self.expressions(&entry.value)),
        }
    }

    /// A text with expressions whose names are not checked.
    pub fn only_parsed(&mut self, node: &'a Node, name: &str) -> Option<String> {
        let text = self.template(node, name)?;
        self.templates.retain(|used| !std::ptr::eq(used.node, node));
        Some(text)
    }

    fn expression(&mut self, node: &'a Node) {
        let Some(scalar) = node.scalar() else { return };
        match templates::parse(&scalar.text) {
            Ok(references) => self.templates.push(TemplateUse { node, references, moment: self.moment }),
            Err(error) => {
                let end = error.offset.saturating_add(error.len.max(1));
                let at = scalar.locate(self.source.text, &node.at, error.offset..end);
                let finding = Finding::error(codes::BAD_TEMPLATE, at, error.message);
                self.report(finding.maybe_suggest(error.hint));
            }
        }
    }
}
