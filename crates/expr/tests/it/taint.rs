//! Secrets stay behind holes, whatever an expression does with them.

use crate::scope::{SECRET, check, eval, fails, reveal, typed};
use semel_expr::{Part, SecretRef, Value};
use serde_json::{Value as Json, json};

fn parts(value: &Value) -> Vec<Part> {
    match value {
        Value::Tainted(tainted) => tainted.parts.clone(),
        other => panic!("not tainted: {other:?}"),
    }
}

fn hole(name: &str) -> Part {
    Part::Secret(SecretRef { name: name.to_owned(), version: 3 })
}

#[test]
fn text_keeps_its_holes() {
    let expected = [Part::Text("Bearer ".to_owned()), hole("T")];
    for source in [
        "Bearer {{ secret('T') }}",
        "{{ 'Bearer ' ~ secret('T') }}",
        "{{ 'Bearer ' + secret('T') }}",
        "{{ vars.token }}",
    ] {
        assert_eq!(parts(&eval(source).unwrap()), expected, "{source}");
    }
    assert_eq!(parts(&typed("{{ secret('T') }}").unwrap()), [hole("T")]);
    assert_eq!(parts(&typed("{{ nope ?? secret('T') }}").unwrap()), [hole("T")]);
    assert!(typed("{{ secret('JSON', subkey='user') }}").unwrap().is_tainted());
    assert_eq!(parts(&typed("{{ true ? secret('T') : '' }}").unwrap()), [hole("T")]);
    assert_eq!(parts(&typed("{{ secret('T') | default('x') }}").unwrap()), [hole("T")]);
    assert_eq!(parts(&typed("{{ [secret('T'), 'x'] | first }}").unwrap()), [hole("T")]);
    assert_eq!(typed("{{ [secret('T'), 'x'] | last }}").unwrap(), Value::str("x"));
}

/// Everything an expression can do to a secret that yields a value.
const THROUGH: &[(&str, &str)] = &[
    ("secret('T') | upper", "\"HUNTER2-SECRET\""),
    ("secret('T') | base64encode", "\"aHVudGVyMi1TRUNSRVQ=\""),
    ("secret('T') | length", "14"),
    ("secret('T') | split('-')", r#"["hunter2","SECRET"]"#),
    ("(secret('T') | split('-'))[1]", "\"SECRET\""),
    ("secret('T') | split('-') | first", "\"hunter2\""),
    ("{'a': secret('T')} | toJson", r#""{\"a\":\"hunter2-SECRET\"}""#),
    ("[secret('T'), 'x'] | join('+')", "\"hunter2-SECRET+x\""),
    ("'a-b' | replace({'a': secret('T')})", "\"hunter2-SECRET-b\""),
    ("{'a': secret('T')} | jq('.a')", r#"["hunter2-SECRET"]"#),
    ("{'a': [secret('T')]} | jq('.a[]') | first", "\"hunter2-SECRET\""),
    ("fromJson(secret('JSON')).user", "\"hunter2-SECRET\""),
    ("fromJson(secret('JSON')).port + 1", "8081"),
    ("fromJson(secret('JSON')) | keys", r#"["user","port","nested"]"#),
    ("fromJson(secret('JSON'))['nested'][0] ~ '!'", "\"hunter2-SECRET!\""),
    ("secret('NUMBER') | number", "42"),
    ("(secret('NUMBER') | number) * 2", "84"),
    ("max([secret('T'), 'a'])", "\"hunter2-SECRET\""),
    ("[secret('T')] ~ ''", r#""[\"hunter2-SECRET\"]""#),
    ("{'a': secret('T')}", r#"{"a":"hunter2-SECRET"}"#),
    ("inputs.map[secret('T') | slice(0, 0) ~ 'b']", "1"),
];

#[test]
fn computing_through_a_secret_seals_the_result() {
    for (expr, filled) in THROUGH {
        let value = typed(&format!("{{{{ {expr} }}}}")).unwrap_or_else(|error| panic!("{expr}: {error:?}"));
        assert!(value.is_tainted() && value.to_plain_json().is_none(), "{expr}");
        for shown in [value.to_text(), value.to_stored().to_string(), format!("{value:?}")] {
            for piece in [SECRET, "hunter2", "HUNTER2", "aHVudGVy"] {
                assert!(!shown.contains(piece), "{expr} shows {shown}");
            }
        }
        let back = Value::from_stored(&value.to_stored());
        assert_eq!(back, value, "{expr}");
        let expected: Json = serde_json::from_str(filled).unwrap();
        assert_eq!(back.fill(&reveal).unwrap(), expected, "{expr}");
    }
}

#[test]
fn loops_and_tags_keep_the_taint() {
    let value = eval("{% for x in secret('T') | split('-') %}{{ x }};{% endfor %}").unwrap();
    assert!(value.is_tainted() && !value.to_text().contains("hunter2"));
    assert_eq!(value.fill(&reveal).unwrap(), json!("hunter2;SECRET;"));
    let value = eval("{% set t = secret('T') %}{% filter upper %}{{ t }}{% endfilter %}").unwrap();
    assert_eq!(value.to_text(), "***");
    assert_eq!(value.fill(&reveal).unwrap(), json!("HUNTER2-SECRET"));
}

#[test]
fn control_flow_may_look() {
    check(&[
        ("secret('T') == 'hunter2-SECRET'", "true"),
        ("secret('T') contains 'nope'", "false"),
        ("secret('T') is empty", "false"),
        ("secret('T') | startsWith('hunter')", "true"),
        ("secret('T') ? 'set' : 'unset'", "set"),
        ("not secret('T')", "false"),
        ("secret('T') and true", "true"),
        ("secret('T') | upper is defined", "true"),
        ("fromJson(secret('JSON')).absent ?? 'none'", "none"),
    ]);
}

#[test]
fn errors_never_quote_a_secret() {
    for expr in [
        "secret('T') | number",
        "secret('T') | date",
        "secret('T') * 2",
        "-secret('T')",
        "secret('T') is even",
        "fromJson(secret('T'))",
        "inputs[secret('T')]",
        "{}[secret('T')].x",
        "secret('T').hunter2",
        "secret(secret('T'))",
        "kv(secret('T'))",
        "{'a': secret('T')} | jq('.a | error')",
        "{'a': secret('T')} | jq('.a | tonumber')",
        "'x' | jq(secret('T'))",
        "now(format=secret('T'))",
        "{(secret('T')): 1}",
        "secret('T') | urldecode | date",
        "range(secret('T'), 3)",
        "'a' | escapeChar(secret('T'))",
        "secret('T') < 3",
        "now(timeZone=secret('T'))",
        "[secret('T'), 1] | sort",
        "secret('T')..3",
        "'%' ~ secret('T') | urldecode",
    ] {
        let error = eval(&format!("{{{{ {expr} }}}}")).expect_err(expr);
        let shown = format!("{error:?}").replace("secret('T').hunter2", "").replace("`hunter2`", "");
        assert!(!shown.contains("hunter2"), "{expr}: {shown}");
    }
    fails(&[("secret('ABSENT')", "secret")]);
    assert_eq!(eval("{{ secret('ABSENT') }}").unwrap_err().message, "Cannot find secret for key 'ABSENT'");
}
