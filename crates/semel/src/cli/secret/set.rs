//! `semel secret set`

use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use crate::table::field;
use clap::Args;
use serde_json::json;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;

/// Store a secret, read from stdin or a file; never given as an argument, where others could see it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel secret set BANK_TOKEN < bank.token
  semel secret set BANK_TOKEN --value-file bank.token
  pass show bank | semel secret set BANK_TOKEN

One newline at the end is not part of the value.")]
pub struct Set {
    /// Name that flows use in secret('NAME')
    #[arg(value_name = "NAME")]
    name: String,
    /// File with the value
    #[arg(long, value_name = "FILE")]
    value_file: Option<PathBuf>,
}

impl Set {
    pub async fn run(self, client: &Client, _shell: &Shell) -> Result<Reply, Failure> {
        let value = self.value()?;
        let answer = client.put(&["v1", "secrets", &self.name], &json!({ "value": value })).await?;
        let text = format!("stored {} version {}", self.name, field(&answer, "version"));
        Ok(Reply::new(answer, text))
    }

    fn value(&self) -> Result<String, Failure> {
        let text = match &self.value_file {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?,
            None => stdin()?,
        };
        let value = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text)).unwrap_or(&text);
        if value.is_empty() {
            return Err(Failure::usage("the value is empty"));
        }
        Ok(value.to_owned())
    }
}

fn stdin() -> Result<String, Failure> {
    if std::io::stdin().is_terminal() {
        // A terminal would show what is typed, and keep it in its history.
        let failure = Failure::usage("the value is read from stdin, and stdin is a terminal");
        return Err(failure.hint("semel secret set NAME < FILE, or --value-file FILE"));
    }
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage(format!("cannot read stdin: {error}")))?;
    Ok(text)
}
