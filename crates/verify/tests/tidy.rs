//! The repository checks itself.
//!
//! | what | checks |
//! |---|---|
//! | the crates | which room may use which, what stays out of the pure ones, banned packages |
//! | the sources | sizes, module headers, names, unfinished work, `unsafe`, clocks and randomness |
//! | the documents | links, pages nobody links to, flows in them and in `examples/`, words we do not use |
//!
//! A check is a function from text to findings, so that each is shown below to find what it is
//! for: a check that cannot fail is worse than none.

use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

// ---------------------------------------------------------------- the tables

/// One room: which of our crates it uses, and which more its tests may use.
struct Room {
    name: &'static str,
    uses: &'static [&'static str],
    tests_may_use: &'static [&'static str],
}

/// Every edge between our crates. A new one is a decision: change ARCHITECTURE.md with it.
const ROOMS: &[Room] = &[
    Room { name: "core", uses: &[], tests_may_use: &[] },
    Room { name: "expr", uses: &[], tests_may_use: &[] },
    Room { name: "flow", uses: &["core", "expr"], tests_may_use: &[] },
    Room { name: "store", uses: &["core"], tests_may_use: &[] },
    Room { name: "store-sqlite", uses: &["core", "store"], tests_may_use: &[] },
    Room { name: "tasks", uses: &["core"], tests_may_use: &[] },
    Room { name: "engine", uses: &["core", "expr", "flow", "store", "tasks"], tests_may_use: &[] },
    Room { name: "server", uses: &["core", "engine", "flow", "store"], tests_may_use: &["store-sqlite", "tasks"] },
    Room {
        name: "semel",
        uses: &["core", "engine", "flow", "server", "store", "store-sqlite", "tasks"],
        tests_may_use: &[],
    },
];

/// Shown to nobody, so it may see everything; nobody may see it.
const PROOF: &str = "verify";

/// Packages that stay out of a room, and out of every room it uses.
const KEPT_OUT: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "tokio",
            "tokio-util",
            "futures-util",
            "async-trait",
            "rusqlite",
            "reqwest",
            "hyper",
            "axum",
            "rand",
            "tracing",
        ],
    ),
    (
        "expr",
        &[
            "tokio",
            "tokio-util",
            "futures-util",
            "async-trait",
            "rusqlite",
            "reqwest",
            "hyper",
            "axum",
            "rand",
            "tracing",
        ],
    ),
    (
        "flow",
        &[
            "tokio",
            "tokio-util",
            "futures-util",
            "async-trait",
            "rusqlite",
            "reqwest",
            "hyper",
            "axum",
            "rand",
            "tracing",
        ],
    ),
    ("store", &["tokio", "rusqlite", "tokio-postgres", "reqwest", "hyper", "axum", "rand"]),
    ("store-sqlite", &["tokio", "reqwest", "hyper", "axum"]),
    ("tasks", &["axum", "rusqlite", "tokio-postgres"]),
    ("engine", &["axum", "hyper", "rusqlite", "tokio-postgres"]),
    ("server", &["rusqlite", "tokio-postgres"]),
];

/// Not even through a dependency: unsound, unmaintained, or a second C toolchain.
const BANNED_PACKAGES: &[&str] = &["serde_yaml", "serde_yml", "libyml", "openssl-sys", "native-tls", "aws-lc-sys"];

/// Lines of a source file, tests included, and without them.
const LINES_MAX: usize = 900;
const LINES_GOAL: usize = 700;
/// Files above the goal. Take a row out when the file is split; add none.
const ABOVE_GOAL: &[&str] = &["crates/engine/src/driver/mod.rs"];
/// A longer module says at its top what it is for.
const HEADER_FROM: usize = 200;

const BANNED_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc"];

/// Time and chance reach these only as arguments.
const PURE_SOURCES: &[&str] =
    &["crates/core/src/", "crates/expr/src/", "crates/flow/src/", "crates/store/src/", "crates/engine/src/"];
