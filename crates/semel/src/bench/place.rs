//! Where the measured store is: a file, or a schema of its own in a database.

use super::{broken, usage};
use crate::config::StorePath;
use crate::failure::Failure;
use semel_store::Store;
use semel_store_postgres::PostgresStore;
use semel_store_postgres::raw::Scratch;
use semel_store_sqlite::SqliteStore;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub enum Place {
    File(PathBuf),
    /// Dropped with this value.
    Database(Box<Scratch>),
}

impl Place {
    /// `text` as `--store` has it; without it a file in `directory`.
    pub fn new(text: Option<&str>, directory: &Path, tag: &str) -> Result<Place, Failure> {
        if let Some(address) = text.filter(|text| text.starts_with("postgres")) {
            StorePath::parse(address)?;
            let scratch = Scratch::new(address, &format!("semel_bench_{tag}"));
            return scratch
                .map(|it| Place::Database(Box::new(it)))
                .map_err(|error| Failure::refused(error.code(), error.to_string()));
        }
        let path = match text {
            Some(text) => PathBuf::from(text.strip_prefix("sqlite:").unwrap_or(text)),
            None => directory.join("semel.db"),
        };
        Ok(Place::File(std::path::absolute(path).map_err(broken)?))
    }

    /// As `semel serve --store` takes it.
    pub fn store(&self) -> String {
        match self {
            Place::File(path) => format!("sqlite:{}", path.display()),
            Place::Database(scratch) => scratch.address().to_owned(),
        }
    }

    /// The store, and how many runs there are in it.
    pub fn open(&self) -> Result<(Arc<dyn Store>, u64), Failure> {
        match self {
            Place::File(path) => {
                let store = SqliteStore::open(path, semel_store_sqlite::Options::default()).map_err(broken)?;
                let runs = store.runs_stored().map_err(broken)?;
                Ok((store, runs))
            }
            Place::Database(scratch) => {
                let options = semel_store_postgres::Options::default();
                let store = PostgresStore::open(scratch.address(), options).map_err(broken)?;
                Ok((store, scratch.runs().map_err(broken)?))
            }
        }
    }

    pub fn bytes(&self) -> u64 {
        match self {
            Place::File(path) => std::fs::metadata(path).map_or(0, |data| data.len()),
            Place::Database(scratch) => scratch.bytes().unwrap_or_default(),
        }
    }

    /// The first process of the database, if it is one of this machine.
    pub fn database(&self) -> Option<u32> {
        match self {
            Place::File(_) => None,
            Place::Database(scratch) => usage::database_of(scratch.process().ok()?),
        }
    }
}
