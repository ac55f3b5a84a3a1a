//! The repository checks itself.
//!
//! | what | checks |
//! |---|---|
//! | the crates | which room may use which, what stays out of the pure ones, banned packages |
//! | the sources | sizes, module headers, names, unfinished work, `unsafe`, clocks and randomness |
//! | the documents | links, pages nobody links to, flows in them and in `examples/`, words we do not use |
//!
//! A check is a function from text to findings, so that each is shown, in its file, to find what it is
//! for: a check that cannot fail is worse than none.

#[path = "tidy/crates.rs"]
mod crates;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/sources.rs"]
mod sources;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/verify is two below the root").to_path_buf()
}

/// Every file of the repository, as (path from the root, contents); what is not text is left out.
fn files() -> BTreeMap<String, String> {
    let root = root();
    let mut found = BTreeMap::new();
    walk(&root, &root, &mut found);
    assert!(found.contains_key("Cargo.toml") && found.len() > 100, "the walk does not find the repository");
    found
}

fn walk(root: &Path, directory: &Path, found: &mut BTreeMap<String, String>) {
    // Build directories are marked so by cargo, wherever they are.
    if directory.join("CACHEDIR.TAG").exists() {
        return;
    }
    for entry in fs::read_dir(directory).expect("a readable directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let hidden = name.starts_with('.') && ![".ci", ".config", ".gitignore"].contains(&name.as_str());
        if hidden || ["target", "semel-data"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            let short = path.strip_prefix(root).expect("below the root").to_string_lossy().replace('\\', "/");
            found.insert(short, text);
        }
    }
}

fn sources() -> BTreeMap<String, String> {
    files().into_iter().filter(|(path, _)| path.ends_with(".rs")).collect()
}

fn pages() -> BTreeMap<String, String> {
    files().into_iter().filter(|(path, _)| path.ends_with(".md")).collect()
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/")
        || path.contains("/conformance/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
}

/// Fails with every finding, not only the first.
fn none(findings: Vec<String>, what_to_do: &str) {
    assert!(findings.is_empty(), "{}\n\n{}\n\n{what_to_do}\n", plural(findings.len()), findings.join("\n"));
}

fn plural(count: usize) -> String {
    if count == 1 { "1 finding:".to_owned() } else { format!("{count} findings:") }
}

/// For the checks of checks: one finding, and about this.
fn one(findings: Vec<String>, about: &str) {
    assert!(findings.len() == 1 && findings[0].contains(about), "expected one finding about {about}: {findings:?}");
}
