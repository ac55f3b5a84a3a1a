//! The end check: the ledger's record, the sender's record and the server's word must tell one story.
//!
//! It is asked after the faults have stopped and everything had time to settle, so that "still running" is a finding.
//! The letters after each kind are the promises it belongs to.

use super::flows::{self, Flow, NAP_MS};
use super::observe::{Effect, Run, World};
use super::records::{Call, Note, Receiver};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A run that was promised is not there (R2).
    PromiseLost,
    /// One event has two runs (R1).
    TwoRuns,
    /// A run of an event that nobody sent (R3).
    PhantomRun,
    /// A call in the name of a run that is not there (R3, R6).
    PhantomCall,
    /// More calls than intents (R6).
    CallWithoutIntent,
    /// A deduplicating receiver applied one effect of one event twice (R7).
    AppliedTwice,
    /// A naked effect was sent again without a verdict (R7).
    SentTwice,
    /// An effect in doubt, and the run is not held; or held without a doubt (R7).
    DoubtNotHeld,
    /// Written down as done, and nobody outside knows of it (R5, R9).
    OutcomeInvented,
    /// A completed run without one of its effects (R9).
    EffectMissing,
    /// Neither ended nor held (R11).
    NotSettled,
    /// Ended in a way its flow cannot end (R5).
    EndedBadly,
    /// Another payload under a known key passed for the same event (R4).
    AlteredTaken,
    /// An event that must be taken was refused (R11).
    Refused,
    /// The server was well, and did not take an event (R11).
    NotTaken,
    /// A run's claim is not there or names another run (R1, R9).
    ClaimWrong,
    /// Two runs of one lane at the same time.
    LaneOverlap,
    /// A wait ended before its time (R8).
    TimerEarly,
    /// The process ended by itself, or did not start again (R11, R13).
    ServerFailed,
    /// The file does not hold together (R13).
    StoreDamaged,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    pub kind: Kind,
    pub about: String,
}

pub fn violation(kind: Kind, about: impl Into<String>) -> Violation {
    Violation { kind, about: about.into() }
}

/// Everything that was seen.
pub struct Evidence<'a> {
    pub calls: &'a [Call],
    pub notes: &'a [Note],
    pub world: &'a World,
}

pub fn violations(evidence: &Evidence) -> Vec<Violation> {
    let mut found = Vec::new();
    promises(evidence, &mut found);
    runs(evidence, &mut found);
    claims(evidence, &mut found);
    calls(evidence, &mut found);
    effects(evidence, &mut found);
    lanes(evidence, &mut found);
    timers(evidence, &mut found);
    found.sort();
    found.dedup();
    found
}

fn promises(evidence: &Evidence, found: &mut Vec<Violation>) {
    let known: BTreeSet<&str> = evidence.world.runs.iter().map(|run| run.id.as_str()).collect();
    let mut promised: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for note in evidence.notes {
        match note {
            Note::Promised { flow, event, run, .. } => {
                promised.entry((flow, event)).or_default().insert(run);
                if !known.contains(run.as_str()) {
                    found.push(violation(Kind::PromiseLost, format!("{event} was promised run {run}")));
                }
            }
            Note::Altered { flow, event, status, run } => {
                let refuses = flows::named(flow).is_some_and(|flow| flow.refuses_altered);
                if refuses != (*status == 422) {
                    found.push(violation(
                        Kind::AlteredTaken,
                        format!("{event} with another payload was answered {status}"),
                    ));
                }
                promised.entry((flow, event)).or_default().extend(run.as_deref());
            }
            Note::Refused { event, status, code, .. } => {
                found.push(violation(Kind::Refused, format!("{event}: {status} {code}")));
            }
            Note::GaveUp { event, .. } => found.push(violation(Kind::NotTaken, event.clone())),
            Note::Offered { .. } | Note::Ended { .. } => {}
        }
    }
    for ((_, event), runs) in promised.iter().filter(|(_, runs)| runs.len() > 1) {
        found.push(violation(Kind::TwoRuns, format!("{event} was promised {runs:?}")));
    }
}

/// The event of a run that came through a door of its own.
fn event_of(run: &Run) -> Option<&str> {
    run.key.as_deref().filter(|_| !run.is_child)
}

fn runs(evidence: &Evidence, found: &mut Vec<Violation>) {
    let offered: BTreeSet<(&str, &str)> = evidence
        .notes
        .iter()
        .filter_map(|note| match note {
            Note::Offered { flow, event } => Some((flow.as_str(), event.as_str())),
            _ => None,
        })
        .collect();
    let mut by_event: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for run in &evidence.world.runs {
        match event_of(run) {
            Some(event) => by_event.entry((&run.flow, event)).or_default().push(&run.id),
            None if run.is_child => {}
            None => found.push(violation(Kind::PhantomRun, format!("{} of {} has no key", run.id, run.flow))),
        }
        let by_hand = run.is_child || run.door == "schedule";
        if !by_hand && !event_of(run).is_some_and(|event| offered.contains(&(run.flow.as_str(), event))) {
            found.push(violation(Kind::PhantomRun, format!("{} of {}: {:?}", run.id, run.flow, run.key)));
        }
        settled(run, found);
    }
    for ((_, event), runs) in by_event.iter().filter(|(_, runs)| runs.len() > 1) {
        found.push(violation(Kind::TwoRuns, format!("{event} has {runs:?}")));
    }
}

