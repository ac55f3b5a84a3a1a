//! Syntax errors in words an author can act on.

use crate::codes;
use crate::diagnostic::Finding;
use crate::source::Source;
use saphyr_parser::ScanError;
use std::ops::Range;

/// Turns a parser error into a finding at the place where the mistake was made, which is often before the place where
/// the parser noticed it.
pub(super) fn explain(source: &Source, error: &ScanError) -> Finding {
    let at = source.byte_of_char(error.marker().index());
    let info = error.info();
    tab(source, at, info)
        .or_else(|| template(source, at))
        .or_else(|| quote(source, at, info))
        .or_else(|| indent(source, at, info))
        .unwrap_or_else(|| {
            let message = format!("this is not YAML: {}", info.trim_start_matches("while "));
            Finding::error(codes::YAML_SYNTAX, here(source, at), message)
        })
}

/// A key that is itself a map is nearly always an expression without quotes.
pub(super) fn complex_key(source: &Source, at: Range<usize>) -> Finding {
    let before = source.text.get(..at.start).unwrap_or("");
    let opens = source.text.get(at.start..).is_some_and(|rest| rest.starts_with('{')) && before.ends_with('{');
    if opens {
        return unquoted(source, at.start - 1);
    }
    Finding::error(codes::BAD_KEY, here(source, at.start), "a key must be plain text")
}

fn unquoted(source: &Source, at: usize) -> Finding {
    let line = source.line_range(source.line_of(at));
    let value = source.text.get(at..line.end).unwrap_or("").trim_end();
    let finding = Finding::error(
        codes::UNQUOTED_TEMPLATE,
        at..at + value.len(),
        "a value that starts with `{{` must be quoted, because `{` begins a map in YAML",
    );
    finding.suggest(format!("write \"{}\"", value.replace('"', "'")))
}

fn template(source: &Source, at: usize) -> Option<Finding> {
    let line = source.line_of(at);
    // The parser may notice only on the next line.
    (line.saturating_sub(1)..=line).rev().find_map(|line| {
        let range = source.line_range(line);
        let text = &source.text[range.clone()];
        let value = text
            .find(": {{")
            .map(|at| at + 2)
            .or_else(|| text.trim_start().starts_with("- {{").then(|| text.find("{{")).flatten())?;
        Some(unquoted(source, range.start + value))
    })
}

fn tab(source: &Source, at: usize, info: &str) -> Option<Finding> {
    let line = source.line_of(at);
    // After a plain text the parser names the start of that text, and the tab is on the next line.
    let next = info.contains("tab").then_some(line + 1);
    let (range, tab) = [line, line.saturating_sub(1)].into_iter().chain(next).find_map(|line| {
        let range = source.line_range(line);
        let text = &source.text[range.clone()];
        let blank = text.len() - text.trim_start().len();
        text[..blank].find('\t').map(|tab| (range, tab))
    })?;
    let known = info.contains("tab") || source.line_of(range.start) == line;
    known.then(|| {
        let start = range.start + tab;
        let finding = Finding::error(codes::TAB, start..start + 1, "YAML is indented with spaces, and this is a tab");
        finding.suggest("replace each tab by two spaces")
    })
}

fn quote(source: &Source, at: usize, info: &str) -> Option<Finding> {
    if info.contains("quoted scalar, found unexpected") {
        return Some(unclosed(source, at));
    }
    if info.contains("escape") {
        let finding = Finding::error(codes::YAML_SYNTAX, here(source, at), "unknown escape in a double-quoted text");
        return Some(finding.suggest("write `\\\\` for a backslash, or use single quotes"));
    }
    // A quote that was forgotten swallows lines up to the next quote, and the error shows there.
    let line = source.line_of(at);
    let opened = (0..=line).rev().take(200).find_map(|line| open_quote(source, line))?;
    let close = source.text.get(opened + 1..at).and_then(|text| text.find(&source.text[opened..opened + 1]));
    (close.is_some() || info.contains("quoted")).then(|| unclosed(source, opened))
}

