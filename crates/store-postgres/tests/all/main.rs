//! One binary, a server for each test: the shared suite, the comparison with the other stores, and what only several
//! processes and a network can do.

mod differential;
mod nodes;
mod proxy;
mod races;
mod suite;
mod support;
mod trouble;
mod workers;
