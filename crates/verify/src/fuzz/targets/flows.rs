//! Flows: YAML, the same as JSON, and as users of Kestra write them.

use crate::fuzz::{Target, behaviour};
use semel_core::ir::Flow;
use semel_core::limits::Limits;
use semel_flow::{Compiled, Diagnostic, compile, render, yaml_value};
use semel_tasks::REGISTRY;
use std::collections::BTreeSet;

const WORDS: &[&str] = &[
    "id: ",
    "namespace: ",
    "tasks:\n",
    "  - id: x\n    type: log.Log\n    message: hi\n",
    "type: ",
    "inputs:\n",
    "outputs:\n",
    "triggers:\n",
    "errors:\n",
    "finally:\n",
    "variables:\n",
    "labels:\n",
    "idempotency: ",
    "lane: ",
    "retry: {type: constant, interval: PT1S, maxAttempts: 3}",
    "timeout: PT1S",
    "effect: keyed",
    "concurrency: ",
    "flow.If",
    "flow.Switch",
    "flow.ForEach",
    "flow.Parallel",
    "flow.Sequential",
    "flow.Subflow",
    "flow.Sleep",
    "http.Request",
    "kv.Set",
    "debug.Return",
    "trigger.Schedule",
    "trigger.Webhook",
    "condition: ",
    "values: ",
    "{{ inputs.x }}",
    "{{ outputs.a.value }}",
    "{{ secret('S') }}",
    "PT5S",
    "*/5 * * * *",
    "window: forever",
    "busy: queue",
    "disabled: true",
    "runIf: ",
    "allowFailure: true",
];

pub const YAML: Target = Target { name: "flow_yaml", words: WORDS, run: yaml };
pub const KESTRA: Target = Target { name: "flow_kestra", words: WORDS, run: yaml };
pub const JSON: Target = Target { name: "flow_json", words: WORDS, run: json };
pub const DATA: Target = Target { name: "yaml_data", words: &["&a", "*a", "<<: *a", "!!binary"], run: data };

fn checked(source: &str) -> Result<Compiled, Vec<Diagnostic>> {
    let outcome = compile(source, &REGISTRY, &Limits::default());
    let found = match &outcome {
        Ok(compiled) => {
            assert!(compiled.warnings.iter().all(|warning| !warning.is_error()), "a flow with an error was accepted");
            for (_, span) in &compiled.subflow_refs {
                assert!(source.get(span.start..span.end).is_some(), "{span:?} is outside the text");
            }
            &compiled.warnings
        }
        Err(found) => {
            assert!(found.iter().any(Diagnostic::is_error), "a flow without an error was refused");
            found
        }
    };
    for one in found {
        let related = one.related.iter().map(|related| related.span);
        for span in std::iter::once(one.span).chain(related) {
            assert!(source.get(span.start..span.end).is_some(), "{one:?} points outside the text");
            let before = &source[..span.start];
            assert_eq!(span.line as usize, before.matches('\n').count() + 1, "{one:?}");
        }
        assert!(semel_flow::CODES.iter().any(|known| known.0 == one.code), "{} is not a known code", one.code);
        one.to_json();
    }
    assert!(found.windows(2).all(|pair| pair[0].span.start <= pair[1].span.start), "diagnostics are not in order");
    if !found.is_empty() {
        assert!(!render(found, "flow.yaml", source, false).is_empty());
    }
    outcome
}

/// What is stored of a flow is what is run: it must read back as it was.
fn read_back(flow: &Flow) -> String {
    let printed = serde_json::to_string(flow).expect("the compiled form prints");
    let again: Flow = serde_json::from_str(&printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert_eq!(serde_json::to_string(&again).expect("the compiled form prints"), printed, "printed and read back");
    printed
}

fn kind(outcome: &Result<Compiled, Vec<Diagnostic>>) -> u64 {
    match outcome {
        Ok(compiled) => {
            let codes: BTreeSet<&str> = compiled.warnings.iter().map(|found| found.code).collect();
            let types: BTreeSet<String> =
                compiled.flow.tasks.iter().map(|task| format!("{:?}", std::mem::discriminant(&task.kind))).collect();
            let shape = (compiled.flow.inputs.len(), compiled.flow.triggers.len(), compiled.flow.lane.is_some());
            behaviour((codes, types, shape))
        }
        Err(found) => {
            let codes: BTreeSet<(&str, usize)> =
                found.iter().map(|found| (found.code, found.message.split('`').next().unwrap_or("").len())).collect();
            behaviour(codes)
        }
    }
}

fn yaml(input: &[u8]) -> u64 {
    let source = String::from_utf8_lossy(input);
    let outcome = checked(&source);
    if let Ok(compiled) = &outcome {
        read_back(&compiled.flow);
        // A compiler that gives two answers for one text would make a new revision of each push.
        let again = compile(&source, &REGISTRY, &Limits::default()).expect("compiled a moment ago");
        assert_eq!(read_back(&again.flow), read_back(&compiled.flow));
    }
    kind(&outcome)
}

/// Whether printing changes spacing alone: a number that is too long for 64 bits comes back rounded.
fn is_printed_alike(tree: &serde_json::Value, source: &str) -> bool {
    match tree {
        serde_json::Value::Number(number) => !number.is_f64() || source.contains(&number.to_string()),
        serde_json::Value::Array(items) => items.iter().all(|item| is_printed_alike(item, source)),
        serde_json::Value::Object(map) => map.values().all(|item| is_printed_alike(item, source)),
        _ => true,
    }
}

/// A flow that is JSON means the same however it is spaced.
fn json(input: &[u8]) -> u64 {
    let source = String::from_utf8_lossy(input);
    let outcome = checked(&source);
    if let Ok(compiled) = &outcome
        && let Ok(tree) = serde_json::from_str::<serde_json::Value>(&source)
        && is_printed_alike(&tree, &source)
    {
        let pretty = serde_json::to_string_pretty(&tree).expect("JSON prints");
        // The source itself is kept by nobody inside the compiled form, so only spacing differs.
        let spaced = checked(&pretty).unwrap_or_else(|found| panic!("refused when spaced: {found:?}"));
        assert_eq!(read_back(&spaced.flow), read_back(&compiled.flow), "spaced differently");
    }
    kind(&outcome)
}

fn data(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    match yaml_value(&text, &Limits::default()) {
        Ok(value) => {
            let printed = value.to_string();
            // JSON is YAML: what was read must be read again from its own print.
            match yaml_value(&printed, &Limits::default()) {
                Ok(again) => assert_eq!(again.to_string(), printed, "printed and read back"),
                Err(error) => assert!(printed.len() > text.len(), "its own print is refused: {error}: {printed}"),
            }
            let depth = printed.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count().min(8);
            behaviour((true, depth, std::mem::discriminant(&value)))
        }
        Err(error) => {
            let words: Vec<&str> = error.split(' ').skip(2).take(4).collect();
            behaviour((false, words))
        }
    }
}
