//! The read side of the oracle: filters over ordered maps.

use super::MemoryStore;
use super::audit::View;
use super::tables::{Labels, Tables};
use crate::Store;
use crate::check::Audit;
use crate::reads::*;
use crate::rows::*;
use crate::search::RunSearch;
use crate::tx::Result;
use crate::work::ErrandQueue;
use semel_core::admission::Claim;
use semel_core::ir::ErrandKind;
use semel_core::run::SNAPSHOT_VERSION;
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use serde_json::Value as Json;
use std::collections::BTreeMap;

impl Tables {
    pub(super) fn inbox_of(&self, workspace: &WorkspaceId, run: RunId) -> Vec<(u64, Inbox)> {
        let range = (workspace.clone(), run, 0)..=(workspace.clone(), run, u64::MAX);
        self.inbox.range(range).map(|((_, _, seq), message)| (*seq, message.clone())).collect()
    }

    fn revisions(&self, workspace: &WorkspaceId, flow: &FlowRef) -> impl DoubleEndedIterator<Item = &FlowRow> {
        let range = (workspace.clone(), flow.clone(), 0)..=(workspace.clone(), flow.clone(), u32::MAX);
        self.flows.range(range).map(|(_, row)| row)
    }

    pub(super) fn flow(&self, workspace: &WorkspaceId, flow: &FlowRef, revision: Option<u32>) -> Option<FlowRow> {
        self.revisions(workspace, flow).rev().find(|row| revision.is_none_or(|r| row.revision == r)).cloned()
    }

    /// Newest revisions of flows that are there, in order.
    fn heads(&self, workspace: &WorkspaceId) -> Vec<FlowRow> {
        let newest = |row: &&FlowRow| {
            row.workspace == *workspace
                && !row.deleted
                && self.revisions(workspace, &row.flow).next_back().is_some_and(|head| head.revision == row.revision)
        };
        self.flows.values().filter(newest).cloned().collect()
    }

    fn labels_of(&self, row: &RunRow) -> Labels {
        self.labels.get(&(row.workspace.clone(), row.id)).cloned().unwrap_or_default()
    }

    pub(super) fn whole(&self, row: &RunRow) -> (RunRow, RunValues, Labels) {
        let values = self.run_values.get(&(row.workspace.clone(), row.id)).cloned().unwrap_or_default();
        (row.clone(), values, self.labels_of(row))
    }

    fn run_matches(&self, row: &RunRow, query: &RunQuery) -> bool {
        let labels = self.labels_of(row);
        query.namespace.as_ref().is_none_or(|n| row.flow.namespace == *n)
            && query.flow_id.as_ref().is_none_or(|f| row.flow.id == *f)
            && (query.statuses.is_empty() || query.statuses.contains(&row.status))
            && query.labels.iter().all(|label| labels.contains(label))
            && query.key.as_ref().is_none_or(|k| row.key.as_ref() == Some(k))
            && query.correlation_id.as_ref().is_none_or(|c| row.correlation_id == *c)
            && query.parent.is_none_or(|p| row.parent.as_ref().is_some_and(|r| r.run == p))
            && query.created_from.is_none_or(|from| row.created_at >= from)
            && query.created_to.is_none_or(|to| row.created_at < to)
            && query.before.is_none_or(|before| row.id < before)
    }
}

fn decision_matches(row: &DecisionRow, query: &DecisionQuery) -> bool {
    query.run.is_none_or(|run| row.run == Some(run))
        && query.claim.is_none_or(|claim| row.claim == Some(claim))
        && query.key.as_ref().is_none_or(|key| row.key.as_ref() == Some(key))
        && query.flow.as_ref().is_none_or(|flow| row.flow == *flow)
        && (query.decisions.is_empty() || query.decisions.contains(&row.decision))
        && query.before.is_none_or(|before| row.seq < before)
}

