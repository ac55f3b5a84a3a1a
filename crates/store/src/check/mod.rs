//! The checker: does a store obey its own rules?
//!
//! It reads every row once, page by page on one snapshot, and writes nothing. What can be computed
//! again is: each decision from its logged inputs, each run from its journal, each effect from the
//! events that led to it. What two rows say of one thing must agree. A row that cannot be read is
//! a finding like any other; the rest is still checked.
//!
//! | walk | in order of | sees |
//! |---|---|---|
//! | [`runs`] | run id | head, values, journal, snapshot, timers, errands, effects, inbox, the decisions that name it |
//! | [`keys`] | claim | the claim, its run, its decisions in order |
//! | [`lanes`] | lane | who holds a slot, who waits |
//!
//! Memory is bounded by a page of runs and by the largest single run.

mod audit;
mod codes;
mod decisions;
mod fold;
mod keys;
mod lanes;
mod ledger;
mod runs;

pub use audit::{Audit, Row, Seen, Span, Table, damaged_row};
pub use codes::Code;

use crate::error::StoreError;
use crate::tx::Result;
use crate::{Reads, RestoredRow};
use semel_core::ir::Flow;
use semel_core::run::Status;
use semel_core::{FlowRef, RunId, WorkspaceId};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What to look at.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Findings kept; further ones are only counted.
    pub findings_max: usize,
    /// Runs read at a time.
    pub page: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { workspace: None, findings_max: 1_000, page: 256 }
    }
}

/// One broken rule, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    pub code: &'static str,
    /// The promise that is broken, by its number.
    pub invariant: &'static str,
    pub workspace: String,
    /// The thing it was found at: `run …`, `key …`, `lane …`, `decision …`.
    pub what: String,
    pub message: String,
    pub advice: &'static str,
}

impl Violation {
    pub fn new(code: Code, workspace: &WorkspaceId, what: impl Into<String>, message: impl Into<String>) -> Violation {
        Violation {
            code: code.word(),
            invariant: code.invariant(),
            workspace: workspace.0.clone(),
            what: what.into(),
            message: message.into(),
            advice: code.advice(),
        }
    }
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub workspaces: u64,
    pub runs: u64,
    /// Every run is in one of them.
    pub by_status: BTreeMap<Status, u64>,
    pub journal_rows: u64,
    pub events: u64,
    pub snapshots: u64,
    pub timers: u64,
    pub errands: u64,
    pub effects: u64,
    pub messages: u64,
    pub decisions: u64,
    /// Decisions whose run was deleted since.
    pub decisions_of_deleted_runs: u64,
    pub claims: u64,
    pub lanes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub counts: Counts,
    /// Set when the store was made from a backup.
    pub restored: Option<RestoredRow>,
    pub violations: Vec<Violation>,
    /// All that were found; more than are listed when there are very many.
    pub found: u64,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        self.found == 0
    }

    pub fn has(&self, code: Code) -> bool {
        self.violations.iter().any(|v| v.code == code.word())
    }

    /// Adds what another check of the same store found.
    pub fn add(&mut self, violation: Violation, findings_max: usize) {
        self.found += 1;
        if self.violations.len() < findings_max {
            self.violations.push(violation);
        }
    }
}

/// Checks a store on one snapshot of it.
pub fn check(store: &(impl Reads + ?Sized), options: &Options) -> Result<Report> {
    let mut report = Report::default();
    store.audit(&mut |audit| {
        report = look(audit, options, &mut |_| {})?;
        Ok(())
    })?;
    Ok(report)
}

/// Checks what an audit shows. `progress` is called after each page.
pub fn look(audit: &dyn Audit, options: &Options, progress: &mut dyn FnMut(&Counts)) -> Result<Report> {
    let workspaces = match &options.workspace {
        Some(workspace) => vec![workspace.clone()],
        None => audit.workspaces()?,
    };
    let mut check = Check {
        audit,
        options,
        progress,
        report: Report { restored: audit.restored()?, ..Report::default() },
        flows: RefCell::default(),
        oldest_decision: audit.oldest_decision()?,
    };
    for workspace in workspaces {
        check.report.counts.workspaces += 1;
        check.runs(&workspace)?;
        check.keys(&workspace)?;
        check.lanes(&workspace)?;
    }
    Ok(check.report)
}

/// A flow, if it could be read.
type Compiled = Option<Arc<Flow>>;

struct Check<'a> {
    audit: &'a dyn Audit,
    options: &'a Options,
    progress: &'a mut dyn FnMut(&Counts),
    report: Report,
    /// Flows already read.
    flows: RefCell<BTreeMap<(WorkspaceId, FlowRef, u32), Compiled>>,
    /// The decision log is kept for a while only: what is older cannot be asked for.
    oldest_decision: Option<(u64, semel_core::Millis)>,
}

impl Check<'_> {
    fn found(&mut self, code: Code, workspace: &WorkspaceId, what: String, message: impl Into<String>) {
        let violation = Violation::new(code, workspace, what, message);
        self.report.add(violation, self.options.findings_max);
    }

    fn found_run(&mut self, code: Code, workspace: &WorkspaceId, run: RunId, message: impl Into<String>) {
        self.found(code, workspace, format!("run {run}"), message);
    }

    /// Damage ends one scan, not the check; any other trouble ends the check.
    fn damage(&mut self, workspace: &WorkspaceId, what: &str, answer: Result<()>) -> Result<()> {
        match answer {
            Err(StoreError::Poisoned(why)) => {
                let message = format!("{why}; the rest of these rows was not read");
                self.found(Code::StoreDamaged, workspace, what.to_owned(), message);
                Ok(())
            }
            other => other,
        }
    }

    /// The compiled flow of a revision, if it is there and can be read.
    fn flow(&self, workspace: &WorkspaceId, flow: &FlowRef, revision: u32) -> Result<Compiled> {
        let key = (workspace.clone(), flow.clone(), revision);
        if let Some(known) = self.flows.borrow().get(&key) {
            return Ok(known.clone());
        }
        let found = match self.audit.flow(workspace, flow, revision) {
            Ok(row) => row.and_then(|row| serde_json::from_str(&row.ir).ok()).map(Arc::new),
            Err(StoreError::Poisoned(_)) => None,
            Err(other) => return Err(other),
        };
        self.flows.borrow_mut().insert(key, found.clone());
        Ok(found)
    }
}