/// The one place where the engine's ports meet the machine.
const PORTS: &str = "crates/engine/src/system.rs";
const CLOCK_AND_CHANCE: &[&str] = &[
    "SystemTime",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "rand::",
    "thread_rng",
    "getrandom",
    "new_v4",
    "now_v7",
    "RandomState",
];

/// What is decided must not depend on the order of a hash.
const ORDERED_SOURCES: &[&str] = &["crates/core/src/", "crates/store/src/", "crates/engine/src/"];

// Written in two halves, so that this file does not find itself.
const UNFINISHED: &[&str] = &[
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("db", "g!"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
];
const MACHINE_PATHS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/Use", "rs/"), concat!("/va", "r/folders/")];
const PROMISED_TOO_MUCH: &[&str] = &[concat!("exactly", " once"), concat!("exactly", "-once")];

// ---------------------------------------------------------------- the repository

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

// ---------------------------------------------------------------- the crates

struct Package {
    /// Ours without the prefix `semel-`.
    name: String,
    uses: BTreeSet<String>,
    tests_use: BTreeSet<String>,
    features: Vec<(String, String)>,
}

fn short(name: &str) -> String {
    name.strip_prefix("semel-").unwrap_or(name).to_owned()
}

fn packages() -> Vec<Package> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Json = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
    metadata["packages"].as_array().expect("packages").iter().map(package).collect()
}

fn package(json: &Json) -> Package {
    let mut package = Package {
        name: short(json["name"].as_str().expect("a name")),
        uses: BTreeSet::new(),
        tests_use: BTreeSet::new(),
        features: vec![],
    };
    for dependency in json["dependencies"].as_array().expect("dependencies") {
        let name = short(dependency["name"].as_str().expect("a name"));
        for feature in dependency["features"].as_array().into_iter().flatten() {
            package.features.push((name.clone(), feature.as_str().unwrap_or_default().to_owned()));
        }
        match dependency["kind"].as_str() {
            Some("dev") => package.tests_use.insert(name),
            _ => package.uses.insert(name),
        };
    }
    package
}

fn edge_findings(packages: &[Package]) -> Vec<String> {
    let ours: BTreeSet<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    let mut findings = Vec::new();
    for package in packages.iter().filter(|p| p.name != PROOF) {
        let Some(room) = ROOMS.iter().find(|room| room.name == package.name) else {
            findings.push(format!("`{}` has no row in ROOMS", package.name));
            continue;
        };
        for used in package.uses.iter().filter(|name| ours.contains(name.as_str())) {
            if !room.uses.contains(&used.as_str()) {
                findings.push(format!("`{}` must not use `{used}`", room.name));
            }
        }
        for used in package.tests_use.iter().filter(|name| ours.contains(name.as_str())) {
            if !room.uses.contains(&used.as_str()) && !room.tests_may_use.contains(&used.as_str()) {
                findings.push(format!("tests of `{}` must not use `{used}`", room.name));
            }
        }
        for named in room.uses.iter().filter(|named| !package.uses.contains(**named)) {
            findings.push(format!("`{}` no longer uses `{named}`: take it out of ROOMS", room.name));
        }
    }
    findings.extend(
        ROOMS
            .iter()
            .filter(|room| !ours.contains(room.name))
            .map(|room| format!("`{}` is in ROOMS and nowhere else", room.name)),
    );
    findings
}

#[test]
fn dependencies_between_our_crates_point_one_way() {
    none(edge_findings(&packages()), "The rule is in ARCHITECTURE.md, \"The rooms\"; the table is ROOMS in this file.");
}

/// What a room uses, directly or through our other rooms, by the name of who brings it in.
fn reach<'p>(packages: &'p [Package], room: &str, seen: &mut BTreeMap<&'p str, &'p str>) {
    let Some(package) = packages.iter().find(|p| p.name == room) else { return };
    for used in &package.uses {
        if seen.insert(used, &package.name).is_none() {
            reach(packages, used, seen);
        }
    }
}

fn kept_out_findings(packages: &[Package]) -> Vec<String> {
    let mut findings = Vec::new();
    for (room, kept_out) in KEPT_OUT {
        let mut seen = BTreeMap::new();
        reach(packages, room, &mut seen);
        for (used, by) in seen.iter().filter(|(used, _)| kept_out.contains(used)) {
            findings.push(format!("`{used}` must stay out of `{room}`; `{by}` brings it in"));
        }
    }
    findings
}

