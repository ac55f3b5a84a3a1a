//! Text and tags: what a template does around its expressions.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::ast::{Expr, Macro, Node};
use crate::budget::spend;
use crate::eval::Evaluator;
use crate::filters::Args;
use crate::taint::{self, TextBuilder};
use crate::template::Template;
use crate::value::Value;
use crate::{EvalError, ops};

impl Evaluator<'_> {
    pub(crate) fn typed(&mut self, template: &Template) -> Result<Value, EvalError> {
        let [Node::Print { expr, line }] = template.nodes.as_slice() else {
            return self.text(template);
        };
        let value = self.eval(expr).map_err(|error| self.located(error, *line))?;
        self.charge_output(value.weight())?;
        Ok(value)
    }

    pub(crate) fn text(&mut self, template: &Template) -> Result<Value, EvalError> {
        let mut out = TextBuilder::default();
        self.nodes(&template.nodes, &mut out)?;
        Ok(out.finish())
    }

    fn nodes(&mut self, nodes: &[Node], out: &mut TextBuilder) -> Result<(), EvalError> {
        self.enter()?;
        for node in nodes {
            self.node(node, out)?;
        }
        self.frames -= 1;
        Ok(())
    }

    fn node(&mut self, node: &Node, out: &mut TextBuilder) -> Result<(), EvalError> {
        match node {
            Node::Text(text) => {
                self.charge_output(text.len())?;
                out.push_text(text);
                Ok(())
            }
            Node::Print { expr, line } => self.print(expr, out).map_err(|error| self.located(error, *line)),
            Node::If { arms, otherwise, line } => self.if_node(arms, otherwise, *line, out),
            Node::For { variable, items, body, otherwise, line } => {
                let value = self.eval(items).map_err(|error| self.located(error, *line))?;
                if value == Value::Null {
                    return Ok(());
                }
                let items = self.items(value).map_err(|error| self.located(error, *line))?;
                if items.is_empty() { self.nodes(otherwise, out) } else { self.for_node(variable, &items, body, out) }
            }
            Node::Set { variable, expr, line } => {
                let value = self.eval(expr).map_err(|error| self.located(error, *line))?;
                self.assign(variable, value);
                Ok(())
            }
            Node::Filter { steps, body, line } => {
                let mut inner = TextBuilder::default();
                self.nodes(body, &mut inner)?;
                let mut value = Ok(inner.finish());
                for step in steps {
                    value = self.step(value, step);
                }
                let value = value.map_err(|error| self.located(error, *line))?;
                self.push(&value, out)
            }
            Node::Block(block) => self.nodes(&block.body, out),
        }
    }

    /// The text of a block of this template, as `block('name')` asks for it.
    pub(crate) fn block(&mut self, name: &str) -> Result<Value, EvalError> {
        let found = self.template.named.blocks.iter().find(|block| &*block.name == name);
        let block = found.ok_or_else(|| EvalError::new("function", format!("there is no block `{name}`")))?.clone();
        let mut out = TextBuilder::default();
        self.nodes(&block.body, &mut out)?;
        Ok(out.finish())
    }

    /// The text of a macro. It sees its arguments and what the run offers, not the variables around its call.
    pub(crate) fn expand(&mut self, defined: &Macro, args: &Args) -> Result<Value, EvalError> {
        self.enter()?;
        let mut locals = Vec::with_capacity(defined.parameters.len());
        for (position, (name, default)) in defined.parameters.iter().enumerate() {
            let value = match (args.value(position, name), default) {
                (Some(value), _) => value.clone(),
                (None, Some(default)) => self.eval(default)?,
                (None, None) => Value::Null,
            };
            locals.push((name.clone(), value));
        }
        let around = std::mem::replace(&mut self.locals, locals);
        let mut out = TextBuilder::default();
        self.nodes(&defined.body, &mut out)?;
        self.locals = around;
        self.frames -= 1;
        Ok(out.finish())
    }

    fn print(&mut self, expr: &Expr, out: &mut TextBuilder) -> Result<(), EvalError> {
        let value = self.eval(expr)?;
        self.push(&value, out)
    }

    fn push(&mut self, value: &Value, out: &mut TextBuilder) -> Result<(), EvalError> {
        let value = taint::printable(value, self.scope)?;
        self.charge_output(value.weight())?;
        out.push(&value);
        Ok(())
    }

    fn if_node(
        &mut self,
        arms: &[(Expr, Vec<Node>)],
        otherwise: &[Node],
        line: u32,
        out: &mut TextBuilder,
    ) -> Result<(), EvalError> {
        for (condition, body) in arms {
            let holds = self.condition(condition).map_err(|error| self.located(error, line))?;
            if holds {
                return self.nodes(body, out);
            }
        }
        self.nodes(otherwise, out)
    }

    fn for_node(
        &mut self,
        variable: &Arc<str>,
        items: &[Value],
        body: &[Node],
        out: &mut TextBuilder,
    ) -> Result<(), EvalError> {
        let outer = self.locals.len();
        for (index, item) in items.iter().enumerate() {
            self.locals.truncate(outer);
            self.locals.push((variable.clone(), item.clone()));
            self.locals.push((Arc::from("loop"), loop_state(index, items.len())));
            self.nodes(body, out)?;
        }
        self.locals.truncate(outer);
        Ok(())
    }

    /// What `for` walks over; a map gives `{key, value}` entries. Items of a sealed list are sealed one by one.
    fn items(&mut self, value: Value) -> Result<Vec<Value>, EvalError> {
        let items = match &value {
            Value::Tainted(_) => {
                let revealed = taint::reveal(&value, self.scope)?;
                let items = ops::entries(&revealed)?;
                items.iter().map(|item| taint::seal(item, self.scope)).collect::<Result<_, _>>()?
            }
            plain => ops::entries(plain)?,
        };
        spend(self.budget, items.len() as u64)?;
        Ok(items)
    }

    /// Sets the nearest local of that name, or makes one, so that loops can accumulate.
    fn assign(&mut self, variable: &Arc<str>, value: Value) {
        match self.locals.iter_mut().rev().find(|(name, _)| name == variable) {
            Some(local) => local.1 = value,
            None => self.locals.push((variable.clone(), value)),
        }
    }
}

fn loop_state(index: usize, length: usize) -> Value {
    let number = |number: usize| Value::Int(number as i128);
    let last = index + 1 == length;
    Value::map(IndexMap::from([
        ("index".to_owned(), number(index)),
        ("length".to_owned(), number(length)),
        ("first".to_owned(), Value::Bool(index == 0)),
        ("last".to_owned(), Value::Bool(last)),
        ("revindex".to_owned(), number(length - index - 1)),
    ]))
}
