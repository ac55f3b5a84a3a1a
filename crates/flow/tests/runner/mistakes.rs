//! Mistakes in expressions, wherever they stand.

use crate::{codes, shown, tasks, with};
use insta::assert_snapshot;

fn log(message: &str) -> String {
    tasks(&format!("  - id: a\n    type: log.Log\n    message: {message}\n"))
}

#[test]
fn syntax_error_in_double_quotes() {
    assert_snapshot!(shown(&log("\"say \\\"hi\\\" {{ flow.id | nope }}\"")), @r#"
    error[bad_template]: unknown filter `nope`
     --> flow.yaml:6:39
      |
    6 |     message: "say \"hi\" {{ flow.id | nope }}"
      |                                       ^^^^
    "#);
}

#[test]
fn syntax_error_in_single_quotes() {
    assert_snapshot!(shown(&log("'it''s {{ flow.id + }}'")), @r#"
    error[bad_template]: expected a value, found the end of the expression
     --> flow.yaml:6:34
      |
    6 |     message: 'it''s {{ flow.id + }}'
      |                                  ^^
    "#);
}

#[test]
fn syntax_error_in_a_plain_scalar() {
    assert_snapshot!(shown(&log("hello {{ flow.id")), @r#"
    error[bad_template]: `{{` is never closed with `}}`
     --> flow.yaml:6:20
      |
    6 |     message: hello {{ flow.id
      |                    ^^
      |
      = help: put text that needs braces between `{% raw %}` and `{% endraw %}`
    "#);
}

#[test]
fn syntax_error_in_a_block() {
    assert_snapshot!(shown(&log("|\n      first line\n      second {{ flow.id | nope }}\n\n      third")), @r#"
    error[bad_template]: unknown filter `nope`
     --> flow.yaml:8:27
      |
    8 |       second {{ flow.id | nope }}
      |                           ^^^^
    "#);
}

#[test]
fn syntax_error_in_a_folded_block() {
    assert_snapshot!(shown(&log(">-\n      first line\n      second line\n\n        deeper {{ flow.id | nope }}\n      last")), @r#"
    error[bad_template]: unknown filter `nope`
      --> flow.yaml:10:29
       |
    10 |         deeper {{ flow.id | nope }}
       |                             ^^^^
    "#);
}

#[test]
fn syntax_error_in_a_quoted_text_of_several_lines() {
    assert_snapshot!(shown(&log("\"first\n      second é {{ flow.id | nope }}\"")), @r#"
    error[bad_template]: unknown filter `nope`
     --> flow.yaml:7:29
      |
    7 |       second é {{ flow.id | nope }}"
      |                             ^^^^
    "#);
}

#[test]
fn unknown_variable() {
    assert_snapshot!(shown(&log("\"{{ input.x }} {{ banana }}\"")), @r#"
    error[unknown_variable]: unknown variable `input`
     --> flow.yaml:6:18
      |
    6 |     message: "{{ input.x }} {{ banana }}"
      |                  ^^^^^
      |
      = help: did you mean `inputs`?

    error[unknown_variable]: unknown variable `banana`
     --> flow.yaml:6:32
      |
    6 |     message: "{{ input.x }} {{ banana }}"
      |                                ^^^^^^
    "#);
}

#[test]
fn unknown_input() {
    let source = format!(
        "{}inputs:\n  - id: customer\n    type: STRING\n",
        log("\"{{ inputs.custmer }} {{ inputs['customer'] }}\"")
    );
    assert_snapshot!(shown(&source), @r#"
    error[unknown_input]: the flow has no input `custmer`
     --> flow.yaml:6:25
      |
    6 |     message: "{{ inputs.custmer }} {{ inputs['customer'] }}"
      |                         ^^^^^^^
      |
      = help: did you mean `customer`?
    "#);
    assert_snapshot!(shown(&log("\"{{ inputs.x }}\"")), @r#"
    error[unknown_input]: the flow has no input `x`
     --> flow.yaml:6:25
      |
    6 |     message: "{{ inputs.x }}"
      |                         ^
      |
      = help: the flow declares no inputs
    "#);
}

#[test]
fn a_bare_input_name() {
    let source = format!("{}inputs:\n  - id: customer\n    type: STRING\n", log("\"{{ customer }}\""));
    assert_snapshot!(shown(&source), @r#"
    error[unknown_variable]: unknown variable `customer`
     --> flow.yaml:6:18
      |
    6 |     message: "{{ customer }}"
      |                  ^^^^^^^^
      |
      = help: write `inputs.customer`
    "#);
}

#[test]
fn unknown_output() {
    let source = tasks(
        "  - id: my-task\n    type: debug.Return\n    format: x\n  - id: fetch\n    type: debug.Return\n    format: \"{{ outputs.my-task.value }} {{ outputs.fetsch.value }}\"\n",
    );
    assert_snapshot!(shown(&source), @r#"
    error[unknown_output]: no task has the id `my`
     --> flow.yaml:9:25
      |
    9 |     format: "{{ outputs.my-task.value }} {{ outputs.fetsch.value }}"
      |                         ^^
      |
      = help: write `outputs['my-task']`: a `-` after a name is a minus

    error[unknown_output]: no task has the id `fetsch`
     --> flow.yaml:9:53
      |
    9 |     format: "{{ outputs.my-task.value }} {{ outputs.fetsch.value }}"
      |                                                     ^^^^^^
      |
      = help: did you mean `fetch`?
    "#);
}

#[test]
fn names_that_do_not_exist_in_a_flow_of_kestra_are_warnings() {
    let log = |text: &str| log(text).replace("log.Log", "io.kestra.plugin.core.log.Log");
    for text in ["\"{{ ko }}\"", "\"{{ inputs.gone ?? 1 }}\"", "\"{{ outputs.gone.value }}\""] {
        let shown = shown(&log(text));
        assert!(shown.starts_with("warning[unknown_") && !shown.contains("error["), "{shown}");
    }
    let key = format!("{}idempotency:\n  key: \"{{{{ ko }}}}\"\n", log("x"));
    assert!(shown(&key).contains("error[unknown_variable]"));
}

#[test]
fn output_of_a_later_task() {
    let source = tasks(
        "  - id: first\n    type: debug.Return\n    format: \"{{ outputs.second.value }}\"\n  - id: second\n    type: debug.Return\n    format: x\n",
    );
    assert_snapshot!(shown(&source), @r#"
    warning[later_output]: `second` runs after this task, so it has no output yet
     --> flow.yaml:6:25
      |
    6 |     format: "{{ outputs.second.value }}"
      |                         ^^^^^^
    7 |   - id: second
      |         ------ defined here
    "#);
}

#[test]
fn a_key_sees_only_what_exists_before_the_run() {
    assert_snapshot!(shown(&with("idempotency:\n  key: \"{{ outputs.a.value }}\"\n")), @r#"
    error[unknown_variable]: `outputs` does not exist yet: this is evaluated before the run starts
     --> flow.yaml:8:12
      |
    8 |   key: "{{ outputs.a.value }}"
      |            ^^^^^^^
      |
      = help: use `inputs`, `trigger`, `vars`, `labels` or `flow`
    "#);
    assert_eq!(codes(&with("lane:\n  key: \"{{ taskrun.id }}\"\n")), ["unknown_variable 8:12"]);
}

#[test]
fn locals_are_known() {
    assert_eq!(codes(&log("\"{% for x in [1] %}{{ x }}{{ loop.index }}{% endfor %}{% set y = 1 %}{{ y }}\"")), [""; 0]);
}

#[test]
fn trigger_inputs_are_checked() {
    let source = with(
        "inputs:\n  - id: day\n    type: STRING\n  - id: who\n    type: STRING\ntriggers:\n  - id: t\n    type: trigger.Schedule\n    cron: \"@daily\"\n    inputs:\n      dya: x\n",
    );
    assert_snapshot!(shown(&source), @r#"
    warning[missing_input]: this trigger sets no value for the required input `day`, so its runs will be refused
      --> flow.yaml:13:5
       |
    13 |   - id: t
       |     ^^
       |
       = help: set it under the trigger's `inputs`, or give the input a default

    error[unknown_input]: the flow has no input `dya`
      --> flow.yaml:17:7
       |
    17 |       dya: x
       |       ^^^
       |
       = help: did you mean `day`?
    "#);
}

#[test]
fn all_mistakes_at_once_in_order() {
    let source = "namespace: N\nid: a b\ntasks:\n  - id: x\n    type: nope.Nope\n  - id: y\n    type: log.Log\n    message: \"{{ bad }}\"\n    colour: red\n";
    assert_eq!(
        codes(source),
        ["bad_id 1:12", "bad_id 2:5", "unknown_type 5:11", "unknown_variable 8:18", "unknown_field 9:5"]
    );
}

#[test]
fn inputs_that_cannot_depend_on_each_other() {
    let inputs = |list: &str| codes(&with(&format!("inputs:\n{list}")));
    let circle = "  - {id: x, type: STRING, dependsOn: {inputs: [y]}}\n  - {id: y, type: STRING, dependsOn: {inputs: [z]}}\n  - {id: z, type: STRING, dependsOn: {inputs: [x]}}\n";
    assert_eq!(inputs(circle), ["conflict 8:38"]);
    assert_eq!(inputs("  - {id: x, type: STRING, dependsOn: {inputs: [x]}}\n"), ["unknown_input 8:38"]);
    assert_eq!(inputs("  - {id: x, type: STRING, dependsOn: {input: [x]}}\n"), ["unknown_field 8:39"]);
    let both = "  - {id: x, type: SELECT, values: [a], expression: \"{{ ['a'] }}\"}\n";
    assert_eq!(inputs(both), ["conflict 8:40"]);
    assert_eq!(inputs("  - {id: x, type: SELECT}\n"), ["missing_field 8:6"]);
    assert_eq!(
        inputs("  - {id: x, type: SELECT, values: [a], autoSelectFirst: true, defaults: a}\n"),
        ["conflict 8:63"]
    );
    assert_eq!(inputs("  - {id: x, type: INT, prefill: many}\n"), ["bad_default 8:33"]);
}

#[test]
fn forms_are_one_level_deep() {
    let inputs = |list: &str| codes(&with(&format!("inputs:\n{list}")));
    let nested = "  - id: x\n    type: FORM\n    inputs:\n      - {id: y, type: FORM, inputs: []}\n";
    assert_eq!(inputs(nested), ["bad_value 11:9"]);
    assert_eq!(inputs("  - {id: x, type: FORM, inputs: [], defaults: 1}\n"), ["unknown_field 8:37"]);
    let twice = "  - {id: x.y, type: INT}\n  - {id: x, type: FORM, inputs: [{id: y, type: INT}]}\n";
    assert_eq!(inputs(twice), ["duplicate_id 9:39"]);
}
