//! Grammar: operators, precedence, tags, missing variables, references.

use crate::scope::{check, check_text, eval, fails, typed};
use semel_expr::{Budget, Template, Value, render_json};
use serde_json::json;

#[test]
fn operators() {
    check(&[
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("7 / 2", "3"),
        ("7 % 4", "3"),
        ("7 / 2.0", "3.5"),
        ("10l + 1", "11"),
        ("'a' + 1", "a1"),
        ("'a' ~ 1 ~ null ~ true", "a1true"),
        ("[1] + 2", "[1,2]"),
        ("-3 + 1", "-2"),
        ("- inputs.count", "-3"),
        ("1 == 1.0", "true"),
        ("'1' == 1", "false"),
        ("'a' equals 'a'", "true"),
        ("2 >= 2 and 1 < 2", "true"),
        ("false or true and false", "false"),
        ("not true or true", "true"),
        ("not (1 == 1)", "false"),
        ("'abc' contains 'b'", "true"),
        ("[1,2,3] contains [1,3]", "true"),
        ("[1,2,3] contains 4", "false"),
        ("{'a': 1} contains 'a'", "true"),
        ("null contains 'a'", "false"),
        ("2 isIn [1,2]", "true"),
        ("'abc' matches '[a-c]+'", "true"),
        ("1..3", "[1,2,3]"),
        ("'a'..'c'", r#"["a","b","c"]"#),
        ("true ? 'y' : 'n'", "y"),
        ("false ? 1 : false ? 2 : 3", "3"),
        ("{'a': {'b': 1}}", r#"{"a":{"b":1}}"#),
        ("{'a': {'b': 1}}.a.b", "1"),
        ("[1,[2]][1][0]", "2"),
        (r"'it\'s' ~ '\n' ~ '\d'", r"it's\n\d"),
    ]);
}

#[test]
fn precedence_follows_the_engine() {
    check(&[
        // `??` binds tighter than a filter, and a filter tighter than `+`.
        ("nothing ?? 'abc' | upper", "ABC"),
        ("'x' + 'abc' | upper", "xABC"),
        ("'a' ~ 'b' | upper", "AB"),
        ("nothing ?? 'a' ~ 'b'", "ab"),
        ("1 + 1 == 2", "true"),
        ("1 == 1 is empty", "false"),
        ("'' is empty and 1 is odd", "true"),
        ("not inputs.flag == false", "true"),
        ("1 + 2 ~ 3", "123"),
        ("inputs.none ?? 1 + 1", "2"),
        ("2 * 3 | abs", "6"),
    ]);
}

#[test]
fn missing_and_null() {
    check(&[
        ("inputs.none ?? 'd'", "d"),
        ("inputs.none ??? 'd'", ""),
        ("inputs.nope ??? 'd'", "d"),
        ("a.b.c ?? b.c ?? 'd'", "d"),
        ("nope is defined", "false"),
        ("nope is not defined", "true"),
        ("inputs.name is defined", "true"),
        ("inputs.nope.deeper | default('d')", "d"),
        ("inputs.empty | default('d')", "d"),
        ("inputs.none is null", "true"),
        ("(inputs.nope | upper) ?? 'd'", "d"),
        ("inputs.list[7] ?? 'd'", "d"),
    ]);
    fails(&[
        ("nope", "missing_variable"),
        ("inputs.nope | upper", "missing_variable"),
        ("nope.x ?? nada", "missing_variable"),
    ]);
    let error = eval("line one\n{{ inputs.nope }}").unwrap_err();
    assert_eq!(error.line, 2);
    assert_eq!(error.message, "Unable to find `nope` used in the expression `line one\n{{ inputs.nope }}` at line 2");
}

#[test]
fn tests_and_access() {
    check(&[
        ("2 is even", "true"),
        ("3 is not odd", "false"),
        ("inputs.list is iterable", "true"),
        ("inputs.map is map", "true"),
        ("'{\"a\":1}' is json", "true"),
        ("'nope' is json", "false"),
        ("outputs['my-step'].value", "w"),
        ("inputs['list'][0]", "3"),
        ("inputs.list.1", "1"),
        ("trigger.headers['Idempotency-Key']", "k1"),
        ("trigger.headers contains 'IDEMPOTENCY-key'", "true"),
    ]);
}

#[test]
fn tags_and_white_space() {
    check_text(&[
        ("{% if inputs.count > 5 %}a{% elseif inputs.count == 3 %}b{% else %}c{% endif %}", "b"),
        (
            "{% for x in inputs.list %}{{ loop.index }}{{ loop.first }}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}",
            "0true3,1false1,2false2",
        ),
        ("{% for x in [] %}x{% else %}none{% endfor %}", "none"),
        ("{% for e in inputs.map %}{{ e.key }};{% endfor %}", "b;a;"),
        ("{% set a = 1 %}{% for x in [1,2] %}{% set a = a + x %}{% endfor %}{{ a }}", "4"),
        ("{% raw %}{{ x }} {% if %}{% endraw %}!", "{{ x }} {% if %}!"),
        ("a {{- ' b ' -}} c", "a b c"),
        ("a {%- if true -%} b {%- endif %} c", "ab c"),
        ("a{# no {{ x }} #}b", "ab"),
        ("{% filter upper | trim %} x{{ 'y' }} {% endfilter %}", "XY"),
        ("no braces } }} {", "no braces } }} {"),
        ("{\"a\": {\"b\": \"{{ inputs.name }}\"}}", "{\"a\": {\"b\": \"Ada\"}}"),
        ("{{ {'a': {'b': 1}}}}", "{\"a\":{\"b\":1}}"),
        ("", ""),
        ("{{ inputs.ratio }} {{ inputs.flag }} {{ inputs.none }}", "1.5 true "),
    ]);
}

#[test]
fn variables_are_rendered_once() {
    check(&[
        ("vars.key", "k1"),
        ("render(vars.key)", "k1"),
        ("renderOnce(vars.indirect)", "<k1>"),
        ("vars.tree", r#"{"leaf":"Ada","list":[3]}"#),
        ("vars.typed | length", "3"),
        // What callers sent stays text, however it is reached.
        ("vars.note", "{{ secret('T') }}"),
        ("render(vars.note)", "{{ secret('T') }}"),
        ("render(inputs.evil)", "{{ secret('T') }}"),
        ("inputs.evil", "{{ secret('T') }}"),
    ]);
    check(&[("vars.broken ?? 'd'", "d"), ("vars.broken is defined", "false")]);
    fails(&[("vars.loop", "depth"), ("vars.broken", "missing_variable")]);
    assert!(!eval("{{ vars.note }}").unwrap().is_tainted());
}

#[test]
fn typed_rendering() {
    assert_eq!(typed("{{ inputs.count }}").unwrap(), Value::Int(3));
    assert_eq!(typed("{{ vars.typed }}").unwrap(), Value::from_json(&json!([3, 1, 2])));
    assert_eq!(typed("{{ inputs.count }} ").unwrap(), Value::str("3 "));
    let tree = json!({"a-{{ inputs.name }}": ["{{ inputs.count }}", 1, null], "b": "x"});
    let scope = crate::scope::Fixed::default();
    let rendered = render_json(&tree, &scope, &mut Budget::default(), true).unwrap();
    assert_eq!(rendered.to_plain_json().unwrap(), json!({"a-Ada": [3, 1, null], "b": "x"}));
    let text = render_json(&tree, &scope, &mut Budget::default(), false).unwrap();
    assert_eq!(text.to_plain_json().unwrap(), json!({"a-Ada": ["3", 1, null], "b": "x"}));
}

#[test]
fn syntax_errors_have_spans_and_hints() {
    let error = |source: &str| Template::parse(source).unwrap_err();
    let unknown = error("ab {{ 'x' | uper }}");
    assert_eq!((unknown.offset, unknown.len), (12, 4));
    assert_eq!(unknown.hint.as_deref(), Some("did you mean `upper`?"));
    assert_eq!(error("{{ secrt('A') }}").hint.as_deref(), Some("did you mean `secret`?"));
    for source in [
        "{{ a",
        "{% if a %}",
        "{% endif %}",
        "{{ }}",
        "{{ a b }}",
        "{{ (a }}",
        "{{ 'a }}",
        "{% raw %}x",
        "{# x",
        "{{ a. }}",
        "{% for in x %}{% endfor %}",
        "{% macro a() %}",
        "{{ x is fancy }}",
        "{{ [1, }}",
        "{{ a.b() }}",
        "{{ 999999999999999999999999999999999999999999 }}",
        "{% %}",
        "{{ \u{0} }}",
        "{{ 'é' é? }}",
    ] {
        let error = error(source);
        assert!(error.offset + error.len <= source.len(), "{source}: {error:?}");
        assert!(source.is_char_boundary(error.offset) && source.is_char_boundary(error.offset + error.len), "{source}");
    }
}

#[test]
fn references_are_found() {
    let template = Template::parse(
        "{{ outputs.a.value }}{{ outputs['b-c'] }}{% set s = inputs.x %}{{ s }}{% for i in vars.l %}{{ i }}{{ loop.index }}{% endfor %}{{ secret('A') | upper }}",
    )
    .unwrap();
    let found = template.references();
    assert_eq!(found.roots.iter().map(String::as_str).collect::<Vec<_>>(), ["inputs", "outputs", "vars"]);
    assert_eq!(found.outputs.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b-c"]);
    assert!(!found.outputs_dynamic);
    assert_eq!(found.functions.len(), 1);
    assert_eq!(found.filters.iter().next().unwrap().0, "upper");
    for source in ["{{ outputs }}", "{{ outputs[inputs.x].y }}", "{{ outputs | keys }}"] {
        assert!(Template::parse(source).unwrap().references().outputs_dynamic, "{source}");
    }
    assert!(Template::parse("{% raw %}{{ x }}{% endraw %}").unwrap().is_static());
}

#[test]
fn templates_serialize_as_their_source() {
    let template = Template::parse("a {{ inputs.x }}").unwrap();
    let json = serde_json::to_string(&template).unwrap();
    assert_eq!(json, "\"a {{ inputs.x }}\"");
    assert_eq!(serde_json::from_str::<Template>(&json).unwrap(), template);
    assert!(serde_json::from_str::<Template>("\"{{ a\"").is_err());
}
