//! The `jq` filter.

use crate::scope::{check, fails};
use semel_expr::{Budget, Template, Value, render_typed};
use serde_json::{Value as Json, json};

struct Data(Json);

impl semel_expr::Scope for Data {
    fn root(&self, name: &str) -> Option<Value> {
        (name == "d").then(|| Value::from_json(&self.0))
    }
    fn secret(&self, _: &str, _: Option<&str>) -> Result<semel_expr::SecretRef, String> {
        Err("none".to_owned())
    }
    fn reveal(&self, _: &semel_expr::Part) -> Result<String, String> {
        Err("none".to_owned())
    }
    fn seal(&self, _: &str) -> Result<String, String> {
        Err("none".to_owned())
    }
    fn kv(&self, _: &str, _: Option<&str>, _: bool) -> Result<Value, String> {
        Err("none".to_owned())
    }
    fn now_millis(&self) -> i64 {
        0
    }
    fn random_u64(&self) -> u64 {
        0
    }
}

#[track_caller]
fn jq(data: Json, program: &str, expected: Json) {
    let quoted = program.replace('\'', "\\'");
    let template = Template::parse(&format!("{{{{ d | jq('{quoted}') }}}}")).unwrap();
    let value = render_typed(&template, &Data(data), &mut Budget::default());
    match value {
        Ok(value) => assert_eq!(value.to_plain_json().unwrap(), expected, "{program}"),
        Err(error) => panic!("{program}: {error:?}"),
    }
}

#[test]
fn queries() {
    let people = || json!([{"n": "Ada", "a": 36, "t": ["x", "y"]}, {"n": "Bob", "a": 7, "t": []}]);
    let rows: &[(&str, Json)] = &[
        (".[].n", json!(["Ada", "Bob"])),
        (".[0].t[1:]", json!([["y"]])),
        (".[-1].n", json!(["Bob"])),
        ("map(.a) | add", json!([43])),
        (".[] | select(.a > 10) | .n", json!(["Ada"])),
        ("[.[] | {n, old: (.a > 10)}]", json!([[{"n": "Ada", "old": true}, {"n": "Bob", "old": false}]])),
        ("length, (.[0] | keys)", json!([2, ["a", "n", "t"]])),
        (".[].missing // \"none\"", json!(["none"])),
        (".[0].n | ascii_downcase | test(\"^a\")", json!([true])),
        ("map(\"\\(.n)=\\(.a)\") | join(\",\")", json!(["Ada=36,Bob=7"])),
        ("sort_by(.a) | map(.n)", json!([["Bob", "Ada"]])),
        ("group_by(.a > 10) | map(length)", json!([[1, 1]])),
        ("max_by(.a).n", json!(["Ada"])),
        ("reduce .[] as $p (0; . + $p.a)", json!([43])),
        ("[foreach .[] as $p (0; . + $p.a)]", json!([[36, 43]])),
        ("if length > 1 then \"many\" elif length == 1 then \"one\" else \"none\" end", json!(["many"])),
        ("map(.a |= . + 1) | map(.a)", json!([[37, 8]])),
        (".[0] | .t[0] = 1 | .t", json!([[1, "y"]])),
        ("map(del(.t)) | .[1]", json!([{"n": "Bob", "a": 7}])),
        (".[0] | to_entries | map(.key)", json!([["n", "a", "t"]])),
        (".[1] | with_entries(select(.key != \"t\"))", json!([{"n": "Bob", "a": 7}])),
        (".[0] as $x | $x.n", json!(["Ada"])),
        ("[.. | strings]", json!([["Ada", "x", "y", "Bob"]])),
        (".[] | try error(\"e\") catch .", json!(["e", "e"])),
        ("[.[] | .n.x?]", json!([[]])),
        ("map(has(\"n\")) | all", json!([true])),
        ("[limit(1; .[])] | length", json!([1])),
        ("any(.a == 7)", json!([true])),
        (".[0].a / 8, 7 % 4, -(1), 8 / 4", json!([4.5, 3, -1, 2])),
        ("[.[].n] | contains([\"Ad\"])", json!([true])),
        ("[.[] | .t[]] | unique | index(\"y\")", json!([1])),
        (".[0].t | @csv, @json", json!(["\"x\",\"y\"", "[\"x\",\"y\"]"])),
        ("[.[].n | gsub(\"[ab]\"; \"-\")]", json!([["Ad-", "Bo-"]])),
        ("empty", json!([])),
        ("not, (null | not)", json!([false, true])),
        ("[range(3)], [range(1; 7; 3)]", json!([[0, 1, 2], [1, 4]])),
        (". == . and (1 < 2) or false", json!([true])),
        ("\"a b\" | split(\" \"), ascii_upcase, @uri, @base64", json!([["a", "b"], "A B", "a%20b", "YSBi"])),
        ("\"12\" | tonumber, tojson, type, length", json!([12, "\"12\"", "string", 2])),
        ("{a: 1} + {b: 2} | map_values(. * 2)", json!([{"a": 2, "b": 4}])),
        ("[3, null, \"a\", 1, {}, [], false] | sort", json!([[null, false, 1, 3, "a", [], {}]])),
        ("[[1, 2], [3]] | flatten, transpose", json!([[1, 2, 3], [[1, 3], [2, null]]])),
    ];
    for (program, expected) in rows {
        jq(people(), program, expected.clone());
    }
}

#[test]
fn in_templates() {
    check(&[
        ("inputs.map | jq('.a.deep') | first", "x"),
        ("inputs.list | jq('.[]') | length", "3"),
        ("outputs.step.body | jq('.id')", "[7]"),
        ("null | jq('.')", ""),
    ]);
    fails(&[
        ("1 | jq('.[')", "filter"),
        ("'plain' | jq('.')", "filter"),
        ("1 | jq('now')", "filter"),
        ("1 | jq('env')", "filter"),
        ("1 | jq('input')", "filter"),
        ("1 | jq('def f: f; f')", "filter"),
        ("1 | jq('.a')", "filter"),
        ("1 | jq('$x')", "filter"),
        ("1 | jq('')", "filter"),
        ("inputs.list | jq('.[1e40]')", "filter"),
    ]);
}
