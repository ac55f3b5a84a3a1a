//! The processes beside the servers: the ledger and the sender. They are started, told to end, and never killed while
//! a loop runs.

use super::observe::Api;
use super::person::Person;
use rand::RngExt;
use rand::rngs::StdRng;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A start that takes longer has failed.
pub const START_MAX: Duration = Duration::from_secs(30);
pub const SETTLE_MAX: Duration = Duration::from_secs(60);
pub const LOOK_AGAIN: Duration = Duration::from_millis(3);
const SENDER_END_MAX: Duration = Duration::from_secs(100);

/// A child that never outlives this value.
pub struct Owned(pub Child);

impl Drop for Owned {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where the company works: the program it is, and the directory of its records.
pub struct Company {
    pub program: PathBuf,
    pub directory: PathBuf,
}

impl Company {
    pub fn ledger_file(&self) -> PathBuf {
        self.directory.join("ledger.jsonl")
    }

    pub fn sender_file(&self) -> PathBuf {
        self.directory.join("sender.jsonl")
    }

    /// The ledger, and its address.
    pub fn start_ledger(&self) -> Result<(Owned, String), String> {
        let port_file = self.directory.join("ledger.address");
        let mut command = Command::new(&self.program);
        command.arg("ledger").arg(self.ledger_file()).arg(&port_file).stdin(Stdio::null());
        let child = Owned(command.spawn().map_err(|error| format!("{}: {error}", self.program.display()))?);
        let address = wait_for_file(&port_file, START_MAX).ok_or("the ledger does not start")?;
        Ok((child, format!("http://{}", address.trim())))
    }

    /// The sender to one server, or to any of several.
    pub fn start_sender(&self, servers: &[String], seed: u64) -> Result<Owned, String> {
        let mut command = Command::new(&self.program);
        command.arg("sender").arg(servers.join(",")).arg(self.sender_file());
        command.arg(seed.to_string()).stdin(Stdio::piped());
        command.spawn().map(Owned).map_err(|error| error.to_string())
    }
}

fn wait_for_file(path: &Path, limit: Duration) -> Option<String> {
    let began = Instant::now();
    while began.elapsed() < limit {
        if let Some(text) = std::fs::read_to_string(path).ok().filter(|text| !text.is_empty()) {
            return Some(text);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    None
}

/// One address for all lives, as a sender knows it: below the range that the system gives out by itself, and kept from
/// other loops on this machine, while the server is down, by a socket of another kind on the same number.
pub fn reserve(chance: &mut StdRng) -> Option<(UdpSocket, String)> {
    (0..200).find_map(|_| {
        let address = format!("127.0.0.1:{}", chance.random_range(20_000..32_000_u16));
        let reserved = UdpSocket::bind(&address).ok()?;
        TcpListener::bind(&address).ok()?;
        Some((reserved, address))
    })
}

pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("/bin/kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "/bin/kill -{name} {}", child.id());
}

/// Tells the sender to begin nothing new, and waits until everything it began is taken.
pub async fn end_sender(sender: &mut Owned, person: &mut Person) -> Result<(), String> {
    if let Some(mut stdin) = sender.0.stdin.take() {
        stdin.write_all(b"drain\n").map_err(|error| format!("the sender is gone: {error}"))?;
    }
    let began = Instant::now();
    loop {
        match sender.0.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("the sender failed: {status}")),
            None if began.elapsed() > SENDER_END_MAX => return Err("the sender does not end".to_owned()),
            None => {
                person.look().await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Waits until nothing moves any more; what still does is left to the judgement.
pub async fn settle(api: &Api, person: &mut Person) -> Result<(), String> {
    let began = Instant::now();
    while began.elapsed() < SETTLE_MAX {
        let undecided = person.look().await?;
        let open = api.runs("?status=queued,running,waiting").await.map_err(|error| error.to_string())?;
        if open.is_empty() && undecided == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
