//! `semel`: one binary, the server and everything that talks to it.
//!
//! A library so that the proof can read a configuration as the server does; the binary is `main.rs`.

mod bench;
mod cli;
mod client;
pub mod config;
mod demo;
pub mod failure;
mod output;
mod process;
mod serve;
mod signals;
mod table;

use std::process::ExitCode;

/// What makes this program a child that runs scripts; no command, since nobody types it.
const SCRIPT_CHILD: &str = "javascript-child";

/// The whole program.
pub fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == SCRIPT_CHILD) {
        semel_tasks::javascript::child_main();
        return ExitCode::SUCCESS;
    }
    // One process-wide provider: every TLS client of the binary uses the same cryptography.
    // An error only says that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    cli::main()
}
