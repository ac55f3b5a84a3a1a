//! Terms. Outputs are pushed as they come, so what was emitted before an error survives a `try`.

use indexmap::IndexMap;
use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Pattern};
use jaq_core::ops::Math;
use jaq_core::path::{Opt, Part};

use super::order::{compare, index, literal, members, slice, text, truthy};
use super::{JqTerm, builtins, refused, values};
use crate::value::Value;
use crate::{Budget, EvalError, ops};

/// How a program ends early: with a jq error, which `try` catches, or for good.
pub(super) enum Raise {
    Error(Value),
    Stop(EvalError),
}

impl From<EvalError> for Raise {
    fn from(error: EvalError) -> Self {
        match error.code {
            "fuel" | "output_limit" | "depth" => Raise::Stop(error),
            _ => Raise::Error(Value::str(error.message)),
        }
    }
}

pub(super) type Outcome<T> = Result<T, Raise>;

pub(super) fn fail<T>(message: impl AsRef<str>) -> Outcome<T> {
    Err(Raise::Error(Value::str(message)))
}

/// Variables, innermost first.
#[derive(Clone, Copy)]
pub(super) struct Env<'e> {
    name: &'e str,
    value: &'e Value,
    outer: Option<&'e Env<'e>>,
}

pub(super) struct Interpreter<'b> {
    pub budget: &'b mut Budget,
}

pub(super) type Out<'o> = &'o mut Vec<Value>;

