//! Flows, schedules, kv, secrets, tokens, workspaces.

use super::bench::{Bench, KvSet, other_ws};
use crate::*;
use semel_core::{FlowRef, Millis, WorkspaceId};
use serde_json::json;

pub(super) fn flow(workspace: WorkspaceId, namespace: &str, id: &str, source: &str) -> FlowRow {
    FlowRow {
        workspace,
        flow: FlowRef::new(namespace, id),
        revision: 0,
        source: source.into(),
        ir: format!("ir of {source}"),
        disabled: false,
        deleted: false,
        created_at: Millis(0),
        created_by: "me".into(),
    }
}

pub(super) fn schedule(row: &FlowRow, trigger: &str, next_due: Option<Millis>) -> ScheduleRow {
    ScheduleRow {
        workspace: row.workspace.clone(),
        flow: row.flow.clone(),
        trigger: trigger.into(),
        next_due,
        last_fired: None,
        state: TriggerState::default(),
    }
}

pub(super) fn push(b: &Bench, row: FlowRow, schedules: Vec<ScheduleRow>) -> (u32, bool) {
    match b.call(Work::PutFlow { row: Box::new(row), schedules, rule: PushRule::Any }) {
        Done::Flow { revision, changed } => (revision, changed),
        other => panic!("not a flow: {other:?}"),
    }
}

pub fn flows_have_revisions(b: &Bench) {
    let row = |source| flow(b.ws(), "shop", "order", source);
    assert_eq!(push(b, row("one"), vec![]), (1, true));
    assert_eq!(push(b, row("one"), vec![]), (1, false), "an identical source is no revision");
    b.pass(5);
    assert_eq!(push(b, row("two"), vec![]), (2, true));
    let name = FlowRef::new("shop", "order");
    let read = |revision| b.store.flow(&b.ws(), &name, revision).unwrap().map(|row| row.source);
    assert_eq!((read(None), read(Some(1)), read(Some(3))), (Some("two".into()), Some("one".into()), None));
    let revisions = b.store.flow_revisions(&b.ws(), &name).unwrap();
    assert_eq!(
        revisions.iter().map(|r| (r.revision, r.created_at)).collect::<Vec<_>>(),
        [(1, b.now().plus(-5)), (2, b.now())]
    );
}

pub fn a_deleted_flow_keeps_its_revisions(b: &Bench) {
    let row = |source| flow(b.ws(), "shop", "order", source);
    let name = FlowRef::new("shop", "order");
    let delete = || b.call(Work::DeleteFlow { workspace: b.ws(), flow: name.clone(), by: "you".into() });
    assert!(matches!(delete(), Done::Missing), "there is nothing to delete");
    push(b, row("one"), vec![schedule(&row("one"), "tick", Some(b.now()))]);
    push(b, flow(b.ws(), "shop", "report", "r"), vec![]);
    assert!(matches!(delete(), Done::Flow { revision: 2, changed: true }));
    assert!(matches!(delete(), Done::Missing), "it is deleted once");
    let s = &b.store;
    assert_eq!(s.flow(&b.ws(), &name, None).unwrap(), None);
    assert!(s.flows_named(&b.ws(), "order").unwrap().is_empty() && s.schedules(&b.ws()).unwrap().is_empty());
    assert_eq!(s.flows(&b.ws(), None, 9).unwrap().iter().map(|r| r.flow.id.as_str()).collect::<Vec<_>>(), ["report"]);
    let kept = s.flow(&b.ws(), &name, Some(1)).unwrap().unwrap();
    assert_eq!((kept.source.as_str(), kept.deleted), ("one", false), "runs that have it go on");
    let gone = s.flow(&b.ws(), &name, Some(2)).unwrap().unwrap();
    assert_eq!((gone.source.as_str(), gone.deleted, gone.created_by.as_str()), ("one", true, "you"));
    assert_eq!(push(b, row("one"), vec![]), (3, true), "the same text brings it back");
    let shown = |row: &FlowRow| (row.revision, row.deleted);
    let revisions = s.flow_revisions(&b.ws(), &name).unwrap();
    assert_eq!(revisions.iter().map(shown).collect::<Vec<_>>(), [(1, false), (2, true), (3, false)]);
    assert_eq!(s.flow(&b.ws(), &name, None).unwrap().map(|row| row.revision), Some(3));
}

