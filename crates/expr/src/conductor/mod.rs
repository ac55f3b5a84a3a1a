//! The `${…}` language of Conductor definitions.
//!
//! | text | value |
//! |---|---|
//! | `${ref.output.x}` alone | what is there, with its type; null where there is nothing |
//! | `a ${x} b` | text; null is the word `null`, lists and maps print as Java prints them |
//! | `${a.${b}}` | the inner one is resolved first, as text |
//! | `$${x}` | the text `${x}` |
//! | `${}`, `${  }` | nothing: an empty text |
//! | `${x` | itself: braces that do not close are text |
//! | `${workflow.secrets.X}` | a hole that only the performer fills |
//!
//! Maps and lists are resolved leaf by leaf; keys are not templates. Only text of the author is resolved: a value that
//! holds `${…}` is data. A path that leads nowhere, or that is none, is null and never an error, as Conductor has it;
//! what fails is a secret that is not there, and what is too large or too deep.

mod path;
mod print;
mod scan;

use indexmap::IndexMap;
use serde_json::Value as Json;

use crate::budget::{VALUE_DEPTH_MAX, built, spend, too_large};
use crate::taint::{self, TextBuilder};
use crate::value::Value;
use crate::{Budget, EvalError, Scope, jq};
use path::Path;
use scan::Piece;

/// Expressions inside expressions.
const NESTING_MAX: usize = 16;
/// Bytes of text that one unit of fuel pays for.
const BYTES_PER_FUEL: usize = 64;
const SECRETS: &str = "workflow.secrets.";

/// Resolves a tree; a text that is one expression keeps the type of its value.
pub fn render_tree(json: &Json, scope: &dyn Scope, budget: &mut Budget) -> Result<Value, EvalError> {
    tree(json, scope, budget, 0)
}

/// Resolves one text; what is one expression keeps the type of its value.
pub fn render_text(text: &str, scope: &dyn Scope, budget: &mut Budget) -> Result<Value, EvalError> {
    Resolver { scope, budget }.text(text, 0)
}

/// Resolves a text of which every expression must give something: a name that is made of what is not there would be the
/// same for all that lack it.
pub fn render_name(text: &str, scope: &dyn Scope, budget: &mut Budget) -> Result<String, EvalError> {
    let mut out = String::new();
    for piece in scan::pieces(text) {
        match piece {
            Piece::Text(plain) => out.push_str(&plain.replace("$${", "${")),
            Piece::Expression(inner) => {
                let value = render_text(&format!("${{{inner}}}"), scope, budget)?;
                let printed = print::java(&value);
                if value == Value::Null || printed.trim().is_empty() {
                    return Err(EvalError::new("missing_variable", format!("`${{{inner}}}` gives nothing")));
                }
                if value.is_tainted() {
                    return Err(EvalError::new("secret", format!("`${{{inner}}}` would hold a secret")));
                }
                out.push_str(&printed);
            }
        }
    }
    Ok(out)
}

/// A value as it stands inside a text; holes are masked.
pub fn print(value: &Value) -> String {
    print::java(value)
}

/// Runs a jq program on a value; the answer is the list of its outputs. What is computed through a secret is sealed.
pub fn transform(
    program: &str,
    input: &Value,
    scope: &dyn Scope,
    budget: &mut Budget,
) -> Result<Vec<Value>, EvalError> {
    let outputs = match jq::run_on(program, &taint::reveal(input, scope)?, budget) {
        // The message may quote what it failed on.
        Err(error) if input.is_tainted() => {
            return Err(EvalError::new(error.code, "jq failed on an input that holds a secret"));
        }
        outcome => outcome?,
    };
    let Value::List(outputs) = outputs else { return Ok(Vec::new()) };
    if !input.is_tainted() {
        return Ok(outputs.to_vec());
    }
    outputs.iter().map(|output| taint::seal(output, scope)).collect()
}

/// The first names of all expressions of a text, as `workflow` or a task's reference name; for those whose name is
/// computed there is none.
pub fn roots(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect_roots(text, 0, &mut found);
    found
}

fn collect_roots(text: &str, depth: usize, found: &mut Vec<String>) {
    if depth > NESTING_MAX {
        return;
    }
    for piece in scan::pieces(text) {
        let Piece::Expression(inner) = piece else { continue };
        if inner.contains("${") {
            collect_roots(inner, depth + 1, found);
        } else if let Some(path) = Path::parse(inner.trim()) {
            found.push(path.root);
        }
    }
}

/// Whether the text holds an expression at all.
pub fn is_expression(text: &str) -> bool {
    scan::pieces(text).iter().any(|piece| matches!(piece, Piece::Expression(_)))
}

