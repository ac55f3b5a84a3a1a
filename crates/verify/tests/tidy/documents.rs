//! Links, pages nobody links to, sources they name, flows in them and in `examples/`, words we do not use.

use crate::crates::{PROOF, ROOMS};
use crate::sources::word_findings;
use crate::{files, none, pages};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROMISED_TOO_MUCH: &[&str] = &[concat!("exactly", " once"), concat!("exactly", "-once")];

/// The page without fenced blocks and code spans; lines stay where they are.
fn prose(page: &str) -> String {
    let mut fenced = false;
    let mut out = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            for (index, piece) in line.split('`').enumerate() {
                out.push_str(if index % 2 == 0 { piece } else { "" });
            }
        }
        out.push('\n');
    }
    out
}

/// Link targets as (line, target).
fn links(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(page).lines().enumerate() {
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split(')').next().unwrap_or_default();
            found.push((number + 1, target.split(' ').next().unwrap_or_default().to_owned()));
        }
    }
    found
}

/// The anchors that headings of a page get.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut fenced = false;
    let mut found = BTreeSet::new();
    for line in page.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if let Some(heading) = line.strip_prefix('#').filter(|_| !fenced) {
            let text = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = text.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
            found.insert(kept.map(|c| if c == ' ' { '-' } else { c }).collect());
        }
    }
    found
}

