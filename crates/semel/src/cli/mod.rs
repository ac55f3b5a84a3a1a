//! The command line: `semel <noun> <verb>`, one file per command, named as users type it.

mod backup;
mod bench;
mod check;
mod completions;
mod decision;
mod demo;
mod flow;
mod import;
mod key;
mod kv;
mod node;
pub mod paging;
mod restore;
mod run;
mod schedule;
mod secret;
mod serve;
mod token;
mod version;
mod workspace;

use crate::client::{Client, Connection};
use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use std::future::Future;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  semel demo                       see one event delivered 50 times become one charge
  semel serve --dev                a server on this machine, without tokens
  semel flow push hello.yaml       store a flow
  semel run start demo:hello       start it
  semel run list                   what ran

Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 server not reachable.";

/// Semel admits each business event once and runs its workflow durably
#[derive(Parser, Debug)]
#[command(name = "semel", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// Print one JSON envelope on stdout: {"ok":true,"data":…} or {"ok":false,"error":…}
    #[arg(long, global = true, display_order = 900)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Serve(serve::Serve),
    Demo(demo::Demo),
    Bench(bench::Bench),
    Flow(flow::Flow),
    Import(import::Import),
    Run(run::Run),
    Key(key::Key),
    Decision(decision::Decision),
    Kv(kv::Kv),
    Secret(secret::Secret),
    Token(token::Token),
    Workspace(workspace::Workspace),
    Schedule(schedule::Schedule),
    Node(node::Node),
    Check(check::Check),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Completions(completions::Completions),
    Version(version::Version),
}

pub fn main() -> ExitCode {
    let code = match Cli::try_parse() {
        Ok(cli) => {
            let shell = Shell::detect(cli.json);
            shell.finish(dispatch(cli.command, &shell))
        }
        Err(error) => wrong_usage(&error),
    };
    ExitCode::from(code)
}

fn dispatch(command: Command, shell: &Shell) -> Result<Reply, Failure> {
    match command {
        Command::Serve(args) => args.run(shell),
        Command::Demo(args) => args.run(shell),
        Command::Bench(args) => args.run(shell),
        Command::Flow(args) => args.run(shell),
        Command::Import(args) => args.run(shell),
        Command::Run(args) => args.run(shell),
        Command::Key(args) => args.run(shell),
        Command::Decision(args) => args.run(shell),
        Command::Kv(args) => args.run(shell),
        Command::Secret(args) => args.run(shell),
        Command::Token(args) => args.run(shell),
        Command::Workspace(args) => args.run(shell),
        Command::Schedule(args) => args.run(shell),
        Command::Node(args) => args.run(shell),
        Command::Check(args) => args.run(shell),
        Command::Backup(args) => args.run(shell),
        Command::Restore(args) => args.run(shell),
        Command::Completions(args) => args.run(),
        Command::Version(args) => args.run(),
    }
}

/// Help and version are answers; anything else is wrong usage, and a program that asked for JSON gets JSON.
fn wrong_usage(error: &clap::Error) -> u8 {
    let asked_for_json = std::env::args_os().any(|arg| arg == "--json");
    let is_answer = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !asked_for_json || is_answer {
        // A closed stdout or stderr is the reader's choice.
        let _ = error.print();
        return if is_answer { 0 } else { 2 };
    }
    let text = error.render().to_string();
    let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
    Shell::detect(true).finish(Err(Failure::usage(message).hint("semel --help, or --help after any command")))
}

/// Runs a client command. One thread is enough to wait for one answer.
fn with_client<F>(connection: &Connection, work: impl FnOnce(Client) -> F) -> Result<Reply, Failure>
where
    F: Future<Output = Result<Reply, Failure>>,
{
    let client = Client::new(connection)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::refused("no_runtime", error.to_string()))?;
    runtime.block_on(work(client))
}

/// Splits `name=value`.
fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("write it as name=value".to_owned()),
    }
}

/// Checks a duration before it is sent, so that the mistake is shown as one of usage.
fn duration(text: &str) -> Result<String, String> {
    semel_core::duration::parse_ms(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples_and_says_what_it_does() {
        fn walk(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
                let path = format!("{path} {}", sub.get_name());
                assert!(sub.get_about().is_some(), "{path} has no description");
                let leaf = !sub.has_subcommands();
                let examples = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(!leaf || examples.contains("semel "), "{path} has no examples");
                walk(sub, &path);
            }
        }
        walk(&Cli::command(), "semel");
    }

    /// The help of every command, one file each: a change of what users read is seen in review.
    #[test]
    fn help_is_as_reviewed() {
        fn walk(command: &mut clap::Command, path: &str, settings: &insta::Settings) {
            let help = command.render_help().to_string();
            settings.bind(|| insta::assert_snapshot!(path.replace(' ', "_"), help));
            for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
                let path = format!("{path} {}", sub.get_name());
                walk(sub, &path, settings);
            }
        }
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/help"));
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        let mut command = Cli::command();
        command.build();
        walk(&mut command, "semel", &settings);
    }

    #[test]
    fn pairs_need_a_name() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert_eq!(pair("a="), Ok(("a".to_owned(), String::new())));
        assert!(pair("=b").is_err());
        assert!(pair("ab").is_err());
    }
}