fn claim_matches(claim: &Claim, query: &ClaimQuery) -> bool {
    query.key.as_ref().is_none_or(|key| claim.key.as_ref() == Some(key))
        && query.scope.as_ref().is_none_or(|scope| claim.scope == *scope)
        && query.run.is_none_or(|run| claim.run == run)
        && (query.states.is_empty() || query.states.contains(&claim.state))
        && query.after.is_none_or(|after| claim.hash > after)
}

impl Reads for MemoryStore {
    fn load_run(&self, workspace: &WorkspaceId, id: RunId) -> Result<Option<LoadedRun>> {
        let tables = self.tables.lock();
        let key = (workspace.clone(), id);
        Ok(tables.runs.get(&key).map(|row| LoadedRun {
            elsewhere: false,
            row: row.clone(),
            snapshot: tables.snapshots.get(&key).filter(|s| s.format == SNAPSHOT_VERSION).cloned(),
            labels: tables.labels_of(row),
            inbox: tables.inbox_of(workspace, id),
        }))
    }

    fn run(&self, workspace: &WorkspaceId, id: RunId) -> Result<Option<(RunRow, RunValues, Labels)>> {
        let tables = self.tables.lock();
        Ok(tables.runs.get(&(workspace.clone(), id)).map(|row| tables.whole(row)))
    }

    fn runs(&self, workspace: &WorkspaceId, query: &RunQuery) -> Result<Vec<(RunRow, RunValues, Labels)>> {
        let tables = self.tables.lock();
        let newest_first = tables.runs.values().rev().filter(|row| row.workspace == *workspace);
        let matching = newest_first.filter(|row| tables.run_matches(row, query));
        Ok(matching.take(query.limit as usize).map(|row| tables.whole(row)).collect())
    }

    fn search_runs(&self, workspace: &WorkspaceId, search: &RunSearch) -> Result<(Vec<WholeRun>, u64)> {
        let tables = self.tables.lock();
        let of_workspace = tables.runs.values().filter(|row| row.workspace == *workspace);
        let matches = |row: &&RunRow| search.matches(row, &tables.labels_of(row), &tables.words_of(workspace, row.id));
        let mut found: Vec<&RunRow> = of_workspace.filter(matches).collect();
        found.sort_by(|a, b| search.compare(a, b));
        let from = usize::try_from(search.offset).unwrap_or(usize::MAX);
        let page = found.iter().skip(from).take(search.limit as usize).map(|row| tables.whole(row)).collect();
        Ok((page, found.len() as u64))
    }

    fn flows_with_runs(&self, workspace: &WorkspaceId) -> Result<Vec<FlowRef>> {
        let tables = self.tables.lock();
        let mut flows: Vec<FlowRef> =
            tables.runs.values().filter(|row| row.workspace == *workspace).map(|row| row.flow.clone()).collect();
        flows.sort();
        flows.dedup();
        Ok(flows)
    }

