//! The rows at rest: nothing left over, nothing that contradicts.

use super::super::actors::Job;
use super::super::flows::Kind;
use super::{Facts, journal};
use semel_core::Door;
use semel_core::run::{Event, RunState, Status, StepOutcome};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

pub fn check(facts: &mut Facts<'_>) {
    own_checker(facts);
    at_rest(facts);
    refold(facts);
    if !facts.world.is_of_workers() {
        claims(facts);
    }
    children(facts);
    timers(facts);
    key_values(facts);
    schedules(facts);
    erased(facts);
    waiters(facts);
}

/// What `semel check` says of the store.
fn own_checker(facts: &mut Facts<'_>) {
    match semel_store::check::check(facts.world.hub.inner().as_ref(), &semel_store::check::Options::default()) {
        Ok(report) => {
            for violation in report.violations {
                facts.broken("R9", format!("{} {}: {}", violation.code, violation.what, violation.message));
            }
        }
        Err(error) => facts.broken("R13", format!("the checker cannot read the store: {error}")),
    }
}

fn at_rest(facts: &mut Facts<'_>) {
    for table in ["lanes", "inbox", "timers"] {
        let rows = facts.dump[table].as_array().cloned().unwrap_or_default();
        if !rows.is_empty() {
            let id = if table == "timers" { "R8" } else { "R11" };
            facts.broken(id, format!("rows are left in {table}: {}", Json::Array(rows)));
        }
    }
    let mut wrong = Vec::new();
    for stored in facts.runs.values() {
        let row = &stored.row;
        if !row.status.is_ended() || row.active || row.open_intents > 0 || row.open_doubts > 0 {
            wrong.push(format!(
                "run {} is {:?}, active {}, {} intents, {} doubts",
                row.id, row.status, row.active, row.open_intents, row.open_doubts
            ));
        }
        if row.ended_at.is_none() || row.ended_at < row.started_at.or(Some(row.created_at)) {
            wrong.push(format!("run {} ended at {:?}, started at {:?}", row.id, row.ended_at, row.started_at));
        }
    }
    for text in wrong {
        facts.broken("R9", text);
    }
}

/// R10: the head is the fold of the journal.
fn refold(facts: &mut Facts<'_>) {
    let mut wrong = Vec::new();
    for (run, stored) in &facts.runs {
        let Some(state) = RunState::fold(stored.entries.iter().map(|e| &e.event)) else {
            wrong.push(format!("the journal of run {run} does not begin"));
            continue;
        };
        let row = &stored.row;
        let last = stored.entries.last().map_or(0, |e| e.seq);
        let folded = (state.status(), state.open_intents(), state.open_doubts(), state.take, last);
        let head = (row.status, row.open_intents, row.open_doubts, row.take, row.version);
        if folded != head {
            wrong.push(format!("run {run}: the head says {head:?}, the journal {folded:?}"));
        }
        let mut seqs: Vec<u64> = stored.entries.iter().map(|e| e.seq).collect();
        seqs.dedup();
        if seqs.windows(2).any(|w| w[1] != w[0] + 1) || seqs.first() != Some(&1) {
            wrong.push(format!("the journal of run {run} has gaps: {seqs:?}"));
        }
    }
    for text in wrong {
        facts.broken("R10", text);
    }
}

/// I1, I14, I15: each claim says what its run says.
fn claims(facts: &mut Facts<'_>) {
    let known = facts.world.hub.model.lock().claim_runs();
    let rows = facts.dump["claims"].as_array().cloned().unwrap_or_default();
    let mut hashes = BTreeSet::new();
    let mut wrong = Vec::new();
    for row in &rows {
        let hash = row["hash"].as_str().unwrap_or_default().to_owned();
        let run = row["run"].as_str().unwrap_or_default().to_owned();
        let state = row["state"].as_str().unwrap_or_default();
        hashes.insert(hash.clone());
        let Some(stored) = run.parse().ok().and_then(|run| facts.runs.get(&run)) else {
            wrong.push(("I14", format!("a claim leads to run {run}, which is gone")));
            continue;
        };
        let wanted = match stored.row.status {
            _ if stored.row.erased => "erased",
            Status::Completed => "done",
            Status::Failed => "failed",
            Status::Cancelled => "cancelled",
            _ => "open",
        };
        if state != wanted {
            wrong.push(("I15", format!("the claim of run {run} is {state}, the run {wanted}")));
        }
        match known.iter().find(|(h, _)| h.hex() == hash) {
            Some((_, (of, generation))) => {
                if of.to_string() != run || row["generation"] != *generation {
                    let text =
                        format!("claim {hash} leads to {run} generation {}, not {of} {generation}", row["generation"]);
                    wrong.push(("R1", text));
                }
            }
            None => wrong.push(("R3", format!("claim {hash} of run {run} belongs to no event that was sent"))),
        }
    }
    for (id, text) in wrong {
        facts.broken(id, text);
    }
}

