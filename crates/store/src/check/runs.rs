//! The walk over runs: each is folded from its journal and compared with all that is kept beside it.
//!
//! A head is written with its journal, so the two agree, but for what a transaction leaves to the
//! node that looks next. Such a head is *active*:
//!
//! | the head says | the journal says | because |
//! |---|---|---|
//! | running, active | not started | an admission or a lane gave it its slot |
//! | running, active | an op is over and nothing has begun | the op's result was appended by its transaction |
//! | running, active, message `restart` | ended | a twin asked for it to go on |

use super::audit::{Row, Seen, Span, Table};
use super::codes::Code;
use super::fold::{Findings, Fold};
use super::{Check, Violation, decisions};
use crate::reads::WholeRun;
use crate::rows::*;
use crate::script::{RELEASED_FROM, watch_hash};
use crate::tx::Result;
use semel_core::admission::ClaimState;
use semel_core::run::{Conclusion, Payload, Phase, RunState, Status, StepKey, Work, errand_id};
use semel_core::{FlowRef, Hash16, Millis, RunId, WorkspaceId};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// All that is kept of one run.
struct Whole {
    row: RunRow,
    values: RunValues,
    labels: Vec<(String, String)>,
    fold: Fold,
    snapshot: Option<SnapshotRow>,
    timers: BTreeMap<u64, Millis>,
    /// Steps of errands whose attempts have not ended, by id.
    errands: BTreeMap<Hash16, StepKey>,
    effects: Vec<EffectRow>,
    inbox: Vec<Inbox>,
    /// Sequence numbers of the decisions that made it.
    admitted: Vec<u64>,
    keys_in_log: bool,
    findings: Findings,
}