/// The path a link from `page` leads to, from the root.
fn resolve(page: &str, target: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn link_findings(all: &BTreeMap<String, String>, page: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (line, target) in links(text) {
        if target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let path = if file.is_empty() { page.to_owned() } else { resolve(page, file) };
        let is_directory = all.keys().any(|known| known.starts_with(&format!("{path}/")));
        match all.get(&path) {
            None if is_directory => {}
            None => findings.push(format!("{page}:{line}: {target} leads nowhere")),
            Some(there) if !anchor.is_empty() && !anchors(there).contains(anchor) => {
                findings.push(format!("{page}:{line}: {target}: no such heading there"));
            }
            Some(_) => {}
        }
    }
    findings
}

#[test]
fn links_between_documents_lead_somewhere() {
    let all = files();
    let findings = pages().iter().flat_map(|(page, text)| link_findings(&all, page, text)).collect();
    none(findings, "Write links relative to the page they stand on.");
}

/// Paths of sources that a page names in code spans: `core/src/run` or `crates/core/src/run`.
fn named_sources(page: &str) -> Vec<(usize, String)> {
    let rooms: Vec<&str> = ROOMS.iter().map(|room| room.name).chain([PROOF]).collect();
    let mut found = Vec::new();
    for (number, line) in page.lines().enumerate() {
        for span in line.split('`').skip(1).step_by(2) {
            let path = span.strip_prefix("crates/").unwrap_or(span);
            let (room, rest) = path.split_once('/').unwrap_or((path, ""));
            let inside = ["src", "tests", "migrations"].contains(&rest.split('/').next().unwrap_or_default());
            if rooms.contains(&room) && inside && !path.contains(['<', ' ', '*']) && !path.contains("000N") {
                found.push((number + 1, format!("crates/{}", path.trim_end_matches('/'))));
            }
        }
    }
    found
}

fn source_findings(all: &BTreeMap<String, String>, page: &str, text: &str) -> Vec<String> {
    let there = |path: &str| all.contains_key(path) || all.keys().any(|known| known.starts_with(&format!("{path}/")));
    let missing = named_sources(text).into_iter().filter(|(_, path)| !there(path));
    missing.map(|(line, path)| format!("{page}:{line}: {path} is not there")).collect()
}

#[test]
fn sources_that_documents_name_are_there() {
    let all = files();
    let findings = pages().iter().flat_map(|(page, text)| source_findings(&all, page, text)).collect();
    none(findings, "The code moved: say where it is now.");
}

#[test]
fn every_page_is_linked_from_another() {
    let pages = pages();
    let linked: BTreeSet<String> = pages
        .iter()
        .flat_map(|(page, text)| links(text).into_iter().map(move |(_, target)| (page, target)))
        .map(|(page, target)| resolve(page, target.split('#').next().unwrap_or_default()))
        .collect();
    let lost = pages.keys().filter(|page| page.starts_with("docs/") && !linked.contains(*page));
    none(lost.map(|page| format!("{page}: nobody finds it")).collect(), "Link it from docs/README.md.");
}

#[test]
fn documents_do_not_promise_too_much() {
    let findings = pages()
        .iter()
        .flat_map(|(page, text)| {
            word_findings(page, &text.to_lowercase(), PROMISED_TOO_MUCH, "is more than anyone can promise")
        })
        .collect();
    none(findings, "Say \"runs once per event key\" and \"effects are requested once per effect key\".");
}

#[test]
fn the_changelog_knows_this_version() {
    let all = files();
    let version = env!("CARGO_PKG_VERSION");
    assert!(all["CHANGELOG.md"].contains(&format!("## {version}")), "CHANGELOG.md has no section for {version}");
}

/// Fenced YAML blocks that are whole flows, as (line of the fence, text).
fn flow_blocks(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (number, line) in page.lines().enumerate() {
        match &mut open {
            None if line.trim_end() == "```yaml" => open = Some((number + 1, String::new())),
            None => {}
            Some(_) if line.starts_with("```") => found.extend(open.take()),
            Some((_, text)) => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    found.retain(|(_, text)| text.lines().any(|line| line.starts_with("tasks:")));
    found
}

/// The binary under test: `SEMEL_BIN`, else the one in the target directory of this test.
fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("SEMEL_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a path");
    let profile = test.parent().and_then(Path::parent).expect("target/<profile>/deps/<test>");
    let path = profile.join(format!("semel{}", std::env::consts::EXE_SUFFIX));
    assert!(path.exists(), "{} is not there: run `cargo build -p semel` first, or set SEMEL_BIN", path.display());
    path
}

/// What `semel flow validate` says of these flows; a warning counts, since people copy examples.
fn flow_findings(flows: &BTreeMap<String, String>) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(binary());
    command.args(["flow", "validate", "--json"]);
    let mut names = Vec::new();
    for (index, (name, text)) in flows.iter().enumerate() {
        let file = directory.path().join(format!("{index:03}.yaml"));
        fs::write(&file, text).expect("a file");
        command.arg(&file);
        names.push((file.to_string_lossy().into_owned(), name));
    }
    let output = command.output().expect("the binary runs");
    let answer: Json = serde_json::from_slice(&output.stdout).expect("an answer in JSON");
    let checked = answer["data"]
        .as_array()
        .or_else(|| answer["error"]["details"].as_array())
        .expect("one result per file")
        .clone();
    assert_eq!(checked.len(), flows.len(), "{answer}");
    let mut findings = Vec::new();
    for one in checked {
        let file = one["file"].as_str().unwrap_or_default();
        let name = names.iter().find(|(path, _)| path == file).map_or(file, |(_, name)| name.as_str());
        for problem in ["errors", "warnings"].iter().flat_map(|kind| one[*kind].as_array().cloned().unwrap_or_default())
        {
            findings.push(format!(
                "{name}, line {} of the flow: {}",
                problem["line"],
                problem["message"].as_str().unwrap_or_default()
            ));
        }
    }
    findings
}

#[test]
fn flows_in_the_documents_and_examples_compile() {
    let mut flows = BTreeMap::new();
    let mut examples = 0;
    for (path, text) in files() {
        if path.ends_with(".md") {
            flows.extend(flow_blocks(&text).into_iter().map(|(line, flow)| (format!("{path}:{line}"), flow)));
        } else if path.starts_with("examples/") && (path.ends_with(".yaml") || path.ends_with(".yml")) {
            examples += 1;
            flows.insert(path, text);
        }
    }
    assert!(examples >= 4, "the examples are gone");
    assert!(flows.keys().any(|name| name.starts_with("README.md")), "README.md shows no whole flow");
    none(flow_findings(&flows), "Documents show what works.");
}

/// Each check finds what it is for.
mod checks {
    use super::*;
    use crate::one;

    #[test]
    fn links_and_anchors() {
        let page = "# Two words\n[a](b.md) [c](../d.md#no-such) `[x](y.md)` [self](#two-words)\n```\n[z](z.md)\n```\n";
        let mut all =
            BTreeMap::from([("docs/p.md".to_owned(), page.to_owned()), ("d.md".to_owned(), "# Such\n".to_owned())]);
        let findings = link_findings(&all, "docs/p.md", page);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(findings[0].contains("b.md leads nowhere") && findings[1].contains("no such heading"), "{findings:?}");
        all.insert("docs/b.md".to_owned(), String::new());
        all.insert("d.md".to_owned(), "## No such\n".to_owned());
        assert_eq!(link_findings(&all, "docs/p.md", page), Vec::<String>::new());
    }

    #[test]
    fn named_files() {
        let page = "See `core/src/run`, `crates/core/src/gone.rs` and `tasks/src/types/<name>.rs`; `core` and `core/decide` are words.";
        let all = BTreeMap::from([("crates/core/src/run/mod.rs".to_owned(), String::new())]);
        one(source_findings(&all, "a.md", page), "a.md:1: crates/core/src/gone.rs");
    }

    #[test]
    fn flows() {
        let page = "```yaml\nid: a\nnamespace: b\ntasks:\n  - {id: c, type: log.Lug, message: d}\n```\n```yaml\nidempotency: {}\n```\n";
        let blocks = flow_blocks(page);
        assert_eq!(blocks.len(), 1, "a piece of a flow is not a flow");
        let good = BTreeMap::from([("good".to_owned(), blocks[0].1.replace("Lug", "Log"))]);
        assert_eq!(flow_findings(&good), Vec::<String>::new());
        let both: BTreeMap<String, String> =
            blocks.into_iter().map(|(line, text)| (format!("page:{line}"), text)).chain(good).collect();
        one(flow_findings(&both), "page:1, line 4 of the flow");
    }
}
