//! Addresses of files: `kestra:///<namespace>/<flow>/executions/<run>/<…>/<name>`, the dots of the namespace being slashes.
//!
//! An address names its run, so that whoever has one knows where to look and whose it is.

use crate::{FlowRef, RunId};

const SCHEME: &str = "kestra://";
const EXECUTIONS: &str = "/executions/";
/// Longest name of a file, as most file systems have it.
const NAME_CHARS_MAX: usize = 200;

/// The path under which all files of a run are.
pub fn home(flow: &FlowRef, run: RunId) -> String {
    format!("/{}/{}{EXECUTIONS}{run}", flow.namespace.replace('.', "/"), flow.id)
}

/// The address of a path.
pub fn address(path: &str) -> String {
    format!("{SCHEME}{path}")
}

pub fn is_address(text: &str) -> bool {
    text.starts_with("kestra:///")
}

/// The run that an address names, and the path.
pub fn parse(address: &str) -> Option<(RunId, &str)> {
    let path = address.strip_prefix(SCHEME).filter(|path| path.starts_with('/'))?;
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    if !path[1..].split('/').all(is_plain) {
        return None;
    }
    // A namespace or flow may be called so too: the first one that is followed by an id counts.
    let mut places = path.match_indices(EXECUTIONS).map(|(at, _)| &path[at + EXECUTIONS.len()..]);
    let run = places.find_map(|rest| rest.split_once('/')?.0.parse().ok())?;
    Some((run, path))
}

/// A name as it may stand in an address: what is not a letter, a digit or one of `._-` is written as `%` and its bytes.
pub fn safe_name(name: &str) -> String {
    // Only the last part: a name never leads anywhere else.
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let mut safe = String::new();
    for byte in last.bytes().take(NAME_CHARS_MAX) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => safe.push(char::from(byte)),
            other => safe.push_str(&format!("%{other:02X}")),
        }
    }
    if matches!(safe.as_str(), "" | "." | "..") { "file".to_owned() } else { safe }
}

/// What follows the last dot of the name in a path, with the dot.
pub fn extension(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rfind('.').map(|at| &name[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> RunId {
        RunId::from_bytes([7; 16])
    }

    #[test]
    fn an_address_leads_back_to_its_run() {
        let path = format!("{}/tasks/get/1f/data.csv", home(&FlowRef::new("company.team", "import"), run()));
        assert_eq!(path, format!("/company/team/import/executions/{}/tasks/get/1f/data.csv", run()));
        assert_eq!(parse(&address(&path)), Some((run(), path.as_str())));
    }

    #[test]
    fn a_flow_may_be_called_executions() {
        let path = format!("{}/executions/x/y", home(&FlowRef::new("a.executions", "executions"), run()));
        assert_eq!(parse(&address(&path)).map(|(found, _)| found), Some(run()));
    }

    #[test]
    fn what_is_no_address_is_none() {
        let id = run();
        for text in [
            "",
            "kestra:///",
            "kestra:///a/b/executions/c/d",
            &format!("file:///a/b/executions/{id}/d"),
            &format!("kestra://a/b/executions/{id}/d"),
            &format!("kestra:///a/b/executions/{id}"),
            &format!("kestra:///a/b/executions/{id}/"),
            &format!("kestra:///a/b/executions/{id}/../x"),
            &format!("kestra:///a//executions/{id}/x"),
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn names_are_made_safe() {
        for (name, safe) in [
            ("data.csv", "data.csv"),
            ("../../etc/passwd", "passwd"),
            ("a b\u{e9}.txt", "a%20b%C3%A9.txt"),
            ("..", "file"),
            ("", "file"),
        ] {
            assert_eq!(safe_name(name), safe);
        }
        assert!(safe_name(&"x".repeat(1_000)).len() <= NAME_CHARS_MAX);
    }

    #[test]
    fn the_extension_is_that_of_the_name() {
        assert_eq!(extension("/a.b/c"), None);
        assert_eq!(extension("/a.b/c.tar.gz"), Some(".gz"));
    }
}
