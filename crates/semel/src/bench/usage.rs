//! What a process has used so far, as the kernel tells it.

use std::time::Duration;

/// The kernel counts processor time in these, on every Linux there is.
const TICKS_PER_SECOND: u64 = 100;

/// Processor time of a process, user and system together; `None` where there is no /proc.
pub fn cpu(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    cpu_of(&stat)
}

/// The name in parentheses may hold spaces, so fields are counted after it.
fn cpu_of(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
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
        let stat = "42 (a b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0";
        assert_eq!(cpu_of(stat), Some(Duration::from_secs(3)));
        assert_eq!(cpu_of("nonsense"), None);
    }

    #[test]
    fn this_process_uses_something() {
        let (now, highest) = memory_kib(std::process::id()).unwrap();
        assert!(now > 0 && highest >= now);
        assert!(cpu(std::process::id()).is_some());
    }
}