fn settled(run: &Run, found: &mut Vec<Violation>) {
    let about = || format!("{} of {} is {} {}", run.id, run.flow, run.status, run.error);
    if !["completed", "failed", "cancelled", "held"].contains(&run.status.as_str()) {
        found.push(violation(Kind::NotSettled, about()));
    } else if !flows::named(&run.flow).is_some_and(|flow| flow.ends.contains(&run.status.as_str())) {
        found.push(violation(Kind::EndedBadly, about()));
    }
    if run.generation > 1 && !flows::named(&run.flow).is_some_and(Flow::resumes) {
        found.push(violation(Kind::TwoRuns, format!("{} of {} has generation {}", run.id, run.flow, run.generation)));
    }
}

/// Conservation: every run with an event key has its claim, and every claim its run.
fn claims(evidence: &Evidence, found: &mut Vec<Violation>) {
    let of_runs: BTreeSet<(&str, &str, &str)> = evidence
        .world
        .runs
        .iter()
        .filter_map(|run| Some((run.flow.as_str(), run.key.as_deref()?, run.id.as_str())))
        .collect();
    let of_claims: BTreeSet<(&str, &str, &str)> = evidence
        .world
        .claims
        .iter()
        .map(|claim| (claim.flow.as_str(), claim.key.as_str(), claim.run.as_str()))
        .collect();
    for (flow, key, run) in of_runs.difference(&of_claims) {
        found.push(violation(Kind::ClaimWrong, format!("run {run} of {flow} has no claim of {key}")));
    }
    let known: BTreeSet<(&str, &str)> = of_runs.iter().map(|(flow, _, run)| (*flow, *run)).collect();
    for (flow, key, run) in of_claims.difference(&of_runs) {
        if flows::named(flow).is_some_and(Flow::gathers) && known.contains(&(*flow, *run)) {
            continue;
        }
        found.push(violation(Kind::ClaimWrong, format!("the claim of {key} ({flow}) names run {run}")));
    }
}

fn calls(evidence: &Evidence, found: &mut Vec<Violation>) {
    let mut by_effect: BTreeMap<(&str, &str, &str), Vec<&Call>> = BTreeMap::new();
    for call in evidence.calls {
        by_effect.entry((&call.flow, &call.event, &call.step)).or_default().push(call);
    }
    for ((_, event, step), calls) in by_effect {
        let runs: BTreeSet<&str> = calls.iter().map(|call| call.run.as_str()).collect();
        if runs.len() > 1 {
            found.push(violation(Kind::TwoRuns, format!("{step} of {event} was called by {runs:?}")));
        }
        let applied = calls.iter().filter(|call| call.applied).count();
        let dedupes = matches!(calls[0].receiver, Receiver::Dedupe | Receiver::Flaky);
        if dedupes && applied > 1 {
            let keys: BTreeSet<_> = calls.iter().map(|call| call.key.as_deref()).collect();
            found.push(violation(Kind::AppliedTwice, format!("{step} of {event}: {applied} times, keys {keys:?}")));
        }
        for run in runs {
            let calls: Vec<&Call> = calls.iter().filter(|call| call.run == run).copied().collect();
            of_one_effect(evidence.world, run, &calls, found);
        }
    }
}

/// The effect that a call belongs to: by its key, or for calls without one by its step.
fn effect_of<'w>(world: &'w World, call: &Call) -> Option<&'w Effect> {
    let effects = world.effects.get(&call.run)?;
    match &call.key {
        Some(key) => effects.iter().find(|effect| effect.key == *key),
        None => effects.iter().find(|effect| effect.step == call.step),
    }
}

/// All calls of one step of one run.
fn of_one_effect(world: &World, run: &str, calls: &[&Call], found: &mut Vec<Violation>) {
    let name = format!("{} of {} ({run})", calls[0].step, calls[0].event);
    if !world.effects.contains_key(run) {
        found.push(violation(Kind::PhantomCall, name));
        return;
    }
    let mut allowed = BTreeMap::new();
    let mut repeats = 0;
    for call in calls {
        let Some(effect) = effect_of(world, call) else {
            found.push(violation(Kind::CallWithoutIntent, format!("{name}: no intent with key {:?}", call.key)));
            return;
        };
        allowed.insert(effect.key.as_str(), effect.intents);
        repeats = repeats.max(effect.repeats);
    }
    let allowed: u64 = allowed.values().sum();
    let count = calls.len() as u64;
    if count > allowed {
        found.push(violation(Kind::CallWithoutIntent, format!("{name}: {count} calls, {allowed} intents")));
    }
    let naked = matches!(calls[0].receiver, Receiver::Naive | Receiver::Cut);
    if naked && count > 1 + repeats {
        found.push(violation(Kind::SentTwice, format!("{name}: {count} calls, {repeats} verdicts to repeat")));
    }
}

