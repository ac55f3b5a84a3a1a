//! The kill loop as a program: `kill-loop run` is the loop, the other two are the processes it starts.
//!
//! ```text
//! kill-loop run --kills N --seed N --binary PATH [--failpoints PATH] [--directory DIR]
//! kill-loop ledger FILE ADDRESS_FILE
//! kill-loop sender SERVER FILE SEED
//! ```

use semel_verify::kill::nemesis::{self, Plan};
use semel_verify::kill::records::AppendLog;
use semel_verify::kill::{ledger, sender};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    // Fails only if one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["ledger", file, address_file] => serve_ledger(file.as_ref(), address_file.as_ref()).await,
        ["sender", server, file, seed] => send(server, file.as_ref(), seed).await,
        ["run", options @ ..] => run(options).await,
        _ => Err("kill-loop run | ledger FILE ADDRESS_FILE | sender SERVER FILE SEED".to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("kill-loop: {message}");
            ExitCode::from(2)
        }
    }
}

async fn serve_ledger(file: &Path, address_file: &Path) -> Result<bool, String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    let log = AppendLog::create(file).map_err(|error| format!("{}: {error}", file.display()))?;
    // Whole or not at all: whoever waits for the file must not read half an address.
    let half = address_file.with_extension("half");
    std::fs::write(&half, address.to_string()).map_err(|error| error.to_string())?;
    std::fs::rename(&half, address_file).map_err(|error| error.to_string())?;
    ledger::serve(listener, log).await.map(|()| true).map_err(|error| error.to_string())
}

async fn send(server: &str, file: &Path, seed: &str) -> Result<bool, String> {
    let log = AppendLog::create(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let seed = seed.parse().map_err(|_| format!("not a seed: {seed}"))?;
    sender::run(server.to_owned(), log, seed).await.map(|()| true).map_err(|error| error.to_string())
}

async fn run(options: &[&str]) -> Result<bool, String> {
    let option = |name: &str| options.chunks(2).find(|pair| pair[0] == name).and_then(|pair| pair.get(1).copied());
    let number = |name: &str, default: u64| match option(name) {
        Some(text) => text.parse().map_err(|_| format!("{name} must be a number")),
        None => Ok(default),
    };
    let temporary = tempfile::tempdir().map_err(|error| error.to_string())?;
    let directory = option("--directory").map_or(temporary.path().to_owned(), PathBuf::from);
    std::fs::create_dir_all(&directory).map_err(|error| error.to_string())?;
    let plan = Plan {
        kills: u32::try_from(number("--kills", 100)?).map_err(|_| "--kills is too large")?,
        seed: number("--seed", 1)?,
        binary: option("--binary").map(PathBuf::from).ok_or("--binary is needed")?,
        failpoints: option("--failpoints").map(PathBuf::from),
        company: std::env::current_exe().map_err(|error| error.to_string())?,
        directory,
        sabotage: option("--sabotage").map(str::to_owned),
    };
    let report = nemesis::run(plan).await?;
    println!("{report}");
    Ok(report.violations.is_empty())
}
