//! A process that ends with its owner, and not before.

use std::process::{Child, Command};
use std::sync::mpsc::{Sender, channel};

/// The signal that ends a child is sent when the *thread* ends that started it, and a test may start it on one that
/// comes and goes. So a thread of its own starts it, and stays.
pub struct Kept {
    pub child: Child,
    _stay: Sender<()>,
}

impl Kept {
    pub fn spawn(mut command: Command) -> std::io::Result<Kept> {
        let (started, start) = channel();
        let (stay, until) = channel::<()>();
        std::thread::spawn(move || {
            // Whoever asked waits for it.
            let _ = started.send(command.spawn());
            // Nothing is ever sent: it ends when the owner is gone.
            let _ = until.recv();
        });
        let child = start.recv().map_err(std::io::Error::other)??;
        Ok(Kept { child, _stay: stay })
    }
}
