//! Reads: filters, pages, order.

use super::bench::{Bench, claim_of, other_ws};
use super::manage::{flow, push};
use crate::*;
use semel_core::admission::{ClaimState, Decision};
use semel_core::run::{EndStatus, Status, StepKey};
use semel_core::{FlowRef, RunId};
use serde_json::json;

fn find(b: &Bench, query: RunQuery) -> Vec<RunId> {
    let limit = if query.limit == 0 { 100 } else { query.limit };
    b.store.runs(&b.ws(), &RunQuery { limit, ..query }).unwrap().into_iter().map(|(row, _, _)| row.id).collect()
}

pub fn runs_are_listed_newest_first_in_pages(b: &Bench) {
    let mut runs: Vec<RunId> = (0..5).map(|_| b.start(b.event())).collect();
    runs.reverse();
    assert_eq!(find(b, RunQuery::default()), runs);
    let mut paged = Vec::new();
    while let page = find(b, RunQuery { limit: 2, before: paged.last().copied(), ..RunQuery::default() })
        && !page.is_empty()
    {
        assert!(page.len() <= 2);
        paged.extend(page);
    }
    assert_eq!(paged, runs);
    assert!(b.store.runs(&b.ws(), &RunQuery::default()).unwrap().is_empty(), "a limit of zero is zero");
}

pub fn a_list_has_whole_runs(b: &Bench) {
    let run = b.start(AdmitRequest { labels: vec![("a".into(), "1".into())], ..b.event() });
    let listed = b.store.runs(&b.ws(), &RunQuery { limit: 1, ..RunQuery::default() }).unwrap();
    assert_eq!(listed[0], b.store.run(&b.ws(), run).unwrap().unwrap());
}

pub fn runs_are_found_by_flow(b: &Bench) {
    let of = |namespace: &str, id: &str| b.start(AdmitRequest { flow: FlowRef::new(namespace, id), ..b.event() });
    let (a, c, d) = (of("shop", "order"), of("shop", "refund"), of("bank", "order"));
    let by = |namespace: Option<&str>, id: Option<&str>| {
        find(b, RunQuery { namespace: namespace.map(Into::into), flow_id: id.map(Into::into), ..RunQuery::default() })
    };
    assert_eq!(by(Some("shop"), Some("order")), [a]);
    assert_eq!(by(Some("shop"), None), [c, a]);
    assert_eq!(by(None, Some("order")), [d, a]);
    assert!(by(Some("sho"), None).is_empty());
}

pub fn runs_are_found_by_status(b: &Bench) {
    let ended: Vec<RunId> = [EndStatus::Completed, EndStatus::Failed, EndStatus::Cancelled]
        .map(|s| {
            let r = b.start(b.event());
            b.end(r, s);
            r
        })
        .into();
    let open = b.start(b.event());
    let by = |statuses: &[Status]| find(b, RunQuery { statuses: statuses.to_vec(), ..RunQuery::default() });
    assert_eq!(by(&[Status::Completed]), [ended[0]]);
    assert_eq!(by(&[Status::Failed]), [ended[1]]);
    assert_eq!(by(&[Status::Running]), [open]);
    assert_eq!(by(&[Status::Cancelled, Status::Completed, Status::Completed]), [ended[2], ended[0]]);
    assert_eq!(by(&Status::ALL), [open, ended[2], ended[1], ended[0]]);
    let page = RunQuery {
        statuses: vec![Status::Completed, Status::Failed, Status::Running],
        limit: 2,
        ..RunQuery::default()
    };
    assert_eq!(find(b, page.clone()), [open, ended[1]]);
    assert_eq!(find(b, RunQuery { before: Some(ended[1]), ..page }), [ended[0]]);
}

pub fn runs_are_found_by_all_their_labels(b: &Bench) {
    let with = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        b.start(AdmitRequest { labels, ..b.event() })
    };
    let both = with(&[("team", "red"), ("tier", "1")]);
    let one = with(&[("team", "red")]);
    with(&[("team", "blue"), ("tier", "1")]);
    let by = |labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        find(b, RunQuery { labels, ..RunQuery::default() })
    };
    assert_eq!(by(&[("team", "red")]), [one, both]);
    assert_eq!(by(&[("team", "red"), ("tier", "1")]), [both]);
    assert_eq!(by(&[("tier", "1"), ("team", "red")]), [both]);
    assert!(by(&[("team", "green")]).is_empty());
    let paged = RunQuery { labels: vec![("team".into(), "red".into())], before: Some(one), ..RunQuery::default() };
    assert_eq!(find(b, paged), [both]);
    let failed =
        RunQuery { labels: vec![("team".into(), "red".into())], statuses: vec![Status::Failed], ..RunQuery::default() };
    assert!(find(b, failed).is_empty());
}

