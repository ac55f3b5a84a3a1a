//! One node: a server process with an address and a directory of its own, in as many lives as it takes.

use crate::kill::company::{LOOK_AGAIN, reserve};
use rand::rngs::StdRng;
use std::fs::File;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What became of a process that was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    Ready,
    Ended(ExitStatus),
    Neither,
}

pub struct Node {
    pub name: String,
    /// The build that the next life is of.
    pub binary: PathBuf,
    /// Variables of the next life.
    pub environment: Vec<(String, String)>,
    address: String,
    directory: PathBuf,
    store: String,
    child: Option<Child>,
    _reserved: UdpSocket,
}

impl Node {
    /// Not yet started; its address is the same in all its lives.
    pub fn new(name: &str, binary: &Path, directory: &Path, store: &str, chance: &mut StdRng) -> Result<Node, String> {
        let (reserved, address) = reserve(chance).ok_or("no free port")?;
        let directory = directory.join(name);
        std::fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        Ok(Node {
            name: name.to_owned(),
            binary: binary.to_owned(),
            environment: Vec::new(),
            address,
            directory,
            store: store.to_owned(),
            child: None,
            _reserved: reserved,
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn port_file(&self) -> PathBuf {
        self.directory.join("address")
    }

    /// A command of this node's build, without what this machine has configured.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SEMEL_")) {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().cloned()).args(arguments);
        command.current_dir(&self.directory).stdin(Stdio::null());
        command
    }

    /// Begins a life; `arming` is a failpoint, for a build that has them.
    pub fn start(&mut self, arming: Option<&str>) {
        assert!(self.child.is_none(), "{} is alive", self.name);
        // The file of an earlier life must not be taken for the new one's.
        let _ = std::fs::remove_file(self.port_file());
        let mut command = self.command(&["serve", "--dev", "--listen", &self.address, "--store", &self.store]);
        command.arg("--data-dir").arg(self.directory.join("data")).arg("--port-file").arg(self.port_file());
        command.envs(arming.map(|arming| ("SEMEL_FAILPOINT", arming)));
        let log = File::options().create(true).append(true).open(self.directory.join("log")).expect("a log file");
        command.stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().expect("the binary starts"));
    }

    pub async fn ready(&mut self, limit: Duration) -> Reached {
        let began = Instant::now();
        while began.elapsed() < limit {
            if let Some(status) = self.ended() {
                return Reached::Ended(status);
            }
            if std::fs::read_to_string(self.port_file()).is_ok_and(|text| !text.is_empty()) {
                return Reached::Ready;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Reached::Neither
    }

    /// How the process has ended by itself, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    pub fn is_started(&self) -> bool {
        self.child.is_some()
    }

    /// SIGKILL; gone when this returns.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Both fail only when it has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub fn freeze(&self) {
        self.signal("STOP");
    }

    pub fn thaw(&self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        // One that has ended by itself cannot be told anything; whoever looks finds that out.
        if let Some(child) = &self.child {
            let _ = Command::new("/bin/kill").args([&format!("-{name}"), &child.id().to_string()]).status();
        }
    }

    /// SIGTERM, and the end it must lead to; killed if it takes longer.
    pub async fn stop(&mut self, limit: Duration) -> Option<ExitStatus> {
        self.signal("TERM");
        let status = self.end(limit).await;
        self.kill();
        status
    }

    /// Waits for the process to end by itself.
    pub async fn end(&mut self, limit: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        while began.elapsed() < limit {
            if let Some(status) = self.ended() {
                return Some(status);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        None
    }

    /// What it said, in all its lives.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    pub fn last_lines(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(8)..].join("\n")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}
