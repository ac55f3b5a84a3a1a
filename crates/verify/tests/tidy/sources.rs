//! Sizes, module headers, names, unfinished work, `unsafe`, clocks and randomness, paths of one machine.

use crate::{files, is_test, none, sources};

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

pub fn word_findings(path: &str, text: &str, words: &[&str], why: &str) -> Vec<String> {
    let found = words.iter().flat_map(|word| places(text, word).into_iter().map(move |place| (place, *word)));
    found.map(|((line, column), word)| format!("{path}:{line}:{column}: `{word}` {why}")).collect()
}

/// Where SQLite calls back: it hands out pointers, and nobody else in a crate that is never shipped.
const MAY_BE_UNSAFE: &str = "crates/verify/src/disk/vfs.rs";

#[test]
fn nothing_is_unsafe() {
    let sources = sources();
    assert!(sources.contains_key(MAY_BE_UNSAFE), "{MAY_BE_UNSAFE} moved: name its new place here");
    let findings = sources
        .iter()
        .filter(|(path, _)| *path != MAY_BE_UNSAFE)
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

/// Each check finds what it is for.
mod checks {
    use super::*;
    use crate::one;

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
}
