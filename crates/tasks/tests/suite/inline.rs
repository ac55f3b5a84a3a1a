//! Inline tasks on rendered properties.

use semel_core::ir::{Catalog, FieldKind};
use semel_tasks::{InlineOutcome, Level, LogLine, REGISTRY, run_inline};
use serde_json::{Value as Json, json};

fn output(type_name: &str, config: Json) -> Json {
    match run_inline(type_name, &config) {
        InlineOutcome::Done { output, .. } => output,
        other => panic!("{type_name} gave {other:?}"),
    }
}

fn failure(type_name: &str, config: Json) -> (&'static str, String) {
    match run_inline(type_name, &config) {
        InlineOutcome::Failed { code, message, .. } => (code, message),
        other => panic!("{type_name} {config} gave {other:?}"),
    }
}

fn line(level: Level, message: &str) -> LogLine {
    LogLine { level, message: message.to_owned() }
}

#[test]
fn log_writes_one_line_or_several() {
    let logs = |config: Json| match run_inline("log.Log", &config) {
        InlineOutcome::Done { logs, output, .. } => {
            assert_eq!(output, json!({}));
            logs
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(logs(json!({ "message": "hello" })), [line(Level::Info, "hello")]);
    assert_eq!(
        logs(json!({ "message": ["a", 2, { "b": true }], "level": "warn" })),
        [line(Level::Warn, "a"), line(Level::Warn, "2"), line(Level::Warn, "{\"b\":true}")]
    );
    for (word, level) in [
        ("TRACE", Level::Trace),
        ("DEBUG", Level::Debug),
        ("INFO", Level::Info),
        ("WARN", Level::Warn),
        ("ERROR", Level::Error),
    ] {
        assert_eq!(logs(json!({ "message": "", "level": word })), [line(level, "")]);
    }
    assert_eq!(failure("log.Log", json!({})).0, "bad_config");
    assert_eq!(failure("log.Log", json!({ "message": "x", "level": "LOUD" })).0, "bad_config");
}

#[test]
fn return_gives_text() {
    assert_eq!(output("debug.Return", json!({ "format": "a b" })), json!({ "value": "a b" }));
    assert_eq!(output("debug.Return", json!({ "format": 7 })), json!({ "value": "7" }));
    assert_eq!(output("io.kestra.core.tasks.debugs.Return", json!({})), json!({}));
}

#[test]
fn fail_knows_four_false_texts() {
    for condition in [json!("false"), json!("0"), json!("-0"), json!(""), json!(false), json!(0)] {
        assert_eq!(output("execution.Fail", json!({ "condition": condition })), json!({}));
    }
    for condition in
        [json!("true"), json!("False"), json!(" "), json!("0.0"), json!("no"), json!(true), json!(1), json!([])]
    {
        assert_eq!(failure("execution.Fail", json!({ "condition": condition })).1, "Task failure");
    }
    let outcome = run_inline("execution.Fail", &json!({ "errorMessage": "stop" }));
    let logs = vec![line(Level::Error, "stop")];
    assert_eq!(outcome, InlineOutcome::Failed { code: "fail_task", message: "stop".to_owned(), logs });
}

#[test]
fn labels_come_as_a_map_a_list_or_text() {
    let forms = [
        json!({ "a": "1", "b": 2 }),
        json!([{ "key": "a", "value": "1" }, { "key": "b", "value": 2 }]),
        json!("{\"a\":\"1\",\"b\":2}"),
        json!("[{\"key\":\"a\",\"value\":1},{\"key\":\"b\",\"value\":\"2\"}]"),
    ];
    for form in forms {
        let InlineOutcome::Done { labels, .. } = run_inline("execution.Labels", &json!({ "labels": form })) else {
            panic!("{form}")
        };
        assert_eq!(labels, [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]);
    }
    let text = "System labels can only be set by Semel itself, offending label: system.correlationId=x";
    for form in [json!({ "system.correlationId": "x" }), json!([{ "key": "system.correlationId", "value": "x" }])] {
        assert_eq!(failure("execution.Labels", json!({ "labels": form })).1, text);
    }
    for form in [
        json!(7),
        json!("words"),
        json!([{ "key": "a" }]),
        json!({ "a": { "b": 1 } }),
        json!({ "": "x" }),
        json!({ "a": null }),
        json!(null),
    ] {
        assert_eq!(failure("execution.Labels", json!({ "labels": form })).0, "bad_config");
    }
}

#[test]
fn output_values_keep_their_types() {
    let values = json!({ "n": 1, "list": [true, null], "text": "x" });
    assert_eq!(output("output.OutputValues", json!({ "values": values })), json!({ "values": values }));
    assert_eq!(failure("output.OutputValues", json!({ "values": "x" })).0, "bad_config");
}

#[test]
fn other_types_are_not_run_inline() {
    for name in ["http.Request", "kv.Set", "no.Such", ""] {
        assert_eq!(failure(name, json!({})).0, "unknown_type");
    }
}

#[test]
fn no_type_panics_on_strange_properties() {
    let strange = [
        json!(null),
        json!([]),
        json!(1),
        json!("x"),
        json!({}),
        json!({ "message": null, "labels": [[]], "values": [], "condition": {} }),
    ];
    for spec in REGISTRY.specs() {
        for config in &strange {
            let _ = run_inline(spec.name, config);
            let _ = semel_tasks::plan_op(spec.name, config);
            let _ = semel_tasks::effect_class(spec.name, config);
            let _ = semel_tasks::sends_idempotency_key(spec.name, config);
        }
    }
}

#[test]
fn every_field_is_described_once() {
    for spec in REGISTRY.specs() {
        let mut names = std::collections::HashSet::new();
        for field in spec.fields {
            assert!(names.insert(field.name) && !field.summary.is_empty(), "{}.{}", spec.name, field.name);
            if let FieldKind::Choice(words) = field.kind {
                assert!(!words.is_empty());
            }
        }
        assert!(!spec.summary.is_empty());
    }
}

#[test]
fn variables_are_named_before_they_change() {
    let set = |config: Json| run_inline("execution.SetVariables", &config);
    assert_eq!(
        set(json!({"variables": "{\"a\": 1}", "overwrite": "false"})),
        InlineOutcome::SetVariables { names: vec!["a".to_owned()], overwrite: false }
    );
    assert_eq!(failure("execution.SetVariables", json!({"variables": [1]})).0, "bad_config");
    assert_eq!(
        run_inline("execution.UnsetVariables", &json!({"variables": ["a", "b"]})),
        InlineOutcome::UnsetVariables { names: vec!["a".to_owned(), "b".to_owned()], ignore_missing: false }
    );
    assert_eq!(failure("execution.UnsetVariables", json!({"variables": {"a": 1}})).0, "bad_config");
}