pub fn runs_are_found_by_key(b: &Bench) {
    let run = b.start(b.keyed("order-1"));
    b.start(b.keyed("order-2"));
    assert_eq!(find(b, RunQuery { key: Some("order-1".into()), ..RunQuery::default() }), [run]);
    assert!(find(b, RunQuery { key: Some("order".into()), ..RunQuery::default() }).is_empty());
}

pub fn runs_are_found_by_correlation(b: &Bench) {
    let own = b.start(b.event());
    let batch = b.start(AdmitRequest { correlation_id: Some("batch".into()), ..b.event() });
    let child = b.start(AdmitRequest { correlation_id: Some(own.to_string()), ..b.event() });
    let by = |id: String| find(b, RunQuery { correlation_id: Some(id), ..RunQuery::default() });
    assert_eq!(by("batch".into()), [batch]);
    assert_eq!(by(own.to_string()), [child, own]);
    assert!(by(batch.to_string()).is_empty());
}

pub fn runs_are_found_by_parent(b: &Bench) {
    let parent = b.start(b.event());
    let child = |b: &Bench| {
        let link = ParentRef { run: parent, step: StepKey("s".into()), waits: false };
        b.start(AdmitRequest { parent: Some(link), ..b.event() })
    };
    let (one, two) = (child(b), child(b));
    assert_eq!(find(b, RunQuery { parent: Some(parent), ..RunQuery::default() }), [two, one]);
}

pub fn runs_are_found_by_time(b: &Bench) {
    let start = b.now();
    let runs: Vec<RunId> = (0..3)
        .map(|_| {
            let run = b.start(b.event());
            b.pass(10);
            run
        })
        .collect();
    let between = |from: i64, to: i64| {
        find(
            b,
            RunQuery { created_from: Some(start.plus(from)), created_to: Some(start.plus(to)), ..RunQuery::default() },
        )
    };
    assert_eq!(between(0, 11), [runs[1], runs[0]]);
    assert_eq!(between(10, 20), [runs[1]], "from is inside, to is not");
    assert_eq!(between(21, 99), []);
}

pub fn the_journal_is_read_in_pages(b: &Bench) {
    let run = b.start(b.event());
    for _ in 0..4 {
        b.commit(RunCommit { events: b"[]".to_vec(), ..b.step(run) });
    }
    let seqs = |after, limit| -> Vec<u64> {
        b.store.journal(&b.ws(), run, after, limit).unwrap().iter().map(|row| row.seq).collect()
    };
    assert_eq!((seqs(0, 2), seqs(2, 100), seqs(5, 100)), (vec![1, 2], vec![3, 4, 5], vec![]));
    assert_eq!(seqs(u64::MAX, 1), [0_u64; 0]);
}

pub fn decisions_are_filtered_and_paged(b: &Bench) {
    let one = b.start(b.keyed("a"));
    b.admit(b.keyed("a"));
    b.start(b.keyed("b"));
    b.start(AdmitRequest { flow: FlowRef::new("bank", "pay"), ..b.event() });
    let seqs = |query: DecisionQuery| -> Vec<u64> {
        let limit = if query.limit == 0 { 100 } else { query.limit };
        b.store.decisions(&b.ws(), &DecisionQuery { limit, ..query }).unwrap().iter().map(|d| d.seq).collect()
    };
    assert_eq!(seqs(DecisionQuery::default()), [4, 3, 2, 1]);
    assert_eq!(seqs(DecisionQuery { run: Some(one), ..DecisionQuery::default() }), [2, 1]);
    assert_eq!(seqs(DecisionQuery { claim: Some(claim_of(&b.ws(), "a").hash), ..DecisionQuery::default() }), [2, 1]);
    assert_eq!(seqs(DecisionQuery { key: Some("b".into()), ..DecisionQuery::default() }), [3]);
    assert_eq!(seqs(DecisionQuery { flow: Some(FlowRef::new("bank", "pay")), ..DecisionQuery::default() }), [4]);
    assert_eq!(
        seqs(DecisionQuery { decisions: vec![Decision::Attach, Decision::Replay], ..DecisionQuery::default() }),
        [2]
    );
    assert_eq!(seqs(DecisionQuery { before: Some(4), limit: 2, ..DecisionQuery::default() }), [3, 2]);
}

