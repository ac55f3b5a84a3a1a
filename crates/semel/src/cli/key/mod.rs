//! `semel key …`

mod explain;
mod list;
mod release;
mod show;

use super::with_client;
use crate::client::Connection;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::{Args, Subcommand};

/// Look at event keys, explain them, free them
#[derive(Args, Debug)]
pub struct Key {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    List(list::List),
    Show(show::Show),
    Explain(explain::Explain),
    Release(release::Release),
}

impl Key {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        let connection = &self.connection;
        match self.verb {
            Verb::List(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Show(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Explain(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Release(args) => with_client(connection, async |client| args.run(&client, shell).await),
        }
    }
}
