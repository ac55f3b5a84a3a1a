//! The row primitives over a working set.

use crate::cache::{Cache, Slot, Stored};
use crate::set::{Line, Set};
use crate::wants::{Ask, HashKey, Lock, RunKey};
use semel_core::admission::{Claim, Lane};
use semel_core::ir::ErrandKind;
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use semel_store::*;
use serde_json::Value as Json;

/// A line is read in pieces: who asks for one will often ask for the next.
const LINE_PIECE: u32 = 16;

impl Set {
    fn first_in_line(&mut self, key: &(WorkspaceId, Hash16), limit: u32) -> Result<Vec<RunId>> {
        let line: &Line = self.line(key);
        let stored = line.front.iter().filter(|run| !line.left.contains(run));
        let pushed = line.pushed.iter().filter(|_| line.whole);
        let found: Vec<RunId> = stored.chain(pushed).take(limit as usize).copied().collect();
        if found.len() < limit as usize && !line.whole {
            let more = u32::try_from(line.front.len()).unwrap_or(u32::MAX).saturating_add(limit.max(LINE_PIECE));
            let key = key.clone();
            return self.miss(|wants| _ = wants.lines.insert(key, more));
        }
        Ok(found)
    }

    /// Whether a run waits, and whether its row is stored.
    fn place(&mut self, key: &(WorkspaceId, Hash16), run: RunId) -> Result<bool> {
        let line: &Line = self.line(key);
        if line.pushed.contains(&run) {
            return Ok(true);
        }
        if line.left.contains(&run) || (line.whole && !line.front.contains(&run)) {
            return Ok(false);
        }
        match line.places.get(&run) {
            _ if line.front.contains(&run) => Ok(true),
            Some(waits) => Ok(*waits),
            None => {
                let place = (key.0.clone(), key.1, run);
                self.miss(|wants| _ = wants.places.insert(place))
            }
        }
    }

    fn runs_by(&mut self, ask: Ask) -> Result<Vec<(WorkspaceId, RunId)>> {
        match self.runs_found.get(&ask) {
            Some(found) => Ok(found.clone()),
            None => self.miss(|wants| _ = wants.asks.insert(ask)),
        }
    }

    fn errands_in(&self, workspace: &WorkspaceId) -> impl Iterator<Item = &ErrandRow> {
        let rows = self.errands.0.iter().filter(move |((ws, _), _)| ws == workspace);
        rows.filter_map(|(_, slot)| slot.now.as_ref())
    }

    /// Takes out the pending rows of a run's files; the stored ones go with the run or its values.
    fn remove_files(&mut self, key: &(WorkspaceId, RunId)) -> Result<()> {
        self.remove_of_run(|set| &mut set.files, key)?;
        self.remove_of_run(|set| &mut set.chunks, key)?;
        self.remove_of_run(|set| &mut set.uploads, key)
    }

    fn count_by(&mut self, ask: Ask) -> Result<u64> {
        self.writable()?;
        match self.counted.get(&ask) {
            Some(count) => Ok(*count),
            None => self.miss(|wants| _ = wants.asks.insert(ask)),
        }
    }
}