impl Check<'_> {
    pub(super) fn runs(&mut self, workspace: &WorkspaceId) -> Result<()> {
        let mut after = None;
        loop {
            let page = match self.audit.runs(workspace, after, self.options.page) {
                Ok(page) => page,
                failed => return self.damage(workspace, "runs", failed.map(|_| ())),
            };
            let upto = page.last().map(|(id, _)| *id).filter(|_| page.len() == self.options.page as usize);
            self.page(workspace, page, Span { after, upto })?;
            (self.progress)(&self.report.counts);
            if upto.is_none() {
                return Ok(());
            }
            after = upto;
        }
    }

    fn page(&mut self, workspace: &WorkspaceId, page: Vec<(RunId, Seen<WholeRun>)>, span: Span<RunId>) -> Result<()> {
        let mut known: BTreeMap<RunId, Option<Whole>> = BTreeMap::new();
        for (id, seen) in page {
            self.report.counts.runs += 1;
            let whole = match seen {
                Ok(run) => Some(self.whole(workspace, run)?),
                Err(why) => {
                    self.found_run(Code::StoreDamaged, workspace, id, why);
                    None
                }
            };
            known.insert(id, whole);
        }
        for table in Table::ALL {
            let answer = self.audit.rows(workspace, table, span, &mut |seen| {
                self.report.counts.of(table);
                Self::take(&mut self.report, self.options, workspace, table, &mut known, seen);
            });
            self.damage(workspace, table.word(), answer)?;
        }
        for (id, whole) in known {
            let Some(whole) = whole else { continue };
            self.run(workspace, id, whole)?;
        }
        Ok(())
    }

    fn whole(&mut self, workspace: &WorkspaceId, (row, values, labels): WholeRun) -> Result<Whole> {
        *self.report.counts.by_status.entry(row.status).or_default() += 1;
        let flow = self.flow(workspace, &row.flow, row.revision)?;
        let mut findings = Findings::new();
        if flow.is_none() {
            let text = format!("revision {} of the flow {} is missing or does not parse", row.revision, row.flow);
            findings.push((Code::FlowMissing, text));
        }
        Ok(Whole {
            fold: Fold::new(row.id, row.logical, flow),
            row,
            values,
            labels,
            snapshot: None,
            timers: BTreeMap::new(),
            errands: BTreeMap::new(),
            effects: vec![],
            inbox: vec![],
            admitted: vec![],
            keys_in_log: false,
            findings,
        })
    }

    /// Gives a row to the run it belongs to.
    fn take(
        report: &mut super::Report,
        options: &super::Options,
        workspace: &WorkspaceId,
        table: Table,
        known: &mut BTreeMap<RunId, Option<Whole>>,
        seen: Seen<Row>,
    ) {
        let mut found = |code: Code, what: String, message: String| {
            report.add(Violation::new(code, workspace, what, message), options.findings_max);
        };
        let row = match seen {
            Ok(row) => row,
            Err(why) => return found(Code::StoreDamaged, table.word().to_owned(), why),
        };
        if let Row::Decision(decision) = &row
            && let Some(why) = decisions::differs(decision)
        {
            found(Code::DecisionDiffers, format!("decision {}", decision.seq), why);
        }
        let Some(id) = row.run() else { return };
        match known.get_mut(&id) {
            Some(Some(whole)) => whole.take(row),
            // Its head cannot be read, which is said already.
            Some(None) => {}
            // Decisions outlive the run they made.
            None if table == Table::Decisions => report.counts.decisions_of_deleted_runs += 1,
            None => found(
                Code::OrphanRow,
                format!("run {id}"),
                format!("a row of {} belongs to a run that is not there", table.word()),
            ),
        }
    }

    fn run(&mut self, workspace: &WorkspaceId, id: RunId, mut whole: Whole) -> Result<()> {
        self.report.counts.events += whole.fold.events;
        let mut findings = std::mem::take(&mut whole.findings);
        if !whole.fold.broken {
            whole.head(&mut findings);
            whole.values(&mut findings);
            whole.rows(&mut findings);
            if !whole.row.status.is_ended() {
                self.ties(workspace, &whole, &mut findings)?;
            }
            self.above(workspace, &whole, &mut findings)?;
        }
        self.residue(workspace, &whole, &mut findings)?;
        self.admissions(&whole, &mut findings);
        for (code, message) in findings {
            self.found_run(code, workspace, id, message);
        }
        Ok(())
    }

    /// Every run has one decision that made it, committed with it.
    fn admissions(&self, whole: &Whole, findings: &mut Findings) {
        // The log is swept from its old end.
        let swept = self.oldest_decision.is_none_or(|(seq, at)| seq > 1 && whole.row.created_at <= at);
        match whole.admitted.as_slice() {
            [_] => {}
            [] if swept => {}
            [] => findings.push((Code::RunUnadmitted, "no decision of the log made this run".to_owned())),
            many => {
                let text = format!("{} decisions made this run: {many:?}", many.len());
                findings.push((Code::RunAdmittedTwice, text));
            }
        }
    }

    /// What an open run needs of others: its claim, its slot, its children.
    fn ties(&mut self, workspace: &WorkspaceId, whole: &Whole, findings: &mut Findings) -> Result<()> {
        let row = &whole.row;
        if let Some(hash) = row.claim {
            match self.audit.claim(workspace, hash)? {
                // Released while the run had ended, before a person had it go on.
                None if whole.fold.reopened || row.generation > 1 => {}
                None => findings.push((Code::ClaimMissing, "the run is open and its claim is gone".to_owned())),
                Some(claim) if claim.run == row.id && !claim.state.is_open() => {
                    let text = format!("the run is {}, its claim {}", row.status.word(), claim.state.word());
                    findings.push((Code::ClaimState, text));
                }
                Some(_) => {}
            }
        }
        if let Some(lane) = row.lane {
            self.slot(workspace, whole, lane.hash, findings)?;
        }
        for step in whole.fold.state.steps.values() {
            if let Work::Child { run: Some(child), .. } = step.work {
                self.child(workspace, whole, child, findings)?;
            }
        }
        Ok(())
    }

    fn slot(&self, workspace: &WorkspaceId, whole: &Whole, hash: Hash16, findings: &mut Findings) -> Result<()> {
        let lane = self.audit.lane(workspace, hash)?;
        let id = whole.row.id;
        let gathers = lane.gathering.is_some_and(|g| g.run == id);
        let holds = lane.holders.contains(&id);
        let fits = match whole.fold.state.phase {
            Phase::Waiting if holds => {
                // Admitted with its slot, or told of it by a message that waits.
                whole.row.status == Status::Running || whole.inbox.iter().any(|m| matches!(m, Inbox::Promoted))
            }
            Phase::Waiting => {
                gathers
                    || whole.fold.state.conclusion == Some(Conclusion::Scheduled)
                    // It found no slot, and will end of it.
                    || whole.inbox.iter().any(|m| matches!(m, Inbox::Stop { .. }))
                    || self.audit.line(workspace, hash)?.contains(&id)
            }
            Phase::Open | Phase::Finishing | Phase::RetryLater | Phase::Ended(_) => holds,
        };
        if !fits {
            let text = format!("the run is {} and its lane {hash} does not know it as such", whole.row.status.word());
            findings.push((Code::LaneLost, text));
        }
        Ok(())
    }

    /// A run that waits for another will hear of its end.
    fn child(&self, workspace: &WorkspaceId, whole: &Whole, child: RunId, findings: &mut Findings) -> Result<()> {
        let told = whole.inbox.iter().any(|m| matches!(m, Inbox::ChildEnded { run, .. } if *run == child));
        if told {
            return Ok(());
        }
        let Some(row) = self.audit.head(workspace, child)? else {
            findings.push((Code::ChildMissing, format!("it waits for run {child}, which is not there")));
            return Ok(());
        };
        // A step that does not wait ends with the next commit of its run, which is active until then.
        let waits_itself = whole.row.active || row.parent.as_ref().is_some_and(|p| p.run == whole.row.id && p.waits);
        let will_hear = if row.status.is_ended() {
            false
        } else if waits_itself {
            true
        } else {
            self.audit.line(workspace, watch_hash(child))?.contains(&whole.row.id)
        };
        if !will_hear {
            let text = format!("it waits for run {child} ({}), and nothing will tell it of the end", row.status.word());
            findings.push((Code::ChildUntold, text));
        }
        Ok(())
    }

    /// What a run owes to the one above it.
    fn above(&self, workspace: &WorkspaceId, whole: &Whole, findings: &mut Findings) -> Result<()> {
        let row = &whole.row;
        let Some(parent) = &row.parent else { return Ok(()) };
        let needed = row.open_doubts > 0 || (!row.status.is_ended() && parent.waits);
        if !needed {
            return Ok(());
        }
        let Some(above) = self.audit.head(workspace, parent.run)? else {
            findings.push((Code::ParentMissing, format!("its parent {} is not there", parent.run)));
            return Ok(());
        };
        let heard = above.open_doubts > 0
            || self.audit.inbox(workspace, above.id)?.iter().any(|(_, message)| match message {
                Inbox::ChildEnded { run, doubts, .. } => *run == row.id && *doubts > 0,
                Inbox::DoubtsBelow { run, count } => *run == row.id && *count > 0,
                Inbox::Promoted
                | Inbox::Cancel { .. }
                | Inbox::CancelAlone { .. }
                | Inbox::Delivered { .. }
                | Inbox::ErrandLate { .. }
                | Inbox::Stop { .. }
                | Inbox::Restart { .. }
                | Inbox::ChildReopened { .. }
                | Inbox::Asked { .. } => false,
            });
        if row.open_doubts > 0 && !heard {
            let text = format!("a doubt is open here, and its parent {} does not know", above.id);
            findings.push((Code::DoubtUntold, text));
        }
        Ok(())
    }

    /// An erased run keeps its shape and nothing of what people sent.
    fn residue(&self, workspace: &WorkspaceId, whole: &Whole, findings: &mut Findings) -> Result<()> {
        if !whole.row.erased {
            return Ok(());
        }
        let values = &whole.values;
        let left = [
            ("values", [&values.inputs, &values.trigger, &values.outputs, &values.failure].iter().any(|v| v.is_some())),
            ("values of its journal", whole.fold.has_values),
            ("labels", !whole.labels.is_empty()),
            ("its key", whole.row.key.is_some()),
            ("messages", whole.inbox.iter().any(|m| !matches!(m, Inbox::ChildEnded { outputs: Json::Null, .. }))),
            ("its key in the decision log", whole.keys_in_log),
            // Who freed its key afterwards, and why, is no part of what was sent.
            ("its log", self.audit.logs(workspace, whole.row.id, 0, 1)?.iter().any(|line| line.seq < RELEASED_FROM)),
            (
                "its key in a claim",
                self.audit
                    .claims_of_run(workspace, whole.row.id)?
                    .iter()
                    .any(|claim| claim.key.is_some() || claim.state != ClaimState::Erased),
            ),
        ];
        for (what, _) in left.iter().filter(|(_, is_there)| *is_there) {
            findings.push((Code::ErasedResidue, format!("the run was erased, and there is still something of {what}")));
        }
        Ok(())
    }
}

