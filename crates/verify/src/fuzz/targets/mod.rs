//! The targets, one file per kind of reader.

mod bodies;
mod expressions;
mod flows;
mod literals;
mod outside;
mod settings;
mod stored;

use super::Target;

/// Every reader of foreign bytes.
pub const TARGETS: &[Target] = &[
    flows::YAML,
    flows::JSON,
    flows::KESTRA,
    flows::DATA,
    expressions::EXPRESSION,
    expressions::TEMPLATE,
    expressions::JQ,
    literals::CRON,
    literals::LITERALS,
    outside::URL,
    outside::SIGNATURE,
    stored::JOURNAL,
    stored::SNAPSHOT,
    stored::VALUES,
    settings::CONFIG,
    bodies::ADMISSION,
    bodies::MANAGEMENT,
];

/// The input cut in parts at lines that hold only `===`; parts that are missing are empty.
fn parts<const N: usize>(input: &str) -> [&str; N] {
    let mut rest = input.splitn(N, "\n===\n");
    std::array::from_fn(|_| rest.next().unwrap_or(""))
}
