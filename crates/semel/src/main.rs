//! `semel`: one binary, the server and everything that talks to it.

mod cli;
mod client;
mod config;
mod demo;
mod failure;
mod output;
mod serve;
mod signals;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    // One process-wide provider: every TLS client of the binary uses the same cryptography.
    // An error only says that there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    cli::main()
}