impl Whole {
    fn take(&mut self, row: Row) {
        match row {
            Row::Snapshot(row) => self.snapshot = Some(row),
            Row::Journal(row) => self.fold.row(&row, self.snapshot.as_ref(), &mut self.findings),
            Row::Timer(row) => {
                self.timers.insert(row.timer, row.due);
            }
            Row::Errand(row) if row.open => {
                self.errands.insert(row.id, row.more.step);
            }
            Row::Errand(_) => {}
            Row::Effect(row) => self.effects.push(row),
            Row::Inbox(_, _, message) => self.inbox.push(message),
            Row::Decision(row) => {
                self.keys_in_log |= row.key.is_some();
                if decisions::made_a_run(&row) {
                    self.admitted.push(row.seq);
                    let first = self.fold.flows.as_ref().map_or(&self.row.flow, |(first, _)| first);
                    if !made_so(&self.row, first, &row) {
                        let text = format!("decision {} made this run, and they do not tell the same story", row.seq);
                        self.findings.push((Code::HeadDiffers, text));
                    }
                }
            }
        }
    }

    fn head(&self, findings: &mut Findings) {
        let (row, state) = (&self.row, &self.fold.state);
        let mut differs = |what: &str, head: &dyn std::fmt::Debug, fold: &dyn std::fmt::Debug| {
            let text = format!("the head's {what} is {head:?}, the journal's {fold:?}");
            findings.push((Code::HeadDiffers, text));
        };
        if row.version != self.fold.last_seq {
            differs("version", &row.version, &self.fold.last_seq);
        }
        if row.open_intents != state.open_intents() {
            differs("count of open intents", &row.open_intents, &state.open_intents());
        }
        if row.open_doubts != state.open_doubts() {
            differs("count of open doubts", &row.open_doubts, &state.open_doubts());
        }
        if let Some((_, now)) = self.fold.flows.as_ref().filter(|(_, now)| *now != row.flow) {
            differs("flow", &row.flow, now);
        }
        if row.take != state.take {
            differs("take", &row.take, &state.take);
        }
        if row.warned != state.warned {
            differs("warning", &row.warned, &state.warned);
        }
        if row.conclusion != state.conclusion && !self.reopening() {
            differs("conclusion", &row.conclusion, &state.conclusion);
        }
        if !status_fits(row, state, &self.inbox) {
            differs("status", &row.status.word(), &state.status().word());
        }
        if row.ended_at.is_some() != (state.is_ended() && !self.reopening()) {
            differs("end", &row.ended_at, &state.phase);
        }
        if !row.active {
            if state.is_active() || (state.phase == Phase::Waiting && row.status == Status::Running) {
                findings
                    .push((Code::RunStuck, "the run has something to do, and no node is told to look at it".into()));
            }
            if !self.inbox.is_empty() {
                findings.push((Code::InboxUnread, "messages wait for the run, and no node is told to look".into()));
            }
        }
    }