pub fn claims_are_filtered_and_paged(b: &Bench) {
    let run = b.start(b.keyed("a"));
    b.ended("b", EndStatus::Completed);
    b.ended("c", EndStatus::Failed);
    let keys = |query: ClaimQuery| -> Vec<String> {
        let limit = if query.limit == 0 { 100 } else { query.limit };
        let mut found: Vec<String> = b
            .store
            .claims(&b.ws(), &ClaimQuery { limit, ..query })
            .unwrap()
            .into_iter()
            .filter_map(|c| c.key)
            .collect();
        found.sort();
        found
    };
    assert_eq!(keys(ClaimQuery::default()), ["a", "b", "c"]);
    assert_eq!(keys(ClaimQuery { key: Some("b".into()), ..ClaimQuery::default() }), ["b"]);
    assert_eq!(keys(ClaimQuery { run: Some(run), ..ClaimQuery::default() }), ["a"]);
    assert_eq!(
        keys(ClaimQuery { states: vec![ClaimState::Live, ClaimState::Failed], ..ClaimQuery::default() }),
        ["a", "c"]
    );
    assert_eq!(keys(ClaimQuery { scope: Some("flow:shop:order".into()), ..ClaimQuery::default() }), ["a", "b", "c"]);
    assert_eq!(keys(ClaimQuery { scope: Some("workspace".into()), ..ClaimQuery::default() }), [""; 0]);
    let first = b.store.claims(&b.ws(), &ClaimQuery { limit: 1, ..ClaimQuery::default() }).unwrap();
    let rest =
        b.store.claims(&b.ws(), &ClaimQuery { after: Some(first[0].hash), limit: 9, ..ClaimQuery::default() }).unwrap();
    assert_eq!(rest.len(), 2);
    assert!(first[0].hash < rest[0].hash && rest[0].hash < rest[1].hash);
}

pub fn flows_are_listed_by_name(b: &Bench) {
    for (namespace, id, source) in [("b", "x", "1"), ("a", "y", "1"), ("a", "x", "1"), ("a", "x", "2")] {
        push(b, flow(b.ws(), namespace, id, source), vec![]);
    }
    let names =
        |rows: Vec<FlowRow>| -> Vec<(String, u32)> { rows.iter().map(|r| (r.flow.to_string(), r.revision)).collect() };
    let all = names(b.store.flows(&b.ws(), None, 9).unwrap());
    assert_eq!(all, [("a:x".into(), 2), ("a:y".into(), 1), ("b:x".into(), 1)]);
    assert_eq!(names(b.store.flows(&b.ws(), Some(&FlowRef::new("a", "x")), 1).unwrap()), all[1..2]);
    assert_eq!(names(b.store.flows_named(&b.ws(), "x").unwrap()), [("a:x".into(), 2), ("b:x".into(), 1)]);
}

pub fn namespaces_of_keys_are_listed(b: &Bench) {
    assert!(b.store.kv_namespaces(&b.ws()).unwrap().is_empty());
    for (namespace, key) in [("shop.eu", "a"), ("shop", "a"), ("shop", "b")] {
        b.call(Work::KvSet {
            workspace: b.ws(),
            namespace: namespace.into(),
            key: key.into(),
            value: json!(1),
            kv_type: "NUMBER".into(),
            overwrite: true,
            ttl_ms: None,
        });
    }
    assert_eq!(b.store.kv_namespaces(&b.ws()).unwrap(), ["shop", "shop.eu"]);
    assert!(b.store.kv_namespaces(&other_ws()).unwrap().is_empty());
    for id in ["one", "two", "one"] {
        push(b, flow(b.ws(), "shop", id, &format!("{id}{:?}", b.id())), vec![]);
    }
    b.call(Work::DeleteFlow { workspace: b.ws(), flow: FlowRef::new("shop", "two"), by: "me".into() });
    assert_eq!(b.store.flow_names(&b.ws()).unwrap(), [FlowRef::new("shop", "one"), FlowRef::new("shop", "two")]);
}

