//! Key-value tasks become ops for the commit.

use semel_tasks::{KvOp, plan_op};
use serde_json::json;

#[test]
fn set_has_kestras_defaults() {
    let planned = plan_op("kv.Set", &json!({ "key": "a.b-c_1", "value": { "x": 1 } }));
    let expected = KvOp::Set {
        namespace: None,
        key: "a.b-c_1".to_owned(),
        value: json!({ "x": 1 }),
        kv_type: None,
        overwrite: true,
        ttl_ms: None,
    };
    assert_eq!(planned, Ok(expected));
    let planned = plan_op(
        "io.kestra.plugin.core.kv.Set",
        &json!({ "key": "k", "value": "42", "namespace": "acme", "overwrite": "false", "ttl": "PT1H", "kvType": "number" }),
    );
    let expected = KvOp::Set {
        namespace: Some("acme".to_owned()),
        key: "k".to_owned(),
        value: json!(42),
        kv_type: Some("NUMBER".to_owned()),
        overwrite: false,
        ttl_ms: Some(3_600_000),
    };
    assert_eq!(planned, Ok(expected));
}

#[test]
fn a_type_converts_the_text_or_refuses_it() {
    let value = |kv_type: &str, value: serde_json::Value| match plan_op(
        "kv.Set",
        &json!({ "key": "k", "value": value, "kvType": kv_type }),
    ) {
        Ok(KvOp::Set { value, .. }) => Some(value),
        Ok(_) | Err(_) => None,
    };
    for (kv_type, given, expected) in [
        ("STRING", json!(7), Some(json!("7"))),
        ("NUMBER", json!("1.5"), Some(json!(1.5))),
        ("NUMBER", json!("12345678901234567890"), Some(json!(12345678901234567890u64))),
        ("NUMBER", json!("ten"), None),
        ("BOOLEAN", json!("TRUE"), Some(json!(true))),
        ("BOOLEAN", json!("yes"), None),
        ("DATETIME", json!("2026-11-15T10:00:00Z"), Some(json!("2026-11-15T10:00:00Z"))),
        ("DATETIME", json!("soon"), None),
        ("DATE", json!("2026-11-15"), Some(json!("2026-11-15"))),
        ("DATE", json!("2026-02-30"), None),
        ("DURATION", json!("PT5M"), Some(json!("PT5M"))),
        ("DURATION", json!("5 min"), None),
        ("JSON", json!("{\"a\":[1]}"), Some(json!({ "a": [1] }))),
        ("JSON", json!({ "a": 1 }), Some(json!({ "a": 1 }))),
        ("JSON", json!("{"), None),
        ("BLOB", json!("x"), None),
    ] {
        assert_eq!(value(kv_type, given.clone()), expected, "{kv_type} {given}");
    }
}

#[test]
fn get_fails_on_missing_by_default_and_delete_does_not() {
    let get = plan_op("kv.Get", &json!({ "key": "k", "namespace": " " }));
    assert_eq!(get, Ok(KvOp::Get { namespace: None, key: "k".to_owned(), error_on_missing: true }));
    let lenient = plan_op("kv.Get", &json!({ "key": "k", "errorOnMissing": "false" }));
    assert_eq!(lenient, Ok(KvOp::Get { namespace: None, key: "k".to_owned(), error_on_missing: false }));
    let delete = plan_op("kv.Delete", &json!({ "key": "k" }));
    assert_eq!(delete, Ok(KvOp::Delete { namespace: None, key: "k".to_owned(), error_on_missing: false }));
}

#[test]
fn keys_are_as_in_kestra() {
    for key in ["", ".a", "-a", "a b", "a/b", "é", "a\n"] {
        assert_eq!(plan_op("kv.Get", &json!({ "key": key })).map_err(|error| error.code), Err("bad_config"), "{key:?}");
    }
    assert_eq!(plan_op("kv.Set", &json!({ "key": "k" })).map_err(|error| error.code), Err("bad_config"));
    assert_eq!(plan_op("log.Log", &json!({ "key": "k" })).map_err(|error| error.code), Err("unknown_type"));
}

#[test]
fn a_state_has_its_key() {
    let at = |config: serde_json::Value| match plan_op("state.Get", &config) {
        Ok(KvOp::StateGet { at, error_on_missing: false }) => at,
        other => panic!("{other:?}"),
    };
    let own = at(json!({}));
    assert_eq!(own.key("f.1", None), "f.1_states_tasks-states_default");
    assert_ne!(own.key("f", Some("a")), own.key("f", Some("b")));
    let shared = at(json!({ "name": "all", "namespace": true, "taskrunValue": false }));
    assert_eq!(shared.key("f", Some("a")), "states_tasks-states_all");
    let bad = plan_op("state.Delete", &json!({ "name": "a b" }));
    assert_eq!(bad.map_err(|error| error.code), Err("bad_config"));
    let set = plan_op("io.kestra.core.tasks.states.Set", &json!({ "data": { "a": 1 } }));
    assert!(matches!(set, Ok(KvOp::StateSet { data, .. }) if data["a"] == 1));
}
