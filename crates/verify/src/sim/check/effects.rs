//! What receivers saw, against what was allowed.

use super::super::flows::Class;
use super::Facts;
use semel_core::ir::EffectClass;
use semel_store::EffectState;
use std::collections::{BTreeMap, BTreeSet};

pub fn check(facts: &mut Facts<'_>) {
    let mut wrong: Vec<(&'static str, String)> = Vec::new();
    let told = &facts.world.told;
    let words = |run: &str| run.parse().ok().and_then(|run| facts.world.words.get(&run)).copied().unwrap_or(0);
    let said = |run: &str| run.parse().ok().and_then(|run| facts.world.said.get(&run)).copied().unwrap_or(0);
    let verdicts = |id: &str| told.get(id).map_or(0, |told| told.verdicts);
    for stored in facts.runs.values() {
        for row in &stored.effects {
            match row.state {
                // A read that was in flight when its run was cancelled: nobody needs to know.
                EffectState::Intent if matches!(row.class, EffectClass::Read | EffectClass::Repeatable) => {}
                // A person asked for a repeat at a handler of a run that had ended: it has its answer.
                EffectState::InDoubt if verdicts(&row.step_id.hex()) > 0 => {}
                EffectState::Intent | EffectState::InDoubt => {
                    wrong.push(("R9", format!("run {} ended with step {} {:?}", row.run, row.step, row.state)));
                }
                EffectState::Done | EffectState::FailedClean => {}
            }
        }
    }
    let seen = &facts.world.outside.seen;
    let mut by_step: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut by_key: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (index, call) in seen.iter().enumerate() {
        by_step.entry(&call.step_id).or_default().push(index);
        if let Some(key) = &call.key {
            by_key.entry((&call.host, key)).or_default().push(index);
        }
        if let Some(key) = &call.key
            && !told.get(&call.step_id).is_some_and(|told| told.keys.contains(key))
        {
            wrong.push(("R7", format!("call {index} to {} carried key {key}, which no intent names", call.uri)));
        }
        if !facts.world.script.flows.iter().any(|f| f.id == call.flow && f.task(&call.task).is_some())
            && !call.task.starts_with('e')
        {
            wrong.push(("I7", format!("call {index} went to {:?}, which no flow names", call.uri)));
        }
        if call.class != Class::Read && call.key.is_none() {
            wrong.push(("R7", format!("call {index} to {} carried no key", call.uri)));
        }
        let run = call.run.parse().ok().and_then(|run| facts.runs.get(&run));
        if let Some(stored) = run
            && let Some(flow) = facts.world.spec_of(&stored.row)
            && flow.variant != call.variant
        {
            wrong.push(("R10", format!("run {} follows text {} and called {}", call.run, flow.variant, call.uri)));
        }
        if call.class == Class::Keyed
            && let Some(until) = told.get(&call.step_id).and_then(|told| told.safe_until)
            && call.left >= until
        {
            wrong.push(("I10", format!("call {index} to {} left {} ms too late", call.uri, call.left - until)));
        }
    }
    for (step, calls) in &by_step {
        let uris: BTreeSet<&str> = calls.iter().map(|i| seen[*i].uri.as_str()).collect();
        if uris.len() > 1 {
            wrong.push(("R7", format!("one step id, several effects: {uris:?}")));
        }
        let bodies: BTreeSet<&str> = calls.iter().map(|i| seen[*i].body.as_str()).collect();
        // What a restore has lost may have changed the request; a person took that upon themselves.
        if bodies.len() > 1 + words(&seen[calls[0]].run) {
            wrong.push(("I7", format!("one effect, several requests: {bodies:?}")));
        }
        if seen[calls[0]].class != Class::Naked {
            continue;
        }
        // I9: sent again only after a failure that was answered, or a person's word.
        let failures = calls.iter().filter(|i| seen[**i].answered_failure).count();
        let allowed = 1 + failures + verdicts(step) + words(&seen[calls[0]].run);
        if calls.len() > allowed {
            let text = format!("naked {} was sent {} times, {allowed} allowed", seen[calls[0]].uri, calls.len());
            wrong.push(("R7", text));
        }
    }
    for ((host, key), calls) in &by_key {
        let uris: BTreeSet<&str> = calls.iter().map(|i| seen[*i].uri.as_str()).collect();
        if uris.len() > 1 {
            wrong.push(("R7", format!("key {key} was sent for several effects: {uris:?}")));
        }
        // A key of the author's own is the same again when a person has the step done again.
        let asked = calls.iter().any(|i| {
            verdicts(&seen[*i].step_id) > 0
                || words(&seen[*i].run) > 0
                || (seen[*i].step_id != *key && said(&seen[*i].run) > 0)
        });
        let applied = calls.iter().filter(|i| seen[**i].applied).count();
        let keyed = seen[calls[0]].class == Class::Keyed;
        if (*host == "dedupe" || *host == "forgets") && keyed && applied > 1 && !asked {
            wrong.push(("R7", format!("key {key} was applied {applied} times at {host}")));
        }
    }
    // Applied once per effect, whatever keys were used.
    let mut applied: BTreeMap<&str, u32> = BTreeMap::new();
    for call in seen.iter().filter(|c| c.applied && c.host == "dedupe" && c.class == Class::Keyed) {
        *applied.entry(&call.uri).or_insert(0) += 1;
    }
    for (uri, count) in applied {
        let run = uri.split('/').nth(6).unwrap_or_default();
        if count as usize > 1 + said(run) {
            wrong.push(("R7", format!("{uri} was applied {count} times")));
        }
    }
    // A step is called done because its far side said so, or a person did.
    for stored in facts.runs.values().filter(|s| !s.row.erased) {
        for row in stored.effects.iter().filter(|r| r.state == EffectState::Done) {
            let id = row.step_id.hex();
            let answered = by_step.get(id.as_str()).is_some_and(|calls| calls.iter().any(|i| seen[*i].answered_done));
            if !answered && !told.get(&id).is_some_and(|told| told.done_by_hand) {
                wrong.push(("R6", format!("step {} of run {} is done, and nobody said so", row.step, row.run)));
            }
        }
    }
    for (id, text) in wrong {
        facts.broken(id, text);
    }
}
