//! What a process has used so far, as the kernel tells it.

use std::time::Duration;

/// The kernel counts processor time in these, on every Linux there is.
const TICKS_PER_SECOND: u64 = 100;

/// Processor time that was used between two readings of a [`Meter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    pub own: Duration,
    pub database: Duration,
}

impl Used {
    pub fn since(self, before: Used) -> Used {
        let passed = |now: Duration, before| now.saturating_sub(before);
        Used { own: passed(self.own, before.own), database: passed(self.database, before.database) }
    }
}

/// Whose processor time is read.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    pub processes: Vec<u32>,
    /// The first process of a database; those that serve its connections are its children.
    pub database: Option<u32>,
}

impl Meter {
    pub fn read(&self) -> Used {
        Used {
            own: self.processes.iter().filter_map(|pid| cpu(*pid)).sum(),
            database: self.database.map(family_cpu).unwrap_or_default(),
        }
    }
}

/// The first process of the database, by one that serves a connection. `None` if it runs elsewhere.
pub fn database_of(backend: u32) -> Option<u32> {
    let is_postgres = |stat: &str| stat.split_once('(').is_some_and(|(_, name)| name.starts_with("postgres"));
    let first = parent_of(&stat(backend).filter(|stat| is_postgres(stat))?)?;
    stat(first).filter(|stat| is_postgres(stat)).map(|_| first)
}

/// A process, its children, and those of them that have ended.
fn family_cpu(first: u32) -> Duration {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Duration::ZERO };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let children = pids.filter_map(stat).filter(|stat| parent_of(stat) == Some(first));
    let living: Duration = children.filter_map(|stat| ticks(&stat, 11)).sum();
    let own = stat(first).map(|stat| ticks(&stat, 11).unwrap_or_default() + ticks(&stat, 13).unwrap_or_default());
    living + own.unwrap_or_default()
}

fn stat(pid: u32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

fn parent_of(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Processor time of a process, user and system together; `None` where there is no /proc.
pub fn cpu(pid: u32) -> Option<Duration> {
    ticks(&stat(pid)?, 11)
}

/// Two fields, of user and system time. The name in parentheses may hold spaces, so fields are counted after it.
fn ticks(stat: &str, first: usize) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(first);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis((user + system) * 1_000 / TICKS_PER_SECOND))
}

/// Resident memory in KiB: now, and at its highest.
pub fn memory_kib(pid: u32) -> Option<(u64, u64)> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    Some((field("VmRSS:")?, field("VmHWM:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_after_the_name() {
        let stat = "42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 100 0";
        assert_eq!(ticks(stat, 11), Some(Duration::from_secs(3)));
        assert_eq!(ticks(stat, 13), Some(Duration::from_secs(1)));
        assert_eq!(parent_of(stat), Some(1));
        assert_eq!((ticks("nonsense", 11), parent_of("nonsense")), (None, None));
    }

    #[test]
    fn this_process_uses_something() {
        let (now, highest) = memory_kib(std::process::id()).unwrap();
        assert!(now > 0 && highest >= now);
        assert!(cpu(std::process::id()).is_some());
        assert_eq!(database_of(std::process::id()), None, "this is no database");
    }
}
