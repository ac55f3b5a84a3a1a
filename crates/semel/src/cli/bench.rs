//! `semel bench`

use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Measure this machine: admissions, replays, one hot key and ten-step runs over HTTP, beside the limits of HTTP and disk
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel bench
  semel bench --seconds 10 --clients 16 --json
  semel bench --store sqlite:/var/tmp/bench/semel.db --runs 5000000    fill a store first, then measure on it
  semel bench --store postgres://semel@localhost/semel --nodes 3       one server and three on one database
  semel bench kestra                                                   the flows of Kestra's published benchmark
  semel bench conductor                                                workflows of one and of twenty tasks, with workers

A real server process on a port of its own, driven over loopback from this machine. Without --store everything happens
in a temporary directory that is removed. With --store the file is written to: never name one you need. In a database
everything happens in a schema of its own, semel_bench_…, which is dropped at the end.")]
pub struct Bench {
    /// Measure a foreign door instead, at its own addresses
    #[arg(value_enum, value_name = "DOOR")]
    door: Option<MeasuredDoor>,
    /// Measure on this store instead of a new one
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// How long each figure is measured
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Clients that send at the same time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Fill the store with finished runs up to this many before measuring
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    runs: u64,
    /// Servers on one database that the load is spread over; one of them is measured alone beside that
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=9))]
    nodes: u32,
    /// Exit 1 if a floor is missed
    #[arg(long)]
    check: bool,
    /// Be the trivial server that `raw_http` measures
    #[arg(long, hide = true)]
    raw_http_server: bool,
    /// Write the bound address to this file once the server is ready
    #[arg(long, value_name = "FILE", hide = true)]
    port_file: Option<PathBuf>,
}

/// The foreign doors that have a benchmark of their own.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum MeasuredDoor {
    Kestra,
    Conductor,
}

impl Bench {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        if self.raw_http_server {
            return crate::bench::raw_http::serve(self.port_file.as_deref());
        }
        let options = crate::bench::Options {
            store: self.store,
            seconds: f64::from(self.seconds),
            clients: self.clients as usize,
            runs: self.runs,
            nodes: self.nodes as usize,
            check: self.check,
        };
        match self.door {
            None => crate::bench::run(options, shell),
            Some(MeasuredDoor::Kestra) => crate::bench::kestra::run(options, shell),
            Some(MeasuredDoor::Conductor) => crate::bench::conductor::run(options, shell),
        }
    }
}
