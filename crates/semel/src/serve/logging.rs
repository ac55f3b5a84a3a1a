//! Logs go to stderr: stdout belongs to data.

use crate::config::Config;
use crate::failure::Failure;
use crate::output::Shell;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

pub fn start(config: &Config, shell: &Shell) -> Result<(), Failure> {
    // A bare level is about Semel: at `debug` the HTTP client's own lines name hosts, which may be secret.
    let directives = match config.log_level.parse::<LevelFilter>() {
        Ok(level) if level > LevelFilter::INFO => format!("info,semel={level}"),
        _ => config.log_level.clone(),
    };
    // A filter takes any single word for the name of a module, and then nothing else is logged.
    let word = config.log_level.trim();
    if word.parse::<LevelFilter>().is_err() && !word.contains(['=', ',', ':', '[']) {
        return Err(not_a_level(word));
    }
    let filter = EnvFilter::try_new(directives).map_err(|_| not_a_level(word))?;
    // When nobody reads stderr any more, a line is lost. Complaining about that on stderr would panic the task that logs.
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false).with_writer(std::io::stderr);
    let started =
        if config.log_json { subscriber.json().try_init() } else { subscriber.with_ansi(shell.err.0).try_init() };
    started.map_err(|error| Failure::refused("no_log", error.to_string()))
}

fn not_a_level(word: &str) -> Failure {
    Failure::config(format!("`{word}` is not a log level"))
        .hint("use error, warn, info, debug or trace, or a filter like info,semel_engine=debug")
}
