//! Addresses of files: `kestra:///<namespace>/<flow>/executions/<run>/<…>/<name>`, the dots of the namespace being slashes.
//!
//! An address names its run, so that whoever has one knows where to look and whose it is. Files of a namespace belong to no
//! run: `kestra:///<namespace>/_files/<…>/<name>`. They are kept as if to a run of their own, whose id is made from the
//! namespace and which never exists. Authors write them as `nsfile:///<…>/<name>`, or `nsfile://<namespace>/<…>/<name>`.

use crate::{FlowRef, Hash16, RunId};

const SCHEME: &str = "kestra://";
const OF_NAMESPACE: &str = "nsfile://";
/// What `{{ workingDir }}` and `{{ outputDir }}` are until a step has a directory.
pub const WORKING_DIRECTORY: &str = "kestra:working-directory";
pub const OUTPUT_DIRECTORY: &str = "kestra:output-directory";
const EXECUTIONS: &str = "/executions/";
const FILES: &str = "/_files/";
/// Longest name of a file, as most file systems have it.
const NAME_CHARS_MAX: usize = 200;
/// Longest name of a namespace's file, with the folders in it.
const NAME_BYTES_MAX: usize = 500;

/// The path under which all files of a run are.
pub fn home(flow: &FlowRef, run: RunId) -> String {
    format!("/{}/{}{EXECUTIONS}{run}", flow.namespace.replace('.', "/"), flow.id)
}

/// The address of a path.
pub fn address(path: &str) -> String {
    format!("{SCHEME}{path}")
}

pub fn is_address(text: &str) -> bool {
    text.starts_with("kestra:///") || text.starts_with(OF_NAMESPACE)
}

fn no_run(of: &[&[u8]]) -> RunId {
    let mut bytes = Hash16::of(of).0;
    // A run has an id of version 7.
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    RunId::from_bytes(bytes)
}

/// Where the files of a namespace are: an id that no run has, and the path before their names.
pub fn shelf(namespace: &str) -> (RunId, String) {
    let run = no_run(&[b"files of a namespace", namespace.as_bytes()]);
    (run, format!("/{}{FILES}", namespace.replace('.', "/")))
}

/// Where what a working directory keeps for the next run of its flow is: an id that no run has, and a path. `home` is the
/// path of a step's files, which begins with that of its flow.
pub fn cache(home: &str, of: &str) -> (RunId, String) {
    let flow = home.find(EXECUTIONS).map_or(home, |at| &home[..at]);
    let path = format!("{flow}/_cache/{}", written(&of.replace('/', "%")));
    (no_run(&[b"what a working directory keeps", path.as_bytes()]), path)
}

/// Whether this is no run, but the place of a namespace's files.
pub fn is_shelf(run: RunId) -> bool {
    run.as_bytes()[6] >> 4 == 8
}

/// The path of a namespace's file; `None` for what is no name of one.
pub fn path_on_shelf(namespace: &str, name: &str) -> Option<(RunId, String)> {
    let name = plain_name(name)?;
    let (run, prefix) = shelf(namespace);
    let path = format!("{prefix}{}", written(&name));
    // One that looks like the address of a run's file would not be found again.
    let comes_back = parse(&address(&path)).is_some_and(|(found, _)| found == run);
    comes_back.then_some((run, path))
}

/// The name that a file has in its namespace.
pub fn name_on_shelf(namespace: &str, path: &str) -> Option<String> {
    read_back(path.strip_prefix(&shelf(namespace).1)?)
}

/// A name without what leads nowhere: `a/b` for `/a/./b`. `None` for one that leads out, or to nothing.
pub fn plain_name(name: &str) -> Option<String> {
    let parts: Vec<&str> = name.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    let leads_out = parts.contains(&"..") || name.contains(['\0', '\\']);
    (!leads_out && !parts.is_empty() && name.len() <= NAME_BYTES_MAX).then(|| parts.join("/"))
}

