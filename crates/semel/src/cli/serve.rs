//! `semel serve`

use crate::config::{Config, Flags};
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;
use std::path::PathBuf;

/// Run the server
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel serve --dev                                    try it: no tokens, this machine only
  semel serve                                          the first start writes ./semel-data/admin.token
  semel serve --listen 0.0.0.0:8080 --config semel.toml
  semel serve --store sqlite:/var/lib/semel/semel.db

Settings come from semel.toml, then SEMEL_* variables, then flags. The first SIGTERM or Ctrl-C drains, the second ends at once.")]
pub struct Serve {
    /// Address to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where everything is kept [default: sqlite:./semel-data/semel.db]
    #[arg(long, value_name = "sqlite:PATH")]
    store: Option<String>,
    /// Directory for the store, the first token and the secret key [default: the store's, else ./semel-data]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// No tokens, a workspace by header; refused on an address that others can reach
    #[arg(long)]
    dev: bool,
    /// Configuration file [default: ./semel.toml, if there is one]
    #[arg(long, value_name = "FILE", env = "SEMEL_CONFIG", hide_env_values = true)]
    config: Option<PathBuf>,
    /// What to log: error, warn, info, debug, trace, or a filter like info,semel_engine=debug
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Write the bound address to this file once the server is ready
    #[arg(long, value_name = "FILE", hide = true)]
    port_file: Option<PathBuf>,
    /// End when stdin does, so that a server never outlives the program that started it
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

impl Serve {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        let flags = Flags {
            listen: self.listen,
            store: self.store,
            data_dir: self.data_dir,
            dev: self.dev,
            log_level: self.log_level,
        };
        let config = Config::load(self.config.as_deref(), |name| std::env::var(name).ok(), flags)?;
        let extras = crate::serve::Extras { port_file: self.port_file, until_stdin_ends: self.until_stdin_ends };
        crate::serve::run(config, extras, shell)
    }
}
