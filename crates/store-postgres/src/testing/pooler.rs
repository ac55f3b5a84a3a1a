//! A pgbouncer between a store and its server.

use super::kept::Kept;
use super::{LOOK_EVERY, READY_MAX, Server, free_port};
use crate::address::Address;
use crate::session::Sockets;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What the pooler gives a client for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// A connection for as long as the client stays.
    Session,
    /// A connection for each transaction, any of them.
    Transaction,
}

/// Ends with its owner, and before its server.
pub struct Pooler {
    port: u16,
    process: Kept,
    log: PathBuf,
}

/// Connections to the server. In transaction mode fewer than the clients have, so that they are really shared.
const CONNECTIONS: [(Pooling, u32); 2] = [(Pooling::Session, 60), (Pooling::Transaction, 5)];

impl Pooler {
    pub fn start(server: &Server, pooling: Pooling) -> Pooler {
        let port = free_port();
        let directory = server.directory.path();
        let (log, file, users) = (at(directory, port, "log"), at(directory, port, "ini"), at(directory, port, "users"));
        server.give(&users, "\"semel\" \"\"\n");
        server.give(&file, &settings(server.port, port, pooling, &users));
        server.give(&log, "");
        let open = || File::options().append(true).open(&log).expect("a log");
        let mut command = server.as_user(&program());
        command.arg(&file).stdout(open()).stderr(open());
        let process = Kept::spawn(command).expect("pgbouncer starts");
        let mut pooler = Pooler { port, process, log };
        pooler.wait_until_ready();
        pooler
    }

    fn wait_until_ready(&mut self) {
        let sockets = Sockets::start().expect("threads start");
        let address = Address::parse(&self.address()).expect("an address");
        let until = Instant::now() + READY_MAX;
        while sockets.connect(&address).is_err() {
            let ended = self.process.child.try_wait().ok().flatten();
            let log = || std::fs::read_to_string(&self.log).unwrap_or_default();
            assert!(ended.is_none() && Instant::now() < until, "pgbouncer does not start:\n{}", log());
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// The server's database, through the pooler.
    pub fn address(&self) -> String {
        format!("postgres://semel@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.process.child.kill();
        let _ = self.process.child.wait();
    }
}

fn at(directory: &Path, port: u16, what: &str) -> PathBuf {
    directory.join(format!("pooler-{port}.{what}"))
}

fn settings(server: u16, port: u16, pooling: Pooling, users: &Path) -> String {
    let mode = match pooling {
        Pooling::Session => "session",
        Pooling::Transaction => "transaction",
    };
    let connections = CONNECTIONS.iter().find(|(one, _)| *one == pooling).map_or(5, |(_, count)| *count);
    format!(
        "[databases]\npostgres = host=127.0.0.1 port={server} dbname=postgres user=semel\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = trust\n\
         auth_file = {}\npool_mode = {mode}\ndefault_pool_size = {connections}\nmax_client_conn = 200\n",
        users.display()
    )
}

/// `SEMEL_PGBOUNCER`, else where Debian puts it, else on the path.
fn program() -> PathBuf {
    let named = std::env::var_os("SEMEL_PGBOUNCER").map(PathBuf::from);
    let path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let usual = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let directories = usual.into_iter().chain(path.unwrap_or_default());
    named
        .into_iter()
        .chain(directories.map(|directory| directory.join("pgbouncer")))
        .find(|path| path.exists())
        .expect("pgbouncer is installed (the Debian package is called pgbouncer)")
}
