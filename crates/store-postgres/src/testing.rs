//! A PostgreSQL for tests: a server of its own in a temporary directory, on a free port of the loopback address.
//!
//! PostgreSQL does not run as root, so a test that does starts it as the user `postgres`, or else `nobody`. The server
//! ends with its owner, and where `setpriv` is to be had also with a test that is killed.

mod kept;
mod pooler;
mod proxy;
mod standby;

pub use pooler::{Pooler, Pooling};
pub use proxy::{Cut, Proxy};

use crate::address::Address;
use crate::codec::Statement;
use crate::session::{Call, Session, Sockets};
use kept::Kept;
use std::fs::{File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How a server ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Sessions are ended, everything is written.
    Fast,
    /// At once; the next start recovers.
    Immediate,
    /// As by a power cut of the process alone.
    Killed,
}

pub struct Server {
    directory: TempDir,
    programs: PathBuf,
    user: Option<(u32, u32)>,
    settings: Vec<String>,
    port: u16,
    process: Option<Kept>,
    schemas: AtomicU32,
}

const READY_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

impl Server {
    /// Commits are not synced: what is tested is not the disk.
    pub fn start() -> Server {
        Server::start_with(&["fsync=off", "full_page_writes=off"])
    }

    pub fn start_with(settings: &[&str]) -> Server {
        let mut server = Server::make(settings);
        server.resume();
        server
    }

    /// One that can encrypt, with this certificate and its key.
    pub fn start_with_certificate(certificate: &str, key: &str) -> Server {
        let mut server = Server::make(&["fsync=off", "full_page_writes=off", "ssl=on"]);
        server.give(&server.data().join("server.crt"), certificate);
        server.give(&server.data().join("server.key"), key);
        server.resume();
        server
    }

    /// Its files, and no process yet.
    fn make(settings: &[&str]) -> Server {
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let server = Server::empty(programs(), settings);
        let mut make = server.program("initdb");
        make.args(["--no-sync", "--encoding=UTF8", "--locale=C", "--auth=trust", "--username=semel", "-D"]);
        let made = make.arg(server.data()).output().expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        server
    }

    /// A directory and a port for a server that is not there yet.
    fn empty(programs: PathBuf, settings: Vec<String>) -> Server {
        let directory = tempfile::Builder::new().prefix("semel-pg-").tempdir().expect("a temporary directory");
        let user = other_user(directory.path());
        if let Some((uid, gid)) = user {
            chown(directory.path(), Some(uid), Some(gid)).expect("root may give a directory away");
        }
        let port = free_port();
        Server { directory, programs, user, settings, port, process: None, schemas: AtomicU32::new(0) }
    }

    /// Another one with the same programs and settings, in a place of its own.
    fn beside(&self) -> Server {
        Server::empty(self.programs.clone(), self.settings.clone())
    }

    /// Writes a file that only its user may read.
    fn give(&self, path: &Path, text: &str) {
        std::fs::write(path, text).expect("a file");
        std::fs::set_permissions(path, Permissions::from_mode(0o600)).expect("its mode");
        if let Some((uid, gid)) = self.user {
            chown(path, Some(uid), Some(gid)).expect("root may give a file away");
        }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// A program of PostgreSQL, as the user that may run it.
    fn program(&self, name: &str) -> Command {
        self.as_user(&self.programs.join(name))
    }

    fn as_user(&self, path: &Path) -> Command {
        let guard = ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|path| Path::new(path).exists());
        let mut command = match (guard, self.user) {
            (Some(guard), user) => {
                let mut command = Command::new(guard);
                command.arg("--pdeathsig=KILL");
                if let Some((uid, gid)) = user {
                    command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".into()]);
                }
                command.arg(path);
                command
            }
            (None, None) => Command::new(path),
            (None, Some(_)) => panic!("PostgreSQL does not run as root, and there is no setpriv to change the user"),
        };
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command
    }

