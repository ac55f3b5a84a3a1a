//! What clients were told, against what is there.

use super::super::actors::DECISIONS_MS;
use super::super::model::{Model, spell};
use super::super::plan::Wish;
use super::Facts;
use semel_core::admission::Decision;
use semel_core::run::{Event, Status};
use semel_core::{Door, RunId};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

pub fn check(facts: &mut Facts<'_>) {
    acknowledged(facts);
    phantoms(facts);
    replays(facts);
    decisions(facts);
    wishes(facts);
    gathered(facts);
}

/// I18: the last payload of a quiet period is the one that runs; what is delivered arrives once.
fn gathered(facts: &mut Facts<'_>) {
    let (coalesced, delivered) = {
        let model = facts.world.hub.model.lock();
        (model.coalesced.clone(), model.delivered.clone())
    };
    for (run, payload) in coalesced.iter().filter(|(_, payload)| payload.contains('|')) {
        let Some(inputs) = facts.runs.get(run).and_then(|s| s.inputs()) else { continue };
        if spell(payload.split('|').next().unwrap_or_default(), &inputs) != *payload {
            facts.broken("I18", format!("run {run} gathered {payload} last, and runs with {inputs}"));
        }
    }
    let mut wrong = Vec::new();
    for (run, stored) in &facts.runs {
        let told = delivered.get(run).copied().unwrap_or(0);
        let found = stored.entries.iter().filter(|e| matches!(e.event, Event::Delivered { .. })).count();
        if found > told || (found < told && stored.row.status == Status::Completed) {
            wrong.push(format!("{told} events were delivered to run {run}, it has {found}"));
        }
    }
    for text in wrong {
        facts.broken("I18", text);
    }
}

