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
    let filter = EnvFilter::try_new(directives).map_err(|error| {
        Failure::config(format!("`{}` is not a log level: {error}", config.log_level))
            .hint("use error, warn, info, debug or trace, or a filter like info,semel_engine=debug")
    })?;
    // When nobody reads stderr any more, a line is lost. Complaining about that on stderr would panic the task that logs.
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).log_internal_errors(false).with_writer(std::io::stderr);
    let started = if config.log_json { subscriber.json().try_init() } else { subscriber.with_ansi(shell.err.0).try_init() };
    started.map_err(|error| Failure::refused("no_log", error.to_string()))
}
