//! Several nodes on one PostgreSQL: what is promised holds whatever befalls them and their database.
//!
//! | file | what it shows |
//! |---|---|
//! | `check` | the check of histories is exact, and finds what is planted |
//! | `linear` | admission by several nodes is one object |
//! | `kill_loop` | nodes that die, freeze and come back under load |
//! | `database` | a database that restarts, fails over, forgets |
//! | `all_at_once` | one node killed, one frozen, the database restarted |
//! | `upgrade` | two builds side by side, and the schema of the newer one |

mod all_at_once;
mod check;
mod database;
mod kill_loop;
mod linear;
mod upgrade;

use std::path::{Path, PathBuf};
use tokio::sync::{Mutex, MutexGuard};

/// A size that may be asked for from outside.
fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}")),
        Err(_) => default,
    }
}

/// The program that is ledger and sender.
fn company() -> PathBuf {
    env!("CARGO_BIN_EXE_kill-loop").into()
}

fn built(variable: &str, name: &str) -> PathBuf {
    if let Some(path) = std::env::var_os(variable) {
        return path.into();
    }
    let path = Path::new(env!("CARGO_BIN_EXE_kill-loop")).with_file_name(name);
    assert!(path.exists(), "no {}: CONTRIBUTING.md says how it is built", path.display());
    path
}

/// The binary that is shipped: `SEMEL_BIN`, else the one in the target directory.
fn binary() -> PathBuf {
    built("SEMEL_BIN", "semel")
}

/// The same with failpoints: `SEMEL_FAILPOINTS_BIN`, else `semel-failpoints` beside the other.
fn with_failpoints() -> PathBuf {
    built("SEMEL_FAILPOINTS_BIN", "semel-failpoints")
}

/// Whoever begins has the machine for itself, under any runner of tests: several nodes and a database are enough for it.
async fn begin() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    let alone = ALONE.lock().await;
    // Fails only if one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    alone
}
