//! Searches: every field, every operation, exact totals.

use super::bench::Bench;
use crate::search::*;
use crate::*;
use semel_core::run::{EndStatus, KestraState, StateOf, StepKey};
use semel_core::{FlowRef, RunId};

fn find(b: &Bench, search: RunSearch) -> Vec<RunId> {
    let (page, total) = b.store.search_runs(&b.ws(), &RunSearch { limit: 100, ..search }).unwrap();
    assert_eq!(page.len() as u64, total);
    page.into_iter().map(|(row, _, _)| row.id).collect()
}

fn field(field: Field, test: TextTest) -> RunSearch {
    RunSearch { fields: vec![FieldTest { field, test, not: false }], ..RunSearch::default() }
}

fn not(mut search: RunSearch) -> RunSearch {
    search.fields.iter_mut().for_each(|test| test.not = true);
    search
}

fn labels(test: LabelTest) -> RunSearch {
    RunSearch { labels: vec![test], ..RunSearch::default() }
}

fn any(groups: Vec<Vec<RunSearch>>) -> RunSearch {
    RunSearch { groups, ..RunSearch::default() }
}

fn pair(name: &str, value: &str) -> Label {
    (name.to_owned(), value.to_owned())
}

pub fn runs_are_searched_by_every_field(b: &Bench) {
    let of = |namespace: &str, id: &str| AdmitRequest { flow: FlowRef::new(namespace, id), ..b.event() };
    let one = b.start(AdmitRequest { labels: vec![pair("team", "Red"), pair("tier", "1")], ..of("a.b", "pay") });
    let two = b.start(AdmitRequest {
        labels: vec![pair("team", "blue")],
        correlation_id: Some("order-7".into()),
        key: b.keyed("k,1 (x)").key,
        ..of("a", "refund")
    });
    let link = ParentRef { run: one, step: StepKey("s".into()), waits: false };
    let three = b.start(AdmitRequest { parent: Some(link), ..of("ab", "pay") });
    let list = |texts: &[&str]| TextTest::In(texts.iter().map(|text| text.to_string()).collect());
    for (search, expected) in [
        (field(Field::Namespace, list(&["a"])), vec![two]),
        (field(Field::Namespace, list(&[])), vec![]),
        (not(field(Field::Namespace, list(&[]))), vec![three, two, one]),
        (not(field(Field::Namespace, list(&["a", "ab"]))), vec![one]),
        (field(Field::Namespace, TextTest::Prefix("a".into())), vec![two, one]),
        (field(Field::Namespace, TextTest::StartsWith("a".into())), vec![three, two, one]),
        (field(Field::Namespace, TextTest::EndsWith("b".into())), vec![three, one]),
        (field(Field::Namespace, TextTest::EndsWith("long-name".into())), vec![]),
        (field(Field::FlowId, TextTest::Contains("a".into())), vec![three, one]),
        (field(Field::FlowId, TextTest::Contains("%".into())), vec![]),
        (field(Field::Id, list(&[&two.to_string(), "nonsense"])), vec![two]),
        (field(Field::Id, TextTest::StartsWith(three.to_string())), vec![three]),
        (field(Field::Parent, list(&[&one.to_string()])), vec![three]),
        (field(Field::Parent, TextTest::EndsWith(one.to_string()[20..].to_owned())), vec![three]),
        (not(field(Field::Parent, list(&[&one.to_string()]))), vec![]),
        (field(Field::FlowId, TextTest::Glob("p*y".into())), vec![three, one]),
        (field(Field::FlowId, TextTest::Glob("*f*n*".into())), vec![two]),
        (field(Field::FlowId, TextTest::Glob("pay".into())), vec![three, one]),
        (field(Field::FlowId, TextTest::Glob("p*".into())), vec![three, one]),
        (field(Field::FlowId, TextTest::Glob("pa?".into())), vec![]),
        (field(Field::FlowId, TextTest::Glob("P*".into())), vec![]),
        (field(Field::FlowId, TextTest::Glob("%".into())), vec![]),
        (field(Field::FlowId, TextTest::Glob("_ay".into())), vec![]),
        (field(Field::FlowId, TextTest::Glob("[p]ay".into())), vec![]),
        (field(Field::FlowId, TextTest::Glob("paypay*".into())), vec![]),
        (not(field(Field::FlowId, TextTest::Glob("p*".into()))), vec![two]),
        (field(Field::Correlation, list(&["order-7"])), vec![two]),
        (field(Field::Correlation, TextTest::Glob("order-*".into())), vec![two]),
        (not(field(Field::Correlation, list(&["other"]))), vec![two]),
        (field(Field::Correlation, list(&[&one.to_string()])), vec![]),
        (field(Field::Key, list(&["k,1 (x)"])), vec![two]),
        (field(Field::Key, TextTest::Glob("k*".into())), vec![two]),
        (not(field(Field::Key, list(&["other"]))), vec![two]),
        (RunSearch { words: Some("K,1".into()), ..RunSearch::default() }, vec![two]),
        (
            any(vec![vec![
                field(Field::Id, list(&[&one.to_string()])),
                labels(LabelTest::Any(vec![pair("team", "blue")])),
            ]]),
            vec![two, one],
        ),
        (
            any(vec![
                vec![field(Field::FlowId, list(&["pay"])), field(Field::FlowId, list(&["refund"]))],
                vec![
                    any(vec![vec![field(Field::Key, TextTest::Glob("k*".into()))]]),
                    field(Field::Namespace, list(&["ab"])),
                ],
            ]),
            vec![three, two],
        ),
        (any(vec![vec![]]), vec![]),
        (RunSearch { words: Some("ORDER".into()), ..RunSearch::default() }, vec![two]),
        (RunSearch { words: Some("pay".into()), ..RunSearch::default() }, vec![three, one]),
        (RunSearch { words: Some(one.to_string()), ..RunSearch::default() }, vec![one]),
        (RunSearch { is_child: Some(true), ..RunSearch::default() }, vec![three]),
        (RunSearch { is_child: Some(false), ..RunSearch::default() }, vec![two, one]),
        (RunSearch { text: Some("REF".into()), ..RunSearch::default() }, vec![two]),
        (RunSearch { text: Some(one.to_string().to_uppercase()), ..RunSearch::default() }, vec![one]),
        (labels(LabelTest::All(vec![pair("team", "Red"), pair("tier", "1")])), vec![one]),
        (labels(LabelTest::All(vec![pair("team", "Red"), pair("tier", "2")])), vec![]),
        (labels(LabelTest::Any(vec![pair("team", "blue"), pair("tier", "1")])), vec![two, one]),
        (labels(LabelTest::None(vec![pair("team", "blue"), pair("x", "y")])), vec![three, one]),
        (labels(LabelTest::Contains("RED".into())), vec![one]),
        (labels(LabelTest::All(vec![pair(CORRELATION_LABEL, "order-7")])), vec![two]),
        (labels(LabelTest::None(vec![pair(CORRELATION_LABEL, "order-7")])), vec![three, one]),
        (labels(LabelTest::All(vec![pair(CORRELATION_LABEL, &one.to_string())])), vec![one]),
        (labels(LabelTest::Contains("ORDER-7".into())), vec![two]),
        (labels(LabelTest::Contains("correlationid".into())), vec![three, two, one]),
    ] {
        let shown = format!("{search:?}");
        assert_eq!(find(b, search), expected, "{shown}");
    }
    let mut flows = b.store.flows_with_runs(&b.ws()).unwrap();
    flows.sort();
    assert_eq!(flows, [FlowRef::new("a", "refund"), FlowRef::new("a.b", "pay"), FlowRef::new("ab", "pay")]);
}

