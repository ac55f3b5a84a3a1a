//! The real binary, over real sockets, against a bank that counts what reaches it.
//!
//! Every test has a server process, a store and a bank of its own. Nothing here looks inside the
//! process: what a test knows, it was told over HTTP, by the CLI, by the bank, or by the bytes of
//! the store. Tests wait for conditions, never for a span of time, except where the promise itself
//! is a span (a window, a timer, a schedule).

mod harness;

mod auth;
mod backup;
mod bad_input;
mod check;
mod conductor;
mod control;
mod corpus;
mod crash_more;
mod crashes;
mod damage;
mod databases;
mod decided;
mod disk_full;
mod doubts;
mod events;
mod files;
mod flow_triggers;
mod kestra;
mod lanes;
mod lanes_more;
mod limits;
mod loops;
mod nodes;
mod policies;
mod postgres;
mod races;
mod schedules;
mod secrets;
mod shutdown;
mod signatures;
mod steps;
mod subruns;
mod trigger;
mod trigger_windows;
