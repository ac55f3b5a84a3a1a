//! Where the store is.

use crate::failure::Failure;
use std::fmt;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StorePath {
    Sqlite(PathBuf),
    /// The address of a database, as PostgreSQL's own programs take it.
    Postgres(String),
}

impl StorePath {
    pub fn parse(text: &str) -> Result<StorePath, Failure> {
        match text.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => Ok(StorePath::Sqlite(PathBuf::from(path))),
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Ok(StorePath::Postgres(text.to_owned()))
            }
            _ => Err(Failure::config(format!("`{text}` is not a store"))
                .hint("write it like sqlite:./semel-data/semel.db or postgres://user@host/database")),
        }
    }

    pub fn in_directory(directory: &Path) -> StorePath {
        StorePath::Sqlite(directory.join("semel.db"))
    }

    /// The directory of the file; a database has none.
    pub fn directory(&self) -> Option<PathBuf> {
        match self {
            StorePath::Sqlite(path) => match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => Some(parent.to_path_buf()),
                _ => Some(PathBuf::from(".")),
            },
            StorePath::Postgres(_) => None,
        }
    }

    /// The file, for commands that look at one.
    pub fn file(&self) -> Result<&Path, Failure> {
        match self {
            StorePath::Sqlite(path) => Ok(path),
            StorePath::Postgres(_) => Err(Failure::config("this command works on a SQLite file")
                .hint("ask the server (--server), or use PostgreSQL's own tools for backups")),
        }
    }
}

impl fmt::Display for StorePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StorePath::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            // An address may hold a password, before the last `@` or among the options.
            StorePath::Postgres(address) => {
                let place = address.rsplit('@').next().unwrap_or_default();
                let place = place.split('?').next().unwrap_or_default();
                write!(f, "postgres://{}", place.trim_start_matches("postgresql://").trim_start_matches("postgres://"))
            }
        }
    }
}
