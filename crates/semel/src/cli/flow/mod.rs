//! `semel flow …`

mod list;
mod push;
mod revisions;
mod show;
mod source;
mod validate;

use super::with_client;
use crate::client::Connection;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::{Args, Subcommand};

/// Check, store and look at flows
#[derive(Args, Debug)]
pub struct Flow {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Validate(validate::Validate),
    Push(push::Push),
    List(list::List),
    Show(show::Show),
    Revisions(revisions::Revisions),
}

impl Flow {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        let connection = &self.connection;
        match self.verb {
            Verb::Validate(args) => args.run(shell),
            Verb::Push(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::List(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Show(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Revisions(args) => with_client(connection, async |client| args.run(&client, shell).await),
        }
    }
}