/// What an author means by `nsfile:///name` in a flow of this namespace, or by `nsfile://namespace/name`.
pub fn of_namespace(text: &str, own: &str) -> Option<(String, String)> {
    let (namespace, name) = text.strip_prefix(OF_NAMESPACE)?.split_once('/')?;
    let namespace = if namespace.is_empty() { own } else { namespace };
    Some((namespace.to_owned(), plain_name(name)?))
}

/// An address as it is kept: that of a namespace's file names its namespace.
pub fn settled(text: &str, own: &str) -> Option<String> {
    if !text.starts_with(OF_NAMESPACE) {
        return Some(text.to_owned());
    }
    let (namespace, name) = of_namespace(text, own)?;
    Some(address(&path_on_shelf(&namespace, &name)?.1))
}

/// Each byte that an address could not hold as `%` and its digits.
fn written(name: &str) -> String {
    let mut safe = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' | b'/' => safe.push(char::from(byte)),
            other => safe.push_str(&format!("%{other:02X}")),
        }
    }
    safe
}

fn read_back(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// The run that an address names, or the shelf, and the path.
pub fn parse(address: &str) -> Option<(RunId, &str)> {
    let path = address.strip_prefix(SCHEME).filter(|path| path.starts_with('/'))?;
    let is_plain = |part: &str| !matches!(part, "" | "." | "..");
    if !path[1..].split('/').all(is_plain) {
        return None;
    }
    // A namespace or flow may be called so too: the first one that is followed by an id counts.
    let mut places = path.match_indices(EXECUTIONS).map(|(at, _)| &path[at + EXECUTIONS.len()..]);
    let run = places.find_map(|rest| rest.split_once('/')?.0.parse().ok()).filter(|run| !is_shelf(*run));
    run.or_else(|| of_shelf(path)).map(|run| (run, path))
}

fn of_shelf(path: &str) -> Option<RunId> {
    let namespace = path.find(FILES).map(|at| &path[..at])?.strip_prefix('/')?;
    Some(shelf(&namespace.replace('/', ".")).0)
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
    fn a_file_of_a_namespace_is_on_its_shelf() {
        let (run, path) = path_on_shelf("company.team", "/sql/my query.sql").unwrap();
        assert_eq!(path, "/company/team/_files/sql/my%20query.sql");
        assert_eq!(parse(&address(&path)), Some((run, path.as_str())));
        assert_eq!(name_on_shelf("company.team", &path).as_deref(), Some("sql/my query.sql"));
        assert_eq!(name_on_shelf("company", &path), None);
        assert!(is_shelf(run) && !is_shelf(RunId::from_bytes([0x70; 16])));
        assert_ne!(shelf("company").0, run);
        for name in ["", "/", ".", "../x", "a/../b", "a\0b", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert_eq!(path_on_shelf("a", name), None, "{name}");
        }
        assert_eq!(path_on_shelf("a", &format!("executions/{}/x", RunId::from_bytes([0x70; 16]))), None);
        // Nobody reaches a shelf as if it were a run.
        assert_eq!(parse(&format!("kestra:///a/b/executions/{run}/c")), None);
    }

    #[test]
    fn what_a_working_directory_keeps_is_its_flow_s() {
        let place = |run: u8, of: &str| {
            cache(&format!("{}/tasks/dir/1f", home(&FlowRef::new("a.b", "f"), RunId::from_bytes([run; 16]))), of)
        };
        assert_eq!(place(1, "dir"), place(2, "dir"));
        assert_ne!(place(1, "dir").0, place(1, "dir/x").0);
        assert!(is_shelf(place(1, "dir").0));
        assert_eq!(place(1, "dir/x y").1, "/a/b/f/_cache/dir%25x%20y");
    }

    #[test]
    fn authors_name_files_of_a_namespace_in_short() {
        for (text, kept) in [
            ("nsfile:///a/b.txt", Some("kestra:///own/_files/a/b.txt")),
            ("nsfile://x.y/b.txt", Some("kestra:///x/y/_files/b.txt")),
            ("nsfile://x.y", None),
            ("nsfile:///../b", None),
            ("kestra:///own/_files/b", Some("kestra:///own/_files/b")),
        ] {
            assert_eq!(settled(text, "own").as_deref(), kept, "{text}");
        }
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
