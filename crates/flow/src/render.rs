//! Diagnostics as text for people.

use crate::diagnostic::{Diagnostic, Severity, Span};
use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

/// A longer line is named but not shown: no terminal has use for it.
const LINE_BYTES_MAX: usize = 2_000;
/// A label longer than this goes to a line of its own.
const LABEL_CHARS_MAX: usize = 70;

/// Prints diagnostics with the lines they are about. `source` must be the text they were made from.
pub fn render(diagnostics: &[Diagnostic], file_name: &str, source: &str, color: bool) -> String {
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    let mut out = String::new();
    for diagnostic in diagnostics {
        out.push_str(&renderer.render(&[group(diagnostic, file_name, source)]));
        out.push_str("\n\n");
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn group<'a>(diagnostic: &'a Diagnostic, file_name: &'a str, source: &'a str) -> Group<'a> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let expected = diagnostic.expected.as_deref().map(|text| format!("expected {text}"));
    let (label, note) = match expected {
        Some(text) if text.chars().count() > LABEL_CHARS_MAX => (None, Some(text)),
        short => (short, None),
    };
    let mut group = level
        .primary_title(diagnostic.message.as_str())
        .id(diagnostic.code)
        .elements(snippet(diagnostic, label, file_name, source).into_iter().collect::<Vec<_>>());
    if group.is_empty() || too_long(&diagnostic.span, source) {
        group = group.element(
            Origin::path(file_name).line(diagnostic.span.line as usize).char_column(diagnostic.span.column as usize),
        );
    }
    if let Some(note) = note {
        group = group.element(Level::NOTE.message(note));
    }
    if let Some(suggestion) = &diagnostic.suggestion {
        group = group.element(Level::HELP.message(suggestion.as_str()));
    }
    group
}

/// The line of the place, and that of the second place when there is one.
fn snippet<'a>(
    diagnostic: &'a Diagnostic,
    label: Option<String>,
    file_name: &'a str,
    source: &'a str,
) -> Option<Snippet<'a, annotate_snippets::Annotation<'a>>> {
    if too_long(&diagnostic.span, source) {
        return None;
    }
    let related = diagnostic.related.as_ref().filter(|related| !too_long(&related.span, source));
    let first = related.map_or(diagnostic.span.start, |related| related.span.start.min(diagnostic.span.start));
    let last = related.map_or(diagnostic.span.start, |related| related.span.start.max(diagnostic.span.start));
    let window = line_start(source, first)..line_end(source, last);
    let line = related.map_or(diagnostic.span.line, |related| related.span.line.min(diagnostic.span.line));
    let place = |span: &Span| {
        // Only the first line of a long value is underlined; the rest adds nothing.
        let end = span.end.min(line_end(source, span.start)).max(span.start);
        span.start - window.start..end - window.start
    };
    let mut snippet = Snippet::source(source.get(window.clone())?).line_start(line as usize).path(file_name);
    snippet = snippet.annotation(AnnotationKind::Primary.span(place(&diagnostic.span)).label(label));
    if let Some(related) = related {
        let span = place(&related.span);
        snippet = snippet.annotation(AnnotationKind::Context.span(span).label(related.message.as_str()));
    }
    Some(snippet)
}

fn too_long(span: &Span, source: &str) -> bool {
    // A span from another text must not be sliced.
    !source.is_char_boundary(span.start)
        || span.start > source.len()
        || line_end(source, span.start) - line_start(source, span.start) > LINE_BYTES_MAX
}

fn line_start(source: &str, at: usize) -> usize {
    source[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

fn line_end(source: &str, at: usize) -> usize {
    source[at..].find('\n').map_or(source.len(), |newline| at + newline)
}
