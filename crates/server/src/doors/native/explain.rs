//! `POST /v1/keys/explain`: why did two events meet, or why not?
//!
//! The decision log holds everything a decision was made of, so the later of the two is decided
//! again here by the same pure rule, and said in sentences.

use super::decisions::flow_named;
use super::keys::may_be_of;
use crate::call::{Answer, Call, ok};
use crate::codes::Code;
use crate::json;
use crate::problem::Problem;
use crate::view;
use semel_core::admission::{Claim, EventVerdict, Policy, Prior, RULES_VERSION, Window, WindowFrom, decide_event};
use semel_core::{FlowRef, WorkspaceId};
use semel_store::{ClaimQuery, DecisionQuery, DecisionRow};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(default)]
    workflow_id: Option<String>,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    other_key: Option<String>,
    #[serde(default, deserialize_with = "json::whole")]
    decision: Option<u64>,
    #[serde(default, deserialize_with = "json::whole")]
    other: Option<u64>,
}

/// Decisions told of one key; the newest, when there are more.
const DECISIONS_TOLD: u32 = 500;

/// All that is known of the keys that were asked for.
#[derive(Default)]
struct Known {
    claims: Vec<Claim>,
    /// Oldest first.
    decisions: Vec<DecisionRow>,
}

pub async fn post(call: Call) -> Answer {
    let body: Body = call.json()?;
    let workspace = call.workspace()?;
    match (body.decision, body.other, &body.key) {
        (Some(a), Some(b), None) => {
            let (a, b) = (by_seq(&call, &workspace, a).await?, by_seq(&call, &workspace, b).await?);
            pair(a, b, &Known::default())
        }
        (None, None, Some(key)) => {
            let flow = body.workflow_id.as_deref().map(|name| flow_named(&call, name)).transpose()?;
            let mine = known(&call, &workspace, flow.as_ref(), key).await?;
            match &body.other_key {
                None => one_key(key, mine),
                Some(other) => {
                    let theirs = known(&call, &workspace, flow.as_ref(), other).await?;
                    two_keys((key, mine), (other, theirs))
                }
            }
        }
        _ => Err(Problem::new(
            Code::BodyInvalid,
            "send {\"workflow_id\", \"key\"}, the same with \"other_key\", or {\"decision\", \"other\"} with two sequence numbers",
        )),
    }
}

fn unknown(key: &str) -> String {
    format!("No event with the key `{key}` is on record here; keys differ by letter case.")
}

/// The life of one key: each event in order, then where its claims stand.
fn one_key(key: &str, known: Known) -> Answer {
    let mut newest = known.decisions.iter().rev();
    let Some(b) = newest.next().cloned() else { return Err(Problem::new(Code::DecisionUnknown, unknown(key))) };
    match newest.next().cloned() {
        Some(a) => pair(a, b, &known),
        None => {
            let alone = "Only one event with this key is on record, so there was nothing for it to meet.";
            let mut sentences = vec![alone.to_owned(), decided(&b)];
            sentences.extend(known.claims.iter().map(standing));
            answer(false, sentences, Some(&b), None, &known)
        }
    }
}

/// The newest event of each key. One that never came met nothing, which is an answer too.
fn two_keys((key, mine): (&str, Known), (other, theirs): (&str, Known)) -> Answer {
    let (a, b) = (mine.decisions.last().cloned(), theirs.decisions.last().cloned());
    let mut both = mine;
    both.claims.extend(theirs.claims);
    both.decisions.extend(theirs.decisions);
    both.decisions.sort_by_key(|row| row.seq);
    both.decisions.dedup_by_key(|row| row.seq);
    both.claims.dedup_by_key(|claim| claim.hash);
    match (a, b) {
        (None, None) => Err(Problem::new(Code::DecisionUnknown, format!("{} {}", unknown(key), unknown(other)))),
        (Some(a), Some(b)) => pair(a, b, &both),
        (Some(seen), None) => lonely(&seen, other, &both),
        (None, Some(seen)) => lonely(&seen, key, &both),
    }
}

