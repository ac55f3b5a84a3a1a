//! Expressions inside the YAML: parsing them, and finding where in their text a name stands.

use semel_expr::{References, SyntaxError, Template};
use std::ops::Range;

/// How far after a root the parts of its path are looked at.
const PATH_BYTES_MAX: usize = 200;

/// Whether rendering could change a text.
pub(crate) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

/// Parses a template and tells what it refers to.
pub(crate) fn parse(text: &str) -> Result<References, SyntaxError> {
    Template::parse(text).map(|template| template.references())
}

/// A variable as written: `root` or `root.member` or `root['member']`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Path {
    pub root: String,
    pub root_at: Range<usize>,
    pub member: Option<(String, Range<usize>)>,
    /// Whether a later part of the path is called `outputs`, as in `parents[0].outputs`.
    pub reaches_outputs: bool,
}

/// The variables written in a template, in order. It may list more than the parser counts (locals, say), never less:
/// the parser decides what is a reference, this only says where it stands.
pub(crate) fn paths(text: &str) -> Vec<Path> {
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(open) = text[rest..].find('{').map(|at| rest + at) {
        let close = match text.as_bytes().get(open + 1) {
            Some(b'{') => "}}",
            Some(b'%') => "%}",
            _ => {
                rest = open + 1;
                continue;
            }
        };
        rest = region(text, open + 2, close, &mut found);
    }
    found
}

/// Scans one `{{ … }}` or `{% … %}` and returns where it ends.
fn region(text: &str, start: usize, close: &str, found: &mut Vec<Path>) -> usize {
    let bytes = text.as_bytes();
    let mut at = start;
    // What stood before an identifier decides whether it is a variable.
    let mut before = b' ';
    while at < bytes.len() && !text[at..].starts_with(close) {
        let byte = bytes[at];
        if byte == b'"' || byte == b'\'' {
            at = string_end(bytes, at);
            before = b'"';
        } else if is_word_start(byte) {
            let end = word_end(bytes, at);
            if !matches!(before, b'.' | b'|') && next_visible(bytes, end) != Some(b'(') {
                found.push(path(text, at..end));
            }
            at = end;
            before = b'a';
        } else {
            if !byte.is_ascii_whitespace() {
                before = byte;
            }
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    (at + close.len()).min(text.len())
}

fn path(text: &str, root_at: Range<usize>) -> Path {
    let bytes = text.as_bytes();
    let root = text[root_at.clone()].to_owned();
    let member = match bytes.get(root_at.end) {
        Some(b'.') if bytes.get(root_at.end + 1).is_some_and(|byte| is_word_start(*byte)) => {
            let start = root_at.end + 1;
            let at = start..word_end(bytes, start);
            Some((text[at.clone()].to_owned(), at))
        }
        Some(b'[') if matches!(bytes.get(root_at.end + 1), Some(b'"' | b'\'')) => {
            let start = root_at.end + 2;
            let at = start..string_end(bytes, root_at.end + 1).saturating_sub(1).max(start);
            text.get(at.clone()).map(|name| (name.to_owned(), at))
        }
        _ => None,
    };
    let tail = path_tail(&text[root_at.end..]);
    let reaches_outputs = tail.contains(".outputs") || tail.contains("'outputs'") || tail.contains("\"outputs\"");
    Path { root, root_at, member, reaches_outputs }
}

/// What follows a root, as far as it can belong to the same path. Bounded, or a text of many roots would be read
/// once for each of them.
fn path_tail(text: &str) -> &str {
    let end = text
        .char_indices()
        .find(|(at, c)| *at >= PATH_BYTES_MAX || matches!(c, ' ' | '|' | '}' | ')' | ','))
        .map_or(text.len(), |(at, _)| at);
    &text[..end]
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_'
}

fn word_end(bytes: &[u8], start: usize) -> usize {
    let tail = bytes[start..].iter().position(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    tail.map_or(bytes.len(), |length| start + length)
}

/// One past the closing quote of the string that opens at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mark = bytes[start];
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == mark => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn next_visible(bytes: &[u8], at: usize) -> Option<u8> {
    bytes.get(at..)?.iter().copied().find(|byte| !byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_where_they_stand() {
        let text = "a {{ inputs.x ~ outputs['t-1'].body | first }} {% if kv('inputs') == y %} {\"é\"";
        let names: Vec<_> = paths(text)
            .into_iter()
            .map(|path| (path.root.clone(), path.member.map(|(name, at)| (name, text[at].to_owned()))))
            .collect();
        assert_eq!(names[0], ("inputs".into(), Some(("x".into(), "x".into()))));
        assert_eq!(names[1], ("outputs".into(), Some(("t-1".into(), "t-1".into()))));
        assert!(names.iter().any(|(root, _)| root == "y"));
        assert!(!names.iter().any(|(root, _)| root == "first" || root == "kv"));
    }
}
