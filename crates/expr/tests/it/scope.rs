//! A scope with fixed data; sealing is reversible text so that tests can see through it and spot leaks.

use std::cell::Cell;

use semel_expr::{Budget, EvalError, Part, Scope, SecretRef, Template, Value, render, render_typed};
use serde_json::json;

pub const SECRET: &str = "hunter2-SECRET";

#[derive(Default)]
pub struct Fixed {
    random: Cell<u64>,
}

pub fn rot(text: &str) -> String {
    text.chars().rev().map(|c| char::from_u32(u32::from(c) + 1).unwrap_or(c)).collect()
}

pub fn unrot(text: &str) -> String {
    text.chars().rev().map(|c| char::from_u32(u32::from(c) - 1).unwrap_or(c)).collect()
}

pub fn reveal(part: &Part) -> Result<String, String> {
    match part {
        Part::Text(text) => Ok(text.clone()),
        Part::Secret(reference) if reference.name == "JSON" => {
            Ok(format!(r#"{{"user":"{SECRET}","port":8080,"nested":["{SECRET}"]}}"#))
        }
        Part::Secret(reference) if reference.name == "NUMBER" => Ok("42".to_owned()),
        Part::Secret(_) => Ok(SECRET.to_owned()),
        Part::Sealed(sealed) => Ok(unrot(sealed)),
    }
}

impl Scope for Fixed {
    fn root(&self, name: &str) -> Option<Value> {
        let json = match name {
            "inputs" => {
                json!({"name": "Ada", "count": 3, "ratio": 1.5, "flag": true, "none": null, "empty": "",
                "list": [3, 1, 2], "map": {"b": 1, "a": {"deep": "x"}}, "evil": "{{ secret('T') }}", "text": "a,b,,c,"})
            }
            "outputs" => {
                json!({"step": {"value": "v", "body": "{\"id\": 7}"}, "my-step": {"value": "w"}})
            }
            "trigger" => {
                let headers = [("idempotency-KEY".to_owned(), Value::str("k1"))].into_iter().collect();
                let body = Value::from_json(&json!({"note": "{{ secret('T') }}"}));
                let entries = [("headers".to_owned(), Value::headers(headers)), ("body".to_owned(), body)];
                return Some(Value::map(entries.into_iter().collect()));
            }
            "vars" => {
                return Value::deferred_tree(&json!({
                    "key": "{{ trigger.headers['Idempotency-Key'] ?? 'none' }}",
                    "note": "{{ trigger.body.note }}",
                    "indirect": "<{{ vars.key }}>",
                    "typed": "{{ inputs.list }}",
                    "plain": "plain",
                    "loop": "{{ vars.loop2 }}", "loop2": "{{ vars.loop }}",
                    "broken": "{{ nothing }}",
                    "token": "Bearer {{ secret('T') }}",
                    "tree": {"leaf": "{{ inputs.name }}", "list": ["{{ inputs.count }}"]},
                }))
                .ok();
            }
            "taskrun" => json!({"value": "second", "iteration": 1}),
            "task" => json!({"id": "own"}),
            "envs" => json!({"home": "h", "none": ""}),
            "tasks" => json!({"a": {"state": "FAILED"}, "b": {"x": {"state": "FAILED"}, "y": {"state": "SUCCESS"}}}),
            _ => return None,
        };
        Some(Value::from_json(&json))
    }

    fn secret(&self, name: &str, _namespace: Option<&str>) -> Result<SecretRef, String> {
        if name == "ABSENT" {
            return Err("Cannot find secret for key 'ABSENT'".to_owned());
        }
        Ok(SecretRef { name: name.to_owned(), version: 3 })
    }

    fn reveal(&self, part: &Part) -> Result<String, String> {
        reveal(part)
    }

    fn seal(&self, plain: &str) -> Result<String, String> {
        Ok(rot(plain))
    }

    fn kv(&self, key: &str, namespace: Option<&str>, error_on_missing: bool) -> Result<Value, String> {
        match (key, error_on_missing) {
            ("here", _) => Ok(Value::Int(5)),
            (_, true) => {
                Err(format!("The key '{key}' does not exist in the namespace '{}'.", namespace.unwrap_or("own")))
            }
            (_, false) => Ok(Value::Null),
        }
    }

    fn now_millis(&self) -> i64 {
        1_704_164_645_678
    }

    fn random_u64(&self) -> u64 {
        self.random.set(self.random.get().wrapping_add(0x9E37_79B9_7F4A_7C15));
        self.random.get()
    }

    fn host(&self, name: &str, args: &[Value], _named: &[(String, Value)]) -> Option<Result<Value, String>> {
        (name == "read")
            .then(|| Ok(Value::str(format!("file {}", args.first().map(Value::to_text).unwrap_or_default()))))
    }
}

pub fn eval(source: &str) -> Result<Value, EvalError> {
    let template = Template::parse(source).unwrap_or_else(|error| panic!("{source}: {error:?}"));
    render(&template, &Fixed::default(), &mut Budget::default())
}

pub fn typed(source: &str) -> Result<Value, EvalError> {
    let template = Template::parse(source).unwrap_or_else(|error| panic!("{source}: {error:?}"));
    render_typed(&template, &Fixed::default(), &mut Budget::default())
}

#[track_caller]
pub fn check(table: &[(&str, &str)]) {
    for (expr, expected) in table {
        let source = format!("{{{{ {expr} }}}}");
        match eval(&source) {
            Ok(value) => assert_eq!(value.to_text(), *expected, "{expr}"),
            Err(error) => panic!("{expr}: {error:?}"),
        }
    }
}

#[track_caller]
pub fn check_text(table: &[(&str, &str)]) {
    for (source, expected) in table {
        match eval(source) {
            Ok(value) => assert_eq!(value.to_text(), *expected, "{source}"),
            Err(error) => panic!("{source}: {error:?}"),
        }
    }
}

#[track_caller]
pub fn fails(table: &[(&str, &str)]) {
    for (expr, code) in table {
        match eval(&format!("{{{{ {expr} }}}}")) {
            Ok(value) => panic!("{expr} gave {value:?}"),
            Err(error) => assert_eq!(error.code, *code, "{expr}: {error:?}"),
        }
    }
}
