//! Whatever the text: no panic, and every span lies inside it.

use crate::{accept, catalog, check};
use proptest::prelude::*;
use semel_core::limits::Limits;
use semel_flow::{compile, render};

fn sound(source: &str) {
    let diagnostics = match check(source) {
        Ok(compiled) => {
            for (_, span) in &compiled.subflow_refs {
                assert!(source.get(span.start..span.end).is_some());
            }
            compiled.warnings
        }
        Err(diagnostics) => diagnostics,
    };
    for found in &diagnostics {
        assert!(source.get(found.span.start..found.span.end).is_some(), "{found:?}");
        let before = &source[..found.span.start];
        assert_eq!(found.span.line as usize, before.matches('\n').count() + 1);
        let line = before.rfind('\n').map_or(0, |at| at + 1);
        assert_eq!(found.span.column as usize, source[line..found.span.start].chars().count() + 1);
        found.to_json();
    }
    assert!(diagnostics.windows(2).all(|pair| pair[0].span.start <= pair[1].span.start));
    render(&diagnostics, "flow.yaml", source, true);
}

/// Pieces that flows are made of, right and wrong.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(vec![
            "id: a\n", "namespace: n\n", "tasks:\n", "  - id: b\n", "    type: log.Log\n", "    message: \"{{ ",
            "inputs.x", " }}\"\n", "    type: flow.If\n", "    condition: ", "    then:\n", "      - ", "{{", "}}",
            "|\n", ">-\n", "'", "\"", "\\", "\t", "&a ", "*a", "!t ", "? ", ": ", "- ", "[", "]", "{", "}", "---\n",
            "...\n", "%YAML 1.2\n", "#", "\r\n", "é", "\u{feff}", "\u{2028}", "0777", "triggers:\n",
            "    cron: \"*/5 * * * *\"\n", "    type: trigger.Schedule\n", "idempotency: {key: x}\n", "lane: {busy: ",
            "<<: ", "    retry: {type: constant, interval: PT1S}\n", "outputs.b", "\u{0}",
        ]).prop_map(str::to_owned),
        1 => ".{0,12}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text(source in "(?s).{0,200}") {
        sound(&source);
    }

    #[test]
    fn texts_like_flows(pieces in prop::collection::vec(piece(), 0..40)) {
        sound(&pieces.concat());
    }

    #[test]
    fn a_flow_with_one_mark_changed(at in 0usize..FULL.len(), text in piece(), cut in 0usize..6) {
        let at = (0..=at).rev().find(|at| FULL.is_char_boundary(*at)).unwrap_or(0);
        let end = (at + cut..=FULL.len()).find(|end| FULL.is_char_boundary(*end)).unwrap_or(FULL.len());
        sound(&format!("{}{text}{}", &FULL[..at], &FULL[end..]));
    }

    #[test]
    fn cron_and_duration_fields(cron in "[0-9*/,LW#@a-z -]{0,20}", zone in "[A-Za-z/_]{0,12}") {
        let cron = cron.replace('\'', "");
        sound(&crate::with(&format!(
            "triggers:\n  - id: t\n    type: trigger.Schedule\n    cron: '{cron}'\n    timezone: '{zone}'\n    lateMaximumDelay: '{cron}'\n"
        )));
    }
}

const FULL: &str = include_str!("full.yaml");

#[test]
fn compiling_is_repeatable_and_the_ir_survives_its_json() {
    let (first, second) = (accept(FULL).flow, accept(FULL).flow);
    assert_eq!(first, second);
    let json = serde_json::to_string(&first).expect("the IR is JSON");
    let back: semel_core::ir::Flow = serde_json::from_str(&json).expect("the IR reads its own JSON");
    assert_eq!(first, back);
}

#[test]
fn a_prefix_of_a_flow_is_sound() {
    for end in (0..=FULL.len()).filter(|end| FULL.is_char_boundary(*end)) {
        sound(&FULL[..end]);
    }
    let tiny = Limits { yaml_nodes_max: 1, ..Limits::default() };
    assert!(compile(FULL, &catalog::TEST, &tiny).is_err());
}
