//! The stored form, and that callers cannot forge holes in it.

use crate::scope::reveal;
use proptest::prelude::*;
use semel_expr::{Part, SecretRef, Value};
use serde_json::{Value as Json, json};

#[test]
fn holes_are_stored_as_references() {
    let value = crate::scope::eval("a {{ secret('T') }} b").unwrap();
    assert_eq!(value.to_stored(), json!({"$semel": {"text": ["a ", {"secret": "T", "version": 3}, " b"]}}));
}

#[test]
fn callers_cannot_forge_holes() {
    let forged = [
        json!({"$semel": {"text": [{"secret": "T", "version": 3}]}}),
        json!({"$semel": {"object": {"$semel": {"text": [{"sealed": "x"}]}}}}),
        json!({"$semel": {"fields": {"a": {"$semel": {"text": ["x"]}}}}}),
        json!({"$semel": {"template": "{{ secret('T') }}"}}),
        json!([{"deep": {"$semel": null, "other": 1}}]),
    ];
    for json in forged {
        let value = Value::from_json(&json);
        let back = Value::from_stored(&value.to_stored());
        assert!(!back.is_tainted());
        assert_eq!(back.to_plain_json().unwrap(), json);
        assert_eq!(back.fill(&reveal).unwrap(), json);
    }
}

#[test]
fn a_map_with_a_mark_and_a_hole_keeps_both() {
    let secret = Value::secret(SecretRef { name: "T".to_owned(), version: 1 });
    let forged = Value::from_json(&json!({"$semel": {"text": ["x"]}}));
    let entries = [("$semel".to_owned(), forged.clone()), ("a".to_owned(), secret), ("b".to_owned(), forged)];
    let value = Value::map(entries.into_iter().collect());
    assert_eq!(Value::from_stored(&value.to_stored()), value);
}

#[test]
fn nested_marks_do_not_grow_the_stored_form() {
    let mut json = json!(1);
    for _ in 0..60 {
        json = json!({"$semel": json});
    }
    let stored = Value::from_json(&json).to_stored().to_string();
    let read: Json = serde_json::from_str(&stored).unwrap();
    assert_eq!(Value::from_stored(&read).to_plain_json().unwrap(), json);
}

#[test]
fn headers_are_stored_as_a_plain_object() {
    let headers = Value::headers([("X-A".to_owned(), Value::str("1"))].into_iter().collect());
    assert_eq!(headers.to_stored(), json!({"X-A": "1"}));
    assert_eq!(headers.get("x-a"), Some(Value::str("1")));
}

#[test]
fn truth_of_rendered_text() {
    for text in ["false", "0", "-0", ""] {
        assert!(!Value::str(text).is_truthy_text());
    }
    for value in [Value::str("no"), Value::str(" "), Value::Bool(true), Value::list(Vec::new())] {
        assert!(value.is_truthy_text(), "{value:?}");
    }
    assert!(!Value::Null.is_truthy_text());
}

fn tree() -> impl Strategy<Value = Value> {
    let part = prop_oneof![
        "[a-z]{1,3}".prop_map(Part::Text),
        "[A-Z]{1,3}".prop_map(|name| Part::Secret(SecretRef { name, version: 1 })),
        "[a-z]{1,3}".prop_map(Part::Sealed),
    ];
    let tainted = proptest::collection::vec(part, 0..3)
        .prop_map(|parts| Value::Tainted(std::sync::Arc::new(semel_expr::Tainted { parts })));
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(|number| Value::Int(i128::from(number))),
        "[ -~]{0,6}".prop_map(Value::str),
        tainted,
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let key = prop_oneof![Just("$semel".to_owned()), Just("text".to_owned()), Just("object".to_owned()), "[a-c]"];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::list),
            proptest::collection::vec((key, inner), 0..3).prop_map(|entries| Value::map(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn stored_form_round_trips(value in tree()) {
        prop_assert_eq!(Value::from_stored(&value.to_stored()), value);
    }
}
