//! The engine for a simulator: all of it, but for the thread that runs it.
//!
//! A [`Node`] is what `serve` starts, with every port in the hands of the caller: store, clock,
//! entropy, performer, and who runs errands. Nothing happens but by the calls below, on the
//! caller's thread. A crash is a node that is dropped.

use crate::handle::{Engine, Parts};
use crate::ports::Aside;
use crate::shell::Shell;
use semel_core::Millis;
use semel_store::StoreError;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub struct Node {
    engine: Arc<Engine>,
    shell: Shell,
}

impl Node {
    pub fn new(parts: Parts, aside: Arc<dyn Aside>) -> Node {
        let (engine, shell) = Engine::build(parts, aside);
        Node { engine, shell }
    }

    /// What doors see. Its futures are polled by the caller.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// What a start does first.
    pub fn recover(&mut self) {
        self.shell.recover();
        self.shell.ready.store(true, Ordering::SeqCst);
    }

    /// Handles one message, if there is one, and looks at the timers. False when there was none.
    pub fn turn(&mut self) -> bool {
        let message = self.shell.inbox.try_recv();
        let found = message.is_ok();
        if let Ok(message) = message {
            self.shell.handle(message);
        }
        self.shell.look_around();
        found
    }

    /// When the node wants to look at the timers again.
    pub fn next_look(&self) -> Millis {
        self.shell.next_look()
    }

    /// Why the process would end now, if it would.
    pub fn fatal(&self) -> Option<StoreError> {
        self.shell.fatal.lock().clone()
    }

    /// Runs with a commit or a request in the air.
    pub fn in_flight(&self) -> usize {
        self.shell.driver.in_flight()
    }
}
