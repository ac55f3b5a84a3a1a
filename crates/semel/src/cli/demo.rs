//! `semel demo`

use crate::failure::Failure;
use crate::output::{Reply, Shell};
use clap::Args;

/// See one payment event, delivered 50 times to a server that is killed half-way, become one charge
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  semel demo
  semel demo --deliveries 500
  semel demo --once --json    for scripts: ends after the tally, exit 0 only if it holds

A real server process, a real SIGKILL, a fake bank that honours Idempotency-Key. Nothing is left behind.")]
pub struct Demo {
    /// End after the tally
    #[arg(long)]
    once: bool,
    /// How often the event is delivered
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(2..=1000))]
    deliveries: u32,
    /// Port of the server [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

impl Demo {
    pub fn run(self, shell: &Shell) -> Result<Reply, Failure> {
        crate::demo::run(crate::demo::Options { once: self.once, deliveries: self.deliveries, port: self.port }, shell)
    }
}