pub fn a_push_may_be_for_new_or_for_known_flows_only(b: &Bench) {
    let name = FlowRef::new("shop", "order");
    let put = |source: &str, rule| {
        let row = Box::new(flow(b.ws(), "shop", "order", source));
        b.call(Work::PutFlow { row, schedules: vec![], rule })
    };
    assert!(matches!(put("one", PushRule::Known), Done::Missing));
    assert!(matches!(put("one", PushRule::New), Done::Flow { revision: 1, changed: true }));
    assert!(matches!(put("two", PushRule::New), Done::Refused(Refusal::Exists)));
    assert!(matches!(put("one", PushRule::New), Done::Refused(Refusal::Exists)), "not even as it is");
    assert!(matches!(put("two", PushRule::Known), Done::Flow { revision: 2, changed: true }));
    b.call(Work::DeleteFlow { workspace: b.ws(), flow: name, by: "me".into() });
    assert!(matches!(put("two", PushRule::Known), Done::Missing));
    assert!(matches!(put("two", PushRule::New), Done::Flow { revision: 4, changed: true }));
}

pub fn a_push_replaces_the_schedules(b: &Bench) {
    let row = |source| flow(b.ws(), "shop", "order", source);
    let other = flow(b.ws(), "shop", "report", "r");
    push(b, other.clone(), vec![schedule(&other, "nightly", Some(b.now()))]);
    push(b, row("one"), vec![schedule(&row("one"), "a", Some(b.now())), schedule(&row("one"), "b", None)]);
    push(b, row("two"), vec![schedule(&row("two"), "b", Some(b.now().plus(9)))]);
    let triggers: Vec<String> = b.store.schedules(&b.ws()).unwrap().into_iter().map(|s| s.trigger).collect();
    assert_eq!(triggers, ["b", "nightly"]);
}

pub fn a_push_goes_on_with_schedules_that_it_does_not_change(b: &Bench) {
    let row = |source: &str, cron: &str| {
        let trigger = |id: &str, cron: &str| json!({"id": id, "kind": {"kind": "schedule", "cron": cron, "timezone": "UTC", "recover": "ALL"}});
        let triggers = [trigger("same", "* * * * *"), trigger("other", cron), trigger("new", "* * * * *")];
        let ir = json!({"ir_version": 1, "id": "order", "namespace": "shop", "tasks": [], "triggers": triggers});
        FlowRow { ir: ir.to_string(), ..flow(b.ws(), "shop", "order", source) }
    };
    let (due, last) = (b.now().plus(60), b.now());
    let first = row("one", "1 * * * *");
    push(b, first.clone(), vec![schedule(&first, "same", Some(last)), schedule(&first, "other", Some(last))]);
    let fired = ScheduleRow { last_fired: Some(last), ..schedule(&first, "same", Some(due)) };
    b.call(Work::AdvanceSchedule(fired.clone()));
    b.pass(600);
    let second = row("two", "2 * * * *");
    let fresh = |trigger| schedule(&second, trigger, Some(b.now().plus(60)));
    push(b, second.clone(), vec![fresh("same"), fresh("other"), fresh("new")]);
    assert_eq!(b.store.schedules(&b.ws()).unwrap(), [fresh("new"), fresh("other"), fired], "what was due stays due");
}

pub fn a_schedule_advances(b: &Bench) {
    let row = flow(b.ws(), "shop", "order", "one");
    push(b, row.clone(), vec![schedule(&row, "tick", Some(b.now()))]);
    let next =
        ScheduleRow { next_due: Some(b.now().plus(60)), last_fired: Some(b.now()), ..schedule(&row, "tick", None) };
    b.call(Work::AdvanceSchedule(next.clone()));
    assert_eq!(b.store.schedules(&b.ws()).unwrap(), [next]);
}

pub fn a_schedule_does_not_go_back(b: &Bench) {
    let row = flow(b.ws(), "shop", "order", "one");
    push(b, row.clone(), vec![schedule(&row, "tick", Some(b.now().plus(60)))]);
    b.call(Work::AdvanceSchedule(schedule(&row, "tick", Some(b.now()))));
    assert_eq!(b.store.schedules(&b.ws()).unwrap()[0].next_due, Some(b.now().plus(60)));
}

pub fn an_instant_of_a_schedule_happens_once_however_long_its_key_is_remembered(b: &Bench) {
    let row = flow(b.ws(), "shop", "order", "one");
    push(b, row.clone(), vec![schedule(&row, "tick", Some(b.now()))]);
    let tick =
        Tick { trigger: "tick".into(), at: b.now(), next: Some(b.now().plus(60)), backfill: false, schedule: None };
    let due = AdmitRequest { tick: Some(tick.clone()), ..b.event() };
    assert!(b.admit(due).created);
    let moved = ScheduleRow { last_fired: Some(b.now()), ..schedule(&row, "tick", Some(b.now().plus(60))) };
    assert_eq!(b.store.schedules(&b.ws()).unwrap(), [moved], "the same transaction moved the schedule on");
    // The process died before it knew: the key alone would not help, for there is none.
    let again = AdmitRequest { tick: Some(tick), ..b.event() };
    let before = b.store.dump().unwrap();
    assert_eq!(b.fail(Work::Admit(Box::new(again))).code(), "conflict");
    assert_eq!(b.store.dump().unwrap(), before);
}

