//! `semel completions`

use crate::failure::Failure;
use crate::output::Reply;
use clap::{Args, CommandFactory};
use clap_complete::Shell as Kind;
use serde_json::json;

/// Print a completion script for your shell
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel completions bash > ~/.local/share/bash-completion/completions/semel
  semel completions zsh > ~/.zfunc/_semel
  semel completions fish > ~/.config/fish/completions/semel.fish")]
pub struct Completions {
    #[arg(value_name = "SHELL")]
    kind: Kind,
}

impl Completions {
    pub fn run(self) -> Result<Reply, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.kind, &mut super::Cli::command(), "semel", &mut script);
        let script = String::from_utf8_lossy(&script).into_owned();
        Ok(Reply::new(json!({ "shell": self.kind.to_string(), "script": script }), script.clone()))
    }
}