pub fn a_search_has_pages_an_order_and_an_exact_total(b: &Bench) {
    let start = |id: &str| {
        b.pass(10);
        b.start(AdmitRequest { flow: FlowRef::new("n", id), ..b.event() })
    };
    let runs = [start("c"), start("a"), start("b"), start("a")];
    b.pass(5);
    b.end(runs[2], EndStatus::Completed);
    b.pass(50);
    b.end(runs[3], EndStatus::Failed);
    let sorted = |sort: &[(SortBy, bool)]| {
        let sort = sort.iter().map(|(by, descending)| Sort { by: *by, descending: *descending }).collect();
        find(b, RunSearch { sort, now: b.now(), ..RunSearch::default() })
    };
    let at = |order: [usize; 4]| order.map(|n| runs[n]);
    assert_eq!(sorted(&[]), at([3, 2, 1, 0]));
    assert_eq!(sorted(&[(SortBy::Id, false)]), at([0, 1, 2, 3]));
    assert_eq!(sorted(&[(SortBy::Start, true)]), at([3, 2, 1, 0]));
    assert_eq!(sorted(&[(SortBy::FlowId, false), (SortBy::Start, false)]), at([1, 3, 2, 0]));
    assert_eq!(sorted(&[(SortBy::End, false)]), at([2, 3, 1, 0]), "what has not ended is last");
    assert_eq!(sorted(&[(SortBy::End, true)]), at([1, 0, 3, 2]));
    assert_eq!(sorted(&[(SortBy::Duration, false)]), at([2, 3, 1, 0]));
    assert_eq!(sorted(&[(SortBy::State, false)]), at([3, 1, 0, 2]));
    assert_eq!(sorted(&[(SortBy::Update, true)]), at([3, 2, 1, 0]));
    assert_eq!(sorted(&[(SortBy::Correlation, false), (SortBy::Id, false)]), at([0, 1, 2, 3]));
    let page = |offset, limit| {
        let search = RunSearch { offset, limit, ..RunSearch::default() };
        let (page, total) = b.store.search_runs(&b.ws(), &search).unwrap();
        (page.into_iter().map(|(row, _, _)| row.id).collect::<Vec<_>>(), total)
    };
    assert_eq!(page(0, 3), (vec![runs[3], runs[2], runs[1]], 4));
    assert_eq!(page(3, 3), (vec![runs[0]], 4));
    assert_eq!(page(4, 3), (vec![], 4));
    assert_eq!(page(0, 0), (vec![], 4));
    let (whole, _) = b.store.search_runs(&b.ws(), &RunSearch { limit: 1, ..RunSearch::default() }).unwrap();
    assert_eq!(whole[0], b.store.run(&b.ws(), runs[3]).unwrap().unwrap());
}

