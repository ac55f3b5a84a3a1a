//! What the compiler has to say about a flow, and where.

use serde_json::{Value as Json, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// A place in the source text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
    /// Line of `start`, from 1.
    pub line: u32,
    /// Column of `start` in characters, from 1.
    pub column: u32,
}

/// A second place that explains the first one, such as the other task with the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    pub span: Span,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub severity: Severity,
    /// Stable: programs may match on it. All of them are in [`crate::CODES`].
    pub code: &'static str,
    pub message: String,
    pub span: Span,
    /// What would have been accepted here.
    pub expected: Option<String>,
    /// What to do about it.
    pub suggestion: Option<String>,
    pub related: Option<Related>,
}

impl Diagnostic {
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    pub fn to_json(&self) -> Json {
        let mut out = json!({
            "severity": self.severity.word(),
            "code": self.code,
            "message": self.message,
            "line": self.span.line,
            "column": self.span.column,
            "start": self.span.start,
            "end": self.span.end,
            "expected": self.expected,
            "suggestion": self.suggestion,
        });
        if let Some(related) = &self.related {
            out["related"] = json!({
                "line": related.span.line,
                "column": related.span.column,
                "message": related.message,
            });
        }
        out
    }
}

/// A finding before its place is turned into line and column.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub severity: Severity,
    pub code: &'static str,
    pub message: String,
    pub at: std::ops::Range<usize>,
    pub expected: Option<String>,
    pub suggestion: Option<String>,
    pub related: Option<(std::ops::Range<usize>, String)>,
}

impl Finding {
    pub fn error(code: &'static str, at: std::ops::Range<usize>, message: impl Into<String>) -> Finding {
        Finding {
            severity: Severity::Error,
            code,
            message: message.into(),
            at,
            expected: None,
            suggestion: None,
            related: None,
        }
    }

    pub fn warning(code: &'static str, at: std::ops::Range<usize>, message: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, ..Finding::error(code, at, message) }
    }

    pub fn expected(mut self, text: impl Into<String>) -> Finding {
        self.expected = Some(text.into());
        self
    }

    pub fn suggest(mut self, text: impl Into<String>) -> Finding {
        self.suggestion = Some(text.into());
        self
    }

    pub fn maybe_suggest(mut self, text: Option<String>) -> Finding {
        self.suggestion = text.or(self.suggestion);
        self
    }

    pub fn related(mut self, at: std::ops::Range<usize>, message: impl Into<String>) -> Finding {
        self.related = Some((at, message.into()));
        self
    }
}