pub fn logs_are_searched(b: &Bench) {
    let line = |run, seq, level: &str, message: &str| LogRow {
        run,
        seq,
        at: b.now(),
        level: level.into(),
        step: StepKey("log".into()),
        message: message.into(),
    };
    let runs: Vec<RunId> =
        ["order", "report"].map(|id| b.start(AdmitRequest { flow: FlowRef::new("shop", id), ..b.event() })).into();
    b.commit(RunCommit {
        logs: vec![line(runs[0], 1, "INFO", "Paid 4%"), line(runs[0], 2, "ERROR", "no")],
        ..b.step(runs[0])
    });
    b.pass(5);
    b.commit(RunCommit { logs: vec![line(runs[1], 1, "INFO", "sent")], ..b.step(runs[1]) });
    let search = |query: LogQuery| {
        let limit = if query.limit == 0 { 10 } else { query.limit };
        let (rows, total) = b.store.log_search(&b.ws(), &LogQuery { limit, ..query }).unwrap();
        (rows.into_iter().map(|(flow, row)| format!("{} {}", flow.id, row.message)).collect::<Vec<_>>(), total)
    };
    let all = ["report sent", "order no", "order Paid 4%"].map(str::to_owned);
    assert_eq!(search(LogQuery::default()), (all.to_vec(), 3), "newest first");
    let page = LogQuery { oldest_first: true, skip: 1, limit: 1, ..LogQuery::default() };
    assert_eq!(search(page), (vec![all[1].clone()], 3), "the total does not depend on the page");
    assert_eq!(search(LogQuery { skip: 9, ..LogQuery::default() }), (vec![], 3));
    let found = |query| search(query).0;
    assert_eq!(found(LogQuery { run: Some(runs[1]), ..LogQuery::default() }), all[..1]);
    let flows = |ids: &[&str]| Some(ids.iter().map(|id| FlowRef::new("shop", *id)).collect());
    assert_eq!(found(LogQuery { flows: flows(&["order"]), ..LogQuery::default() }), all[1..]);
    assert_eq!(found(LogQuery { flows: flows(&[]), ..LogQuery::default() }), [""; 0]);
    assert_eq!(found(LogQuery { levels: vec!["WARN", "ERROR"], ..LogQuery::default() }), all[1..2]);
    assert_eq!(found(LogQuery { text: Some("PAID 4%".into()), ..LogQuery::default() }), all[2..]);
    assert_eq!(found(LogQuery { from: Some(b.now()), ..LogQuery::default() }), all[..1]);
    assert_eq!(found(LogQuery { to: Some(b.now()), ..LogQuery::default() }), all[1..]);
    assert_eq!(b.store.log_search(&other_ws(), &LogQuery { limit: 9, ..LogQuery::default() }).unwrap(), (vec![], 0));
}

pub fn active_runs_are_listed_in_pages(b: &Bench) {
    let runs: Vec<RunId> = (0..4).map(|_| b.start(b.event())).collect();
    b.end(runs[1], EndStatus::Completed);
    let ids = |after, limit| -> Vec<RunId> {
        b.store.active_runs(after, limit).unwrap().into_iter().map(|(_, id)| id).collect()
    };
    assert_eq!(ids(None, 9), [runs[0], runs[2], runs[3]]);
    assert_eq!(ids(Some(runs[0]), 1), [runs[2]]);
    assert_eq!(b.store.active_runs(None, 1).unwrap(), [(b.ws(), runs[0])]);
}

pub fn an_empty_store_answers(b: &Bench) {
    let id = b.id();
    assert!(b.store.load_run(&b.ws(), id).unwrap().is_none() && b.store.run(&b.ws(), id).unwrap().is_none());
    assert!(b.store.flow(&b.ws(), &FlowRef::new("a", "b"), None).unwrap().is_none());
    assert_eq!((b.store.next_timer().unwrap(), b.store.next_schedule().unwrap()), (None, None));
    assert_eq!(b.store.token("t").unwrap(), None);
    assert!(b.store.health().is_ok());
}

pub fn a_dump_has_every_table(b: &Bench) {
    let dump = b.dump();
    let tables: Vec<&String> = dump.as_object().unwrap().keys().collect();
    let expected = [
        "claims",
        "lanes",
        "runs",
        "run_values",
        "labels",
        "journal",
        "snapshots",
        "timers",
        "errands",
        "effects",
        "task_words",
        "logs",
        "inbox",
        "files",
        "chunks",
        "uploads",
        "decisions",
        "kv",
        "flows",
        "schedules",
        "changes",
        "secrets",
        "tokens",
        "workspaces",
    ];
    assert_eq!(tables, expected);
    assert!(dump.as_object().unwrap().values().all(|rows| *rows == json!([])));
}