impl Interpreter<'_> {
    pub(super) fn spend(&mut self, steps: u64) -> Outcome<()> {
        crate::budget::spend(self.budget, steps).map_err(Raise::Stop)
    }

    pub(super) fn built(&mut self, value: Value) -> Outcome<Value> {
        crate::budget::built(value, self.budget).map_err(Raise::Stop)
    }

    /// All outputs of a term; an error drops them.
    pub(super) fn all(&mut self, term: &JqTerm, input: &Value, env: Option<&Env>) -> Outcome<Vec<Value>> {
        let mut out = Vec::new();
        self.eval(term, input, env, &mut out)?;
        Ok(out)
    }

    pub(super) fn eval(&mut self, term: &JqTerm, input: &Value, env: Option<&Env>, out: Out) -> Outcome<()> {
        use jaq_core::load::parse::Term::*;
        self.spend(1)?;
        match term {
            Id => out.push(input.clone()),
            Recurse => return self.descend(input, out),
            Num(text) => out.push(literal(text)?),
            Str(format, parts) => return self.string(*format, parts, input, env, out),
            Arr(None) => out.push(Value::list(Vec::new())),
            Arr(Some(inner)) => return self.array(inner, input, env, out),
            Obj(entries) => return self.object(entries, input, env, out),
            Neg(inner) => return self.negated(inner, input, env, out),
            BinOp(left, op, right) => return self.binary(left, op, right, input, env, out),
            TryCatch(inner, catch) => {
                return self.attempt(inner, catch.as_deref(), input, env, out);
            }
            IfThenElse(arms, otherwise) => {
                return self.conditional(arms, otherwise.as_deref(), input, env, out);
            }
            Fold(kind, items, pattern, args) => {
                return self.fold(kind, items, pattern, args, input, env, out);
            }
            Var(name) => out.push(self.variable(name, env)?),
            Call(name, args) => return builtins::call(self, name, args, input, env, out),
            Path(head, path) => return self.path_from(head, &path.0, input, env, out),
            Def(..) | Label(..) | Break(_) => {
                return Err(Raise::Stop(refused("`def`, `label` and `break` are not supported")));
            }
        }
        Ok(())
    }

    fn array(&mut self, inner: &JqTerm, input: &Value, env: Option<&Env>, out: Out) -> Outcome<()> {
        let items = self.all(inner, input, env)?;
        out.push(self.built(Value::list(items))?);
        Ok(())
    }

    fn negated(&mut self, inner: &JqTerm, input: &Value, env: Option<&Env>, out: Out) -> Outcome<()> {
        for value in self.all(inner, input, env)? {
            out.push(ops::sign(crate::ast::UnaryOp::Minus, &value)?);
        }
        Ok(())
    }

    fn attempt(
        &mut self,
        inner: &JqTerm,
        catch: Option<&JqTerm>,
        input: &Value,
        env: Option<&Env>,
        out: Out,
    ) -> Outcome<()> {
        match (self.eval(inner, input, env, out), catch) {
            (Err(Raise::Error(error)), Some(catch)) => self.eval(catch, &error, env, out),
            (Err(Raise::Error(_)), None) => Ok(()),
            (result, _) => result,
        }
    }

    /// Follows a path from each output of its head; what came before an error in the head still counts.
    fn path_from(
        &mut self,
        head: &JqTerm,
        parts: &[(Part<JqTerm>, Opt)],
        input: &Value,
        env: Option<&Env>,
        out: Out,
    ) -> Outcome<()> {
        let mut heads = Vec::new();
        let result = self.eval(head, input, env, &mut heads);
        for value in heads {
            self.path(&value, parts, input, env, out)?;
        }
        result
    }

    fn variable(&mut self, name: &str, env: Option<&Env>) -> Outcome<Value> {
        let mut scope = env;
        while let Some(variable) = scope {
            if variable.name == name {
                return Ok(variable.value.clone());
            }
            scope = variable.outer;
        }
        Err(Raise::Stop(refused("a variable is not defined")))
    }

    pub(super) fn descend(&mut self, input: &Value, out: Out) -> Outcome<()> {
        self.spend(1)?;
        out.push(input.clone());
        for item in members(input) {
            self.descend(&item, out)?;
        }
        Ok(())
    }

    fn string(
        &mut self,
        format: Option<&str>,
        parts: &[StrPart<&str, JqTerm>],
        input: &Value,
        env: Option<&Env>,
        out: Out,
    ) -> Outcome<()> {
        let mut texts = vec![String::new()];
        for part in parts {
            match part {
                StrPart::Str(text) => texts.iter_mut().for_each(|built| built.push_str(text)),
                StrPart::Char(letter) => texts.iter_mut().for_each(|built| built.push(*letter)),
                StrPart::Term(term) => {
                    let mut next = Vec::new();
                    for value in self.all(term, input, env)? {
                        let piece = values::format(format.unwrap_or("@text"), &value)?;
                        for text in &texts {
                            self.spend(1 + (text.len() + piece.len()) as u64 / 128)?;
                            if text.len() + piece.len() > self.budget.output_bytes {
                                return Err(Raise::Stop(crate::budget::too_large()));
                            }
                            next.push(format!("{text}{piece}"));
                        }
                    }
                    texts = next;
                }
            }
        }
        out.extend(texts.into_iter().map(Value::str));
        Ok(())
    }

    fn object(
        &mut self,
        entries: &[(JqTerm, Option<JqTerm>)],
        input: &Value,
        env: Option<&Env>,
        out: Out,
    ) -> Outcome<()> {
        let mut objects: Vec<IndexMap<String, Value>> = vec![IndexMap::new()];
        for (key, value) in entries {
            let mut next = Vec::new();
            for key_value in self.all(key, input, env)? {
                let (name, values) = match (value, key) {
                    (Some(value), _) => (text(&key_value)?.to_owned(), self.all(value, input, env)?),
                    (None, JqTerm::Var(variable)) => (variable.trim_start_matches('$').to_owned(), vec![key_value]),
                    (None, _) => {
                        let name = text(&key_value)?.to_owned();
                        let member = index(input, &key_value)?;
                        (name, vec![member])
                    }
                };
                for object in &objects {
                    for value in &values {
                        self.spend(1 + object.len() as u64)?;
                        let mut object = object.clone();
                        object.insert(name.clone(), value.clone());
                        next.push(object);
                    }
                }
            }
            objects = next;
        }
        for object in objects {
            let object = self.built(Value::map(object))?;
            out.push(object);
        }
        Ok(())
    }

    fn conditional(
        &mut self,
        arms: &[(JqTerm, JqTerm)],
        otherwise: Option<&JqTerm>,
        input: &Value,
        env: Option<&Env>,
        out: Out,
    ) -> Outcome<()> {
        let Some(((condition, then), rest)) = arms.split_first() else {
            return self.eval(otherwise.unwrap_or(&JqTerm::Id), input, env, out);
        };
        for holds in self.all(condition, input, env)? {
            if truthy(&holds) {
                self.eval(then, input, env, out)?;
            } else {
                self.conditional(rest, otherwise, input, env, out)?;
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn fold(
        &mut self,
        kind: &str,
        items: &JqTerm,
        pattern: &Pattern<&str>,
        args: &[JqTerm],
        input: &Value,
        env: Option<&Env>,
        out: Out,
    ) -> Outcome<()> {
        let (Some(init), Some(update)) = (args.first(), args.get(1)) else {
            return fail("reduce and foreach need a start and an update");
        };
        let items = self.all(items, input, env)?;
        for start in self.all(init, input, env)? {
            let mut state = start;
            for item in &items {
                let Pattern::Var(name) = pattern else {
                    return fail("only plain variables can be bound here");
                };
                let bound = Env { name, value: item, outer: env };
                let Some(next) = self.all(update, &state, Some(&bound))?.pop() else {
                    state = Value::Null;
                    continue;
                };
                state = next;
                match (kind, args.get(2)) {
                    ("foreach", Some(extract)) => self.eval(extract, &state, Some(&bound), out)?,
                    ("foreach", None) => out.push(state.clone()),
                    _ => {}
                }
            }
            if kind == "reduce" {
                out.push(state);
            }
        }
        Ok(())
    }

    fn binary(
        &mut self,
        left: &JqTerm,
        op: &BinaryOp<&str>,
        right: &JqTerm,
        input: &Value,
        env: Option<&Env>,
        out: Out,
    ) -> Outcome<()> {
        match op {
            BinaryOp::Pipe(pattern) => self.pipe(left, pattern.as_ref(), right, input, env, out),
            BinaryOp::Comma => {
                self.eval(left, input, env, out)?;
                self.eval(right, input, env, out)
            }
            BinaryOp::Alt => self.alternative(left, right, input, env, out),
            BinaryOp::And => self.logic(false, left, right, input, env, out),
            BinaryOp::Or => self.logic(true, left, right, input, env, out),
            BinaryOp::Math(op) => self.pairs(left, right, input, env, out, &|this, a, b| this.math(*op, a, b)),
            BinaryOp::Cmp(op) => {
                self.pairs(left, right, input, env, out, &|_, a, b| Ok(Value::Bool(compare(*op, a, b))))
            }
            BinaryOp::Assign | BinaryOp::Update | BinaryOp::UpdateMath(_) | BinaryOp::UpdateAlt => {
                self.update(left, op, right, input, env, out)
            }
        }
    }

    fn pipe(
        &mut self,
        left: &JqTerm,
        pattern: Option<&Pattern<&str>>,
        right: &JqTerm,
        input: &Value,
        env: Option<&Env>,
        out: Out,
    ) -> Outcome<()> {
        let mut values = Vec::new();
        let result = self.eval(left, input, env, &mut values);
        for value in &values {
            match pattern {
                None => self.eval(right, value, env, out)?,
                Some(Pattern::Var(name)) => self.eval(right, input, Some(&Env { name, value, outer: env }), out)?,
                Some(_) => return fail("only plain variables can be bound here"),
            }
        }
        result
    }

    fn alternative(
        &mut self,
        left: &JqTerm,
        right: &JqTerm,
        input: &Value,
        env: Option<&Env>,
        out: Out,
    ) -> Outcome<()> {
        let mut values = Vec::new();
        if let Err(stop @ Raise::Stop(_)) = self.eval(left, input, env, &mut values) {
            return Err(stop);
        }
        values.retain(truthy);
        if values.is_empty() {
            return self.eval(right, input, env, out);
        }
        out.extend(values);
        Ok(())
    }

    /// `and` and `or`; `decides` is the truth of the left side that settles it.
    fn logic(
        &mut self,
        decides: bool,
        left: &JqTerm,
        right: &JqTerm,
        input: &Value,
        env: Option<&Env>,
        out: Out,
    ) -> Outcome<()> {
        for value in self.all(left, input, env)? {
            if truthy(&value) == decides {
                out.push(Value::Bool(decides));
            } else {
                out.extend(self.all(right, input, env)?.iter().map(|value| Value::Bool(truthy(value))));
            }
        }
        Ok(())
    }

    /// Applies an operator to every pair of outputs, the right side varying slowest as in jq.
    #[allow(clippy::type_complexity)]
    fn pairs(
        &mut self,
        left: &JqTerm,
        right: &JqTerm,
        input: &Value,
        env: Option<&Env>,
        out: Out,
        operator: &dyn Fn(&mut Self, &Value, &Value) -> Outcome<Value>,
    ) -> Outcome<()> {
        let rights = self.all(right, input, env)?;
        for b in &rights {
            for a in self.all(left, input, env)? {
                self.spend(1)?;
                out.push(operator(self, &a, b)?);
            }
        }
        Ok(())
    }

    pub(super) fn math(&mut self, op: Math, left: &Value, right: &Value) -> Outcome<Value> {
        use crate::ast::BinaryOp as Op;
        if left.weight().saturating_add(right.weight()) > 4 * self.budget.output_bytes.max(1 << 20) {
            return Err(Raise::Stop(crate::budget::too_large()));
        }
        let op = match (op, left, right) {
            (Math::Add, Value::Null, other) | (Math::Add, other, Value::Null) => {
                return Ok(other.clone());
            }
            (Math::Add, Value::Str(a), Value::Str(b)) => {
                return self.built(Value::str(format!("{a}{b}")));
            }
            (Math::Add, Value::List(a), Value::List(b)) => {
                return self.built(Value::list(a.iter().chain(b.iter()).cloned().collect()));
            }
            (Math::Add, Value::Map(a), Value::Map(b)) => {
                let mut merged = (**a).clone();
                merged.extend(b.iter().map(|(key, item)| (key.clone(), item.clone())));
                return self.built(Value::map(merged));
            }
            (Math::Div, Value::Str(a), Value::Str(b)) => {
                return Ok(Value::list(a.split(&**b).map(Value::str).collect()));
            }
            (Math::Div, Value::Int(a), Value::Int(b)) if a.checked_rem(*b).is_some_and(|rest| rest != 0) => {
                return Ok(Value::Float(*a as f64 / *b as f64));
            }
            (Math::Add, ..) if ops::float(left).and(ops::float(right)).is_none() => {
                return fail(format!("{} and {} cannot be added", left.kind(), right.kind()));
            }
            (Math::Add, ..) => Op::Add,
            (Math::Sub, ..) => Op::Subtract,
            (Math::Mul, ..) => Op::Multiply,
            (Math::Div, ..) => Op::Divide,
            (Math::Rem, ..) => Op::Modulo,
        };
        self.spend((left.weight() + right.weight()) as u64 / 128)?;
        Ok(ops::binary(op, left, right, &mut |_| Ok(()))?)
    }

    fn path(
        &mut self,
        value: &Value,
        parts: &[(Part<JqTerm>, Opt)],
        input: &Value,
        env: Option<&Env>,
        out: Out,
    ) -> Outcome<()> {
        let Some(((part, optional), rest)) = parts.split_first() else {
            out.push(value.clone());
            return Ok(());
        };
        let found = self.part(value, part, input, env);
        match (found, optional) {
            (Ok(found), _) => {
                for value in &found {
                    self.spend(1)?;
                    self.path(value, rest, input, env, out)?;
                }
                Ok(())
            }
            (Err(Raise::Error(_)), Opt::Optional) => Ok(()),
            (Err(raise), _) => Err(raise),
        }
    }

    fn part(&mut self, value: &Value, part: &Part<JqTerm>, input: &Value, env: Option<&Env>) -> Outcome<Vec<Value>> {
        match part {
            Part::Range(None, None) => match value {
                Value::List(_) | Value::Map(_) | Value::HeaderMap(_) => Ok(members(value)),
                other => fail(format!("cannot iterate over {}", other.kind())),
            },
            Part::Index(key) => self.all(key, input, env)?.iter().map(|key| index(value, key)).collect(),
            Part::Range(from, to) => {
                let from = self.bound(from.as_ref(), input, env)?;
                let to = self.bound(to.as_ref(), input, env)?;
                Ok(vec![slice(value, from, to)?])
            }
        }
    }

    fn bound(&mut self, term: Option<&JqTerm>, input: &Value, env: Option<&Env>) -> Outcome<Option<i128>> {
        let Some(term) = term else { return Ok(None) };
        match self.all(term, input, env)?.first() {
            Some(Value::Int(number)) => Ok(Some(*number)),
            Some(Value::Null) | None => Ok(None),
            Some(other) => fail(format!("a slice needs whole numbers, found {}", other.kind())),
        }
    }
}
