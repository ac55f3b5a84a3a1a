//! Runs the binary in a clean environment and a directory of its own.

use serde_json::Value as Json;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn json(&self) -> Json {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }

    /// For commands that print one envelope per line.
    pub fn json_lines(&self) -> Vec<Json> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
        Ran { code: output.status.code().unwrap_or(-1), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

pub fn command(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(args).current_dir(directory).stdin(Stdio::null());
    // A developer's own settings must not decide a test.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SEMEL_")) {
        command.env_remove(name);
    }
    command
}

pub fn semel(args: &[&str]) -> Ran {
    let directory = tempfile::tempdir().expect("a temporary directory");
    semel_in(directory.path(), args)
}

pub fn semel_in(directory: &Path, args: &[&str]) -> Ran {
    command(directory, args).output().expect("the binary runs").into()
}

pub fn semel_with_stdin(args: &[&str], input: &str) -> Ran {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = command(directory.path(), args);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
    // The command may end without reading all of it.
    let _ = child.stdin.take().expect("stdin is piped").write_all(input.as_bytes());
    child.wait_with_output().expect("the binary ends").into()
}

/// An address where nobody listens: a port that was just given back.
pub fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("an address"))
}
