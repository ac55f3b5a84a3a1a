//! `semel.toml`, as it is written.

use crate::failure::Failure;
use semel_core::limits::Limits;
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct File {
    pub listen: Option<String>,
    pub store: Option<String>,
    pub data_dir: Option<PathBuf>,
    pub dev: bool,
    pub log: Log,
    pub limits: Limits,
    pub outbound: Outbound,
    pub secrets: Secrets,
    pub trigger: Trigger,
    pub kestra: Kestra,
    pub nats: NatsServer,
    pub retention: Retention,
    pub scripts: Scripts,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    pub level: Option<String>,
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Outbound {
    pub private: Private,
    pub allow: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NatsServer {
    pub url: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Private {
    #[default]
    Allow,
    Deny,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Secrets {
    pub key_file: Option<PathBuf>,
    pub key_command: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trigger {
    pub scope: TriggerScope,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TriggerScope {
    #[default]
    Flow,
    Workspace,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kestra {
    pub correlation_guard: CorrelationGuard,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CorrelationGuard {
    #[default]
    Off,
    Atomic,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    pub decisions: Option<String>,
    pub history: Option<String>,
}

/// Off by default: whoever may push a flow can then run programs as the server's user.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scripts {
    pub enabled: bool,
    pub directory: Option<PathBuf>,
}

impl File {
    pub fn parse(text: &str, name: &str) -> Result<File, Failure> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let place = error.span().map(|span| place(text, span.start)).unwrap_or_default();
            // The error's own text draws the line it is about.
            Failure::config(format!("{name}{place}: {}", error.message().trim())).preface(error.to_string())
        })
    }

    /// Makes relative paths start at the file's own directory.
    pub fn anchor(&mut self, base: &Path) {
        if base.as_os_str().is_empty() {
            return;
        }
        for path in [&mut self.data_dir, &mut self.secrets.key_file, &mut self.scripts.directory].into_iter().flatten()
        {
            *path = base.join(&*path);
        }
        if let Some(path) = self.store.as_deref().and_then(|store| store.strip_prefix("sqlite:")) {
            self.store = Some(format!("sqlite:{}", base.join(path).display()));
        }
    }
}

fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!(":{line}:{column}")
}
