//! One binary, a server for each test: the shared suite, the comparison with the other stores, and what only several
//! processes and a network can do.

mod differential;
mod nodes;
mod pooled;
mod races;
mod suite;
mod support;
mod tls;
mod trouble;
mod workers;
