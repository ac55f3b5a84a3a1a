//! Mistakes in the YAML itself.

use crate::{codes, shown, with};
use insta::assert_snapshot;

#[test]
fn tab_indent() {
    assert_snapshot!(shown("id: f\nnamespace: n\ntasks:\n\t- id: a\n\t  type: log.Log\n"), @r#"
    error[tab_indent]: YAML is indented with spaces, and this is a tab
     --> flow.yaml:4:1
      |
    4 |     - id: a
      | ^^^^
      |
      = help: replace each tab by two spaces
    "#);
}

#[test]
fn tab_after_a_text() {
    assert_snapshot!(shown("id: f\nnamespace: n\ntasks:\n  - id: a\n\ttype: log.Log\n    message: hi\n"), @r#"
    error[tab_indent]: YAML is indented with spaces, and this is a tab
     --> flow.yaml:5:1
      |
    5 |     type: log.Log
      | ^^^^
      |
      = help: replace each tab by two spaces
    "#);
}

#[test]
fn unclosed_double_quote() {
    assert_snapshot!(shown("id: f\nnamespace: \"n\ntasks:\n  - id: a\n    type: log.Log\n    message: hi\n"), @r#"
    error[unclosed_quote]: this quote is never closed
     --> flow.yaml:2:12
      |
    2 | namespace: "n
      |            ^^
      |
      = help: close it at the end of the value; use a block (`|`) for text of several lines
    "#);
}

#[test]
fn unclosed_quote_that_a_later_one_closes() {
    assert_snapshot!(shown(&with("    level: \"INFO\n  - id: b\n    type: log.Log\n    message: \"hi\"\n")), @r#"
    error[unclosed_quote]: this quote is never closed
     --> flow.yaml:7:12
      |
    7 |     level: "INFO
      |            ^^^^^
      |
      = help: close it at the end of the value; use a block (`|`) for text of several lines
    "#);
}

#[test]
fn unquoted_template() {
    assert_snapshot!(shown("id: f\nnamespace: n\ntasks:\n  - id: a\n    type: log.Log\n    message: {{ inputs.x }}\n"), @r#"
    error[unquoted_template]: a value that starts with `{{` must be quoted, because `{` begins a map in YAML
     --> flow.yaml:6:14
      |
    6 |     message: {{ inputs.x }}
      |              ^^^^^^^^^^^^^^
      |
      = help: write "{{ inputs.x }}"
    "#);
    assert_snapshot!(shown("id: f\nnamespace: n\ntasks:\n  - id: a\n    type: log.Log\n    message: {{ flow.id }} and more\n"), @r#"
    error[unquoted_template]: a value that starts with `{{` must be quoted, because `{` begins a map in YAML
     --> flow.yaml:6:14
      |
    6 |     message: {{ flow.id }} and more
      |              ^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: write "{{ flow.id }} and more"
    "#);
}

#[test]
fn wrong_indent() {
    assert_snapshot!(shown("id: f\nnamespace: n\ntasks:\n  - id: a\n     type: log.Log\n    message: hi\n"), @r#"
    error[yaml_syntax]: this line is indented too far
     --> flow.yaml:5:6
      |
    5 |      type: log.Log
      |      ^^^^^^^^^^^^^
      |
      = help: fields of the same map begin in the same column
    "#);
    assert_snapshot!(shown("id: f\n  namespace: n\ntasks: []\n"), @r#"
    error[yaml_syntax]: this line is indented too far
     --> flow.yaml:2:3
      |
    2 |   namespace: n
      |   ^^^^^^^^^^^^
      |
      = help: fields of the same map begin in the same column
    "#);
    assert_snapshot!(shown("id: f\nnamespace: n\ntasks:\n  - id: a\n   type: log.Log\n"), @r#"
    error[yaml_syntax]: this line is not indented like the lines it belongs to
     --> flow.yaml:5:4
      |
    5 |    type: log.Log
      |    ^^^^^^^^^^^^^
    "#);
}

#[test]
fn missing_colon() {
    assert_snapshot!(shown("id: f\nnamespace n\ntasks: []\n"), @r#"
    error[yaml_syntax]: a `:` is missing after this key
     --> flow.yaml:2:1
      |
    2 | namespace n
      | ^^^^^^^^^^^
      |
      = help: write `key: value`
    "#);
}

#[test]
fn unquoted_text_with_a_colon() {
    assert_snapshot!(shown(&with("description: note: this\n")), @r#"
    error[yaml_syntax]: a text that contains `: ` must be quoted
     --> flow.yaml:7:14
      |
    7 | description: note: this
      |              ^^^^^^^^^^
      |
      = help: write "note: this"
    "#);
}

#[test]
fn duplicate_key() {
    assert_snapshot!(shown(&with("disabled: true\ndisabled: false\n")), @r#"
    error[duplicate_key]: `disabled` is given twice in the same map
     --> flow.yaml:8:1
      |
    7 | disabled: true
      | -------- first given here
    8 | disabled: false
      | ^^^^^^^^
    "#);
}

#[test]
fn second_document() {
    assert_snapshot!(shown(&with("---\nid: g\n")), @r#"
    error[second_document]: a second document
     --> flow.yaml:7:1
      |
    7 | ---
      | ^^^
      |
      = help: keep one flow per file
    "#);
}

#[test]
fn empty_file() {
    assert_snapshot!(shown(""), @r#"
    error[missing_field]: the file holds no flow
     --> flow.yaml:1:1
      |
    1 |
      | ^
      |
      = help: a flow needs at least `id`, `namespace` and `tasks`
    "#);
    assert_eq!(codes("# only a comment\n"), ["missing_field 1:1"]);
}

#[test]
fn a_list_is_not_a_flow() {
    assert_snapshot!(shown("- id: a\n"), @r#"
    error[wrong_type]: a flow must be a map, not a list
     --> flow.yaml:1:1
      |
    1 | - id: a
      | ^^^^^^^ expected a map
    "#);
}

#[test]
fn leading_zero_is_text_with_a_warning() {
    assert_snapshot!(shown(&with("variables:\n  zip: 01234\n")), @r#"
    warning[leading_zero]: `01234` begins with a zero, so it is kept as text, not as a number
     --> flow.yaml:8:8
      |
    8 |   zip: 01234
      |        ^^^^^
      |
      = help: quote it if it is text, or drop the zero if it is a number
    "#);
}

#[test]
fn unclosed_bracket_and_bad_escape() {
    assert_snapshot!(shown(&with("labels: {team: a\n")), @r#"
    error[yaml_syntax]: a `{` is not closed with `}`, or a `,` is missing between two fields
     --> flow.yaml:7:1
      |
    7 | labels: {team: a
      | ^^^^^^^^^^^^^^^^
    "#);
    assert_snapshot!(shown(&with("description: \"a\\qb\"\n")), @r#"
    error[yaml_syntax]: unknown escape in a double-quoted text
     --> flow.yaml:7:14
      |
    7 | description: "a\qb"
      |              ^^^^^^
      |
      = help: write `\\` for a backslash, or use single quotes
    "#);
}

#[test]
fn keys_tags_and_merges() {
    assert_eq!(codes(&with("variables:\n  <<: {a: 1}\n")), ["bad_key 8:3"]);
    assert_eq!(codes(&with("variables:\n  ? [1]\n  : 2\n")), ["bad_key 8:5"]);
    assert_eq!(codes(&with("variables:\n  a: !custom 1\n")), ["bad_tag 8:6"]);
    assert_eq!(codes(&with("variables:\n  a: !!str 1\n")), [""; 0]);
    assert_eq!(
        codes(&with("variables: {a: !!int 1, b: !!float 1, c: !!bool 'true', d: !!timestamp 2026-01-02}\n")),
        [""; 0]
    );
    assert_eq!(codes(&with("variables:\n  a: !!int x\n  b: !int 1\n")), ["bad_tag 8:6", "bad_tag 9:6"]);
}