/// R2 for people: what they were told is granted is in the journal.
fn wishes(facts: &mut Facts<'_>) {
    let mut granted: BTreeMap<(RunId, &'static str), usize> = BTreeMap::new();
    for (run, wish) in &facts.world.granted {
        let kind = match wish {
            Wish::Cancel => "CancelRequested",
            Wish::Pause => "Paused",
            Wish::Resume => "Resumed",
            Wish::Release => "Released",
            Wish::Restart => "Restarted",
            Wish::Replay(_) => "Replayed",
            Wish::VerdictDone | Wish::VerdictRepeat | Wish::VerdictNewKey | Wish::VerdictFail => "Verdict",
        };
        *granted.entry((*run, kind)).or_insert(0) += 1;
    }
    let mut lost = Vec::new();
    for ((run, kind), count) in granted {
        let Some(stored) = facts.runs.get(&run) else { continue };
        let name = |event: &Event| match (event, kind) {
            // Who resumes a run that stands at a step resumes the step.
            (Event::StepResumed { by: Some(_), .. }, "Resumed") => true,
            _ => format!("{event:?}").split([' ', '{']).next() == Some(kind),
        };
        let found = stored.entries.iter().filter(|e| name(&e.event)).count();
        // To cancel what is being cancelled is granted, and changes nothing.
        let wanted = if kind == "CancelRequested" { 1 } else { count };
        if found < wanted {
            lost.push(format!("{count} times {kind} was granted for run {run}, its journal has it {found} times"));
        }
    }
    for text in lost {
        facts.broken("R2", text);
    }
}

/// R2: a run that a client was told of is there, with that client's flow.
fn acknowledged(facts: &mut Facts<'_>) {
    let deleted = facts.world.hub.model.lock().deleted.clone();
    let answers = facts.world.answers.clone();
    for answer in &answers {
        let Some(run) = answer.run.filter(|run| !deleted.contains(run)) else { continue };
        let Some(stored) = facts.runs.get(&run) else {
            facts.broken("R2", format!("client {} was told of run {run}, and it is gone", answer.caller));
            continue;
        };
        let flow = Model::flow_name(&facts.world.script.flows[answer.flow]);
        let own = matches!(
            answer.decision,
            Decision::Start | Decision::Queue | Decision::Replace | Decision::Coalesce | Decision::Deliver
        );
        if stored.row.workspace != answer.workspace || (own && stored.row.flow.to_string() != flow) {
            facts.broken("R12", format!("client {} was told of run {run} of another flow or workspace", answer.caller));
            continue;
        }
        // A quiet period may replace the payload later; nothing else does.
        let starts = matches!(answer.decision, Decision::Start | Decision::Queue | Decision::Replace);
        if let Some(inputs) = stored.inputs().filter(|_| starts)
            && spell("", &inputs) != spell("", &answer.payload.json())
        {
            let text = format!("client {} sent {:?}, and run {run} runs with {inputs}", answer.caller, answer.payload);
            facts.broken("R2", text);
        }
    }
}

/// R3: every run comes from something that was sent, with what was sent.
fn phantoms(facts: &mut Facts<'_>) {
    let mut sent: BTreeSet<(String, String)> = BTreeSet::new();
    let mut below: BTreeSet<(String, String)> = BTreeSet::new();
    for incoming in facts.world.hub.model.lock().callers.values() {
        sent.insert((incoming.workspace.0.clone(), incoming.payload.clone()));
        // A sub-run that coalesced brings its parent's inputs.
        let inputs = incoming.payload.split_once('|').map_or("", |(_, inputs)| inputs);
        below.insert((incoming.workspace.0.clone(), inputs.to_owned()));
    }
    let mut lost = Vec::new();
    for stored in facts.runs.values() {
        let Some(inputs) = stored.inputs() else { continue };
        let row = &stored.row;
        let payload = spell(&row.flow.to_string(), &inputs);
        // Its own flow's, or that of a flow whose sub-run coalesced into it.
        let ticked = |flow: &super::super::flows::Flow| flow.schedule.is_some();
        match row.door {
            Door::Schedule => {}
            // A tick that coalesced into it.
            _ if row.lane.is_some() && inputs["id"].as_str().is_some_and(|id| id.ends_with('Z')) => {
                if !facts.world.script.flows.iter().any(ticked) && row.parent.is_none() {
                    lost.push(format!("run {} has the inputs of a tick, and no schedule", row.id));
                }
            }
            Door::Subflow => {
                // Unless a later event of its quiet period replaced them.
                let replaced = stored.entries.iter().any(|e| matches!(e.event, Event::InputsReplaced { .. }));
                let parent = row.parent.as_ref().filter(|_| !replaced).and_then(|p| facts.runs.get(&p.run));
                if let Some(theirs) = parent.and_then(|p| p.inputs())
                    && spell("", &theirs) != spell("", &inputs)
                {
                    lost.push(format!("sub-run {} runs with {inputs}, its parent with {theirs}", row.id));
                }
            }
            _ if sent.contains(&(row.workspace.0.clone(), payload.clone())) => {}
            _ if row.lane.is_some()
                && below
                    .contains(&(row.workspace.0.clone(), payload[payload.find('|').unwrap_or(0) + 1..].to_owned())) => {
            }
            _ => lost.push(format!("run {} has inputs {inputs} that nobody sent there", row.id)),
        }
        if row.status == Status::Completed
            && let Some(outputs) = &stored.values.outputs
        {
            let variant = facts.world.spec_of(row).map_or(0, |f| f.variant);
            if outputs["who"] != inputs["id"] || outputs["n"] != inputs["n"] || outputs["variant"] != variant {
                lost.push(format!("run {} gave {outputs} for {inputs} and variant {variant}", row.id));
            }
        } else if row.status == Status::Completed && !row.erased {
            lost.push(format!("run {} completed without outputs", row.id));
        }
    }
    for text in lost {
        facts.broken("R3", text);
    }
}

/// I4: a replay shows the same as the replay before it, as long as the run was not reopened.
fn replays(facts: &mut Facts<'_>) {
    let mut first: BTreeMap<(RunId, u32), (Status, Option<Json>)> = BTreeMap::new();
    let mut differ = Vec::new();
    for answer in &facts.world.answers {
        let (Some(run), Some((generation, status, outputs))) = (answer.run, answer.shown.clone()) else { continue };
        if !status.is_ended() {
            differ.push(format!("client {} was replayed run {run}, which was {status:?}", answer.caller));
        }
        let seen = first.entry((run, generation)).or_insert((status, outputs.clone()));
        if outputs.is_some() && seen.1.is_some() && *seen != (status, outputs) {
            differ.push(format!("client {} was replayed run {run} with other outputs than before", answer.caller));
        }
    }
    for text in differ {
        facts.broken("I4", text);
    }
}

/// I2, I17: one row per occurrence, one admitting row per run, and no row that nobody caused.
fn decisions(facts: &mut Facts<'_>) {
    let rows = facts.dump["decisions"].as_array().cloned().unwrap_or_default();
    let mut creating: BTreeMap<String, u32> = BTreeMap::new();
    let mut callers: BTreeMap<String, String> = BTreeMap::new();
    let mut wrong = Vec::new();
    for row in &rows {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let (decision, reason, run, caller) = (text("decision"), text("reason"), text("run"), text("caller"));
        let creates = ["start", "queue", "replace"].contains(&decision.as_str()) || reason == "coalesce_pending";
        if creates {
            *creating.entry(run).or_insert(0) += 1;
        }
        if caller.starts_with("client ") {
            if !facts.world.hub.model.lock().callers.contains_key(&caller) {
                wrong.push(format!("a decision for {caller}, who never sent anything"));
            }
            if callers.insert(caller.clone(), decision).is_some() {
                wrong.push(format!("two decisions for {caller}"));
            }
        }
    }
    // The sweep may have taken what is older.
    let kept_from = facts.world.store_now() - DECISIONS_MS;
    for (run, stored) in &facts.runs {
        let count = creating.get(&run.to_string()).copied().unwrap_or(0);
        if count > 1 || (count == 0 && stored.row.created_at.0 > kept_from) {
            wrong.push(format!("run {run} of {} has {count} admitting decisions", stored.row.flow));
        }
    }
    for answer in &facts.world.answers {
        let caller = format!("client {}", answer.caller);
        match callers.get(&caller) {
            Some(decision) if decision != answer.decision.word() => {
                wrong.push(format!("{caller} was told {}, the log says {decision}", answer.decision.word()));
            }
            None if !answer.decision.is_read_only() && answer.at > kept_from => {
                wrong.push(format!("the decision for {caller} is not in the log"))
            }
            _ => {}
        }
    }
    for text in wrong {
        facts.broken("I17", text);
    }
}