/// A step starts its sub-run once, and hears of its end.
fn children(facts: &mut Facts<'_>) {
    let mut wrong = Vec::new();
    for (run, stored) in &facts.runs {
        let mut started: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (step, child) in journal::children(&stored.entries) {
            started.entry(step).or_default().insert(child.to_string());
            let parent = facts.runs.get(&child).and_then(|c| c.row.parent.clone());
            if let (Some(parent), Some(child)) = (parent, facts.runs.get(&child))
                && parent.run == *run
                && child.row.root != stored.row.root
            {
                wrong.push(("I13", format!("sub-run {} has another root than its parent", child.row.id)));
            }
        }
        // I12: who cancels a run cancels what it waits for.
        let asked = |s: &super::Stored| {
            s.entries.iter().find(|e| matches!(e.event, Event::CancelRequested { .. })).map(|e| e.at.0)
        };
        if let Some(at) = asked(stored).filter(|_| stored.row.generation == 1 && stored.row.status == Status::Cancelled)
        {
            // The row tells when the last doubt was settled, the journal when the sub-run ended.
            let ended =
                |s: &super::Stored| s.entries.iter().find(|e| matches!(e.event, Event::Ended { .. })).map(|e| e.at.0);
            for child in facts.runs.values() {
                let own = child.row.parent.as_ref().is_some_and(|p| p.run == *run && p.waits);
                let late = ended(child).is_some_and(|end| end > at + 120_000) && child.row.created_at.0 < at;
                if own && late && child.row.generation == 1 && asked(child).is_none() {
                    let text =
                        format!("run {run} was cancelled, and its sub-run {} was never asked to stop", child.row.id);
                    wrong.push(("I12", text));
                }
            }
        }
        let reopened = |s: &super::Stored| {
            s.entries.iter().any(|e| matches!(e.event, Event::Replayed { .. } | Event::Restarted { .. }))
        };
        let again = reopened(stored);
        // A warning of the sub-run is one of the step, where that passes on how it ended.
        let flow = facts.world.spec_of(&stored.row).filter(|_| !again);
        for (step, outcome) in stored.entries.iter().filter_map(|entry| match &entry.event {
            Event::StepEnded { step, outcome, .. } => Some((step, *outcome)),
            _ => None,
        }) {
            let Some(Kind::Subflow(sub)) = flow.as_ref().and_then(|f| f.task(step.task_id())).map(|t| &t.kind) else {
                continue;
            };
            let child = started.get(&step.0).and_then(|runs| runs.iter().next()).and_then(|run| run.parse().ok());
            let Some(child) = child.and_then(|run| facts.runs.get(&run)).filter(|c| !reopened(c)) else { continue };
            let warns = sub.wait && sub.transmit && child.row.warned;
            if child.row.status == Status::Completed && (outcome == StepOutcome::Warning) != warns {
                let text =
                    format!("step {step} of run {run} ended {outcome:?}, its sub-run warned: {}", child.row.warned);
                wrong.push(("R10", text));
            }
        }
        for (step, runs) in started.iter().filter(|(_, runs)| runs.len() > 1 && !again) {
            wrong.push(("R1", format!("step {step} of run {run} started the sub-runs {runs:?}")));
        }
    }
    for (id, text) in wrong {
        facts.broken(id, text);
    }
}

/// R8: once the world has healed a timer fires within a minute.
fn timers(facts: &mut Facts<'_>) {
    let healed = facts.world.healed_store;
    let mut late = Vec::new();
    for (run, stored) in &facts.runs {
        let mut due = BTreeMap::new();
        for entry in &stored.entries {
            match &entry.event {
                Event::TimerSet { timer, due: at, .. } => {
                    // One that is due already is set again when a run is released.
                    due.insert(*timer, at.0.max(entry.at.0));
                }
                Event::TimerFired { timer } => {
                    let at = due.get(timer).copied().unwrap_or(0);
                    if at > healed && entry.at.0 > at + 60_000 {
                        late.push(format!("timer {timer} of run {run} fired {} ms late", entry.at.0 - at));
                    }
                }
                _ => {}
            }
        }
    }
    for text in late {
        facts.broken("R8", text);
    }
}