pub fn states_and_instants_are_searched_for(b: &Bench) {
    let begin = b.now();
    let [done, failed, killed, doubtful, open] = [(); 5].map(|()| {
        b.pass(10);
        b.start(b.event())
    });
    b.pass(100);
    b.end(done, EndStatus::Completed);
    b.end(failed, EndStatus::Failed);
    b.end(killed, EndStatus::Cancelled);
    b.end_in_doubt(doubtful);
    let by = |states: &[KestraState]| {
        find(b, RunSearch { states: Some(states.iter().copied().collect()), ..RunSearch::default() })
    };
    assert_eq!(by(&[KestraState::Success]), [done]);
    assert_eq!(by(&[KestraState::Failed]), [doubtful, failed]);
    assert_eq!(by(&[KestraState::Killed, KestraState::Running]), [open, killed]);
    assert_eq!(by(&[KestraState::Created]), []);
    assert_eq!(by(&[]), []);
    assert_eq!(by(&KestraState::ALL), [open, doubtful, killed, failed, done]);
    let when = |of: &[When], tests: &[(Cmp, i64)]| {
        let tests = tests.iter().map(|(cmp, ms)| (*cmp, begin.plus(*ms))).collect();
        find(b, RunSearch { intervals: vec![Interval { of: of.to_vec(), tests }], ..RunSearch::default() })
    };
    assert_eq!(when(&[When::Start], &[(Cmp::Ge, 20), (Cmp::Lt, 40)]), [killed, failed]);
    assert_eq!(when(&[When::Start], &[(Cmp::Eq, 10)]), [done]);
    assert_eq!(when(&[When::Start], &[(Cmp::Ne, 10), (Cmp::Le, 20)]), [failed]);
    assert_eq!(when(&[When::End], &[(Cmp::Gt, 0)]), [doubtful, killed, failed, done]);
    assert_eq!(when(&[When::Start, When::End], &[(Cmp::Gt, 45)]), [open, doubtful, killed, failed, done]);
    assert_eq!(when(&[], &[]), []);
    assert_eq!(when(&[When::Update], &[(Cmp::Ge, 150)]), [doubtful, killed, failed, done]);
    let stands = |heads: Vec<StateOf>| find(b, RunSearch { heads: Some(heads), ..RunSearch::default() });
    let head = |run: RunId| b.head(run).state_of();
    assert_eq!(stands(vec![head(done), head(killed)]), [killed, done]);
    assert_eq!(stands(vec![]), []);
    let timed_out = StateOf { conclusion: Some(semel_core::run::Conclusion::TimedOut), ..head(failed) };
    assert_eq!(stands(vec![timed_out]), []);
}

