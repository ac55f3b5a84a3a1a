//! One binary: the shared suite, the comparison with the oracle, and what only a file can do.

mod differential;
mod files;
mod suite;
mod support;
