//! The evaluator.
//!
//! Recursion happens only where the parser let the text nest, plus where author text in `vars` refers to other author
//! text; both are counted (`FRAMES_MAX`, `Budget::depth`), so the stack stays bounded for every input. Every visit of
//! a node, and every value built, is paid for with fuel.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::ast::{BinaryOp, Call, Chain, Expr, Step, Test, UnaryOp};
use crate::budget::{BYTES_PER_FUEL, built, spend, too_large};
use crate::filters::{self, Args};
use crate::taint;
use crate::template::Template;
use crate::value::Value;
use crate::{Budget, EvalError, Scope, functions, ops};

/// Nested evaluations of any kind, whatever the nesting of author text is.
const FRAMES_MAX: u32 = 256;
pub(crate) struct Evaluator<'a> {
    pub scope: &'a dyn Scope,
    pub budget: &'a mut Budget,
    pub(crate) template: &'a Template,
    pub(crate) locals: Vec<(Arc<str>, Value)>,
    pub(crate) frames: u32,
}

impl<'a> Evaluator<'a> {
    pub(crate) fn new(template: &'a Template, scope: &'a dyn Scope, budget: &'a mut Budget, frames: u32) -> Self {
        Evaluator { scope, budget, template, locals: Vec::new(), frames }
    }

    /// Adds the place of an error, once; the innermost template that failed is the one named.
    pub(crate) fn located(&self, mut error: EvalError, line: u32) -> EvalError {
        if error.line != 0 {
            return error;
        }
        error.line = line;
        if error.code == MISSING {
            let source: String = self.template.source().chars().take(200).collect();
            error.message =
                format!("Unable to find `{}` used in the expression `{source}` at line {line}", error.message);
        }
        error
    }

    pub(crate) fn charge_output(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.budget.output_bytes = self.budget.output_bytes.checked_sub(bytes).ok_or_else(too_large)?;
        Ok(())
    }

    pub(crate) fn enter(&mut self) -> Result<(), EvalError> {
        spend(self.budget, 1)?;
        if self.frames >= FRAMES_MAX {
            return Err(EvalError::new("depth", "the expression nests too deep"));
        }
        self.frames += 1;
        Ok(())
    }

    pub(crate) fn condition(&mut self, expr: &Expr) -> Result<bool, EvalError> {
        let value = self.eval(expr)?;
        self.holds(value)
    }

    fn holds(&self, value: Value) -> Result<bool, EvalError> {
        Ok(ops::truthy(&taint::reveal(&value, self.scope)?))
    }

    /// Evaluates to a value without deferred parts.
    pub(crate) fn eval(&mut self, expr: &Expr) -> Result<Value, EvalError> {
        self.enter()?;
        let value = self.operand(expr).and_then(|value| self.force(value));
        self.frames -= 1;
        value
    }

    fn operand(&mut self, expr: &Expr) -> Result<Value, EvalError> {
        match expr {
            Expr::Literal(value) => Ok(value.clone()),
            Expr::Variable(name) => self.variable(name),
            Expr::List(items) => self.list_literal(items),
            Expr::Map(entries) => self.map_literal(entries),
            Expr::Call(call) => self.call(call),
            Expr::Unary(op, operand) => self.unary(*op, operand),
            Expr::Ternary(parts) => match self.condition(&parts.0)? {
                true => self.eval(&parts.1),
                false => self.eval(&parts.2),
            },
            Expr::Chain(chain) => self.chain(chain),
        }
    }

    fn variable(&mut self, name: &str) -> Result<Value, EvalError> {
        if let Some((_, value)) = self.locals.iter().rev().find(|(local, _)| &**local == name) {
            return Ok(value.clone());
        }
        self.scope.root(name).ok_or_else(|| missing(name))
    }

