//! Where the store is.

use crate::failure::Failure;
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePath(pub PathBuf);

impl StorePath {
    pub fn parse(text: &str) -> Result<StorePath, Failure> {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(StorePath(PathBuf::from(path))),
            Some(("postgres" | "postgresql", _)) => {
                Err(Failure::config("this build stores in SQLite only").hint("use --store sqlite:PATH"))
            }
            _ => {
                Err(Failure::config(format!("`{text}` is not a store"))
                    .hint("write it like sqlite:./semel-data/semel.db"))
            }
        }
    }

    pub fn in_directory(directory: &Path) -> StorePath {
        StorePath(directory.join("semel.db"))
    }

    pub fn directory(&self) -> PathBuf {
        match self.0.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        }
    }
}

impl fmt::Display for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sqlite:{}", self.0.display())
    }
}