#[test]
fn pure_rooms_stay_pure_and_the_engine_sees_no_server_and_no_database() {
    none(kept_out_findings(&packages()), "Return it as data and let an outer room do it.");
}

/// (name, names of what it depends on) of every package in the lock file, tests' included.
fn locked(lock: &str) -> Vec<(String, Vec<String>)> {
    let quoted = |line: &str| line.split('"').nth(1).map(|text| text.split(' ').next().unwrap_or_default().to_owned());
    let mut packages: Vec<(String, Vec<String>)> = Vec::new();
    for line in lock.lines() {
        if line.starts_with("name = ") {
            packages.push((quoted(line).unwrap_or_default(), vec![]));
        } else if line.starts_with(" \"")
            && let (Some((_, uses)), Some(name)) = (packages.last_mut(), quoted(line))
        {
            uses.push(name);
        }
    }
    packages
}

fn banned_findings(lock: &str) -> Vec<String> {
    let packages = locked(lock);
    let users = |banned: &str| -> Vec<String> {
        packages.iter().filter(|(_, uses)| uses.iter().any(|u| u == banned)).map(|(name, _)| name.clone()).collect()
    };
    let mut findings: Vec<String> = packages
        .iter()
        .filter(|(name, _)| BANNED_PACKAGES.contains(&name.as_str()))
        .map(|(name, _)| format!("`{name}` is banned; used by {}", users(name).join(", ")))
        .collect();
    // Whatever the core's own dependencies bring along must be as quiet as the core.
    let mut open = vec!["semel-core".to_owned()];
    let mut seen = BTreeSet::new();
    while let Some(name) = open.pop() {
        if ["tokio", "rusqlite", "reqwest", "hyper", "mio"].contains(&name.as_str()) {
            findings.push(format!("`semel-core` reaches `{name}`"));
        }
        if seen.insert(name.clone()) {
            open.extend(packages.iter().filter(|(n, _)| *n == name).flat_map(|(_, uses)| uses.clone()));
        }
    }
    findings
}

#[test]
fn no_banned_package_is_in_the_lock_file() {
    none(banned_findings(&files()["Cargo.lock"]), "Choose another package, or features that leave it out.");
}

#[test]
fn numbers_are_not_of_arbitrary_precision() {
    let asked: Vec<String> = packages()
        .into_iter()
        .flat_map(|p| p.features.into_iter().map(move |(name, feature)| (p.name.clone(), name, feature)))
        .filter(|(_, name, feature)| name == "serde_json" && feature == "arbitrary_precision")
        .map(|(package, _, _)| format!("`{package}` asks for it"))
        .collect();
    none(asked, "Fingerprints and untagged numbers depend on plain ones.");
    // Any package may switch a feature on for all; with this one the text would be a number.
    assert!(
        serde_json::from_str::<Json>("1e400").is_err(),
        "some dependency switches serde_json/arbitrary_precision on"
    );
}

// ---------------------------------------------------------------- the sources

