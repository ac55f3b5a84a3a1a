//! A secret of its own for every server, and the search for it wherever the server can have left it.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;

/// The secret's name in flows; [`super::post`] sends it with every call.
pub const NAME: &str = "CANARY";

/// A text that nothing else in the world contains. The letters in it are escaped by URLs and by JSON.
pub fn fresh() -> String {
    let random = || RandomState::new().hash_one(0u8);
    format!("canary/{:016x}+\"{:016x}\"", random(), random())
}

/// The forms in which a secret could be found. Of each, what stands at its ends is left out: there an encoding mixes it
/// with its neighbours.
pub fn forms(secret: &str) -> Vec<String> {
    let mut out = vec![secret.to_owned(), secret.to_uppercase(), secret.to_lowercase()];
    out.push(serde_json::to_string(secret).expect("text").trim_matches('"').to_owned());
    let percent = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    out.push(secret.bytes().map(percent).collect());
    out.push(secret.bytes().map(|byte| format!("{byte:02x}")).collect());
    for engine in [STANDARD, URL_SAFE] {
        for before in ["", "u", "us"] {
            let encoded = engine.encode(format!("{before}{secret}"));
            out.push(encoded[4..encoded.len() - 4].to_owned());
        }
    }
    out.sort();
    out.dedup();
    out
}

/// Which of the forms are in the bytes, and where.
pub fn found_in(place: &str, bytes: &[u8], secrets: &[&str]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let all = secrets.iter().flat_map(|secret| forms(secret));
    all.filter(|form| text.contains(form.as_str())).map(|form| format!("{place}: {form}")).collect()
}

/// The same for every file below a directory, but for those of these names.
pub fn found_below(directory: &Path, except: &[&str], secrets: &[&str]) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.filter_map(|entry| entry.ok().map(|entry| entry.path())) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(found_below(&path, except, secrets));
        } else if !except.contains(&name.as_str()) {
            let bytes = std::fs::read(&path).unwrap_or_default();
            found.extend(found_in(&path.display().to_string(), &bytes, secrets));
        }
    }
    found
}

#[test]
fn the_search_finds_every_form() {
    let secret = fresh();
    assert_ne!(secret, fresh());
    let hits = |text: &str| found_in("here", text.as_bytes(), &[&secret]).len();
    assert_eq!(hits("nothing"), 0);
    for before in ["", "u", "us", "user:"] {
        assert!(hits(&STANDARD.encode(format!("{before}{secret}:after"))) > 0, "{before}");
    }
    assert!(hits(&serde_json::json!({"a": secret}).to_string()) > 0);
    assert!(hits(&format!("x {secret} y")) > 0 && hits(&secret.to_uppercase()) > 0);
    let directory = tempfile::TempDir::new().expect("a directory");
    std::fs::create_dir(directory.path().join("in")).expect("a directory");
    std::fs::write(directory.path().join("in/file"), [&[0xff, 0, 0x80], secret.as_bytes(), &[0xfe]].concat())
        .expect("a file");
    assert_eq!(found_below(directory.path(), &[], &[&secret]).len(), 1);
    assert_eq!(found_below(directory.path(), &["file"], &[&secret]).len(), 0);
}