    fn list_literal(&mut self, items: &[Expr]) -> Result<Value, EvalError> {
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            list.push(self.eval(item)?);
        }
        built(Value::list(list), self.budget)
    }

    fn map_literal(&mut self, entries: &[(Expr, Expr)]) -> Result<Value, EvalError> {
        let mut map = IndexMap::with_capacity(entries.len());
        for (key, item) in entries {
            let key = self.eval(key)?;
            if key.is_tainted() {
                return Err(EvalError::type_error("a secret cannot be the key of a map"));
            }
            map.insert(key.to_text(), self.eval(item)?);
        }
        built(Value::map(map), self.budget)
    }

    fn unary(&mut self, op: UnaryOp, operand: &Expr) -> Result<Value, EvalError> {
        if op == UnaryOp::Not {
            return Ok(Value::Bool(!self.condition(operand)?));
        }
        let value = self.eval(operand)?;
        self.through(&[&value], "the sign of a number", |values| ops::sign(op, &values[0]))
    }

    fn chain(&mut self, chain: &Chain) -> Result<Value, EvalError> {
        let mut value = self.operand(&chain.first);
        for step in &chain.steps {
            spend(self.budget, 1)?;
            // Members are looked up without rendering their siblings; every other step wants finished values.
            if !matches!(step, Step::Member(_) | Step::Index(_)) {
                value = value.and_then(|value| self.force(value));
            }
            value = self.step(value, step);
        }
        value
    }

    /// One step. A missing variable travels on as an error until a step that knows what to do about it.
    pub(crate) fn step(&mut self, value: Result<Value, EvalError>, step: &Step) -> Result<Value, EvalError> {
        let absent = matches!(&value, Err(error) if error.code == MISSING);
        match step {
            Step::Binary(BinaryOp::Coalesce, right) if absent || matches!(value, Ok(Value::Null)) => self.eval(right),
            Step::Binary(BinaryOp::CoalesceMissing, right) if absent => self.eval(right),
            Step::Test { test: Test::Defined, negated } if absent => Ok(Value::Bool(*negated)),
            Step::Filter(call) if &*call.name == "default" => match value {
                Ok(value) if !ops::is_empty(&value) => Ok(value),
                Err(error) if !absent => Err(error),
                _ => self.default_value(call),
            },
            _ => self.step_on(value?, step),
        }
    }

    fn step_on(&mut self, value: Value, step: &Step) -> Result<Value, EvalError> {
        match step {
            Step::Member(name) => self.member(&value, name),
            Step::Index(index) => self.index(value, index),
            Step::Filter(call) => self.filter(value, call),
            Step::Binary(op, right) => self.binary(value, *op, right),
            Step::Test { test, negated } => self.test(&value, *test, *negated),
        }
    }

    fn default_value(&mut self, call: &Call) -> Result<Value, EvalError> {
        self.arguments(call)?.required(0, "default", "default").cloned()
    }

    fn test(&self, value: &Value, test: Test, negated: bool) -> Result<Value, EvalError> {
        Ok(Value::Bool(ops::test(test, &taint::reveal(value, self.scope)?)? != negated))
    }

    fn member(&mut self, value: &Value, name: &str) -> Result<Value, EvalError> {
        match value {
            Value::Deferred(_) => {
                let forced = self.force(value.clone())?;
                forced.get(name).ok_or_else(|| missing(name))
            }
            Value::Tainted(_) => {
                let revealed = taint::reveal(value, self.scope)?;
                taint::seal(&revealed.get(name).ok_or_else(|| missing(name))?, self.scope)
            }
            plain => plain.get(name).ok_or_else(|| missing(name)),
        }
    }

    fn index(&mut self, value: Value, index: &Expr) -> Result<Value, EvalError> {
        let key = self.eval(index)?;
        self.indexed(&value, key)
    }

    fn indexed(&mut self, value: &Value, key: Value) -> Result<Value, EvalError> {
        if !key.is_tainted() {
            return self.member(value, &key.to_text());
        }
        let key = taint::reveal(&key, self.scope)?.to_text();
        let found = self.member(value, &key).map_err(|error| masked(error, "this lookup", true))?;
        let found = self.force(found)?;
        taint::seal(&taint::reveal(&found, self.scope)?, self.scope)
    }

    fn binary(&mut self, left: Value, op: BinaryOp, right: &Expr) -> Result<Value, EvalError> {
        match op {
            BinaryOp::Coalesce | BinaryOp::CoalesceMissing => Ok(left),
            BinaryOp::And | BinaryOp::Or => match self.holds(left)? == (op == BinaryOp::Or) {
                true => Ok(Value::Bool(op == BinaryOp::Or)),
                false => self.condition(right).map(Value::Bool),
            },
            _ => {
                let right = self.eval(right)?;
                self.combined(left, op, right)
            }
        }
    }

    fn combined(&mut self, left: Value, op: BinaryOp, right: Value) -> Result<Value, EvalError> {
        let joins = op == BinaryOp::Concat || (op == BinaryOp::Add && self.adds_text(&left, &right)?);
        if joins {
            let shown =
                |value: Value| if op == BinaryOp::Add && value == Value::Null { Value::str("null") } else { value };
            return self.join(&shown(left), &shown(right));
        }
        let (operands, tainted) = self.revealed(&[&left, &right])?;
        spend(self.budget, ((operands[0].weight() + operands[1].weight()) / BYTES_PER_FUEL) as u64)?;
        let budget = &mut *self.budget;
        let result = ops::binary(op, &operands[0], &operands[1], &mut |steps| spend(budget, steps))
            .map_err(|error| masked(error, "this operation", tainted))?;
        self.finished(result, tainted && !ops::is_comparison(op))
    }

    /// Whether `+` joins texts. A sealed number still adds up.
    fn adds_text(&mut self, left: &Value, right: &Value) -> Result<bool, EvalError> {
        let text = |value: &Value| matches!(value, Value::Str(_));
        if matches!(left, Value::List(_)) || !(left.is_tainted() || right.is_tainted()) {
            return Ok(!matches!(left, Value::List(_)) && (text(left) || text(right)));
        }
        let (operands, _) = self.revealed(&[left, right])?;
        Ok(text(&operands[0]) || text(&operands[1]))
    }

    fn join(&mut self, left: &Value, right: &Value) -> Result<Value, EvalError> {
        if left.weight().saturating_add(right.weight()) > self.budget.output_bytes {
            return Err(too_large());
        }
        let joined = taint::concat(&taint::printable(left, self.scope)?, &taint::printable(right, self.scope)?);
        built(joined, self.budget)
    }

    pub(crate) fn arguments(&mut self, call: &Call) -> Result<Args, EvalError> {
        let mut positional = Vec::with_capacity(call.args.len());
        for argument in &call.args {
            positional.push(self.eval(argument)?);
        }
        let mut named = Vec::with_capacity(call.named.len());
        for (name, argument) in &call.named {
            named.push((name.clone(), self.eval(argument)?));
        }
        Ok(Args { positional, named })
    }

    fn filter(&mut self, input: Value, call: &Call) -> Result<Value, EvalError> {
        let args = self.arguments(call)?;
        self.filtered(&input, call, args)
    }

    fn filtered(&mut self, input: &Value, call: &Call, args: Args) -> Result<Value, EvalError> {
        if filters::keeps_items(&call.name, input) && !args.is_tainted_scalar() {
            let result = filters::apply(&call.name, input, &args, self.budget)?;
            return built(result, self.budget);
        }
        let tainted = input.is_tainted() || args.is_tainted();
        let input = taint::reveal(input, self.scope)?;
        let args = args.revealed(self.scope)?;
        spend(self.budget, (input.weight() / BYTES_PER_FUEL) as u64)?;
        let result = filters::apply(&call.name, &input, &args, self.budget)
            .map_err(|error| masked(error, &format!("filter `{}`", call.name), tainted))?;
        self.finished(result, tainted && !matches!(&*call.name, "startsWith" | "endsWith"))
    }

    fn call(&mut self, call: &Call) -> Result<Value, EvalError> {
        let args = self.arguments(call)?;
        self.called(call, args)
    }

    fn called(&mut self, call: &Call, args: Args) -> Result<Value, EvalError> {
        let template = self.template;
        if let Some(defined) = template.named.macros.iter().find(|defined| defined.name == call.name) {
            return self.expand(defined, &args);
        }
        let result = match functions::untouched(self, &call.name, &args) {
            Some(result) => return built(result?, self.budget),
            None => args.revealed(self.scope)?,
        };
        let tainted = args.is_tainted();
        let result = functions::call(self, &call.name, &result)
            .map_err(|error| masked(error, &format!("function `{}`", call.name), tainted))?;
        self.finished(result, tainted)
    }

    /// Runs an operator on revealed operands and seals what comes out.
    fn through(
        &mut self,
        operands: &[&Value],
        what: &str,
        operator: impl FnOnce(&[Value]) -> Result<Value, EvalError>,
    ) -> Result<Value, EvalError> {
        let (operands, tainted) = self.revealed(operands)?;
        let result = operator(&operands).map_err(|error| masked(error, what, tainted))?;
        self.finished(result, tainted)
    }

    fn revealed(&self, values: &[&Value]) -> Result<(Vec<Value>, bool), EvalError> {
        let tainted = values.iter().any(|value| value.is_tainted());
        let revealed = values.iter().map(|value| taint::reveal(value, self.scope)).collect::<Result<_, _>>()?;
        Ok((revealed, tainted))
    }

    fn finished(&mut self, result: Value, tainted: bool) -> Result<Value, EvalError> {
        let result = built(result, self.budget)?;
        if tainted { taint::seal(&result, self.scope) } else { Ok(result) }
    }

    /// Renders author text wherever it sits in the value, once: what it yields is data and is not looked at again.
    pub(crate) fn force(&mut self, value: Value) -> Result<Value, EvalError> {
        match &value {
            Value::Deferred(template) => self.deferred(template),
            Value::List(_) | Value::Map(_) | Value::HeaderMap(_) => {
                spend(self.budget, (value.weight() / (BYTES_PER_FUEL * 8)) as u64)?;
                if value.has_deferred() { self.force_items(&value) } else { Ok(value) }
            }
            _ => Ok(value),
        }
    }

    fn force_items(&mut self, value: &Value) -> Result<Value, EvalError> {
        self.enter()?;
        let forced = match value {
            Value::List(items) => {
                Value::list(items.iter().map(|item| self.force(item.clone())).collect::<Result<_, _>>()?)
            }
            Value::Map(entries) | Value::HeaderMap(entries) => {
                let mut map = IndexMap::with_capacity(entries.len());
                for (key, item) in entries.iter() {
                    map.insert(key.clone(), self.force(item.clone())?);
                }
                Value::map(map)
            }
            other => other.clone(),
        };
        self.frames -= 1;
        built(forced, self.budget)
    }

    fn deferred(&mut self, template: &Template) -> Result<Value, EvalError> {
        self.enter()?;
        self.budget.depth = self
            .budget
            .depth
            .checked_sub(1)
            .ok_or_else(|| EvalError::new("depth", "variables refer to each other too deep, or in a circle"))?;
        let value = Evaluator::new(template, self.scope, self.budget, self.frames).typed(template);
        self.budget.depth += 1;
        self.frames -= 1;
        value
    }
}

const MISSING: &str = "missing_variable";

/// A missing variable; `located` turns the bare name into the sentence.
pub(crate) fn missing(name: &str) -> EvalError {
    EvalError::new(MISSING, name)
}

/// Drops an error's own words when they might quote revealed text.
fn masked(error: EvalError, what: &str, tainted: bool) -> EvalError {
    if !tainted || matches!(error.code, "fuel" | "output_limit" | "depth" | "secret") {
        return error;
    }
    let message =
        if error.code == MISSING { "***".to_owned() } else { format!("{what} failed on a value that holds a secret") };
    EvalError { message, ..error }
}
