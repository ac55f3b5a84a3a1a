//! When to stop.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C and SIGTERM, from the moment it is made: neither ends the process any more.
pub struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    pub fn listen() -> std::io::Result<Stop> {
        Ok(Stop { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