fn tree(json: &Json, scope: &dyn Scope, budget: &mut Budget, level: usize) -> Result<Value, EvalError> {
    if level > VALUE_DEPTH_MAX {
        return Err(EvalError::new("depth", format!("values may nest at most {VALUE_DEPTH_MAX} deep")));
    }
    spend(budget, 1)?;
    match json {
        Json::String(text) => render_text(text, scope, budget),
        Json::Array(items) => {
            let items = items.iter().map(|item| tree(item, scope, budget, level + 1)).collect::<Result<_, _>>()?;
            Ok(Value::list(items))
        }
        Json::Object(entries) => {
            let mut out = IndexMap::with_capacity(entries.len());
            for (key, item) in entries {
                out.insert(key.clone(), tree(item, scope, budget, level + 1)?);
            }
            Ok(Value::map(out))
        }
        plain => Ok(Value::from_json(plain)),
    }
}

struct Resolver<'a> {
    scope: &'a dyn Scope,
    budget: &'a mut Budget,
}

impl Resolver<'_> {
    fn text(&mut self, text: &str, depth: usize) -> Result<Value, EvalError> {
        if !text.contains("${") {
            return Ok(Value::str(text));
        }
        if depth > NESTING_MAX {
            return Err(EvalError::new("depth", format!("expressions may nest at most {NESTING_MAX} deep")));
        }
        spend(self.budget, 1 + (text.len() / BYTES_PER_FUEL) as u64)?;
        let pieces = scan::pieces(text);
        if let ([Piece::Expression(inner)], 0) = (pieces.as_slice(), depth) {
            let value = self.lookup(inner, depth)?;
            self.charge(value.weight())?;
            return Ok(value);
        }
        let mut out = TextBuilder::default();
        for piece in pieces {
            match piece {
                Piece::Text(plain) => {
                    let plain = plain.replace("$${", "${");
                    self.charge(plain.len())?;
                    out.push_text(&plain);
                }
                Piece::Expression(inner) => {
                    let value = self.lookup(inner, depth)?;
                    let printed = self.printed(&value)?;
                    self.charge(printed.weight())?;
                    out.push(&printed);
                }
            }
        }
        Ok(out.finish())
    }

    fn charge(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.budget.output_bytes = self.budget.output_bytes.checked_sub(bytes).ok_or_else(too_large)?;
        spend(self.budget, (bytes / BYTES_PER_FUEL) as u64)
    }

    /// As it stands inside a text. A list with holes is sealed as a whole: where its secrets end cannot be seen.
    fn printed(&self, value: &Value) -> Result<Value, EvalError> {
        match value {
            Value::Tainted(_) => Ok(value.clone()),
            Value::List(_) | Value::Map(_) | Value::HeaderMap(_) if value.is_tainted() => {
                taint::seal(&Value::str(print::java(&taint::reveal(value, self.scope)?)), self.scope)
            }
            plain => Ok(Value::str(print::java(plain))),
        }
    }

    fn lookup(&mut self, inner: &str, depth: usize) -> Result<Value, EvalError> {
        spend(self.budget, 1)?;
        let resolved;
        let inner = if inner.contains("${") {
            resolved = self.text(inner, depth + 1)?;
            match &resolved {
                Value::Str(text) => text,
                _ => return Err(EvalError::type_error("a secret cannot be part of the name of a value")),
            }
        } else {
            inner
        };
        let inner = inner.trim();
        if inner.is_empty() {
            return Ok(Value::str(""));
        }
        if let Some(name) = inner.strip_prefix(SECRETS) {
            return self.secret(name);
        }
        let Some(path) = Path::parse(inner) else { return Ok(Value::Null) };
        let root = self.scope.root(&path.root);
        self.walked(root, &path)
    }

    fn walked(&mut self, root: Option<Value>, path: &Path) -> Result<Value, EvalError> {
        let Some(root) = root else { return Ok(path.nothing()) };
        let found = path.walk(&root, self.scope, self.budget)?;
        built(found, self.budget)
    }

    /// `NAME`, or `NAME.path` into a secret that is JSON.
    fn secret(&mut self, name: &str) -> Result<Value, EvalError> {
        let (name, inside) = name.split_once('.').map_or((name, None), |(name, inside)| (name, Some(inside)));
        let reference = self.scope.secret(name, None).map_err(|message| EvalError::new("secret", message))?;
        let hole = Value::secret(reference);
        let Some(inside) = inside else { return Ok(hole) };
        let revealed = taint::reveal(&hole, self.scope)?;
        let json = match &revealed {
            Value::Str(text) => serde_json::from_str::<Json>(text).ok(),
            _ => None,
        };
        let Some(path) = Path::parse(&format!("secret.{inside}")) else { return Ok(Value::Null) };
        let found = self.walked(json.map(|json| Value::from_json(&json)), &path)?;
        taint::seal(&found, self.scope)
    }
}
