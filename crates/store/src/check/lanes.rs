//! The walk over lanes: slots and lines.

use super::Check;
use super::codes::Code;
use crate::rows::RunRow;
use crate::script::watch_hash;
use crate::tx::Result;
use semel_core::run::Status;
use semel_core::{Hash16, RunId, WorkspaceId};

impl Check<'_> {
    pub(super) fn lanes(&mut self, workspace: &WorkspaceId) -> Result<()> {
        let hashes = match self.audit.lanes(workspace) {
            Ok(hashes) => hashes,
            failed => return self.damage(workspace, "lanes", failed.map(|_| ())),
        };
        for hash in hashes {
            self.report.counts.lanes += 1;
            let answer = self.lane(workspace, hash);
            self.damage(workspace, &format!("lane {hash}"), answer)?;
        }
        Ok(())
    }

    fn lane(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<()> {
        let lane = self.audit.lane(workspace, hash)?;
        let line = self.audit.line(workspace, hash)?;
        let name = format!("lane {hash}");
        if lane.waiting as usize != line.len() {
            let text = format!("{} wait by its head, and {} stand in its line", lane.waiting, line.len());
            self.found(Code::LaneLine, workspace, name.clone(), text);
        }
        let (mut limit, mut forced) = (0, 0);
        for id in &lane.holders {
            match self.audit.head(workspace, *id)? {
                Some(run) if holds(&run, hash) && run.more.forced => forced += 1,
                Some(run) if holds(&run, hash) => limit = limit.max(run.lane.map_or(0, |lane| lane.limit)),
                Some(run) => {
                    let text = format!("run {id} ({}) has a slot and no right to it", run.status.word());
                    self.found(Code::LaneHolder, workspace, name.clone(), text);
                }
                None => {
                    self.found(Code::LaneHolder, workspace, name.clone(), format!("run {id} has a slot and is gone"))
                }
            }
        }
        if limit > 0 && lane.holders.len() - forced > limit as usize {
            let text = format!("{} runs have slots, and there are {limit}", lane.holders.len());
            self.found(Code::LaneLimit, workspace, name.clone(), text);
        }
        if let Some(gathering) = lane.gathering {
            let fits = self.audit.head(workspace, gathering.run)?.is_some_and(|run| waits(&run, hash));
            if !fits {
                let text = format!("run {} gathers events and does not wait", gathering.run);
                self.found(Code::LaneHolder, workspace, name.clone(), text);
            }
        }
        for id in &line {
            let fits = match self.audit.head(workspace, *id)? {
                Some(run) => waits(&run, hash) || self.watches(workspace, &run, hash)?,
                None => false,
            };
            if !fits || lane.holders.contains(id) {
                self.found(
                    Code::LaneLine,
                    workspace,
                    name.clone(),
                    format!("run {id} stands in line and does not wait"),
                );
            }
        }
        Ok(())
    }

    /// A run may stand in the line of another run, to hear of its end.
    fn watches(&self, workspace: &WorkspaceId, run: &RunRow, hash: Hash16) -> Result<bool> {
        if run.status.is_ended() {
            return Ok(false);
        }
        let child = self.watched(workspace, run.id, hash)?;
        Ok(child.is_some())
    }

    /// The run whose watchers stand in this line, if `id` waits for it.
    fn watched(&self, workspace: &WorkspaceId, id: RunId, hash: Hash16) -> Result<Option<RunId>> {
        let mut found = None;
        let before = RunId::from_bytes(u128::from_be_bytes(*id.as_bytes()).wrapping_sub(1).to_be_bytes());
        let span = super::Span { after: Some(before), upto: Some(id) };
        self.audit.rows(workspace, super::Table::Journal, span, &mut |seen| {
            if let Ok(super::Row::Journal(row)) = seen
                && let Ok(events) = semel_core::run::decode_events(&row.events, None)
            {
                for event in events {
                    if let semel_core::run::Event::ChildStarted { run, .. } = event
                        && watch_hash(run) == hash
                    {
                        found = Some(run);
                    }
                }
            }
        })?;
        Ok(found)
    }
}

fn holds(run: &RunRow, hash: Hash16) -> bool {
    run.lane.is_some_and(|lane| lane.hash == hash) && (!run.status.is_ended() || run.open_doubts > 0)
}

/// A run that a restore holds keeps its place, and has no doubt.
fn waits(run: &RunRow, hash: Hash16) -> bool {
    let held = run.status == Status::Held && run.open_doubts == 0;
    run.lane.is_some_and(|lane| lane.hash == hash) && (run.status == Status::Queued || held)
}
