//! `pluginDefaults:` in the tasks they speak of.

use crate::{accept, codes};
use semel_core::ir::{Task, TaskKind};
use serde_json::{Value as Json, json};

fn flow(defaults: &str, tasks: &str) -> String {
    format!("id: f\nnamespace: n\ntasks:\n{tasks}{defaults}")
}

fn config(task: &Task) -> &Json {
    match &task.kind {
        TaskKind::Leaf { config, .. } => config,
        other => panic!("not a leaf: {other:?}"),
    }
}

const CALLS: &str = "  - id: call
    type: io.kestra.plugin.core.http.Request
    uri: http://a
    headers: {X-Own: own, X-Both: own}
  - id: group
    type: flow.Sequential
    tasks:
      - id: inner
        type: http.Request
        uri: http://b
        method: PUT
  - id: say
    type: log.Log
    message: hi
";

#[test]
fn a_default_fills_what_a_task_of_its_type_leaves_out_at_any_depth() {
    let source = flow(
        "pluginDefaults:\n  - type: io.kestra.plugin.core.http.Request\n    values:\n      method: POST\n      headers: {X-Both: default, X-Default: default}\n      allowFailure: true\n",
        CALLS,
    );
    let flow = accept(&source).flow;
    assert_eq!(
        *config(&flow.tasks[0]),
        json!({"uri": "http://a", "headers": {"X-Own": "own", "X-Both": "own", "X-Default": "default"}, "method": "POST"})
    );
    let TaskKind::Sequential(group) = &flow.tasks[1].kind else { panic!() };
    assert_eq!(config(&group.tasks[0])["method"], "PUT");
    assert_eq!(config(&group.tasks[0])["headers"]["X-Both"], "default");
    assert!(flow.tasks[0].allow_failure && group.tasks[0].allow_failure && !flow.tasks[2].allow_failure);
}

#[test]
fn a_forced_default_wins_over_the_task_and_lists_are_joined() {
    let defaults = "pluginDefaults:\n  - type: http.Request\n    forced: true\n    values: {method: DELETE}\n  - {type: log.Log, values: {message: [first]}}\n";
    let tasks = "  - {id: call, type: http.Request, uri: http://a, method: PUT}\n  - {id: say, type: io.kestra.core.tasks.log.Log, message: [second]}\n";
    let flow = accept(&flow(defaults, tasks)).flow;
    assert_eq!(config(&flow.tasks[0])["method"], "DELETE");
    assert_eq!(config(&flow.tasks[1])["message"], json!(["first", "second"]));
}

#[test]
fn a_default_of_a_package_reaches_all_its_types_and_nothing_inside_them() {
    let defaults = "taskDefaults:\n  - type: io.kestra.plugin.core\n    values: {allowWarning: true}\n";
    let tasks = "  - id: call\n    type: http.Request\n    uri: http://a\n    retry: {type: constant, interval: PT1S}\n    options: {auth: {type: BASIC}}\n  - {id: say, type: log.Log, message: hi}\n";
    let flow = accept(&flow(defaults, tasks)).flow;
    assert!(flow.tasks.iter().all(|task| task.allow_warning));
    assert_eq!(config(&flow.tasks[0])["options"], json!({"auth": {"type": "BASIC"}}));
}

#[test]
fn a_mistake_in_a_default_is_shown_where_it_was_written() {
    let defaults = "pluginDefaults:\n  - type: log.Log\n    values:\n      colour: \"{{ inputs.nope }}\"\n";
    let say = "  - {id: say, type: log.Log, message: hi}\n";
    assert_eq!(codes(&flow(defaults, say)), ["unknown_field 8:7"]);
}

#[test]
fn a_block_of_another_shape_is_refused() {
    let say = "  - {id: say, type: log.Log, message: hi}\n";
    assert_eq!(codes(&flow("pluginDefaults: {type: a}\n", say)), ["wrong_type 5:17"]);
    assert_eq!(
        codes(&flow("pluginDefaults:\n  - {type: log.Log}\n  - {values: {}, forced: 7}\n", say)),
        ["missing_field 6:6", "missing_field 7:6", "wrong_type 7:26"]
    );
}

#[test]
fn defaults_do_not_make_a_small_file_a_large_flow() {
    let values: String = (0..1_000).map(|n| format!("      k{n}: v\n")).collect();
    let tasks: String = (0..100).map(|n| format!("  - {{id: t{n}, type: log.Log, message: hi}}\n")).collect();
    let found = codes(&flow(&format!("pluginDefaults:\n  - type: log.Log\n    values:\n{values}"), &tasks));
    assert!(found.contains(&"too_large 104:1".to_owned()), "{:?}", &found[..3]);
}