pub fn a_removed_schedule_does_not_come_back(b: &Bench) {
    let row = flow(b.ws(), "shop", "order", "one");
    b.call(Work::AdvanceSchedule(schedule(&row, "tick", Some(b.now()))));
    assert!(b.store.schedules(&b.ws()).unwrap().is_empty());
}

pub fn schedules_are_due_in_order(b: &Bench) {
    for (id, ms) in [("a", 30), ("b", 10), ("c", 20)] {
        let row = flow(b.ws(), "shop", id, "x");
        push(b, row.clone(), vec![schedule(&row, "tick", Some(b.now().plus(ms))), schedule(&row, "never", None)]);
    }
    let due = |ms, limit| -> Vec<String> {
        b.store.due_schedules(b.now().plus(ms), limit).unwrap().into_iter().map(|s| s.flow.id).collect()
    };
    assert_eq!(
        (due(5, 9), due(20, 9), due(99, 2)),
        (vec![], vec!["b".into(), "c".into()], vec!["b".into(), "c".into()])
    );
    assert_eq!(b.store.next_schedule().unwrap(), Some(b.now().plus(10)));
}

fn kv(b: &Bench, write: KvSet) -> Option<u64> {
    match b.call(write.work()) {
        Done::Kv(revision) => revision,
        other => panic!("not a kv write: {other:?}"),
    }
}

pub fn kv_counts_revisions(b: &Bench) {
    assert_eq!(kv(b, b.kv_set("k", json!({"a": [1]}))), Some(1));
    b.pass(1);
    assert_eq!(kv(b, b.kv_set("k", json!("two"))), Some(2));
    let row = b.store.kv(&b.ws(), "shop", "k").unwrap().unwrap();
    assert_eq!((row.value, row.revision, row.updated_at, row.expires_at), (json!("two"), 2, b.now(), None));
    assert_eq!(row.kv_type, "JSON");
}

pub fn kv_does_not_overwrite_unasked(b: &Bench) {
    let careful = || KvSet { overwrite: false, ..b.kv_set("k", json!(2)) };
    assert_eq!(kv(b, careful()), Some(1));
    assert_eq!(kv(b, careful()), None);
    assert_eq!(b.store.kv(&b.ws(), "shop", "k").unwrap().unwrap().revision, 1);
}

pub fn an_expired_kv_is_free(b: &Bench) {
    let brief = || KvSet { overwrite: false, ttl_ms: Some(100), ..b.kv_set("k", json!(1)) };
    assert_eq!(kv(b, brief()), Some(1));
    b.pass(99);
    assert_eq!(kv(b, brief()), None);
    b.pass(1);
    // Still stored, and the caller can see that it is over.
    assert_eq!(b.store.kv(&b.ws(), "shop", "k").unwrap().unwrap().expires_at, Some(b.now()));
    assert_eq!(kv(b, brief()), Some(2));
}

pub fn kv_is_deleted(b: &Bench) {
    let delete = || b.call(Work::KvDelete { workspace: b.ws(), namespace: "shop".into(), key: "k".into() });
    assert!(matches!(delete(), Done::Missing));
    kv(b, b.kv_set("k", json!(1)));
    assert!(matches!(delete(), Done::Unit));
    assert!(b.store.kv(&b.ws(), "shop", "k").unwrap().is_none());
}

pub fn kv_is_listed_in_pages(b: &Bench) {
    for key in ["c", "a", "b", "ä"] {
        kv(b, b.kv_set(key, json!(1)));
    }
    let list = |after: Option<&str>, limit| -> Vec<String> {
        b.store.kv_list(&b.ws(), "shop", after, limit).unwrap().into_iter().map(|row| row.key).collect()
    };
    assert_eq!(list(None, 2), ["a", "b"]);
    assert_eq!(list(Some("b"), 9), ["c", "ä"]);
    assert!(b.store.kv_list(&b.ws(), "other", None, 9).unwrap().is_empty());
}

fn secret(b: &Bench, name: &str, version: u64) -> SecretRow {
    SecretRow {
        workspace: b.ws(),
        name: name.into(),
        version,
        key_id: "k1".into(),
        nonce: vec![1, 2],
        ciphertext: vec![version as u8, 0, 255],
        created_at: Millis(0),
        retired: false,
    }
}

