//! The `{{ }}` language: parsed, evaluated, and through its jq filter.

use crate::fuzz::{Target, behaviour};
use semel_expr::{Budget, EvalError, Part, Scope, SecretRef, Template, Value, render, render_typed};
use serde_json::json;
use std::cell::Cell;

const WORDS: &[&str] = &[
    "{{ ",
    " }}",
    "{% if ",
    " %}",
    "{% endif %}",
    "{% for x in ",
    "{% endfor %}",
    "{% set x = ",
    "{% raw %}",
    "{% endraw %}",
    "inputs.name",
    "inputs.list",
    "inputs.map",
    "secret('S')",
    "vars.key",
    "vars.token",
    " ?? ",
    " ? ",
    " ~ ",
    " | upper",
    " | length",
    " | join(',')",
    " | json",
    " | jq('.a')",
    " | first",
    " | date('yyyy-MM-dd')",
    " | default('x')",
    " | split(',')",
    " | replace({'a': 'b'})",
    " | slice(1, 2)",
    " | sort",
    " | merge([1])",
    " | number",
    " | base64encode",
    " | sha256",
    " | abbreviate(3)",
    " is empty",
    " is not null",
    " in ",
    "1..5",
    "range(1, 5)",
    "max(1, 2)",
    "now()",
    "uuid()",
    "randomInt(1, 5)",
    "fromJson('{}')",
    "render(vars.note)",
    "not ",
    " and ",
    " or ",
    " matches ",
    " contains ",
    "[1, 'a', 2.5]",
    "{'a': 1}",
    "trigger.body",
    "kv('here')",
];

const JQ_WORDS: &[&str] = &[
    ".",
    ".[]",
    ".a",
    ".[0]",
    ".[1:2]",
    " | ",
    "map(",
    "select(",
    "reduce .[] as $x (0; . + $x)",
    "foreach ",
    "if . then 1 else 2 end",
    "try ",
    " catch ",
    "error",
    "keys",
    "length",
    "add",
    "sort_by(.a)",
    "group_by(.a)",
    "unique",
    "to_entries",
    "from_entries",
    "with_entries(",
    "paths",
    "getpath([\"a\"])",
    "setpath([\"a\"]; 1)",
    "del(.a)",
    "range(5)",
    "limit(3; ",
    "first(",
    "until(",
    "test(\"a\")",
    "split(\",\")",
    "join(\",\")",
    "ascii_downcase",
    "tojson",
    "fromjson",
    "tostring",
    "tonumber",
    "@base64",
    "@uri",
    "\\(.a)",
    "..",
    "?",
    "//",
    "//=",
    "|=",
    "+=",
    "input",
    "env",
    "now",
    "infinite",
    "nan",
    "ltrimstr(\"a\")",
    "splits(\"a\")",
    "$__loc__",
];

pub const EXPRESSION: Target = Target { name: "expression", words: WORDS, run: expression };
pub const TEMPLATE: Target = Target { name: "template", words: WORDS, run: template };
pub const JQ: Target = Target { name: "jq", words: JQ_WORDS, run: jq };

/// Text that must not come out of any error or any stored value.
const SECRET: &str = "hunter2-SECRET-7f3a";

struct Fixed {
    random: Cell<u64>,
    program: String,
    data: serde_json::Value,
}

impl Fixed {
    fn new(program: &str, data: serde_json::Value) -> Fixed {
        Fixed { random: Cell::new(0), program: program.to_owned(), data }
    }
}

impl Scope for Fixed {
    fn root(&self, name: &str) -> Option<Value> {
        match name {
            "inputs" => Some(Value::from_json(&json!({
                "name": "Ada", "count": 3, "ratio": 1.5, "flag": true, "none": null, "empty": "",
                "list": [3, 1, 2], "map": {"b": 1, "a": {"deep": "x"}}, "evil": "{{ secret('T') }}", "text": "a,b,,c,",
                "program": self.program, "data": self.data,
            }))),
            "outputs" => Some(Value::from_json(&json!({"step": {"value": "v", "body": "{\"id\": 7}"}}))),
            "trigger" => Some(Value::from_json(&json!({"body": {"note": "{{ secret('T') }}"}, "headers": {}}))),
            "vars" => Value::deferred_tree(&json!({
                "key": "{{ inputs.name ?? 'none' }}", "note": "{{ trigger.body.note }}", "indirect": "<{{ vars.key }}>",
                "loop": "{{ vars.loop2 }}", "loop2": "{{ vars.loop }}", "token": "Bearer {{ secret('T') }}",
                "twice": "{{ vars.indirect ~ vars.indirect }}",
            }))
            .ok(),
            _ => None,
        }
    }

