//! `semel kv …`

mod delete;
mod get;
mod list;
mod set;

use super::with_client;
use crate::client::Connection;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::{Args, Subcommand};

/// Read and write the key-value store of flows
#[derive(Args, Debug)]
pub struct Kv {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Get(get::Get),
    Set(set::Set),
    Delete(delete::Delete),
    List(list::List),
}

impl Kv {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        let connection = &self.connection;
        match self.verb {
            Verb::Get(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Set(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Delete(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::List(args) => with_client(connection, async |client| args.run(&client, shell).await),
        }
    }
}
