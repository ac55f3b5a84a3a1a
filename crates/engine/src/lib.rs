//! The engine: admit, dispatch, timers, perform, recover.
//!
//! [`driver`] holds the logic, one step at a time and without IO: it is handed what happened and
//! returns what to do. [`shell`] is the thin tokio layer around it. [`Engine`] is what doors see.
//! Nothing here reads a clock or a random source but through the ports in [`ports`].

pub mod api;
pub mod flows;
mod handle;
pub mod ports;

pub use api::*;
pub use handle::Engine;
