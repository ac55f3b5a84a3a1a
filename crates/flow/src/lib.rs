//! Flow text to IR, with exact positions.
//!
//! A flow is YAML in Kestra's shape. [`compile`] reads it in four stages, and a file with mistakes gets all of them
//! reported at once, each at the key or value it is about:
//!
//! | stage | module | what it does |
//! |---|---|---|
//! | load | `yaml` | parser events to a tree whose nodes know their place; size, depth and alias limits |
//! | lower | `lower` | tree to [`semel_core::ir::Flow`], field by field |
//! | templates | `templates` | every `{{ … }}` is parsed; mistakes are mapped back into the YAML text |
//! | check | `check` | names used in expressions exist; which outputs anyone reads |
//!
//! Nothing here reads a clock, a file or the network, and no input makes it panic.

mod check;
mod codes;
pub mod conductor;
mod defaults;
mod diagnostic;
mod differences;
mod lower;
mod path;
mod render;
mod source;
mod suggest;
mod templates;
mod texts;
mod yaml;

pub use codes::CODES;
pub use diagnostic::{Diagnostic, Related, Severity, Span};
pub use differences::{Difference, differences};
pub use lower::cron::parse_cron;
pub use path::path_at;
pub use render::render;
pub use texts::{Document, documents, with_disabled, with_namespace};

use semel_core::FlowRef;
use semel_core::ir::{Catalog, Flow};
use semel_core::limits::Limits;
use source::Source;

/// A flow that passed every check of its own text.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub flow: Flow,
    pub warnings: Vec<Diagnostic>,
    /// Static targets of Subflow tasks: whether they exist and form no cycle is for whoever knows the other flows.
    pub subflow_refs: Vec<(FlowRef, Span)>,
}

/// Compiles one flow. `Err` holds every error and warning, sorted by position; there is at least one error.
pub fn compile(source: &str, catalog: &dyn Catalog, limits: &Limits) -> Result<Compiled, Vec<Diagnostic>> {
    let source = Source::new(source);
    let (mut root, mut findings) = yaml::load(&source, limits);
    if let Some(root) = &mut root {
        findings.extend(defaults::write_out(root, catalog, limits.yaml_nodes_max));
    }
    let mut outcome = None;
    let mut dropped = 0;
    if let Some(root) = &root {
        let mut context = lower::Context::new(&source, catalog, limits);
        let flow = lower::flow::flow(&mut context, root);
        outcome = check::finish(&mut context, flow);
        findings.append(&mut context.findings);
        dropped = context.dropped;
    }
    let failed = findings.iter().any(|finding| finding.severity == Severity::Error);
    let diagnostics = place(&source, findings, dropped);
    match outcome {
        Some((flow, refs)) if !failed => {
            let subflow_refs = refs.into_iter().map(|(target, at)| (target, source.span(at))).collect();
            Ok(Compiled { flow, warnings: diagnostics, subflow_refs })
        }
        _ => Err(diagnostics),
    }
}

/// Reads a YAML text as data, under the same limits as a flow. `Err` says what is wrong and where.
pub fn yaml_value(text: &str, limits: &Limits) -> Result<serde_json::Value, String> {
    let source = Source::new(text);
    let (root, findings) = yaml::load(&source, limits);
    match findings.into_iter().find(|finding| finding.severity == Severity::Error) {
        Some(error) => Err(format!("line {}: {}", source.span(error.at.clone()).line, error.message)),
        None => Ok(root.map_or(serde_json::Value::Null, |node| node.to_json())),
    }
}

/// More than this helps nobody, and each one costs a walk over its line.
const DIAGNOSTICS_MAX: usize = 100;

fn place(source: &Source, mut findings: Vec<diagnostic::Finding>, dropped: usize) -> Vec<Diagnostic> {
    findings.sort_by_key(|found| (found.at.start, found.severity, found.at.end));
    // What else is wrong with a value that lacks its quotes follows from that.
    let unquoted: Vec<usize> =
        findings.iter().filter(|found| found.code == codes::UNQUOTED_TEMPLATE).map(|found| found.at.start).collect();
    findings.retain(|found| found.code == codes::UNQUOTED_TEMPLATE || unquoted.binary_search(&found.at.start).is_err());
    findings.dedup_by(|a, b| a.code == b.code && a.at == b.at && a.message == b.message);
    if findings.len() > DIAGNOSTICS_MAX {
        let left_out = findings.len() - DIAGNOSTICS_MAX + dropped;
        // Errors decide whether the file compiles, so warnings are the first to go.
        findings.sort_by_key(|finding| finding.severity);
        findings.truncate(DIAGNOSTICS_MAX);
        findings.sort_by_key(|finding| finding.at.start);
        let end = source.text.len()..source.text.len();
        let severity = findings.iter().map(|finding| finding.severity).min().unwrap_or(Severity::Error);
        let message = format!("{left_out} more problems are not shown");
        findings.push(diagnostic::Finding { severity, ..diagnostic::Finding::warning(codes::TOO_MANY, end, message) });
    }
    findings.into_iter().map(|finding| source.locate(finding)).collect()
}
