//! The whole of the oracle, for the checker.

use super::tables::Tables;
use crate::check::{Audit, Row, Seen, Span, Table};
use crate::reads::WholeRun;
use crate::rows::*;
use crate::tx::Result;
use semel_core::admission::{Claim, Lane};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use std::collections::BTreeSet;
use std::ops::Bound;

/// The tables while nobody writes.
pub(super) struct View<'a> {
    pub tables: &'a Tables,
}

fn last() -> RunId {
    RunId::from_bytes([u8::MAX; 16])
}

type Key<T> = (WorkspaceId, RunId, T);

/// From after `span.after` to `span.upto`, over keys that begin with workspace and run.
fn bounds<T>(workspace: &WorkspaceId, span: Span<RunId>, low: T, high: T) -> (Bound<Key<T>>, Bound<Key<T>>)
where
    T: Copy,
{
    let ws = workspace.clone();
    let from = match span.after {
        Some(after) => Bound::Excluded((ws.clone(), after, high)),
        None => Bound::Included((ws.clone(), RunId::from_bytes([0; 16]), low)),
    };
    (from, Bound::Included((ws, span.upto.unwrap_or(last()), high)))
}

impl Audit for View<'_> {
    fn workspaces(&self) -> Result<Vec<WorkspaceId>> {
        let tables = self.tables;
        let named = tables.workspaces.keys().chain(tables.runs.keys().map(|(ws, _)| ws));
        let named =
            named.chain(tables.claims.keys().map(|(ws, _)| ws)).chain(tables.journal.keys().map(|(ws, _, _)| ws));
        let named = named.chain(tables.decisions.values().map(|row| &row.workspace));
        Ok(named.cloned().collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn runs(&self, workspace: &WorkspaceId, after: Option<RunId>, limit: u32) -> Result<Vec<(RunId, Seen<WholeRun>)>> {
        let from = match after {
            Some(after) => Bound::Excluded((workspace.clone(), after)),
            None => Bound::Included((workspace.clone(), RunId::from_bytes([0; 16]))),
        };
        let range = self.tables.runs.range((from, Bound::Included((workspace.clone(), last()))));
        Ok(range.take(limit as usize).map(|((_, id), row)| (*id, Ok(self.tables.whole(row)))).collect())
    }

    fn rows(
        &self,
        workspace: &WorkspaceId,
        table: Table,
        span: Span<RunId>,
        see: &mut dyn FnMut(Seen<Row>),
    ) -> Result<()> {
        let tables = self.tables;
        let by_seq = bounds(workspace, span, 0, u64::MAX);
        match table {
            Table::Snapshots => {
                for ((ws, run), row) in &tables.snapshots {
                    if ws == workspace && span.has(run) {
                        see(Ok(Row::Snapshot(row.clone())));
                    }
                }
            }
            Table::Journal => tables.journal.range(by_seq).for_each(|(_, row)| see(Ok(Row::Journal(row.clone())))),
            Table::Timers => tables.timers.range(by_seq).for_each(|(_, row)| see(Ok(Row::Timer(row.clone())))),
            Table::Errands => {
                let mut rows: Vec<&ErrandRow> = tables.errands_in(workspace).filter(|row| span.has(&row.run)).collect();
                rows.sort_by_key(|row| (row.run, row.id));
                rows.into_iter().for_each(|row| see(Ok(Row::Errand(Box::new(row.clone())))));
            }
            Table::Effects => {
                let by_step = bounds(workspace, span, Hash16([0; 16]), Hash16([u8::MAX; 16]));
                tables.effects.range(by_step).for_each(|(_, row)| see(Ok(Row::Effect(row.clone()))));
            }
            Table::Inbox => {
                let rows = tables.inbox.range(by_seq);
                rows.for_each(|((_, run, seq), message)| see(Ok(Row::Inbox(*run, *seq, message.clone()))));
            }
            Table::Decisions => {
                let mut rows: Vec<&DecisionRow> = tables
                    .decisions
                    .values()
                    .filter(|row| row.workspace == *workspace && row.run.is_some_and(|run| span.has(&run)))
                    .collect();
                rows.sort_by_key(|row| (row.run, row.seq));
                rows.into_iter().for_each(|row| see(Ok(Row::Decision(Box::new(row.clone())))));
            }
        }
        Ok(())
    }

    fn claims(&self, workspace: &WorkspaceId, after: Option<Hash16>, limit: u32) -> Result<Vec<(Hash16, Seen<Claim>)>> {
        let from = match after {
            Some(after) => Bound::Excluded((workspace.clone(), after)),
            None => Bound::Included((workspace.clone(), Hash16([0; 16]))),
        };
        let range = self.tables.claims.range((from, Bound::Included((workspace.clone(), Hash16([u8::MAX; 16])))));
        Ok(range.take(limit as usize).map(|((_, hash), claim)| (*hash, Ok(claim.clone()))).collect())
    }

    fn decisions_of_claims(
        &self,
        workspace: &WorkspaceId,
        span: Span<Hash16>,
        see: &mut dyn FnMut(Seen<DecisionRow>),
    ) -> Result<()> {
        let of_span =
            |row: &&DecisionRow| row.workspace == *workspace && row.claim.is_some_and(|claim| span.has(&claim));
        let mut rows: Vec<&DecisionRow> = self.tables.decisions.values().filter(of_span).collect();
        rows.sort_by_key(|row| (row.claim, row.seq));
        rows.into_iter().for_each(|row| see(Ok(row.clone())));
        Ok(())
    }

    fn decisions_without_run(&self, workspace: &WorkspaceId, see: &mut dyn FnMut(Seen<DecisionRow>)) -> Result<()> {
        let nameless = self.tables.decisions.values().filter(|row| row.workspace == *workspace && row.run.is_none());
        nameless.for_each(|row| see(Ok(row.clone())));
        Ok(())
    }

    fn restored(&self) -> Result<Option<RestoredRow>> {
        Ok(self.tables.restored.clone())
    }

    fn oldest_decision(&self) -> Result<Option<(u64, Millis)>> {
        Ok(self.tables.decisions.first_key_value().map(|(seq, row)| (*seq, row.at)))
    }

    fn lanes(&self, workspace: &WorkspaceId) -> Result<Vec<Hash16>> {
        let heads = self.tables.lanes.keys().map(|(ws, hash)| (ws, *hash));
        let lines = self.tables.queues.keys().map(|(ws, hash, _)| (ws, *hash));
        let of_workspace = heads.chain(lines).filter(|(ws, _)| *ws == workspace).map(|(_, hash)| hash);
        Ok(of_workspace.collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn lane(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Lane> {
        Ok(self.tables.lanes.get(&(workspace.clone(), hash)).cloned().unwrap_or_default())
    }

    fn line(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Vec<RunId>> {
        Ok(self.tables.queue_of(workspace, hash).map(|(_, run)| run).collect())
    }

    fn head(&self, workspace: &WorkspaceId, id: RunId) -> Result<Option<RunRow>> {
        Ok(self.tables.runs.get(&(workspace.clone(), id)).cloned())
    }

    fn inbox(&self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<(u64, Inbox)>> {
        Ok(self.tables.inbox_of(workspace, id))
    }

    fn claim(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Option<Claim>> {
        Ok(self.tables.claims.get(&(workspace.clone(), hash)).cloned())
    }

    fn claims_of_run(&self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<Claim>> {
        let claims = self.tables.claims.iter().filter(|((ws, _), claim)| ws == workspace && claim.run == id);
        Ok(claims.map(|(_, claim)| claim.clone()).collect())
    }

    fn flow(&self, workspace: &WorkspaceId, flow: &FlowRef, revision: u32) -> Result<Option<FlowRow>> {
        Ok(self.tables.flow(workspace, flow, Some(revision)))
    }

    fn logs(&self, workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Result<Vec<LogRow>> {
        let range = (workspace.clone(), id, after.saturating_add(1))..=(workspace.clone(), id, u64::MAX);
        Ok(self.tables.logs.range(range).take(limit as usize).map(|(_, row)| row.clone()).collect())
    }
}