/// Where a line opens a quoted value that it does not close.
fn open_quote(source: &Source, line: usize) -> Option<usize> {
    let range = source.line_range(line);
    let text = &source.text[range.clone()];
    let value =
        text.find(": ").map_or_else(|| text.trim_start().trim_start_matches("- "), |at| text[at + 2..].trim_start());
    let mark = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut closed = false;
    let mut escaped = false;
    for c in value.chars().skip(1) {
        closed |= c == mark && !escaped;
        escaped = mark == '"' && c == '\\' && !escaped;
    }
    (!closed).then(|| range.start + (text.len() - value.len()))
}

fn unclosed(source: &Source, at: usize) -> Finding {
    let line = source.line_range(source.line_of(at));
    let finding = Finding::error(codes::UNCLOSED_QUOTE, at..line.end.max(at), "this quote is never closed");
    finding.suggest("close it at the end of the value; use a block (`|`) for text of several lines")
}

fn indent(source: &Source, at: usize, info: &str) -> Option<Finding> {
    if info.contains("mapping values are not allowed") {
        return Some(unexpected_colon(source, at));
    }
    if info.contains("simple key") {
        return Some(missing_colon(source, at));
    }
    let message = if info.contains("did not find expected key") || info.contains("expected '-' indicator") {
        "this line is not indented like the lines it belongs to"
    } else if info.contains("indent") {
        "the indentation of this line fits no line above it"
    } else if info.contains("block sequence entries are not allowed") {
        "a list item is not allowed here: check its indentation"
    } else if info.contains("expected ',' or '}'") {
        "a `{` is not closed with `}`, or a `,` is missing between two fields"
    } else if info.contains("expected ',' or ']'") {
        "a `[` is not closed with `]`, or a `,` is missing between two items"
    } else {
        return None;
    };
    Some(Finding::error(codes::YAML_SYNTAX, here(source, at), message))
}

/// Either the line is indented too far, or a text with a colon is not quoted.
fn unexpected_colon(source: &Source, at: usize) -> Finding {
    let line = source.line_range(source.line_of(at));
    let text = &source.text[line.clone()];
    let first = line.start + (text.len() - text.trim_start().len());
    if let Some(colon) = text.find(": ").filter(|colon| line.start + colon < at) {
        let value = line.start + colon + 2;
        let finding = Finding::error(codes::YAML_SYNTAX, value..line.end, "a text that contains `: ` must be quoted");
        let quoted = source.text.get(value..line.end).unwrap_or("").trim().replace('"', "'");
        return finding.suggest(format!("write \"{quoted}\""));
    }
    let finding = Finding::error(codes::YAML_SYNTAX, first..line.end, "this line is indented too far");
    finding.suggest("fields of the same map begin in the same column")
}

/// The parser joins a key without a colon to the lines after it, so the culprit is above the line it names.
fn missing_colon(source: &Source, at: usize) -> Finding {
    let line = source.line_of(at);
    let lacks = |line: &usize| {
        let text = source.text[source.line_range(*line)].trim();
        !text.is_empty() && !text.contains(':') && !text.starts_with('#')
    };
    let culprit = (line.saturating_sub(1)..=line).find(lacks).unwrap_or(line);
    let range = source.line_range(culprit);
    let text = &source.text[range.clone()];
    let first = range.start + (text.len() - text.trim_start().len());
    let at = if culprit == line { here(source, at) } else { first..range.end };
    Finding::error(codes::YAML_SYNTAX, at, "a `:` is missing after this key").suggest("write `key: value`")
}

/// The rest of the line, or the last line with text when the parser stopped past it.
fn here(source: &Source, at: usize) -> Range<usize> {
    let mut line = source.line_of(at).min(source.line_count().saturating_sub(1));
    let range = source.line_range(line);
    if source.text.get(at..range.end).is_some_and(|rest| !rest.trim().is_empty()) {
        return at..range.end;
    }
    while line > 0 && source.text[source.line_range(line)].trim().is_empty() {
        line -= 1;
    }
    let range = source.line_range(line);
    let text = &source.text[range.clone()];
    range.start + (text.len() - text.trim_start().len())..range.end
}
