//! `semel secret …`

mod delete;
mod list;
mod set;

use super::with_client;
use crate::client::Connection;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::{Args, Subcommand};

/// Store secrets that flows read with secret('NAME')
#[derive(Args, Debug)]
pub struct Secret {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Set(set::Set),
    List(list::List),
    Delete(delete::Delete),
}

impl Secret {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        let connection = &self.connection;
        match self.verb {
            Verb::Set(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::List(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Delete(args) => with_client(connection, async |client| args.run(&client, shell).await),
        }
    }
}