    /// A twin has asked for the ended run to go on, and no node has looked yet.
    fn reopening(&self) -> bool {
        self.row.active && self.inbox.iter().any(|m| matches!(m, Inbox::Restart { .. }))
    }

    fn values(&self, findings: &mut Findings) {
        if self.row.erased {
            return;
        }
        let digest = |value: &Option<Json>| value.as_ref().map(|v| Payload::new(v.clone()).digest);
        for (name, value, expected) in
            [("inputs", &self.values.inputs, self.fold.inputs), ("trigger", &self.values.trigger, self.fold.trigger)]
        {
            if digest(value) != expected {
                findings.push((Code::ValuesDiffer, format!("the {name} beside the head are not those of the journal")));
            }
        }
        let kept = self.values.failure.as_ref().and_then(|f| f["code"].as_str());
        if let (Some(Some(code)), Some(kept)) = (&self.fold.ended, kept)
            && code != kept
        {
            findings
                .push((Code::ValuesDiffer, format!("the failure beside the head is `{kept}`, the journal's `{code}`")));
        }
        let labels: BTreeMap<String, String> = self.labels.iter().cloned().collect();
        if labels != self.fold.labels {
            findings.push((Code::LabelsDiffer, "the labels are not those of the journal".to_owned()));
        }
    }

