//! `semel token …`

mod create;
mod list;
mod revoke;

use super::with_client;
use crate::client::Connection;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::{Args, Subcommand};

/// Make and revoke access tokens
#[derive(Args, Debug)]
pub struct Token {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Create(create::Create),
    List(list::List),
    Revoke(revoke::Revoke),
}

impl Token {
    pub fn run(mut self, shell: &Shell) -> Result<Reply, Failure> {
        let workspace = if matches!(self.verb, Verb::Create(_)) { self.connection.workspace.take() } else { None };
        let connection = &self.connection;
        match self.verb {
            Verb::Create(args) => with_client(connection, async |client| args.run(&client, shell, workspace).await),
            Verb::List(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Revoke(args) => with_client(connection, async |client| args.run(&client, shell).await),
        }
    }
}