impl Look for Set {
    fn now(&self) -> Millis {
        self.now
    }
    fn claim(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<Option<Claim>> {
        let key = (workspace.clone(), hash);
        match self.claims.get(&key) {
            Some(now) => Ok(now.clone()),
            None => self.miss(|wants| _ = wants.claims.insert(key)),
        }
    }
    fn run(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<Option<RunRow>> {
        self.head(workspace, id)
    }
}

impl Tx for Set {
    fn put_claim(&mut self, workspace: &WorkspaceId, claim: &Claim) -> Result<()> {
        self.note_claim(workspace, claim);
        self.put(|set| &mut set.claims, (workspace.clone(), claim.hash), Some(claim.clone()))
    }
    fn delete_claim(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<()> {
        self.put(|set| &mut set.claims, (workspace.clone(), hash), None)
    }
    fn claims_of_run(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<Claim>> {
        let key = (workspace.clone(), run);
        if !self.claims_known.contains(&key) {
            return self.miss(|wants| {
                // Whoever gives a run another claim has its head.
                wants.run(key.clone(), Lock::Update);
                wants.claims_of.insert(key);
            });
        }
        Ok(self.claims_that_lead_to(&key))
    }

    fn lane(&mut self, workspace: &WorkspaceId, hash: Hash16) -> Result<Lane> {
        let key = (workspace.clone(), hash);
        match self.lanes.get(&key) {
            Some(now) => Ok(now.clone().unwrap_or_default()),
            None => self.miss(|wants| _ = wants.lanes.insert(key)),
        }
    }
    fn put_lane(&mut self, workspace: &WorkspaceId, hash: Hash16, lane: &Lane) -> Result<()> {
        let now = (!lane.is_empty()).then(|| lane.clone());
        self.put(|set| &mut set.lanes, (workspace.clone(), hash), now)
    }
    fn queue(&mut self, workspace: &WorkspaceId, hash: Hash16, limit: u32) -> Result<Vec<RunId>> {
        self.first_in_line(&(workspace.clone(), hash), limit)
    }
    fn push_queue(&mut self, workspace: &WorkspaceId, hash: Hash16, run: RunId) -> Result<()> {
        self.change_line(&(workspace.clone(), hash), |line| line.pushed.push(run))
    }
    fn leave_queue(&mut self, workspace: &WorkspaceId, hash: Hash16, run: RunId) -> Result<bool> {
        let key = (workspace.clone(), hash);
        if !self.place(&key, run)? {
            return Ok(false);
        }
        self.change_line(&key, |line| match line.pushed.iter().position(|waiting| *waiting == run) {
            Some(at) => _ = line.pushed.remove(at),
            None => _ = line.left.insert(run),
        })?;
        Ok(true)
    }

    fn is_new(&self, workspace: &WorkspaceId, id: RunId) -> bool {
        self.is_fresh(&(workspace.clone(), id))
    }
    fn insert_run(&mut self, row: &RunRow, values: &RunValues, labels: &[(String, String)]) -> Result<()> {
        self.writable()?;
        let key = (row.workspace.clone(), row.id);
        if self.careful && !self.runs.knows(&key) {
            return self.miss(|wants| wants.run(key, Lock::Update));
        }
        if let Some(parent) = &row.parent {
            // Whoever asks for the children of a run has its head, and so must who adds one.
            self.head(&row.workspace, parent.run)?;
        }
        self.insert(|set| &mut set.runs, key.clone(), row.clone(), "run")?;
        self.begin_run(row);
        let given = (values.inputs.clone(), values.trigger.clone());
        self.put_as(|set| &mut set.given, key.clone(), Some(given), Stored::Assumed)?;
        let result = (values.outputs.clone(), values.failure.clone());
        self.put_as(|set| &mut set.results, key.clone(), Some(result), Stored::Assumed)?;
        self.put_as(|set| &mut set.labels, key, Some(labels.to_vec()), Stored::Assumed)
    }
    fn update_run(&mut self, row: &RunRow) -> Result<()> {
        let key = self.existing(&row.workspace, row.id)?;
        self.note_child(row);
        self.put(|set| &mut set.runs, key, Some(row.clone()))
    }
    fn run_values(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<RunValues> {
        if self.head(workspace, id)?.is_none() {
            return Ok(RunValues::default());
        }
        let key = (workspace.clone(), id);
        let (Some(given), Some(result)) = (self.given.get(&key), self.results.get(&key)) else {
            return self.miss(|wants| _ = wants.values.insert(key));
        };
        let (inputs, trigger) = given.clone().unwrap_or_default();
        let (outputs, failure) = result.clone().unwrap_or_default();
        Ok(RunValues { inputs, trigger, outputs, failure })
    }
    fn put_run_values(&mut self, workspace: &WorkspaceId, id: RunId, values: &RunValues) -> Result<()> {
        let key = self.existing(workspace, id)?;
        let given = (values.inputs.clone(), values.trigger.clone());
        self.put(|set| &mut set.given, key.clone(), Some(given))?;
        self.put(|set| &mut set.results, key, Some((values.outputs.clone(), values.failure.clone())))
    }
    fn put_run_result(
        &mut self,
        workspace: &WorkspaceId,
        id: RunId,
        outputs: Option<&Json>,
        failure: Option<&Json>,
    ) -> Result<()> {
        let key = self.existing(workspace, id)?;
        self.put(|set| &mut set.results, key, Some((outputs.cloned(), failure.cloned())))
    }
    fn put_labels(&mut self, workspace: &WorkspaceId, id: RunId, labels: &[(String, String)]) -> Result<()> {
        let key = self.existing(workspace, id)?;
        self.put(|set| &mut set.labels, key, Some(labels.to_vec()))
    }
    fn children(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<Vec<RunRow>> {
        let key = (workspace.clone(), id);
        if !self.children_known.contains(&key) {
            return self.miss(|wants| {
                wants.run(key.clone(), Lock::Update);
                wants.children_of.insert(key);
            });
        }
        Ok(self.known_children(&key))
    }
    fn delete_run(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<()> {
        if self.head(workspace, id)?.is_none() {
            return Ok(());
        }
        let key = self.existing(workspace, id)?;
        self.put(|set| &mut set.runs, key.clone(), None)?;
        self.put(|set| &mut set.gone, key.clone(), Some(()))?;
        self.put(|set| &mut set.given, key.clone(), None)?;
        self.put(|set| &mut set.results, key.clone(), None)?;
        self.put(|set| &mut set.labels, key.clone(), None)?;
        self.put(|set| &mut set.snapshots, key.clone(), None)?;
        self.remove_of_run(|set| &mut set.journal, &key)?;
        self.remove_of_run(|set| &mut set.timers, &key)?;
        self.remove_of_run(|set| &mut set.logs, &key)?;
        self.remove_of_run(|set| &mut set.inbox, &key)?;
        self.remove_of_run(|set| &mut set.changes, &key)?;
        self.remove_of_run(|set| &mut set.effects, &key)?;
        self.remove_of_run(|set| &mut set.task_words, &key)?;
        let of_run = |slot: &Slot<ErrandRow>| slot.now.as_ref().is_some_and(|row| row.run == id);
        let errands = self.errands.0.iter().filter(|((ws, _), slot)| ws == workspace && of_run(slot));
        for key in errands.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.put(|set| &mut set.errands, key, None)?;
        }
        self.remove_files(&key)
    }
    fn erase_run(&mut self, workspace: &WorkspaceId, id: RunId) -> Result<()> {
        let key = self.existing(workspace, id)?;
        self.put(|set| &mut set.erased, key.clone(), Some(()))?;
        self.put(|set| &mut set.given, key.clone(), Some((None, None)))?;
        self.put(|set| &mut set.results, key.clone(), Some((None, None)))?;
        self.remove_of_run(|set| &mut set.task_words, &key)?;
        self.remove_of_run(|set| &mut set.logs, &key)?;
        self.remove_of_run(|set| &mut set.inbox, &key)?;
        self.remove_files(&key)?;
        self.erase_pending(&key)
    }

    fn append_journal(&mut self, workspace: &WorkspaceId, row: &JournalRow) -> Result<()> {
        self.insert(|set| &mut set.journal, (workspace.clone(), row.run, row.seq), row.clone(), "journal row")
    }
    fn put_snapshot(&mut self, workspace: &WorkspaceId, row: &SnapshotRow) -> Result<()> {
        self.put(|set| &mut set.snapshots, (workspace.clone(), row.run), Some(row.clone()))
    }

    fn put_timer(&mut self, row: &TimerRow) -> Result<()> {
        self.put(|set| &mut set.timers, (row.workspace.clone(), row.run, row.timer), Some(row.clone()))
    }
    fn delete_timer(&mut self, workspace: &WorkspaceId, run: RunId, timer: u64) -> Result<()> {
        self.put(|set| &mut set.timers, (workspace.clone(), run, timer), None)
    }
    fn delete_timers(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<()> {
        let key = (workspace.clone(), run);
        if !self.is_fresh(&key) {
            self.put(|set| &mut set.timers_gone, key.clone(), Some(()))?;
        }
        self.remove_of_run(|set| &mut set.timers, &key)
    }

    fn errand(&mut self, workspace: &WorkspaceId, id: Hash16) -> Result<Option<ErrandRow>> {
        let key = (workspace.clone(), id);
        match self.errands.get(&key) {
            Some(now) => Ok(now.clone()),
            None => self.miss(|wants| _ = wants.errands.insert(key)),
        }
    }
    fn put_errand(&mut self, workspace: &WorkspaceId, row: &ErrandRow) -> Result<()> {
        self.put(|set| &mut set.errands, (workspace.clone(), row.id), Some(row.clone()))
    }
    fn open_errands(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<ErrandRow>> {
        let key = (workspace.clone(), run);
        if !self.is_fresh(&key) && !self.errands_known.contains(&key) {
            return self.miss(|wants| _ = wants.errands_of.insert(key));
        }
        Ok(self.errands_in(workspace).filter(|row| row.run == run && row.open).cloned().collect())
    }
    fn free_errands(&mut self, workspace: &WorkspaceId, queue: &ErrandQueue, limit: u32) -> Result<Vec<ErrandRow>> {
        let key = (workspace.clone(), queue.clone());
        if !self.free_known.contains(&key) {
            return self.miss(|wants| _ = wants.free_errands.insert(key, limit));
        }
        let now = self.now;
        let here = |row: &&ErrandRow| {
            let free = row.open && !row.taken && row.kind == ErrandKind::Simple && row.free_at <= now;
            free && row.queue == queue.queue && row.domain == queue.domain
        };
        let mut found: Vec<ErrandRow> = self.errands_in(workspace).filter(here).cloned().collect();
        found.sort_by_key(|row| (u8::MAX - row.priority, row.free_at, row.id));
        found.truncate(limit as usize);
        Ok(found)
    }
    fn taken_errands(&mut self, workspace: &WorkspaceId, queue: &str) -> Result<u64> {
        let key = (workspace.clone(), queue.to_owned());
        let Some(stored) = self.taken_stored.get(&key).copied() else {
            return self.miss(|wants| _ = wants.taken_errands.insert(key));
        };
        // And what this batch has taken or given back.
        let taken = |row: Option<&ErrandRow>| row.is_some_and(|row| row.open && row.taken && row.queue == queue);
        let mut count = stored;
        for (_, slot) in self.errands.0.iter().filter(|((ws, _), _)| ws == workspace) {
            let before = match &slot.stored {
                Stored::Present(row) => taken(Some(row)),
                Stored::Unknown | Stored::Assumed | Stored::Absent => false,
            };
            match (before, taken(slot.now.as_ref())) {
                (false, true) => count += 1,
                (true, false) => count = count.saturating_sub(1),
                _ => {}
            }
        }
        Ok(count)
    }
    fn late_errands(&mut self, limit: u32) -> Result<Vec<(WorkspaceId, ErrandRow)>> {
        let ask = Ask::LateErrands { limit };
        match self.late_found.get(&ask) {
            Some(found) => {
                let row = |key: &HashKey| Some((key.0.clone(), self.errands.get(key)?.clone()?));
                Ok(found.iter().filter_map(row).collect())
            }
            None => self.miss(|wants| _ = wants.asks.insert(ask)),
        }
    }

    fn put_effect(&mut self, workspace: &WorkspaceId, row: &EffectRow) -> Result<()> {
        self.put(|set| &mut set.effects, (workspace.clone(), row.run, row.step_id), Some(row.clone()))
    }
    fn put_task_word(&mut self, workspace: &WorkspaceId, run: RunId, word: &TaskWord) -> Result<()> {
        self.put(|set| &mut set.task_words, (workspace.clone(), run, word.clone()), Some(()))
    }
    fn append_log(&mut self, workspace: &WorkspaceId, row: &LogRow) -> Result<()> {
        let key = (workspace.clone(), row.run, row.seq);
        if self.careful && !self.logs.knows(&key) {
            return self.miss(|wants| _ = wants.logs.insert(key));
        }
        self.insert(|set| &mut set.logs, key, row.clone(), "log row")
    }
    fn delete_logs(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<()> {
        let key = (workspace.clone(), run);
        if !self.is_fresh(&key) {
            self.put(|set| &mut set.logs_gone, key, Some(()))?;
        }
        // Lines of this batch are not stored yet.
        let range = (workspace.clone(), run, 0)..(workspace.clone(), run, RELEASED_FROM);
        let pending: Vec<_> = self.logs.0.range(range).map(|(key, _)| key.clone()).collect();
        pending.into_iter().try_for_each(|key| self.put(|set| &mut set.logs, key, None))
    }
    fn append_decision(&mut self, row: &DecisionRow) -> Result<u64> {
        self.writable()?;
        self.decisions.push(row.clone());
        self.push_undo(|set| _ = set.decisions.pop());
        // The database numbers the rows when they are written; no script asks for the number.
        Ok(0)
    }

    fn push_inbox(&mut self, workspace: &WorkspaceId, run: RunId, message: &Inbox) -> Result<()> {
        self.writable()?;
        let seq = self.next_message();
        self.put(|set| &mut set.inbox, (workspace.clone(), run, seq), Some(message.clone()))
    }
    fn inbox(&mut self, workspace: &WorkspaceId, run: RunId) -> Result<Vec<(u64, Inbox)>> {
        let key = (workspace.clone(), run);
        if !self.inbox_known.contains(&key) {
            return self.miss(|wants| {
                wants.run(key.clone(), Lock::Update);
                wants.inboxes.insert(key);
            });
        }
        let range = (workspace.clone(), run, 0)..=(workspace.clone(), run, u64::MAX);
        let rows = self.inbox.0.range(range);
        Ok(rows.filter_map(|((_, _, seq), slot)| Some((*seq, slot.now.clone()?))).collect())
    }
    fn delete_inbox(&mut self, workspace: &WorkspaceId, run: RunId, seq: u64) -> Result<()> {
        self.put(|set| &mut set.inbox, (workspace.clone(), run, seq), None)
    }

    fn put_answer(&mut self, ticket: Hash16, refused: Option<&str>) -> Result<()> {
        self.writable()?;
        self.answers.push((ticket, refused.map(str::to_owned)));
        self.push_undo(|set| _ = set.answers.pop());
        Ok(())
    }
    fn is_elsewhere(&self, workspace: &WorkspaceId, run: RunId) -> bool {
        self.owners.get(&(workspace.clone(), run)).is_some_and(|owner| *owner != self.node)
    }

    fn kv(&mut self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<Option<KvRow>> {
        let key = (workspace.clone(), namespace.to_owned(), key.to_owned());
        match self.kv.get(&key) {
            Some(now) => Ok(now.clone()),
            None => self.miss(|wants| _ = wants.kv.insert(key)),
        }
    }
    fn put_kv(&mut self, workspace: &WorkspaceId, row: &KvRow) -> Result<()> {
        let key = (workspace.clone(), row.namespace.clone(), row.key.clone());
        self.put(|set| &mut set.kv, key, Some(row.clone()))
    }
    fn delete_kv(&mut self, workspace: &WorkspaceId, namespace: &str, key: &str) -> Result<()> {
        self.put(|set| &mut set.kv, (workspace.clone(), namespace.to_owned(), key.to_owned()), None)
    }

    fn file(&mut self, workspace: &WorkspaceId, run: RunId, path: &str) -> Result<Option<FileRow>> {
        let key = (workspace.clone(), run, path.to_owned());
        let removed = |cache: &Cache<RunKey, ()>| cache.get(&(workspace.clone(), run)).is_some_and(Option::is_some);
        match self.files.get(&key) {
            Some(now) => Ok(now.clone()),
            // What is stored goes with the run before anything is written.
            None if removed(&self.gone) || removed(&self.erased) => Ok(None),
            None => self.miss(|wants| _ = wants.files.insert(key)),
        }
    }
    fn put_file(&mut self, workspace: &WorkspaceId, row: &FileRow) -> Result<()> {
        self.put(|set| &mut set.files, (workspace.clone(), row.run, row.path.clone()), Some(row.clone()))
    }
    fn delete_file(&mut self, workspace: &WorkspaceId, run: RunId, path: &str) -> Result<()> {
        self.put(|set| &mut set.files, (workspace.clone(), run, path.to_owned()), None)
    }
    fn put_chunk(&mut self, chunk: &FileChunk) -> Result<()> {
        let key = (chunk.workspace.clone(), chunk.run, (chunk.file, chunk.number));
        self.put(|set| &mut set.chunks, key, Some(chunk.bytes.clone()))
    }
    fn delete_chunks(&mut self, workspace: &WorkspaceId, run: RunId, file: Hash16) -> Result<()> {
        self.put(|set| &mut set.chunks_gone, (workspace.clone(), run, file), Some(()))?;
        let range = (workspace.clone(), run, (file, 0))..=(workspace.clone(), run, (file, u32::MAX));
        let pending: Vec<_> = self.chunks.0.range(range).map(|(key, _)| key.clone()).collect();
        pending.into_iter().try_for_each(|key| self.put(|set| &mut set.chunks, key, None))
    }
    fn put_upload(&mut self, workspace: &WorkspaceId, run: RunId, file: Hash16) -> Result<()> {
        let now = self.now;
        self.put(|set| &mut set.uploads, (workspace.clone(), run, file), Some(now))
    }

    fn flow_head(&mut self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Option<FlowRow>> {
        let key = (workspace.clone(), flow.clone());
        match self.flow_heads.get(&key) {
            Some(now) => Ok(now.clone()),
            None => self.miss(|wants| _ = wants.flows.insert(key)),
        }
    }
    fn insert_flow(&mut self, row: &FlowRow) -> Result<()> {
        self.put(|set| &mut set.flow_heads, (row.workspace.clone(), row.flow.clone()), Some(row.clone()))?;
        self.flows.push(row.clone());
        self.push_undo(|set| _ = set.flows.pop());
        Ok(())
    }
    fn flow_schedules(&mut self, workspace: &WorkspaceId, flow: &FlowRef) -> Result<Vec<ScheduleRow>> {
        let key = (workspace.clone(), flow.clone());
        let is_of_flow = |row: &&ScheduleRow| row.workspace == *workspace && row.flow == *flow;
        if self.schedules_gone.get(&key).is_some_and(Option::is_some) {
            let put = self.schedules.0.values().filter_map(|slot| slot.now.as_ref());
            return Ok(put.filter(is_of_flow).cloned().collect());
        }
        let Some(stored) = self.schedules_stored.get(&key) else {
            return self.miss(|wants| _ = wants.schedules.insert(key));
        };
        let moved = |row: &ScheduleRow| {
            let at = (workspace.clone(), flow.clone(), row.trigger.clone());
            self.schedules_moved.get(&at).cloned().flatten().unwrap_or_else(|| row.clone())
        };
        Ok(stored.iter().map(moved).collect())
    }
    fn put_schedules(&mut self, workspace: &WorkspaceId, flow: &FlowRef, rows: &[ScheduleRow]) -> Result<()> {
        self.put(|set| &mut set.schedules_gone, (workspace.clone(), flow.clone()), Some(()))?;
        let of_flow = |key: &(WorkspaceId, FlowRef, String)| key.0 == *workspace && key.1 == *flow;
        let pending: Vec<_> = self.schedules.0.keys().filter(|key| of_flow(key)).cloned().collect();
        pending.into_iter().try_for_each(|key| self.put(|set| &mut set.schedules, key, None))?;
        rows.iter().try_for_each(|row| {
            let row = ScheduleRow { workspace: workspace.clone(), flow: flow.clone(), ..row.clone() };
            self.put(|set| &mut set.schedules, (workspace.clone(), flow.clone(), row.trigger.clone()), Some(row))
        })
    }
    fn update_schedule(&mut self, row: &ScheduleRow) -> Result<()> {
        let flow = (row.workspace.clone(), row.flow.clone());
        let key = (row.workspace.clone(), row.flow.clone(), row.trigger.clone());
        match self.schedules.get(&key) {
            Some(Some(_)) => self.put(|set| &mut set.schedules, key, Some(row.clone())),
            // A schedule that a push removed meanwhile must not come back.
            _ if self.schedules_gone.get(&flow).is_some_and(Option::is_some) => Ok(()),
            _ => self.put(|set| &mut set.schedules_moved, key, Some(row.clone())),
        }
    }

    fn change(&mut self, workspace: &WorkspaceId, run: RunId, version: u64) -> Result<Option<ChangeRow>> {
        let key = (workspace.clone(), run, version);
        match self.changes.get(&key) {
            Some(now) => Ok(now.clone()),
            None => self.miss(|wants| _ = wants.changes.insert(key)),
        }
    }
    fn insert_change(&mut self, row: &ChangeRow) -> Result<()> {
        let key = (row.workspace.clone(), row.run, row.version);
        self.put_as(|set| &mut set.changes, key, Some(row.clone()), Stored::Assumed)
    }
    fn put_change(&mut self, row: &ChangeRow) -> Result<()> {
        self.put(|set| &mut set.changes, (row.workspace.clone(), row.run, row.version), Some(row.clone()))
    }
    fn delete_change(&mut self, workspace: &WorkspaceId, run: RunId, version: u64) -> Result<()> {
        self.put(|set| &mut set.changes, (workspace.clone(), run, version), None)
    }

    fn secret_versions(&mut self, workspace: &WorkspaceId, name: &str) -> Result<Vec<SecretRow>> {
        let key = (workspace.clone(), name.to_owned());
        if !self.secrets_known.contains(&key) {
            return self.miss(|wants| _ = wants.secrets.insert(key));
        }
        let range = (workspace.clone(), name.to_owned(), 0)..=(workspace.clone(), name.to_owned(), u64::MAX);
        Ok(self.secrets.0.range(range).filter_map(|(_, slot)| slot.now.clone()).collect())
    }
    fn put_secret(&mut self, row: &SecretRow) -> Result<()> {
        let key = (row.workspace.clone(), row.name.clone(), row.version);
        // All versions that are stored are known by now.
        self.put_as(|set| &mut set.secrets, key, Some(row.clone()), Stored::Assumed)
    }

    fn token(&mut self, id: &str) -> Result<Option<TokenRow>> {
        match self.tokens.get(&id.to_owned()) {
            Some(now) => Ok(now.clone()),
            None => self.miss(|wants| _ = wants.tokens.insert(id.to_owned())),
        }
    }
    fn put_token(&mut self, row: &TokenRow) -> Result<()> {
        self.put(|set| &mut set.tokens, row.id.clone(), Some(row.clone()))
    }
    fn workspace(&mut self, id: &WorkspaceId) -> Result<Option<WorkspaceRow>> {
        match self.workspaces.get(id) {
            Some(now) => Ok(now.clone()),
            None => self.miss(|wants| _ = wants.workspaces.insert(id.clone())),
        }
    }
    fn put_workspace(&mut self, row: &WorkspaceRow) -> Result<()> {
        self.put(|set| &mut set.workspaces, row.id.clone(), Some(row.clone()))
    }

    fn restored_at(&self) -> Option<Millis> {
        self.restored_at
    }
    fn put_restored(&mut self, row: &RestoredRow) -> Result<()> {
        self.writable()?;
        let old = (self.restored.replace(row.clone()), self.restored_at.replace(row.restored_at));
        self.push_undo(move |set| (set.restored, set.restored_at) = old);
        Ok(())
    }
    fn open_runs(&mut self) -> Result<Vec<RunRow>> {
        let keys = self.runs_by(Ask::OpenRuns)?;
        Ok(keys.iter().filter_map(|key| self.runs.get(key)?.clone()).collect())
    }

    fn forgotten_claims(&mut self, now: Millis, limit: u32) -> Result<Vec<(WorkspaceId, Hash16)>> {
        let ask = Ask::ForgottenClaims { now, limit };
        match self.claims_found.get(&ask) {
            Some(found) => Ok(found.clone()),
            None => self.miss(|wants| _ = wants.asks.insert(ask)),
        }
    }
    fn sweep_kv(&mut self, now: Millis, limit: u32) -> Result<u64> {
        self.count_by(Ask::SweepKv { now, limit })
    }
    fn sweep_uploads(&mut self, before: Millis, limit: u32) -> Result<u64> {
        self.count_by(Ask::SweepUploads { before, limit })
    }
    fn sweep_decisions(&mut self, before: Millis, limit: u32) -> Result<u64> {
        self.count_by(Ask::SweepDecisions { before, limit })
    }
    fn old_runs(&mut self, before: Millis, limit: u32) -> Result<Vec<(WorkspaceId, RunId)>> {
        self.runs_by(Ask::OldRuns { before, limit })
    }
}