/// The text with comments and the insides of literals blanked out; lines stay where they are.
fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out: Vec<u8> = Vec::with_capacity(bytes.len());
    let mut at = 0;
    let word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = if rest.starts_with(b"//") {
            at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            at + block_comment(rest)
        } else if !word(at.checked_sub(1).and_then(|i| bytes.get(i))) && raw_string(rest).is_some() {
            at + raw_string(rest).unwrap_or(1)
        } else if rest[0] == b'"' {
            at + quoted(rest, b'"')
        } else if rest[0] == b'\'' && (rest.get(1) == Some(&b'\\') || rest.get(2) == Some(&b'\'')) {
            at + quoted(rest, b'\'')
        } else {
            out.push(rest[0]);
            at += 1;
            continue;
        };
        out.extend(bytes[at..end].iter().map(|b| if *b == b'\n' { b'\n' } else { b' ' }));
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Length of `r"…"`, `r#"…"#`, `br"…"` at the start.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let prefix = if rest.starts_with(b"br") { 2 } else { usize::from(rest.starts_with(b"r")) };
    let hashes = rest.get(prefix..)?.iter().take_while(|b| **b == b'#').count();
    let open = prefix + hashes;
    if prefix == 0 || rest.get(open) != Some(&b'"') {
        return None;
    }
    let close: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let inside = &rest[open + 1..];
    let length = inside.windows(close.len()).position(|window| window == close)?;
    Some(open + 1 + length + close.len())
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b if b == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Where `needle` stands as a word of its own, as (line, column), both from 1.
fn places(text: &str, needle: &str) -> Vec<(usize, usize)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let first_is_word = needle.chars().next().is_some_and(is_word);
    let last_is_word = needle.chars().last().is_some_and(is_word);
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices(needle) {
            let before = line[..at].chars().next_back().is_some_and(is_word) && first_is_word;
            let after = line[at + needle.len()..].chars().next().is_some_and(is_word) && last_is_word;
            if !before && !after {
                found.push((number + 1, at + 1));
            }
        }
    }
    found
}

fn word_findings(path: &str, text: &str, words: &[&str], why: &str) -> Vec<String> {
    let found = words.iter().flat_map(|word| places(text, word).into_iter().map(move |place| (place, *word)));
    found.map(|((line, column), word)| format!("{path}:{line}:{column}: `{word}` {why}")).collect()
}

#[test]
fn nothing_is_unsafe() {
    let findings = sources()
        .iter()
        .flat_map(|(path, text)| word_findings(path, &code_only(text), &["unsafe"], "is not used here"))
        .collect();
    none(findings, "Use a well-kept package that has it inside.");
}

#[test]
fn nothing_is_left_unfinished() {
    let findings =
        sources().iter().flat_map(|(path, text)| word_findings(path, text, UNFINISHED, "was left behind")).collect();
    none(findings, "A thing is there whole, or refused and listed in docs/not-built.md.");
}

#[test]
fn time_and_chance_come_through_the_ports() {
    let pure = |path: &str| PURE_SOURCES.iter().any(|start| path.starts_with(start)) && path != PORTS && !is_test(path);
    let sources = sources();
    assert!(sources.contains_key(PORTS), "{PORTS} moved: name its new place here");
    let findings = sources
        .iter()
        .filter(|(path, _)| pure(path))
        .flat_map(|(path, text)| word_findings(path, &code_only(text), CLOCK_AND_CHANCE, "reads the machine"))
        .collect();
    none(findings, "Take `now` and fresh ids as arguments; the engine gets them from its ports.");
}

#[test]
fn maps_that_decide_are_ordered() {
    let findings = sources()
        .iter()
        .filter(|(path, _)| ORDERED_SOURCES.iter().any(|start| path.starts_with(start)) && !is_test(path))
        .flat_map(|(path, text)| word_findings(path, &code_only(text), &["HashMap", "HashSet"], "has no order"))
        .collect();
    none(findings, "Use BTreeMap, BTreeSet or IndexMap: the same input must always give the same result.");
}

fn size_findings(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().count();
    let goal = is_test(path) || ABOVE_GOAL.contains(&path);
    // Tests at the end of a file are read when they are needed.
    let work = text.find("#[cfg(test)]\nmod tests {").map_or(lines, |at| text[..at].lines().count());
    if lines > LINES_MAX {
        vec![format!("{path}: {lines} lines; at most {LINES_MAX}")]
    } else if work > LINES_GOAL && !goal {
        vec![format!("{path}: {work} lines without tests; at most {LINES_GOAL}")]
    } else {
        vec![]
    }
}

#[test]
fn a_file_is_read_in_one_sitting() {
    let sources = sources();
    let mut findings: Vec<String> = sources.iter().flat_map(|(path, text)| size_findings(path, text)).collect();
    findings.extend(
        ABOVE_GOAL
            .iter()
            .filter(|path| !sources.contains_key(**path))
            .map(|path| format!("{path} is gone: take it out of ABOVE_GOAL")),
    );
    none(findings, "Split it where a reader would expect the seam.");
}

