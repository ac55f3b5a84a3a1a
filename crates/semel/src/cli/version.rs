//! `semel version`

use crate::failure::Failure;
use crate::output::Reply;
use clap::Args;
use serde_json::json;

/// Print the version of this program
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel version
  semel version --json")]
pub struct Version {}

impl Version {
    pub fn run(self) -> Result<Reply, Failure> {
        let version = env!("CARGO_PKG_VERSION");
        let data = json!({ "version": version, "os": std::env::consts::OS, "arch": std::env::consts::ARCH });
        Ok(Reply::new(data, format!("semel {version}")))
    }
}