/// Each write of a step to the key-value store happened once: the revision counts them.
fn key_values(facts: &mut Facts<'_>) {
    let flows = &facts.world.script.flows;
    let deletes = flows.iter().flat_map(|f| f.all_tasks()).any(|t| matches!(t.kind, Kind::KvDelete { .. }));
    if deletes || !facts.world.hub.model.lock().deleted.is_empty() {
        return;
    }
    let mut writes: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    for stored in facts.runs.values() {
        let Some(flow) = facts.world.spec_of(&stored.row) else { continue };
        for entry in &stored.entries {
            let Event::OpDone { step, ok: true, .. } = &entry.event else { continue };
            let task = step.task_id();
            if let Some(Kind::KvSet { key, .. }) = flow.task(task).map(|t| &t.kind) {
                let place = (stored.row.workspace.0.clone(), flow.namespace.to_owned(), key.clone());
                *writes.entry(place).or_insert(0) += 1;
            }
        }
    }
    let rows = facts.dump["kv"].as_array().cloned().unwrap_or_default();
    let mut wrong = Vec::new();
    for row in &rows {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let place = (text("workspace"), text("namespace"), text("key"));
        let count = writes.remove(&place).unwrap_or(0);
        if row["revision"] != count {
            wrong.push(format!("{place:?} has revision {}, steps wrote it {count} times", row["revision"]));
        }
    }
    wrong.extend(writes.keys().map(|place| format!("{place:?} was written and is not there")));
    for text in wrong {
        facts.broken("R5", text);
    }
}

/// I22: one occurrence per nominal instant, and none left out where all are to be made up for.
fn schedules(facts: &mut Facts<'_>) {
    // As they were decided: the log forgets the keys of what is erased.
    let (ticks, freed) = {
        let model = facts.world.hub.model.lock();
        (model.ticks.clone(), model.freed.clone())
    };
    let mut wrong = Vec::new();
    let mut runs: BTreeSet<(String, String, String)> = BTreeSet::new();
    for stored in facts.runs.values().filter(|s| s.row.door == Door::Schedule) {
        let Some(inputs) = stored.inputs() else { continue };
        let place = (stored.row.workspace.0.clone(), stored.row.flow.to_string(), inputs["id"].to_string());
        let rerun = stored.row.generation > 1;
        // Whose key a person freed may fire again, if the process died before it had said that it fired.
        let tick = format!("tick {}", inputs["id"].as_str().unwrap_or_default());
        if !runs.insert(place.clone()) && !rerun && !freed.contains(&(place.0.clone(), tick)) {
            wrong.push(format!("two runs for one tick: {place:?}"));
        }
    }
    for text in wrong {
        facts.broken("I22", text);
    }
    for ((_, name), dates) in ticks {
        let flow = facts.world.script.flows.iter().find(|f| format!("{}:{}", f.namespace, f.id) == name);
        let Some(schedule) = flow.and_then(|f| f.schedule.clone()).filter(|s| s.recover == "ALL") else { continue };
        let mut minutes: Vec<i64> = dates.iter().filter_map(|date| minute(date)).collect();
        minutes.sort_unstable();
        minutes.dedup();
        if let Some(gap) = minutes.windows(2).find(|w| w[1] - w[0] != i64::from(schedule.minutes)) {
            let text = format!("schedule of {name}: nothing between minutes {} and {}", gap[0], gap[1]);
            facts.broken("I22", text);
        }
    }
}

/// Minutes since 1970 of `2023-11-14T22:15:00.000Z`.
fn minute(date: &str) -> Option<i64> {
    let part = |from: usize, to: usize| date.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 719_469;
    Some((days * 24 + part(11, 13)?) * 60 + part(14, 16)?)
}

/// I21: nothing of an erased run's payload is left.
fn erased(facts: &mut Facts<'_>) {
    let mut wrong = Vec::new();
    for (run, stored) in facts.runs.iter().filter(|(_, s)| s.row.erased) {
        let values = &stored.values;
        let any =
            values.inputs.is_some() || values.trigger.is_some() || values.outputs.is_some() || values.failure.is_some();
        if any || stored.row.key.is_some() || stored.inputs().is_some() {
            wrong.push(format!("run {run} was erased and still has payloads"));
        }
    }
    for text in wrong {
        facts.broken("I21", text);
    }
}

/// I24: nobody waits for a run that has ended.
fn waiters(facts: &mut Facts<'_>) {
    let left: Vec<String> = facts
        .world
        .open_jobs()
        .filter_map(|job| match job {
            Job::Waiter { run, .. } => Some(run.to_string()),
            _ => None,
        })
        .collect();
    if !left.is_empty() {
        facts.broken("I24", format!("somebody still waits for {}", left.join(", ")));
    }
}