fn header_findings(path: &str, text: &str) -> Vec<String> {
    let long = text.lines().count() > HEADER_FROM;
    if long && !text.starts_with("//!") { vec![format!("{path}: does not open with `//!`")] } else { vec![] }
}

#[test]
fn a_long_module_says_what_it_is_for() {
    let findings = sources().iter().flat_map(|(path, text)| header_findings(path, text)).collect();
    none(findings, "Its first lines say its purpose, its states, its invariants and what each failure does.");
}

fn name_findings(path: &str) -> Vec<String> {
    let parts = path.split('/').map(|part| part.split('.').next().unwrap_or(part));
    parts.filter(|part| BANNED_NAMES.contains(part)).map(|part| format!("{path}: `{part}` says nothing")).collect()
}

#[test]
fn names_say_what_is_inside() {
    let findings = files().keys().flat_map(|path| name_findings(path)).collect();
    none(findings, "Name it after what it does.");
}

fn path_findings(path: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let home = line
            .split(concat!("/ho", "me/"))
            .skip(1)
            .any(|rest| rest.split(['"', '\'', '`', ' ', ')']).next().unwrap_or("").contains('/'));
        // A path that begins here, not the middle of a longer one or of an address.
        let begins =
            |at: usize| !line[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || "._-~*$}/".contains(c));
        let named = MACHINE_PATHS.iter().any(|start| line.match_indices(start).any(|(at, _)| begins(at)));
        if home || named {
            findings.push(format!("{path}:{}: a path of one machine: {}", number + 1, line.trim()));
        }
    }
    findings
}

#[test]
fn no_path_of_one_machine_is_in_the_repository() {
    let findings = files().iter().flat_map(|(path, text)| path_findings(path, text)).collect();
    none(findings, "Use a path from the repository's root, or a temporary directory made by the test.");
}

// ---------------------------------------------------------------- the documents

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

// ---------------------------------------------------------------- each check finds what it is for

mod checks {
    use super::*;

    fn one(findings: Vec<String>, about: &str) {
        assert!(findings.len() == 1 && findings[0].contains(about), "expected one finding about {about}: {findings:?}");
    }

    fn names(list: &[&str]) -> BTreeSet<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The real table as packages, so that one thing can be changed.
    fn tabled() -> Vec<Package> {
        let proof =
            Package { name: PROOF.to_owned(), uses: BTreeSet::new(), tests_use: BTreeSet::new(), features: vec![] };
        let rooms = ROOMS.iter().map(|r| Package {
            name: r.name.to_owned(),
            uses: names(r.uses),
            tests_use: BTreeSet::new(),
            features: vec![],
        });
        rooms.chain([proof]).collect()
    }

    fn change(name: &str, uses: &str) -> Vec<Package> {
        let mut packages = tabled();
        for package in packages.iter_mut().filter(|p| p.name == name) {
            package.uses.insert(uses.to_owned());
        }
        packages
    }

    #[test]
    fn edges() {
        assert_eq!(edge_findings(&tabled()), Vec::<String>::new());
        one(edge_findings(&change("core", "store")), "`core` must not use `store`");
        one(edge_findings(&change("engine", "server")), "`engine` must not use `server`");
        one(edge_findings(&change("semel", PROOF)), "`semel` must not use `verify`");
        let mut tests = tabled();
        tests[0].tests_use = names(&["engine"]);
        one(edge_findings(&tests), "tests of `core` must not use `engine`");
        let mut fewer = tabled();
        fewer[2].uses = names(&["core"]);
        one(edge_findings(&fewer), "no longer uses `expr`");
        let mut more = tabled();
        more.push(Package {
            name: "console".to_owned(),
            uses: BTreeSet::new(),
            tests_use: BTreeSet::new(),
            features: vec![],
        });
        one(edge_findings(&more), "`console` has no row");
    }