fn effects(evidence: &Evidence, found: &mut Vec<Violation>) {
    let mut applied: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut called: BTreeSet<(&str, &str)> = BTreeSet::new();
    for call in evidence.calls {
        *applied.entry((&call.run, &call.step)).or_default() += u64::from(call.applied);
        called.insert((&call.run, &call.step));
        called.insert((&call.run, call.key.as_deref().unwrap_or(&call.step)));
    }
    for run in &evidence.world.runs {
        let effects = evidence.world.effects.get(&run.id).map(Vec::as_slice).unwrap_or_default();
        doubts(run, effects, &called, found);
        for effect in effects.iter().filter(|effect| effect.state == "done" && !effect.judged) {
            if !called.contains(&(&run.id, &effect.key)) && !called.contains(&(&run.id, &effect.step)) {
                found.push(violation(Kind::OutcomeInvented, format!("{} of {}", effect.step, run.id)));
            }
        }
        let Some(flow) = flows::named(&run.flow).filter(|_| run.status == "completed") else { continue };
        owed(run, flow, effects, &applied, &called, found);
    }
}

fn doubts(run: &Run, effects: &[Effect], called: &BTreeSet<(&str, &str)>, found: &mut Vec<Violation>) {
    let in_doubt: Vec<&Effect> = effects.iter().filter(|effect| effect.state == "in_doubt").collect();
    // One that a person let be repeated stays unknown until it is, which in a cancelled run is never.
    let undecided = in_doubt.iter().filter(|effect| effect.repeats == 0).count() as u64;
    let (held, open) = (run.status == "held", run.open_doubts);
    if held != (open > 0) || open < undecided || open > in_doubt.len() as u64 {
        let about = format!("{} of {}: {}, {open} doubts open, {in_doubt:?}", run.id, run.flow, run.status);
        found.push(violation(Kind::DoubtNotHeld, about));
    }
    for effect in effects.iter().filter(|effect| effect.state == "failed_clean" && effect.class == "naked") {
        // The ledger answers a naked call well or not at all.
        if called.contains(&(&run.id, &effect.key)) && !effect.judged {
            let about = format!("{} of {} was sent, and is called failed", effect.step, run.id);
            found.push(violation(Kind::DoubtNotHeld, about));
        }
    }
    let settled = ["completed", "failed", "cancelled"].contains(&run.status.as_str());
    for effect in effects.iter().filter(|effect| settled && effect.state == "intent") {
        found.push(violation(Kind::DoubtNotHeld, format!("{} of {} is open, its run ended", effect.step, run.id)));
    }
}

/// A completed run has had all its effects, each the right number of times.
fn owed(
    run: &Run,
    flow: &Flow,
    effects: &[Effect],
    applied: &BTreeMap<(&str, &str), u64>,
    called: &BTreeSet<(&str, &str)>,
    found: &mut Vec<Violation>,
) {
    let judged = effects.iter().any(|effect| effect.judged);
    for (step, receiver) in flow.owes {
        let times = applied.get(&(run.id.as_str(), *step)).copied().unwrap_or(0);
        let there = match receiver {
            Receiver::Read => called.contains(&(run.id.as_str(), *step)),
            Receiver::Naive | Receiver::Cut => times >= 1 || judged,
            Receiver::Dedupe | Receiver::Flaky | Receiver::Repeat => times >= 1,
        };
        if !there {
            found.push(violation(Kind::EffectMissing, format!("{step} of {} ({})", run.id, run.flow)));
        }
    }
}

/// In a lane for one, nobody enters between another's entering and leaving. First arrivals count: a later one is a
/// repeat of the same.
fn lanes(evidence: &Evidence, found: &mut Vec<Violation>) {
    let mut inside: BTreeMap<&str, &str> = BTreeMap::new();
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    for call in evidence.calls.iter().filter(|call| call.flow == "line") {
        if !seen.insert((&call.run, &call.step)) {
            continue;
        }
        let lane = flows::lane_of(&call.event);
        if call.step == "leave" {
            inside.remove(lane);
        } else if let Some(other) = inside.insert(lane, &call.event) {
            found.push(violation(Kind::LaneOverlap, format!("{} entered {lane} while {other} was in", call.event)));
        }
    }
}

fn timers(evidence: &Evidence, found: &mut Vec<Violation>) {
    let first = |run: &str, step: &str| {
        evidence.calls.iter().find(|call| call.run == run && call.step == step && call.flow == "steps")
    };
    let runs: BTreeSet<&str> =
        evidence.calls.iter().filter(|call| call.flow == "steps").map(|call| call.run.as_str()).collect();
    for run in runs {
        let (Some(before), Some(after)) = (first(run, "first"), first(run, "second")) else { continue };
        // Both clocks are read in whole milliseconds.
        if after.at_ms - before.at_ms < NAP_MS - 1 {
            found.push(violation(
                Kind::TimerEarly,
                format!("{} went on after {} ms", before.event, after.at_ms - before.at_ms),
            ));
        }
    }
}