fn lonely(seen: &DecisionRow, unseen: &str, known: &Known) -> Answer {
    let mut sentences = vec![unknown(unseen), "So there was nothing for the other to meet.".to_owned(), decided(seen)];
    sentences.extend(known.claims.iter().map(standing));
    answer(false, sentences, Some(seen), None, known)
}

fn pair(a: DecisionRow, b: DecisionRow, known: &Known) -> Answer {
    let (a, b) = if a.seq <= b.seq { (a, b) } else { (b, a) };
    let mut sentences = explain(&a, &b);
    sentences.extend(known.claims.iter().map(standing));
    answer(met(&a, &b), sentences, Some(&a), Some(&b), known)
}

fn answer(
    met: bool,
    sentences: Vec<String>,
    a: Option<&DecisionRow>,
    b: Option<&DecisionRow>,
    known: &Known,
) -> Answer {
    ok(json!({
        "met": met,
        "explanation": sentences,
        "a": a.map(view::decision),
        "b": b.map(view::decision),
        "claims": known.claims.iter().map(view::claim).collect::<Vec<_>>(),
        "decisions": known.decisions.iter().map(view::decision).collect::<Vec<_>>(),
    }))
}

/// Where a claim stands, and until when.
fn standing(claim: &Claim) -> String {
    let window = match claim.window {
        Window::Forever => "for ever".to_owned(),
        Window::WhileLive => "as long as its run lives".to_owned(),
        Window::For { from, duration_ms } => {
            let from = match from {
                WindowFrom::FirstSeen => "the first event",
                WindowFrom::Completed => "its end",
            };
            format!("for {} s from {from}", duration_ms / 1_000)
        }
    };
    let until = claim.expires_at().map(|at| format!(", until {}", at.to_rfc3339())).unwrap_or_default();
    format!(
        "In the scope `{}` the key is {} with run {}, generation {}; it is remembered {window}{until}.",
        claim.scope,
        claim.state.word(),
        claim.run,
        claim.generation
    )
}

async fn known(call: &Call, workspace: &WorkspaceId, flow: Option<&FlowRef>, key: &str) -> Result<Known, Problem> {
    let query = DecisionQuery {
        key: Some(key.to_owned()),
        flow: flow.cloned(),
        limit: DECISIONS_TOLD,
        ..DecisionQuery::default()
    };
    let mut decisions = newest(call, workspace, query).await?;
    decisions.reverse();
    let claims = ClaimQuery { key: Some(key.to_owned()), limit: DECISIONS_TOLD, ..ClaimQuery::default() };
    let owner = workspace.clone();
    let mut claims = call.app.read(move |store| store.claims(&owner, &claims)).await?;
    if let Some(flow) = flow {
        claims.retain(|claim| may_be_of(claim, flow));
    }
    Ok(Known { claims, decisions })
}

async fn newest(call: &Call, workspace: &WorkspaceId, query: DecisionQuery) -> Result<Vec<DecisionRow>, Problem> {
    let workspace = workspace.clone();
    call.app.read(move |store| store.decisions(&workspace, &query)).await
}

async fn by_seq(call: &Call, workspace: &WorkspaceId, seq: u64) -> Result<DecisionRow, Problem> {
    let query = DecisionQuery { before: Some(seq.saturating_add(1)), limit: 1, ..DecisionQuery::default() };
    let rows = newest(call, workspace, query).await?;
    let row = rows.into_iter().next().filter(|row| row.seq == seq);
    row.ok_or_else(|| Problem::new(Code::DecisionUnknown, format!("no decision {seq} is on record in this workspace")))
}

/// They met when both were decided on one claim and one run came of it.
fn met(a: &DecisionRow, b: &DecisionRow) -> bool {
    same_claim(a, b) && (a.run.is_some() && (a.run == b.run || a.run == b.prior_run))
}

fn same_claim(a: &DecisionRow, b: &DecisionRow) -> bool {
    a.claim.is_some() && a.claim == b.claim
}