    fn secret(&self, name: &str, _: Option<&str>) -> Result<SecretRef, String> {
        Ok(SecretRef { name: name.to_owned(), version: 1 })
    }

    fn reveal(&self, part: &Part) -> Result<String, String> {
        match part {
            Part::Text(text) => Ok(text.clone()),
            Part::Secret(_) => Ok(SECRET.to_owned()),
            // As unreadable as a cipher, and as easy to undo as a test needs.
            Part::Sealed(sealed) => Ok(sealed.chars().rev().map(turned).collect()),
        }
    }

    fn seal(&self, plain: &str) -> Result<String, String> {
        Ok(plain.chars().map(turned).rev().collect())
    }

    fn kv(&self, key: &str, _: Option<&str>, error_on_missing: bool) -> Result<Value, String> {
        match (key, error_on_missing) {
            ("here", _) => Ok(Value::Int(5)),
            (_, true) => Err(format!("no key {key}")),
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
}

fn turned(c: char) -> char {
    char::from_u32(u32::from(c) ^ 1).unwrap_or(c)
}

fn check_error(error: &EvalError) -> u64 {
    const CODES: &[&str] =
        &["missing_variable", "fuel", "output_limit", "depth", "type", "function", "filter", "secret", "kv"];
    assert!(CODES.contains(&error.code), "{error:?}");
    assert!(!error.message.contains(SECRET), "an error quotes a secret: {}", error.message);
    behaviour((error.code, error.message.split('\'').next().map(str::len)))
}

fn check_value(value: &Value, budget: &Budget) -> u64 {
    let stored = value.to_stored();
    let text = stored.to_string();
    assert!(!text.contains(SECRET), "a stored value holds a secret: {text}");
    assert_eq!(Value::from_stored(&stored).to_stored(), stored, "stored and read back");
    let spent = (100_000 - budget.fuel).checked_ilog2().unwrap_or(0);
    behaviour((value.is_tainted(), std::mem::discriminant(&stored), spent, text.len().checked_ilog2()))
}

fn evaluate(source: &str, scope: &Fixed) -> u64 {
    let parsed = match Template::parse(source) {
        Ok(parsed) => parsed,
        Err(error) => {
            assert!(source.get(error.offset..error.offset + error.len).is_some(), "{error:?} points outside the text");
            return behaviour((0, error.message.split('`').next().map(str::to_owned)));
        }
    };
    parsed.references();
    assert_eq!(Template::parse(parsed.source()).expect("its own source"), parsed);
    let mut budget = Budget::default();
    let rendered = render(&parsed, scope, &mut budget);
    let first = match &rendered {
        Ok(value) => {
            assert!(matches!(value, Value::Str(_) | Value::Tainted(_)), "rendering gives text");
            check_value(value, &budget)
        }
        Err(error) => check_error(error),
    };
    let mut budget = Budget::default();
    let second = match render_typed(&parsed, scope, &mut budget) {
        Ok(value) => check_value(&value, &budget),
        Err(error) => check_error(&error),
    };
    behaviour((1, first, second))
}

fn expression(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    evaluate(&format!("{{{{ {text} }}}}"), &Fixed::new("", json!(null)))
}

fn template(input: &[u8]) -> u64 {
    evaluate(&String::from_utf8_lossy(input), &Fixed::new("", json!(null)))
}

/// A program, and the JSON it runs on.
fn jq(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    let [program, data] = super::parts(&text);
    let data = serde_json::from_str(data).unwrap_or_else(|_| json!({"a": [1, "x", null, {"b": 2.5}], "s": data}));
    evaluate("{{ inputs.data | jq(inputs.program) }}", &Fixed::new(program, data))
}