    /// Starts it (again), and waits until it takes connections.
    pub fn resume(&mut self) {
        let log = || File::options().create(true).append(true).open(self.directory.path().join("log")).expect("a log");
        let mut command = self.program("postgres");
        command.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        let own =
            ["listen_addresses=127.0.0.1", "unix_socket_directories=", "max_connections=80", "restart_after_crash=off"];
        for setting in own.into_iter().chain(self.settings.iter().map(String::as_str)) {
            command.args(["-c", setting]);
        }
        command.stdout(log()).stderr(log());
        self.process = Some(Kept::spawn(command).expect("postgres starts"));
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        let sockets = Sockets::start().expect("threads start");
        let address = Address::parse(&self.address()).expect("an address");
        let until = Instant::now() + READY_MAX;
        while sockets.connect(&address).is_err() {
            let ended = self.process.as_mut().and_then(|process| process.child.try_wait().ok().flatten());
            assert!(ended.is_none() && Instant::now() < until, "the server does not start:\n{}", self.log());
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// The address of its only database.
    pub fn address(&self) -> String {
        format!("postgres://semel@127.0.0.1:{}/postgres", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// A name that no other test of this server has.
    pub fn schema(&self) -> String {
        format!("test_{}", self.schemas.fetch_add(1, Ordering::Relaxed))
    }

    /// Runs statements outside of every store.
    pub fn run(&self, sql: &str) {
        self.with(|session| match session.fly(vec![Call::Text(sql.to_owned())]).rows() {
            Ok(_) => {}
            Err(error) => panic!("{sql}: {error:?}"),
        });
    }

    /// The first number of the first row.
    pub fn number(&self, sql: &str) -> i64 {
        self.with(|session| match session.fly(vec![Call::Typed(Statement::new(sql, vec![]))]).rows() {
            Ok(rows) => rows[0][0].get(0),
            Err(error) => panic!("{sql}: {error:?}"),
        })
    }

    fn with<T>(&self, act: impl FnOnce(&Session) -> T) -> T {
        let sockets = Sockets::start().expect("threads start");
        let address = Address::parse(&self.address()).expect("an address");
        match sockets.connect(&address) {
            Ok(session) => act(&session),
            Err(error) => panic!("the server cannot be reached: {error:?}"),
        }
    }

    pub fn stop(&mut self, how: Stop) {
        let Some(mut process) = self.process.take() else { return };
        let signal = match how {
            Stop::Fast => "-INT",
            Stop::Immediate => "-QUIT",
            Stop::Killed => "-KILL",
        };
        let told = Command::new("kill").args([signal, &process.child.id().to_string()]).status();
        assert!(told.is_ok_and(|status| status.success()), "the server cannot be told to end");
        process.child.wait().expect("the server ends");
        if how == Stop::Killed {
            self.wait_for_children();
        }
    }

    /// The children of a killed server notice by themselves; until then the directory is in use.
    fn wait_for_children(&self) {
        let until = Instant::now() + READY_MAX;
        let data = self.data();
        while Instant::now() < until && children_use(&data) {
            std::thread::sleep(LOOK_EVERY);
        }
        // Left behind by a server that had no time to remove it.
        let _ = std::fs::remove_file(data.join("postmaster.pid"));
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port()
}

/// Whether a process still has this directory as its own.
fn children_use(data: &Path) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    processes.flatten().any(|process| std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == data))
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            // As fast as it goes: nobody will look at the directory again.
            let _ = Command::new("kill").args(["-QUIT", &process.child.id().to_string()]).status();
        }
        if let Some(mut process) = self.process.take() {
            let _ = process.child.wait();
        }
    }
}

/// The user to run as, if this process may not run it itself.
fn other_user(own: &Path) -> Option<(u32, u32)> {
    let uid = std::fs::metadata(own).expect("a directory").uid();
    if uid != 0 {
        return None;
    }
    let number = |flag: &str| {
        let out = Command::new("id").args([flag, "postgres"]).output().ok().filter(|out| out.status.success())?;
        String::from_utf8(out.stdout).ok()?.trim().parse::<u32>().ok()
    };
    // Without such a user: nobody.
    Some((number("-u").unwrap_or(65_534), number("-g").unwrap_or(65_534)))
}

/// Where the programs are: `SEMEL_POSTGRES_BIN`, else where pg_config says, else the newest of Debian's directories.
fn programs() -> PathBuf {
    let named = std::env::var_os("SEMEL_POSTGRES_BIN").map(PathBuf::from);
    let told = Command::new("pg_config").arg("--bindir").output().ok();
    let told = told.map(|out| PathBuf::from(String::from_utf8_lossy(&out.stdout).trim()));
    let mut installed: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    installed.sort();
    let known = named.into_iter().chain(told).chain(installed.into_iter().rev().map(|(_, path)| path));
    let on_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    known
        .chain(on_path.unwrap_or_default())
        .find(|path| path.join("initdb").exists() && path.join("postgres").exists())
        .expect("PostgreSQL is installed (the Debian package is called postgresql)")
}
