//! `semel import …`

mod conductor;
mod json_place;
mod kestra;
mod report;

use crate::client::Connection;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::{Args, Subcommand};

/// Bring flows in from another engine
#[derive(Args, Debug)]
pub struct Import {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Kestra(kestra::Kestra),
    Conductor(conductor::Conductor),
}

impl Import {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        match self.verb {
            Verb::Kestra(args) => args.run(&self.connection, shell),
            Verb::Conductor(args) => args.run(&self.connection, shell),
        }
    }
}
