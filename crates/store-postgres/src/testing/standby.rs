//! A second server that follows the first and can take its place.

use super::Server;
use std::time::Instant;

impl Server {
    /// A copy of this server that follows it over `port`, which is this server's own or that of a proxy before it.
    pub fn standby(&self, name: &str, port: u16) -> Server {
        let mut standby = self.beside();
        let mut copy = standby.program("pg_basebackup");
        let source = format!("host=127.0.0.1 port={} user=semel", self.port());
        copy.args(["--no-sync", "--checkpoint=fast", "--wal-method=stream", "-d", &source, "-D"]);
        let copied = copy.arg(standby.data()).output().expect("pg_basebackup runs");
        assert!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
        standby.give(&standby.data().join("standby.signal"), "");
        let follows = format!("host=127.0.0.1 port={port} user=semel application_name={name}");
        standby.settings.push(format!("primary_conninfo={follows}"));
        standby.resume();
        standby
    }

    /// From now on no commit is acknowledged before the standby of this name has it.
    pub fn wait_for_standby(&self, name: &str) {
        self.run(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"));
        self.run("SELECT pg_reload_conf()");
        let sql = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        self.until(sql, 1, "the standby follows");
    }

    /// Makes a standby the server that is written to.
    pub fn promote(&self) {
        self.run("SELECT pg_promote()");
        self.until("SELECT count(*) WHERE NOT pg_is_in_recovery()", 1, "it is promoted");
    }

    fn until(&self, sql: &str, number: i64, what: &str) {
        let until = Instant::now() + super::READY_MAX;
        while self.number(sql) != number {
            assert!(Instant::now() < until, "not in time: {what}\n{}", self.log());
            std::thread::sleep(super::LOOK_EVERY);
        }
    }
}
