//! A real server in a process of its own: this executable, to be driven, measured or killed.

use crate::failure::Failure;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(60);
const END_LIMIT: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// How much of its log a server that failed to start is quoted with.
const LOG_TAIL_LINES: usize = 15;

pub struct Process {
    child: Child,
    pub address: SocketAddr,
}

/// What to start, and where its files are: its log and, once it is ready, its address.
pub struct Start<'a> {
    pub directory: &'a Path,
    pub arguments: &'a [String],
}

impl Process {
    /// Starts a server without tokens on the store in `directory` and waits until it is ready.
    pub async fn start(directory: &Path, port: u16) -> Result<Process, Failure> {
        let listen = format!("127.0.0.1:{port}");
        let store = store(directory);
        let arguments = ["serve", "--dev", "--until-stdin-ends", "--listen", &listen, "--store", &store];
        Process::spawn(Start { directory, arguments: &arguments.map(str::to_owned) }).await
    }

    /// Starts this executable and waits until it has written its address.
    pub async fn spawn(start: Start<'_>) -> Result<Process, Failure> {
        let log = start.directory.join("server.log");
        let port_file = start.directory.join("address");
        // The file of an earlier server must not be taken for the new one's.
        let _ = std::fs::remove_file(&port_file);
        let child = command(&start, &port_file, &log);
        let child = child.map_err(|error| Failure::refused("no_server", format!("cannot start a server: {error}")))?;
        let mut process = Process { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        process.address = process.until_ready(&port_file, &log).await?;
        Ok(process)
    }

    /// The server writes its address when it is ready to answer.
    async fn until_ready(&mut self, port_file: &Path, log: &Path) -> Result<SocketAddr, Failure> {
        let started = Instant::now();
        loop {
            if let Some(address) = std::fs::read_to_string(port_file).ok().and_then(|text| text.trim().parse().ok()) {
                return Ok(address);
            }
            let ended = self.child.try_wait().ok().flatten();
            if ended.is_some() || started.elapsed() > START_LIMIT {
                let what =
                    ended.map_or("is not ready after 60 s".to_owned(), |status| format!("ended early ({status})"));
                return Err(Failure::refused("no_server", format!("the server {what}")).preface(tail(log)));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and wait until the process is gone: nothing it held is held any more.
    pub fn kill(mut self) -> std::io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(|_| ())
    }

    /// Asks the server to end, and lets it.
    pub async fn end(mut self) {
        drop(self.child.stdin.take());
        let asked = Instant::now();
        while asked.elapsed() < END_LIMIT {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

impl Drop for Process {
    /// Whatever way we end, the server does too. Both calls are harmless when it has ended already.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(start: &Start, port_file: &Path, log: &Path) -> std::io::Result<Child> {
    let log = File::options().create(true).append(true).open(log)?;
    let mut command = Command::new(std::env::current_exe()?);
    // It shows the defaults, whatever this machine has configured.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SEMEL_")) {
        command.env_remove(name);
    }
    command
        .args(start.arguments)
        .arg("--port-file")
        .arg(port_file)
        .current_dir(start.directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log)
        // Ctrl-C is for us, who then end the server.
        .process_group(0)
        .spawn()
}

pub fn store(directory: &Path) -> String {
    format!("sqlite:{}", directory.join("semel.db").display())
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}
