//! What a command prints: data on stdout, talk on stderr, one envelope with `--json`.

use crate::failure::Failure;
use serde_json::{Value as Json, json};
use std::io::{self, IsTerminal, Write};

/// What a successful command has to say, in both forms.
#[derive(Debug)]
pub struct Reply {
    pub data: Json,
    pub meta: Json,
    /// For people, on stdout.
    pub text: String,
    /// For people, on stderr.
    pub note: Option<String>,
    /// The command has printed all of it already.
    printed: bool,
}

impl Reply {
    pub fn new(data: Json, text: impl Into<String>) -> Reply {
        Reply { data, meta: json!({}), text: text.into(), note: None, printed: false }
    }

    /// For commands that keep going after they have said what they had to say.
    pub fn already_printed() -> Reply {
        Reply { printed: true, ..Reply::new(Json::Null, "") }
    }

    pub fn meta(mut self, meta: Json) -> Reply {
        self.meta = meta;
        self
    }

    pub fn note(mut self, note: impl Into<String>) -> Reply {
        self.note = Some(note.into());
        self
    }

    pub fn maybe_note(mut self, note: Option<String>) -> Reply {
        self.note = note.or(self.note);
        self
    }

    pub fn envelope(&self) -> Json {
        json!({ "ok": true, "data": self.data, "meta": self.meta })
    }
}

/// How to print: asked once, at the start.
#[derive(Clone, Copy, Debug)]
pub struct Shell {
    pub json: bool,
    /// Stdout is a terminal: tables for people rather than tab-separated lines.
    pub terminal: bool,
    pub out: Paint,
    pub err: Paint,
    /// Stderr is a terminal: bars may move, and a first token may be shown.
    pub interactive: bool,
}

impl Shell {
    pub fn detect(json: bool) -> Shell {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let (terminal, interactive) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Shell { json, terminal, out: Paint(terminal && !plain), err: Paint(interactive && !plain), interactive }
    }

    /// Prints the outcome and gives the exit code.
    pub fn finish(&self, outcome: Result<Reply, Failure>) -> u8 {
        let (printed, code) = match &outcome {
            Ok(reply) => (self.print_reply(reply), 0),
            Err(failure) => (self.print_failure(failure), failure.exit() as u8),
        };
        match printed {
            Ok(()) => code,
            // Whoever read our output has seen enough; that is their choice, not an error.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Err(_) => 1,
        }
    }

    pub fn print_reply(&self, reply: &Reply) -> io::Result<()> {
        if reply.printed {
            return Ok(());
        }
        if self.json {
            return print_line(&reply.envelope().to_string());
        }
        print_line(&reply.text)?;
        if let Some(note) = &reply.note {
            say(note);
        }
        Ok(())
    }

    fn print_failure(&self, failure: &Failure) -> io::Result<()> {
        if self.json {
            return print_line(&failure.envelope().to_string());
        }
        if let Some(text) = failure.stdout_text() {
            print_line(text)?;
        }
        if let Some(preface) = failure.preface_text() {
            say(preface);
        }
        say(&format!("{} {}", self.err.red("error:"), failure.message()));
        if let Some(hint) = failure.hint_text() {
            say(&format!("{} {hint}", self.err.cyan("hint:")));
        }
        Ok(())
    }
}

/// Data. Nothing is printed for an empty text, so that scripts see an empty output.
pub fn print_line(text: &str) -> io::Result<()> {
    let text = text.trim_end_matches('\n');
    if text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Talk. There is no one left to tell when stderr is closed.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", text.trim_end_matches('\n'));
}

/// ANSI colours, or none.
#[derive(Clone, Copy, Debug)]
pub struct Paint(pub bool);

impl Paint {
    fn wrap(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub fn red(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    pub fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    pub fn cyan(self, text: &str) -> String {
        self.wrap("36", text)
    }
}
