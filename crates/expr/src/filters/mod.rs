//! Filters on plain values, one family per file.

mod encode;
mod lists;
mod numbers;
mod text;

use crate::value::Value;
use crate::{Budget, EvalError, Scope, dates, ion, jq, taint, yaml};

/// Evaluated arguments of a function or filter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Args {
    pub positional: Vec<Value>,
    pub named: Vec<(String, Value)>,
}

impl Args {
    /// An argument by name, else by position.
    pub(crate) fn value(&self, position: usize, name: &str) -> Option<&Value> {
        let named = self.named.iter().find(|(key, _)| key == name).map(|(_, value)| value);
        named.or_else(|| self.positional.get(position))
    }

    pub(crate) fn required(&self, position: usize, name: &str, of: &str) -> Result<&Value, EvalError> {
        self.value(position, name).ok_or_else(|| EvalError::type_error(format!("`{of}` needs the argument `{name}`")))
    }

    pub(crate) fn text(&self, position: usize, name: &str) -> Option<String> {
        self.value(position, name).filter(|value| **value != Value::Null).map(Value::to_text)
    }

    pub(crate) fn required_text(&self, position: usize, name: &str, of: &str) -> Result<String, EvalError> {
        Ok(self.required(position, name, of)?.to_text())
    }

    pub(crate) fn int(&self, position: usize, name: &str, of: &str) -> Result<Option<i64>, EvalError> {
        let wrong = || EvalError::type_error(format!("`{name}` of `{of}` must be a whole number"));
        match self.value(position, name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Int(number)) => i64::try_from(*number).map(Some).map_err(|_| wrong()),
            Some(Value::Str(text)) => text.trim().parse().map(Some).map_err(|_| wrong()),
            Some(_) => Err(wrong()),
        }
    }

    pub(crate) fn is_tainted(&self) -> bool {
        self.positional.iter().chain(self.named.iter().map(|(_, value)| value)).any(Value::is_tainted)
    }

    /// Whether an argument itself, rather than an item inside it, is a secret.
    pub(crate) fn is_tainted_scalar(&self) -> bool {
        let mut all = self.positional.iter().chain(self.named.iter().map(|(_, value)| value));
        all.any(|value| matches!(value, Value::Tainted(_)))
    }

    pub(crate) fn revealed(&self, scope: &dyn Scope) -> Result<Args, EvalError> {
        let positional = self.positional.iter().map(|value| taint::reveal(value, scope)).collect::<Result<_, _>>()?;
        let mut named = Vec::with_capacity(self.named.len());
        for (name, value) in &self.named {
            named.push((name.clone(), taint::reveal(value, scope)?));
        }
        Ok(Args { positional, named })
    }
}

/// Filters that move items of a container without looking at them, so that holes inside stay holes.
pub(crate) fn keeps_items(name: &str, input: &Value) -> bool {
    let container = matches!(input, Value::List(_) | Value::Map(_) | Value::HeaderMap(_));
    container
        && matches!(
            name,
            "first" | "last" | "values" | "keys" | "reverse" | "length" | "slice" | "merge" | "chunk" | "flatten"
        )
}

pub(crate) fn apply(name: &str, input: &Value, args: &Args, budget: &mut Budget) -> Result<Value, EvalError> {
    if *input == Value::Null {
        return of_null(name, args);
    }
    match name {
        "jq" => jq::run(&args.required_text(0, "expression", "jq")?, input, budget),
        "date" => dates::format_instant(&dates::read(input, args, 1)?, args, 0),
        "dateAdd" => dates::add(input, args),
        "timestamp" | "timestampMilli" | "timestampMicro" | "timestampNano" => dates::timestamp(name, input, args),
        "toJson" | "json" => Ok(Value::str(json_text(input))),
        "toIon" => Ok(Value::str(ion::text(input))),
        "yaml" => Ok(Value::str(yaml::emit(input))),
        "string" => Ok(Value::str(input.to_text())),
        "className" => Ok(Value::str(class_name(input))),
        "first" | "last" | "length" | "keys" | "values" | "chunk" | "flatten" | "slice" | "join" | "sort" | "rsort"
        | "reverse" | "distinct" | "merge" => lists::apply(name, input, args, budget),
        "number" | "numberFormat" | "numberformat" | "abs" => numbers::apply(name, input, args),
        "base64encode" | "base64decode" | "urlencode" | "urldecode" | "md5" | "sha1" | "sha256" | "sha512" => {
            encode::apply(name, input)
        }
        "replace" | "escapeChar" => text::deep(name, input, args, budget),
        _ => text::apply(name, input, args, budget),
    }
}

/// Nothing passes through a filter as nothing, with a few exceptions.
fn of_null(name: &str, args: &Args) -> Result<Value, EvalError> {
    match name {
        "length" => Ok(Value::Int(0)),
        "toJson" | "json" | "toIon" | "yaml" => Ok(Value::str("null")),
        "regexMatch" | "startsWith" | "endsWith" => Ok(Value::Bool(false)),
        "merge" => args.required(0, "items", "merge").cloned(),
        "abs" => Err(EvalError::type_error("filter `abs` cannot take null")),
        _ => Ok(Value::Null),
    }
}

/// Compact JSON, texts quoted.
pub(crate) fn json_text(value: &Value) -> String {
    value.to_masked_json().to_string()
}

fn class_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "java.lang.Boolean",
        Value::Int(number) if i32::try_from(*number).is_ok() => "java.lang.Integer",
        Value::Int(_) => "java.lang.Long",
        Value::Float(_) => "java.lang.Double",
        Value::Str(_) | Value::Tainted(_) | Value::Deferred(_) => "java.lang.String",
        Value::List(_) => "java.util.ArrayList",
        Value::Map(_) | Value::HeaderMap(_) => "java.util.LinkedHashMap",
    }
}
