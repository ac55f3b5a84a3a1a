//! Configuration of the server: `semel.toml`, then `SEMEL_*` variables, then flags.
//!
//! The file is read strictly: an unknown name is an error with its line and column, for a setting that
//! silently does nothing is worse than none. Variables are read by name and unknown ones are left alone,
//! because orchestrators add their own (`SEMEL_SERVICE_HOST` and the like) for a service called semel.

mod environment;
mod file;
mod paths;

pub use paths::StorePath;

use crate::failure::Failure;
use file::{CorrelationGuard, File, LogFormat, Private, TriggerScope};
use semel_core::limits::Limits;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

const DEFAULT_FILE: &str = "semel.toml";
const DEFAULT_DIR: &str = "semel-data";
const DEFAULT_LISTEN: &str = "127.0.0.1:8080";
const DEFAULT_DECISIONS: &str = "P90D";

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    pub listen: Option<String>,
    pub store: Option<String>,
    pub data_dir: Option<PathBuf>,
    pub dev: bool,
    pub log_level: Option<String>,
}

/// Settled and checked: nothing in it can be half there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub listen: SocketAddr,
    pub store: StorePath,
    pub dev: bool,
    pub data_dir: PathBuf,
    pub log_level: String,
    pub log_json: bool,
    pub limits: Limits,
    pub outbound_private_allowed: bool,
    pub outbound_allow: Vec<String>,
    pub secret_key: SecretKey,
    /// Where events of Conductor's definitions come from and go to, besides the server itself.
    pub nats: Option<String>,
    pub trigger_scope_workspace: bool,
    pub correlation_guard: bool,
    /// Decision rows older than this go.
    pub retention_decisions_ms: i64,
    /// Ended runs older than this go; kept for ever if absent.
    pub retention_history_ms: Option<i64>,
    /// Where scripts run; absent while they are turned off.
    pub scripts: Option<PathBuf>,
}

/// Where the key that seals secrets comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretKey {
    File(PathBuf),
    Command(String),
    /// Made at the first start, in the data directory.
    Made(PathBuf),
}

impl Config {
    /// `path` is a file that must exist; without it `semel.toml` is read if it is there.
    pub fn load(
        path: Option<&Path>,
        variable: impl Fn(&str) -> Option<String>,
        flags: Flags,
    ) -> Result<Config, Failure> {
        let (mut file, base) = match path {
            Some(path) => (read(path)?, directory_of(path)),
            None if Path::new(DEFAULT_FILE).exists() => (read(Path::new(DEFAULT_FILE))?, PathBuf::new()),
            None => (File::default(), PathBuf::new()),
        };
        file.anchor(&base);
        combine(file, variable, flags)
    }

    /// As [`Config::load`], from the text of a file in the present directory.
    pub fn from_text(
        text: &str,
        name: &str,
        variable: impl Fn(&str) -> Option<String>,
        flags: Flags,
    ) -> Result<Config, Failure> {
        combine(File::parse(text, name)?, variable, flags)
    }

    pub fn is_loopback(&self) -> bool {
        self.listen.ip().is_loopback()
    }
}

/// Paths in a file are meant from where the file is, not from where the server was started.
fn directory_of(path: &Path) -> PathBuf {
    path.parent().map(Path::to_path_buf).unwrap_or_default()
}

fn read(path: &Path) -> Result<File, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::config(format!("cannot read the configuration {}: {error}", path.display())))?;
    File::parse(&text, &path.display().to_string())
}

fn combine(mut file: File, variable: impl Fn(&str) -> Option<String>, flags: Flags) -> Result<Config, Failure> {
    environment::apply(&mut file, variable)?;
    apply_flags(&mut file, flags);
    settle(file)
}

fn apply_flags(file: &mut File, flags: Flags) {
    file.listen = flags.listen.or(file.listen.take());
    file.store = flags.store.or(file.store.take());
    file.data_dir = flags.data_dir.or(file.data_dir.take());
    file.dev |= flags.dev;
    file.log.level = flags.log_level.or(file.log.level.take());
}

fn settle(file: File) -> Result<Config, Failure> {
    let listen = address(file.listen.as_deref().unwrap_or(DEFAULT_LISTEN))?;
    if file.dev && !listen.ip().is_loopback() {
        let message = format!("--dev turns tokens off, so it is refused on {listen}, which others can reach");
        return Err(Failure::config(message).hint("listen on 127.0.0.1, or leave --dev out and use tokens"));
    }
    let store = file.store.as_deref().map(StorePath::parse).transpose()?;
    let data_dir = match (file.data_dir, &store) {
        (Some(dir), _) => dir,
        (None, Some(store)) => store.directory().unwrap_or_else(|| PathBuf::from(DEFAULT_DIR)),
        (None, None) => PathBuf::from(DEFAULT_DIR),
    };
    let secret_key = match (file.secrets.key_file, file.secrets.key_command) {
        (Some(_), Some(_)) => return Err(Failure::config("give secrets.key_file or secrets.key_command, not both")),
        (Some(path), None) => SecretKey::File(path),
        (None, Some(command)) => SecretKey::Command(command),
        (None, None) => SecretKey::Made(data_dir.join("secret.key")),
    };
    let scripts_dir = file.scripts.directory.unwrap_or_else(|| data_dir.join("scripts"));
    let decisions = file.retention.decisions.as_deref().unwrap_or(DEFAULT_DECISIONS);
    let history = file.retention.history.as_deref().filter(|text| *text != "forever");
    Ok(Config {
        listen,
        store: store.unwrap_or_else(|| StorePath::in_directory(&data_dir)),
        dev: file.dev,
        data_dir,
        log_level: file.log.level.unwrap_or_else(|| "info".to_owned()),
        log_json: file.log.format == LogFormat::Json,
        limits: file.limits,
        outbound_private_allowed: file.outbound.private == Private::Allow,
        outbound_allow: file.outbound.allow,
        secret_key,
        nats: file.nats.url,
        trigger_scope_workspace: file.trigger.scope == TriggerScope::Workspace,
        correlation_guard: file.kestra.correlation_guard == CorrelationGuard::Atomic,
        retention_decisions_ms: duration("retention.decisions", decisions)?,
        retention_history_ms: history.map(|text| duration("retention.history", text)).transpose()?,
        scripts: file.scripts.enabled.then_some(scripts_dir),
    })
}

fn address(text: &str) -> Result<SocketAddr, Failure> {
    let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| {
        Failure::config(format!("`{text}` is not an address to listen on"))
            .hint("write it like 127.0.0.1:8080 or [::1]:8080")
    })
}

fn duration(name: &str, text: &str) -> Result<i64, Failure> {
    match semel_core::duration::parse_ms(text) {
        Ok(ms) if ms > 0 => Ok(ms),
        Ok(_) => Err(Failure::config(format!("{name} must be longer than nothing"))),
        Err(error) => Err(Failure::config(format!("{name}: {error}"))),
    }
}

#[cfg(test)]
mod tests;