    fn rows(&self, findings: &mut Findings) {
        let state = &self.fold.state;
        // The timers of a run that a restore holds have no rows, so they do not fire.
        let due = if state.restored { &BTreeMap::new() } else { &state.timers };
        for (timer, set) in due {
            match self.timers.get(timer) {
                Some(due) if *due == set.due => {}
                Some(due) => {
                    let text =
                        format!("timer {timer} is set for {} and was to be {}", due.to_rfc3339(), set.due.to_rfc3339());
                    findings.push((Code::TimerMissing, text));
                }
                None => findings.push((Code::TimerMissing, format!("timer {timer} will not fire: it has no row"))),
            }
        }
        for timer in self.timers.keys().filter(|timer| !due.contains_key(timer)) {
            findings.push((Code::TimerStray, format!("timer {timer} has a row, and the run does not wait for it")));
        }
        // As for the timers: nobody gets the errands of a run that a restore holds.
        let out = state.errands().filter(|_| !state.restored && !state.is_ended());
        let out: BTreeMap<Hash16, &StepKey> =
            out.map(|(step, attempt, _)| (errand_id(state.step_id(step), attempt), step)).collect();
        for (id, step) in out.iter().filter(|(id, _)| !self.errands.contains_key(*id)) {
            let text = format!("errand {} of step `{step}` is out, and nobody can take or answer it", id.hex());
            findings.push((Code::ErrandMissing, text));
        }
        for (id, step) in self.errands.iter().filter(|(id, _)| !out.contains_key(*id)) {
            let text = format!("errand {} of step `{step}` can be taken, and the run does not wait for it", id.hex());
            findings.push((Code::ErrandStray, text));
        }
        let mut expected: BTreeMap<&Hash16, &EffectRow> = self.fold.ledger.rows().collect();
        for row in &self.effects {
            match expected.remove(&row.step_id) {
                None => {
                    let text =
                        format!("the effect of step `{}` is in the ledger without an intent in the journal", row.step);
                    findings.push((Code::EffectWithoutIntent, text));
                }
                Some(fold) if same_effect(row, fold) => {}
                Some(fold) => {
                    let text = format!(
                        "the effect of step `{}` is {:?} after {} sends in the ledger, {:?} after {} in the journal",
                        row.step, row.state, row.sends, fold.state, fold.sends
                    );
                    findings.push((Code::EffectDiffers, text));
                }
            }
        }
        for row in expected.values() {
            findings.push((Code::EffectDiffers, format!("the effect of step `{}` is not in the ledger", row.step)));
        }
    }
}

/// A run and the decision that made it were written by one transaction.
/// `flow`: what the run was made of; a person may have it go by another one since.
fn made_so(run: &RunRow, flow: &FlowRef, decision: &DecisionRow) -> bool {
    // Erasure takes the key from either.
    let same_key = run.key == decision.key || run.key.is_none() || decision.key.is_none();
    same_key
        && (run.claim, flow, run.door) == (decision.claim, &decision.flow, decision.door)
        && run.created_at == decision.at
        && run.generation >= decision.generation
}

/// The instant of a row is that of the node, which the journal does not know.
fn same_effect(row: &EffectRow, fold: &EffectRow) -> bool {
    *row == EffectRow { at: row.at, ..fold.clone() }
}

fn status_fits(row: &RunRow, state: &RunState, inbox: &[Inbox]) -> bool {
    if row.status == state.status() {
        return true;
    }
    let ended = state.is_ended() && !inbox.iter().any(|m| matches!(m, Inbox::Restart { .. }));
    row.active && row.status == Status::Running && !ended
}

impl super::Counts {
    fn of(&mut self, table: Table) {
        let count = match table {
            Table::Snapshots => &mut self.snapshots,
            Table::Journal => &mut self.journal_rows,
            Table::Timers => &mut self.timers,
            Table::Errands => &mut self.errands,
            Table::Effects => &mut self.effects,
            Table::Inbox => &mut self.messages,
            Table::Decisions => &mut self.decisions,
        };
        *count += 1;
    }
}