pub fn secrets_have_versions(b: &Bench) {
    for version in [1, 2] {
        let answer = b.call(Work::PutSecret(Box::new(secret(b, "db", version))));
        assert!(matches!(answer, Done::Secret { version: v } if v == version));
    }
    for wrong in [1, 2, 4] {
        assert!(matches!(b.call(Work::PutSecret(Box::new(secret(b, "db", wrong)))), Done::Refused(Refusal::Exists)));
    }
    let read = |version| b.store.secret(&b.ws(), "db", version).unwrap();
    assert_eq!(read(None), Some(SecretRow { created_at: b.now(), ..secret(b, "db", 2) }));
    assert_eq!((read(Some(1)).unwrap().version, read(Some(3))), (1, None));
}

pub fn a_retired_secret_no_longer_resolves(b: &Bench) {
    let retire = || b.call(Work::RetireSecret { workspace: b.ws(), name: "db".into() });
    assert!(matches!(retire(), Done::Missing));
    b.call(Work::PutSecret(Box::new(secret(b, "db", 1))));
    b.call(Work::PutSecret(Box::new(secret(b, "db", 2))));
    b.call(Work::PutSecret(Box::new(secret(b, "api", 1))));
    assert_eq!(
        b.store.secrets(&b.ws()).unwrap().iter().map(|s| (s.name.as_str(), s.version)).collect::<Vec<_>>(),
        [("api", 1), ("db", 2)]
    );
    assert!(matches!(retire(), Done::Count(2)));
    assert_eq!(b.store.secret(&b.ws(), "db", None).unwrap(), None);
    assert_eq!(b.store.secret(&b.ws(), "db", Some(1)).unwrap().unwrap().version, 1, "a run may still hold it");
    assert_eq!(b.store.secrets(&b.ws()).unwrap().len(), 1);
    assert!(matches!(b.call(Work::PutSecret(Box::new(secret(b, "db", 3)))), Done::Secret { version: 3 }));
}

fn token(b: &Bench, id: &str) -> TokenRow {
    TokenRow {
        id: id.into(),
        workspace: b.ws(),
        name: "ci".into(),
        role: "operator".into(),
        secret_hash: vec![7; 32],
        created_at: b.now(),
        expires_at: Some(b.now().plus(5)),
        revoked_at: None,
    }
}

pub fn tokens_are_revoked_once(b: &Bench) {
    let row = token(b, "t1");
    b.call(Work::PutToken(Box::new(row.clone())));
    b.call(Work::PutToken(Box::new(token(b, "t0"))));
    assert_eq!(b.store.token("t1").unwrap(), Some(row));
    assert_eq!(b.store.tokens(&b.ws()).unwrap().iter().map(|t| t.id.as_str()).collect::<Vec<_>>(), ["t0", "t1"]);
    let revoke = |workspace, id: &str| b.call(Work::RevokeToken { workspace, id: id.into() });
    assert!(matches!(revoke(other_ws(), "t1"), Done::Missing), "not a token of that workspace");
    assert!(matches!(revoke(b.ws(), "t9"), Done::Missing));
    assert!(matches!(revoke(b.ws(), "t1"), Done::Unit));
    let at = b.now();
    b.pass(9);
    revoke(b.ws(), "t1");
    assert_eq!(b.store.token("t1").unwrap().unwrap().revoked_at, Some(at));
}

pub fn workspaces_are_made_once(b: &Bench) {
    let row = |id: &str| WorkspaceRow { id: WorkspaceId(id.into()), created_at: b.now() };
    // Rows in a workspace do not make it.
    kv(b, KvSet { workspace: WorkspaceId("beta".into()), ..b.kv_set("k", json!(1)) });
    assert!(b.store.workspaces().unwrap().is_empty());
    assert!(matches!(b.call(Work::PutWorkspace(row("beta"))), Done::Unit));
    assert!(matches!(b.call(Work::PutWorkspace(row("alpha"))), Done::Unit));
    assert!(matches!(b.call(Work::PutWorkspace(row("beta"))), Done::Refused(Refusal::Exists)));
    assert_eq!(b.store.workspaces().unwrap(), [row("alpha"), row("beta")]);
}

pub fn a_message_wakes_its_run(b: &Bench) {
    let run = b.start(b.event());
    let mut commit = b.step(run);
    commit.head.active = false;
    b.commit(commit);
    let send = |run| b.call(Work::Message { workspace: b.ws(), run, message: Inbox::Promoted });
    assert!(matches!(send(run), Done::Unit));
    assert!(b.head(run).active);
    assert!(matches!(send(b.id()), Done::Missing));
}
