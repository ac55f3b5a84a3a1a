//! Where things are in the text: bytes, characters, lines.

use crate::diagnostic::{Diagnostic, Finding, Related, Span};
use std::ops::Range;

/// The flow text with an index of its lines.
pub(crate) struct Source<'a> {
    pub text: &'a str,
    line_starts: Vec<usize>,
    /// Byte offset of every character; `None` when all characters are one byte long.
    char_bytes: Option<Vec<usize>>,
}

impl<'a> Source<'a> {
    pub fn new(text: &'a str) -> Source<'a> {
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let char_bytes = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
        Source { text, line_starts, char_bytes }
    }

    /// The YAML parser counts characters; everything else here counts bytes.
    pub fn byte_of_char(&self, index: usize) -> usize {
        match &self.char_bytes {
            Some(bytes) => bytes.get(index).copied().unwrap_or(self.text.len()),
            None => index.min(self.text.len()),
        }
    }

    /// Zero-based line of a byte offset.
    pub fn line_of(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// Bytes of a zero-based line, without its line break.
    pub fn line_range(&self, line: usize) -> Range<usize> {
        let start = self.line_starts.get(line).copied().unwrap_or(self.text.len());
        let end = self.line_starts.get(line + 1).copied().unwrap_or(self.text.len());
        let text = self.text[start..end].trim_end_matches(['\n', '\r']);
        start..start + text.len()
    }

    pub fn line_count(&self) -> usize {
        self.line_starts.len()
    }

    /// Clamps to the text and to character boundaries, so that a span can always be sliced.
    pub fn clamp(&self, at: Range<usize>) -> Range<usize> {
        let start = self.floor(at.start);
        let end = self.floor(at.end).max(start);
        start..end
    }

    fn floor(&self, at: usize) -> usize {
        let mut at = at.min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    pub fn span(&self, at: Range<usize>) -> Span {
        let at = self.clamp(at);
        let line = self.line_of(at.start);
        let column = self.text[self.line_starts[line]..at.start].chars().count();
        Span { start: at.start, end: at.end, line: line as u32 + 1, column: column as u32 + 1 }
    }

    pub fn locate(&self, finding: Finding) -> Diagnostic {
        Diagnostic {
            severity: finding.severity,
            code: finding.code,
            message: finding.message,
            span: self.span(finding.at),
            expected: finding.expected,
            suggestion: finding.suggestion,
            related: finding.related.map(|(at, message)| Related { span: self.span(at), message }),
        }
    }
}