/// The stored spelling of a word of the domain.
fn word(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Json::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

/// `a` is the earlier one.
fn explain(a: &DecisionRow, b: &DecisionRow) -> Vec<String> {
    let mut out = vec![
        format!(
            "Event {} came at {} through the door {}, event {} at {} through {}.",
            a.seq,
            a.at.to_rfc3339(),
            a.door.word(),
            b.seq,
            b.at.to_rfc3339(),
            b.door.word()
        ),
        keys(a, b),
    ];
    if let (Some(scope_a), Some(scope_b)) = (&a.scope, &b.scope) {
        out.push(if scope_a == scope_b {
            format!("Both keys count in the scope `{scope_a}`.")
        } else {
            format!("The keys count in different scopes, `{scope_a}` and `{scope_b}`: equal keys of two scopes are two events.")
        });
    }
    let same = a.fingerprint == b.fingerprint;
    out.push(format!("Their payloads have {} fingerprints.", if same { "equal" } else { "different" }));
    if same_claim(a, b) {
        out.extend(rule(b));
        if a.run.is_some() && a.run != b.run && a.run != b.prior_run {
            out.push(format!(
                "Between the two the key began anew (generation {} and {}), so their runs differ.",
                a.generation, b.generation
            ));
        }
    } else {
        out.push("They have different claims, so neither could meet the other.".to_owned());
    }
    out.push(decided(b));
    out
}

fn keys(a: &DecisionRow, b: &DecisionRow) -> String {
    match (&a.key, &b.key) {
        (Some(one), Some(two)) if one == two => format!("Both carry the key `{one}`."),
        (Some(one), Some(two)) if one.to_lowercase() == two.to_lowercase() => {
            format!("The keys `{one}` and `{two}` differ in letter case only, and case counts.")
        }
        (Some(one), Some(two)) => format!("They carry different keys, `{one}` and `{two}`."),
        (None, None) if same_claim(a, b) => "The text of their key was erased; its hash is the same.".to_owned(),
        (None, None) => "Neither carries a key, and an event without a key never meets another.".to_owned(),
        (None, Some(_)) => format!("Event {} carries no key, so it meets nothing.", a.seq),
        (Some(_), None) => format!("Event {} carries no key, so it meets nothing.", b.seq),
    }
}

/// What the rule says for the later event, computed again.
fn rule(row: &DecisionRow) -> Vec<String> {
    let mut out = vec![format!("When event {} came, the claim was {}{}.", row.seq, word(row.prior), run_text(row))];
    if let Some((name, value)) = policy_value(row.prior, &row.policy) {
        out.push(format!("For that state the policy says `{name}: {value}`."));
    }
    if !row.same_payload {
        out.push(format!(
            "The payload differs from the first one; for that the policy says `mismatch: {}`.",
            word(row.policy.mismatch)
        ));
    }
    if row.rules_version != RULES_VERSION {
        out.push(format!(
            "It was decided by version {} of the rules; this server has version {RULES_VERSION}.",
            row.rules_version
        ));
    }
    out.push(match verdict(decide_event(row.prior, row.same_payload, &row.policy)) {
        (what, Some(reason)) => format!("So the rule gives: {what} (`{reason}`)."),
        (what, None) => format!("So the rule gives: {what}."),
    });
    out
}

fn run_text(row: &DecisionRow) -> String {
    row.prior_run.map(|run| format!(" with the run {run}")).unwrap_or_default()
}

/// The field of the policy that a prior state looks at.
fn policy_value(prior: Prior, policy: &Policy) -> Option<(&'static str, String)> {
    match prior {
        Prior::Absent => None,
        Prior::Expired => Some(("late", word(policy.late))),
        Prior::Pending | Prior::Live | Prior::Held => Some(("live", word(policy.live))),
        Prior::Done | Prior::Erased => Some(("done", word(policy.done))),
        Prior::Failed => Some(("failed", word(policy.failed))),
        Prior::Cancelled => Some(("cancelled", word(policy.cancelled))),
    }
}

fn verdict(verdict: EventVerdict) -> (&'static str, Option<&'static str>) {
    match verdict {
        EventVerdict::Fresh(reason) => ("a new run, when the lane allows", Some(reason.word())),
        EventVerdict::Attach(reason) => ("the run under way", Some(reason.word())),
        EventVerdict::Replay(reason) => ("the run that ended", Some(reason.word())),
        EventVerdict::Reject(reason) => ("a refusal", Some(reason.word())),
        EventVerdict::Resume(reason) => ("the failed run goes on", Some(reason.word())),
        EventVerdict::Hold(reason) => ("the run that waits for a verdict", Some(reason.word())),
        EventVerdict::Split => ("a claim of its own, made of the key and the payload", None),
    }
}

fn decided(row: &DecisionRow) -> String {
    let run = row.run.map(|run| format!(", run {run}")).unwrap_or_default();
    format!("Recorded for event {}: {} (`{}`){run}.", row.seq, row.decision.word(), row.reason.word())
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::admission::{Decision, KeySource, PresetName, Reason, claim_hash};
    use semel_core::fingerprint::Fingerprint;
    use semel_core::{Door, Millis, RunId};

    fn row(seq: u64, key: &str) -> DecisionRow {
        let workspace = WorkspaceId::default();
        let scope = "flow:shop:pay".to_owned();
        DecisionRow {
            seq,
            at: Millis(1_700_000_000_000),
            door: Door::Trigger,
            occurrence: String::new(),
            flow: FlowRef::new("shop", "pay"),
            claim: Some(claim_hash(&workspace, &scope, key)),
            scope: Some(scope),
            key: Some(key.to_owned()),
            key_source: Some(KeySource::Caller),
            fingerprint: Fingerprint([0; 32]),
            policy: PresetName::Trigger.preset().policy,
            prior: Prior::Absent,
            prior_run: None,
            prior_generation: 0,
            same_payload: true,
            decision: Decision::Start,
            reason: Reason::First,
            run: Some(RunId::from_bytes([1; 16])),
            generation: 1,
            caller: "ci".into(),
            rules_version: RULES_VERSION,
            workspace,
        }
    }

    fn replayed(seq: u64, key: &str) -> DecisionRow {
        DecisionRow {
            prior: Prior::Done,
            prior_run: row(1, key).run,
            decision: Decision::Replay,
            reason: Reason::Replayed,
            ..row(seq, key)
        }
    }

    #[test]
    fn twins_are_explained_by_the_state_and_the_policy() {
        let (a, b) = (row(1, "k"), replayed(2, "k"));
        assert!(met(&a, &b));
        let text = explain(&a, &b).join("\n");
        for part in [
            "Both carry the key `k`",
            "scope `flow:shop:pay`",
            "equal fingerprints",
            "the claim was done",
            "`done: replay`",
            "the run that ended (`replayed`)",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn a_mismatch_names_its_policy() {
        let b = DecisionRow {
            same_payload: false,
            fingerprint: Fingerprint([1; 32]),
            reason: Reason::ReplayedMismatch,
            ..replayed(2, "k")
        };
        let text = explain(&row(1, "k"), &b).join("\n");
        assert!(
            text.contains("different fingerprints")
                && text.contains("`mismatch: ignore`")
                && text.contains("`replayed_mismatch`"),
            "{text}"
        );
    }

    #[test]
    fn strangers_are_told_why_they_did_not_meet() {
        let (a, b) = (row(1, "k"), row(2, "K"));
        assert!(!met(&a, &b));
        let text = explain(&a, &b).join("\n");
        assert!(text.contains("letter case only") && text.contains("different claims"), "{text}");
        let keyless = DecisionRow { key: None, claim: None, scope: None, reason: Reason::Keyless, ..row(3, "k") };
        assert!(!met(&keyless, &keyless));
        assert!(explain(&a, &keyless).join("\n").contains("carries no key"));
        // The key began anew: same claim, other run.
        let anew = DecisionRow {
            prior: Prior::Expired,
            reason: Reason::LateDuplicate,
            generation: 2,
            run: Some(RunId::from_bytes([2; 16])),
            ..row(4, "k")
        };
        assert!(!met(&a, &anew));
        assert!(explain(&a, &anew).join("\n").contains("began anew"));
    }
}