pub fn runs_are_found_by_words_of_their_tasks(b: &Bench) {
    let word = |of: WordOf, text: &str| TaskWord { of, text: text.to_owned() };
    let [one, two, untold, again, _none] = [(); 5].map(|()| b.start(b.event()));
    for (run, words) in [
        (one, vec![word(WordOf::Name, "charge"), word(WordOf::Id, "01"), word(WordOf::Trouble, "FAILED")]),
        (two, vec![word(WordOf::Name, "char%e"), word(WordOf::Name, "ship")]),
        (untold, vec![word(WordOf::Untold, "")]),
        (again, vec![word(WordOf::UntoldId, ""), word(WordOf::Reference, "charge")]),
    ] {
        b.commit(RunCommit { task_words: words.clone(), ..b.step(run) });
        // Said again, and a second one beside it.
        let more = words.into_iter().chain([word(WordOf::Kind, "SIMPLE")]).collect();
        b.commit(RunCommit { task_words: more, ..b.step(run) });
    }
    let by = |tests: Vec<(WordOf, TextTest)>| {
        let task_words = tests.into_iter().map(|(of, test)| WordTest { of, test, untold: true }).collect();
        find(b, RunSearch { task_words, ..RunSearch::default() })
    };
    let list = |texts: &[&str]| TextTest::In(texts.iter().map(|text| text.to_string()).collect());
    assert_eq!(by(vec![(WordOf::Name, list(&["charge"]))]), [untold, one]);
    assert_eq!(by(vec![(WordOf::Name, list(&["charge", "ship"]))]), [untold, two, one]);
    assert_eq!(by(vec![(WordOf::Name, TextTest::Glob("char*e".into()))]), [untold, two, one]);
    assert_eq!(by(vec![(WordOf::Name, TextTest::Glob("char%*".into()))]), [untold, two]);
    assert_eq!(by(vec![(WordOf::Name, TextTest::Contains("hip".into()))]), [untold, two]);
    assert_eq!(by(vec![(WordOf::Kind, list(&["SIMPLE"]))]), [again, untold, two, one]);
    assert_eq!(by(vec![(WordOf::Name, list(&["ship"])), (WordOf::Trouble, list(&["FAILED"]))]), [untold]);
    assert_eq!(by(vec![(WordOf::Id, list(&["01"]))]), [again, untold, one], "an id may be one that nobody was told of");
    assert_eq!(by(vec![(WordOf::Id, list(&[]))]), [again, untold]);
    let told = WordTest { of: WordOf::Id, test: list(&["01"]), untold: false };
    assert_eq!(find(b, RunSearch { task_words: vec![told], ..RunSearch::default() }), [again, one]);
    let either = vec![vec![
        RunSearch {
            task_words: vec![WordTest { of: WordOf::Name, test: list(&["ship"]), untold: true }],
            ..RunSearch::default()
        },
        field(Field::Id, TextTest::In(vec![one.to_string()])),
    ]];
    assert_eq!(find(b, any(either)), [untold, two, one]);
}
