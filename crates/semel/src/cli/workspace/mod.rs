//! `semel workspace …`

mod create;
mod list;

use super::with_client;
use crate::client::Connection;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::{Args, Subcommand};

/// Make and list workspaces
#[derive(Args, Debug)]
pub struct Workspace {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Create(create::Create),
    List(list::List),
}

impl Workspace {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        let connection = &self.connection;
        match self.verb {
            Verb::Create(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::List(args) => with_client(connection, async |client| args.run(&client, shell).await),
        }
    }
}