    fn journal(&self, workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Result<Vec<JournalRow>> {
        let range = (workspace.clone(), id, after.saturating_add(1))..=(workspace.clone(), id, u64::MAX);
        Ok(self.tables.lock().journal.range(range).take(limit as usize).map(|(_, row)| row.clone()).collect())
    }

    fn logs(&self, workspace: &WorkspaceId, id: RunId, after: u64, limit: u32) -> Result<Vec<LogRow>> {
        let range = (workspace.clone(), id, after.saturating_add(1))..=(workspace.clone(), id, u64::MAX);
        Ok(self.tables.lock().logs.range(range).take(limit as usize).map(|(_, row)| row.clone()).collect())
    }

    fn errand(&self, workspace: &WorkspaceId, id: Hash16) -> Result<Option<ErrandRow>> {
        Ok(self.tables.lock().errands.get(&(workspace.clone(), id)).cloned())
    }

    fn errands_of(&self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<ErrandRow>> {
        Ok(self.tables.lock().errands_of(workspace, run).cloned().collect())
    }

    fn errands(
        &self,
        workspace: &WorkspaceId,
        kind: ErrandKind,
        after: Option<Hash16>,
        limit: u32,
    ) -> Result<Vec<ErrandRow>> {
        let tables = self.tables.lock();
        let wanted = |row: &&ErrandRow| row.open && row.kind == kind && after.is_none_or(|after| row.id > after);
        Ok(tables.errands_in(workspace).filter(wanted).take(limit as usize).cloned().collect())
    }

    fn has_free_errand(&self, workspace: &WorkspaceId, from: &ErrandQueue) -> Result<bool> {
        let now = self.now();
        let tables = self.tables.lock();
        let free = |row: &ErrandRow| row.open && !row.taken && row.kind == ErrandKind::Simple && row.free_at <= now;
        let mut rows = tables.errands_in(workspace);
        Ok(rows.any(|row| row.queue == from.queue && row.domain == from.domain && free(row)))
    }

    fn errand_counts(&self, workspace: &WorkspaceId) -> Result<Vec<(ErrandQueue, u64, u64)>> {
        let mut counts: BTreeMap<ErrandQueue, (u64, u64)> = BTreeMap::new();
        let tables = self.tables.lock();
        for row in tables.errands_in(workspace).filter(|row| row.open) {
            let queue = ErrandQueue { queue: row.queue.clone(), domain: row.domain.clone() };
            let (waiting, taken) = counts.entry(queue).or_default();
            *if row.taken { taken } else { waiting } += 1;
        }
        Ok(counts.into_iter().map(|(queue, (waiting, taken))| (queue, waiting, taken)).collect())
    }

    fn next_errand(&self) -> Result<Option<Millis>> {
        Ok(self.tables.lock().errands.values().filter_map(|row| row.due).min())
    }

    fn effects(&self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<EffectRow>> {
        let tables = self.tables.lock();
        let of_run = tables.effects.iter().filter(|((ws, run, _), _)| ws == workspace && *run == id);
        let mut effects: Vec<EffectRow> = of_run.map(|(_, row)| row.clone()).collect();
        effects.sort_by_key(|e| (e.at, e.step_id));
        Ok(effects)
    }

    fn decisions(&self, workspace: &WorkspaceId, query: &DecisionQuery) -> Result<Vec<DecisionRow>> {
        let tables = self.tables.lock();
        let newest_first = tables.decisions.values().rev().filter(|row| row.workspace == *workspace);
        Ok(newest_first.filter(|row| decision_matches(row, query)).take(query.limit as usize).cloned().collect())
    }

    fn claims(&self, workspace: &WorkspaceId, query: &ClaimQuery) -> Result<Vec<Claim>> {
        let tables = self.tables.lock();
        let of_workspace = tables.claims.iter().filter(|((ws, _), _)| ws == workspace).map(|(_, claim)| claim);
        Ok(of_workspace.filter(|claim| claim_matches(claim, query)).take(query.limit as usize).cloned().collect())
    }

    fn claim(&self, workspace: &WorkspaceId, hash: Hash16) -> Result<Option<Claim>> {
        Ok(self.tables.lock().claims.get(&(workspace.clone(), hash)).cloned())
    }

    fn flow(&self, workspace: &WorkspaceId, flow: &FlowRef, revision: Option<u32>) -> Result<Option<FlowRow>> {
        let found = self.tables.lock().flow(workspace, flow, revision);
        Ok(found.filter(|row| revision.is_some() || !row.deleted))
    }

    fn flow_revisions(&self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Vec<FlowRow>> {
        Ok(self.tables.lock().revisions(workspace, flow).cloned().collect())
    }

    fn flows(&self, workspace: &WorkspaceId, after: Option<&FlowRef>, limit: u32) -> Result<Vec<FlowRow>> {
        let heads = self.tables.lock().heads(workspace);
        Ok(heads.into_iter().filter(|row| after.is_none_or(|a| row.flow > *a)).take(limit as usize).collect())
    }

    fn flows_named(&self, workspace: &WorkspaceId, id: &str) -> Result<Vec<FlowRow>> {
        let heads = self.tables.lock().heads(workspace);
        Ok(heads.into_iter().filter(|row| row.flow.id == id).collect())
    }

    fn log_search(&self, workspace: &WorkspaceId, query: &LogQuery) -> Result<(Vec<(FlowRef, LogRow)>, u64)> {
        let tables = self.tables.lock();
        let flow = |run: RunId| tables.runs.get(&(workspace.clone(), run)).map(|row| row.flow.clone());
        let of_workspace = tables.logs.iter().filter(|((ws, _, _), _)| ws == workspace);
        let with_flow = of_workspace.filter_map(|(_, row)| Some((flow(row.run)?, row.clone())));
        let mut found: Vec<(FlowRef, LogRow)> = with_flow.filter(|(flow, row)| log_matches(query, flow, row)).collect();
        found.sort_by_key(|(_, row)| (row.at, row.run, row.seq));
        if !query.oldest_first {
            found.reverse();
        }
        let total = found.len() as u64;
        let page = found.into_iter().skip(usize::try_from(query.skip).unwrap_or(usize::MAX));
        Ok((page.take(query.limit as usize).collect(), total))
    }

    fn flow_names(&self, workspace: &WorkspaceId) -> Result<Vec<FlowRef>> {
        let tables = self.tables.lock();
        let mut names: Vec<FlowRef> =
            tables.flows.values().filter(|row| row.workspace == *workspace).map(|row| row.flow.clone()).collect();
        names.dedup();
        Ok(names)
    }

    fn kv_namespaces(&self, workspace: &WorkspaceId) -> Result<Vec<String>> {
        let tables = self.tables.lock();
        let mut names: Vec<String> =
            tables.kv.keys().filter(|(ws, _, _)| ws == workspace).map(|(_, ns, _)| ns.clone()).collect();
        names.dedup();
        Ok(names)
    }

    fn kv(&self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<Option<KvRow>> {
        Ok(self.tables.lock().kv.get(&(workspace.clone(), namespace.to_owned(), key.to_owned())).cloned())
    }

    fn kv_list(&self, workspace: &WorkspaceId, namespace: &str, after: Option<&str>, limit: u32) -> Result<Vec<KvRow>> {
        let tables = self.tables.lock();
        let rows = tables.kv.iter().filter(|((ws, ns, key), _)| {
            ws == workspace && ns == namespace && after.is_none_or(|after| key.as_str() > after)
        });
        Ok(rows.take(limit as usize).map(|(_, row)| row.clone()).collect())
    }

    fn file(&self, workspace: &WorkspaceId, run: RunId, path: &str) -> Result<Option<FileRow>> {
        Ok(self.tables.lock().files.get(&(workspace.clone(), run, path.to_owned())).cloned())
    }

    fn files(&self, workspace: &WorkspaceId, run: RunId, after: Option<&str>, limit: u32) -> Result<Vec<FileRow>> {
        let tables = self.tables.lock();
        let of_run = tables.files.iter().filter(|((ws, id, _), _)| ws == workspace && *id == run);
        let rest = of_run.filter(|((_, _, path), _)| after.is_none_or(|after| path.as_str() > after));
        Ok(rest.take(limit as usize).map(|(_, row)| row.clone()).collect())
    }

    fn file_chunk(&self, workspace: &WorkspaceId, run: RunId, file: Hash16, number: u32) -> Result<Option<Vec<u8>>> {
        Ok(self.tables.lock().chunks.get(&(workspace.clone(), run, (file, number))).cloned())
    }

    fn secret(&self, workspace: &WorkspaceId, name: &str, version: Option<u64>) -> Result<Option<SecretRow>> {
        let tables = self.tables.lock();
        let mut versions = tables.secrets.values().rev().filter(|s| s.workspace == *workspace && s.name == name);
        Ok(versions.find(|s| version.map_or(!s.retired, |v| s.version == v)).cloned())
    }

    fn secrets(&self, workspace: &WorkspaceId) -> Result<Vec<SecretRow>> {
        let tables = self.tables.lock();
        let mut newest: Vec<SecretRow> = Vec::new();
        for secret in tables.secrets.values().filter(|s| s.workspace == *workspace && !s.retired) {
            newest.retain(|s| s.name != secret.name);
            newest.push(secret.clone());
        }
        Ok(newest)
    }

    fn token(&self, id: &str) -> Result<Option<TokenRow>> {
        Ok(self.tables.lock().tokens.get(id).cloned())
    }

    fn tokens(&self, workspace: &WorkspaceId) -> Result<Vec<TokenRow>> {
        Ok(self.tables.lock().tokens.values().filter(|t| t.workspace == *workspace).cloned().collect())
    }

    fn workspaces(&self) -> Result<Vec<WorkspaceRow>> {
        Ok(self.tables.lock().workspaces.values().cloned().collect())
    }

    fn active_runs(&self, after: Option<RunId>, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>> {
        let tables = self.tables.lock();
        let active = tables.runs.values().filter(|run| run.active && after.is_none_or(|a| run.id > a));
        let mut found: Vec<(RunId, WorkspaceId)> = active.map(|run| (run.id, run.workspace.clone())).collect();
        found.sort();
        Ok(found.into_iter().take(limit as usize).map(|(run, ws)| (ws, run)).collect())
    }

    fn due_timers(&self, now: Millis, limit: u32) -> Result<Vec<TimerRow>> {
        let tables = self.tables.lock();
        let mut due: Vec<TimerRow> = tables.timers.values().filter(|t| t.due <= now).cloned().collect();
        // Stable: the rest of the order is that of the primary key.
        due.sort_by_key(|t| t.due);
        due.truncate(limit as usize);
        Ok(due)
    }

    fn next_timer(&self) -> Result<Option<Millis>> {
        Ok(self.tables.lock().timers.values().map(|t| t.due).min())
    }

    fn due_schedules(&self, now: Millis, limit: u32) -> Result<Vec<ScheduleRow>> {
        let tables = self.tables.lock();
        let is_due = |s: &&ScheduleRow| s.next_due.is_some_and(|due| due <= now);
        let mut due: Vec<ScheduleRow> = tables.schedules.values().filter(is_due).cloned().collect();
        due.sort_by_key(|s| s.next_due);
        due.truncate(limit as usize);
        Ok(due)
    }

    fn next_schedule(&self) -> Result<Option<Millis>> {
        Ok(self.tables.lock().schedules.values().filter_map(|s| s.next_due).min())
    }

    fn schedules(&self, workspace: &WorkspaceId) -> Result<Vec<ScheduleRow>> {
        Ok(self.tables.lock().schedules.values().filter(|s| s.workspace == *workspace).cloned().collect())
    }

    fn changes(&self, before: Millis, limit: u32) -> Result<Vec<ChangeRow>> {
        let tables = self.tables.lock();
        let mut found: Vec<ChangeRow> = tables.changes.values().filter(|row| row.at <= before).cloned().collect();
        found.sort_by_key(|row| row.at);
        found.truncate(limit as usize);
        Ok(found)
    }

    fn dump(&self) -> Result<Json> {
        Ok(self.tables.lock().dump())
    }

    fn audit(&self, look: &mut dyn FnMut(&dyn Audit) -> Result<()>) -> Result<()> {
        look(&View { tables: &self.tables.lock() })
    }
}

fn log_matches(query: &LogQuery, flow: &FlowRef, row: &LogRow) -> bool {
    query.run.is_none_or(|run| row.run == run)
        && query.flows.as_ref().is_none_or(|flows| flows.contains(flow))
        && (query.levels.is_empty() || query.levels.contains(&row.level.as_str()))
        && query.from.is_none_or(|from| row.at >= from)
        && query.to.is_none_or(|to| row.at < to)
        && query.text.as_ref().is_none_or(|text| row.message.to_lowercase().contains(&text.to_lowercase()))
}
