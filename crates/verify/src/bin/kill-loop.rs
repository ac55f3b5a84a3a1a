//! The kill loop as a program: `run`, `linear` and `database` are loops, the other two are the processes they start.
//!
//! ```text
//! kill-loop run --kills N --seed N --binary PATH [--failpoints PATH] [--directory DIR] [--sabotage POINT]
//! kill-loop run --nodes N [--store postgres://…] …   nodes on a database, by default one made for it
//! kill-loop linear --attempts N --seed N --binary PATH [--nodes N]
//! kill-loop database --restarts N --seed N --binary PATH [--nodes N]
//! kill-loop ledger FILE ADDRESS_FILE
//! kill-loop sender SERVER[,SERVER…] FILE SEED
//! ```

use semel_verify::kill::nemesis::{self, Plan};
use semel_verify::kill::records::AppendLog;
use semel_verify::kill::report::Report;
use semel_verify::kill::{ledger, sender};
use semel_verify::linear::hammer;
use semel_verify::nodes;
use semel_verify::nodes::scene::Setting;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tempfile::TempDir;

#[tokio::main]
async fn main() -> ExitCode {
    // Fails only if one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["ledger", file, address_file] => serve_ledger(file.as_ref(), address_file.as_ref()).await,
        ["sender", servers, file, seed] => send(servers, file.as_ref(), seed).await,
        ["run", options @ ..] => run(options).await,
        ["linear", options @ ..] => linear(options).await,
        ["database", options @ ..] => database(options).await,
        _ => Err("kill-loop run | linear | database | ledger FILE ADDRESS_FILE | sender SERVER FILE SEED".to_owned()),
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

async fn send(servers: &str, file: &Path, seed: &str) -> Result<bool, String> {
    let log = AppendLog::create(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let seed = seed.parse().map_err(|_| format!("not a seed: {seed}"))?;
    sender::run(servers.split(',').map(str::to_owned).collect(), log, seed)
        .await
        .map(|()| true)
        .map_err(|error| error.to_string())
}

/// Pairs of a name and a value, and a directory for what is written.
struct Options<'a> {
    pairs: Vec<(&'a str, &'a str)>,
    directory: PathBuf,
    /// Gone with this value, if no other directory was named.
    _temporary: TempDir,
}

impl<'a> Options<'a> {
    fn new(words: &[&'a str]) -> Result<Options<'a>, String> {
        let pairs: Vec<(&str, &str)> = words.chunks(2).filter_map(|pair| Some((pair[0], *pair.get(1)?))).collect();
        let temporary = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut options = Options { pairs, directory: temporary.path().to_owned(), _temporary: temporary };
        if let Some(directory) = options.text("--directory") {
            options.directory = directory.into();
        }
        std::fs::create_dir_all(&options.directory).map_err(|error| error.to_string())?;
        Ok(options)
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(given, _)| *given == name).map(|(_, value)| *value)
    }

    fn number<T: TryFrom<u64>>(&self, name: &str, default: u64) -> Result<T, String> {
        let number = self.text(name).map_or(Ok(default), |text| text.parse());
        number.ok().and_then(|number| T::try_from(number).ok()).ok_or_else(|| format!("{name} must be a number"))
    }

    fn binary(&self) -> Result<PathBuf, String> {
        self.text("--binary").map(PathBuf::from).ok_or_else(|| "--binary is needed".to_owned())
    }
}

fn own_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| error.to_string())
}

fn told(report: &Report) -> bool {
    println!("{report}");
    report.violations.is_empty()
}

async fn run(words: &[&str]) -> Result<bool, String> {
    let options = Options::new(words)?;
    if options.text("--nodes").is_some() {
        return run_nodes(&options).await;
    }
    let plan = Plan {
        kills: options.number("--kills", 100)?,
        seed: options.number("--seed", 1)?,
        binary: options.binary()?,
        failpoints: options.text("--failpoints").map(PathBuf::from),
        company: own_program()?,
        directory: options.directory.clone(),
        sabotage: options.text("--sabotage").map(str::to_owned),
    };
    Ok(told(&nemesis::run(plan).await?))
}

async fn run_nodes(options: &Options<'_>) -> Result<bool, String> {
    let own = options.text("--store").is_none().then(nodes::database::start);
    let database = match (&own, options.text("--store")) {
        (Some(server), _) => server.address(),
        (None, store) => store.unwrap_or_default().to_owned(),
    };
    let setting = Setting {
        seed: options.number("--seed", 1)?,
        binary: options.binary()?,
        company: own_program()?,
        directory: options.directory.clone(),
        stores: vec![database.clone(); options.number("--nodes", 3)?],
    };
    let plan = nodes::kill_loop::Plan {
        kills: options.number("--kills", 100)?,
        failpoints: options.text("--failpoints").map(PathBuf::from),
        sabotage: options.text("--sabotage").map(str::to_owned),
        database,
        setting,
    };
    Ok(told(&nodes::kill_loop::run(plan).await?))
}

async fn linear(words: &[&str]) -> Result<bool, String> {
    let options = Options::new(words)?;
    let attempts = options.number("--attempts", 50_000)?;
    let report = hammer::run(hammer::Plan {
        nodes: options.number("--nodes", 3)?,
        clients: 16,
        keys: 200,
        attempts,
        troubles: options.number("--troubles", 18)?,
        time_max: Duration::from_secs(240 + attempts / 250),
        seed: options.number("--seed", 1)?,
        binary: options.binary()?,
        directory: options.directory.clone(),
    })
    .await?;
    println!("{report}");
    Ok(report.violations.is_empty())
}

async fn database(words: &[&str]) -> Result<bool, String> {
    let options = Options::new(words)?;
    let plan = nodes::database::Plan {
        restarts: options.number("--restarts", 40)?,
        nodes: options.number("--nodes", 2)?,
        seed: options.number("--seed", 1)?,
        binary: options.binary()?,
        company: own_program()?,
        directory: options.directory.clone(),
    };
    Ok(told(&nodes::database::run(plan).await?))
}
