//! The walk over claims: each with its run and with all that was decided under it.
//!
//! The log of a claim falls into *eras*: an era begins with an event that found the key unknown,
//! and ends when the key was forgotten, freed by a person, or its run deleted. Within an era
//! generations only grow, and each of them has one run.

use super::Check;
use super::audit::{Row, Span, Table};
use super::codes::Code;
use super::decisions;
use crate::rows::*;
use crate::script::RELEASED_FROM;
use crate::tx::Result;
use semel_core::admission::*;
use semel_core::run::{Event, Status, decode_events};
use semel_core::{Hash16, Millis, RunId, WorkspaceId};
use std::collections::BTreeMap;

/// The last decisions that changed a claim.
#[derive(Default)]
struct Log {
    last: Option<Box<DecisionRow>>,
    /// The one before, for the change of an era.
    findings: Vec<(Code, String)>,
    eras: Vec<(Box<DecisionRow>, Box<DecisionRow>)>,
}

impl Check<'_> {
    pub(super) fn keys(&mut self, workspace: &WorkspaceId) -> Result<()> {
        let mut after = None;
        loop {
            let page = match self.audit.claims(workspace, after, self.options.page) {
                Ok(page) => page,
                failed => return self.damage(workspace, "claims", failed.map(|_| ())),
            };
            let upto = page.last().map(|(hash, _)| *hash).filter(|_| page.len() == self.options.page as usize);
            let mut logs: BTreeMap<Hash16, Log> = BTreeMap::new();
            let span = Span { after, upto };
            let answer = self.audit.decisions_of_claims(workspace, span, &mut |seen| {
                // A row that cannot be read was found by the walk over runs.
                if let Ok(row) = seen
                    && let Some(claim) = row.claim
                {
                    logs.entry(claim).or_default().take(row);
                }
            });
            self.damage(workspace, "decisions", answer)?;
            for (hash, seen) in page {
                self.report.counts.claims += 1;
                match seen {
                    Ok(claim) => self.claim(workspace, &claim, logs.get(&hash))?,
                    Err(why) => self.found(Code::StoreDamaged, workspace, format!("claim {hash}"), why),
                }
            }
            for (hash, log) in logs {
                self.log(workspace, hash, log)?;
            }
            (self.progress)(&self.report.counts);
            if upto.is_none() {
                break;
            }
            after = upto;
        }
        let mut found = Vec::new();
        let answer = self.audit.decisions_without_run(workspace, &mut |seen| {
            self.report.counts.decisions += 1;
            match seen {
                Err(why) => found.push((Code::StoreDamaged, "decisions".to_owned(), why)),
                Ok(row) => {
                    if let Some(why) = decisions::differs(&row) {
                        found.push((Code::DecisionDiffers, format!("decision {}", row.seq), why));
                    }
                }
            }
        });
        self.damage(workspace, "decisions", answer)?;
        for (code, what, why) in found {
            self.found(code, workspace, what, why);
        }
        Ok(())
    }

    fn claim(&mut self, workspace: &WorkspaceId, claim: &Claim, log: Option<&Log>) -> Result<()> {
        let name = format!("claim {}", claim.hash);
        if let Some(key) = &claim.key {
            let plain = claim_hash(workspace, &claim.scope, key);
            if claim.hash != plain && claim.hash != split_hash(plain, &claim.fingerprint) {
                let text = "its hash is not that of its workspace, scope and key".to_owned();
                self.found(Code::ClaimHash, workspace, name.clone(), text);
            }
        }
        match self.audit.head(workspace, claim.run)? {
            None => {
                let text = format!("it leads to run {}, which is not there", claim.run);
                self.found(Code::ClaimRunMissing, workspace, name.clone(), text);
            }
            Some(run) => {
                if !state_fits(claim, &run) {
                    let text = format!("it is {}, and its run {} is {}", claim.state.word(), run.id, run.status.word());
                    self.found(Code::ClaimState, workspace, name.clone(), text);
                }
            }
        }
        if claim.completed_at.is_some() == claim.state.is_open() {
            let text = format!("it is {} and its run ended at {:?}", claim.state.word(), claim.completed_at);
            // A doubt found at the end holds a claim whose run has ended.
            if !(claim.state == ClaimState::Held && claim.completed_at.is_some()) {
                self.found(Code::ClaimState, workspace, name.clone(), text);
            }
        }
        if let Some(last) = log.and_then(|log| log.last.as_ref())
            && (!self.is_led_to(workspace, claim, last)?
                || last.generation > claim.generation
                || last.fingerprint != claim.fingerprint)
            && raised_fingerprint(last)
        {
            let text = format!(
                "decision {} left it with run {:?} in generation {}, and it says {} in generation {}",
                last.seq, last.run, last.generation, claim.run, claim.generation
            );
            self.found(Code::ClaimDiffers, workspace, name, text);
        }
        Ok(())
    }

    /// The run of the last decision has the claim, or an older one that a person had go on since and that took it back.
    fn is_led_to(&self, workspace: &WorkspaceId, claim: &Claim, last: &DecisionRow) -> Result<bool> {
        if last.run == Some(claim.run) {
            return Ok(true);
        }
        let run = self.audit.head(workspace, claim.run)?;
        Ok(claim.generation > last.generation && run.is_some_and(|run| run.claim == Some(claim.hash)))
    }

    fn log(&mut self, workspace: &WorkspaceId, hash: Hash16, log: Log) -> Result<()> {
        for (code, message) in log.findings {
            self.found(code, workspace, format!("claim {hash}"), message);
        }
        for (last, first) in log.eras {
            if !self.could_be_forgotten(workspace, &last, &first)? {
                let text = format!(
                    "decision {} started a run for an event that decision {} had already admitted",
                    first.seq, last.seq
                );
                self.found(Code::KeyStartedTwice, workspace, format!("claim {hash}"), text);
            }
        }
        Ok(())
    }

    /// May the key have been unknown again at the time of `first`, after `last` had admitted it?
    fn could_be_forgotten(&self, workspace: &WorkspaceId, last: &DecisionRow, first: &DecisionRow) -> Result<bool> {
        let Some(id) = last.run else { return Ok(true) };
        // Deleted, and its key with it.
        let Some(run) = self.audit.head(workspace, id)? else { return Ok(true) };
        let released = self.audit.logs(workspace, id, RELEASED_FROM - 1, 1)?;
        // Erasure drops the log, and with it who freed the key.
        if !released.is_empty() || run.erased {
            return Ok(true);
        }
        Ok(match last.policy.window {
            Window::Forever => false,
            // A run that a person had go on had ended before.
            Window::WhileLive => run.generation > last.generation || self.had_ended(workspace, &run, first.at)?,
            Window::For { duration_ms, .. } => first.at >= last.at.plus(duration_ms).plus(TOMBSTONE_MS),
        })
    }

    /// Whether the run had ended by then. The head has its last end only: a doubt below that comes to light later holds
    /// the run, and the verdict ends it once more.
    fn had_ended(&self, workspace: &WorkspaceId, run: &RunRow, by: Millis) -> Result<bool> {
        if run.ended_at.is_some_and(|at| at <= by) {
            return Ok(true);
        }
        let before = RunId::from_bytes(u128::from_be_bytes(*run.id.as_bytes()).wrapping_sub(1).to_be_bytes());
        let mut found = false;
        self.audit.rows(workspace, Table::Journal, Span { after: Some(before), upto: Some(run.id) }, &mut |seen| {
            if let Ok(Row::Journal(row)) = seen
                && row.at <= by
                && let Ok(events) = decode_events(&row.events, None)
            {
                found |= events.iter().any(|event| matches!(event, Event::Ended { .. }));
            }
        })?;
        Ok(found)
    }
}

