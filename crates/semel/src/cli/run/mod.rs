//! `semel run …`

mod cancel;
mod children;
mod control;
mod delete;
mod erase;
mod list;
mod object;
mod pause;
mod release;
mod replay;
mod replays;
mod restart;
mod resume;
mod show;
mod start;
mod verdict;
mod watch;

use super::with_client;
use crate::client::Connection;
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::{Args, Subcommand};

/// Start runs, look at them, steer them
#[derive(Args, Debug)]
pub struct Run {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Start(start::Start),
    List(list::List),
    Show(show::Show),
    Watch(watch::Watch),
    Cancel(cancel::Cancel),
    Pause(pause::Pause),
    Resume(resume::Resume),
    Release(release::Release),
    #[command(visible_alias = "retry")]
    Restart(restart::Restart),
    Replay(replay::Replay),
    Verdict(verdict::Verdict),
    Delete(delete::Delete),
    Erase(erase::Erase),
    Children(children::Children),
    Replays(replays::Replays),
}

impl Run {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        let connection = &self.connection;
        match self.verb {
            Verb::Start(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::List(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Show(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Watch(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Cancel(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Pause(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Resume(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Release(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Restart(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Replay(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Verdict(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Delete(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Erase(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Children(args) => with_client(connection, async |client| args.run(&client, shell).await),
            Verb::Replays(args) => with_client(connection, async |client| args.run(&client, shell).await),
        }
    }
}
