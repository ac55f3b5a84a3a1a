//! The built binary, from outside. One test binary per crate: linking is what takes the time.

mod bench;
mod client;
mod demo;
mod doubt;
mod exits;
mod fake;
mod import;
mod import_conductor;
mod offline;
mod program;
mod server;
