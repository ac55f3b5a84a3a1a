//! `${…}`, row by row.

use crate::scope::{SECRET, reveal, rot};
use proptest::prelude::*;
use semel_expr::conductor::{is_expression, render_text, render_tree, roots, transform};
use semel_expr::{Budget, EvalError, Part, Scope, SecretRef, Value};
use serde_json::{Value as Json, json};

struct Run;

impl Scope for Run {
    fn root(&self, name: &str) -> Option<Value> {
        let json = match name {
            "workflow" => json!({
                "input": {
                    "order": {"id": 7, "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]},
                    "name": "Ada", "none": null, "ratio": 1.5, "flag": true, "evil": "${workflow.input.name}",
                    "which": "order", "my-key": "dashed", "a b": "spaced", "list": [1, 2, 3],
                },
                "workflowId": "w1",
            }),
            "get_it" => json!({"output": {"response": {"body": {"ok": true}}}, "status": "COMPLETED"}),
            "odd/ref[1]" => json!({"output": {"x": 1}}),
            "hidden" => {
                let token = Value::secret(SecretRef { name: "TOKEN".into(), version: 1 });
                let entries = [("token".to_owned(), token), ("plain".to_owned(), Value::str("p"))];
                return Some(Value::map(entries.into_iter().collect()));
            }
            _ => return None,
        };
        Some(Value::from_json(&json))
    }

    fn secret(&self, name: &str, _: Option<&str>) -> Result<SecretRef, String> {
        match name {
            "ABSENT" => Err("there is no secret ABSENT".to_owned()),
            _ => Ok(SecretRef { name: name.to_owned(), version: 3 }),
        }
    }

    fn reveal(&self, part: &Part) -> Result<String, String> {
        reveal(part)
    }

    fn seal(&self, plain: &str) -> Result<String, String> {
        Ok(rot(plain))
    }

    fn kv(&self, _: &str, _: Option<&str>, _: bool) -> Result<Value, String> {
        Err("not here".to_owned())
    }

    fn now_millis(&self) -> i64 {
        0
    }

    fn random_u64(&self) -> u64 {
        0
    }
}

fn text(source: &str) -> Result<Value, EvalError> {
    render_text(source, &Run, &mut Budget::default())
}

fn plain(source: &str) -> Json {
    text(source).expect("resolves").to_plain_json().expect("holds no secret")
}

#[test]
fn an_expression_alone_keeps_its_type() {
    for (source, value) in [
        ("${workflow.input.order.id}", json!(7)),
        ("${workflow.input.flag}", json!(true)),
        ("${workflow.input.ratio}", json!(1.5)),
        ("${workflow.input.order}", json!({"id": 7, "lines": [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]})),
        ("${workflow.input.list}", json!([1, 2, 3])),
        ("${workflow.input.none}", json!(null)),
        ("${get_it.output.response.body.ok}", json!(true)),
        ("${ workflow.input.name }", json!("Ada")),
        ("no expression", json!("no expression")),
        ("", json!("")),
    ] {
        assert_eq!(plain(source), value, "{source}");
    }
}

#[test]
fn inside_a_text_values_are_printed() {
    for (source, value) in [
        ("id ${workflow.input.order.id}!", "id 7!"),
        ("${workflow.input.name}${workflow.input.order.id}", "Ada7"),
        ("${workflow.input.none}.", "null."),
        ("${nobody.output.x} ", "null "),
        ("ratio=${workflow.input.ratio}", "ratio=1.5"),
        ("l=${workflow.input.list}", "l=[1, 2, 3]"),
        ("m=${get_it.output.response}", "m={body={ok=true}}"),
        (" ${workflow.input.flag}", " true"),
    ] {
        assert_eq!(plain(source), json!(value), "{source}");
    }
}

#[test]
fn what_is_nested_is_resolved_first_and_what_is_escaped_is_not() {
    for (source, value) in [
        ("${workflow.input.${workflow.input.which}.id}", json!(7)),
        ("${workflow.input['${workflow.input.which}'].id}", json!(7)),
        ("$${workflow.input.name}", json!("${workflow.input.name}")),
        ("a $${x} ${workflow.input.name}", json!("a ${x} Ada")),
        ("${}", json!("")),
        ("${   }", json!("")),
        ("[${}]", json!("[]")),
        ("${workflow.input.name", json!("${workflow.input.name")),
        ("100 $ {x}", json!("100 $ {x}")),
    ] {
        assert_eq!(plain(source), value, "{source}");
    }
}

#[test]
fn data_is_never_resolved() {
    assert_eq!(plain("${workflow.input.evil}"), json!("${workflow.input.name}"));
    assert_eq!(plain("<${workflow.input.evil}>"), json!("<${workflow.input.name}>"));
}

#[test]
fn paths_are_read_as_jayway_reads_them() {
    for (source, value) in [
        ("${workflow.input.order.lines[0].sku}", json!("a")),
        ("${workflow.input.order.lines[-1].sku}", json!("b")),
        ("${workflow.input.order['lines'][1][\"n\"]}", json!(2)),
        ("${workflow.input.my-key}", json!("dashed")),
        ("${workflow.input['a b']}", json!("spaced")),
        ("${$.workflow.input.name}", json!("Ada")),
        ("${$['workflow']['input'].name}", json!("Ada")),
        ("${['odd/ref[1]'].output.x}", json!(1)),
        ("${workflow.input.order.lines[*].sku}", json!(["a", "b"])),
        ("${workflow.input.order.lines[?(@.n > 1)].sku}", json!(["b"])),
        ("${workflow.input.order.lines[?(@.sku == 'a')]}", json!([{"sku": "a", "n": 1}])),
        ("${workflow.input.list[0:2]}", json!([1, 2])),
        ("${workflow.input..sku}", json!(["a", "b"])),
        ("${workflow.input.list.length()}", json!(3)),
        ("${workflow.input.list.sum()}", json!(6.0)),
        ("${workflow.input.list.first()}", json!(1)),
        ("${workflow.input.order.keys()}", json!(["id", "lines"])),
    ] {
        assert_eq!(plain(source), value, "{source}");
    }
}

#[test]
fn a_path_that_leads_nowhere_is_null_and_no_error() {
    for source in [
        "${workflow.input.nothing}",
        "${workflow.input.name.deeper}",
        "${workflow.input.list[9]}",
        "${workflow.input.list.name}",
        "${nobody}",
        "${nobody.output}",
        "${workflow.}",
        "${.}",
        "${[}",
        "${workflow.input[}",
        "${workflow.input.list.unknown()}",
        "${workflow.input.list[?(]}",
        "${VAR:-default}",
        "${workflow..a..b}",
        "${workflow.input.order.lines[?(@..n == 1)]}",
        "${((((((((((((((((((((}",
    ] {
        assert_eq!(plain(source), Json::Null, "{source}");
    }
    assert_eq!(plain("${workflow.input.nothing[*].x}"), json!([]), "a search that finds nothing finds no values");
}

#[test]
fn trees_are_resolved_leaf_by_leaf_and_keys_are_not() {
    let tree =
        json!({"${workflow.input.name}": ["${workflow.input.order.id}", {"x": "n ${workflow.input.name}"}], "n": 1});
    let value = render_tree(&tree, &Run, &mut Budget::default()).expect("resolves");
    assert_eq!(value.to_plain_json(), Some(json!({"${workflow.input.name}": [7, {"x": "n Ada"}], "n": 1})));
}

#[test]
fn secrets_stay_holes() {
    let alone = text("${workflow.secrets.TOKEN}").expect("resolves");
    assert_eq!(alone.fill(&reveal), Ok(json!(SECRET)));
    let inside = text("Bearer ${workflow.secrets.TOKEN}").expect("resolves");
    assert_eq!(inside.fill(&reveal), Ok(json!(format!("Bearer {SECRET}"))));
    let field = text("${workflow.secrets.JSON.user}").expect("resolves");
    assert_eq!(field.fill(&reveal), Ok(json!(SECRET)));
    let printed = text("all: ${hidden}").expect("resolves");
    assert_eq!(printed.fill(&reveal), Ok(json!(format!("all: {{token={SECRET}, plain=p}}"))));
    let searched = text("${hidden.*}").expect("resolves");
    for value in [&alone, &inside, &field, &printed, &searched] {
        assert!(value.is_tainted());
        let shown = format!("{} {}", value.to_stored(), value.to_masked_json());
        assert!(!shown.contains(SECRET), "{shown}");
    }
    assert_eq!(plain("${hidden.plain}"), json!("p"), "what stands beside a secret is none");
    assert_eq!(text("${workflow.secrets.ABSENT}").expect_err("fails").code, "secret");
    assert_eq!(text("${workflow.input.${workflow.secrets.TOKEN}}").expect_err("fails").code, "type");
}

#[test]
fn jq_seals_what_it_computes_through_a_secret() {
    let input = Value::from_json(&json!({"queryExpression": ".a | map(. + 1)", "a": [1, 2]}));
    let out = transform(".a | map(. + 1)", &input, &Run, &mut Budget::default()).expect("runs");
    assert_eq!(out, [Value::from_json(&json!([2, 3]))]);
    let hidden = Run.root("hidden").expect("is there");
    let out = transform(".token", &hidden, &Run, &mut Budget::default()).expect("runs");
    assert!(out[0].is_tainted());
    assert_eq!(out[0].fill(&reveal), Ok(json!(SECRET)));
    let error = transform(".token | error", &hidden, &Run, &mut Budget::default()).expect_err("fails");
    assert!(!error.message.contains(SECRET), "{}", error.message);
}

#[test]
fn roots_are_found_without_resolving() {
    assert_eq!(roots("a ${workflow.input.x} ${r.output.${s.output.k}} $${no.x} ${"), ["workflow", "s"]);
    assert!(is_expression("x${y}") && !is_expression("x$${y}") && !is_expression("{{ y }}"));
}

#[test]
fn every_text_is_bounded() {
    let deep = format!("{}x{}", "${".repeat(20), "}".repeat(20));
    assert_eq!(text(&deep).expect_err("too deep").code, "depth");
    let wide = "${workflow.input.order}".repeat(40_000);
    assert!(matches!(text(&wide).expect_err("too much").code, "fuel" | "output_limit"));
    // Neither of these takes longer than its length.
    let _ = text(&"${".repeat(200_000));
    let _ = text(&"{".repeat(400_000));
    let long = format!("${{workflow.input.{}}}", "a".repeat(10_000));
    assert_eq!(text(&long).expect("resolves"), Value::Null);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(source in "[$@{}\\[\\].'\"?*:,()a-c =0-9ö-]{0,60}") {
        let _ = text(&source);
        let _ = text(&format!("${{workflow.input{source}}}"));
        let _ = text(&format!("${{workflow.input.order.lines[?(@.n{source})]}}"));
        let _ = roots(&source);
    }
}
