//! The reference page and the compiler say the same.

use crate::accept;
use semel_flow::CODES;

const PAGE: &str = include_str!("../../../../docs/reference/flow.md");

#[test]
fn every_example_of_the_page_compiles() {
    let mut count = 0;
    for block in PAGE.split("```yaml\n").skip(1) {
        let source = block.split("```").next().unwrap_or("");
        let compiled = accept(source);
        assert!(compiled.warnings.is_empty(), "{:?}\n{source}", compiled.warnings);
        count += 1;
    }
    assert!(count >= 6, "{count} examples");
}

#[test]
fn codes_and_page_match_both_ways() {
    let table = PAGE.split("## Codes").nth(1).expect("a section about codes");
    let listed: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let known: Vec<&str> = CODES.iter().map(|(code, _)| *code).collect();
    assert_eq!(listed, known);
}
