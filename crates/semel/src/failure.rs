//! How a command ends when it does not do what was asked.

use serde_json::{Value as Json, json};

/// The table of exit codes; 0 is success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The server, a check or a run said no.
    Refused = 1,
    /// The command line or the configuration makes no sense, or names what is not there.
    Usage = 2,
    /// Nobody answered.
    Unreachable = 3,
}

/// Boxed, because failures are rare and results are returned everywhere.
#[derive(Debug)]
pub struct Failure(Box<Body>);

#[derive(Debug)]
struct Body {
    exit: Exit,
    code: String,
    message: String,
    hint: Option<String>,
    /// What was learnt before it failed: for programs in the envelope, for people on stdout.
    details: Option<Json>,
    text: Option<String>,
    /// Shown before the message, such as rendered diagnostics.
    preface: Option<String>,
}

impl Failure {
    fn new(exit: Exit, code: impl Into<String>, message: impl Into<String>) -> Failure {
        let (code, message) = (code.into(), message.into());
        Failure(Box::new(Body { exit, code, message, hint: None, details: None, text: None, preface: None }))
    }

    pub fn refused(code: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure::new(Exit::Refused, code, message)
    }

    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, "usage", message)
    }

    /// The question could not even be asked, which is not the answer no.
    pub fn cannot(code: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, code, message)
    }

    pub fn config(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, "config_invalid", message)
    }

    pub fn unreachable(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Unreachable, "unreachable", message)
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.0.hint = Some(hint.into());
        self
    }

    pub fn maybe_hint(mut self, hint: Option<String>) -> Failure {
        self.0.hint = hint.or(self.0.hint);
        self
    }

    pub fn details(mut self, details: Json) -> Failure {
        self.0.details = Some(details);
        self
    }

    pub fn text(mut self, text: impl Into<String>) -> Failure {
        self.0.text = Some(text.into());
        self
    }

    pub fn preface(mut self, preface: impl Into<String>) -> Failure {
        self.0.preface = Some(preface.into());
        self
    }

    pub fn exit(&self) -> Exit {
        self.0.exit
    }

    pub fn code(&self) -> &str {
        &self.0.code
    }

    pub fn message(&self) -> &str {
        &self.0.message
    }

    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    pub fn stdout_text(&self) -> Option<&str> {
        self.0.text.as_deref()
    }

    pub fn preface_text(&self) -> Option<&str> {
        self.0.preface.as_deref()
    }

    pub fn details_json(&self) -> Option<&Json> {
        self.0.details.as_ref()
    }

    pub fn envelope(&self) -> Json {
        let mut error = json!({ "code": self.0.code, "message": self.0.message, "hint": self.0.hint });
        if let Some(details) = &self.0.details {
            error["details"] = details.clone();
        }
        json!({ "ok": false, "error": error })
    }
}
