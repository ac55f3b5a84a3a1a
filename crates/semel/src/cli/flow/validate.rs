//! `semel flow validate`

use super::source::{self, Source};
use crate::failure::Failure;
use crate::output::{Reply, Shell, say};
use clap::Args;
use semel_flow::{Diagnostic, render};
use serde_json::{Value as Json, json};
use std::path::PathBuf;

/// Check flow files without a server
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel flow validate payments.yaml
  semel flow validate flows/*.yaml --json
  cat payments.yaml | semel flow validate -

Whether a sub-flow exists is known only to a server, so that is checked by `semel flow push`.")]
pub struct Validate {
    /// Flow files; `-` reads stdin
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// What is known of one file.
struct Checked {
    source: Source,
    id: Option<String>,
    diagnostics: Vec<Diagnostic>,
}

impl Checked {
    fn errors(&self) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).count()
    }

    fn json(&self) -> Json {
        let of = |errors: bool| -> Vec<Json> {
            self.diagnostics.iter().filter(|one| one.is_error() == errors).map(Diagnostic::to_json).collect()
        };
        json!({
            "file": self.source.name,
            "workflow_id": self.id,
            "valid": self.errors() == 0,
            "errors": of(true),
            "warnings": of(false),
        })
    }

    fn line(&self) -> String {
        match (self.errors(), self.diagnostics.len()) {
            (0, 0) => format!("{}: ok", self.source.name),
            (0, warnings) => format!("{}: ok, {}", self.source.name, count(warnings, "warning")),
            (errors, _) => format!("{}: {}", self.source.name, count(errors, "error")),
        }
    }
}

impl Validate {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        let checked = self.files.iter().map(|path| source::read(path).map(check)).collect::<Result<Vec<_>, _>>()?;
        if !shell.json {
            for one in checked.iter().filter(|one| !one.diagnostics.is_empty()) {
                say(&render(&one.diagnostics, &one.source.name, &one.source.text, shell.err.0));
                say("");
            }
        }
        let data = Json::Array(checked.iter().map(Checked::json).collect());
        let text = checked.iter().map(Checked::line).collect::<Vec<_>>().join("\n");
        let (errors, bad) =
            (checked.iter().map(Checked::errors).sum(), checked.iter().filter(|one| one.errors() > 0).count());
        if errors == 0 {
            return Ok(Reply::new(data, text));
        }
        let message = format!("{} in {} of {}", count(errors, "error"), bad, count(checked.len(), "file"));
        Err(Failure::refused("flow_invalid", message).details(data).text(text))
    }
}

fn check(source: Source) -> Checked {
    match source::compile(&source) {
        Ok(compiled) => {
            let id = format!("{}:{}", compiled.flow.namespace, compiled.flow.id);
            Checked { source, id: Some(id), diagnostics: compiled.warnings }
        }
        Err(diagnostics) => Checked { source, id: None, diagnostics },
    }
}

fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}
