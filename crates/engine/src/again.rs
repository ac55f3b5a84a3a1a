//! A flow that is tried again in a new run (`behavior: CREATE_NEW_EXECUTION`).
//!
//! The new run is the same logical run: it begins with all that the old one did, so what was done stays done and is not
//! asked for again, and the steps that failed have the ids, and so the keys, that they had. The store writes both ends at
//! once, see `store/src/script/retry.rs`.

use crate::admit::lane_of;
use crate::flows::{Flows, LoadedFlow};
use crate::memory::{Memory, trigger_value};
use crate::replay::journal_of;
use crate::scope::{ExprScope, Services};
use semel_core::admission::{KeySource, LatePolicy, MismatchPolicy, OnDone, OnEnded, OnLive, Policy, PresetName};
use semel_core::fingerprint::Fingerprint;
use semel_core::run::{By, Event, Failure};
use semel_core::{Millis, RunId, WorkspaceId};
use semel_expr::Value;
use semel_store::{AdmitRequest, KeyClaim, OpKind, ParentRef, RetryTerms, RunRow, StoreError, Terms};
use serde_json::Value as Json;

/// The op that has a new run take the place of this one. `round` is that of the old run.
pub(crate) fn run_again(
    services: &Services,
    flows: &Flows,
    workspace: &WorkspaceId,
    flow: &LoadedFlow,
    run: RunId,
    round: u32,
    now: Millis,
) -> Result<OpKind, Failure> {
    let unread = |error: StoreError| {
        crate::away::note(&error);
        Failure::new("store", error.to_string())
    };
    let gone = || Failure::new("run_unknown", "the run is gone");
    let (row, values, labels) = services.store.run(workspace, run).map_err(unread)?.ok_or_else(gone)?;
    let journal = journal_of(services, workspace, run).map_err(unread)?;
    let (inputs, trigger) = (values.inputs.unwrap_or(Json::Null), values.trigger.unwrap_or(Json::Null));
    let memory = Memory {
        inputs: Value::from_stored(&inputs),
        trigger: trigger_value(&trigger),
        labels: labels.iter().cloned().collect(),
        ..Memory::default()
    };
    let scope = ExprScope { services, workspace, flow, memory: &memory, run: None, now };
    let lane = flow.index.flow.lane.as_ref().map(|spec| lane_of(spec, workspace, flow, &scope)).transpose();
    let lane = lane.map_err(|error| Failure::new("lane", error.to_string()))?;
    let by = By { who: "flow retry".into(), why: String::new() };
    let claim = match row.claim {
        Some(hash) => services.store.claim(workspace, hash).map_err(unread)?,
        None => None,
    };
    let key = claim.as_ref().and_then(|claim| {
        let (hash, scope) = (claim.hash, claim.scope.clone());
        Some(KeyClaim { hash, key: claim.key.clone()?, scope, source: KeySource::Intrinsic })
    });
    let request = AdmitRequest {
        workspace: workspace.clone(),
        flow: row.flow.clone(),
        revision: row.revision,
        door: row.door,
        occurrence: format!("retry of {run}"),
        caller: by.who.clone(),
        key,
        fingerprint: claim.as_ref().map_or_else(
            || Fingerprint::of(&[&Json::String(row.flow.to_string()), &inputs]),
            |claim| claim.fingerprint,
        ),
        policy: Policy {
            live: OnLive::Attach,
            done: OnDone::Replay,
            // The claim is that of the old run, which has just failed.
            failed: OnEnded::Rerun,
            cancelled: OnEnded::Rerun,
            mismatch: MismatchPolicy::Ignore,
            window: claim.as_ref().map_or(PresetName::Semel.preset().policy.window, |claim| claim.window),
            late: LatePolicy::Start,
            require_key: false,
            expire_live: claim.as_ref().is_some_and(|claim| claim.expire_live),
        },
        lane,
        run: services.entropy.run_id(now),
        inputs,
        trigger,
        labels,
        correlation_id: Some(row.correlation_id.clone()),
        parent: row.parent.clone().map(|parent| ParentRef { waits: false, ..parent }),
        root: row.parent.as_ref().map(|_| row.root),
        depth: row.depth,
        tick: None,
        hearing: None,
        announced: flows.is_heard(workspace, &["CANCELLED", "FAILED"]),
        terms: Terms { retry: Some(Box::new(terms(&row, journal))), ..Terms::default() },
    };
    let announced = flows.is_heard(workspace, &["RETRIED"]);
    Ok(OpKind::RunAgain { request: Box::new(request), by, round: round + 1, announced })
}

/// Intents stay with the run that had them: the ledger of the new one begins with what it sends itself.
fn terms(row: &RunRow, journal: Vec<Event>) -> RetryTerms {
    let kept = |event: &Event| !matches!(event, Event::Created { .. } | Event::Intent { .. });
    RetryTerms {
        of: row.id,
        original: row.original(),
        logical: row.logical,
        take: row.take,
        warned: row.warned,
        events: journal.into_iter().filter(kept).collect(),
    }
}