    #[test]
    fn packages_kept_out() {
        assert_eq!(kept_out_findings(&tabled()), Vec::<String>::new());
        one(kept_out_findings(&change("engine", "axum")), "`axum` must stay out of `engine`");
        // What comes in further down is found at every room above.
        let below = kept_out_findings(&change("core", "tokio"));
        assert!(
            below.iter().any(|f| f.contains("out of `core`"))
                && below.iter().any(|f| f.contains("out of `flow`; `core` brings it in")),
            "{below:?}"
        );
    }

    #[test]
    fn banned_packages() {
        let lock =
            "[[package]]\nname = \"semel-core\"\ndependencies = [\n \"jiff\",\n]\n\n[[package]]\nname = \"jiff\"\n";
        assert_eq!(banned_findings(lock), Vec::<String>::new());
        let banned = lock.replace(
            "name = \"jiff\"\n",
            "name = \"jiff\"\ndependencies = [\n \"openssl-sys 0.9.1\",\n]\n\n[[package]]\nname = \"openssl-sys\"\n",
        );
        one(banned_findings(&banned), "`openssl-sys` is banned; used by jiff");
        let noisy = lock.replace("name = \"jiff\"\n", "name = \"jiff\"\ndependencies = [\n \"tokio\",\n]\n");
        one(banned_findings(&noisy), "`semel-core` reaches `tokio`");
    }

    #[test]
    fn words_in_code() {
        let hidden = "// unsafe\n/* unsafe /* unsafe */ unsafe */ let a = \"unsafe \\\" unsafe\"; let b = r#\"unsafe\"#; let c = '\"'; unsafe_code();";
        assert_eq!(places(&code_only(hidden), "unsafe"), []);
        assert!(code_only(hidden).contains("unsafe_code") && code_only(hidden).lines().count() == 2);
        one(
            word_findings(
                "a.rs",
                &code_only("fn f<'a>(x: &'a str) {\n  unsafe { g() }\n}"),
                &["unsafe"],
                "is not used",
            ),
            "a.rs:2:3",
        );
        one(
            word_findings("a.rs", &code_only("let at = jiff::Timestamp::now();"), CLOCK_AND_CHANCE, "reads"),
            "Timestamp::now",
        );
        one(word_findings("a.rs", &code_only("let n: u8 = rand::random();"), CLOCK_AND_CHANCE, "reads"), "rand::");
        assert_eq!(places(&code_only("operand::new()"), "rand::"), []);
        for word in UNFINISHED {
            one(word_findings("a.rs", &format!("fn f() {{ {word} }}"), UNFINISHED, "was left"), word);
        }
    }

    #[test]
    fn sizes_headers_and_names() {
        let long = "x\n".repeat(LINES_MAX + 1);
        one(size_findings("crates/core/tests/a.rs", &long), "at most 900");
        assert_eq!(size_findings("crates/core/tests/a.rs", &long[2..]), Vec::<String>::new());
        let work = "x\n".repeat(LINES_GOAL);
        assert_eq!(
            size_findings("crates/core/src/a.rs", &format!("{work}#[cfg(test)]\nmod tests {{\nx\n}}\n")),
            Vec::<String>::new()
        );
        one(size_findings("crates/core/src/a.rs", &format!("{work}x\n")), "701 lines without tests");
        one(header_findings("a.rs", &"x\n".repeat(HEADER_FROM + 1)), "a.rs");
        assert_eq!(header_findings("a.rs", &format!("//! Why.\n{work}")), Vec::<String>::new());
        one(name_findings("crates/core/src/utils.rs"), "`utils`");
        one(name_findings("crates/core/src/common/key.rs"), "`common`");
        assert_eq!(name_findings("crates/core/src/uncommon.rs"), Vec::<String>::new());
    }

    #[test]
    fn paths_of_one_machine() {
        for start in MACHINE_PATHS {
            one(path_findings("a.md", &format!("see `{start}project/file`")), "a path of one machine");
        }
        one(path_findings("a.md", concat!("cd /ho", "me/ada/semel")), "a path of one machine");
        let fine =
            ["GET /v1/ro", "ot/x of https://example.com/wo", "rk/1, ./wo", "rk/ and kind(\"/ho", "me/a\")"].concat();
        assert_eq!(path_findings("a.md", &fine), Vec::<String>::new());
    }

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
