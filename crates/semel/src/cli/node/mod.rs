//! `semel node …`

mod list;

use super::with_client;
use crate::client::Connection;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::{Args, Subcommand};

/// Look at the nodes that share a store
#[derive(Args, Debug)]
pub struct Node {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    List(list::List),
}

impl Node {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        let connection = &self.connection;
        match self.verb {
            Verb::List(args) => with_client(connection, async |client| args.run(&client, shell).await),
        }
    }
}