impl Log {
    fn take(&mut self, row: DecisionRow) {
        // A decision that changed nothing may be logged later than it was taken.
        if !decisions::raised_the_claim(&row) {
            return;
        }
        if let Some(last) = &self.last {
            if row.prior_generation == 0 {
                self.eras.push((last.clone(), Box::new(row.clone())));
            } else if row.generation <= last.generation {
                let text = format!(
                    "decision {} gave generation {}, and decision {} before it had given {}",
                    row.seq, row.generation, last.seq, last.generation
                );
                self.findings.push((Code::DecisionGeneration, text));
            } else if (row.prior_run != last.run && row.prior_generation == last.generation)
                || row.same_payload != (row.fingerprint == last.fingerprint)
            {
                let text = format!("decision {} was not taken on what decision {} had left", row.seq, last.seq);
                self.findings.push((Code::DecisionGeneration, text));
            }
        }
        // A twin that has its run go on leaves the claim's event as it was.
        let fingerprint = self.last.as_ref().filter(|_| !raised_fingerprint(&row)).map(|last| last.fingerprint);
        let mut row = Box::new(row);
        row.fingerprint = fingerprint.unwrap_or(row.fingerprint);
        self.last = Some(row);
    }
}

/// True when the claim took over the event's fingerprint.
fn raised_fingerprint(row: &DecisionRow) -> bool {
    row.decision != Decision::Resume
}

/// The state of a claim follows its run.
fn state_fits(claim: &Claim, run: &RunRow) -> bool {
    match (claim.state, run.status) {
        (ClaimState::Erased, _) => run.erased,
        (_, Status::Held) => claim.state == ClaimState::Held,
        (ClaimState::Held, _) => run.open_doubts > 0,
        (state, Status::Completed) => state == ClaimState::Done,
        (state, Status::Failed) => state == ClaimState::Failed,
        (state, Status::Cancelled) => state == ClaimState::Cancelled,
        // A run that was promoted shows it once a node has looked.
        (state, Status::Queued) => state == ClaimState::Pending || (state == ClaimState::Live && run.active),
        (state, Status::Running | Status::Waiting | Status::Paused) => state == ClaimState::Live,
    }
}
