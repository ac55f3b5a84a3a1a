//! Each limit, at it and one past it.

use crate::{accept, catalog, codes, tasks, with};
use semel_core::limits::Limits;
use semel_flow::compile;
use std::fmt::Write;
use std::time::Instant;

fn codes_under(source: &str, limits: &Limits) -> Vec<&'static str> {
    match compile(source, &catalog::TEST, limits) {
        Ok(compiled) => compiled.warnings.iter().map(|found| found.code).collect(),
        Err(found) => found.iter().map(|found| found.code).collect(),
    }
}

#[test]
fn bytes() {
    let source = with("");
    let limits = Limits { flow_bytes_max: source.len(), ..Limits::default() };
    assert!(codes_under(&source, &limits).is_empty());
    let limits = Limits { flow_bytes_max: source.len() - 1, ..Limits::default() };
    assert_eq!(codes_under(&source, &limits), ["too_large"]);
}

#[test]
fn nodes() {
    // A map, five keys and values at the top, a list, a map and three more pairs.
    let source = with("");
    let exact =
        (1..100).find(|nodes| codes_under(&source, &Limits { yaml_nodes_max: *nodes, ..Limits::default() }).is_empty());
    assert_eq!(exact, Some(14));
    assert_eq!(codes_under(&source, &Limits { yaml_nodes_max: 13, ..Limits::default() }), ["too_large"]);
}

#[test]
fn depth() {
    let nested = |levels: usize| with(&format!("variables:\n  deep: {}{}\n", "[".repeat(levels), "]".repeat(levels)));
    assert!(codes(&nested(63)).is_empty());
    assert_eq!(codes(&nested(64)), ["too_large 8:72"]);
    assert_eq!(codes(&nested(10_000)).len(), 1);
}

#[test]
fn alias_bomb() {
    let mut source = with("variables:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..9 {
        let list = vec![format!("*a{}", level - 1); 10].join(", ");
        writeln!(source, "  a{level}: &a{level} [{list}]").expect("text");
    }
    let found = codes(&source);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("alias_limit"), "{found:?}");
    assert_eq!(codes(&with("variables: &v {a: *v}\n")), ["alias_limit 7:19"]);
}

#[test]
fn alias_nodes() {
    let flow = |items: usize, uses: usize| {
        let list = vec!["x"; items].join(", ");
        let aliases = vec!["*l"; uses].join(", ");
        with(&format!("variables:\n  l: &l [{list}]\n  m: [{aliases}]\n"))
    };
    assert!(codes(&flow(99, 10)).is_empty());
    assert_eq!(codes(&flow(99, 11)).len(), 1);
    assert_eq!(codes(&flow(1_000, 1)).len(), 1);
}

#[test]
fn aliases_give_the_value() {
    let flow = accept(&with("variables:\n  a: &a {x: 1}\n  b: *a\n")).flow;
    assert_eq!(flow.variables["b"]["x"], 1);
}

#[test]
fn parallel_branches() {
    let flow = |count: usize, concurrent: u32| {
        let mut list = format!("  - id: p\n    type: flow.Parallel\n    concurrent: {concurrent}\n    tasks:\n");
        for index in 0..count {
            writeln!(list, "      - {{id: t{index}, type: log.Log, message: x}}").expect("text");
        }
        tasks(&list)
    };
    assert!(codes(&flow(1_000, 0)).is_empty());
    assert_eq!(codes(&flow(1_001, 0)), ["limit 7:5"]);
    assert!(codes(&flow(1_001, 1_000)).is_empty());
    assert_eq!(codes(&flow(1, 1_001)), ["limit 6:17"]);
}

#[test]
fn retries() {
    let flow = |most: u32| with(&format!("    retry: {{type: constant, interval: PT1S, maxAttempts: {most}}}\n"));
    assert!(codes(&flow(100)).is_empty());
    assert_eq!(codes(&flow(101)).len(), 1);
    assert_eq!(codes(&flow(0)).len(), 1);
}

#[test]
fn waits_and_loops() {
    let limits = Limits { wait_ms_max: 60_000, foreach_items_max: 2, ..Limits::default() };
    let sleep = |text: &str| tasks(&format!("  - id: a\n    type: flow.Sleep\n    duration: {text}\n"));
    assert!(codes_under(&sleep("PT1M"), &limits).is_empty());
    assert_eq!(codes_under(&sleep("PT1M1S"), &limits), ["limit"]);
    let each = |values: &str| {
        tasks(&format!(
            "  - id: l\n    type: flow.ForEach\n    values: {values}\n    tasks: [{{id: a, type: log.Log, message: x}}]\n"
        ))
    };
    assert!(codes_under(&each("[1, 2]"), &limits).is_empty());
    assert_eq!(codes_under(&each("[1, 2, 3]"), &limits), ["limit"]);
    assert_eq!(codes_under(&each("'[1, 2, 3]'"), &limits), ["limit"]);
}

#[test]
fn a_long_list_of_problems_is_cut() {
    let mut source = with("");
    for index in 0..500 {
        writeln!(source, "x{index}: 1").expect("text");
    }
    let found = codes(&source);
    assert_eq!(found.len(), 101);
    assert!(found[100].starts_with("too_many_problems"));
}

#[test]
fn a_large_flow_compiles_quickly() {
    let mut list = String::new();
    let mut index = 0;
    while list.len() < 400_000 {
        writeln!(
            list,
            "  - id: t{index}\n    type: log.Log\n    message: \"{{{{ flow.id }}}} number {index}: {}\"",
            "x".repeat(120)
        )
        .expect("text");
        index += 1;
    }
    let source = tasks(&list);
    let start = Instant::now();
    let flow = accept(&source).flow;
    assert_eq!(flow.tasks.len(), index);
    // Measured at well under a second without optimisation; the bound only catches a quadratic step.
    assert!(start.elapsed().as_secs() < 120, "{:?}", start.elapsed());
}

/// Texts made to be slow: each would take minutes if a step were quadratic.
#[test]
fn hostile_texts_are_refused_quickly() {
    let start = Instant::now();
    let mut typos = with("");
    let mut declared = String::from("inputs:\n");
    for index in 0..3_000 {
        writeln!(
            typos,
            "  - {{id: t{index}, type: log.Log, message: \"{{{{ inputs.y{index} ~ outputs.z{index} }}}}\"}}"
        )
        .expect("text");
        writeln!(declared, "  - {{id: x{index}, type: STRING}}").expect("text");
    }
    assert_eq!(codes(&format!("{typos}{declared}")).len(), 101);
    let many_roots = "a[".repeat(120_000);
    let raw = with(&format!("description: x\nvariables:\n  v: \"{{% raw %}}{{{{ {many_roots} }}}}{{% endraw %}}\"\n"));
    codes(&raw);
    let never = "  - {id: tINDEX, type: trigger.Schedule, cron: \"0 0 30 2 *\"}\n";
    let triggers: String = (0..200).map(|index| never.replace("INDEX", &index.to_string())).collect();
    assert_eq!(codes(&with(&format!("triggers:\n{triggers}"))).len(), 101);
    let one_line = format!("{{id: f, namespace: n, tasks: [{}]}}", "{id: a, x: 1}, ".repeat(10_000));
    codes(&one_line);
    // A second or two without optimisation; the bound only catches a quadratic step, also on a busy machine.
    assert!(start.elapsed().as_secs() < 180, "{:?}", start.elapsed());
}
