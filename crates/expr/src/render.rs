//! Entry points: one template, or a tree of them.

use indexmap::IndexMap;
use serde_json::Value as Json;

use crate::budget::{VALUE_DEPTH_MAX, spend};
use crate::eval::Evaluator;
use crate::template::Template;
use crate::value::Value;
use crate::{Budget, EvalError, Scope};

/// Renders to text: always `Str` or `Tainted`.
pub fn render(template: &Template, scope: &dyn Scope, budget: &mut Budget) -> Result<Value, EvalError> {
    Evaluator::new(template, scope, budget, 0).text(template)
}

/// Renders; a lone `{{ expression }}` keeps its type.
pub fn render_typed(template: &Template, scope: &dyn Scope, budget: &mut Budget) -> Result<Value, EvalError> {
    Evaluator::new(template, scope, budget, 0).typed(template)
}

/// Renders a tree whose texts, keys included, are templates.
pub fn render_json(json: &Json, scope: &dyn Scope, budget: &mut Budget, typed: bool) -> Result<Value, EvalError> {
    render_tree(json, scope, budget, typed, 0)
}

fn render_tree(
    json: &Json,
    scope: &dyn Scope,
    budget: &mut Budget,
    typed: bool,
    level: usize,
) -> Result<Value, EvalError> {
    if level > VALUE_DEPTH_MAX {
        return Err(EvalError::new("depth", format!("values may nest at most {VALUE_DEPTH_MAX} deep")));
    }
    spend(budget, 1)?;
    match json {
        Json::String(text) => render_source(text, scope, budget, typed),
        Json::Array(items) => {
            let mut out = Vec::with_capacity(items.len());
            for item in items {
                out.push(render_tree(item, scope, budget, typed, level + 1)?);
            }
            Ok(Value::list(out))
        }
        Json::Object(entries) => {
            let mut out = IndexMap::with_capacity(entries.len());
            for (key, item) in entries {
                let Value::Str(name) = render_source(key, scope, budget, false)? else {
                    return Err(EvalError::type_error("a secret cannot be the name of a field"));
                };
                out.insert(name.to_string(), render_tree(item, scope, budget, typed, level + 1)?);
            }
            Ok(Value::map(out))
        }
        plain => Ok(Value::from_json(plain)),
    }
}

fn render_source(text: &str, scope: &dyn Scope, budget: &mut Budget, typed: bool) -> Result<Value, EvalError> {
    if !text.contains('{') {
        return Ok(Value::str(text));
    }
    let template = Template::of(text).map_err(|error| EvalError::new("syntax", error.message))?;
    if typed { render_typed(&template, scope, budget) } else { render(&template, scope, budget) }
}
