//! The built binary, from outside. One test binary per crate: linking is what takes the time.

mod exits;
mod offline;
mod program;
