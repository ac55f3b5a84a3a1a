//! What a template refers to, found without evaluating it.

use std::collections::BTreeSet;

use crate::ast::{Call, Chain, Expr, Node, Step};
use crate::catalog;
use crate::template::Template;
use crate::value::Value;

/// Variable roots, step outputs, functions and filters a template uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Variable roots, without the locals of `for` and `set`.
    pub roots: BTreeSet<String>,
    /// Ids `X` in `outputs.X` or `outputs['X']`.
    pub outputs: BTreeSet<String>,
    /// `outputs` is used bare or with a computed key, so any step may be meant.
    pub outputs_dynamic: bool,
    /// Functions with the byte offset of each use.
    pub functions: BTreeSet<(String, usize)>,
    /// Filters with the byte offset of each use.
    pub filters: BTreeSet<(String, usize)>,
}

impl References {
    pub(crate) fn of(template: &Template) -> References {
        let mut walk = Walk { found: References::default(), locals: Vec::new() };
        walk.template(template);
        walk.found
    }
}

struct Walk<'a> {
    found: References,
    locals: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    fn template(&mut self, template: &'a Template) {
        self.nodes(&template.nodes);
        for defined in &template.named.macros {
            self.locals.clear();
            defined.parameters.iter().filter_map(|(_, default)| default.as_ref()).for_each(|value| self.expr(value));
            self.locals = defined.parameters.iter().map(|(name, _)| &**name).collect();
            self.nodes(&defined.body);
        }
    }

    fn nodes(&mut self, nodes: &'a [Node]) {
        for node in nodes {
            match node {
                Node::Text(_) => {}
                Node::Print { expr, .. } => self.expr(expr),
                Node::If { arms, otherwise, .. } => {
                    for (condition, body) in arms {
                        self.expr(condition);
                        self.nodes(body);
                    }
                    self.nodes(otherwise);
                }
                Node::For { variable, items, body, otherwise, .. } => {
                    self.expr(items);
                    let outer = self.locals.len();
                    self.locals.extend([&**variable, "loop"]);
                    self.nodes(body);
                    self.locals.truncate(outer);
                    self.nodes(otherwise);
                }
                Node::Set { variable, expr, .. } => {
                    self.expr(expr);
                    self.locals.push(variable);
                }
                Node::Filter { steps, body, .. } => {
                    self.steps(steps);
                    self.nodes(body);
                }
                Node::Block(block) => self.nodes(&block.body),
            }
        }
    }

    fn expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Literal(Value::Deferred(template)) => self.deferred(template),
            Expr::Literal(_) => {}
            Expr::Variable(name) => self.variable(name, None),
            Expr::List(items) => items.iter().for_each(|item| self.expr(item)),
            Expr::Map(entries) => entries.iter().for_each(|(key, item)| {
                self.expr(key);
                self.expr(item);
            }),
            Expr::Call(call) => {
                // Anything else is a macro of the template.
                if catalog::is_known_function(&call.name) {
                    self.found.functions.insert((call.name.to_string(), call.offset));
                }
                self.arguments(call);
            }
            Expr::Unary(_, operand) => self.expr(operand),
            Expr::Ternary(parts) => {
                self.expr(&parts.0);
                self.expr(&parts.1);
                self.expr(&parts.2);
            }
            Expr::Chain(chain) => self.chain(chain),
        }
    }

    /// Author text in the argument of `render`; its functions are reported where the argument stands.
    fn deferred(&mut self, template: &Template) {
        let inner = References::of(template);
        self.found.roots.extend(inner.roots);
        self.found.outputs.extend(inner.outputs);
        self.found.outputs_dynamic |= inner.outputs_dynamic;
        self.found.functions.extend(inner.functions.into_iter().map(|(name, _)| (name, 0)));
        self.found.filters.extend(inner.filters.into_iter().map(|(name, _)| (name, 0)));
    }

    fn chain(&mut self, chain: &'a Chain) {
        match &chain.first {
            Expr::Variable(name) => self.variable(name, chain.steps.first()),
            other => self.expr(other),
        }
        self.steps(&chain.steps);
    }

    fn steps(&mut self, steps: &'a [Step]) {
        for step in steps {
            match step {
                Step::Member(_) | Step::Test { .. } => {}
                Step::Index(index) => self.expr(index),
                Step::Binary(_, operand) => self.expr(operand),
                Step::Filter(call) => {
                    self.found.filters.insert((call.name.to_string(), call.offset));
                    self.arguments(call);
                }
            }
        }
    }

    fn arguments(&mut self, call: &'a Call) {
        call.args.iter().for_each(|argument| self.expr(argument));
        call.named.iter().for_each(|(_, argument)| self.expr(argument));
    }

    fn variable(&mut self, name: &str, next: Option<&Step>) {
        if self.locals.contains(&name) {
            return;
        }
        self.found.roots.insert(name.to_owned());
        if name != "outputs" {
            return;
        }
        match next {
            Some(Step::Member(id)) => {
                self.found.outputs.insert(id.to_string());
            }
            Some(Step::Index(Expr::Literal(key @ (Value::Int(_) | Value::Str(_))))) => {
                self.found.outputs.insert(key.to_text());
            }
            _ => self.found.outputs_dynamic = true,
        }
    }
}
